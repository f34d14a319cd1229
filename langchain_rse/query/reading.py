"""Read and render: reads the texts of selected passages, and makes the returned Documents."""

from __future__ import annotations

import itertools
import math
import numbers
import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_core.documents import Document

from langchain_rse._sync import Steps, batches, compute, during
from langchain_rse.config import LengthFunction, QuerySettings
from langchain_rse.engine import Segment
from langchain_rse.errors import CorruptRecordError
from langchain_rse.query.candidates import FULL_TEXT, Candidates, Reason, Sources, best_of_queries
from langchain_rse.query.filters import Filters
from langchain_rse.query.scoring import Chunk, ScoredChunks, Selection
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.layouts import Layout, VersionKey, read_chunks
from langchain_rse.stores.records import (
    CHUNK_ID,
    COUNTS_IN_SOURCE,
    DEFAULT_RULES,
    DOC_ID,
    END_INDEX,
    PASSAGE,
    RELEVANCE_SCORE,
    START_INDEX,
    Manifest,
    Metadata,
    Rule,
    adopted_vectors,
    chunk_key,
    content_name,
    digest,
    metadata_changes,
    with_headers,
)
from langchain_rse.stores.vectorstores import vector_id_of
from langchain_rse.stores.vectorstores.base import PAGE_SIZE, VectorStoreAdapter
from langchain_rse.text.headings import end_before_headings
from langchain_rse.text.sentences import sentence_ends

# Typed as an object: mypy assumes that a Callable is never a builtin function.
CHARACTERS: object = len
"""The length function that counts characters; these lengths are known without reading texts."""
# For units other than characters: the factor by which the estimated budget is raised, and the
# number of candidates whose texts are measured to estimate characters per unit.
_MARGIN = 1.3
_SAMPLE = 10
_WORD = re.compile(r"\w\S*")  # with the marks after it


class Passage(NamedTuple):
    """A run of neighboring chunks of a document."""

    layout: Layout  # of the document
    chunks: Sequence[Chunk]  # consecutive chunks, with their records
    value: float
    skipped: int = 0  # characters omitted at the beginning of the first chunk
    dropped: int = 0  # characters omitted at the end of the last chunk
    outcome: Reason = Reason.BEYOND_K  # why it is not returned, if it is not

    def __repr__(self) -> str:
        return (
            f"<Passage of {self.layout.manifest.doc_id!r}: chunks {self.start} to {self.end - 1}>"
        )

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


def shown_text(passage: Passage, settings: QuerySettings) -> str:
    """Return the text of a passage, below its headers with ``include_header``."""
    if not settings.include_header:
        return passage.text
    return with_headers(passage.layout.manifest.header, passage.chunks[0].record, passage.text)


class ReadPassages(NamedTuple):
    """The passages that fit the budget, and the versions that could not be read."""

    passages: Sequence[Passage]  # best first
    steps: int  # number of the selection's steps that form them
    corrupt: Mapping[VersionKey, CorruptRecordError]  # versions with a corrupt or missing chunk
    replaced: Collection[str]  # keys of documents that were replaced since the look-up


# The budget


