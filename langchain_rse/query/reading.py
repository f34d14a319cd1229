"""Read: reads the texts of selected passages and keeps the passages that fit the budget."""

from __future__ import annotations

import itertools
import math
import numbers
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import Steps, batches, compute, during
from langchain_rse.config import LengthFunction, QuerySettings
from langchain_rse.engine import Segment
from langchain_rse.errors import CorruptRecordError, MissingRecordError
from langchain_rse.query.candidates import Candidates, Sources, all_candidates
from langchain_rse.query.scoring import Chunk, ScoredChunks
from langchain_rse.query.selecting import Selection
from langchain_rse.stores.adopted import adopted_vectors
from langchain_rse.stores.layouts import Layout, VersionKey, read_chunks
from langchain_rse.stores.records import chunk_key, digest, with_headers
from langchain_rse.stores.vectorstores import vector_id_of
from langchain_rse.stores.vectorstores.base import PAGE_SIZE, VectorStoreAdapter
from langchain_rse.text.headings import end_before_headings
from langchain_rse.text.quoting import first_few

# Typed as an object: mypy assumes that a Callable is never a builtin function.
CHARACTERS: object = len
"""The length function that counts characters; these lengths are known without reading texts."""
# For units other than characters: the factor by which the estimated budget is raised, and the
# number of candidates whose texts are measured to estimate characters per unit.
_MARGIN = 1.3
_SAMPLE = 10

Records = Mapping[int, Document | None]
"""Chunks that were read, by position; None for chunks missing from the docstore."""


class Passage(NamedTuple):
    """A passage of a document."""

    layout: Layout  # of the document
    chunks: Sequence[Chunk]  # consecutive chunks, with their records
    value: float
    skipped: int = 0  # characters omitted at the beginning of the first chunk
    dropped: int = 0  # characters omitted at the end of the last chunk

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
        """Range ``(start, end)`` of characters in the document's text, end exclusive."""
        start, _ = self.layout.span_of(self.start)
        _, end = self.layout.span_of(self.end - 1)
        return start + self.skipped, end - self.dropped

    @property
    def text(self) -> str:
        """The slice of the source text."""
        text = "".join(chunk.record.page_content for chunk in self.chunks if chunk.record)
        return text[self.skipped : len(text) - self.dropped]


class ReadPassages(NamedTuple):
    """The passages that fit the budget, or the documents that could not be read."""

    passages: Sequence[Passage] = ()  # best first
    steps: int = 0  # number of the selection's steps that form them
    replaced: Collection[str] = ()  # keys of documents that were replaced since the look-up
    # Errors of documents that cannot be read, by document key.
    unreadable: Mapping[str, CorruptRecordError] = {}


# The budget


def measure(text: str, length_function: LengthFunction) -> float:
    """Return the length of a text; raise a ValueError if the function returns no length."""
    length: object = length_function(text)
    if isinstance(length, numbers.Real) and math.isfinite(length) and float(length) >= 0:
        return float(length)
    raise ValueError(
        f"length_function must return a finite number >= 0; got {length!r} for a text of "
        f"{len(text)} characters, {text[:40]!r}"
    )


def budget_in_characters(settings: QuerySettings, candidates: Candidates) -> float:
    """Return the budget in characters; for other units, an estimate from some texts."""
    if settings.max_context_length is None:
        return math.inf
    if settings.length_function is CHARACTERS:
        return settings.max_context_length
    characters = 0
    length = 0.0
    for candidate in all_candidates(candidates)[:_SAMPLE]:
        text = candidate.document.page_content
        characters += len(text)
        length += measure(text, settings.length_function)
    return settings.max_context_length * _MARGIN * characters / length if length else math.inf


def fit(steps: int, limit: float, length_after: Callable[[int], float]) -> int:
    """Return how many of the first steps fit a limit, given the length after a number of steps."""
    # Length grows with the number of steps, so a binary search finds the first that does not fit.
    return bisect_right(range(1, steps + 1), limit, key=length_after)


def steps_within(scored: ScoredChunks, selection: Selection, characters: float) -> int:
    """Return how many of the first steps of a selection fit a budget in characters."""
    step_lengths = [int(scored.lengths[start:end].sum()) for start, end in selection.steps]
    totals = [0, *itertools.accumulate(step_lengths)]
    return fit(len(selection.steps), characters, totals.__getitem__)


# Reading


