"""Ranks candidates: computes relevance from independent witnesses.

A witness is a function that maps a query and its candidates to relevances in [0, 1]. Its name in
`WITNESSES` is its name in traces and reports. Witnesses are fused by noisy or, in their order; a
reranker's relevance is mixed in afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from langchain_core.documents import BaseDocumentCompressor

from langchain_rse.config import QuerySettings
from langchain_rse.engine import (
    Calibration,
    Floats,
    bm25_scores,
    calibrate,
    fuse_with_rank,
    minmax,
)
from langchain_rse.query.candidates import (
    FULL_TEXT,
    RERANKER,
    VECTORS,
    Candidate,
    Candidates,
    Ranking,
    numbers_by_rank,
)
from langchain_rse.text.names import named_documents
from langchain_rse.text.words import MAX_QUERY_LENGTH, content_words

# Calibrations of rerankers, by the name of their class or a base class.
_CALIBRATIONS: Mapping[str, Calibration] = {
    "CohereRerank": "cohere",
    "CohereReranker": "cohere",
    "VoyageAIRerank": "voyage",
    "SimilarityBasedRelevanceFilter": "identity",
}

# The share of `RSEConfig.lexical_weight` for BM25 among the candidates if the full-text index was
# searched: both count the same words, with different statistics.
_SHARE_BESIDE_INDEX = 0.5

# BM25's k1 for the hits of the full-text index: a word that is repeated counts little more. It has
# this share; the index's score, with the statistics of all chunks, has the rest.
_EARLY_SATURATION = 0.3
_SATURATED_SHARE = 0.4


class _Query(NamedTuple):
    """A query and its candidates: the input of witnesses."""

    candidates: Sequence[Candidate]
    by_rank: Mapping[str, list[int]]  # numbers of the candidates that each search found
    counts: Floats  # of words that name no document, shape (candidates, words)
    sizes: Floats  # numbers of words in the candidates' texts
    name_factors: Floats  # below 1 for other documents if the query names some
    settings: QuerySettings


def rank(candidates: Candidates, settings: QuerySettings) -> dict[str, list[Candidate]]:
    """Compute the relevance of each query's candidates, and sort them, best first."""
    return {query: rank_query(query, found, settings) for query, found in candidates.items()}


def rank_query(
    question: str, candidates: Sequence[Candidate], settings: QuerySettings
) -> list[Candidate]:
    """Compute the relevance of one query's candidates, and sort them, best first."""
    if not candidates:
        return []
    text = question[:MAX_QUERY_LENGTH]
    words = content_words(text)
    name_factors = np.ones(len(candidates))
    if settings.config.name_weight:
        gaps, text = names_in(text, candidates)
        name_factors = np.exp(-settings.config.name_weight * gaps)
    compared_words = content_words(text)
    words = list(dict.fromkeys([*compared_words, *words]))
    texts = candidates[0].texts
    text_numbers = [candidate.text for candidate in candidates]
    counts = texts.counts(words)[text_numbers]
    query = _Query(
        candidates,
        {search: numbers_by_rank(candidates, search) for search in (VECTORS, FULL_TEXT, RERANKER)},
        counts[:, : len(compared_words)],
        texts.sizes[text_numbers],
        name_factors,
        settings,
    )
    signals: dict[str, Floats] = {}
    rest = np.ones(len(candidates))  # 1 minus the relevance by earlier witnesses
    for name, witness in WITNESSES.items():
        relevance = witness(query)
        signals[name] = rest * relevance  # noisy or
        rest = rest * (1 - relevance)
    if settings.reranker is not None:
        signals = _mix_with_reranker(query, signals)
    naming_words = words[len(compared_words) :]
    ranking = Ranking(question, naming_words, words, counts > 0, name_factors, signals)
    total = np.sum(list(signals.values()), axis=0)
    relevances = total.tolist()  # items of arrays are slow to read one by one
    ranked = []
    for row in np.argsort(-total, kind="stable").tolist():
        found = candidates[row]
        # Much faster than `_replace`.
        ranked.append(Candidate._make([*found[:-3], relevances[row], ranking, row]))
    return ranked


def names_in(query: str, candidates: Sequence[Candidate]) -> tuple[Floats, str]:
    """Find the documents that a query names by title or file name, among those of candidates.

    See `named_documents`.
    """
    names: dict[str, str] = {}  # of documents, by key
    for candidate in candidates:
        if candidate.key not in names:
            names[candidate.key] = candidate.title
    numbers = dict(zip(names, itertools.count()))
    owners = [numbers[candidate.key] for candidate in candidates]
    text_numbers = [candidate.text for candidate in candidates]
    return named_documents(query, list(names.values()), owners, candidates[0].texts, text_numbers)


