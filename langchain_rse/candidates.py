"""Candidates: what a vector store or retriever returns, recognized as chunks."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from langchain_rse._steps import Steps, call, during
from langchain_rse.config import RSEConfig
from langchain_rse.lexical import LexicalStore, check_filter
from langchain_rse.reading import Layout
from langchain_rse.schema import (
    CHUNK_INDEX,
    DOC_ID,
    RELEVANCE_SCORE,
    VERSION,
    CandidateError,
    CorruptRecordError,
    adopted_key,
    document_key,
    judgment_of,
    vector_of,
)
from langchain_rse.scoring import Floats, lexical_scores
from langchain_rse.search_arguments import may_exclude
from langchain_rse.selection import lexical_relevance, relevance_of

__all__ = [
    "Candidate",
    "Found",
    "Hit",
    "best_documents",
    "check_search_kwargs",
    "considered",
    "documents_of",
    "grouped",
    "is_current",
    "number_of",
    "placed",
    "recognize",
    "scored",
    "search",
    "search_words",
    "with_relevance",
    "without_rising_scores",
]

K = TypeVar("K")
T = TypeVar("T")
Candidate = tuple[Document, float | None]
"""A Document and its score, if it has one."""

# Where retrievers put their scores, the usual name first. What is called a score may be a
# distance; of the others, higher is better.
_SCORE = "score"
_SCORE_KEYS = (RELEVANCE_SCORE, _SCORE, "similarity_score", "similarity", "_score")

# Relative to the largest: differences that say nothing, as in `langchain_rse.scoring`.
_NOISE = 1e-6


class Found(NamedTuple):
    """The candidates of a query.

    Attributes:
        candidates: From the vector store or retriever, or the reranker, best first.
        lexical: From the docstore's full-text index, best first.
    """

    candidates: Sequence[Candidate]
    lexical: Sequence[Candidate] = ()

    def first(self, count: int) -> Found:
        """What would have been found with a smaller ``fetch_k``."""
        return Found(self.candidates[:count], self.lexical[:count])

    def documents(self) -> list[Document]:
        """All that was found, what words found only at the end."""
        documents = [document for document, _ in self.candidates]
        seen = self._places(documents)
        return documents + [
            document for document, _ in self.lexical if _place(document, 0) not in seen
        ]

    def reranked(self, candidates: Sequence[Candidate]) -> Found:
        """These candidates in a reranker's order; what it dropped is gone."""
        kept = self._places([document for document, _ in candidates])
        lexical = [found for found in self.lexical if _place(found[0], 0) in kept]
        return Found(candidates, lexical)

    def _places(self, documents: Sequence[Document]) -> set[_Place]:
        """Where documents lie, as far as they have to be told from what words found."""
        if not self.lexical:
            return set()
        return {_place(document, number) for number, document in enumerate(documents)}


class Hit(NamedTuple):
    """A candidate that was recognized as a chunk.

    Attributes:
        doc_id: The document's id.
        key: The document's key in the docstore.
        version: Name of the version it is of.
        chunk: The chunk's number in it.
        text: Its text as it came.
        score: The score, if it has one.
        rank: Its place among the candidates, from 0; None if it was found by words only.
        lexical_score: The score by words, if it was found by them.
        lexical_rank: Its place among those found by words, from 0.
        relevance: What it is worth, see `with_relevance`.
        judgment: What a relevance filter said of it, see `judgment_of`.
    """

    doc_id: str
    key: str
    version: str
    chunk: int
    text: str
    score: float | None = None
    rank: int | None = None
    lexical_score: float | None = None
    lexical_rank: int | None = None
    relevance: float = 0.0
    judgment: Mapping[str, bool | str | None] = MappingProxyType({})


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
            return [(_unjudged(document), number_of(score)) for document, score in found]
        documents = yield from call(
            store.similarity_search, store.asimilarity_search, query, k=fetch_k, **search_kwargs
        )
    return [(_unjudged(document), None) for document in documents]


def _unjudged(document: Document) -> Document:
    """A Document of a store: what a filter said of it before it was indexed is of another query."""
    judgment = judgment_of(document.metadata)
    if not judgment:
        return document
    metadata = {name: value for name, value in document.metadata.items() if name not in judgment}
    return document.model_copy(update={"metadata": metadata})


def documents_of(returned: object, name: str) -> list[Document]:
    """What a retriever or compressor returned, if it is Documents.

    Raises:
        TypeError: If it is not, with the name of what returned it.
    """
    documents = []
    # A Document alone is an iterable as well, of its fields.
    for document in returned if isinstance(returned, Iterable) else [None]:
        if not isinstance(document, Document):
            raise TypeError(f"{name} must return Documents; got {returned!r:.200}")
        documents.append(document)
    return documents


