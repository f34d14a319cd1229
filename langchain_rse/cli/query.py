"""``langchain-rse query``: prints the passages that answer a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase
from langchain_rse.cli.options import (
    AsJson,
    Budget,
    Config,
    Folder,
    K,
    Penalty,
    Question,
    Settings,
    filter_of,
    settings,
)
from langchain_rse.cli.output import (
    print_error,
    print_json,
    print_text,
    visible_lines,
    width_of_lines,
)
from langchain_rse.text.quoting import counted

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from langchain_rse import RSETrace
    from langchain_rse.explaining import DocumentTrace

_FOUND = "  found    "
_RETURNED = "  returned "
_JSON_FIELDS = {"id", "page_content", "metadata"}  # of a passage
_LEGEND = (
    "found = chunks matched by the search (taller = more relevant). "
    "value = amount of relevant text in the passage (see --help)."
)


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
            help="Write an HTML report: every chunk considered, its scores, and sliders to try "
            "other settings. Needs: pip install 'langchain-rse[report]'",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the passages that answer a question.

    A passage is a run of neighboring chunks, copied unchanged from its document. Its value is the
    amount of relevant text in it: the sum over its chunks of length x (relevance - penalty), minus
    a fixed cost per passage. The length is relative to an average chunk; the relevance, 0 to 1,
    includes that of neighboring chunks. --report shows these numbers for each chunk. The exit
    status is 1 if nothing is returned.

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
        print_json([passage.model_dump(include=_JSON_FIELDS) for passage in passages])
    elif passages:
        print_answer(trace, passages, opened.names)
    if report:
        trace.to_html(report)
        print_error(f"Report written to {report}", "")
    if not passages:
        print_error(f"Nothing returned: {trace.reason}", "")
        raise typer.Exit(1)


def print_answer(trace: RSETrace, passages: Sequence[Document], names: Mapping[str, str]) -> None:
    """Print passages in their order, and two strips above the first passage of each document."""
    from langchain_rse.text.highlighting import query_words
    from langchain_rse.tools import place_of

    limit = trace.settings.max_context_length
    count = counted(len(passages), "passage")
    print_text(f"{count}, {trace.spent:,.0f} of at most {limit:,.0f} characters")
    words = query_words(trace.queries)
    documents = {document.doc_id: document for document in trace.documents}
    shown = None
    for passage in passages:
        doc_id = passage.metadata["doc_id"]
        print_text("")
        if doc_id != shown:
            print_text(names[doc_id], "bold")
            _print_strips(documents[doc_id])
            if shown is None:
                print_text(_LEGEND, "dim")
            shown = doc_id
        place = place_of(passage.metadata)
        value = f"value {passage.metadata['relevance_score']:.2f}"
        print_text(f"--- {place}, {value}" if place else f"--- {value}", "bold")
        text = visible_lines(passage.page_content)
        if words:
            for start, end in words.finditer(text.plain):
                text.stylize("bold cyan", start, end)
        print_text(text)


def _print_strips(document: DocumentTrace) -> None:
    """Print two strips of a document: where the search found chunks, and what is returned."""
    from langchain_rse.text.bars import strip_of

    found = []
    for chunk in document.chunks:
        if chunk.candidate is not None and chunk.span is not None:
            found.append((*chunk.span, chunk.relevance))
    returned = [(*passage.span, 1.0) for _, passage in document.returned]
    length = document.length or 1
    cells = width_of_lines() - len(_FOUND)
    print_text(f"{_FOUND}{strip_of(found, length, cells)}", "cyan")
    print_text(f"{_RETURNED}{strip_of(returned, length, cells)}", "green")
