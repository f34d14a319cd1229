"""Passages: from the candidates in their documents to the segments that are returned."""

from __future__ import annotations

import functools
import itertools
import logging
import math
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from langchain_core.documents import Document

from langchain_rse._wording import enumerated
from langchain_rse.along import changes_in, metadata_of_segment
from langchain_rse.candidates import Hit, grouped
from langchain_rse.fitting import Measure, Reach, characters, cut
from langchain_rse.reading import Layout
from langchain_rse.schema import (
    DOC_ID,
    END_INDEX,
    RELEVANCE_SCORE,
    START_INDEX,
    CorruptRecordError,
    MissingRecordError,
    chunk_key,
    with_header,
)
from langchain_rse.segmentation import Segment
from langchain_rse.selection import DocumentCandidates, Selected, select_segments
from langchain_rse.settings import QuerySettings

__all__ = [
    "Choice",
    "Chunks",
    "Plan",
    "check_known",
    "in_document_order",
    "present",
    "to_document",
]

logger = logging.getLogger(__name__)

# Candidates by which a budget in other units than characters is converted at first.
_SAMPLE = 10


Chunks = Mapping[tuple[str, int], Document | None]
"""Records of chunks by the document's key and their index; None for those that are lost."""


class Choice(NamedTuple):
    """A chosen segment, with the candidates in it by chunk index.

    Attributes:
        key: The document's key.
        segment: The segment.
        values: What each of its chunks is worth.
        hits: The candidates in it by chunk index.
        skipped: Characters left out at the start of its first chunk.
        dropped: Characters left out at the end of its last chunk.
    """

    key: str
    segment: Segment
    values: Sequence[float]
    hits: Mapping[int, Hit]
    skipped: int = 0
    dropped: int = 0


