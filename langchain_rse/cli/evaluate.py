"""``langchain-rse evaluate``: measures segments and chunks on questions with evidence."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase
from langchain_rse.cli.output import AsJson, print_json, print_text
from langchain_rse.cli.selection import Config, Hybrid, Penalty, Preset, settings


def evaluate(
    kb: Folder,
    questions: Annotated[
        Path,
        typer.Option(
            help='JSON Lines, {"question": ..., "evidence": [{"doc_id": ..., "text": ...}]}, or '
            "CSV with these columns. A document may be given by the name of its file.",
            exists=True,
            dir_okay=False,
        ),
    ],
    *,
    budget: Annotated[
        list[int] | None, typer.Option(min=1, help="Characters that may be returned; repeatable.")
    ] = None,
    trials: Annotated[
        int, typer.Option("--tune", min=0, help="Also search this many sets of parameters.")
    ] = 0,
    save_config: Annotated[
        Path | None,
        typer.Option(dir_okay=False, writable=True, help="Write what --tune finds, for --config."),
    ] = None,
    preset: Preset = None,
    penalty: Penalty = None,
    hybrid: Hybrid = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much of the evidence for questions is returned: segments beside chunks."""
    from langchain_rse import evaluation

    if save_config and not trials:
        raise ValueError("--save-config writes what --tune finds: give --tune N as well")
    opened = KnowledgeBase.existing(kb, **settings(config, preset, penalty, hybrid))
    asked = [
        replace(one, evidence=[replace(e, doc_id=opened.find(e.doc_id)) for e in one.evidence])
        for one in evaluation.load_questions(questions)
    ]
    retriever = opened.retriever
    options: dict[str, Any] = {"show_progress": sys.stderr.isatty()}
    options |= {"budgets": budget} if budget else {}
    tuning = evaluation.tune(retriever, asked, trials=trials, **options) if trials else None
    if save_config and tuning:
        tuning.to_file(save_config)
    # Chunks fill the budget, so they are compared with segments that fill it.
    full = "segments, filling the budget"
    plain = opened.vectorstore.as_retriever(search_kwargs={"k": retriever.fetch_k})
    segments = evaluation.evaluate(retriever, asked, name="segments", **options)
    measure = partial(evaluation.evaluate, questions=segments.questions, **options)  # located
    filled = measure(retriever=retriever, name=full, irrelevant_chunk_penalty=0)
    chunks = measure(retriever=plain, name="chunks")
    reports, comparison = [segments, filled, chunks], filled.compare(chunks)
    if as_json:
        tuned = tuning and tuning.to_dict()
        found = {"comparison": comparison.to_dict(), "tuning": tuned}
        print_json({"reports": [report.to_dict() for report in reports], **found})
        return
    for table in filter(None, (*reports, comparison, tuning)):
        print_text(f"\n{table}", lines=True)
