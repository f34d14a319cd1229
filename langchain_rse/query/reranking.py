"""Rerank: calls a document compressor, and matches the Documents it returns with candidates."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, call, concurrently, during
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CandidateError
from langchain_rse.query.candidates import Candidate, Candidates
from langchain_rse.query.naming import named_documents
from langchain_rse.query.ranking import rank_candidates
from langchain_rse.query.searching import (
    AT_ONCE,
    check_documents,
    finite_score,
    without_rising_scores,
)
from langchain_rse.query.wrapped import LIMITS, drops_by_relevance, is_reranker
from langchain_rse.stores.records import (
    CHUNK_INDEX,
    DOC_ID,
    IS_RELEVANT,
    RELEVANCE_EXPLANATION,
    RELEVANCE_FAILURE,
    RELEVANCE_SCORE,
    VERSION,
    judgment_of,
)
from langchain_rse.text.words import MAX_QUERY_LENGTH

# Metadata that rerankers and relevance filters write.
_WRITTEN = frozenset({RELEVANCE_SCORE, IS_RELEVANT, RELEVANCE_EXPLANATION, RELEVANCE_FAILURE})

_CHUNK = "chunk"
_Identity = tuple[object, ...]
"""What may identify a Document: the kind of identity, and its values."""


def rerank(
    candidates: Candidates, settings: QuerySettings, callbacks: Callbacks
) -> Steps[Candidates]:
    """Return the candidates that the reranker keeps for each query, in its order, with scores."""
    reranker = settings.reranker
    if reranker is None:
        return candidates
    leaves_out_names = settings.config.name_weight > 0 and is_reranker(reranker)
    tasks = []
    for query, found in candidates.items():
        candidates_of_query = _best_of_search(query, found, settings)
        query_to_rerank = query
        if leaves_out_names:
            query_to_rerank = _without_names(query, candidates_of_query)
        tasks.append(_rerank_query(reranker, candidates_of_query, query_to_rerank, callbacks))
    reranked = yield from concurrently(tasks, AT_ONCE)
    return dict(zip(candidates, reranked, strict=True))


def _best_of_search(
    query: str, candidates: Sequence[Candidate], settings: QuerySettings
) -> Sequence[Candidate]:
    """The ``fetch_k`` best of both searches, since a reranker's time and price are by candidate."""
    if len(candidates) <= settings.fetch_k:
        return candidates
    ranked = rank_candidates(query, candidates, settings.model_copy(update={"reranker": None}))
    best = {candidate.chunk_key for candidate, _ in ranked[: settings.fetch_k]}
    return [candidate for candidate in candidates if candidate.chunk_key in best]


def _without_names(query: str, candidates: Sequence[Candidate]) -> str:
    """The query without the words that name documents: these are told apart by `name_weight`.

    Rerankers prefer chunks that repeat the names to those that answer.
    """
    if len(query) > MAX_QUERY_LENGTH:
        return query
    named = named_documents(query, candidates)
    return named.query if named.name_gap.any() else query


def _rerank_query(
    reranker: BaseDocumentCompressor,
    candidates: Sequence[Candidate],
    query: str,
    callbacks: Callbacks,
) -> Steps[list[Candidate]]:
    """Rerank the candidates of one query."""
    name = type(reranker).__name__
    if not candidates:
        return []
    with during(f"reranking with {name}"):
        returned = yield from call(
            reranker.compress_documents,
            reranker.acompress_documents,
            [_without_judgment(candidate.document) for candidate in candidates],
            query,
            callbacks=callbacks,
        )
        documents = check_documents(returned, name)
    has_filtered = False
    if len(documents) < len(candidates):
        limit = _limit_reached(reranker, len(documents))
        if limit is not None:
            warn(
                f"{name} keeps only its {limit}={len(documents)} candidates, so segments are made "
                f"of those and the chunks between them. To rank all candidates, set its "
                f"{limit}=None, or to fetch_k if it does not take None"
            )
        has_filtered = limit is None and not drops_by_relevance(reranker)
    matched = list(_matched(candidates, documents, name))
    scores = without_rising_scores(
        [finite_score(document.metadata.get(RELEVANCE_SCORE)) for _, document in matched]
    )
    reranked = []
    for rank, ((candidate, document), score) in enumerate(zip(matched, scores, strict=True)):
        reranked.append(
            candidate._replace(
                score=score,
                rank=rank,
                search_score=candidate.score,
                search_rank=candidate.rank,
                judgment=judgment_of(document.metadata) or candidate.judgment,
                filtered=has_filtered,
            )
        )
    return reranked


def _limit_reached(reranker: BaseDocumentCompressor, returned: int) -> str | None:
    """The name of the field by which a reranker returned so few candidates, if there is one."""
    for field in LIMITS:
        if getattr(reranker, field, None) == returned:
            return field
    return None


def _without_judgment(document: Document) -> Document:
    """Copy a document, as compressors change those they are given, without earlier judgments."""
    metadata = {name: value for name, value in document.metadata.items() if name not in _WRITTEN}
    return document.model_copy(update={"metadata": metadata})


def _matched(
    candidates: Sequence[Candidate], returned: Sequence[Document], name: str
) -> Iterator[tuple[Candidate, Document]]:
    """Yield pairs of a candidate and the Document that the reranker returned for it."""
    numbers_of: defaultdict[_Identity, list[int]] = defaultdict(list)
    for number, candidate in enumerate(candidates):
        for identity in _identities(candidate.document):
            numbers_of[identity].append(number)
    used: set[int] = set()
    for document in returned:
        numbers = _numbers_of(document, numbers_of)
        if not numbers:
            raise CandidateError(
                f"{name} returned a Document that it was not given: id {document.id!r}, text "
                f"{document.page_content[:40]!r}. A reranker must return Documents that it was "
                "given, with their metadata or id"
            )
        # Chunks of equal text cannot be told apart by a reranker that returns text only.
        for number in numbers:
            if number not in used:
                used.add(number)
                yield candidates[number], document
                break


def _numbers_of(document: Document, numbers_of: Mapping[_Identity, list[int]]) -> Sequence[int]:
    """The numbers of the candidates that a returned Document may be."""
    identities = list(_identities(document))
    if identities[0][0] == _CHUNK:
        # The chunk is certain, even if its id or text was changed.
        identities = identities[:1]
    for identity in identities:
        if identity in numbers_of:
            return numbers_of[identity]
    return ()


def _identities(document: Document) -> Iterator[_Identity]:
    """Yield what identifies a Document, the surest first: its chunk, its id, its text."""
    metadata = document.metadata
    if isinstance(metadata.get(DOC_ID), str) and VERSION in metadata and CHUNK_INDEX in metadata:
        yield _CHUNK, metadata[DOC_ID], metadata[VERSION], metadata[CHUNK_INDEX]
    if document.id is not None:
        yield "id", document.id
    yield "text", document.page_content
