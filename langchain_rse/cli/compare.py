"""``langchain-rse compare``: segments beside the best chunks, in the same amount of text."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase
from langchain_rse.cli.output import print_text
from langchain_rse.cli.selection import Config, Hybrid, Penalty, Preset, settings

if TYPE_CHECKING:
    from langchain_rse.explaining.side_by_side import Kind, SideBySide

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
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question.")],
    kb: Folder,
    *,
    max_context_length: Annotated[
        int, typer.Option(min=1, help="At most this many characters on each side.")
    ] = 4_000,
    preset: Preset = None,
    penalty: Penalty = None,
    hybrid: Hybrid = None,
    config: Config = None,
    html: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write an HTML page with both sides.")
    ] = None,
) -> None:
    """Ask a knowledge base, and show what its best chunks lack in the same amount of text.

    Lines with + have text that only the segments have, lines with - what only the chunks have.
    Example: langchain-rse compare "What drove gross margin?" --kb library --html both.html
    """
    fields = settings(config, preset, penalty, hybrid)
    retriever = KnowledgeBase.existing(kb, **fields).retriever
    comparison = retriever.compare(question, max_context_length=max_context_length)
    print_comparison(comparison)
    if html:
        comparison.to_html(html)
        print_text(f"Written to {html}")


def print_comparison(comparison: "SideBySide", most_lines: int | None = None) -> None:
    """Print a comparison; of the segments at most some lines, from where the chunks lack text."""
    from langchain_rse.explaining.side_by_side import PREFIXES

    lines = list(comparison.lines())
    if most_lines is not None:
        lines = _shorten(lines, most_lines)
    for kind, line in lines:
        print_text(f"{PREFIXES.get(kind, '')}{line}".rstrip(), _STYLES.get(kind, ""))


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
    return [*head, shown[0], *shown[start : start + most]]
