"""Asks a language model about documents, and stores its answers in the docstore."""

from collections.abc import Mapping, Sequence
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

Prompts = Mapping[str, Sequence[Prompt[Any]]]
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
    stored = yield from compute(_read_stored, docstore, prompts)
    _, unanswered = _sort(model, prompts, stored)
    reason = ""
    for batch in batches(unanswered, _PROMPTS_PER_ROUND * settings.max_concurrency):
        tasks = [ask(settings, prompt) for _, prompt in batch]
        outcomes = yield from concurrently(tasks, settings.max_concurrency)
        records = {}
        for (key, prompt), outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Failure):
                reason = outcome.reason
                continue
            stored[key][_digest(model, prompt)] = outcome.model_dump()
            records[answers_key(key)] = Document("", metadata={"answers": stored[key]})
        if not records:
            break
        with during("writing a model's answers to the docstore"):
            yield from compute_to_the_end(docstore.mset, list(records.items()))
        advance(len(batch))
    answers, unanswered = _sort(model, prompts, stored)
    if unanswered:
        total = sum(map(len, prompts.values()))
        warn(
            f"{model} gave no usable answer to {len(unanswered)} of {total} prompts for headers. "
            "Headers are made without them; add the documents again to retry. Last failure: "
            f"{reason}"
        )
    return answers


def _read_stored(docstore: DocStore, prompts: Prompts) -> dict[str, dict[str, Any]]:
    """Read the stored answers of documents, by digest; a corrupt record has none."""
    records = read_records(docstore, [answers_key(key) for key in prompts])
    stored = {}
    for key in prompts:
        metadata = getattr(records[answers_key(key)], "metadata", {})
        stored[key] = dict(metadata.get("answers", {}))
    return stored


def _sort(
    model: str, prompts: Prompts, stored: Mapping[str, Mapping[str, Any]]
) -> tuple[Answers, list[tuple[str, Prompt[Any]]]]:
    """Return the stored answers, and the prompts without a usable one."""
    answers: Answers = {}
    unanswered = []
    for key, prompts_of_document in prompts.items():
        answers[key] = {}
        for prompt in prompts_of_document:
            try:
                answer = prompt.read(stored[key].get(_digest(model, prompt)))
            except ValueError:
                unanswered.append((key, prompt))
            else:
                answers[key] |= answer.model_dump()
    return answers, unanswered


def _digest(model: str, prompt: Prompt[Any]) -> str:
    return digest(model, prompt.instructions, prompt.request)


def _name_of(llm: object) -> str:
    """Return the class and name of a model."""
    for attribute in ("model_name", "model", "model_id"):
        name = getattr(llm, attribute, None)
        if isinstance(name, str):
            return f"{type(llm).__name__}/{name}"
    return f"{type(llm).__name__}/"
