"""``langchain-rse query``: asks a knowledge base."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from langchain_core.documents import Document

from langchain_rse.cli.answers import explain_nothing, print_answer
from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase
from langchain_rse.cli.options import name_options
from langchain_rse.cli.output import AsJson, print_error, print_json, print_text
from langchain_rse.cli.questions import Question, check_question
from langchain_rse.cli.selection import (
    Config,
    Hybrid,
    Penalty,
    Preset,
    ScoreFloor,
    filter_of,
    settings,
)


class Order(str, Enum):
    """In which order passages are printed."""

    DOCUMENT = "document"
    RELEVANCE = "relevance"


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

Budget = Annotated[int, typer.Option(min=0, help="At most this many characters in total.")]
_ORDER = "document: as passages stand there, or relevance: the best first."
_REPORT = "Write an HTML page with the chunks and why, to try."
Report = Annotated[Path | None, typer.Option(dir_okay=False, help=_REPORT)]


def query(
    question: Question,
    kb: Folder,
    *,
    k: Annotated[int, typer.Option("--k", min=1, help="At most this many passages.")] = 5,
    max_context_length: Budget = 16_000,
    preset: Preset = None,
    irrelevant_chunk_penalty: Penalty = None,
    hybrid: Hybrid = None,
    filter: Conditions = None,  # noqa: A002 - the name of the argument in Python
    order: Annotated[Order, typer.Option(help=_ORDER)] = Order.DOCUMENT,
    config: Config = None,
    score_floor: ScoreFloor = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Print the passages that answer a question.

    Each is a segment, text as it stands in its document. Its value is the sum over its chunks of
    weight x (credited relevance - penalty), minus the cost of a segment: weight is the length over
    the average, credited relevance the chunk's own with that of its neighbors, from 0 to 1.
    --report shows them for each chunk. The exit status is 1 if nothing is returned.

    Example: langchain-rse query "What drove gross margin?" --kb library --k 3
    """
    from langchain_rse import TraceCollector

    check_question(question)
    if report:
        _check_report(report)
    fields = settings(config, preset, irrelevant_chunk_penalty, hybrid, score_floor)
    conditions = filter or []
    if len(conditions) > 1 and fields.get("hybrid"):
        raise typer.BadParameter("only one is allowed with --hybrid", param_hint="--filter")
    opened = KnowledgeBase.existing(kb, **fields)
    collector = TraceCollector()
    segments = opened.retriever.invoke(
        question,
        {"callbacks": [collector]},
        k=k,
        max_context_length=max_context_length,
        order=order.value,
        filter=filter_of(conditions, opened.find_source),
    )
    trace = collector.traces[-1]
    say = _print_note if as_json else print_text
    if as_json:
        print_json([_fields_of(segment) for segment in segments])
    elif segments:
        print_answer(trace, segments)
    if not segments:
        say(name_options(explain_nothing(trace, conditions), query))
    if report:
        trace.to_html(report)
        say(f"Written to {report}")
    if not segments:
        raise typer.Exit(1)


def _print_note(text: str) -> None:
    """Print a line on stderr, since JSON is on stdout."""
    print_error(text, "")


def _check_report(report: Path) -> None:
    """Raise an error before the query if the report cannot be written after it."""
    from langchain_rse.explaining import load_report

    load_report()
    if not report.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {report.parent}", param_hint="--report")


def _fields_of(segment: Document) -> dict[str, Any]:
    return {
        "id": segment.id,
        "page_content": segment.page_content,
        "metadata": segment.metadata,
    }
