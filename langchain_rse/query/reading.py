"""Read: reads the texts of selected segments, and measures which of them fit the budget."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._messages import first_few
from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CorruptRecordError, MissingRecordError
from langchain_rse.query.budget import Budget, Texts, trim
from langchain_rse.query.scoring import ScoredChunks
from langchain_rse.query.searching import Candidate
from langchain_rse.query.selecting import Selection, worth_alone
from langchain_rse.stores.reading import Layout, read_chunks
from langchain_rse.stores.records import chunk_key


@dataclass(frozen=True)
class ScoredChunk:
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
    chunks: Sequence[ScoredChunk]
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
        text = "".join(one.record.page_content for one in self.chunks if one.record is not None)
        return text[self.skipped : len(text) - self.dropped]


def read(
    docstore: BaseStore[str, Document],
    scored: ScoredChunks,
    selection: Selection,
    budget: Budget,
    settings: QuerySettings,
) -> Steps[tuple[list[DocumentSegment], int] | None]:
    """Read the selected segments that fit, best first; also return the number of their steps.

    If none fits, the best candidate that fits and is worth the penalty takes their place. Returns
    None if a document was replaced or deleted since its layout was read, or has chunks that cannot
    be read, as its entry in ``scored.layouts`` then says.
    """
    count = budget.steps_to_read(scored, selection)
    columns = [column for step in selection.steps[:count] for column in range(*step)]
    texts = yield from _read_texts(docstore, scored, columns, budget)
    if texts is None:
        return None
    included = budget.fit(selection, count, texts)
    segments, trimmed = selection.segments(included), None
    if settings.allow_trim and included < count:
        segments, trimmed = trim(selection, included, texts, budget, settings.config.minimum_value)
    if not segments and trimmed is None:
        alone = worth_alone(scored, selection, settings.config, budget.characters)
        alone = alone[:1] if budget.is_exact else alone
        texts = yield from _read_texts(docstore, scored, [one.start for one in alone], budget)
        if texts is None:
            return None
        segments = [one for one in alone if texts.length(*one[:2]) <= budget.limit][:1]
    chosen = [(segment, 0, 0) for segment in segments] + ([trimmed] if trimmed else [])
    whole: list[DocumentSegment] = []
    for segment, skipped, dropped in chosen:
        document, _ = scored.places[segment.start]
        columns = list(range(segment.start, segment.end))
        chunks = [_scored_chunk(column, scored, selection, texts) for column in columns]
        one = DocumentSegment(document, chunks, segment.value, skipped, dropped)
        whole += _without_missing(one, settings.on_missing)
    # Parts of a split or trimmed segment have other values than the segment.
    whole.sort(key=lambda segment: -segment.value)
    return whole, included


def _read_texts(
    docstore: BaseStore[str, Document], scored: ScoredChunks, columns: list[int], budget: Budget
) -> Steps[Texts | None]:
    """Read the chunks of columns; None if a document was replaced, deleted or cannot be read."""
    places = [scored.places[column] for column in columns]
    layouts = {layout.manifest.key: layout for layout, _ in places}
    wanted = [(layout.manifest.key, index) for layout, index in places]
    found = (yield from read_chunks(docstore, layouts, wanted)) if wanted else {}
    if found is None:
        return None
    records: dict[int, Document | None] = {}
    for column, place in zip(columns, wanted, strict=True):
        record = found[place]
        if isinstance(record, CorruptRecordError):
            scored.layouts[place[0]] = record
        else:
            records[column] = record
    return Texts(scored, records, budget) if len(records) == len(columns) else None


def _scored_chunk(
    column: int, scored: ScoredChunks, selection: Selection, texts: Texts
) -> ScoredChunk:
    return ScoredChunk(
        index=scored.places[column][1],
        record=texts.records[column],
        candidate=scored.candidates.get(column),
        relevance=float(scored.relevance[column]),
        credited=float(scored.credited[column]),
        value=float(selection.values[column]),
    )


def _without_missing(segment: DocumentSegment, on_missing: str) -> Iterator[DocumentSegment]:
    """The segment, or the parts of it that the docstore has and that contain candidates."""
    missing = [chunk.index for chunk in segment.chunks if chunk.record is None]
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
    for _, run in itertools.groupby(segment.chunks, lambda chunk: chunk.record is None):
        chunks = list(run)
        found = [number for number, chunk in enumerate(chunks) if chunk.candidate is not None]
        if chunks[0].record is not None and found:
            # Each part begins and ends with a candidate, as any segment does.
            inside = chunks[found[0] : found[-1] + 1]
            yield segment._replace(
                chunks=inside,
                value=math.fsum(chunk.value for chunk in inside),
                skipped=segment.skipped if inside[0] is segment.chunks[0] else 0,
                dropped=segment.dropped if inside[-1] is segment.chunks[-1] else 0,
            )
