"""``langchain-rse compare``: passages and top-k chunks of the same length, side by side."""

from pathlib import Path
from typing import Annotated

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase
from langchain_rse.cli.options import (
    Budget,
    Config,
    Folder,
    Penalty,
    Question,
    Settings,
    check_folder,
    settings,
)
from langchain_rse.cli.output import print_error, print_text, visible_lines


def compare(
    question: Question,
    kb: Folder,
    *,
    max_context_length: Budget = 4_000,
    irrelevant_chunk_penalty: Penalty = None,
    config: Config = None,
    assignments: Settings = None,
    html: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, callback=check_folder, help="Also write both sides as an HTML page."
        ),
    ] = None,
) -> None:
    """Compare passages with the top-k chunks.

    Both answers have the same length. The passages come first, then the chunks, both in full: +
    marks lines with text that only the passages have, and - those with text that only the chunks
    have.

    Example: langchain-rse compare "What drove gross margin?" --kb library --html both.html
    """
    fields = settings(config, assignments, irrelevant_chunk_penalty=irrelevant_chunk_penalty)
    opened = KnowledgeBase.existing(kb, **fields)
    comparison = opened.retriever.compare(question, max_context_length=max_context_length)
    print_text(visible_lines(str(comparison)))
    if html:
        comparison.to_html(html)
        print_error(f"Written to {html}", "")
