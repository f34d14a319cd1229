"""``langchain-rse compare``: segments beside the best chunks, in the same amount of text."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase
from langchain_rse.cli.options import name_options
from langchain_rse.cli.output import print_strip, print_text, width_of_lines
from langchain_rse.cli.questions import Question, check_question
from langchain_rse.cli.selection import Config, Hybrid, Penalty, Preset, ScoreFloor, settings

if TYPE_CHECKING:
    from langchain_rse.explaining import Kind, SideBySide

    Line = tuple[Kind, str]

_STYLES = {
    "title": "bold",
    "strip": "cyan",
    "place": "dim",
    "only": "bold green",
    "other": "yellow",
}
# Lines of the passage before the first one that the chunks lack, if only some lines are shown.
_LINES_BEFORE = 3


def compare(
    question: Question,
    kb: Folder,
    *,
    max_context_length: Annotated[
        int, typer.Option(min=1, help="At most this many characters on each side.")
    ] = 4_000,
    preset: Preset = None,
    irrelevant_chunk_penalty: Penalty = None,
    hybrid: Hybrid = None,
    config: Config = None,
    score_floor: ScoreFloor = None,
    html: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write an HTML page with both sides.")
    ] = None,
) -> None:
    """Compare passages with the top-k chunks, side by side.

    Prints both answers to a question in the same number of characters: a strip of each document
    with what each side returns, and the passages (segments), with + in front of text that the best
    chunks lack. Lines with - have what only the chunks have.

    Example: langchain-rse compare "What drove gross margin?" --kb library --html both.html
    """
    check_question(question)
    fields = settings(config, preset, irrelevant_chunk_penalty, hybrid, score_floor)
    retriever = KnowledgeBase.existing(kb, **fields).retriever
    comparison = retriever.compare(question, max_context_length=max_context_length)
    reason = comparison.reason
    if reason is not None and comparison.other:
        comparison = replace(comparison, reason=name_options(reason, compare))
    elif reason is not None:
        comparison = replace(comparison, reason="there is no text in the knowledge base")
    print_comparison(comparison)
    if html:
        comparison.to_html(html)
        print_text(f"Written to {html}")


def print_comparison(comparison: "SideBySide", most_lines: int | None = None) -> None:
    """Print a comparison; of the segments at most some lines, from where the chunks lack text."""
    from langchain_rse.explaining import PREFIXES

    lines = list(comparison.lines(width_of_lines()))
    if most_lines is not None:
        lines = _shorten(lines, most_lines)
    for kind, line in lines:
        style = _STYLES.get(kind, "")
        if kind == "strip":
            print_strip("", line, style)
        else:
            print_text(f"{PREFIXES.get(kind, '')}{line}".rstrip(), style)


def _shorten(lines: Sequence["Line"], most: int) -> list["Line"]:
    """The title and strips, and one run of lines of the first segment that lacks something."""
    head: list[Line] = []
    segments: list[list[Line]] = []  # each with its place as the first line
    for line in lines:
        kind, _ = line
        if kind in {"title", "strip"}:
            head.append(line)
        elif kind == "place":
            segments.append([line])
        elif kind != "other":
            segments[-1].append(line)
    if not segments:
        return head
    shown = segments[0]
    first_only = 1
    for segment in segments:
        kinds = [kind for kind, _ in segment]
        if "only" in kinds:
            shown = segment
            first_only = kinds.index("only")
            break
    start = max(first_only - _LINES_BEFORE, 1)
    end = start + most
    excerpt = shown[start:end]
    if start > 1:
        excerpt.insert(0, ("both", "..."))
    if end < len(shown):
        excerpt.append(("both", "..."))
    return [*head, shown[0], *excerpt]