def read(
    sources: Sources,
    scored: ScoredChunks,
    selection: Selection,
    characters: float,
    settings: QuerySettings,
) -> Steps[ReadPassages]:
    """Read the selected passages that fit the budget; ``characters`` estimates the budget."""
    is_estimate = settings.length_function is not CHARACTERS
    needs_texts = is_estimate or settings.include_header
    count = steps_within(scored, selection, characters)
    if is_estimate:
        count = min(count + 1, len(selection.steps))
    steps = selection.steps[:count]
    positions = list(itertools.chain.from_iterable(range(*step) for step in steps))
    records = yield from _read_records(sources, scored, positions)
    if isinstance(records, ReadPassages):
        return records
    if needs_texts:
        texts = _Texts(scored, records, settings)
        count = fit(
            count,
            texts.limit,
            lambda steps: sum(map(texts.length, selection.passages_after(steps))),
        )
    chosen = selection.passages_after(count)
    passages: list[Passage] = []
    for passage in chosen:
        passages += _make_passages(passage, scored, selection, records, settings)
    # Splitting a passage changes values, so sort again.
    passages.sort(key=lambda passage: -passage.value)
    return ReadPassages(passages, count)


class _Texts(NamedTuple):
    """Measures the texts of chunks that were read."""

    scored: ScoredChunks
    records: Records
    settings: QuerySettings

    @property
    def limit(self) -> float:
        """The budget, in units of ``length_function``."""
        limit = self.settings.max_context_length
        return math.inf if limit is None else limit

    def length(self, passage: Segment) -> float:
        """Return the length of a passage as it is returned, headers included."""
        positions = range(passage.start, passage.end)
        records = [self.records[position] for position in positions]
        text = "".join(record.page_content for record in records if record is not None)
        if self.settings.include_header:
            layout, _ = self.scored.chunks[passage.start]
            text = with_headers(layout.manifest.header, records[0], text)
        return measure(text, self.settings.length_function)


def _make_passages(
    passage: Segment,
    scored: ScoredChunks,
    selection: Selection,
    records: Records,
    settings: QuerySettings,
) -> list[Passage]:
    """Make the passage of a document, split where chunks are missing from the docstore."""
    chunks = []
    for position in range(passage.start, passage.end):
        chunks.append(chunk_at(position, scored, selection, records[position]))
    layout, _ = scored.chunks[passage.start]
    parts = [Passage(layout, chunks, passage.value)]
    if any(chunk.record is None for chunk in chunks):
        parts = _without_missing(parts[0], settings.on_missing)
    return [_without_last_headings(part) for part in parts]


def chunk_at(
    position: int, scored: ScoredChunks, selection: Selection, record: Document | None = None
) -> Chunk:
    """Return the chunk at a position, with the numbers that the solver used."""
    layout, index = scored.chunks[position]
    return Chunk(
        layout=layout,
        index=index,
        candidate=scored.candidates.get(position),
        relevance=float(scored.relevance[position]),
        credited=float(scored.credited[position]),
        weight=float(selection.weights[position]),
        value=float(selection.values[position]),
        record=record,
    )


def _read_records(
    sources: Sources, scored: ScoredChunks, positions: Sequence[int]
) -> Steps[Records | ReadPassages]:
    """Read the chunks at some positions.

    Returns `ReadPassages` with the documents concerned if another attempt is needed.
    """
    layouts: dict[str, Layout] = {}
    chunks: list[tuple[str, int]] = []
    for position in positions:
        layout, index = scored.chunks[position]
        layouts[layout.manifest.key] = layout
        chunks.append((layout.manifest.key, index))
    if not chunks:
        return {}
    read_of_store = yield from compute(read_chunks, sources.docstore, layouts, chunks)
    records: dict[int, Document | None] = {}
    unreadable: dict[str, CorruptRecordError] = {}
    for position, chunk in zip(positions, chunks, strict=True):
        record = read_of_store.records[chunk]
        if isinstance(record, CorruptRecordError):
            document_key, _ = chunk
            unreadable[document_key] = record
        else:
            records[position] = record
    if read_of_store.replaced or unreadable:
        return ReadPassages(replaced=read_of_store.replaced, unreadable=unreadable)
    return records


def _without_missing(passage: Passage, on_missing: str) -> list[Passage]:
    """Split a passage at chunks missing from the docstore, or raise an error."""
    missing = [chunk.index for chunk in passage.chunks if chunk.record is None]
    manifest = passage.layout.manifest
    if on_missing == "raise":
        first_key = chunk_key(manifest.key, passage.layout.version, missing[0])
        raise MissingRecordError(
            f"chunk(s) {first_few(map(str, missing))} of document {manifest.doc_id!r} are missing "
            f"from the docstore (key {first_key!r}). Delete the document and add it again, or set "
            "on_missing='split' to continue without them"
        )
    return split_passage(passage, set(missing))


