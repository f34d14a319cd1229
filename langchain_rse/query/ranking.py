"""Ranks the candidates of a query by their relevance: from scores, ranks, words and names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from langchain_core.documents import BaseDocumentCompressor
from numpy.typing import NDArray

from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.engine import (
    Calibration,
    Floats,
    bm25_scores,
    calibrate,
    fuse_decay,
    fuse_mean,
    minmax,
)
from langchain_rse.query.candidates import Candidate, Candidates, ChunkKey, RelevanceParts
from langchain_rse.query.long_queries import beginning_of
from langchain_rse.query.naming import named_documents
from langchain_rse.text.function_words import without_function_words

# Which calibration a reranker's scores need, by the name of its class.
_CALIBRATIONS: Mapping[str, Calibration] = {
    "CohereRerank": "cohere",
    "CohereReranker": "cohere",
    "VoyageAIRerank": "voyage",
    "SimilarityBasedRelevanceFilter": "identity",
}

Ranked = Sequence[tuple[Candidate, float]]
"""Candidates with their relevance, best first."""


class _Evidence(NamedTuple):
    """What each kind of evidence adds to the relevance of candidates; shapes ``(candidates,)``."""

    vectors: Floats
    words: Floats
    full_text: Floats
    reranker: Floats

    def total(self) -> Floats:
        """The relevance."""
        return self.vectors + self.words + self.full_text + self.reranker

    def times(self, factor: float | Floats) -> _Evidence:
        """The same evidence, each multiplied by a factor."""
        return _Evidence(*(added * factor for added in self))


_Hit = tuple[int | None, float | None]
"""The rank of a candidate in a search, None if that did not find it; and its score."""


def config_for_reranker(config: RSEConfig, reranker: BaseDocumentCompressor | None) -> RSEConfig:
    """Replace ``"auto"`` in the config by the calibration that the reranker's scores need.

    A reranker is known by the name of its class or of a base class.
    """
    class_names: set[str] = set()
    if reranker is not None:
        class_names = {cls.__name__ for cls in type(reranker).__mro__}
    calibration = config.calibration
    if calibration == "auto":
        calibration = "minmax"
        for name, calibration_of_reranker in _CALIBRATIONS.items():
            if name in class_names:
                calibration = calibration_of_reranker
                break
    return config.model_copy(update={"calibration": calibration})


def rank_all(candidates: Candidates, settings: QuerySettings) -> list[Ranked]:
    """Rank the candidates of each query by itself."""
    return [
        rank_candidates(query, candidates_of_query, settings)
        for query, candidates_of_query in candidates.items()
    ]


def rank_candidates(query: str, candidates: Sequence[Candidate], settings: QuerySettings) -> Ranked:
    """Compute the relevance of a query's candidates; return them with it, best first."""
    config = settings.config
    query = beginning_of(query)
    name_factors = np.ones(len(candidates))
    if config.name_weight:
        named = named_documents(query, candidates)
        name_factors = np.exp(-config.name_weight * named.shortfall)
        query = named.query
    query = without_function_words(query)
    if settings.reranker is None:
        hits = [(candidate.rank, candidate.score) for candidate in candidates]
        evidence = _evidence_of_search(
            hits, query, candidates, name_factors, hybrid=settings.hybrid, config=config
        )
    else:
        evidence = _evidence_of_reranker(query, candidates, name_factors, settings)
    relevance = evidence.total()
    added = np.transpose(evidence).tolist()  # a row for each candidate
    ranked = []
    for number in _best_first(relevance):
        vectors, words, full_text, reranker = added[number]
        name_factor = float(name_factors[number])
        parts = RelevanceParts(vectors, words, full_text, reranker, name_factor, query)
        ranked.append((candidates[number]._replace(parts=parts), float(relevance[number])))
    return ranked


def best_of_queries(ranked: Sequence[Ranked], queries: Sequence[str]) -> Ranked:
    """Join the candidates of all queries, each for the query that it fits best, best first."""
    if len(ranked) == 1:
        return ranked[0]
    best: dict[ChunkKey, tuple[Candidate, float]] = {}
    for query, ranked_of_query in zip(queries, ranked, strict=True):
        for candidate, relevance in ranked_of_query:
            known = best.get(candidate.chunk_key)
            if known is None or relevance > known[1]:
                best[candidate.chunk_key] = candidate._replace(query=query), relevance
    return sorted(best.values(), key=lambda pair: -pair[1])


def _no_evidence(count: int) -> _Evidence:
    return _Evidence(*np.zeros((len(_Evidence._fields), count)))


