"""Views of a trace for people: its chunks by document, and what the budget and words came to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_rse.engine import matched_words
from langchain_rse.query.candidates import Candidate, ChunkKey, Reason
from langchain_rse.query.reading import DocumentSegment, measure
from langchain_rse.query.scoring import Chunk
from langchain_rse.query.trace import RSETrace
from langchain_rse.stores.layouts import Layout
from langchain_rse.text.titles import shown_name

SHOWN = frozenset({Reason.RETURNED, Reason.FILLED})
"""The outcomes of chunks that are in the answer."""


class NumberedSegment(NamedTuple):
    """A returned segment, and its number in the answer, from 1."""

    number: int
    segment: DocumentSegment


class DocumentTrace(NamedTuple):
    """A document that has candidates, and its chunks that the steps saw, in the order of the text.

    The length, in characters, and the number of chunks are None if it was not read; the reason says
    why none of its chunks was considered.
    """

    doc_id: str
    metadata: Mapping[str, Any]
    length: int | None
    chunk_count: int | None
    reason: str | None
    chunks: Sequence[Chunk]
    returned: Sequence[NumberedSegment]

    @property
    def name(self) -> str:
        """The name to show to people: source, else title, else id."""
        return name_of(self.doc_id, self.metadata)


def name_of(doc_id: str, metadata: Mapping[str, Any]) -> str:
    """The name of a document to show to people: source, else title, else id."""
    source = metadata.get("source") or metadata.get("title")
    return shown_name(doc_id, None if source is None else str(source))


def name_of_segment(segment: DocumentSegment) -> str:
    """The name of a segment's document to show to people."""
    manifest = segment.layout.manifest
    return name_of(manifest.doc_id, manifest.metadata)


def documents_of(trace: RSETrace) -> list[DocumentTrace]:
    """The documents that have candidates, the best first."""
    chunks_of: dict[str, list[Chunk]] = {}  # by the key of the document
    for chunk in trace.chunks:
        if chunk.layout is not None:
            chunks_of.setdefault(chunk.layout.manifest.key, []).append(chunk)
        elif chunk.candidate is not None:
            chunks_of.setdefault(chunk.candidate.key, []).append(chunk)
    returned_of: dict[str, list[NumberedSegment]] = {}
    for number, segment in enumerate(trace.returned, start=1):
        key = segment.layout.manifest.key
        returned_of.setdefault(key, []).append(NumberedSegment(number, segment))
    layouts = {} if trace.looked_up is None else trace.looked_up.layouts
    documents = []
    for key, chunks in chunks_of.items():
        found = next(chunk.candidate for chunk in chunks if chunk.candidate is not None)
        chunks.sort(key=lambda chunk: chunk.index)
        is_considered = any(chunk.weight for chunk in chunks)
        layout = layouts.get(key)
        metadata: Mapping[str, Any] = found.document.metadata
        length = chunk_count = None
        if isinstance(layout, Layout):
            metadata = layout.manifest.metadata
            length = layout.manifest.length
            current = layout.manifest.current
            chunk_count = None if current is None else current.chunks
        document = DocumentTrace(
            doc_id=found.doc_id,
            metadata=metadata,
            length=length,
            chunk_count=chunk_count,
            reason=None if is_considered else trace.why(chunks[0]),
            chunks=chunks,
            returned=returned_of.get(key, ()),
        )
        documents.append(document)
    return documents


def answered_documents(trace: RSETrace) -> list[DocumentTrace]:
    """The documents of the answer, in its order."""
    answered = [document for document in trace.documents if document.returned]
    return sorted(answered, key=lambda document: document.returned[0].number)


def candidates_of(trace: RSETrace) -> list[Chunk]:
    """The chunks that the search found."""
    return [chunk for chunk in trace.chunks if chunk.candidate is not None]


def left_out(trace: RSETrace) -> list[tuple[DocumentTrace, Chunk]]:
    """The candidates that were not returned, those nearest to it first."""
    order = {reason: number for number, reason in enumerate(Reason)}

    def distance(pair: tuple[DocumentTrace, Chunk]) -> tuple[float, ...]:
        _, chunk = pair
        hit = None if chunk.candidate is None else chunk.candidate.hit
        rank = math.inf if hit is None else hit.rank
        return order[chunk.outcome], -chunk.credited, -chunk.relevance, rank

    pairs = []
    for document in trace.documents:
        for chunk in document.chunks:
            if chunk.candidate is not None and chunk.outcome not in SHOWN:
                pairs.append((document, chunk))
    return sorted(pairs, key=distance)


def words_of(trace: RSETrace) -> dict[ChunkKey, list[str]]:
    """The words of its query that each candidate has, those that the fewest have first."""
    candidates: dict[tuple[str, str], list[Candidate]] = {}  # by their query and its content words
    for chunk in candidates_of(trace):
        candidate = chunk.candidate
        if candidate is not None and candidate.words:
            candidates.setdefault((candidate.query, candidate.words), []).append(candidate)
    words_by_chunk = {}
    for (_, words), group in candidates.items():
        texts = [candidate.document.page_content for candidate in group]
        for candidate, matched in zip(group, matched_words(words, texts), strict=True):
            words_by_chunk[candidate.chunk_key] = matched
    return words_by_chunk


def spent_by(trace: RSETrace) -> float:
    """How much of ``max_context_length`` is spent, in the units of ``length_function``."""
    function = trace.settings.length_function
    return sum(measure(each.page_content, function) for each in trace.documents_returned)


def lowest_relevance(trace: RSETrace) -> float | None:
    """The lowest relevance that was returned, see `RSETrace.penalty`."""
    selection = trace.selection
    if selection is None or selection.ranking is None:
        return None
    penalty = trace.settings.penalty
    if trace.steps == len(selection.steps):
        return penalty
    steps = selection.steps[: trace.steps]
    taken = set(itertools.chain.from_iterable(range(*step) for step in steps))
    thresholds = [number for chunk, number in selection.thresholds.items() if chunk in taken]
    return max(penalty, min(thresholds, default=0.0))