def _without_last_headings(passage: Passage) -> Passage:
    """Drop headings at the end of a passage: their text is in the next chunk.

    The default splitter keeps a heading with the text below it; other splitters may not.
    """
    last_record = passage.chunks[-1].record
    current = passage.layout.manifest.current
    if last_record is None or current is None or passage.end == current.chunks:
        return passage
    text = passage.text
    after_end = len(text) - end_before_headings(text)
    if after_end == 0 or after_end >= len(last_record.page_content):
        return passage  # the last chunk consists of headings: it was selected for them
    return passage._replace(dropped=after_end)


def split_passage(passage: Passage, removed: Collection[int]) -> list[Passage]:
    """Remove chunks by number from a passage; return the parts that contain candidates."""
    parts = []
    groups = itertools.groupby(passage.chunks, lambda chunk: chunk.index in removed)
    for is_removed, group in groups:
        chunks = list(group)
        found = [number for number, chunk in enumerate(chunks) if chunk.candidate is not None]
        if is_removed or not found:
            continue
        # Like every passage, each part begins and ends with a candidate.
        inside = chunks[found[0] : found[-1] + 1]
        begins_passage = inside[0] is passage.chunks[0]
        ends_passage = inside[-1] is passage.chunks[-1]
        part = Passage(
            passage.layout,
            inside,
            value=math.fsum(chunk.value for chunk in inside),
            skipped=passage.skipped if begins_passage else 0,
            dropped=passage.dropped if ends_passage else 0,
        )
        parts.append(part)
    return parts


# Adopted indexes


def find_changed(
    adapter: VectorStoreAdapter | None, passages: Iterable[Passage]
) -> Steps[dict[VersionKey, set[int]]]:
    """Find chunks of passages that were changed or deleted after their index was adopted.

    Other code owns an adopted index. The search finds only existing chunks, but the chunks between
    candidates come from the docstore, so this function looks them up in the vector store, in
    batches. It does nothing if the store is unknown.
    """
    adopted = [passage for passage in passages if passage.layout.is_adopted]
    if adapter is None or not adopted:
        return {}
    unconfirmed: list[tuple[VersionKey, int, Mapping[str, str]]] = []
    found_texts: dict[str, str] = {}  # of candidates, by the ids of their vectors
    for passage in adopted:
        key, version = passage.layout.manifest.key, passage.layout.version
        for chunk in passage.chunks:
            if chunk.candidate is not None:
                document = chunk.candidate.document
                found_texts[vector_id_of(document) or ""] = document.page_content
            if chunk.record is not None:
                vectors = adopted_vectors(chunk.record, chunk_key(key, version, chunk.index))
                if vectors and not _is_there(vectors, found_texts):
                    unconfirmed.append(((key, version), chunk.index, vectors))
    ids = itertools.chain.from_iterable(vectors for _, _, vectors in unconfirmed)
    stored_texts = yield from _stored_texts(adapter, ids)
    changed: dict[VersionKey, set[int]] = {}
    for version_key, index, vectors in unconfirmed:
        # If the store cannot return texts, compare with the texts that the search found.
        known_texts = found_texts if stored_texts is None else stored_texts
        is_known = stored_texts is not None or not found_texts.keys().isdisjoint(vectors)
        if is_known and not _is_there(vectors, known_texts):
            changed.setdefault(version_key, set()).add(index)
    return changed


def _stored_texts(adapter: VectorStoreAdapter, ids: Iterable[str]) -> Steps[dict[str, str] | None]:
    """Return the texts of vectors by id; None if the store cannot return them."""
    texts: dict[str, str] = {}
    for batch in batches(dict.fromkeys(ids), PAGE_SIZE):
        with during(f"looking up chunks of an adopted index in {adapter.kind}"):
            found = yield from adapter.existing_texts(batch)
        if found is None:
            return None
        texts.update(found)
    return texts


def without_changed(
    passages: Iterable[Passage], changed: Mapping[VersionKey, Collection[int]]
) -> list[Passage]:
    """Split passages at changed chunks; return the parts, best first."""
    parts: list[Passage] = []
    for passage in passages:
        version_key = (passage.layout.manifest.key, passage.layout.version)
        if version_key in changed:
            parts += split_passage(passage, changed[version_key])
        else:
            parts.append(passage)
    return sorted(parts, key=lambda passage: -passage.value)


def _is_there(vectors: Mapping[str, str], texts: Mapping[str, str]) -> bool:
    """True if a vector still has the adopted text; ``vectors`` maps ids to digests of texts."""
    for vector, text_digest in vectors.items():
        if vector in texts and digest(texts[vector]) == text_digest:
            return True
    return False
