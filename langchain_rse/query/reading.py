"""Read: reads the texts of selected segments, and measures which of them fit the budget."""

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CorruptRecordError, MissingRecordError
from langchain_rse.query.budget import Budget, Texts
from langchain_rse.query.candidates import Candidate
from langchain_rse.query.lookup import DocumentsChangedError
from langchain_rse.query.scoring import ScoredChunks
from langchain_rse.query.selecting import worth_alone
from langchain_rse.query.selection import Selection
from langchain_rse.query.trimming import TrimmedSegment, trim
from langchain_rse.stores.reading import Layout, read_chunks
from langchain_rse.stores.records import chunk_key
from langchain_rse.text.headings import end_before_headings
from langchain_rse.text.quoting import first_few


@dataclass(frozen=True)
class SegmentChunk:
    """A chunk of a segment, with its scores."""

    index: int  # its number in the document
    record: Document | None  # None if the docstore lacks it
    candidate: Candidate | None = None  # None for a chunk that the search did not find
    relevance: float = 0.0  # from score, rank and words, in [0, 1]; 0 if it is no candidate
    credited: float = 0.0  # relevance with neighbor credit, which the solver saw
    value: float = 0.0  # the chunk's part of the segment's: weighted relevance after the penalty


class DocumentSegment(NamedTuple):
    """A segment of a document."""

    document: Layout
    chunks: Sequence[SegmentChunk]
    value: float
    skipped: int = 0  # characters left out at the beginning of the first chunk
    dropped: int = 0  # and at the end of the last one

    @property
    def start(self) -> int:
        """Number of the first chunk."""
        return self.chunks[0].index

    @property
    def end(self) -> int:
        """Number after the last chunk."""
        return self.chunks[-1].index + 1

    @property
    def span(self) -> tuple[int, int]:
        """The first character in the document's text, and the one after the last."""
        start, _ = self.document.span_of(self.start)
        _, end = self.document.span_of(self.end - 1)
        return start + self.skipped, end - self.dropped

    @property
    def text(self) -> str:
        """The slice of the source."""
        texts = []
        for chunk in self.chunks:
            if chunk.record is not None:
                texts.append(chunk.record.page_content)
        text = "".join(texts)
        return text[self.skipped : len(text) - self.dropped]


class ReadSegments(NamedTuple):
    """The segments that fit the budget."""

    segments: Sequence[DocumentSegment]  # best first
    steps: int  # the number of the selection's steps that they are made of


def read(
    docstore: BaseStore[str, Document],
    scored: ScoredChunks,
    selection: Selection,
    budget: Budget,
    settings: QuerySettings,
) -> Steps[ReadSegments]:
    """Read the selected segments that fit.

    If none fits, the best candidate that fits and is worth the penalty takes their place.

    Raises:
        DocumentsChangedError: If a document was replaced or deleted since its layout was read, or
            has chunks that cannot be read.
    """
    count = budget.steps_to_read(scored, selection)
    columns: list[int] = []
    for step in selection.steps[:count]:
        columns.extend(range(*step))
    texts = yield from _read_texts(docstore, scored, columns, budget)
    included = budget.fit(selection, count, texts)
    if settings.allow_trim and included < count:
        chosen = trim(selection, included, texts, budget, settings.config.minimum_value)
    else:
        chosen = [TrimmedSegment(segment) for segment in selection.segments(included)]
    if not chosen:
        alone = worth_alone(scored, selection, settings.config, budget.characters)
        if budget.is_exact:
            alone = alone[:1]
        texts = yield from _read_texts(
            docstore, scored, [segment.start for segment in alone], budget
        )
        for segment in alone:
            if texts.length(segment.start, segment.end) <= budget.limit:
                chosen = [TrimmedSegment(segment)]
                break
    segments: list[DocumentSegment] = []
    for segment, skipped, dropped in chosen:
        layout, _ = scored.chunks[segment.start]
        chunks = [
            _segment_chunk(column, scored, selection, texts)
            for column in range(segment.start, segment.end)
        ]
        document_segment = DocumentSegment(layout, chunks, segment.value, skipped, dropped)
        for part in _without_missing(document_segment, settings.on_missing):
            segments.append(_without_last_headings(part))
    # Parts of a split or trimmed segment have other values than the segment.
    segments.sort(key=lambda segment: -segment.value)
    return ReadSegments(segments, included)


