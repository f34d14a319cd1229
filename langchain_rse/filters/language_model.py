"""LMBasedRelevanceFilter: a language model judges chunks in batches."""

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from pydantic import BaseModel, Field, model_validator
from typing_extensions import Self, override

from langchain_rse._asking import Failure, LanguageModelSettings, Question, ask, quote
from langchain_rse._compressing import Compressor
from langchain_rse._sync import Steps, batches, concurrently
from langchain_rse._templates import check_template, fill
from langchain_rse.stores.records import (
    IS_RELEVANT,
    RELEVANCE_EXPLANATION,
    RELEVANCE_FAILURE,
    RELEVANCE_SCORE,
)

logger = logging.getLogger(__name__)

_INSTRUCTIONS = """\
You judge whether chunks of documents help to answer a query. A chunk is relevant if it holds \
the answer or a part of it, or what is needed to understand or check it. That it is about the same \
subject is not enough.

Give one judgment for each chunk, in the order of the chunks: first an explanation of a sentence, \
then is_relevant."""

_EXAMPLE = '{"judgments": [{"explanation": "...", "is_relevant": true}]}'


class Judgment(BaseModel):
    """What the model says of one chunk."""

    explanation: str = Field(description="In a sentence: what the chunk has to do with the query.")
    is_relevant: bool = Field(description="Whether the chunk helps to answer the query.")


class Judgments(BaseModel):
    """What the model says of a batch of chunks."""

    judgments: list[Judgment] = Field(description="One for each chunk, in their order.")


class LMBasedRelevanceFilter(LanguageModelSettings, Compressor):
    """Keeps the documents that a language model judges relevant to the query.

    Kept documents are copies, in the order given, with the model's ``relevance_explanation``,
    ``is_relevant: True`` and ``relevance_score: 1.0`` in their metadata. Segments of an
    `RSERetriever` with this reranker show the first two; equal scores leave weighing to the ranks.

    A batch that the model still does not judge after all retries is kept or dropped whole, and a
    warning is logged. Its documents, if kept, have the reason as ``relevance_failure``, and None as
    ``relevance_explanation`` and ``is_relevant``.

    Raises:
        ValueError: At construction, if a parameter is out of range or unknown, or if
            ``chunk_format`` names a field that is not in ``metadata``.
    """

    batch_size: Annotated[int, Field(ge=1, strict=True)] = 10
    """The most documents that one call of the model judges."""
    on_failure_keep_all: bool = True
    """True to keep all documents of a batch that failed, False to drop them."""
    metadata: Sequence[str] | None = None
    """The metadata fields that ``{metadata}`` shows, and that ``chunk_format`` may name.
    None: ``{metadata}`` shows none, and ``chunk_format`` may name any."""
    chunk_format: str | Callable[[Document], str] = "{metadata}\n\n{content}"
    """The text of a document that the model sees: a function of the document, or a format string in
    which ``{content}`` stands for its text, ``{metadata}`` for lines ``name: value`` of the fields
    in ``metadata``, and any other name for the value of that field, if it has one."""

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        if isinstance(self.chunk_format, str):
            names = ("content", "metadata")
            check_template("chunk_format", self.chunk_format, names, self.metadata)
        return self

    @override
    def _compress(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None
    ) -> Steps[list[Document]]:
        some = batches(documents, self.batch_size)
        kept = yield from concurrently(
            [self._judge(batch, query, callbacks) for batch in some], self.max_concurrency
        )
        return list(itertools.chain.from_iterable(kept))

    def _judge(
        self, batch: Sequence[Document], query: str, callbacks: Callbacks | None
    ) -> Steps[list[Document]]:
        """Judge a batch; return the documents that are kept."""
        chunks = [quote("chunk", self._shown(d), number) for number, d in enumerate(batch, 1)]
        request = [quote("query", query), *chunks, f"Judgments to give: {len(batch)}."]
        read = partial(_read, count=len(batch))
        question = Question("\n\n".join(request), _INSTRUCTIONS, read, Judgments, _EXAMPLE)
        outcome = yield from ask(self, question, callbacks)
        if not isinstance(outcome, Failure):
            return [
                _with(document, {IS_RELEVANT: True, RELEVANCE_EXPLANATION: judgment.explanation})
                for document, judgment in zip(batch, outcome, strict=True)
                if judgment.is_relevant
            ]
        done = "kept" if self.on_failure_keep_all else "dropped"
        message = "a batch could not be judged; its %d documents are %s: %s"
        logger.warning(message, len(batch), done, outcome.reason)
        failure = {
            IS_RELEVANT: None,
            RELEVANCE_EXPLANATION: None,
            RELEVANCE_FAILURE: outcome.reason,
        }
        return [_with(document, failure) for document in batch if self.on_failure_keep_all]

    def _shown(self, document: Document) -> str:
        """Format a document for the model."""
        if callable(self.chunk_format):
            return self.chunk_format(document)
        known = {name: v for name, v in document.metadata.items() if v is not None}
        lines = [f"{name}: {known[name]}" for name in self.metadata or () if name in known]
        values = {**known, "metadata": "\n".join(lines), "content": document.page_content}
        return fill(self.chunk_format, values).strip()


def _read(answer: Judgments, count: int) -> list[Judgment]:
    if len(answer.judgments) != count:
        raise ValueError(f"the answer has {len(answer.judgments)} judgments, not {count}")
    return answer.judgments


def _with(document: Document, judgment: Mapping[str, object]) -> Document:
    """Copy a document with its judgment, without the failure of an earlier filter."""
    kept = {name: v for name, v in document.metadata.items() if name != RELEVANCE_FAILURE}
    return document.model_copy(update={"metadata": {**kept, **judgment, RELEVANCE_SCORE: 1.0}})