class Plan:
    """Which segments are returned, as far as their texts decide that.

    Args:
        hits: The candidates.
        layouts: The layouts of their documents.
        settings: Say how much text may be returned.
    """

    def __init__(
        self, hits: Sequence[Hit], layouts: Mapping[str, Layout], settings: QuerySettings
    ) -> None:
        self._limit = settings.max_context_length
        self._allow_trim = settings.allow_trim
        self._minimum_value = settings.config.minimum_value
        self._measure = Measure(settings.length_function)
        groups = grouped(hits, lambda hit: hit.key)
        self._keys = list(groups)
        self._headers = [
            layouts[key].manifest.header if settings.include_header else "" for key in self._keys
        ]
        self._hits = [{hit.chunk: hit for hit in groups[key]} for key in self._keys]
        documents = []
        for key, by_chunk in zip(self._keys, self._hits, strict=True):
            chunks = sorted(by_chunk)
            documents.append(
                DocumentCandidates(
                    chunks=np.array(chunks, dtype=np.intp),
                    relevance=np.array([[by_chunk[chunk].relevance for chunk in chunks]]),
                    windows=layouts[key].windows,
                    lengths=layouts[key].lengths(),
                    borders=layouts[key].borders,
                )
            )
        budget = None
        if self._limit is not None:
            sample = [hit.text for hit in hits[:_SAMPLE]]
            budget = characters(self._limit, self._measure, sample)
        self._selection = select_segments(documents, settings.config, budget=budget)
        self._reach = Reach(len(self._selection.steps), len(self._selection.steps))
        if self._limit is not None:
            self._reach = Reach.of(
                self._selection,
                self._limit,
                self._measure,
                spans=lambda step: (
                    layouts[self._keys[step.document]].lengths_of(*step[1:]).tolist()
                ),
                texts={
                    (document, chunk): hit.text
                    for document, by_chunk in enumerate(self._hits)
                    for chunk, hit in by_chunk.items()
                },
                spare=int(self._allow_trim),
            )

    def likely(self) -> list[tuple[str, Segment]]:
        """The documents' keys and the segments that fit, as far as the spans tell."""
        selected = self._selection.segments(self._reach.likely)
        return [(self._keys[document], segment) for document, segment, _ in selected]

    def wanted(self) -> Iterator[tuple[str, int]]:
        """The chunks whose texts are needed."""
        for document, start, end in self._selection.steps[: self._reach.read]:
            for index in range(start, end):
                yield self._keys[document], index

    def fit(self, chunks: Chunks) -> list[Choice]:
        """The segments that fit, best first."""

        def text_of(selected: Selected) -> str:
            text = self._text(chunks, selected.document, *selected.segment[:2])
            return with_header(self._headers[selected.document], text)

        count = self._reach.likely
        if self._limit is not None:
            count = self._reach.fit(
                self._selection,
                self._limit,
                self._measure,
                text_of,
                is_known=not any(self._headers),
            )
        chosen = self._selection.segments(count)
        choices = [self._choice(selected) for selected in chosen]
        if self._allow_trim and self._limit is not None and count < self._reach.read:
            used = sum(self._measure(text_of(selected)) for selected in chosen)
            self._trim(choices, count, chunks, self._limit - used)
            choices.sort(key=lambda choice: -choice.segment.value)
        if not choices and self._limit and self._selection.steps:
            _say_that_nothing_fits(self._limit)
        return choices

    def _choice(self, selected: Selected) -> Choice:
        document, segment, values = selected
        hits = self._hits[document]
        inside = {
            index: hits[index] for index in range(segment.start, segment.end) if index in hits
        }
        return Choice(self._keys[document], segment, values.tolist(), inside)

    def _text(self, chunks: Chunks, document: int, start: int, end: int) -> str:
        records = (chunks[self._keys[document], index] for index in range(start, end))
        return "".join(record.page_content for record in records if record is not None)

    def _trim(self, choices: list[Choice], count: int, chunks: Chunks, room: float) -> None:
        """Add as much of the step after so many as there is room for."""
        step = self._selection.steps[count]
        document, start, end = step
        key = self._keys[document]
        grown = next(
            (
                selected
                for selected in self._selection.segments(count + 1)
                if selected.document == document
                and selected.segment.start <= start < selected.segment.end
            ),
            None,
        )
        texts = [self._text(chunks, document, index, index + 1) for index in range(start, end)]
        if grown is None or not all(texts):
            return
        # The end of a step goes before the segment that it would extend, else its start
        # behind the one before it.
        keep_end = grown.segment.start == start and grown.segment.end > end
        beside = (end, grown.segment.end) if keep_end else (grown.segment.start, start)
        at = [(choice.key, *choice.segment[:2]) for choice in choices]
        extended = at.index((key, *beside)) if (key, *beside) in at else None
        if extended is None:
            keep_end, beside = False, (start, start)
        neighbor = self._text(chunks, document, *beside)
        header = self._headers[document]
        spent = 0.0 if extended is None else self._measure(with_header(header, neighbor))

        def fits(part: str) -> bool:
            joined = part + neighbor if keep_end else neighbor + part
            return self._measure(with_header(header, joined)) - spent <= room

        part = cut("".join(texts), fits, keep_end=keep_end)
        if not part:
            return
        kept = len(part) / sum(map(len, texts))
        skipped = dropped = 0
        if keep_end:
            first, last = start, beside[1]
            skipped = sum(map(len, texts)) - len(part)
        else:
            # A segment of several chunks may lose some of them.
            sizes = list(itertools.accumulate(map(len, texts)))
            whole = bisect_left(sizes, len(part))
            first, last = beside[0], start + whole + 1
            dropped = sizes[whole] - len(part)
        offset = grown.segment.start
        values = grown.values[first - offset : last - offset]
        worth = kept * float(grown.values[start - offset : end - offset].sum())
        if extended is not None:
            worth += choices.pop(extended).segment.value
        elif worth < self._minimum_value:
            return
        trimmed = self._choice(Selected(document, Segment(first, last, worth), values))
        choices.append(trimmed._replace(skipped=skipped, dropped=dropped))


@functools.lru_cache(maxsize=32)  # once for each limit: there may be thousands of queries
def _say_that_nothing_fits(limit: float) -> None:
    logger.warning(
        "nothing was returned for a query, since what is worth most is longer than "
        "max_context_length=%g: allow_trim=True returns as much of it as there is room for; or "
        "make chunks smaller, or give more room. (This is said once.)",
        limit,
    )


def check_known(hits: Iterable[Hit], layouts: Container[str]) -> None:
    """Check that the docstore knows the documents of hits.

    Raises:
        MissingRecordError: If it lacks one.
    """
    lost = dict.fromkeys(hit.doc_id for hit in hits if hit.key not in layouts)
    if lost:
        raise MissingRecordError(
            f"the docstore does not know the document(s) {enumerated(map(repr, lost))}, of which "
            "the vector store has chunks. Are the two stores a pair? If the docstore lost them, "
            "delete the documents' vectors and add them again, or set on_missing='split' to "
            "pass over them"
        )


