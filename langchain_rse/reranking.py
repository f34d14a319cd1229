"""Asking a reranker, and matching what it returns with what it was given."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document

from langchain_rse._steps import Steps, call, during
from langchain_rse.candidates import (
    Candidate,
    documents_of,
    number_of,
    without_rising_scores,
)
from langchain_rse.schema import (
    CHUNK_INDEX,
    DOC_ID,
    IS_RELEVANT,
    RELEVANCE_EXPLANATION,
    RELEVANCE_FAILURE,
    RELEVANCE_SCORE,
    VERSION,
    CandidateError,
    judgment_of,
)

__all__ = ["rerank"]

logger = logging.getLogger(__name__)

# What these services take in one request; their scores do not depend on the other documents.
_MOST_AT_ONCE = {"CohereRerank": 1_000, "VoyageAIRerank": 1_000}

# What tells the reranker's scores and judgments.
_ITS_OWN = frozenset({RELEVANCE_SCORE, IS_RELEVANT, RELEVANCE_EXPLANATION, RELEVANCE_FAILURE})

# By these names, they are told how many documents to keep.
_LIMITS = ("top_n", "top_k", "k")


def rerank(
    reranker: BaseDocumentCompressor,
    candidates: Sequence[Candidate],
    query: str,
    callbacks: Callbacks,
) -> Steps[list[Candidate]]:
    """The candidates that the reranker keeps, in its order and with its scores.

    A compressor may copy, cut, drop and reorder Documents, and lose their ids or metadata:
    what comes back is matched with what was given, and that counts, whole and unchanged.
    One that comes twice counts where it comes first.

    Args:
        reranker: The reranker.
        candidates: The candidates, best first.
        query: The query.
        callbacks: For the reranker.

    Returns:
        Documents as they were given, with a relevance filter's judgment; as scores, the
        ``relevance_score`` that the reranker put into their metadata: None where it put no
        number, or where they rise, since the order is what counts and a relevance is no distance.

    Raises:
        CandidateError: If the reranker returns a Document that it was not given.
        TypeError: If it returns something else than Documents.
    """
    name = type(reranker).__name__
    # A chunk that was found twice is scored once.
    given = list(
        {next(_marks(document)): document for document, _ in reversed(candidates)}.values()
    )
    given.reverse()
    at_once = _MOST_AT_ONCE.get(name) or len(given)
    reranked: list[Candidate] = []
    with during(f"reranking with {name}"):
        for start in range(0, len(given), at_once):
            some = given[start : start + at_once]
            returned = yield from call(
                reranker.compress_documents,
                reranker.acompress_documents,
                # Compressors may write into what they are given.
                [_without_its_own(document) for document in some],
                query,
                callbacks=callbacks,
            )
            documents = documents_of(returned, name)
            for limit in _LIMITS if len(documents) < len(some) else ():
                if getattr(reranker, limit, None) == len(documents):
                    _say_that_it_cuts(name, limit, len(documents))
            reranked += _matched(some, documents, name)
    if at_once < len(given):
        reranked.sort(key=lambda found: math.inf if found[1] is None else -found[1])
    return without_rising_scores(reranked)


def _without_its_own(document: Document) -> Document:
    """A copy without a score or judgment that could be taken for the reranker's."""
    metadata = {name: value for name, value in document.metadata.items() if name not in _ITS_OWN}
    return document.model_copy(update={"metadata": metadata})


@functools.cache  # once for each reranker
def _say_that_it_cuts(name: str, limit: str, kept: int) -> None:
    logger.warning(
        "%s keeps only its %s=%d candidates, so that segments are made of those and what lies "
        "between them. To have all of them ranked, set its %s=None, or to fetch_k where it takes "
        "no None",
        name,
        limit,
        kept,
        limit,
    )


def _matched(
    given: Sequence[Document], returned: Sequence[Document], name: str
) -> Iterator[Candidate]:
    """The Documents given, in the order of those returned, with their scores."""
    known: dict[tuple[str, str], list[Document]] = {}
    for document in given:
        for mark in _marks(document):
            known.setdefault(mark, []).append(document)
    seen: set[int] = set()
    for document in returned:
        marks = list(_marks(document))
        if marks[0][0] == "chunk":
            del marks[1:]  # nothing else can be meant
        found = next((known[mark] for mark in marks if len(known.get(mark, ())) == 1), None)
        if found is None:
            raise CandidateError(
                f"{name} returned a Document that it was not given, or that cannot be told from "
                f"others: id {document.id!r}, text {document.page_content[:40]!r}. A reranker must "
                "return Documents that it was given, with their metadata or id"
            )
        if id(found[0]) not in seen:
            seen.add(id(found[0]))
            score = number_of(document.metadata.get(RELEVANCE_SCORE))
            yield _with_judgment(found[0], judgment_of(document.metadata)), score


def _with_judgment(document: Document, judgment: Mapping[str, Any]) -> Document:
    """The Document as it was given, but for what the reranker says of it."""
    if not judgment:
        return document
    return document.model_copy(update={"metadata": {**document.metadata, **judgment}})


def _marks(document: Document) -> Iterator[tuple[str, str]]:
    """By what a Document is known, the surest first: its chunk, its id, its text."""
    chunk = tuple(document.metadata.get(name) for name in (DOC_ID, VERSION, CHUNK_INDEX))
    if None not in chunk:
        yield "chunk", repr(chunk)
    if document.id is not None:
        yield "id", document.id
    yield "text", document.page_content
