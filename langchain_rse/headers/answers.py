"""Asks a language model about documents, and keeps its answers in the docstore."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse._asking import Failure, LanguageModelSettings, Prompt, ask
from langchain_rse._messages import warn
from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, batches, compute, compute_to_the_end, concurrently, during
from langchain_rse.stores.compare_and_set import DocStore, read_records
from langchain_rse.stores.records import answers_key, digest
from langchain_rse.text.quoting import one_line

Answer = str | list[tuple[NonNegativeInt, str]]
"""A line of text; or the first lines of sections, in a window of the text, with their titles."""

_ANSWERS = TypeAdapter(dict[str, Answer])

# Answers are written after this many prompts for each call that may run at the same time.
_PROMPTS_PER_ROUND = 4

_LONGEST_TITLE = 200
_LABEL = re.compile(r"^(?:document |section )?(?:title|summary)\s*:\s*", re.IGNORECASE)
_QUOTES_AND_MARKDOWN = "\"'`*#_\u201c\u201d\u2018\u2019 \t"
_REFUSAL = re.compile(
    r"i(?:['\u2019]m| am) (?:sorry|unable|not)|sorry\b|i can(?:not|['\u2019]?t)\b|unable to"
    r"|as an ai\b|no (?:title|summary)\b|(?:n/?a|none|unknown)$",
    re.IGNORECASE,
)


@dataclass
class DocumentAnswers:
    """The prompts about a document, and the model's answers that the docstore keeps."""

    record_key: str  # of the answers in the docstore
    model: str  # its name, to tell its answers from those of other models
    prompts: Mapping[str, Prompt[Any]]  # by what they ask for, such as "title"
    stored: dict[str, Answer]  # by digest of model and prompt; also of earlier prompts

    def _digest(self, name: str) -> str:
        prompt = self.prompts[name]
        return digest(self.model, prompt.instructions, prompt.request)

    def get(self, name: str) -> Answer | None:
        """Return the answer to a prompt; None if there is no such prompt or no answer."""
        if name not in self.prompts:
            return None
        return self.stored.get(self._digest(name))

    def set(self, name: str, answer: Answer) -> None:
        """Add the answer to a prompt."""
        self.stored[self._digest(name)] = answer

    def unanswered(self) -> list[str]:
        """List the names of prompts without an answer."""
        return [name for name in self.prompts if self.get(name) is None]

    def to_record(self) -> Document:
        """Make the docstore's record."""
        return Document("", metadata={"answers": _ANSWERS.dump_python(self.stored, mode="json")})


def collect_answers(
    settings: LanguageModelSettings,
    prompts: Mapping[str, Mapping[str, Prompt[Any]]],
    docstore: DocStore,
    advance: Advance,
) -> Steps[list[DocumentAnswers]]:
    """Read answers from the docstore; ask the other prompts and write their answers to it.

    ``prompts`` are by the documents' keys. One warning counts prompts that are still unanswered.
    """
    model = _name_of(settings.llm)
    records = yield from compute(read_records, docstore, [answers_key(key) for key in prompts])
    documents = []
    for key, document_prompts in prompts.items():
        record_key = answers_key(key)
        stored = _answers_in(records[record_key])
        documents.append(DocumentAnswers(record_key, model, document_prompts, stored))
    reason = yield from _ask_unanswered(settings, documents, docstore, advance)
    total = sum(len(document.prompts) for document in documents)
    missing = sum(len(document.unanswered()) for document in documents)
    if missing:
        warn(
            f"headers lack {missing} of {total} answers of {model}; the last failure: {reason}. "
            "They are made without these; add the documents again to ask again"
        )
    return documents


def _answers_in(record: object) -> dict[str, Answer]:
    """The answers in a record; empty if it cannot be read, so that the model is asked again."""
    metadata = getattr(record, "metadata", {})
    try:
        return _ANSWERS.validate_python(metadata.get("answers", {}))
    except ValidationError:
        return {}


def _ask_unanswered(
    settings: LanguageModelSettings,
    documents: Sequence[DocumentAnswers],
    docstore: DocStore,
    advance: Advance,
) -> Steps[str]:
    """Ask in rounds, until one brings no answer; return the reason of the last failure."""
    unanswered = []
    for document in documents:
        unanswered += [(document, name) for name in document.unanswered()]
    reason = ""
    for batch in batches(unanswered, _PROMPTS_PER_ROUND * settings.max_concurrency):
        tasks = [ask(settings, document.prompts[name]) for document, name in batch]
        outcomes = yield from concurrently(tasks, settings.max_concurrency)
        records = {}
        for (document, name), outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Failure):
                reason = outcome.reason
            else:
                document.set(name, outcome)
                records[document.record_key] = document.to_record()
        if not records:
            break
        with during("writing a model's answers to the docstore"):
            yield from compute_to_the_end(docstore.mset, list(records.items()))
        advance(len(batch))
    return reason


def _name_of(llm: object) -> str:
    """A model's class and name."""
    for attribute in ("model_name", "model", "model_id"):
        name = getattr(llm, attribute, None)
        if isinstance(name, str):
            return f"{type(llm).__name__}/{name}"
    return f"{type(llm).__name__}/"


def read_line(text: str, longest: int = 500) -> str:
    """Read an answer of one line, without quotation marks, Markdown and a label such as "Title:".

    Raises:
        ValueError: If it is not one line of at most ``longest`` characters, or says nothing.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1 or len(lines[0]) > longest:
        raise ValueError(
            f"the answer has {len(lines)} lines, not one of at most {longest} characters: {text!r}"
        )
    line = lines[0].strip(_QUOTES_AND_MARKDOWN)
    line = one_line(_LABEL.sub("", line).strip(_QUOTES_AND_MARKDOWN))
    has_letter_or_digit = re.search(r"[^\W_]", line)
    if not has_letter_or_digit or _REFUSAL.match(line):
        raise ValueError(f"the answer says nothing of the text: {text!r}")
    return line


def read_title(text: str) -> str:
    """Like `read_line`, for titles."""
    return read_line(text, longest=_LONGEST_TITLE)
