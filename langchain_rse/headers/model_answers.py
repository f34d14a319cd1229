"""Asks a language model about documents, and stores its answers in the docstore."""

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document
from pydantic import BaseModel

from langchain_rse._asking import Failure, LanguageModelSettings, Prompt, ask
from langchain_rse._messages import warn
from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, batches, compute, compute_to_the_end, concurrently, during
from langchain_rse.stores.compare_and_set import DocStore, read_records
from langchain_rse.stores.records import answers_key, digest

# Answers are written after this many prompts per concurrent call.
_PROMPTS_PER_ROUND = 4


class DocumentAnswers:
    """The prompts about a document, and the answers of a language model.

    Args:
        prompts: The prompts by name, such as "title".
        model: Name of the model; answers of other models are not used.
        record: The docstore's record of earlier answers. A corrupt record is ignored.
    """

    def __init__(
        self, prompts: Mapping[str, Prompt[Any]], model: str, record: object = None
    ) -> None:
        self.prompts = prompts
        self._model = model
        stored = getattr(record, "metadata", {}).get("answers")
        # Answers by digest of model and prompt, including answers to earlier prompts.
        self._stored: dict[str, Any] = dict(stored) if isinstance(stored, dict) else {}

    def get(self, name: str) -> Any:  # noqa: ANN401 - of the class that the prompt asks for
        """Return the answer to a prompt; None without the prompt or a usable answer."""
        prompt = self.prompts.get(name)
        if prompt is None:
            return None
        try:
            return prompt.read(self._stored.get(self._digest(prompt)))
        except ValueError:
            return None

    def add(self, prompt: Prompt[Any], answer: BaseModel) -> None:
        """Add the answer to a prompt."""
        self._stored[self._digest(prompt)] = answer.model_dump()

    def unanswered(self) -> list[Prompt[Any]]:
        """List the prompts without an answer."""
        return [prompt for name, prompt in self.prompts.items() if self.get(name) is None]

    def to_record(self) -> Document:
        """Make the record for the docstore."""
        return Document("", metadata={"answers": dict(self._stored)})

    def _digest(self, prompt: Prompt[Any]) -> str:
        return digest(self._model, prompt.instructions, prompt.request)


def collect_answers(
    settings: LanguageModelSettings,
    prompts: Mapping[str, Mapping[str, Prompt[Any]]],
    docstore: DocStore,
    advance: Advance,
) -> Steps[list[DocumentAnswers]]:
    """Read answers from the docstore; ask the unanswered prompts and store their answers.

    ``prompts`` is by document key. One warning counts the prompts that stay unanswered.
    """
    model = _name_of(settings.llm)
    records = yield from compute(read_records, docstore, [answers_key(key) for key in prompts])
    answers_by_key = {}
    for key, document_prompts in prompts.items():
        record_key = answers_key(key)
        answers = DocumentAnswers(document_prompts, model, records[record_key])
        answers_by_key[record_key] = answers
    reason = yield from _ask_unanswered(settings, answers_by_key, docstore, advance)
    documents = list(answers_by_key.values())
    missing = sum(len(answers.unanswered()) for answers in documents)
    if missing:
        total = sum(len(answers.prompts) for answers in documents)
        warn(
            f"{model} gave no usable answer to {missing} of {total} prompts for headers. Headers "
            "are made without them; add the documents again to retry. Last failure: "
            f"{reason}"
        )
    return documents


def _ask_unanswered(
    settings: LanguageModelSettings,
    answers_by_key: Mapping[str, DocumentAnswers],
    docstore: DocStore,
    advance: Advance,
) -> Steps[str]:
    """Ask in rounds until a round gets no answer; return the reason of the last failure."""
    unanswered = []
    for key, answers in answers_by_key.items():
        unanswered += [(key, prompt) for prompt in answers.unanswered()]
    reason = ""
    for batch in batches(unanswered, _PROMPTS_PER_ROUND * settings.max_concurrency):
        tasks = [ask(settings, prompt) for _, prompt in batch]
        outcomes = yield from concurrently(tasks, settings.max_concurrency)
        records = {}
        for (key, prompt), outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Failure):
                reason = outcome.reason
            else:
                answers_by_key[key].add(prompt, outcome)
                records[key] = answers_by_key[key].to_record()
        if not records:
            break
        with during("writing a model's answers to the docstore"):
            yield from compute_to_the_end(docstore.mset, list(records.items()))
        advance(len(batch))
    return reason


def _name_of(llm: object) -> str:
    """Return the class and name of a model."""
    for attribute in ("model_name", "model", "model_id"):
        name = getattr(llm, attribute, None)
        if isinstance(name, str):
            return f"{type(llm).__name__}/{name}"
    return f"{type(llm).__name__}/"
