"""Compressors that keep relevant chunks: by a language model, or by the similarity of vectors."""

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from pydantic import BaseModel, Field
from typing_extensions import override

from langchain_rse._asking import LanguageModelSettings, Prompt, ask, quote
from langchain_rse._compressing import Compressor, best_first, with_metadata
from langchain_rse._sync import Steps, batches, call, concurrently, during
from langchain_rse.config import Share
from langchain_rse.query.candidates import IS_RELEVANT, RELEVANCE_EXPLANATION, RELEVANCE_FAILURE
from langchain_rse.stores.records import RELEVANCE_SCORE
from langchain_rse.text.quoting import counted

logger = logging.getLogger(__name__)

_INSTRUCTIONS = """\
You judge whether chunks of documents help to answer a query. A chunk is relevant if it holds \
the answer or a part of it, or what is needed to understand or check it. That it is about the same \
subject is not enough.

Give one judgment for each chunk, in the order of the chunks: first an explanation of a sentence, \
then is_relevant."""


class Judgment(BaseModel):
    """The model's judgment of one chunk."""

    explanation: str = Field(description="In a sentence: what the chunk has to do with the query.")
    is_relevant: bool = Field(description="Whether the chunk helps to answer the query.")


class Judgments(BaseModel):
    """The model's judgments of a batch of chunks."""

    judgments: list[Judgment] = Field(description="One for each chunk, in their order.")


class LMBasedRelevanceFilter(LanguageModelSettings, Compressor):
    """Keeps the documents that a language model judges relevant to the query.

    Returns copies of the kept documents, in the order given, with the model's
    ``relevance_explanation``, ``is_relevant: True`` and ``relevance_score: 1.0`` in their metadata.
    As the reranker of an `RSERetriever`, it also adds the first two to the chunks of passages; all
    scores are equal, so ranks decide.

    If the model gives no usable judgments of a batch after all retries, the filter keeps or drops
    the whole batch and logs a warning. Kept documents of this batch have the reason as
    ``relevance_failure``, and None as ``relevance_explanation`` and ``is_relevant``.

    Raises:
        ValueError: At construction, if a parameter is out of range or unknown.
    """

    batch_size: int = Field(default=10, ge=1)
    """Maximum number of documents judged in one call of the model."""
    on_failure_keep_all: bool = True
    """True to keep all documents of a failed batch, False to drop them."""
    chunk_format: Callable[[Document], str] = attrgetter("page_content")
    """Formats a document for the model; by default, its text alone."""

    @override
    def _compress(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks
    ) -> Steps[list[Document]]:
        tasks = []
        for batch in batches(documents, self.batch_size):
            tasks.append(self._judge(batch, query, callbacks))
        kept_by_batch = yield from concurrently(tasks, self.max_concurrency)
        return list(itertools.chain.from_iterable(kept_by_batch))

    def _judge(
        self, batch: Sequence[Document], query: str, callbacks: Callbacks
    ) -> Steps[list[Document]]:
        """Let the model judge a batch; return copies of the documents to keep."""
        answer = yield from ask(self, self._prompt(batch, query), callbacks)
        if isinstance(answer, str):
            action = "kept" if self.on_failure_keep_all else "dropped"
            size = counted(len(batch), "document")
            logger.warning("a batch of %s could not be judged and was %s: %s", size, action, answer)
            if not self.on_failure_keep_all:
                return []
            added: dict[str, object] = {
                IS_RELEVANT: None,
                RELEVANCE_EXPLANATION: None,
                RELEVANCE_FAILURE: answer,
            }
            return [_with_judgment(document, added) for document in batch]

        kept = []
        for document, judgment in zip(batch, answer.judgments, strict=True):
            if judgment.is_relevant:
                added = {IS_RELEVANT: True, RELEVANCE_EXPLANATION: judgment.explanation}
                kept.append(_with_judgment(document, added))
        return kept

    def _prompt(self, batch: Sequence[Document], query: str) -> Prompt[Judgments]:
        request = [quote("query", query)]
        for number, document in enumerate(batch, 1):
            request.append(quote("chunk", self.chunk_format(document), number))
        request.append(f"Judgments to give: {len(batch)}.")

        def check(answer: Judgments) -> None:
            given = len(answer.judgments)
            if given != len(batch):
                raise ValueError(f"expected {len(batch)} judgments; got {given}")

        return Prompt(_INSTRUCTIONS, "\n\n".join(request), Judgments, check)


def _with_judgment(document: Document, judgment: Mapping[str, object]) -> Document:
    """Copy a document and add a judgment to its metadata."""
    judged = with_metadata(document, {RELEVANCE_SCORE: 1.0})
    judged.metadata.pop(RELEVANCE_FAILURE, None)  # from an earlier filter
    judged.metadata.update(judgment)
    return judged


class SimilarityBasedRelevanceFilter(Compressor):
    """Keeps the documents whose vectors are similar enough to the query vector.

    Similarity is the cosine of the two vectors, clipped to [0, 1]; it is 0 for a zero vector.
    Returns copies of the kept documents, the most similar first, with the similarity as
    ``relevance_score`` in their metadata. Documents without text are dropped and not embedded.

    Raises:
        ValueError: At construction, if ``threshold`` is not in [0, 1]; at use, if the embeddings do
            not return one finite vector for each text.
    """

    embeddings: Embeddings
    """Embeds the query and the documents."""
    threshold: Share = 0.5
    """Minimum similarity of kept documents, from 0 to 1."""

    @override
    def _compress(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks
    ) -> Steps[list[Document]]:
        documents = [document for document in documents if document.page_content.strip()]
        if not documents:
            return []
        texts = [document.page_content for document in documents]
        model = self.embeddings
        with during(f"embedding the query and {len(texts)} documents"):
            query_vector = yield from call(model.embed_query, model.aembed_query, query)
            vectors = yield from call(model.embed_documents, model.aembed_documents, texts)
        if len(vectors) != len(texts):
            raise ValueError(
                f"embeddings must return one vector for each of {len(texts)} texts; "
                f"got {len(vectors)}"
            )
        table = np.asarray([query_vector, *vectors], dtype=np.float64)
        if not np.isfinite(table).all():
            raise ValueError("embeddings must return finite vectors; got NaN or infinite values")
        lengths = np.linalg.norm(table, axis=1, keepdims=True)
        unit_vectors = table / np.where(lengths > 0, lengths, 1.0)
        cosines = unit_vectors[1:] @ unit_vectors[0]
        # Vectors are often float32: more digits are noise, and equal texts should reach exactly 1.
        similarities = cosines.clip(0.0, 1.0).round(6)
        ranked = best_first(documents, similarities.tolist())
        return [each for each in ranked if each.metadata[RELEVANCE_SCORE] >= self.threshold]
