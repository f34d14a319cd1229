"""Rerank: calls a document compressor and matches the returned Documents with candidates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, call, concurrently, during
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CandidateError
from langchain_rse.query.candidates import (
    IS_RELEVANT,
    RELEVANCE_EXPLANATION,
    RELEVANCE_FAILURE,
    RERANKER,
    Candidate,
    Candidates,
    ChunkKey,
    Hit,
    Sources,
    judgment_of,
)
from langchain_rse.query.filters import Filters
from langchain_rse.query.searching import (
    AT_ONCE,
    check_documents,
    finite_score,
    search,
    without_rising_scores,
)
from langchain_rse.query.witnesses import names_in, rank_query
from langchain_rse.stores.records import (
    CHUNK_INDEX,
    DOC_ID,
    RELEVANCE_SCORE,
    VERSION,
)
from langchain_rse.text.words import MAX_QUERY_LENGTH

# Metadata that rerankers and relevance filters write.
_WRITTEN = frozenset({RELEVANCE_SCORE, IS_RELEVANT, RELEVANCE_EXPLANATION, RELEVANCE_FAILURE})
# Fields that limit what a compressor returns.
_LIMITS = ("k", "top_k", "top_n")


def is_reranker(compressor: object) -> bool:
    """True if the class name of a document compressor shows that it sorts by relevance.

    False for compressors that judge each document by the question; they need the whole question.
    """
    name = type(compressor).__name__
    return name == "VertexAIRank" or "Rerank" in name


def find_candidates(
    sources: Sources,
    queries: Sequence[str],
    settings: QuerySettings,
    filters: Filters,
) -> Steps[Candidates]:
    """Search for candidates, then rerank them."""
    found, _, _ = yield from search(sources, queries, settings, filters, None)
    return (yield from rerank(found, settings, None))


def rerank(
    candidates: Candidates, settings: QuerySettings, callbacks: Callbacks
) -> Steps[Candidates]:
    """Rerank the candidates of each query; return the kept ones in the new order, with scores.

    Without a reranker, return the candidates unchanged.
    """
    if settings.reranker is None:
        return candidates
    tasks = [
        _rerank_query(query, found, settings, settings.reranker, callbacks)
        for query, found in candidates.items()
    ]
    reranked = yield from concurrently(tasks, AT_ONCE)
    return dict(zip(candidates, reranked, strict=True))


def _rerank_query(
    query: str,
    candidates: Sequence[Candidate],
    settings: QuerySettings,
    reranker: BaseDocumentCompressor,
    callbacks: Callbacks,
) -> Steps[Sequence[Candidate]]:
    """Rerank the candidates of one query, at most ``fetch_k``: each costs time and money."""
    if not candidates:
        return candidates
    if len(candidates) > settings.fetch_k:
        ranked = rank_query(query, candidates, settings.model_copy(update={"reranker": None}))
        best = {candidate.chunk_key for candidate in ranked[: settings.fetch_k]}
        candidates = [each for each in candidates if each.chunk_key in best]
    query_to_rerank = query
    # Rerankers prefer chunks that repeat the names of documents over chunks that answer.
    is_short = len(query) <= MAX_QUERY_LENGTH
    if settings.config.name_weight and is_reranker(reranker) and is_short:
        named = names_in(query, candidates)
        if named.name_gap.any():
            query_to_rerank = named.query
    name = type(reranker).__name__
    with during(f"reranking with {name}"):
        returned = yield from call(
            reranker.compress_documents,
            reranker.acompress_documents,
            [_without_judgment(candidate.document) for candidate in candidates],
            query_to_rerank,
            callbacks=callbacks,
        )
        documents = check_documents(returned, name)
    if len(documents) < len(candidates):
        _warn_of_limit(reranker, len(documents))
    matched = list(_matched(candidates, documents, name))
    scores = without_rising_scores(
        [finite_score(document.metadata.get(RELEVANCE_SCORE)) for _, document in matched]
    )
    reranked = []
    for rank, ((candidate, document), score) in enumerate(zip(matched, scores, strict=True)):
        hits = {**candidate.hits, RERANKER: Hit(rank, score)}
        judgment = judgment_of(document.metadata) or candidate.judgment
        reranked.append(candidate._replace(hits=hits, judgment=judgment))
    return reranked


def _warn_of_limit(reranker: BaseDocumentCompressor, returned: int) -> None:
    """Warn if a field of the reranker limits how many candidates it returns."""
    for field in _LIMITS:
        if getattr(reranker, field, None) == returned:
            warn(
                f"{type(reranker).__name__} keeps only {field}={returned} candidates, so passages "
                "contain only these and chunks between them. To rank all candidates, set "
                f"{field}=None on the reranker, or {field}=fetch_k if it does not accept None"
            )
            return


def _without_judgment(document: Document) -> Document:
    """Copy a document without earlier judgments; compressors modify the documents they get."""
    metadata = {name: value for name, value in document.metadata.items() if name not in _WRITTEN}
    return document.model_copy(update={"metadata": metadata})


def _matched(
    candidates: Sequence[Candidate], returned: Sequence[Document], name: str
) -> Iterator[tuple[Candidate, Document]]:
    """Yield pairs of a candidate and the Document that the reranker returned for it."""
    candidates_of: defaultdict[object, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        candidates_of[candidate.chunk_key].append(candidate)
        candidates_of[candidate.document.page_content].append(candidate)
    used: set[ChunkKey] = set()
    for document in returned:
        identity = tuple(document.metadata.get(field) for field in (DOC_ID, VERSION, CHUNK_INDEX))
        # If the metadata is lost, chunks with equal text are interchangeable.
        key = document.page_content if None in identity else identity
        if key not in candidates_of:
            raise CandidateError(
                f"{name} returned a Document that is not one of its inputs: id {document.id!r}, "
                f"text {document.page_content[:40]!r}. A reranker must return its input Documents, "
                "with their metadata or text"
            )
        for candidate in candidates_of[key]:
            if candidate.chunk_key not in used:
                used.add(candidate.chunk_key)
                yield candidate, document
                break
