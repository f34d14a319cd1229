"""Read: the texts of the selected segments, and with them what fits the budget exactly."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._messages import first_few
from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings
from langchain_rse.engine import Segment
from langchain_rse.errors import CorruptRecordError, MissingRecordError
from langchain_rse.query.budget import Budget, Texts, trim
from langchain_rse.query.scoring import ScoredChunk, ScoredChunks
from langchain_rse.query.selecting import Selection
from langchain_rse.stores.reading import Layout, read_chunks
from langchain_rse.stores.records import chunk_key


class DocumentSegment(NamedTuple):
    """A segment ``[start, end)`` of a document with its chunks and their records."""

    document: Layout
    start: int
    end: int
    value: float
    chunks: Sequence[ScoredChunk]
    records: Sequence[Document | None]  # None for those that the docstore lacks
    skipped: int = 0  # characters left out at the beginning of the first chunk
    dropped: int = 0  # and at the end of the last one


def read(
    docstore: BaseStore[str, Document],
    scored: ScoredChunks,
    selection: Selection,
    budget: Budget,
    settings: QuerySettings,
) -> Steps[tuple[list[DocumentSegment], int] | None]:
    """Read the selected segments and leave out those that do not fit, best first; count the steps.

    If none is left, the best candidate that fits and is worth the penalty takes their place. None
    if a document was replaced or deleted since its layout was read, or has chunks that cannot be
    read, as its entry in ``scored.layouts`` then says.
    """
    count = budget.steps_to_read(scored, selection)
    columns = [column for step in selection.steps[:count] for column in range(*step)]
    records = yield from _read_columns(docstore, scored, columns)
    if records is None:
        return None
    texts = Texts(scored, records, include_header=settings.include_header)
    included = budget.fit(selection, count, texts)
    segments, trimmed = selection.segments(included), None
    if settings.allow_trim and included < count:
        segments, trimmed = trim(selection, included, texts, budget, settings.config.minimum_value)
    if not segments and trimmed is None:
        alone = budget.alone_to_read(scored, selection)
        records = yield from _read_columns(docstore, scored, [one.start for one in alone])
        if records is None:
            return None
        texts = Texts(scored, records, include_header=settings.include_header)
        fits = (one for one in alone if budget.measure(texts.returned(*one[:2])) <= budget.limit)
        segments = list(itertools.islice(fits, 1))
    chosen = [(segment, 0, 0) for segment in segments] + ([trimmed] if trimmed else [])
    whole: list[DocumentSegment] = []
    for segment, skipped, dropped in chosen:
        one = _with_texts(segment, scored, selection, records)
        one = one._replace(skipped=skipped, dropped=dropped)
        whole += _without_missing(one, settings.on_missing)
    # Parts of a split or trimmed segment have other values than the segment.
    whole.sort(key=lambda segment: -segment.value)
    return whole, included


def _read_columns(
    docstore: BaseStore[str, Document], scored: ScoredChunks, columns: Sequence[int]
) -> Steps[dict[int, Document | None] | None]:
    """Read the records of columns; None if a document was replaced, deleted or cannot be read."""
    if not columns:
        return {}
    places = [scored.locate(column) for column in columns]
    layouts = {layout.manifest.key: layout for layout in scored.documents}
    wanted = [(layout.manifest.key, index) for layout, index in places]
    found = yield from read_chunks(docstore, layouts, wanted)
    if found is None:
        return None
    records: dict[int, Document | None] = {}
    for column, place in zip(columns, wanted, strict=True):
        record = found[place]
        if isinstance(record, CorruptRecordError):
            scored.layouts[place[0]] = record
        else:
            records[column] = record
    return records if len(records) == len(columns) else None


def _with_texts(
    segment: Segment,
    scored: ScoredChunks,
    selection: Selection,
    records: Mapping[int, Document | None],
) -> DocumentSegment:
    document, first = scored.locate(segment.start)
    columns = range(segment.start, segment.end)
    chunks = [
        ScoredChunk(
            index=index,
            candidate=scored.candidates.get(column),
            relevance=float(scored.relevance[column]),
            credited=float(scored.credited[column]),
            value=float(selection.values[column]),
        )
        for index, column in enumerate(columns, first)
    ]
    texts = [records[column] for column in columns]
    return DocumentSegment(document, first, first + len(columns), segment.value, chunks, texts)


def _without_missing(segment: DocumentSegment, on_missing: str) -> Iterator[DocumentSegment]:
    """The segment, or the parts of it that the docstore has and that contain candidates."""
    missing = [
        chunk.index
        for chunk, record in zip(segment.chunks, segment.records, strict=True)
        if record is None
    ]
    if not missing:
        yield segment
        return
    manifest, version = segment.document.manifest, segment.document.version
    if on_missing == "raise":
        raise MissingRecordError(
            f"the docstore lacks chunk(s) {first_few(map(str, missing))} of document "
            f"{manifest.doc_id!r} (key {chunk_key(manifest.key, version, missing[0])!r}). Delete "
            "the document and add it again, or set on_missing='split' to go on without them"
        )
    for before, after in itertools.pairwise([segment.start - 1, *missing, segment.end]):
        found = [
            chunk.index
            for chunk in segment.chunks
            if before < chunk.index < after and chunk.candidate is not None
        ]
        if not found:
            continue
        # As in any segment, candidates stand at both ends.
        start, end = found[0], found[-1] + 1
        inside = slice(start - segment.start, end - segment.start)
        yield segment._replace(
            start=start,
            end=end,
            value=math.fsum(chunk.value for chunk in segment.chunks[inside]),
            chunks=segment.chunks[inside],
            records=segment.records[inside],
            skipped=segment.skipped if start == segment.start else 0,
            dropped=segment.dropped if end == segment.end else 0,
        )
