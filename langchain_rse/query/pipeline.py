"""Answers a query in steps: search, rerank, score, select, read, render."""

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStoreRetriever

from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings
from langchain_rse.errors import MissingRecordError
from langchain_rse.query.budget import Budget
from langchain_rse.query.reading import read
from langchain_rse.query.rendering import render
from langchain_rse.query.reranking import rerank
from langchain_rse.query.scoring import config_for_reranker, outdated, score
from langchain_rse.query.searching import Candidate, Found, Sources, asked, search
from langchain_rse.query.selecting import select
from langchain_rse.query.tracing import (
    SILENT,
    Recorder,
    explain_left_out,
    explain_nothing_chosen,
    explain_nothing_found,
    warn_of_other_models,
)
from langchain_rse.query.wrapped import with_filters_inside
from langchain_rse.stores.pairing import check_pair
from langchain_rse.stores.reading import Layouts, unreadable

__all__ = ["Candidate", "Found", "Sources", "find_candidates", "retrieve"]

# A document can be replaced between two reads; if that happens in each attempt, it is an error.
_ATTEMPTS = 3


def retrieve(
    sources: Sources,
    query: str,
    settings: QuerySettings,
    callbacks: Callbacks = None,
    found: Found | None = None,
    *,
    recorder: Recorder = SILENT,
) -> Steps[list[Document]]:
    """Answer a query with segments, from ``found`` candidates or those of `find_candidates`.

    ``recorder`` notes what the steps saw.
    """
    config = config_for_reranker(settings.config, sources.reranker)
    settings = settings.model_copy(update={"config": config})
    seen: set[tuple[str, str]] | None = set() if found is None else None
    for attempt in range(_ATTEMPTS):
        if found is None:
            found = yield from find_candidates(sources, query, settings, callbacks, recorder)
        if not any(found.values()):
            return []
        is_last = attempt == _ATTEMPTS - 1
        answer = yield from _answer(sources, found, settings, seen, recorder, is_last=is_last)
        if answer is not None:
            return answer
        if seen is not None:  # keep the queries: generated ones may differ each time
            settings, found = settings.model_copy(update={"queries": list(found)}), None
    raise MissingRecordError(
        f"documents were replaced or deleted during each of {_ATTEMPTS} attempts to read them; "
        "ask again when fewer documents are being written"
    )


def _answer(
    sources: Sources,
    found: Found,
    settings: QuerySettings,
    seen: set[tuple[str, str]] | None,
    recorder: Recorder,
    *,
    is_last: bool,
) -> Steps[list[Document] | None]:
    """Make segments; return None to search again, if documents were replaced or deleted meanwhile.

    ``seen`` are outdated versions that a search found before: found again, they are left over in
    the vector store. It is None if there is no other search.
    """
    candidates = list({c.place: c for some in found.values() for c in some}.values())
    compressor = sources.reranker if any(c.filtered for c in candidates) else None
    told = with_filters_inside(settings, sources.base_retriever, compressor)
    layouts, read_so_far = Layouts(), None
    while read_so_far is None:
        scored = yield from score(sources, found, told, layouts)
        gone = set() if seen is None else outdated(candidates, layouts) - seen
        if seen is not None and gone and not is_last:
            seen |= gone
            return None
        recorder.saw("score", scored=scored)
        known = len(unreadable(layouts))
        budget = Budget(settings, (candidate.document.page_content for candidate in candidates))
        selection = select(scored, settings, budget.characters)
        recorder.saw("select", settings=told, budget=budget, selection=selection)
        read_so_far = yield from read(sources.docstore, scored, selection, budget, told)
        if read_so_far is None and len(unreadable(layouts)) == known:
            return None
    segments, included = read_so_far
    recorder.saw("read", segments=segments, included=included)
    if not segments:
        reason = explain_nothing_chosen(candidates, scored, selection, budget, settings)
        recorder.saw("read", reason=reason)
    yield from explain_left_out(sources.docstore, candidates, layouts, gone, settings)
    model = yield from _check_pair(sources)
    warn_of_other_models(model, (segment.document.manifest for segment in segments))
    documents = render(segments, told)
    recorder.saw("render")
    return documents


def find_candidates(
    sources: Sources,
    query: str,
    settings: QuerySettings,
    callbacks: Callbacks = None,
    recorder: Recorder = SILENT,
) -> Steps[Found]:
    """Search and rerank: the first two steps of `retrieve`."""
    queries = yield from asked(query, settings, callbacks)
    recorder.saw("queries", settings=settings)
    if not queries:
        recorder.saw("search", reason="the query is empty")
        return {}
    yield from _check_pair(sources)
    candidates, returned = yield from search(sources, queries, settings, callbacks)
    recorder.saw("search", searched=candidates)
    found = yield from rerank(sources.reranker, candidates, callbacks)
    recorder.saw("rerank")
    if not any(found.values()):
        count = sum(map(len, candidates.values()))
        reason = yield from explain_nothing_found(sources, settings, returned, count)
        recorder.saw("rerank", reason=reason)
    return found


def _check_pair(sources: Sources) -> Steps[str]:
    """Check that the docstore belongs to the vector store, if that is known; return the model."""
    store, retriever = sources.vectorstore, sources.base_retriever
    if isinstance(retriever, VectorStoreRetriever):
        store = retriever.vectorstore
    return "" if store is None else (yield from check_pair(sources.docstore, store, record=False))
