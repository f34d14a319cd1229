"""``langchain-rse query``: asks a knowledge base."""

from __future__ import annotations

from typing import Annotated

import typer

from langchain_rse.cli.knowledge_base import Folder, open_existing
from langchain_rse.cli.output import console, print_json, print_segment


def query(
    question: Annotated[str, typer.Argument(help="The question.")],
    kb: Folder,
    k: Annotated[int, typer.Option("--k", min=1, help="At most this many segments.")] = 5,
    max_context_length: Annotated[
        int, typer.Option(min=0, help="At most this many characters in total.")
    ] = 16_000,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a knowledge base."""
    retriever = open_existing(kb).retriever
    segments = retriever.invoke(question, k=k, max_context_length=max_context_length)
    if as_json:
        print_json(
            [{"id": s.id, "page_content": s.page_content, "metadata": s.metadata} for s in segments]
        )
        return
    for segment in segments:
        print_segment(segment, full=True)
    if not segments:
        console.print("Nothing relevant was found.")
