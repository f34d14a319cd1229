"""Candidates: chunks found by the searches, and the reasons why chunks are not returned."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from numpy.typing import NDArray

from langchain_rse.engine import Floats
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.vectorstores.base import VectorStoreAdapter
from langchain_rse.text.names import title_of_source
from langchain_rse.text.words import TextWords

# The names of searches: keys of `Candidate.hits`.
VECTORS = "vectors"  # the vector store or wrapped retriever
FULL_TEXT = "full text"  # the docstore's full-text index
RERANKER = "reranker"

# Metadata of documents that a relevance filter judged.
IS_RELEVANT = "is_relevant"  # the model's judgment; None if not judged
RELEVANCE_EXPLANATION = "relevance_explanation"  # the model's explanation; None if not judged
RELEVANCE_FAILURE = "relevance_failure"  # why it was not judged

ChunkKey = tuple[str, str, int]
"""Key of a chunk: document id, version name, chunk number."""


class Reason(Enum):
    """Why a chunk is returned or not. An empty answer has the reason of its best candidate.

    The value is the sentence that people read, a template for facts of the chunk and settings.
    The reasons why a candidate is not returned are ordered: the closest misses come first.
    """

    RETURNED = "it is in a returned passage"
    FILLED = "it is between or next to relevant chunks of a returned passage"
    NO_CANDIDATE = "the search did not find it"
    BEYOND_K = "its passage is not among the best k={k}"
    NO_ROOM = "{budget} has no room for it beside more valuable chunks"
    TOO_LONG = (
        "its {length:,} characters alone exceed {budget}: use smaller chunks or a higher limit"
    )
    PASSAGE_COST = (
        "its value does not cover the cost of a new passage: passage_cost={passage_cost} times the "
        "threshold {penalty}"
    )
    NOT_CHOSEN = (
        "the {solver} solver chose others: its passage is worth less than "
        "minimum_value={minimum_value}, or more valuable ones fill {budget}"
    )
    BELOW_THE_PENALTY = "relevance {relevances} is below irrelevant_chunk_penalty={penalty}"
    NOT_CONSIDERED = "its document has none of the {top_k} candidates with the highest relevance"
    BELOW_THE_FLOOR = (
        "no candidate reaches the score floor: best {reach:.3g}, floor {floor:.3g}{note}"
    )
    DROPPED = "the reranker dropped {dropped}"
    DUPLICATE = "{duplicate_of!r} has the same text"
    STALE = "it is from a stale version of its document"
    REPLACED = "its document was replaced while it was read"
    CHANGED = "text of its passage was changed or deleted in the vector store after the adoption"
    CORRUPT = "the docstore's records of its document are corrupt or missing"
    UNKNOWN = "its document is not in the docstore"
    NOTHING_FOUND = "{searcher} found nothing{limits}"
    NO_CHUNKS = (
        "{searcher} returned {documents} Document(s), but no chunk of the docstore. If the index "
        "was adopted, adopt it again"
    )
    NO_QUERY = "the query is empty"

    @property
    def label(self) -> str:
        """The reason in two or three words, such as "below the floor"."""
        return self.name.replace("_", " ").lower()


class Sources(NamedTuple):
    """The stores and retriever of a query; see the fields of `RSERetriever`."""

    vectorstore: VectorStore | None
    base_retriever: Any | None
    docstore: DocStore
    adapter: VectorStoreAdapter | None  # of the searched vector store; None if unknown
    namespace: str  # digest of the docstore's namespace, or empty

    @property
    def name(self) -> str:
        """Name of the class that finds the candidates."""
        return type(self.base_retriever if self.vectorstore is None else self.vectorstore).__name__


class Hit(NamedTuple):
    """The rank and score of a candidate in one search.

    Attributes:
        rank: The rank, from 0.
        score: The score as the store, index or reranker returned it; None without scores.
    """

    rank: int
    score: float | None


class Ranking(NamedTuple):
    """How the candidates of a query compare, in arrays: a row for each candidate."""

    query: str
    naming_words: Sequence[str]  # words of the query that name a document
    content_words: Sequence[str]  # of the query; those that name a document come last
    has_word: NDArray[np.bool_]  # shape (candidates, content words)
    name_factors: Floats
    signals: Mapping[str, Floats]


class Candidate(NamedTuple):
    """A chunk that was found for a query.

    Attributes:
        document: The chunk as the store or retriever returned it.
        doc_id: The id of its document.
        key: The key of its document in the docstore.
        version: The name of the document's version.
        chunk_index: The number of the chunk in its document, from 0.
        texts: The words of all candidates' texts.
        text: The number of its text in ``texts``.
        hits: Rank and score by search: ``"vectors"``, ``"full text"``, ``"reranker"``.
        judgment: What a relevance filter wrote into the metadata, such as
            ``relevance_explanation``.
        relevance: The sum of the signals, from 0 to 1.
        ranking: The ranking of the query that the relevance is for; with several queries, the best
            match. None before the candidates are ranked.
        row: The candidate's row in the ranking.
    """

    document: Document
    doc_id: str
    key: str
    version: str
    chunk_index: int
    texts: TextWords
    text: int
    hits: dict[str, Hit]
    judgment: Mapping[str, bool | str | None] = MappingProxyType({})
    relevance: float = 0.0
    ranking: Ranking | None = None
    row: int = 0

    def __repr__(self) -> str:
        return f"<Candidate: chunk {self.chunk_index} of {self.doc_id!r}>"

    @property
    def chunk_key(self) -> ChunkKey:
        """The key of the chunk, unique among all chunks."""
        return self.doc_id, self.version, self.chunk_index

    @property
    def title(self) -> str:
        """The title of the document, or else its file name."""
        metadata = self.document.metadata
        return str(metadata.get("title") or title_of_source(metadata.get("source")))

    @property
    def hit(self) -> Hit | None:
        """The hit of the reranker, or else of the search; None if only the index found it."""
        return self.hits.get(RERANKER) or self.hits.get(VECTORS)

    @property
    def query(self) -> str:
        """The query of the ranking; empty before the candidates are ranked."""
        return "" if self.ranking is None else self.ranking.query

    @property
    def signals(self) -> dict[str, float]:
        """The relevance that each search, and ``"words"``, added."""
        signals = {} if self.ranking is None else self.ranking.signals
        return {name: float(added[self.row]) for name, added in signals.items()}

    @property
    def name_factor(self) -> float:
        """Factor below 1 if the query names other documents. The signals include it."""
        return 1.0 if self.ranking is None else float(self.ranking.name_factors[self.row])

    @property
    def found_words(self) -> tuple[str, ...]:
        """The content words of the query that the text contains, in the query's order."""
        if self.ranking is None:
            return ()
        has_word = self.ranking.has_word[self.row]
        return tuple(itertools.compress(self.ranking.content_words, has_word))


