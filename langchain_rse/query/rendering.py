"""Render: makes the returned Documents from passages."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from langchain_rse.config import QuerySettings
from langchain_rse.query.candidates import FULL_TEXT
from langchain_rse.query.filters import Filters
from langchain_rse.query.reading import Passage, shown_text
from langchain_rse.query.scoring import Chunk
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import (
    CHUNK_ID,
    COUNTS_IN_SOURCE,
    DEFAULT_RULES,
    DOC_ID,
    END_INDEX,
    PASSAGE,
    RELEVANCE_SCORE,
    START_INDEX,
    Rule,
    content_name,
    metadata_changes,
)

_DIGITS = 4  # significant digits of scores in the metadata of passages


def choose(passages: Sequence[Passage], settings: QuerySettings) -> list[Passage]:
    """Choose the ``k`` best passages and put them in the order of the answer.

    Passages come best first. The passage with the best candidate is always chosen, even if longer
    passages have higher values.
    """
    chosen = list(passages)
    if settings.k is not None and len(chosen) > settings.k:
        relevances = [max(chunk.relevance for chunk in each.chunks) for each in chosen]
        preferred = chosen[relevances.index(max(relevances))]
        others = [passage for passage in chosen if passage is not preferred]
        chosen = sorted([preferred, *others[: settings.k - 1]], key=lambda each: -each.value)
    if settings.order == "document":
        first_number: dict[str, int] = {}  # of each document's passages
        for number, passage in enumerate(chosen):
            first_number.setdefault(passage.layout.manifest.key, number)
        chosen.sort(key=lambda passage: (first_number[passage.layout.manifest.key], passage.start))
    return chosen


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
            **_metadata_by_rules(manifest.metadata, manifest.rules, _metadata_along(passage)),
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


def _metadata_along(passage: Passage) -> Sequence[Mapping[str, Any]]:
    """Return the metadata that changes along the passage, ignoring white space at cut ends."""
    text = passage.text
    visible_text = text
    if passage.skipped or passage.dropped:
        visible_text = text.strip() or text
    # Positions count from the first character of the passage's first chunk.
    start = passage.skipped + text.index(visible_text)
    end = start + len(visible_text)
    changes: list[tuple[int, Mapping[str, Any]]] = []
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
        hit = candidate.hit
        described["rank"] = None if hit is None else hit.rank
        described["score"] = None if hit is None else _rounded(hit.score)
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


def _metadata_by_rules(
    shared: Mapping[str, Any], rules: Mapping[str, Rule], changes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Combine the metadata of a document and its chunks into the metadata of a passage.

    A field with a rule always follows it. Other fields follow ``"range"`` if they change.

    Args:
        shared: Metadata of the whole document.
        rules: Rules by field.
        changes: The remaining metadata along the passage, in text order.
    """
    all_rules = {**DEFAULT_RULES, **rules}
    passage: dict[str, Any] = {}
    shared_with_rule: dict[str, Any] = {}
    for name, value in shared.items():
        target = shared_with_rule if name in all_rules else passage
        target[name] = value
    along = [{**shared_with_rule, **change} for change in changes]
    for name in dict.fromkeys(itertools.chain.from_iterable(along)):  # in order of appearance
        passage.update(_follow_rule(all_rules.get(name, "range"), name, along))
    return passage


def _follow_rule(rule: Rule, name: str, along: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
