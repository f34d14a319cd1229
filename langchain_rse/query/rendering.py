"""Render: makes the Documents that are returned from segments."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from langchain_rse.config import QuerySettings
from langchain_rse.query.reading import DocumentSegment, SegmentChunk
from langchain_rse.query.search_arguments import check_stored
from langchain_rse.stores.metadata_rules import segment_metadata
from langchain_rse.stores.records import (
    CHUNK_ID,
    COUNTS_IN_SOURCE,
    DOC_ID,
    END_INDEX,
    RELEVANCE_SCORE,
    SEGMENT,
    START_INDEX,
    chunk_key,
    content_name,
    metadata_changes,
    with_headers,
)


def render(
    segments: Sequence[DocumentSegment],
    settings: QuerySettings,
    filters: Sequence[object] = (),
    *,
    stores_lists: bool = False,
) -> list[Document]:
    """Make Documents of the best ``k`` segments, which are given best first, in their ``order``.

    The segment with the best candidate is one of them.

    Args:
        segments: The segments, best first.
        settings: Those of the query.
        filters: Those of the query, which must not name metadata that the store lacks.
        stores_lists: True if the store may have lists in its metadata.
    """
    best = _choose(segments, settings)
    if settings.order == "document":
        first_number: dict[str, int] = {}  # of each document's segments
        for number, segment in enumerate(best):
            first_number.setdefault(segment.document.manifest.key, number)
        best.sort(key=lambda segment: (first_number[segment.document.manifest.key], segment.start))
    documents = []
    for segment in best:
        manifest = segment.document.manifest
        changing_metadata = _changing_metadata(segment)
        if manifest.current is not None and not manifest.current.adopted:
            for changes in changing_metadata or [{}]:
                metadata = {**manifest.metadata, **changes}
                check_stored(filters, metadata, stores_lists=stores_lists)
        documents.append(_to_document(segment, settings, changing_metadata))
    return documents


def _choose(segments: Sequence[DocumentSegment], settings: QuerySettings) -> list[DocumentSegment]:
    """The segments that ``k`` and ``max_per_document`` leave, best first."""
    # The segment with the best candidate first: it answers the query even if others, being longer,
    # are worth more.
    preferred = sorted(segments, key=_highest_relevance, reverse=True)[:1]
    preferred += [segment for segment in segments if segment is not preferred[0]]
    chosen: set[int] = set()
    counts: Counter[str] = Counter()  # by document
    for segment in preferred:
        key = segment.document.manifest.key
        is_full = settings.k is not None and len(chosen) >= settings.k
        most = settings.max_per_document
        if not is_full and (most is None or counts[key] < most):
            counts[key] += 1
            chosen.add(id(segment))
    return [segment for segment in segments if id(segment) in chosen]


def _highest_relevance(segment: DocumentSegment) -> float:
    return max(chunk.relevance for chunk in segment.chunks)


def _to_document(
    segment: DocumentSegment,
    settings: QuerySettings,
    changing_metadata: Sequence[Mapping[str, Any]],
) -> Document:
    manifest = segment.document.manifest
    version = content_name(segment.document.version)  # the same however often it is written
    identity = f"{manifest.key}/{version}/{segment.start}-{segment.end}"
    if segment.skipped or segment.dropped:
        identity += f"/{segment.skipped}-{segment.dropped}"
    start_index, end_index = segment.span
    text = segment.text
    if settings.include_header:
        text = with_headers(manifest.header, segment.chunks[0].record, text)
    described: dict[str, Any] = {
        "version": version,
        "chunk_start": segment.start,
        "chunk_end": segment.end,
        "chunks": [_describe(chunk) for chunk in segment.chunks],
    }
    if not manifest.counts_in_source:
        described[COUNTS_IN_SOURCE] = False
    return Document(
        id=identity,
        page_content=text,
        metadata={
            **segment_metadata(manifest.metadata, manifest.rules, changing_metadata),
            DOC_ID: manifest.doc_id,
            CHUNK_ID: identity,
            START_INDEX: start_index,
            END_INDEX: end_index,
            RELEVANCE_SCORE: segment.value,
            SEGMENT: described,
        },
    )


def _changing_metadata(segment: DocumentSegment) -> Sequence[Mapping[str, Any]]:
    """The changing metadata along a segment, without white space at the ends if it is trimmed."""
    text = segment.text
    visible_text = text
    if segment.skipped or segment.dropped:
        visible_text = text.strip() or text
    # Positions count from the first character of the segment's first chunk.
    start = segment.skipped + text.index(visible_text)
    end = start + len(visible_text)
    changes: list[tuple[int, Mapping[str, Any]]] = []
    chunk_start = 0
    for chunk in segment.chunks:
        if chunk.record is None:
            continue
        key = chunk_key(segment.document.manifest.key, segment.document.version, chunk.index)
        for position, metadata in metadata_changes(chunk.record, key):
            changes.append((chunk_start + position, metadata))
        chunk_start += len(chunk.record.page_content)
    # The metadata of the first character began at or before it.
    first = max(bisect_right(changes, start, key=lambda change: change[0]) - 1, 0)
    return [metadata for position, metadata in changes[first:] if position < end]


def _describe(chunk: SegmentChunk) -> dict[str, Any]:
    """Describe a chunk for the metadata of its segment."""
    length = len(chunk.record.page_content) if chunk.record else 0
    described: dict[str, Any] = {"index": chunk.index, "length": length}
    candidate = chunk.candidate
    if candidate is None:
        described["filled"] = True
    else:
        described |= {"rank": candidate.rank, "score": candidate.score}
        described["relevance"] = chunk.relevance
        if candidate.lexical_rank is not None:
            described["lexical_rank"] = candidate.lexical_rank
            described["lexical_score"] = candidate.lexical_score
        if candidate.query:
            described["query"] = candidate.query
        described |= candidate.judgment
    return {**described, "credited": chunk.credited, "value": chunk.value}
