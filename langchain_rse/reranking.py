"""Asking a reranker, and matching what it returns with what it was given."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document

from langchain_rse._steps import Steps, call, during
from langchain_rse.candidates import Candidate, number_of
from langchain_rse.schema import CHUNK_INDEX, DOC_ID, RELEVANCE_SCORE, VERSION, CandidateError

__all__ = ["rerank"]

logger = logging.getLogger(__name__)

# What these services take in one request; their scores do not depend on the other documents.
_MOST_AT_ONCE = {"CohereRerank": 1_000, "VoyageAIRerank": 1_000}


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
        Documents as they were given; as scores, the ``relevance_score`` that the reranker
        put into their metadata, None where it put no number.

    Raises:
        CandidateError: If the reranker returns a Document that it was not given.
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
                [_without_score(document) for document in some],
                query,
                callbacks=callbacks,
            )
            if len(returned) < len(some) and len(returned) == getattr(reranker, "top_n", None):
                _say_that_it_cuts(name, len(returned))
            reranked += _matched(some, returned, name)
    if at_once < len(given):
        reranked.sort(key=lambda candidate: -1.0 if candidate[1] is None else -candidate[1])
    return reranked


def _without_score(document: Document) -> Document:
    """A copy without a score that could be taken for the reranker's."""
    metadata = {name: value for name, value in document.metadata.items() if name != RELEVANCE_SCORE}
    return document.model_copy(update={"metadata": metadata})


@functools.cache  # once for each reranker
def _say_that_it_cuts(name: str, top_n: int) -> None:
    logger.warning(
        "%s keeps only its top_n=%d candidates, so that segments are made of those and what lies "
        "between them. Set its top_n=None to have all of them scored",
        name,
        top_n,
    )


def _matched(given: Sequence[Document], returned: Any, name: str) -> Iterator[Candidate]:  # noqa: ANN401
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
            yield found[0], number_of(document.metadata.get(RELEVANCE_SCORE))


def _marks(document: Document) -> Iterator[tuple[str, str]]:
    """By what a Document is known, the surest first: its chunk, its id, its text."""
    chunk = tuple(document.metadata.get(name) for name in (DOC_ID, VERSION, CHUNK_INDEX))
    if None not in chunk:
        yield "chunk", repr(chunk)
    if document.id is not None:
        yield "id", document.id
    yield "text", document.page_content
