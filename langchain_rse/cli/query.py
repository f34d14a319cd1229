"""``langchain-rse query``: prints the passages that answer a question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase
from langchain_rse.cli.options import (
    Budget,
    Config,
    Folder,
    K,
    Penalty,
    Question,
    Settings,
    check_folder,
    filter_of,
    settings,
)
from langchain_rse.cli.output import print_error, print_text, visible_lines

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from langchain_rse import RSETrace

_JSON_FIELDS = {"id", "page_content", "metadata"}  # of a passage


def query(
    question: Question,
    kb: Folder,
    *,
    k: K = 5,
    max_context_length: Budget = 16_000,
    irrelevant_chunk_penalty: Penalty = None,
    config: Config = None,
    assignments: Settings = None,
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="NAME=VALUE",
            help="Search only chunks whose metadata has this value; repeatable, and then all must "
            "match. `--json` shows the metadata; page numbers start at 0. For source, the file "
            "name is enough. Numbers, true and false are read as JSON; quote them to match text: "
            "'code=\"7\"'.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            callback=check_folder,
            help="Write an HTML report: every chunk considered, its scores, and sliders to try "
            "other settings. Needs: pip install 'langchain-rse[report]'",
        ),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Write pictures of the PDF pages of each passage, with the passage marked, into "
            "this folder.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Also explain why chunks were returned or not."),
    ] = False,
) -> None:
    """Print the passages that answer a question, each with its place.

    A passage is a run of neighboring chunks, copied unchanged from its document. The exit status is
    1 if nothing is returned.

    Example: langchain-rse query "What drove gross margin?" --kb library --k 3
    """
    from langchain_rse import TraceCollector

    fields = settings(
        config,
        assignments,
        k=k,
        max_context_length=max_context_length,
        irrelevant_chunk_penalty=irrelevant_chunk_penalty,
    )
    opened = KnowledgeBase.existing(kb, **fields)
    collector = TraceCollector()
    passages = opened.retriever.invoke(
        question, {"callbacks": [collector]}, filter=filter_of(conditions or (), opened.find)
    )
    trace = collector.traces[-1]
    if as_json:
        found = [passage.model_dump(include=_JSON_FIELDS) for passage in passages]
        typer.echo(json.dumps(found, indent=2, default=str))
    elif passages:
        print_passages(trace, passages, opened.names)
    if verbose:
        print_error(str(trace), "")
    if report:
        trace.to_html(report)
        print_error(f"Report written to {report}", "")
    if pages:
        _write_pictures(passages, pages)
    if not passages:
        print_error(f"Nothing returned: {trace.reason}", "")
        if any(check.is_rejected for check in trace.floor_checks):
            print_error("--set score_floor=none prints the nearest passages all the same", "")
        raise typer.Exit(1)


def print_passages(trace: RSETrace, passages: Sequence[Document], names: Mapping[str, str]) -> None:
    """Print passages in their order, each with its place below it."""
    from langchain_rse.text.highlighting import query_words
    from langchain_rse.tools import place_of

    print_text(trace.summary)
    words = query_words(trace.queries)
    for passage in passages:
        text = visible_lines(passage.page_content)
        if words:
            for start, end in words.finditer(text.plain):
                text.stylize("bold cyan", start, end)
        print_text("")
        print_text(text)
        name = names[passage.metadata["doc_id"]]
        place = ", ".join(filter(None, [name, place_of(passage.metadata)]))
        print_text(f"--- {place}", "bold")


def _write_pictures(passages: Sequence[Document], folder: Path) -> None:
    """Draw the pages of the passages of PDFs; a file that has changed costs its own pictures."""
    from langchain_rse.pages import render

    folder.mkdir(parents=True, exist_ok=True)
    for number, passage in enumerate(passages, 1):
        path = passage.metadata["source"]
        try:
            pictures = render(passage, path)
        except (OSError, RuntimeError, ValueError) as error:
            print_error(f"No picture of passage {number}, {path}: {error}")
            continue
        for page, picture in pictures.items():
            picture.save(folder / f"passage-{number}-page-{page + 1}.png")
