"""``langchain-rse evaluate``: compares passages with chunks on questions with evidence."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase
from langchain_rse.cli.options import Config, Folder, Penalty, Settings, check_folder, settings
from langchain_rse.cli.output import print_error, print_text, visible_lines


def evaluate(
    kb: Folder,
    questions: Annotated[
        Path,
        typer.Option(
            help='JSON Lines, {"question": ..., "evidence": [{"doc_id": ..., "text": ...}]}, or '
            "CSV with these columns. The file name is enough as doc_id. Evidence that is empty "
            "marks a question that no document answers.",
            exists=True,
            dir_okay=False,
        ),
    ],
    *,
    budgets: Annotated[
        list[int], typer.Option("--budget", min=1, help="Budget in characters; repeatable.")
    ] = [4_000, 8_000, 16_000],  # noqa: B006 - typer reads it only
    trials: Annotated[
        int,
        typer.Option(
            "--tune",
            min=0,
            help="Also try this many parameter sets; 0 for none.",
        ),
    ] = 0,
    save_config: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            callback=check_folder,
            help="Write the parameters that --tune finds to a file for --config.",
        ),
    ] = None,
    irrelevant_chunk_penalty: Penalty = None,
    config: Config = None,
    assignments: Settings = None,
) -> None:
    """Measure retrieval on your questions, and tune it.

    Prints how much of the evidence the passages return, and how much the top-k chunks return within
    the same budget.

    Example: langchain-rse evaluate --questions questions.jsonl --kb library --tune 100
    """
    from langchain_rse.evaluation import evaluate as measure
    from langchain_rse.evaluation import load_questions, tune

    if save_config and not trials:
        raise ValueError("--save-config writes the result of --tune: add --tune N")
    fields = settings(config, assignments, irrelevant_chunk_penalty=irrelevant_chunk_penalty)
    opened = KnowledgeBase.existing(kb, **fields)
    loaded = []
    for question in load_questions(questions):  # with names of documents in place of ids
        evidence = [replace(each, doc_id=opened.find(each.doc_id)) for each in question.evidence]
        loaded.append(replace(question, evidence=evidence))
    retriever = opened.retriever
    options: dict[str, Any] = {"budgets": budgets, "show_progress": sys.stderr.isatty()}
    tuning = tune(retriever, loaded, trials=trials, **options) if trials else None
    if tuning is not None and save_config:
        tuning.to_file(save_config)
        print_error(f"Parameters written to {save_config}", "")

    passages = measure(retriever, loaded, name="passages", **options)
    located = passages.questions  # with quotations located in their documents
    # Chunks fill the budget, so the comparison needs passages that fill it too.
    name = "passages, filling the budget"
    filled = measure(retriever, located, name=name, irrelevant_chunk_penalty=0, **options)
    plain = opened.vectorstore.as_retriever(search_kwargs={"k": retriever.fetch_k})
    chunks = measure(plain, located, name="chunks", **options)
    comparison = filled.compare(chunks)
    for table in (passages, filled, chunks, comparison, tuning):
        if table is not None:
            print_text("")
            print_text(visible_lines(str(table)))