Candidates = Mapping[str, Sequence[Candidate]]
"""The candidates of each query, best first."""


class Exclusion(NamedTuple):
    """A candidate that does not count, with the reason.

    Attributes:
        candidate: The excluded candidate.
        reason: Why it was excluded.
        detail: For a duplicate, the id of the document with the same text; for a corrupt document,
            the error.
    """

    candidate: Candidate
    reason: Reason
    detail: str | None = None


def best_of_queries(candidates: Candidates) -> Sequence[Candidate]:
    """Merge the ranked candidates of all queries; each chunk keeps its highest relevance."""
    if len(candidates) == 1:
        [candidates_of_query] = candidates.values()
        return candidates_of_query
    best: dict[ChunkKey, Candidate] = {}
    for candidates_of_query in candidates.values():
        for candidate in candidates_of_query:
            known = best.get(candidate.chunk_key)
            if known is None or candidate.relevance > known.relevance:
                best[candidate.chunk_key] = candidate
    return sorted(best.values(), key=lambda candidate: -candidate.relevance)


def numbers_by_rank(candidates: Sequence[Candidate], search: str) -> list[int]:
    """Return the numbers of the candidates that a search found, in the order of its ranks."""
    found = [number for number, each in enumerate(candidates) if search in each.hits]
    return sorted(found, key=lambda number: candidates[number].hits[search].rank)


def judgment_of(metadata: Mapping[str, Any]) -> dict[str, bool | str | None]:
    """Return the metadata written by a relevance filter; empty if no filter judged."""
    names = (IS_RELEVANT, RELEVANCE_EXPLANATION, RELEVANCE_FAILURE)
    judgment = {name: metadata[name] for name in names if name in metadata}
    is_whole = IS_RELEVANT in judgment and RELEVANCE_EXPLANATION in judgment
    are_plain = all(isinstance(value, (bool, str, type(None))) for value in judgment.values())
    return judgment if is_whole and are_plain else {}
