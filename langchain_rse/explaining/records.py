"""What the steps of a query saw, as records."""

import math
from dataclasses import dataclass, field
from typing import Any

from langchain_rse.text.titles import shown_name

OUTCOMES = {
    "returned": "it is in a returned segment",
    "filled": "it is between or beside relevant chunks of a returned segment",
    "no candidate": "the search did not find it",
    # From here on, outcomes of candidates left out, those nearest to being returned first.
    "beyond k": "its segment is not among the best k={k}",
    "beyond max_per_document": "max_per_document={max_per_document} segments are better",
    "no room": "chunks that are worth more come first and reach {room}",
    "minimum value": "its segment is below minimum_value={minimum_value}",
    "segment cost": "it is worth its text, but not the segment_cost={segment_cost} of a segment "
    "of its own",
    "not the best": "another segment of its document is the best",
    "below the penalty": "relevance {chunk.credited:.3g}, with its neighbors, is below "
    "irrelevant_chunk_penalty={irrelevant_chunk_penalty}",
    "missing": "the docstore lacks it, or a chunk beside it",
    "not considered": "it is not part of the text",  # unless its document has a reason
    "below min_relevance": "the relevance of its score is below min_relevance={min_relevance}",
    "below the floor": "the best candidate of its query does not reach the score floor",
    "filtered": "the reranker or filter dropped it",
    "duplicate": "{chunk.duplicate_of!r} has the same text",
    "older version": "it is of an older version of the document",
    "stale": "since its index was adopted, the vector store's text of it was changed or deleted",
}
"""The possible outcomes of a chunk, and how `RSETrace.why` explains them."""


@dataclass
class TracedSegment:
    """A segment that was chosen."""

    doc_id: str
    chunk_start: int
    chunk_end: int
    start_index: int
    end_index: int
    value: float
    returned: bool
    reason: str | None  # why it was not returned
    text: str
    number: int | None  # its number in the answer, from 1


@dataclass
class TracedChunk:
    """A candidate, or another chunk that the solver saw around candidates."""

    index: int
    start_index: int | None = None  # span and length are None if its document was not read
    end_index: int | None = None
    length: int | None = None
    rank: int | None = None  # from 0; rank and score are the reranker's if there is one
    score: float | None = None
    search_rank: int | None = None  # before the reranker
    search_score: float | None = None
    lexical_rank: int | None = None
    lexical_score: float | None = None
    query: str = ""  # the query that it fits best, if there are several
    relevance: float = 0.0  # the sum of the next four, times the share by `document_weight`
    by_vectors: float = 0.0  # what the score and rank of the search add
    by_words: float = 0.0  # what the words of the query add
    by_full_text: float = 0.0  # what the full-text index adds, see `hybrid`
    by_reranker: float = 0.0
    matched_words: list[str] = field(default_factory=list)  # of the query, the rarest first
    name_factor: float = 1.0  # below 1 if the query names other documents; in all four already
    credited: float = 0.0  # with neighbor credit; this, value and weight are 0 if not solved
    value: float = 0.0  # weight * (credited - irrelevant_chunk_penalty)
    weight: float = 0.0
    text: str | None = None  # the embedded text of a candidate
    outcome: str = "no candidate"
    duplicate_of: str | None = None  # the doc_id of the document that has the same text

    @property
    def is_candidate(self) -> bool:
        """True if the search found it."""
        return self.rank is not None or self.lexical_rank is not None


@dataclass
class TracedDocument:
    """A document that has candidates."""

    doc_id: str
    source: str | None
    title: str | None
    length: int | None  # in characters; length and chunk_count are None if it was not read
    chunk_count: int | None
    reason: str | None  # why none of its chunks was considered
    chunks: list[TracedChunk]  # in the order of the text

    @property
    def name(self) -> str:
        """The name to show to people: source, else title, else id."""
        return shown_name(self.doc_id, self.source or self.title or None)


@dataclass
class TracedReach:
    """How near the documents come to a query, by its best candidate; see `ScoreFloor`."""

    query: str
    doc_id: str | None  # of the best candidate, and its source or title, text and score
    source: str | None
    text: str | None
    score: float | None
    word_share: float  # of the query's words in one candidate, from 0 to 1
    reach: float | None  # the score with the bonus for words; None if there is nothing to compare
    floor: float | None
    closer_than: float | None  # a share of questions; None if not calibrated
    compared_with: str  # those questions: answered ones, or sentences of the documents
    refused: bool

    @property
    def name(self) -> str:
        """The name of the best candidate's document to show to people."""
        return shown_name(self.doc_id or "", self.source)


@dataclass(frozen=True)
class TracedQuery:
    """A query and what its steps saw; `RSETrace` adds the ways to show and to keep it."""

    query: str
    queries: list[str]  # the queries that were searched for; usually only the query
    settings: dict[str, Any]  # of `RSEConfig` and of the query, as they were used
    spent: float  # of max_context_length, in the units of length_function
    # The lowest relevance that was worth its text: irrelevant_chunk_penalty, or more if the budget
    # was short; None with a published solver.
    penalty: float | None
    steps: dict[str, float]  # the seconds of each step
    documents: list[TracedDocument]  # the best first
    segments: list[TracedSegment]  # the best first
    reason: str | None = None  # why nothing was chosen
    full_text: str = ""  # why the full-text index was not searched, where it would be
    reached: list[TracedReach] = field(default_factory=list)  # of each query, if there is a floor

    @property
    def answer(self) -> list[tuple[TracedDocument, TracedSegment]]:
        """The returned segments with their documents, in the order of the answer."""
        documents = {document.doc_id: document for document in self.documents}
        returned = [segment for segment in self.segments if segment.returned]
        returned.sort(key=lambda segment: segment.number or 0)
        return [(documents[segment.doc_id], segment) for segment in returned]

    @property
    def answer_by_document(self) -> list[tuple[TracedDocument, list[TracedSegment]]]:
        """The documents of the answer, in its order, each with its returned segments."""
        by_document: dict[str, tuple[TracedDocument, list[TracedSegment]]] = {}
        for document, segment in self.answer:
            _, segments = by_document.setdefault(document.doc_id, (document, []))
            segments.append(segment)
        return list(by_document.values())

    def returned_in(self, document: TracedDocument) -> list[TracedSegment]:
        """The returned segments of a document, the best first."""
        returned = []
        for segment in self.segments:
            if segment.returned and segment.doc_id == document.doc_id:
                returned.append(segment)
        return returned

    @property
    def candidates(self) -> list[tuple[TracedDocument, TracedChunk]]:
        """All candidates with their documents, the best documents first."""
        candidates = []
        for document in self.documents:
            candidates += [(document, chunk) for chunk in document.chunks if chunk.is_candidate]
        return candidates

    @property
    def left_out(self) -> list[tuple[TracedDocument, TracedChunk]]:
        """The candidates that were not returned, those nearest to it first; see `RSETrace.why`."""
        outcomes = list(OUTCOMES)

        def distance(pair: tuple[TracedDocument, TracedChunk]) -> tuple[float, ...]:
            _, chunk = pair
            rank = math.inf if chunk.rank is None else chunk.rank
            return outcomes.index(chunk.outcome), -chunk.credited, -chunk.relevance, rank

        left_out = [pair for pair in self.candidates if pair[1].outcome != "returned"]
        return sorted(left_out, key=distance)
