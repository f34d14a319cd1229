"""Candidates: the chunks that the searches found, and the reasons why one is not returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

from langchain_rse.stores.namespaces import namespace_of
from langchain_rse.stores.vectorstores import adapter_for
from langchain_rse.stores.vectorstores.base import VectorStoreAdapter
from langchain_rse.text.titles import title_of_source

# The names of searches, by which the hits of a candidate are known.
VECTORS = "vectors"  # the vector store or wrapped retriever
FULL_TEXT = "full text"  # the docstore's full-text index
RERANKER = "reranker"

ChunkKey = tuple[str, str, int]
"""Identifies a chunk: the id of its document, the name of the version, the chunk's number."""


class Reason(Enum):
    """Why a chunk is in the answer or not; an empty answer has the reason of its best candidate.

    The value is the sentence that people read, with the facts of the chunk and the settings in
    braces. The reasons why a candidate is not returned begin with those nearest to being returned.
    """

    RETURNED = "it is in a returned segment"
    FILLED = "it is between or beside relevant chunks of a returned segment"
    NO_CANDIDATE = "the search did not find it"
    BEYOND_K = "its segment is not among the best k={k}"
    NO_ROOM = "chunks that are worth more come first and fill {budget}"
    TOO_LONG = "its {length:,} characters alone exceed {budget}: make chunks smaller, or raise it"
    MINIMUM_VALUE = "its segment is worth less than minimum_value={minimum_value}"
    SEGMENT_COST = "it is worth its text, but not the segment_cost={segment_cost} of a segment"
    NOT_THE_BEST = "another segment of its document is the best"
    BELOW_THE_PENALTY = (
        "relevance {credited:.3g}, with its neighbors, is below irrelevant_chunk_penalty={penalty}"
    )
    MISSING = "the docstore lacks it, or a chunk beside it"
    NOT_CONSIDERED = "its document has none of the {top_k} best candidates"
    BELOW_THE_FLOOR = "no candidate reaches the score floor: best {best:.3g}, floor {floor:.3g}"
    DROPPED = "the reranker dropped it"
    DUPLICATE = "{duplicate_of!r} has the same text"
    STALE = "it is of a version of its document that is not current"
    CHANGED = "since its index was adopted, the vector store's text of it was changed or deleted"
    CORRUPT = "the docstore's records of its document cannot be read"
    UNKNOWN = "the docstore does not know its document"
    NOTHING_FOUND = "{searcher} found nothing{limits}"
    NO_CHUNKS = (
        "none of {documents} Documents of {searcher} is a chunk in the docstore. If the index was "
        "adopted, adopt it again"
    )
    NO_QUERY = "the query is empty"

    @property
    def label(self) -> str:
        """The reason in two or three words, such as "below the floor"."""
        return self.name.replace("_", " ").lower()


class Sources(NamedTuple):
    """Where the candidates and texts of a query come from: see the fields of `RSERetriever`."""

    vectorstore: VectorStore | None
    base_retriever: Any | None
    docstore: BaseStore[str, Document]
    adapter: VectorStoreAdapter | None  # of the vector store that is searched; None if unknown
    namespace: str  # the digest of the docstore's; empty for none

    @classmethod
    def of(
        cls,
        vectorstore: VectorStore | None,
        base_retriever: Any,  # noqa: ANN401 - a retriever or another Runnable, or None
        docstore: BaseStore[str, Document],
    ) -> Sources:
        """The sources of a retriever with these stores."""
        searched_store = vectorstore
        if isinstance(base_retriever, VectorStoreRetriever):
            searched_store = base_retriever.vectorstore
        adapter = None if searched_store is None else adapter_for(searched_store)
        return cls(vectorstore, base_retriever, docstore, adapter, namespace_of(docstore))

    @property
    def name(self) -> str:
        """The class that finds the candidates."""
        return type(self.base_retriever if self.vectorstore is None else self.vectorstore).__name__


class Hit(NamedTuple):
    """The place of a candidate in the result of one search."""

    rank: int  # from 0
    score: float | None


class Candidate(NamedTuple):
    """A chunk that was found for a query."""

    document: Document  # as the store or retriever returned it
    doc_id: str
    key: str  # the document's, in the docstore
    version: str  # name of the document's version
    chunk_index: int  # number in the document
    hits: dict[str, Hit]  # by the searches that found it
    judgment: Mapping[str, bool | str | None] = MappingProxyType({})  # see `judgment_of`
    relevance: float = 0.0  # the sum of the evidence
    evidence: Mapping[str, float] = MappingProxyType({})  # what each witness adds
    name_factor: float = 1.0  # below 1 if the query names other documents; in all evidence
    words: str = ""  # the query's words that were compared: content words that name no document
    query: str = ""  # for which it has this relevance: of several, the one that it fits best

    @property
    def chunk_key(self) -> ChunkKey:
        """Identifies the chunk among all chunks."""
        return self.doc_id, self.version, self.chunk_index

    @property
    def title(self) -> str:
        """The title of its document, else the name of its file."""
        metadata = self.document.metadata
        return str(metadata.get("title") or title_of_source(metadata.get("source")))

    @property
    def hit(self) -> Hit | None:
        """Its hit by the reranker, else by the search; None if only the index found it."""
        return self.hits.get(RERANKER) or self.hits.get(VECTORS)


Candidates = Mapping[str, Sequence[Candidate]]
"""The candidates of each query, best first."""


class Exclusion(NamedTuple):
    """Why a candidate does not count."""

    candidate: Candidate
    reason: Reason
    duplicate_of: str | None = None  # the document that has the same text


def all_candidates(candidates: Candidates) -> list[Candidate]:
    """The candidates of all queries, each chunk once."""
    by_chunk: dict[ChunkKey, Candidate] = {}
    for candidates_of_query in candidates.values():
        for candidate in candidates_of_query:
            by_chunk[candidate.chunk_key] = candidate
    return list(by_chunk.values())


def best_of_queries(candidates: Candidates) -> Sequence[Candidate]:
    """Join the ranked candidates of all queries, each for the query that it fits best."""
    if len(candidates) == 1:
        return next(iter(candidates.values()))
    best: dict[ChunkKey, Candidate] = {}
    for candidates_of_query in candidates.values():
        for candidate in candidates_of_query:
            known = best.get(candidate.chunk_key)
            if known is None or candidate.relevance > known.relevance:
                best[candidate.chunk_key] = candidate
    return sorted(best.values(), key=lambda candidate: -candidate.relevance)