def _by_vectors(query: _Query) -> Floats:
    """Relevance by scores and ranks of the vector store or wrapped retriever."""
    config = query.settings.config
    weight = config.vector_weight
    if (query.name_factors < 1).any():
        weight = (weight + 1.0) / 2.0
    calibration = config.calibration
    if calibration == "auto" or query.settings.reranker is not None:
        calibration = "minmax"
    return weight * _by_hits(query, VECTORS, calibration)


def _by_full_text(query: _Query) -> Floats:
    """Relevance by scores and ranks of the full-text index, and by BM25 among its hits.

    Documents about one subject name it in every paragraph, and the index prefers the paragraphs
    that repeat it most. BM25 that saturates early corrects this. It is not used if the query names
    documents: such queries look for a clause, which repeats its words.
    """
    weight = query.settings.hybrid
    if weight == "auto":
        weight = query.settings.config.lexical_weight
    numbers = query.by_rank[FULL_TEXT]
    scores = bm25_scores(query.counts[numbers], query.sizes[numbers], k1=_EARLY_SATURATION)
    if (query.name_factors < 1).any() or not scores.any():
        return weight * _by_hits(query, FULL_TEXT, "minmax")
    by_index = [query.candidates[number].hits[FULL_TEXT].score for number in numbers]
    rest = 1 - _SATURATED_SHARE
    mixed = rest * calibrate(by_index, "minmax") + _SATURATED_SHARE * minmax(scores)
    return weight * _fuse(query, numbers, mixed)


def _by_words(query: _Query) -> Floats:
    """Relevance by BM25 of the query's words, among the candidates of the vector search."""
    weight = query.settings.config.lexical_weight
    if query.by_rank[FULL_TEXT]:
        weight *= _SHARE_BESIDE_INDEX
    numbers = query.by_rank[VECTORS]
    scores = bm25_scores(query.counts[numbers], query.sizes[numbers])
    scores *= query.name_factors[numbers]
    if not scores.any():  # as if the query is in another language
        return np.zeros(len(query.candidates))
    return weight * _fuse(query, numbers, minmax(scores))


WITNESSES: Mapping[str, Callable[[_Query], Floats]] = {
    VECTORS: _by_vectors,
    FULL_TEXT: _by_full_text,
    "words": _by_words,
}
"""Functions that compute the relevance of candidates, by the names that traces show."""


def _mix_with_reranker(query: _Query, signals: Mapping[str, Floats]) -> dict[str, Floats]:
    """Mix the relevances of reranker and search; see `RSEConfig.rerank_weight`."""
    config = query.settings.config
    calibration = config.calibration
    if calibration == "auto":
        calibration = _calibration_of(query.settings.reranker)
    by_reranker = _by_hits(query, RERANKER, calibration)
    share_of_search = (1.0 - config.rerank_weight) * by_reranker.max(initial=0.0)
    # A candidate that the reranker scores 0 ends at 0.
    scale = share_of_search * (by_reranker > 0)
    mixed = {name: scale * relevance for name, relevance in signals.items()}
    mixed[RERANKER] = config.rerank_weight * by_reranker
    return mixed


def _calibration_of(reranker: BaseDocumentCompressor | None) -> Calibration:
    for cls in type(reranker).__mro__:
        if cls.__name__ in _CALIBRATIONS:
            return _CALIBRATIONS[cls.__name__]
    return "minmax"


def _by_hits(query: _Query, search: str, calibration: Calibration) -> Floats:
    """Return relevance by scores and ranks of one search; 0 for candidates it did not find."""
    numbers = query.by_rank[search]
    scores = [query.candidates[number].hits[search].score for number in numbers]
    calibrated = calibrate(scores, calibration) * query.name_factors[numbers]
    return _fuse(query, numbers, calibrated)


def _fuse(query: _Query, numbers: Sequence[int], calibrated: Floats) -> Floats:
    """Fuse the relevance of some candidates with rank; see `RSEConfig.rank_fusion`."""
    config = query.settings.config
    relevance = np.zeros(len(query.candidates))
    relevance[numbers] = fuse_with_rank(
        calibrated, config.rank_fusion, decay_rate=config.decay_rate
    )
    return relevance
