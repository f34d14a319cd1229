"""Rerank: calls a document compressor, and matches the Documents it returns with candidates."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, call, concurrently, during
from langchain_rse.errors import CandidateError
from langchain_rse.query.searching import (
    AT_ONCE,
    Candidate,
    Found,
    check_documents,
    finite_score,
    without_rising_scores,
)
from langchain_rse.query.wrapped import LIMITS, drops_by_relevance
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

# Metadata that rerankers and relevance filters write.
_WRITTEN = frozenset({RELEVANCE_SCORE, IS_RELEVANT, RELEVANCE_EXPLANATION, RELEVANCE_FAILURE})


def rerank(
    reranker: BaseDocumentCompressor | None, found: Found, callbacks: Callbacks = None
) -> Steps[Found]:
    """Return the candidates that the reranker keeps for each query, in its order, with scores."""
    if reranker is None:
        return found
    tasks = [_ask(reranker, some, query, callbacks) for query, some in found.items()]
    return dict(zip(found, (yield from concurrently(tasks, AT_ONCE)), strict=True))


def _ask(
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
    drops = len(documents) < len(candidates)
    at_limit = (field for field in LIMITS if getattr(reranker, field, None) == len(documents))
    limit = next(at_limit, None) if drops else None
    if limit:
        warn(
            f"{name} keeps only its {limit}={len(documents)} candidates, so segments are made of "
            f"those and the chunks between them. To rank all candidates, set its {limit}=None, or "
            "to fetch_k if it does not take None"
        )
    matched = list(_matched(candidates, documents, name))
    scores = without_rising_scores(
        [finite_score(document.metadata.get(RELEVANCE_SCORE)) for _, document in matched]
    )
    return [
        candidate._replace(
            score=score,
            rank=rank,
            search_score=candidate.score,
            search_rank=candidate.rank,
            judgment=judgment_of(document.metadata) or candidate.judgment,
            filtered=drops and not limit and not drops_by_relevance(reranker),
        )
        for rank, ((candidate, document), score) in enumerate(zip(matched, scores, strict=True))
    ]


def _without_judgment(document: Document) -> Document:
    """Copy a document, as compressors change those they are given, without earlier judgments."""
    metadata = {name: value for name, value in document.metadata.items() if name not in _WRITTEN}
    return document.model_copy(update={"metadata": metadata})


def _matched(
    candidates: Sequence[Candidate], returned: Sequence[Document], name: str
) -> Iterator[tuple[Candidate, Document]]:
    """Yield pairs of a candidate and the Document that the reranker returned for it."""
    numbers_of: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, candidate in enumerate(candidates):
        for identity in _identities(candidate.document):
            numbers_of[identity].append(number)
    used: set[int] = set()
    for document in returned:
        identities = list(_identities(document))
        if identities[0][0] == "chunk":
            del identities[1:]  # the chunk is certain, even if its id or text was changed
        known = next((numbers_of[one] for one in identities if one in numbers_of), None)
        if known is None:
            raise CandidateError(
                f"{name} returned a Document that it was not given: id {document.id!r}, text "
                f"{document.page_content[:40]!r}. A reranker must return Documents that it was "
                "given, with their metadata or id"
            )
        # Chunks of equal text cannot be told apart by a reranker that returns text only.
        for number in known:
            if number not in used:
                used.add(number)
                yield candidates[number], document
                break


def _identities(document: Document) -> Iterator[tuple[object, ...]]:
    """Yield what identifies a Document, the surest first: its chunk, its id, its text."""
    values = document.metadata
    if isinstance(values.get(DOC_ID), str) and VERSION in values and CHUNK_INDEX in values:
        yield "chunk", values[DOC_ID], values[VERSION], values[CHUNK_INDEX]
    if document.id is not None:
        yield "id", document.id
    yield "text", document.page_content
