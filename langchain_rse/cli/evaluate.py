"""``langchain-rse evaluate``: measures segments and chunks on questions with evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from langchain_rse import evaluation
from langchain_rse.cli.knowledge_base import Folder, document_names, find_document, open_existing
from langchain_rse.cli.output import print_json
from langchain_rse.evaluation import Evidence, Question, load_questions

_BUDGETS = (4_000, 8_000, 16_000)


def evaluate(
    kb: Folder,
    questions: Annotated[
        Path,
        typer.Option(
            help='JSON Lines: {"question": ..., "evidence": [{"doc_id": ..., "start": ..., '
            '"end": ...}]}, in characters. A document may be given by the name of its file.',
            exists=True,
            dir_okay=False,
        ),
    ],
    budget: Annotated[
        list[int] | None, typer.Option(min=1, help="Characters that may be returned; repeatable.")
    ] = None,
    trials: Annotated[
        int, typer.Option("--tune", min=0, help="Also search this many sets of parameters.")
    ] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how much of the evidence for questions is returned: segments beside chunks."""
    opened = open_existing(kb)
    retriever = opened.retriever
    asked = _load(questions, document_names(retriever.docstore))
    options: dict[str, Any] = {"budgets": budget or _BUDGETS, "show_progress": not as_json}
    tuning = evaluation.tune(retriever, asked, trials=trials, **options) if trials else None
    measure = partial(evaluation.evaluate, questions=asked, **options)
    segments = measure(retriever=retriever, name="segments")
    # Chunks fill the budget, so they are compared with segments that fill it.
    filled = measure(
        retriever=retriever, name="segments, filling the budget", irrelevant_chunk_penalty=0
    )
    plain = opened.vectorstore.as_retriever(search_kwargs={"k": retriever.fetch_k})
    chunks = measure(retriever=plain, name="chunks")
    reports, comparison = (segments, filled, chunks), filled.compare(chunks)
    if as_json:
        found = {
            "reports": [report.to_dict() for report in reports],
            "comparison": comparison.to_dict(),
            "tuning": tuning.to_dict() if tuning else None,
        }
        print_json(found)
        return
    for table in (*reports, comparison, *([tuning] if tuning else [])):
        typer.echo(f"\n{table}")


def _load(path: Path, names: Mapping[str, Sequence[str]]) -> list[Question]:
    """Read questions; names of files in their evidence become ids of documents."""

    def with_id(part: Evidence) -> Evidence:
        return Evidence(find_document(part.doc_id, names), part.start, part.end)

    return [
        Question(question.question, [with_id(part) for part in question.evidence])
        for question in load_questions(path)
    ]
