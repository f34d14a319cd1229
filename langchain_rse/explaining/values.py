"""A trace as values that JSON has, and as a table."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_rse.config import QuerySettings
from langchain_rse.explaining.views import DocumentTrace, words_of
from langchain_rse.query.candidates import Candidate, ChunkKey
from langchain_rse.query.floor import FloorCheck
from langchain_rse.query.reading import DocumentSegment
from langchain_rse.query.scoring import Chunk
from langchain_rse.query.trace import RSETrace

NOT_SHOWN = frozenset({"config", "queries", "query_generator", "reranker", "search_kwargs"})
"""Settings that are no numbers or names."""

_WITHOUT_CANDIDATE: dict[str, Any] = {
    "hits": {},
    "query": "",
    "evidence": {},
    "name_factor": 1.0,
    "matched_words": [],
    "text": None,
}


def as_values(trace: RSETrace) -> dict[str, Any]:
    """The trace as values that JSON has; see `RSETrace.to_dict`."""
    words = words_of(trace)
    numbers = {id(segment): number for number, segment in enumerate(trace.returned, start=1)}
    return {
        "query": trace.query,
        "queries": list(trace.queries),
        "settings": settings_as_values(trace.settings),
        "spent": trace.spent,
        "penalty": trace.penalty,
        "seconds": dict(trace.seconds),
        "reason": trace.reason,
        "full_text": trace.full_text,
        "floor_checks": [_floor_check_values(check) for check in trace.floor_checks],
        "documents": [_document_values(trace, each, words) for each in trace.documents],
        "segments": [_segment_values(each, numbers.get(id(each))) for each in trace.segments],
    }


def settings_as_values(settings: QuerySettings) -> dict[str, Any]:
    """The settings of a query and its config: numbers and names; functions by their names."""
    values = settings.config.model_dump()
    if callable(values["calibration"]):
        values["calibration"] = name_of_function(values["calibration"])
    for name in QuerySettings.model_fields:
        if name not in NOT_SHOWN:
            values[name] = getattr(settings, name)
    values["irrelevant_chunk_penalty"] = settings.penalty
    values["length_function"] = name_of_function(settings.length_function)
    return values


def name_of_function(function: object) -> str:
    """The name of a function, else its class."""
    return str(getattr(function, "__name__", None) or type(function).__name__)


def as_table(trace: RSETrace) -> Any:  # noqa: ANN401 - pandas need not be there
    """The trace as a DataFrame with a row for each chunk; see `RSETrace.to_pandas`."""
    rows = []
    for document in as_values(trace)["documents"]:
        for chunk in document["chunks"]:
            rows.append({"doc_id": document["doc_id"], "source": document["source"], **chunk})
    return importlib.import_module("pandas").json_normalize(rows, sep="_")


def _floor_check_values(check: FloorCheck) -> dict[str, Any]:
    best = check.best
    hit = None if best is None else best.hit
    return {
        "query": check.query,
        "doc_id": None if best is None else best.doc_id,
        "chunk_index": None if best is None else best.chunk_index,
        "score": None if hit is None else hit.score,
        "word_share": check.word_share,
        "reach": check.reach,
        "floor": check.floor,
        "closer_than": check.closer_than,
        "compared_with": check.compared_with,
        "is_refused": check.is_refused,
    }


def _document_values(
    trace: RSETrace, document: DocumentTrace, words: Mapping[ChunkKey, Sequence[str]]
) -> dict[str, Any]:
    return {
        "doc_id": document.doc_id,
        "source": _text_or_none(document.metadata.get("source")),
        "title": _text_or_none(document.metadata.get("title")),
        "name": document.name,
        "length": document.length,
        "chunk_count": document.chunk_count,
        "reason": document.reason,
        "chunks": [_chunk_values(trace, chunk, words) for chunk in document.chunks],
    }


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


def _chunk_values(
    trace: RSETrace, chunk: Chunk, words: Mapping[ChunkKey, Sequence[str]]
) -> dict[str, Any]:
    start, end = chunk.span or (None, None)
    return {
        "index": chunk.index,
        "start_index": start,
        "end_index": end,
        "length": None if start is None or end is None else end - start,
        **_candidate_values(chunk.candidate, words),
        "relevance": chunk.relevance,
        "credited": chunk.credited,
        "value": chunk.value,
        "weight": chunk.weight,
        "outcome": chunk.outcome.label,
        "why": trace.why(chunk),
        "duplicate_of": chunk.duplicate_of,
    }


def _candidate_values(
    candidate: Candidate | None, words: Mapping[ChunkKey, Sequence[str]]
) -> dict[str, Any]:
    if candidate is None:
        return _WITHOUT_CANDIDATE
    hits = {search: hit._asdict() for search, hit in candidate.hits.items()}
    return {
        "hits": hits,
        "query": candidate.query,
        "evidence": dict(candidate.evidence),
        "name_factor": candidate.name_factor,
        "matched_words": list(words.get(candidate.chunk_key, ())),
        "text": candidate.document.page_content,
    }


def _segment_values(segment: DocumentSegment, number: int | None) -> dict[str, Any]:
    start, end = segment.span
    return {
        "doc_id": segment.layout.manifest.doc_id,
        "chunk_start": segment.start,
        "chunk_end": segment.end,
        "start_index": start,
        "end_index": end,
        "value": segment.value,
        "number": number,
        "text": segment.text,
    }
