"""A trace as a dict of JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_rse.config import QuerySettings
from langchain_rse.explaining.by_document import DocumentTrace, TraceByDocument
from langchain_rse.explaining.text import name_of_function
from langchain_rse.query.candidates import Candidate
from langchain_rse.query.scoring import Chunk

_NOT_SHOWN = frozenset({"config", "queries", "query_generator", "reranker", "search_kwargs"})
"""Settings that are neither numbers nor names."""


def as_values(trace: TraceByDocument) -> dict[str, Any]:
    """The trace as a dict of JSON values; see `RSETrace.to_dict`."""
    numbers = {id(passage): number for number, passage in enumerate(trace.returned, start=1)}
    passages = []
    for passage in trace.passages:
        start, end = passage.span
        fields = {
            "number": numbers.get(id(passage)),
            "doc_id": passage.layout.manifest.doc_id,
            "chunk_start": passage.start,
            "chunk_end": passage.end,
            "start_index": start,
            "end_index": end,
            "value": passage.value,
            "text": passage.text,
        }
        passages.append(fields)
    checks = [check._asdict() for check in trace.floor_checks]
    for check in checks:
        del check["best"]
    return {
        "query": trace.query,
        "queries": list(trace.queries),
        "settings": settings_as_values(trace.settings),
        "spent": trace.spent,
        "seconds": dict(trace.seconds),
        "reason": trace.reason,
        "full_text": trace.full_text,
        "floor_checks": checks,
        "documents": [_document_as_values(trace, document) for document in trace.documents],
        "passages": passages,
    }


def settings_as_values(settings: QuerySettings) -> dict[str, Any]:
    """The settings of a query, with its config, as numbers and names."""
    values = settings.config.model_dump()
    for name in QuerySettings.model_fields:
        if name not in _NOT_SHOWN:
            values[name] = getattr(settings, name)
    values["irrelevant_chunk_penalty"] = settings.penalty
    for name, value in values.items():
        if callable(value):
            values[name] = name_of_function(value)
    return values


def _document_as_values(trace: TraceByDocument, document: DocumentTrace) -> dict[str, Any]:
    return {
        "doc_id": document.doc_id,
        "name": document.name,
        "length": document.length,
        "chunk_count": document.chunk_count,
        "reason": document.reason,
        "chunks": [_chunk_as_values(trace, chunk) for chunk in document.chunks],
    }


def _chunk_as_values(trace: TraceByDocument, chunk: Chunk) -> dict[str, Any]:
    start, end = chunk.span or (None, None)
    return {
        "index": chunk.index,
        "start_index": start,
        "end_index": end,
        "relevance": chunk.relevance,
        "credited": chunk.credited,
        "value": chunk.value,
        "weight": chunk.weight,
        "outcome": chunk.outcome.label,
        "why": trace.why(chunk),
        "candidate": _candidate_as_values(chunk.candidate),
    }


def _candidate_as_values(candidate: Candidate | None) -> Mapping[str, Any] | None:
    if candidate is None:
        return None
    return {
        "query": candidate.query,
        "hits": {search: hit._asdict() for search, hit in candidate.hits.items()},
        "signals": dict(candidate.signals),
        "name_factor": candidate.name_factor,
        "found_words": list(candidate.found_words),
        "text": candidate.document.page_content,
    }
