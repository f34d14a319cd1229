"""Candidates: the chunks that a search found for a query."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

from langchain_rse.stores.vectorstores import adapter_for

ChunkKey = tuple[str, str, int]
"""Identifies a chunk: the id of its document, the name of the version, the chunk's number."""


class Sources(NamedTuple):
    """Where the candidates and texts of a query come from: see the fields of `RSERetriever`."""

    vectorstore: VectorStore | None
    base_retriever: Any | None
    docstore: BaseStore[str, Document]

    @property
    def name(self) -> str:
        """The class that finds the candidates."""
        if self.vectorstore is None:
            return type(self.base_retriever).__name__
        return type(self.vectorstore).__name__

    @property
    def searched_store(self) -> VectorStore | None:
        """The vector store in which candidates are found; None if it is unknown."""
        if isinstance(self.base_retriever, VectorStoreRetriever):
            return self.base_retriever.vectorstore
        return self.vectorstore

    @property
    def stores_lists(self) -> bool:
        """False if the vector store that is searched has no lists in its metadata."""
        store = self.searched_store
        return store is None or adapter_for(store).takes_lists


class RelevanceParts(NamedTuple):
    """What each kind of evidence adds to the relevance of a candidate.

    The sum is its relevance, before `RSEConfig.document_weight`.
    """

    vectors: float  # the score and rank of the search
    full_text: float  # the full-text index, see `hybrid`
    words: float  # the words of the query among the candidates
    reranker: float
    name_factor: float  # below 1 if the query names other documents: all were multiplied by it
    matched_query: str  # the words that were compared: not function words, or names of documents


class Candidate(NamedTuple):
    """A chunk that was found for a query."""

    document: Document  # as the store or retriever returned it
    doc_id: str
    key: str  # the document's, in the docstore
    version: str  # name of the document's version
    chunk_index: int  # number in the document
    score: float | None = None
    rank: int | None = None  # from 0; None if only the full-text index found it
    lexical_score: float | None = None  # None if the full-text index did not find it
    lexical_rank: int | None = None
    search_score: float | None = None  # score and rank before a reranker, if there is one
    search_rank: int | None = None
    judgment: Mapping[str, bool | str | None] = MappingProxyType({})  # see `judgment_of`
    filtered: bool = False  # True if a compressor dropped others, for unknown reasons
    query: str = ""  # the query that it fits best, if there are several
    parts: RelevanceParts | None = None  # of its relevance, once it is ranked

    @property
    def chunk_key(self) -> ChunkKey:
        """Identifies the chunk among all chunks."""
        return self.doc_id, self.version, self.chunk_index


Candidates = Mapping[str, Sequence[Candidate]]
"""The candidates of each query, best first."""


def all_candidates(candidates: Candidates) -> list[Candidate]:
    """The candidates of all queries, each chunk once."""
    by_chunk: dict[ChunkKey, Candidate] = {}
    for candidates_of_query in candidates.values():
        for candidate in candidates_of_query:
            by_chunk[candidate.chunk_key] = candidate
    return list(by_chunk.values())
