"""``langchain-rse compare``: passages and top-k chunks of the same length, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase
from langchain_rse.cli.options import (
    FILE,
    Budget,
    Config,
    Folder,
    Penalty,
    Question,
    Settings,
    settings,
)
from langchain_rse.cli.output import print_text, width_of_lines

if TYPE_CHECKING:
    from langchain_rse.explaining import Kind, Piece, SideBySide

    Line = tuple[Kind, str]

CHARACTERS = 4_000  # of each side
_STYLES = {
    "title": "bold",
    "strip": "cyan",
    "place": "dim",
    "only": "bold green",
    "other": "yellow",
}


def compare(
    question: Question,
    kb: Folder,
    *,
    max_context_length: Budget = CHARACTERS,
    irrelevant_chunk_penalty: Penalty = None,
    config: Config = None,
    assignments: Settings = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar=FILE, dir_okay=False, help="Also write both sides as an HTML page."),
    ] = None,
) -> None:
    """Compare passages with the top-k chunks.

    Both answers have the same length. Each document has two strips that show where its chunks and
    its passages are. Below them are the passages, then the chunks, both in full: + marks text that
    only the passages have, and - text that only the chunks have.

    Example: langchain-rse compare "What drove gross margin?" --kb library --html both.html
    """
    fields = settings(config, assignments, irrelevant_chunk_penalty=irrelevant_chunk_penalty)
    comparison = compared(KnowledgeBase.existing(kb, **fields), question, max_context_length)
    print_lines(list(comparison.lines(width_of_lines())))
    if html:
        comparison.to_html(html)
        print_text(f"Written to {html}")


def compared(opened: KnowledgeBase, question: str, characters: int) -> SideBySide:
    """Compare both answers to a question, with the short names of the documents."""
    comparison = opened.retriever.compare(question, max_context_length=characters)
    return replace(
        comparison,
        passages=_named(comparison.passages, opened.names),
        other=_named(comparison.other, opened.names),
    )


def _named(pieces: Sequence[Piece], names: Mapping[str, str]) -> list[Piece]:
    return [piece._replace(name=names.get(piece.doc_id or "", piece.name)) for piece in pieces]


def print_lines(lines: Sequence[Line]) -> None:
    """Print lines of a comparison."""
    from langchain_rse.explaining import PREFIXES

    for kind, line in lines:
        print_text(f"{PREFIXES.get(kind, '')}{line}".rstrip(), _STYLES.get(kind, ""))
