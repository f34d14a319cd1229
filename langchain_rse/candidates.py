"""Candidates: what a vector store or retriever returns, recognized as chunks."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_rse._steps import Steps, call, during
from langchain_rse.config import RSEConfig
from langchain_rse.reading import Layout
from langchain_rse.schema import (
    CHUNK_INDEX,
    DOC_ID,
    RELEVANCE_SCORE,
    VERSION,
    CandidateError,
    CorruptRecordError,
    document_key,
)
from langchain_rse.scoring import Floats, lexical_scores
from langchain_rse.selection import relevance_of

__all__ = [
    "Candidate",
    "Hit",
    "best_documents",
    "grouped",
    "is_current",
    "number_of",
    "recognize",
    "score_of",
    "search",
    "with_relevance",
]

K = TypeVar("K")
T = TypeVar("T")
Candidate = tuple[Document, float | None]
"""A Document and its score, if it has one."""

# Where retrievers and compressors put their scores, the usual name first.
_SCORE_KEYS = (RELEVANCE_SCORE, "score", "similarity_score", "similarity", "_score")


class Hit(NamedTuple):
    """A candidate that was recognized as a chunk."""

    doc_id: str
    key: str
    version: str
    chunk: int
    score: float | None
    text: str
    rank: int = 0
    relevance: float = 0.0


def search(
    store: VectorStore, query: str, fetch_k: int, search_kwargs: Mapping[str, Any]
) -> Steps[list[Candidate]]:
    """Search with scores where the store has them, as it has them.

    Plain scores come first: relevance scores are made from them, by a function that does
    not exist for every metric and warns of values outside [0, 1]. What counts here is
    their order and spread, see `langchain_rse.scoring.calibrate`.
    """
    methods = [
        (store.similarity_search_with_score, store.asimilarity_search_with_score),
        (
            store.similarity_search_with_relevance_scores,
            store.asimilarity_search_with_relevance_scores,
        ),
    ]
    if "score_threshold" in search_kwargs:  # known to relevance scores only
        methods = methods[1:]
    with during(f"searching {type(store).__name__}"):
        for search, asearch in methods:
            try:
                found = yield from call(search, asearch, query, k=fetch_k, **search_kwargs)
            except NotImplementedError:
                continue
            return [(document, number_of(score)) for document, score in found]
        documents = yield from call(
            store.similarity_search, store.asimilarity_search, query, k=fetch_k, **search_kwargs
        )
    return [(document, None) for document in documents]


def score_of(document: Document) -> float | None:
    """The score that a retriever or compressor left in the metadata, if any."""
    for name in _SCORE_KEYS:
        if name in document.metadata:
            return number_of(document.metadata[name])
    return None


def number_of(score: object) -> float | None:
    """A finite number, or None for whatever else stands in the place of a score."""
    if isinstance(score, bool) or not isinstance(score, numbers.Real):
        return None
    return float(score) if math.isfinite(score) else None


def recognize(candidates: Sequence[Candidate]) -> list[Hit]:
    """Recognize the candidates; a chunk that comes twice counts once, at its better rank."""
    hits: dict[tuple[str, str, int], Hit] = {}
    for number, (document, score) in enumerate(candidates):
        doc_id = _identifying(document, DOC_ID, str, number)
        version = _identifying(document, VERSION, str, number)
        chunk = _identifying(document, CHUNK_INDEX, int, number)
        hit = Hit(doc_id, document_key(doc_id), version, chunk, score, document.page_content)
        hits.setdefault((hit.key, version, chunk), hit)
    return list(hits.values())


def _identifying(document: Document, name: str, kind: type[T], number: int) -> T:
    value: Any = document.metadata.get(name)
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # some stores know floats only
    negative = isinstance(value, int) and value < 0
    if not isinstance(value, kind) or isinstance(value, bool) or negative or value == "":
        raise CandidateError(
            f"candidate {number} (id {document.id!r}) has {name}={value!r} in its metadata; RSE "
            "needs to know which chunk of which document it is. Was the index built by other "
            "means? Build it with RSERetriever.add_documents or RSEIndexer; a retriever or "
            "reranker in between must keep the metadata"
        )
    return value


def is_current(hit: Hit, layout: Layout) -> bool:
    """Whether a hit belongs to the version that queries see."""
    if layout.version != hit.version:
        return False
    chunks = layout.manifest.current.chunks if layout.manifest.current else 0
    if hit.chunk >= chunks:
        raise CorruptRecordError(
            f"the vector store has chunk {hit.chunk} of document {hit.doc_id!r}, which has only "
            f"{chunks} chunks according to the docstore. Delete the document and add it again"
        )
    return True


def best_documents(hits: Sequence[Hit], config: RSEConfig) -> set[str]:
    """The keys of the documents that are considered."""
    return {hit.key for hit in hits[: config.top_k_for_document_selection]}


def with_relevance(
    query: str,
    hits: Sequence[Hit],
    config: RSEConfig,
    *,
    reranker: str | None = None,
    lexical: Callable[[str, Sequence[str]], Floats] = lexical_scores,
) -> list[Hit]:
    """The hits in the documents that are considered, with their ranks and relevance.

    Args:
        query: The query.
        hits: All hits, best first, of current versions.
        config: The parameters.
        reranker: Class name of the reranker that gave the order, if one did.
        lexical: Scores texts by the words of the query.
    """
    best = best_documents(hits, config)
    relevance = relevance_of(
        [hit.score for hit in hits],
        config,
        reranker=reranker,
        query=query,
        texts=[hit.text for hit in hits],
        lexical=lexical,
    )
    return [
        hit._replace(rank=rank, relevance=worth)
        for rank, (hit, worth) in enumerate(zip(hits, relevance.tolist(), strict=True))
        if hit.key in best
    ]


def grouped(items: Iterable[T], name: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by name, names in order of appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(name(item), []).append(item)
    return groups
