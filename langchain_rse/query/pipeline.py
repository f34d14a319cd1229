"""Answers a query in steps: search, rerank, look up, score, select, read, render."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document

from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CorruptRecordError, MissingRecordError
from langchain_rse.query.budget import Budget
from langchain_rse.query.candidates import Candidate, Candidates, Sources, all_candidates
from langchain_rse.query.copies import StaleChunks
from langchain_rse.query.floors import highest_closeness, refuse
from langchain_rse.query.lookup import (
    DocumentsChangedError,
    Outdated,
    look_up,
    outdated_versions,
)
from langchain_rse.query.ranking import config_for_reranker
from langchain_rse.query.reading import ReadSegments, read
from langchain_rse.query.reasons import (
    NothingFoundError,
    explain_left_out,
    explain_no_candidates,
    explain_nothing_chosen,
    explain_refused,
    warn_of_other_models,
)
from langchain_rse.query.rendering import render
from langchain_rse.query.reranking import rerank
from langchain_rse.query.scoring import score
from langchain_rse.query.searching import queries_of, search
from langchain_rse.query.selecting import select
from langchain_rse.query.staleness import find_stale, warn_of_stale, without_stale
from langchain_rse.query.tracing import QueryLog, Solved
from langchain_rse.query.wrapped import Conditions, conditions_of
from langchain_rse.stores.pairing import Model, check_pair
from langchain_rse.stores.reading import VersionKey
from langchain_rse.stores.records import CLOSER_THAN, SEGMENT

__all__ = ["Candidates", "Sources", "find_candidates", "queries_of", "retrieve"]

# A document can be replaced between two reads. After this many attempts, documents to which that
# happens are left out; after the second number, there is no answer.
_ATTEMPTS_WITH_ALL = 3
_ATTEMPTS = 10


@dataclass
class _Query:
    """A query, and what attempts to answer it found out about documents."""

    sources: Sources
    queries: Sequence[str]
    settings: QuerySettings
    callbacks: Callbacks
    candidates: Candidates | None  # None to search for them in each attempt
    log: QueryLog
    # Versions that the search finds although they are not current: left over in the vector store,
    # unless their documents become unknown meanwhile, as they are then being deleted.
    outdated: set[Outdated] = field(default_factory=set)
    unreadable: dict[str, CorruptRecordError] = field(default_factory=dict)  # by document key
    # Keys of documents to go on without, as they keep being replaced.
    replaced: set[str] = field(default_factory=set)
    # Chunks of adopted documents that the vector store no longer has.
    stale: dict[VersionKey, set[int]] = field(default_factory=dict)
    leaves_out_replaced: bool = False

    @property
    def excluded(self) -> dict[str, CorruptRecordError]:
        """The documents to go on without, by their keys."""
        excluded = dict(self.unreadable)
        for key in self.replaced:
            excluded[key] = CorruptRecordError("it was replaced while it was read")
        return excluded

    def add_stale(self, stale: StaleChunks) -> None:
        """Note chunks that no segment may contain."""
        for version_key, chunks in stale.items():
            self.stale.setdefault(version_key, set()).update(chunks)


def retrieve(
    sources: Sources,
    question: str,
    settings: QuerySettings,
    *,
    callbacks: Callbacks = None,
    candidates: Candidates | None = None,
    log: QueryLog | None = None,
) -> Steps[list[Document]]:
    """Answer a question with segments.

    Args:
        sources: Where candidates and texts come from.
        question: The question.
        settings: The settings, resolved by `resolve_settings`.
        callbacks: LangChain's, for the calls of retrievers and rerankers.
        candidates: Those of an earlier `find_candidates`, to choose among; None to search.
        log: Notes what the steps saw.

    Raises:
        MissingRecordError: If documents were replaced or deleted in each of many attempts.
    """
    config = config_for_reranker(settings.config, settings.reranker)
    settings = settings.model_copy(update={"config": config})
    log = log or QueryLog(settings)
    log.settings = settings
    queries = list(candidates or ())
    if candidates is None:
        queries = yield from queries_of(question, settings, callbacks)
        log.ended("queries")
    if not queries:
        log.reason = "the query is empty"
        return []
    query = _Query(sources, queries, settings, callbacks, candidates, log)
    attempts = 0
    while attempts < _ATTEMPTS:
        query.leaves_out_replaced = attempts >= _ATTEMPTS_WITH_ALL - 1
        try:
            return (yield from _answer(query))
        except DocumentsChangedError as change:
            query.outdated.update(change.outdated)
            query.unreadable.update(change.unreadable)
            query.add_stale(change.stale)
            if query.leaves_out_replaced:
                query.replaced.update(change.replaced)
            if not change.unreadable:  # a document is found unreadable only once
                attempts += 1
        except NothingFoundError:
            # All documents may have been added since the search.
            attempts += 1
            if attempts >= _ATTEMPTS_WITH_ALL:
                raise
    raise MissingRecordError(
        f"documents were replaced or deleted during each of {_ATTEMPTS} attempts to read them; "
        "ask again when fewer documents are being written"
    )


def _answer(query: _Query) -> Steps[list[Document]]:
    """Answer with segments; a DocumentsChangedError if this has to be tried again."""
    sources, settings, log = query.sources, query.settings, query.log
    # Search and rerank
    by_query = query.candidates
    if by_query is None:
        by_query = yield from find_candidates(
            sources, query.queries, settings, query.callbacks, log
        )
    candidates = all_candidates(by_query)
    if not candidates:
        return []
    conditions = _conditions_of(query, candidates)

    looked_up = yield from look_up(
        sources.docstore,
        by_query,
        settings,
        conditions,
        excluded=query.excluded,
        stale=query.stale,
    )
    log.ended("look up")
    outdated: set[Outdated] = set()
    if query.candidates is None:
        outdated = outdated_versions(candidates, looked_up.layouts) - query.outdated
        if outdated and not query.leaves_out_replaced:
            raise DocumentsChangedError(outdated=outdated)

    pair = yield from _check_pair(sources)
    looked_up, log.reached = refuse(looked_up, sources, settings, pair)
    if not looked_up.queries:
        log.reason = explain_refused(log.reached, settings)
        return []

    scored = score(looked_up, settings)
    log.ended("score")
    budget = Budget(settings, (candidate.document.page_content for candidate in candidates))
    selection = select(scored, settings, budget.characters)
    log.ended("select")
    read_segments = yield from read(sources.docstore, scored, selection, budget, settings)
    read_segments = yield from _without_stale(query, read_segments)
    log.solved = Solved(looked_up, scored, budget, selection, read_segments)
    log.ended("read")

    segments = read_segments.segments
    if not segments:
        log.reason = explain_nothing_chosen(candidates, scored, selection, budget, settings)
    replaced = query.replaced | {version.key for version in outdated}
    yield from explain_left_out(sources.docstore, candidates, looked_up.layouts, replaced, settings)
    warn_of_other_models(pair.id, [segment.document.manifest for segment in segments])
    warn_of_stale(query.stale, {candidate.key: candidate.doc_id for candidate in candidates})
    documents = render(segments, settings, conditions.filters, stores_lists=sources.stores_lists)
    closeness = highest_closeness(log.reached)
    if documents and closeness is not None:
        documents[0].metadata[SEGMENT][CLOSER_THAN] = closeness
    log.ended("render")
    return documents


def _without_stale(query: _Query, read_segments: ReadSegments) -> Steps[ReadSegments]:
    """The segments without text of adopted documents that the vector store no longer has.

    Raises:
        DocumentsChangedError: If there is such text, to choose other segments; after some attempts,
            the segments are split there instead.
    """
    stale = yield from find_stale(query.sources.searched_store, read_segments.segments)
    if not stale:
        return read_segments
    if not query.leaves_out_replaced:
        raise DocumentsChangedError(stale=stale)
    query.add_stale(stale)
    return read_segments._replace(segments=without_stale(read_segments.segments, stale))


def _conditions_of(query: _Query, candidates: Sequence[Candidate]) -> Conditions:
    """What may have left chunks out of the candidates for other reasons than relevance."""
    settings = query.settings
    has_filtered = any(candidate.filtered for candidate in candidates)
    compressor = settings.reranker if has_filtered else None
    conditions = conditions_of(settings, query.sources.base_retriever, compressor)
    query.log.settings = settings.model_copy(update={"candidates_only": conditions.candidates_only})
    return conditions


def find_candidates(
    sources: Sources,
    queries: Sequence[str],
    settings: QuerySettings,
    callbacks: Callbacks = None,
    log: QueryLog | None = None,
) -> Steps[Candidates]:
    """Search and rerank: the first two steps of `retrieve`."""
    log = log or QueryLog(settings)
    yield from _check_pair(sources)
    searched = yield from search(sources, queries, settings, callbacks)
    log.searched = searched.candidates
    log.obstacle = searched.obstacle
    log.solved = None
    log.reached = []
    log.reason = None
    log.ended("search")
    if not searched.documents and any(searched.candidates.values()):
        # Words were found, so the docstore has documents: where are their vectors?
        yield from explain_no_candidates(sources, settings, documents=0, candidates=0)
    candidates = yield from rerank(searched.candidates, settings, callbacks)
    if not any(candidates.values()):
        count = sum(len(candidates_of_query) for candidates_of_query in log.searched.values())
        log.reason = yield from explain_no_candidates(sources, settings, searched.documents, count)
    log.ended("rerank")
    return candidates


def _check_pair(sources: Sources) -> Steps[Model]:
    """Check that the docstore belongs to the vector store, if that is known; return the model."""
    store = sources.searched_store
    if store is None:
        return Model()
    return (yield from check_pair(sources.docstore, store, record=False))
