"""A trace as a dict of JSON values, and as a table."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from langchain_rse.config import QuerySettings
from langchain_rse.explaining.text import name_of_function
from langchain_rse.query.candidates import Hit
from langchain_rse.query.floor import FloorCheck
from langchain_rse.query.scoring import Chunk

if TYPE_CHECKING:
    from langchain_rse.explaining.traces import DocumentTrace, RSETrace

NOT_SHOWN = frozenset({"config", "queries", "query_generator", "reranker", "search_kwargs"})
"""Settings that are neither numbers nor names."""


def as_values(trace: RSETrace) -> dict[str, Any]:
    """The trace as a dict of JSON values; see `RSETrace.to_dict`."""
    numbers = {id(passage): number for number, passage in enumerate(trace.returned, start=1)}
    passages = []
    for passage in trace.passages:
        start, end = passage.span
        values = {
            "doc_id": passage.layout.manifest.doc_id,
            "chunk_start": passage.start,
            "chunk_end": passage.end,
            "start_index": start,
            "end_index": end,
            "value": passage.value,
            "number": numbers.get(id(passage)),
            "text": passage.text,
        }
        passages.append(values)
    return {
        "query": trace.query,
        "queries": list(trace.queries),
        "settings": settings_as_values(trace.settings),
        "spent": trace.spent,
        "penalty": trace.penalty,
        "seconds": dict(trace.seconds),
        "reason": trace.reason,
        "full_text": trace.full_text,
        "floor_checks": [_check_as_values(check) for check in trace.floor_checks],
        "documents": [_document_as_values(trace, document) for document in trace.documents],
        "passages": passages,
    }


def as_table(trace: RSETrace) -> Any:  # noqa: ANN401 - pandas need not be there
    """The trace as a DataFrame with a row for each chunk; see `RSETrace.to_pandas`."""
    rows = []
    for document in as_values(trace)["documents"]:
        for chunk in document["chunks"]:
            rows.append({"doc_id": document["doc_id"], "source": document["source"], **chunk})
    return importlib.import_module("pandas").json_normalize(rows, sep="_")


def settings_as_values(settings: QuerySettings) -> dict[str, Any]:
    """The settings of a query, with its config, as numbers and names."""
    values = settings.config.model_dump()
    for name in QuerySettings.model_fields:
        if name not in NOT_SHOWN:
            values[name] = getattr(settings, name)
    values["irrelevant_chunk_penalty"] = settings.penalty
    for name, value in values.items():
        if callable(value):
            values[name] = name_of_function(value)
    return values


def chunk_as_values(trace: RSETrace, chunk: Chunk) -> dict[str, Any]:
    """A chunk as JSON values; fields from the search are empty if the search did not find it."""
    start, end = chunk.span or (None, None)
    candidate = chunk.candidate
    hits: dict[str, Hit] = {} if candidate is None else candidate.hits
    words = [] if candidate is None else trace.matched_words.get(candidate.chunk_key, [])
    return {
        "index": chunk.index,
        "start_index": start,
        "end_index": end,
        "length": None if start is None or end is None else end - start,
        "hits": {search: hit._asdict() for search, hit in hits.items()},
        "query": "" if candidate is None else candidate.query,
        "signals": {} if candidate is None else dict(candidate.signals),
        "name_factor": 1.0 if candidate is None else candidate.name_factor,
        "matched_words": words,
        "text": None if candidate is None else candidate.document.page_content,
        "relevance": chunk.relevance,
        "credited": chunk.credited,
        "value": chunk.value,
        "weight": chunk.weight,
        "outcome": chunk.outcome.label,
        "why": trace.why(chunk),
        "duplicate_of": chunk.duplicate_of,
    }


def _document_as_values(trace: RSETrace, document: DocumentTrace) -> dict[str, Any]:
    source = document.metadata.get("source")
    title = document.metadata.get("title")
    return {
        "doc_id": document.doc_id,
        "source": None if source is None else str(source),
        "title": None if title is None else str(title),
        "name": document.name,
        "length": document.length,
        "chunk_count": document.chunk_count,
        "reason": document.reason,
        "chunks": [chunk_as_values(trace, chunk) for chunk in document.chunks],
    }


def _check_as_values(check: FloorCheck) -> dict[str, Any]:
    values = check._asdict()
    best = values.pop("best")
    del values["note"]
    hit = None if best is None else best.hit
    return {
        **values,
        "doc_id": None if best is None else best.doc_id,
        "chunk_index": None if best is None else best.chunk_index,
        "score": None if hit is None else hit.score,
    }
