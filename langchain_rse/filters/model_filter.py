"""LMBasedRelevanceFilter: a language model judges chunks in batches."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from pydantic import BaseModel, Field, model_validator
from typing_extensions import Self, override

from langchain_rse._asking import Failure, LanguageModelSettings, Prompt, ask, quote
from langchain_rse._compressing import Compressor, with_metadata
from langchain_rse._sync import Steps, batches, concurrently
from langchain_rse._templates import check_template, fill
from langchain_rse.stores.records import (
    IS_RELEVANT,
    RELEVANCE_EXPLANATION,
    RELEVANCE_FAILURE,
    RELEVANCE_SCORE,
)
from langchain_rse.text.quoting import counted

logger = logging.getLogger(__name__)

_INSTRUCTIONS = """\
You judge whether chunks of documents help to answer a query. A chunk is relevant if it holds \
the answer or a part of it, or what is needed to understand or check it. That it is about the same \
subject is not enough.

Give one judgment for each chunk, in the order of the chunks: first an explanation of a sentence, \
then is_relevant."""


class Judgment(BaseModel):
    """What the model says of one chunk."""

    explanation: str = Field(description="In a sentence: what the chunk has to do with the query.")
    is_relevant: bool = Field(description="Whether the chunk helps to answer the query.")


class Judgments(BaseModel):
    """What the model says of a batch of chunks."""

    judgments: list[Judgment] = Field(description="One for each chunk, in their order.")

    def check(self, chunks: int) -> None:
        """Raise a ValueError if there is not one judgment for each chunk."""
        if len(self.judgments) != chunks:
            raise ValueError(f"the answer has {len(self.judgments)} judgments, not {chunks}")


class LMBasedRelevanceFilter(LanguageModelSettings, Compressor):
    """Keeps the documents that a language model judges relevant to the query.

    Kept documents are copies, in the order given, with the model's ``relevance_explanation``,
    ``is_relevant: True`` and ``relevance_score: 1.0`` in their metadata. Segments of an
    `RSERetriever` with this reranker show the first two. As all scores are equal, ranks decide.

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
        tasks = [
            self._judge(batch, query, callbacks) for batch in batches(documents, self.batch_size)
        ]
        kept_by_batch = yield from concurrently(tasks, self.max_concurrency)
        kept = []
        for documents_of_batch in kept_by_batch:
            kept += documents_of_batch
        return kept

    def _judge(
        self, batch: Sequence[Document], query: str, callbacks: Callbacks | None
    ) -> Steps[list[Document]]:
        """Have a batch judged; return copies of the documents to keep."""
        answer = yield from ask(self, self._prompt(batch, query), callbacks)
        if isinstance(answer, Failure):
            return self._after_failure(batch, answer.reason)
        return [
            _with_judgment(document, judgment.explanation, is_relevant=True)
            for document, judgment in zip(batch, answer.judgments, strict=True)
            if judgment.is_relevant
        ]

    def _prompt(self, batch: Sequence[Document], query: str) -> Prompt[Judgments]:
        request = [quote("query", query)]
        for number, document in enumerate(batch, 1):
            request.append(quote("chunk", self._text_of(document), number))
        request.append(f"Judgments to give: {len(batch)}.")
        check = partial(Judgments.check, chunks=len(batch))
        return Prompt(_INSTRUCTIONS, "\n\n".join(request), Judgments, check)

    def _text_of(self, document: Document) -> str:
        """The text of a document that the model sees."""
        if callable(self.chunk_format):
            return self.chunk_format(document)
        values = {field: value for field, value in document.metadata.items() if value is not None}
        fields = [field for field in self.metadata or () if field in values]
        values["metadata"] = "\n".join(f"{field}: {values[field]}" for field in fields)
        values["content"] = document.page_content
        return fill(self.chunk_format, values).strip()

    def _after_failure(self, batch: Sequence[Document], reason: str) -> list[Document]:
        """Log that a batch was not judged; return copies of its documents, or none."""
        action = "kept" if self.on_failure_keep_all else "dropped"
        size = counted(len(batch), "document")
        logger.warning("a batch of %s could not be judged and was %s: %s", size, action, reason)
        if not self.on_failure_keep_all:
            return []
        kept = [_with_judgment(document, None, is_relevant=None) for document in batch]
        for document in kept:
            document.metadata[RELEVANCE_FAILURE] = reason
        return kept


def _with_judgment(
    document: Document, explanation: str | None, *, is_relevant: bool | None
) -> Document:
    """Copy a document with a judgment in its metadata; None stands for no judgment."""
    judged = with_metadata(
        document,
        {IS_RELEVANT: is_relevant, RELEVANCE_EXPLANATION: explanation, RELEVANCE_SCORE: 1.0},
    )
    judged.metadata.pop(RELEVANCE_FAILURE, None)  # of an earlier filter
    return judged