def present(
    choice: Choice, chunks: Chunks, layouts: Mapping[str, Layout], on_missing: str
) -> list[Choice]:
    """The choice, or the parts of it that the docstore has and that hold candidates."""
    start, end, _ = choice.segment
    missing = [index for index in range(start, end) if chunks[choice.key, index] is None]
    if not missing:
        return [choice]
    layout = layouts[choice.key]
    if on_missing == "raise":
        raise MissingRecordError(
            f"the docstore lacks chunk(s) {enumerated(map(repr, missing))} of document "
            f"{layout.manifest.doc_id!r} (key "
            f"{chunk_key(choice.key, layout.version, missing[0])!r}). Delete the document and add "
            "it again, or set on_missing='split' to go without them"
        )
    parts = []
    cuts = [start - 1, *missing, end]
    for before, after in itertools.pairwise(cuts):
        hits = {index: hit for index, hit in choice.hits.items() if before < index < after}
        if not hits:
            continue
        # As in any segment, nothing stands at the ends that nothing speaks for.
        first, last = min(hits), max(hits) + 1
        values = choice.values[first - start : last - start]
        parts.append(
            Choice(
                choice.key,
                Segment(first, last, math.fsum(values)),
                values,
                hits,
                skipped=choice.skipped if first == start else 0,
                dropped=choice.dropped if last == end else 0,
            )
        )
    return parts


def in_document_order(choices: Sequence[Choice]) -> list[Choice]:
    """Choices of one document together and in its order, documents by their best choice."""
    return [
        choice
        for some in grouped(choices, lambda choice: choice.key).values()
        for choice in sorted(some, key=lambda choice: choice.segment.start)
    ]


def to_document(
    choice: Choice, chunks: Chunks, layout: Layout, *, include_header: bool = False
) -> Document:
    """A choice as it is returned, behind the document's header or not.

    Raises:
        CorruptRecordError: If a chunk's record does not fit its place.
    """
    (start, end, value), manifest = choice.segment, layout.manifest
    records = [
        record for index in range(start, end) if (record := chunks[choice.key, index]) is not None
    ]
    place: Any = records[0].metadata.get(START_INDEX)
    for index, record in enumerate(records, start):
        bounds = record.metadata.get(START_INDEX), record.metadata.get(END_INDEX)
        if not isinstance(place, int) or bounds != (place, place + len(record.page_content)):
            raise CorruptRecordError(
                f"the docstore's chunk {chunk_key(choice.key, layout.version, index)!r} of "
                f"document {manifest.doc_id!r} does not fit its place: it has "
                f"{len(record.page_content)} characters for {bounds[0]} to {bounds[1]} and "
                f"should start at {place}. Delete the document and add it again"
            )
        place += len(record.page_content)
    text = "".join(record.page_content for record in records)
    trimmed = f"/{choice.skipped}-{choice.dropped}" if choice.skipped or choice.dropped else ""
    return Document(
        id=f"{choice.key}/{layout.version}/{start}-{end}{trimmed}",
        page_content=with_header(
            manifest.header if include_header else "",
            text[choice.skipped : len(text) - choice.dropped],
        ),
        metadata={
            **metadata_of_segment(
                manifest.metadata, manifest.rules, _places(choice, records, layout.version)
            ),
            DOC_ID: manifest.doc_id,
            START_INDEX: place - len(text) + choice.skipped,
            END_INDEX: place - choice.dropped,
            RELEVANCE_SCORE: value,
            "rse": {
                "version": layout.version,
                "chunk_start": start,
                "chunk_end": end,
                "chunks": [
                    _describe(index, record, choice.hits.get(index))
                    for index, record in enumerate(records, start)
                ],
            },
        },
    )


def _places(
    choice: Choice, records: Sequence[Document], version: str
) -> Sequence[Mapping[str, Any]]:
    """The metadata that changes, from the first character of a choice to its last.

    Raises:
        CorruptRecordError: If a chunk's record has none that can be read.
    """
    places: list[tuple[int, Mapping[str, Any]]] = []
    begin, end = choice.skipped, sum(len(record.page_content) for record in records)
    if choice.skipped or choice.dropped:
        text = "".join(record.page_content for record in records)[begin : end - choice.dropped]
        begin += len(text) - len(text.lstrip() or text)
        end = choice.skipped + len(text.rstrip() or text)
    start = 0
    for index, record in enumerate(records, choice.segment.start):
        changes = changes_in(record, chunk_key(choice.key, version, index))
        places += [(start + place, here) for place, here in changes]
        start += len(record.page_content)
    # What holds at the first character began at or before it.
    first = max(bisect_right(places, begin, key=lambda place: place[0]) - 1, 0)
    return [here for place, here in places[first:] if place < end]


def _describe(index: int, record: Document, hit: Hit | None) -> dict[str, Any]:
    chunk: dict[str, Any] = {"index": index, "length": len(record.page_content)}
    if hit is None:
        return {**chunk, "filled": True}
    found = {**chunk, "rank": hit.rank, "score": hit.score, "relevance": hit.relevance}
    if hit.lexical_rank is not None:
        found |= {"lexical_rank": hit.lexical_rank, "lexical_score": hit.lexical_score}
    return {**found, **hit.judgment}
