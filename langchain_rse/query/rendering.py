"""Render: makes the Documents that are returned from segments."""

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from langchain_rse.config import QuerySettings
from langchain_rse.query.reading import DocumentSegment, ScoredChunk
from langchain_rse.query.search_arguments import check_stored
from langchain_rse.stores.metadata_rules import segment_metadata
from langchain_rse.stores.records import (
    CHUNK_ID,
    DOC_ID,
    END_INDEX,
    RELEVANCE_SCORE,
    SEGMENT,
    START_INDEX,
    chunk_key,
    metadata_changes,
    with_header,
)


def render(segments: Sequence[DocumentSegment], settings: QuerySettings) -> list[Document]:
    """Make Documents of the best ``k`` segments, which are given best first, in their ``order``."""
    numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
    most = settings.max_per_document or len(segments)
    few = (one for one in segments if next(numbers[one.document.manifest.key]) < most)
    best = list(itertools.islice(few, settings.k))
    if settings.order == "document":
        first: dict[str, int] = {}
        for number, segment in enumerate(best):
            first.setdefault(segment.document.manifest.key, number)
        best.sort(key=lambda one: (first[one.document.manifest.key], one.start))
    return [_to_document(segment, settings) for segment in best]


def _to_document(segment: DocumentSegment, settings: QuerySettings) -> Document:
    manifest, version = segment.document.manifest, segment.document.version
    places, current = _changing_metadata(segment), manifest.current
    for metadata in (manifest.metadata, *places) if current and not current.adopted else ():
        check_stored(settings.search_kwargs, metadata)
    cut = f"/{segment.skipped}-{segment.dropped}" if segment.skipped or segment.dropped else ""
    identity = f"{manifest.key}/{version}/{segment.start}-{segment.end}{cut}"
    start_index, end_index = segment.span
    header = manifest.header if settings.include_header else ""
    return Document(
        id=identity,
        page_content=with_header(header, segment.text),
        metadata={
            **segment_metadata(manifest.metadata, manifest.rules, places),
            DOC_ID: manifest.doc_id,
            CHUNK_ID: identity,
            START_INDEX: start_index,
            END_INDEX: end_index,
            RELEVANCE_SCORE: segment.value,
            SEGMENT: {
                "version": version,
                "chunk_start": segment.start,
                "chunk_end": segment.end,
                "chunks": list(map(_describe, segment.chunks)),
            },
        },
    )


def _changing_metadata(segment: DocumentSegment) -> Sequence[Mapping[str, Any]]:
    """The changing metadata along a segment, without white space at the ends if it is trimmed."""
    text = segment.text
    inside = text.strip() or text if segment.skipped or segment.dropped else text
    first = segment.skipped + text.index(inside)
    changes: list[tuple[int, Mapping[str, Any]]] = []
    start = 0
    for index, record in ((one.index, one.record) for one in segment.chunks if one.record):
        key = chunk_key(segment.document.manifest.key, segment.document.version, index)
        changes += [(start + place, here) for place, here in metadata_changes(record, key)]
        start += len(record.page_content)
    # The metadata of the first character began at or before it.
    number = max(bisect_right(changes, first, key=lambda change: change[0]) - 1, 0)
    return [here for place, here in changes[number:] if place < first + len(inside)]


def _describe(chunk: ScoredChunk) -> dict[str, Any]:
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