def measure(text: str, length_function: LengthFunction) -> float:
    """Return the length of a text; raise a ValueError if the function returns no length."""
    length: object = length_function(text)
    if isinstance(length, numbers.Real) and math.isfinite(length) and float(length) >= 0:
        return float(length)
    raise ValueError(
        f"length_function must return a finite number >= 0; got {length!r:.40} for a text of "
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
    for candidate in best_of_queries(candidates)[:_SAMPLE]:
        text = candidate.document.page_content
        characters += len(text)
        length += measure(text, settings.length_function)
    return settings.max_context_length * _MARGIN * characters / length if length else math.inf


# Reading


def read(
    sources: Sources,
    selection: Selection,
    characters: float,
    settings: QuerySettings,
) -> Steps[ReadPassages]:
    """Read the selected passages that fit the budget; ``characters`` estimates the budget."""
    is_estimate = settings.length_function is not CHARACTERS
    count = selection.steps_within(characters)
    is_measured = is_estimate or settings.include_header or not count
    if is_estimate or not count:
        count = min(count + 1, len(selection.steps))
    positions = selection.positions_after(count)
    records, corrupt, replaced = yield from _read_records(sources, selection.scored, positions)
    limit = settings.max_context_length
    if limit is not None and is_measured:

        def length_after(steps: int) -> float:
            length = 0.0
            for segment in selection.passages_after(steps):
                text = shown_text(passage_of(segment, selection, records), settings)
                length += measure(text, settings.length_function)
            return length

        # Length grows with the number of steps: a binary search finds the first that does not fit.
        count = bisect_right(range(1, count + 1), limit, key=length_after)
    passages = []
    # If not even the first step fits, its beginning may.
    for segment in selection.passages_after(max(count, 1)):
        passage = passage_of(segment, selection, records)
        layout = passage.layout
        if layout.manifest.key in replaced:
            passages.append(passage._replace(outcome=Reason.REPLACED))
        elif (layout.manifest.key, layout.version) in corrupt:
            passages.append(passage._replace(outcome=Reason.CORRUPT))
        elif count or limit is None:
            passages.append(_without_last_headings(passage))
        elif len(passage.chunks) == 1:
            passages += beginning_within(limit, passage, settings)
    return ReadPassages(passages, count, corrupt, replaced)


def passage_of(
    segment: Segment,
    selection: Selection,
    records: Mapping[int, Document] = MappingProxyType({}),
) -> Passage:
    """Return the passage of a segment, with the records of its chunks as far as they are read."""
    chunks = []
    for position in range(segment.start, segment.end):
        chunks.append(selection.chunk_at(position, records.get(position)))
    layout, _ = selection.scored.chunks[segment.start]
    return Passage(layout, chunks, segment.value)


def _read_records(
    sources: Sources, scored: ScoredChunks, positions: Sequence[int]
) -> Steps[tuple[dict[int, Document], dict[VersionKey, CorruptRecordError], Collection[str]]]:
    """Read the chunks at some positions; also return the corrupt versions, and replaced documents.

    Replaced documents are given by their keys.
    """
    layouts: dict[str, Layout] = {}
    chunks: dict[int, tuple[str, int]] = {}
    for position in positions:
        layout, index = scored.chunks[position]
        layouts[layout.manifest.key] = layout
        chunks[position] = layout.manifest.key, index
    if not chunks:
        return {}, {}, ()
    stored, replaced = yield from compute(read_chunks, sources.docstore, layouts, chunks.values())
    records: dict[int, Document] = {}
    corrupt: dict[VersionKey, CorruptRecordError] = {}
    for position, (key, index) in chunks.items():
        record = stored[key, index]
        if isinstance(record, Document):
            records[position] = record
        elif key not in replaced:
            version = layouts[key].version
            doc_id = layouts[key].manifest.doc_id
            corrupt[key, version] = record or CorruptRecordError(
                f"chunk {index} of document {doc_id!r} is missing from the docstore (key "
                f"{chunk_key(key, version, index)!r})"
            )
    return records, corrupt, replaced


def _without_last_headings(passage: Passage) -> Passage:
    """Drop headings at the end of a passage: their text is in the next chunk.

    The default splitter keeps a heading with the text below it; other splitters may not.
    """
    last_record = passage.chunks[-1].record
    if last_record is None or passage.end == passage.layout.chunk_count:
        return passage
    text = passage.text
    after_end = len(text) - end_before_headings(text)
    if after_end == 0 or after_end >= len(last_record.page_content):
        return passage  # the last chunk consists of headings: it was selected for them
    return passage._replace(dropped=after_end)


def beginning_within(limit: float, passage: Passage, settings: QuerySettings) -> list[Passage]:
    """Cut a passage of one chunk so that it fits the budget.

    It ends with a sentence, or with a word if sentences would fill less than half of the room.
    Return nothing if no word fits, or only headings.
    """
    text = passage.text

    def cut_at(end: int) -> Passage:
        return passage._replace(dropped=len(text) - len(text[:end].rstrip()))

    def length_to(end: int) -> float:
        return measure(shown_text(cut_at(end), settings), settings.length_function)

    sentences = {*sentence_ends(text), len(text)}
    ends = sorted(sentences.union(word.end() for word in _WORD.finditer(text)))
    fitting = ends[: bisect_right(ends, limit, key=length_to)]
    if not fitting:
        return []
    last_sentence = max(sentences.intersection(fitting), default=0)
    end = last_sentence if 2 * last_sentence >= fitting[-1] else fitting[-1]
    end_of_text = end_before_headings(text[:end])
    return [cut_at(end_of_text)] if end_of_text else []


# Adopted indexes


def without_changed(
    adapter: VectorStoreAdapter | None, passages: Sequence[Passage]
) -> Steps[Sequence[Passage]]:
    """Mark passages of adopted documents whose text was changed or deleted in the vector store.

    Other code owns an adopted index. The search finds only existing chunks, but the chunks between
    candidates come from the docstore, so their vectors are looked up. If the store cannot return
    texts by id, only the texts that the search found are compared.
    """
    if adapter is None:
        return passages
    found: dict[str, str] = {}  # digests of texts by vector id; empty for deleted ones
    digests_of: list[list[Mapping[str, str]]] = []  # by vector id, for each chunk of a passage
    for passage in passages:
        digests_of.append([])
        for chunk in passage.chunks if passage.layout.is_adopted else ():
            if chunk.candidate is not None:
                document = chunk.candidate.document
                found[vector_id_of(document) or ""] = digest(document.page_content)
            if chunk.record is not None:
                digests = adopted_vectors(chunk.record, passage.layout.manifest.key)
                digests_of[-1].append(digests)
    vectors = set().union(*itertools.chain.from_iterable(digests_of))
    for batch in batches(sorted(vectors - found.keys()), PAGE_SIZE):
        with during(f"looking up chunks of an adopted index in {adapter.kind}"):
            stored_texts = yield from adapter.existing_texts(batch)
        if stored_texts is None:
            break
        found.update(dict.fromkeys(batch, ""))
        found.update((vector, digest(text)) for vector, text in stored_texts.items())
    marked = []
    for passage, digests_of_chunks in zip(passages, digests_of, strict=True):
        is_there = True
        for digests in digests_of_chunks:
            is_known = not found.keys().isdisjoint(digests)
            is_there &= not is_known or not found.items().isdisjoint(digests.items())
        marked.append(passage if is_there else passage._replace(outcome=Reason.CHANGED))
    return marked


# Rendering

_DIGITS = 4  # significant digits of scores in the metadata of passages


def choose(passages: Sequence[Passage], settings: QuerySettings) -> list[Passage]:
    """Choose the ``k`` best passages and put them in the order of the answer.

    Passages come best first. The passage with the best candidate is always chosen, even if longer
    passages have higher values.
    """
    chosen = list(passages)
    if settings.k is not None and len(chosen) > settings.k:
        preferred = max(chosen, key=_highest_relevance)
        others = [passage for passage in chosen if passage is not preferred]
        chosen = sorted([preferred, *others[: settings.k - 1]], key=lambda each: -each.value)
    if settings.order == "document":
        first_number: dict[str, int] = {}  # of each document's passages
        for number, passage in enumerate(chosen):
            first_number.setdefault(passage.layout.manifest.key, number)
        chosen.sort(key=lambda passage: (first_number[passage.layout.manifest.key], passage.start))
    return chosen


def _highest_relevance(passage: Passage) -> float:
    return max(chunk.relevance for chunk in passage.chunks)


def render(passage: Passage, settings: QuerySettings, *, shows_query: bool = False) -> Document:
    """Make the Document of a passage.

    Args:
        passage: The passage, with the records of its chunks.
        settings: The settings of the query.
        shows_query: True to add, for each chunk, the query that it matches best.
    """
    manifest = passage.layout.manifest
    version = content_name(passage.layout.version)  # the same each time it is written
    identity = f"{manifest.key}/{version}/{passage.start}-{passage.end}"
    if passage.skipped or passage.dropped:
        identity += f"/{passage.skipped}-{passage.dropped}"
    start_index, end_index = passage.span
    described: dict[str, Any] = {
        "version": version,
        "chunk_start": passage.start,
        "chunk_end": passage.end,
        "chunks": [_describe(chunk, shows_query=shows_query) for chunk in passage.chunks],
    }
    if not manifest.counts_in_source:
        described[COUNTS_IN_SOURCE] = False
    return Document(
        id=identity,
        page_content=shown_text(passage, settings),
        metadata={
            **_metadata_by_rules(manifest, _metadata_along(passage)),
            DOC_ID: manifest.doc_id,
            CHUNK_ID: identity,
            START_INDEX: start_index,
            END_INDEX: end_index,
            RELEVANCE_SCORE: passage.value,
            PASSAGE: described,
        },
    )


def check_filters(passage: Passage, filters: Filters, searcher: str) -> None:
    """Check that a document's metadata in the docstore passes the filters of the search.

    A vector store may not keep every field or list.

    Args:
        passage: The passage, with the records of its chunks.
        filters: The filters of the query.
        searcher: Name of the class that found the candidates, for the error message.

    Raises:
        ValueError: If a filter excludes the metadata.
    """
    manifest = passage.layout.manifest
    if passage.layout.is_adopted:
        return  # other code wrote the metadata of the vector store
    for chunk in passage.chunks:
        if chunk.candidate is not None and chunk.record is not None:
            found = chunk.candidate.document
            _, at_its_beginning = metadata_changes(chunk.record, manifest.key)[0]
            metadata = {**found.metadata, **manifest.metadata, **at_its_beginning}
            filters.check_applied(found.model_copy(update={"metadata": metadata}), searcher)


def _metadata_along(passage: Passage) -> Sequence[Metadata]:
    """Return the metadata that changes along the passage, ignoring white space at cut ends."""
    text = passage.text
    visible_text = text
    if passage.skipped or passage.dropped:
        visible_text = text.strip() or text
    # Positions count from the first character of the passage's first chunk.
    start = passage.skipped + text.index(visible_text)
    end = start + len(visible_text)
    changes: list[tuple[int, Metadata]] = []
    chunk_start = 0
    for chunk in passage.chunks:
        if chunk.record is not None:
            key = passage.layout.manifest.key
            for position, metadata in metadata_changes(chunk.record, key):
                changes.append((chunk_start + position, metadata))
            chunk_start += len(chunk.record.page_content)
    # The metadata of the first character began at or before it.
    first = max(bisect_right(changes, start, key=lambda change: change[0]) - 1, 0)
    return [metadata for position, metadata in changes[first:] if position < end]


def _describe(chunk: Chunk, *, shows_query: bool) -> dict[str, Any]:
    """Describe a chunk for the metadata of its passage."""
    length = len(chunk.record.page_content) if chunk.record else 0
    described: dict[str, Any] = {"index": chunk.index, "length": length}
    candidate = chunk.candidate
    if candidate is None:
        described["filled"] = True
    else:
        rank, score = candidate.hit or (None, None)
        described["rank"] = rank
        described["score"] = _rounded(score)
        described["relevance"] = _rounded(chunk.relevance)
        lexical_hit = candidate.hits.get(FULL_TEXT)
        if lexical_hit is not None:
            described["lexical_rank"] = lexical_hit.rank
            described["lexical_score"] = _rounded(lexical_hit.score)
        if shows_query:
            described["query"] = candidate.query
        described |= candidate.judgment
    described["credited"] = _rounded(chunk.credited)
    described["value"] = _rounded(chunk.value)
    return described


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.{_DIGITS}g}")


