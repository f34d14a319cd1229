"""Asks a language model about documents, and stores its answers in the docstore."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from langchain_core.documents import Document

from langchain_rse._asking import Failure, LanguageModelSettings, Prompt, ask
from langchain_rse._messages import warn
from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, batches, compute, compute_to_the_end, concurrently, during
from langchain_rse.stores.compare_and_set import DocStore, read_records
from langchain_rse.stores.records import answers_key, digest

# Answers are written after this many prompts per concurrent call.
_PROMPTS_PER_ROUND = 4

Prompts = Mapping[str, Prompt[Any]]
"""Prompts by document key."""
Answers = dict[str, dict[str, str]]
"""The fields of usable answers, by document key."""


def collect_answers(
    settings: LanguageModelSettings, prompts: Prompts, docstore: DocStore, advance: Advance
) -> Steps[Answers]:
    """Read answers from the docstore; ask the unanswered prompts and store their answers.

    A round without an answer is the last one. One warning counts the prompts that stay unanswered.
    """
    model = _name_of(settings.llm)
    names = {}  # of the answers in their records
    for key, prompt in prompts.items():
        names[key] = digest(model, prompt.instructions, prompt.request)
    answers = yield from compute(_read_stored, docstore, prompts, names)
    reason = ""
    unanswered = [key for key in prompts if key not in answers]
    for keys in batches(unanswered, _PROMPTS_PER_ROUND * settings.max_concurrency):
        tasks = [ask(settings, prompts[key]) for key in keys]
        outcomes = yield from concurrently(tasks, settings.max_concurrency)
        records = []
        for key, outcome in zip(keys, outcomes, strict=True):
            if isinstance(outcome, Failure):
                reason = outcome.reason
                continue
            answers[key] = outcome.model_dump()
            records.append((answers_key(key), Document("", metadata={names[key]: answers[key]})))
        if not records:
            break
        with during("writing a model's answers to the docstore"):
            yield from compute_to_the_end(docstore.mset, records)
        advance(len(keys))
    if len(answers) < len(prompts):
        warn(
            f"{model} gave no usable answer for {len(prompts) - len(answers)} of {len(prompts)} "
            "documents. Their headers are made without it; add the documents again to retry. Last "
            f"failure: {reason}"
        )
    return answers


def _read_stored(docstore: DocStore, prompts: Prompts, names: Mapping[str, str]) -> Answers:
    """Read the usable answers in the docstore; a corrupt record has none."""
    records = read_records(docstore, [answers_key(key) for key in prompts])
    answers = {}
    for key, prompt in prompts.items():
        record = records[answers_key(key)]
        if isinstance(record, Document):
            with suppress(ValueError):
                answers[key] = prompt.read(record.metadata.get(names[key])).model_dump()
    return answers


def _name_of(llm: object) -> str:
    """Return the class and name of a model."""
    for attribute in ("model_name", "model", "model_id"):
        name = getattr(llm, attribute, None)
        if isinstance(name, str):
            return f"{type(llm).__name__}/{name}"
    return f"{type(llm).__name__}/"
