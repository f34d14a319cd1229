"""``langchain-rse query``: asks a knowledge base."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from langchain_core.documents import Document

from langchain_rse._messages import load
from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase
from langchain_rse.cli.output import AsJson, print_json, print_segment, print_text
from langchain_rse.cli.selection import (
    Config,
    Hybrid,
    Penalty,
    Preset,
    ScoreFloor,
    filter_of,
    settings,
)

if TYPE_CHECKING:
    from langchain_rse import RSETrace

Conditions = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="NAME=VALUE",
        help="Search only chunks with this value in their metadata (`inspect` shows it; page "
        'counts from 0); repeatable. Numbers, true and false are taken as such, "7" as text. A '
        "source may be given by the name of its file.",
    ),
]


def query(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question.")],
    kb: Folder,
    *,
    k: Annotated[int, typer.Option("--k", min=1, help="At most this many segments.")] = 5,
    max_context_length: Annotated[
        int, typer.Option(min=0, help="At most this many characters in total.")
    ] = 16_000,
    preset: Preset = None,
    penalty: Penalty = None,
    hybrid: Hybrid = None,
    conditions: Conditions = None,
    order: Annotated[
        str, typer.Option(help="document: as segments stand there, or relevance: the best first.")
    ] = "document",
    config: Config = None,
    score_floor: ScoreFloor = None,
    report: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Write an HTML page with the chunks and why, to try."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a knowledge base; the exit status is 1 if nothing in it is about the question.

    Example: langchain-rse query "What drove gross margin?" --kb library --k 3
    """
    from langchain_rse import TraceCollector

    _check_length(question)
    if report:
        _check_report(report)
    fields = settings(config, preset, penalty, hybrid, score_floor)
    arguments: dict[str, Any] = {
        "k": k,
        "max_context_length": max_context_length,
        "order": order,
    }
    opened = KnowledgeBase.existing(kb, **fields)
    condition = filter_of(conditions or (), opened.find_source)
    if condition:
        arguments["filter"] = condition
    collector = TraceCollector()
    retriever = opened.retriever
    segments = retriever.invoke(question, {"callbacks": [collector]}, **arguments)
    trace = collector.traces[-1]
    if report:
        trace.to_html(report)
    if as_json:
        print_json([_fields_of(segment) for segment in segments])
    else:
        for segment in segments:
            print_segment(segment, question=question)
        last_line = trace.closeness if segments else _say_nothing(trace)
        if last_line:
            print_text(last_line)
        if report:
            print_text(f"Written to {report}")
    if not segments:
        raise typer.Exit(1)


def _say_nothing(trace: "RSETrace") -> str:
    """Say in one sentence that nothing was found; the reason is logged."""
    refused = [reached for reached in trace.reached if reached.refused]
    if not refused:
        return "Nothing was found."
    return (
        f"Nothing in the documents is about this: the nearest passage, in {refused[0].name}, is "
        "too far. --score-floor none returns it."
    )


def _check_length(question: str) -> None:
    """Refuse a question of which not all words would count."""
    from langchain_rse.query.long_queries import MAX_QUERY_LENGTH

    if len(question) > MAX_QUERY_LENGTH:
        raise typer.BadParameter(
            f"it has {len(question):,} characters, and at most {MAX_QUERY_LENGTH:,} are allowed; "
            "ask a shorter question",
            param_hint="QUESTION",
        )


def _check_report(report: Path) -> None:
    """Raise an error before the query if the report cannot be written after it."""
    from langchain_rse.explaining.trace import REPORT

    load(*REPORT)
    if not report.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {report.parent}", param_hint="--report")


def _fields_of(segment: Document) -> dict[str, Any]:
    return {
        "id": segment.id,
        "page_content": segment.page_content,
        "metadata": segment.metadata,
    }
