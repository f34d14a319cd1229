"""A language model's answers about documents, kept in the docstore beside them."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.documents import Document
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse._asking import Failure, LanguageModelSettings, Question, ask
from langchain_rse._messages import warn
from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, batches, call, concurrently, during
from langchain_rse.stores.changing import DocStore, read_records
from langchain_rse.stores.records import DocumentVersion, answers_key, digest

K = TypeVar("K", bound=Hashable)

_ANSWERS = TypeAdapter(dict[str, str | list[tuple[NonNegativeInt, str]]])

# Answers are written after this many questions for each that may be under way.
_ROUND = 4


def ask_about(
    documents: Sequence[DocumentVersion],
    questions: Sequence[Mapping[K, Question[Any]]],
    docstore: DocStore,
    settings: LanguageModelSettings,
    advance: Advance,
) -> Steps[list[dict[K, Any]]]:
    """Return the answers to the questions about each document; warn if some are missing.

    A document has one record in the docstore, with its answers by digest of model and question:
    only what is not there is asked. After a round without a single answer, nothing more is.
    """
    model, limit = _name_of(settings.llm), settings.max_concurrency
    keys = [answers_key(document.key) for document in documents]
    records = yield from read_records(docstore, keys)
    kept = [_answers_in(records[key]) for key in keys]
    asked = [
        (place, name, question, digest(model, question.instructions, question.request))
        for place, of_document in enumerate(questions)
        for name, question in of_document.items()
    ]
    new = [entry for entry in asked if entry[-1] not in kept[entry[0]]]
    reason = ""
    for some in batches(new, _ROUND * limit):
        tasks = [ask(settings, question) for _, _, question, _ in some]
        outcomes = yield from concurrently(tasks, limit)
        changed = {}
        for (place, _, _, key), outcome in zip(some, outcomes, strict=True):
            if isinstance(outcome, Failure):
                reason = outcome.reason
            else:
                kept[place][key] = outcome
                changed[keys[place]] = Document("", metadata={"answers": kept[place]})
        if not changed:
            break
        with during("writing a model's answers to the docstore"):
            yield from call(docstore.mset, docstore.amset, list(changed.items()))
        advance(len(some))
    answers: list[dict[K, Any]] = [{} for _ in questions]
    for place, name, _, key in asked:
        if key in kept[place]:
            answers[place][name] = kept[place][key]
    if missing := len(asked) - sum(map(len, answers)):
        warn(
            f"headers lack {missing} of {len(asked)} answers of {model}, the last because of "
            f"{reason}. They are made without; add the documents again to ask for these answers"
        )
    return answers


def _answers_in(record: object) -> dict[str, Any]:
    """The answers in a record; none if it cannot be read: then the model is asked again."""
    try:
        return _ANSWERS.validate_python(getattr(record, "metadata", {}).get("answers", {}))
    except ValidationError:
        return {}


def _name_of(llm: object) -> str:
    """A model's class and name, which tell its answers from those of others."""
    names = (getattr(llm, name, None) for name in ("model_name", "model", "model_id"))
    name = next((name for name in names if isinstance(name, str)), "")
    return f"{type(llm).__name__}/{name}"
