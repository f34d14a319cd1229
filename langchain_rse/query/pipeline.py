"""The way of a query: search, rerank, score, select, read, render."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document

from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings
from langchain_rse.errors import MissingRecordError
from langchain_rse.query.budget import Budget
from langchain_rse.query.explaining import explain_nothing_chosen, explain_nothing_found
from langchain_rse.query.reading import read
from langchain_rse.query.rendering import render
from langchain_rse.query.reranking import rerank
from langchain_rse.query.scoring import config_for_reranker, score
from langchain_rse.query.searching import Candidate, Sources, search
from langchain_rse.query.selecting import select

__all__ = ["Candidate", "Sources", "find_candidates", "retrieve"]

# A document can be replaced between two reads; again and again means something is wrong.
_ATTEMPTS = 3


def retrieve(
    sources: Sources,
    query: str,
    settings: QuerySettings,
    callbacks: Callbacks = None,
    candidates: Sequence[Candidate] | None = None,
) -> Steps[list[Document]]:
    """Answer a query with segments.

    Args:
        sources: The stores, and the reranker if there is one.
        query: The query; an empty one has no segments.
        settings: The settings, as `langchain_rse.config.resolve_settings` makes them.
        callbacks: For the wrapped retriever and the reranker.
        candidates: What `find_candidates` found for the query; None to search here.

    Returns:
        The segments.

    Raises:
        CandidateError: If a candidate does not say which chunk of which document it is.
        MissingRecordError: If the docstore lacks a document or chunk, unless ``on_missing`` is
            ``"split"``; or if documents were replaced during each attempt to read them.
        CorruptRecordError: If a record of the docstore cannot be read.
    """
    config = config_for_reranker(settings.config, sources.reranker)
    settings = settings.model_copy(update={"config": config})
    reranked = sources.reranker is not None
    if not query.strip():
        return []
    for _ in range(_ATTEMPTS):
        found = candidates
        if found is None:
            found = yield from find_candidates(sources, query, settings, callbacks)
        if not found:
            return []
        scored = yield from score(sources.docstore, query, found, settings, reranked=reranked)
        budget = Budget(settings, (candidate.document.page_content for candidate in found))
        selection = select(scored, config, budget=budget.characters)
        segments = yield from read(sources.docstore, scored, selection, budget, settings)
        if segments == []:
            explain_nothing_chosen(found, scored, selection, budget, settings)
        if segments is not None:
            return render(segments, settings)
    raise MissingRecordError(
        f"documents were replaced or deleted during each of {_ATTEMPTS} attempts to read them; "
        "ask again when fewer are being written"
    )


def find_candidates(
    sources: Sources, query: str, settings: QuerySettings, callbacks: Callbacks = None
) -> Steps[list[Candidate]]:
    """Search and rerank: the first two steps of `retrieve`.

    Args:
        sources: The stores, and the reranker if there is one.
        query: The query.
        settings: Give ``fetch_k``, ``search_kwargs`` and ``hybrid``.
        callbacks: For the wrapped retriever and the reranker.

    Returns:
        The candidates, best first.
    """
    candidates, returned = yield from search(sources, query, settings, callbacks)
    kept = yield from rerank(sources.reranker, candidates, query, callbacks)
    if not kept:
        yield from explain_nothing_found(sources, settings, returned, len(candidates))
    return kept