def scored(documents: Sequence[Document]) -> list[Candidate]:
    """Documents with the scores that a retriever left in their metadata.

    They stand under one name in all of them; under different names, they cannot be compared.
    """
    for name in _SCORE_KEYS:
        if all(name in document.metadata for document in documents):
            found = [(document, number_of(document.metadata[name])) for document in documents]
            return found if name == _SCORE else without_rising_scores(found)
    return [(document, None) for document in documents]


def without_rising_scores(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates whose scores are relevances, not distances: those that rise are none."""
    scores = [score for _, score in candidates if score is not None]
    noise = _NOISE * max(map(abs, scores), default=0.0)
    falls = any(after < before - noise for before, after in itertools.pairwise(scores))
    if not scores or len(scores) < len(candidates) or falls or scores[-1] - scores[0] <= noise:
        return list(candidates)
    return [(document, None) for document, _ in candidates]


def number_of(score: object) -> float | None:
    """A finite number, or None for whatever else stands in the place of a score."""
    if isinstance(score, bool) or not isinstance(score, numbers.Real):
        return None
    return float(score) if math.isfinite(score) else None


def search_words(
    store: LexicalStore, query: str, fetch_k: int, search_kwargs: Mapping[str, Any]
) -> Steps[list[Candidate]]:
    """Search the docstore's full-text index, with the filter that the vector store gets."""
    with during(f"searching the full-text index of {type(store).__name__}"):
        found = yield from call(
            store.lexical_search,
            store.alexical_search,
            query,
            fetch_k,
            filter=search_kwargs.get("filter"),
        )
    return [(_unjudged(document), score) for document, score in found]


def check_search_kwargs(search_kwargs: Mapping[str, Any]) -> None:
    """Check that lexical search leaves out what the vector store does.

    Raises:
        ValueError: If there are arguments that may exclude chunks from a vector search and say
            nothing here.
    """
    check_filter(search_kwargs.get("filter"))
    unknown = sorted(may_exclude(search_kwargs).keys() - {"filter"})
    if unknown:
        raise ValueError(
            f"search_kwargs has {', '.join(unknown)}: lexical search does not know what that "
            "excludes. Use filter, a dict of fields and the values they equal, or hybrid=0"
        )


def placed(
    docstore: BaseStore[str, Document], candidates: Sequence[Candidate]
) -> Steps[tuple[list[Candidate], bool]]:
    """Tell candidates of an adopted index which chunks they are, by the ids of their vectors.

    Args:
        docstore: The docstore.
        candidates: The candidates. Those that `RSEIndexer` wrote know what they are; without
            others, nothing is read.

    Returns:
        The candidates with the metadata that they lacked, without those that stand for
        nothing; and whether the docstore knew some of them and not others.
    """
    foreign = {
        number: vector
        for number, (document, _) in enumerate(candidates)
        if VERSION not in document.metadata and (vector := vector_of(document)) is not None
    }
    if not foreign:
        return list(candidates), False
    keys = [adopted_key(vector) for vector in foreign.values()]
    with during("reading from the docstore which chunks the candidates are"):
        records = yield from call(docstore.mget, docstore.amget, keys)
    places = dict(zip(foreign, records, strict=True))
    known: list[Candidate] = []
    for number, (document, score) in enumerate(candidates):
        place = places.get(number)
        if place is None:
            known.append((document, score))
        elif place.metadata.get(DOC_ID) is not None:
            metadata = {**document.metadata, **place.metadata}
            known.append((document.model_copy(update={"metadata": metadata}), score))
    return known, None in records and any(record is not None for record in records)


def recognize(found: Found) -> list[Hit]:
    """Recognize the candidates; a chunk that comes twice counts once, at its better rank."""
    hits: dict[_Place, Hit] = {}
    for number, (document, score) in enumerate(found.candidates):
        place = _place(document, number)
        if place not in hits:
            hits[place] = _hit(place, document, score=score, rank=len(hits))
    for number, (document, score) in enumerate(found.lexical):
        place = _place(document, number)
        hit = hits.get(place)
        if hit is None:
            hits[place] = _hit(place, document, lexical_score=score, lexical_rank=number)
        elif hit.lexical_rank is None:
            hits[place] = hit._replace(lexical_score=score, lexical_rank=number)
    return list(hits.values())


class _Place(NamedTuple):
    """Which chunk of which document a candidate is."""

    doc_id: str
    version: str
    chunk: int


def _place(document: Document, number: int) -> _Place:
    values: dict[str, Any] = document.metadata
    doc_id, version = values.get(DOC_ID), values.get(VERSION)
    chunk: Any = values.get(CHUNK_INDEX)
    # Hundreds a query are as they should be; the others are looked at one by one.
    plain = type(doc_id) is str and type(version) is str and type(chunk) is int
    if plain and doc_id and version and chunk >= 0:
        return _Place(doc_id, version, chunk)
    return _Place(
        _identifying(document, DOC_ID, str, number),
        _identifying(document, VERSION, str, number),
        _identifying(document, CHUNK_INDEX, int, number),
    )


def _hit(place: _Place, document: Document, **found: Any) -> Hit:  # noqa: ANN401 - Hit's own
    doc_id, version, chunk = place
    judgment = judgment_of(document.metadata)
    key, text = document_key(doc_id), document.page_content
    return Hit(doc_id, key, version, chunk, text, judgment=judgment, **found)


def _identifying(document: Document, name: str, kind: type[T], number: int) -> T:
    value: Any = document.metadata.get(name)
    if isinstance(value, np.generic):
        value = value.item()
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # some stores know floats only
    negative = isinstance(value, int) and value < 0
    if not isinstance(value, kind) or isinstance(value, bool) or negative or value == "":
        raise CandidateError(
            f"candidate {number} (id {document.id!r}) has {name}={value!r} in its metadata; RSE "
            "needs to know which chunk of which document it is. Was it written by other means? "
            "Bring such an index in with RSERetriever.from_existing, and again when it has "
            "grown; or write it with RSERetriever.add_documents or RSEIndexer. A retriever or "
            "reranker in between must keep ids and metadata"
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


def considered(hits: Sequence[Hit], config: RSEConfig) -> list[Hit]:
    """The hits in the documents that are considered."""
    best = best_documents(hits, config)
    return [hit for hit in hits if hit.key in best]


def with_relevance(
    query: str,
    hits: Sequence[Hit],
    config: RSEConfig,
    *,
    hybrid: float = 0.0,
    reranker: str | None = None,
    lexical: Callable[[str, Sequence[str]], Floats] = lexical_scores,
) -> list[Hit]:
    """The hits with their ranks and relevance, best first.

    Args:
        query: The query.
        hits: All hits of current versions, as they were recognized.
        config: The parameters.
        hybrid: What the full-text index counts, where no reranker gave the order.
        reranker: Class name of the reranker that gave the order, if one did.
        lexical: Scores texts by the words of the query.
    """
    hits = _ranked(hits)
    # Each side has its own ranks and its own scale; what it did not find is worth 0 to it.
    dense = sorted((hit.rank, place) for place, hit in enumerate(hits) if hit.rank is not None)
    places = [place for _, place in dense]
    relevance = np.zeros(len(hits))
    relevance[places] = relevance_of(
        [hits[place].score for place in places],
        config,
        reranker=reranker,
        query=query,
        texts=[hits[place].text for place in places],
        lexical=lexical,
    )
    if not hybrid or reranker is not None:
        return [
            hit._replace(relevance=worth)
            for hit, worth in zip(hits, relevance.tolist(), strict=True)
        ]
    by_words = sorted(
        (hit.lexical_rank, place, hit.lexical_score)
        for place, hit in enumerate(hits)
        if hit.lexical_rank is not None and hit.lexical_score is not None
    )
    words = np.zeros(len(hits))
    words[[place for _, place, _ in by_words]] = lexical_relevance(
        [score for *_, score in by_words], config
    )
    mixed = (1 - hybrid) * relevance + hybrid * words
    order = np.argsort(-mixed, kind="stable").tolist()
    return [hits[place]._replace(relevance=float(mixed[place])) for place in order]


def _ranked(hits: Sequence[Hit]) -> list[Hit]:
    """The hits with ranks that count from 0 again, where some have been left out."""
    ranks = {rank: place for place, rank in enumerate(sorted(_present(hit.rank for hit in hits)))}
    by_words = {
        rank: place for place, rank in enumerate(sorted(_present(hit.lexical_rank for hit in hits)))
    }
    if all(rank == place for some in (ranks, by_words) for rank, place in some.items()):
        return list(hits)
    return [
        hit._replace(
            rank=None if hit.rank is None else ranks[hit.rank],
            lexical_rank=None if hit.lexical_rank is None else by_words[hit.lexical_rank],
        )
        for hit in hits
    ]


def _present(ranks: Iterable[int | None]) -> Iterator[int]:
    return (rank for rank in ranks if rank is not None)


def grouped(items: Iterable[T], name: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by name, names in order of appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(name(item), []).append(item)
    return groups