def _read_texts(
    docstore: BaseStore[str, Document], scored: ScoredChunks, columns: list[int], budget: Budget
) -> Steps[Texts]:
    """Read the chunks of columns."""
    layouts: dict[str, Layout] = {}
    chunks: list[tuple[str, int]] = []
    for column in columns:
        layout, index = scored.chunks[column]
        layouts[layout.manifest.key] = layout
        chunks.append((layout.manifest.key, index))
    if not chunks:
        return Texts(scored, {}, budget)
    read_of_store = yield from read_chunks(docstore, layouts, chunks)
    if read_of_store.replaced:
        raise DocumentsChangedError(replaced=read_of_store.replaced)
    records: dict[int, Document | None] = {}
    unreadable: dict[str, CorruptRecordError] = {}
    for column, chunk in zip(columns, chunks, strict=True):
        record = read_of_store.records[chunk]
        if isinstance(record, CorruptRecordError):
            document_key, _ = chunk
            unreadable[document_key] = record
        else:
            records[column] = record
    if unreadable:
        raise DocumentsChangedError(unreadable=unreadable)
    return Texts(scored, records, budget)


def _segment_chunk(
    column: int, scored: ScoredChunks, selection: Selection, texts: Texts
) -> SegmentChunk:
    _, index = scored.chunks[column]
    return SegmentChunk(
        index=index,
        record=texts.records[column],
        candidate=scored.candidates.get(column),
        relevance=float(scored.relevance[column]),
        credited=float(scored.credited[column]),
        value=float(selection.values[column]),
    )


def _without_missing(segment: DocumentSegment, on_missing: str) -> list[DocumentSegment]:
    """The segment, or the parts of it that the docstore has."""
    missing = [chunk.index for chunk in segment.chunks if chunk.record is None]
    if not missing:
        return [segment]
    manifest = segment.document.manifest
    if on_missing == "raise":
        first_key = chunk_key(manifest.key, segment.document.version, missing[0])
        raise MissingRecordError(
            f"the docstore lacks chunk(s) {first_few(map(str, missing))} of document "
            f"{manifest.doc_id!r} (key {first_key!r}). Delete "
            "the document and add it again, or set on_missing='split' to go on without them"
        )
    return split_segment(segment, set(missing))


def _without_last_headings(segment: DocumentSegment) -> DocumentSegment:
    """The segment without the headings at its end, whose text is in the next chunk.

    The default splitter puts headings into the chunk below them; others may not.
    """
    last_record = segment.chunks[-1].record
    current = segment.document.manifest.current
    if last_record is None or current is None:
        return segment
    ends_document = segment.end == current.chunks and not segment.dropped
    if ends_document:
        return segment
    text = segment.text
    after_end = len(text) - end_before_headings(text)
    last_chunk = len(last_record.page_content) - segment.dropped
    if len(segment.chunks) == 1:
        last_chunk -= segment.skipped
    if after_end == 0 or after_end >= last_chunk:
        return segment  # a chunk that is a heading was chosen as it is
    return segment._replace(dropped=segment.dropped + after_end)


def split_segment(segment: DocumentSegment, left_out: Collection[int]) -> list[DocumentSegment]:
    """The parts of a segment that contain candidates, without the chunks of some numbers."""
    parts = []
    groups = itertools.groupby(segment.chunks, lambda chunk: chunk.index in left_out)
    for is_left_out, group in groups:
        chunks = list(group)
        candidates = [number for number, chunk in enumerate(chunks) if chunk.candidate is not None]
        if is_left_out or not candidates:
            continue
        # Each part begins and ends with a candidate, as any segment does.
        inside = chunks[candidates[0] : candidates[-1] + 1]
        begins_segment = inside[0] is segment.chunks[0]
        ends_segment = inside[-1] is segment.chunks[-1]
        part = DocumentSegment(
            segment.document,
            inside,
            value=math.fsum(chunk.value for chunk in inside),
            skipped=segment.skipped if begins_segment else 0,
            dropped=segment.dropped if ends_segment else 0,
        )
        parts.append(part)
    return parts