def _evidence_of_reranker(
    query: str, candidates: Sequence[Candidate], name_factors: Floats, settings: QuerySettings
) -> _Evidence:
    """Weigh the reranker's relevance against that of the search, see `rerank_weight`."""
    config = settings.config
    reranked_hits = [(candidate.rank, candidate.score) for candidate in candidates]
    relevance, _ = _relevance_of(reranked_hits, name_factors, config)
    search_share = 1.0 - config.rerank_weight
    by_reranker = _no_evidence(len(candidates))._replace(reranker=relevance)
    if not search_share or not relevance.any():
        return by_reranker
    search_config = config.model_copy(update={"calibration": "minmax", "min_relevance": 0.0})
    search_hits = [(candidate.search_rank, candidate.search_score) for candidate in candidates]
    by_search = _evidence_of_search(
        search_hits,
        query,
        candidates,
        name_factors,
        hybrid=settings.hybrid,
        config=search_config,
    )
    mixed = by_search.times(search_share * relevance.max())
    mixed = mixed._replace(reranker=(1.0 - search_share) * relevance)
    return mixed.times(np.where(relevance > 0, 1.0, 0.0))


def _evidence_of_search(
    hits: Sequence[_Hit],
    query: str,
    candidates: Sequence[Candidate],
    name_factors: Floats,
    *,
    hybrid: float,
    config: RSEConfig,
) -> _Evidence:
    """The relevance by the vector store's scores, the words of the query, and `hybrid`."""
    texts = [candidate.document.page_content for candidate in candidates]
    credit = _score_credit(name_factors, config)
    by_vectors, by_words = _relevance_of(hits, name_factors, config, query, texts, credit=credit)
    evidence = _no_evidence(len(candidates))._replace(vectors=by_vectors, words=by_words)
    if not hybrid:
        return evidence
    lexical_hits = [(candidate.lexical_rank, candidate.lexical_score) for candidate in candidates]
    lexical_config = config.model_copy(update={"calibration": "minmax"})
    by_index, _ = _relevance_of(lexical_hits, name_factors, lexical_config)
    return evidence.times(1 - hybrid)._replace(full_text=hybrid * by_index)


def _score_credit(name_factors: Floats, config: RSEConfig) -> float:
    """How much scores count, see `RSEConfig.score_credit`."""
    names_documents = bool((name_factors < 1).any())
    if names_documents:
        return (config.score_credit + 1.0) / 2.0
    return config.score_credit


def _relevance_of(
    hits: Sequence[_Hit],
    name_factors: Floats,
    config: RSEConfig,
    query: str = "",
    texts: Sequence[str] | None = None,
    *,
    credit: float = 1.0,
) -> tuple[Floats, Floats]:
    """The relevance of candidates by their hits in one search, and what their words add to it.

    ``credit`` is the relevance of the best candidate by its score.
    It is multiplied by ``name_factors``, which are below 1 for candidates of documents that the
    query does not name, if it names others. Candidates without a rank have relevance 0. Words add
    nothing if there are no ``texts``.
    """
    by_scores = np.zeros(len(hits))
    added_by_words = np.zeros(len(hits))
    ranked_numbers = []
    for number, (rank, _) in enumerate(hits):
        if rank is not None:
            ranked_numbers.append((rank, number))
    numbers = [number for _, number in sorted(ranked_numbers)]
    if not numbers:
        return by_scores, added_by_words
    factors = name_factors[numbers]
    calibrated = calibrate([hits[number][1] for number in numbers], config.calibration)
    is_enough = calibrated >= config.min_relevance
    ranks = np.arange(len(numbers))
    if (factors < 1).any():
        ranks = _ranks(calibrated * factors)
    fused = credit * _fuse(calibrated * factors, ranks, config)
    by_scores[numbers] = np.where(is_enough, fused, 0.0)
    if config.lexical_credit and texts:
        words = bm25_scores(query, [texts[number] for number in numbers]) * factors
        if words.any():  # none match a query in another language
            # Scores and words are independent evidence: noisy or, as for neighbors.
            by_words = config.lexical_credit * _fuse(minmax(words), _ranks(words), config)
            added_by_words[numbers] = np.where(is_enough, by_words * (1 - fused), 0.0)
    return by_scores, added_by_words


def _fuse(relevance: Floats, ranks: NDArray[np.intp], config: RSEConfig) -> Floats:
    """Fuse relevance with the rank."""
    if config.rank_fusion == "mean":
        return fuse_mean(relevance, ranks, count=relevance.size)
    return fuse_decay(relevance, ranks, decay_rate=config.decay_rate)


def _best_first(relevance: Floats) -> NDArray[np.intp]:
    """The indexes of relevances, the highest first; equal ones in their order."""
    return np.argsort(-relevance, kind="stable")


def _ranks(relevance: Floats) -> NDArray[np.intp]:
    """The rank of each relevance, the highest 0."""
    ranks = np.empty(relevance.size, np.intp)
    ranks[_best_first(relevance)] = np.arange(relevance.size)
    return ranks