def _metadata_by_rules(manifest: Manifest, changes: Sequence[Metadata]) -> dict[str, Any]:
    """Combine the metadata of a document and its chunks into the metadata of a passage.

    A field with a rule always follows it. Other fields follow ``"range"`` if they change.

    Args:
        manifest: Has the metadata of the whole document, and the rules by field.
        changes: The remaining metadata along the passage, in text order.
    """
    all_rules = {**DEFAULT_RULES, **manifest.rules}
    passage: dict[str, Any] = {}
    shared_with_rule: dict[str, Any] = {}
    for name, value in manifest.metadata.items():
        target = shared_with_rule if name in all_rules else passage
        target[name] = value
    along = [{**shared_with_rule, **change} for change in changes]
    for name in dict.fromkeys(itertools.chain.from_iterable(along)):  # in order of appearance
        passage.update(_follow_rule(all_rules.get(name, "range"), name, along))
    return passage


def _follow_rule(rule: Rule, name: str, along: Sequence[Metadata]) -> dict[str, Any]:
    """Apply a rule to one metadata field, given the metadata along the passage."""
    first = along[0]
    last = along[-1]
    if rule == "all":
        # Compared as JSON, because some values, such as arrays, have no plain equality.
        values = [metadata[name] for metadata in along if name in metadata]
        distinct = {encode_json(value, name): value for value in values}
        return {name: list(distinct.values())}
    if rule == "range":
        fields = {}
        if name in first:
            fields[f"{name}_start"] = first[name]
        if name in last:
            fields[f"{name}_end"] = last[name]
        if len(fields) == 2 and first[name] == last[name]:  # noqa: PLR2004 - both ends
            fields[name] = first[name]  # prompts use the plain name
        return fields
    chosen = last if rule == "last" else first
    return {name: chosen[name]} if name in chosen else {}
