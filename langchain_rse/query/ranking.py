"""Ranks the candidates of a query by their relevance: from scores, ranks, words and names."""

from collections.abc import Mapping, Sequence

import numpy as np
from langchain_core.documents import BaseDocumentCompressor
from numpy.typing import NDArray

from langchain_rse.config import FOR_SIMILARITIES, QuerySettings, RSEConfig
from langchain_rse.engine import (
    Calibration,
    Floats,
    bm25_scores,
    calibrate,
    fuse_decay,
    fuse_mean,
    minmax,
)
from langchain_rse.query.candidates import Candidate, Candidates, ChunkKey
from langchain_rse.query.naming import named_documents

# Which calibration a reranker's scores need, by the name of its class.
_CALIBRATIONS: Mapping[str, Calibration] = {
    "CohereRerank": "cohere",
    "CohereReranker": "cohere",
    "VoyageAIRerank": "voyage",
    "SimilarityBasedRelevanceFilter": "identity",
}
# Compressors whose scores are similarities, so that they do not count as rerankers.
_SIMILARITIES = frozenset({"SimilarityBasedRelevanceFilter"})

Ranked = Sequence[tuple[Candidate, float]]
"""Candidates with their relevance, best first."""

_CREDIT = [1.0, 1.0]
_Hit = tuple[int | None, float | None]
"""The rank of a candidate in a search, None if that did not find it; and its score."""


def config_for_reranker(config: RSEConfig, reranker: BaseDocumentCompressor | None) -> RSEConfig:
    """Replace ``"auto"`` and None in the config by values that depend on the reranker.

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
    is_reranked = reranker is not None and not class_names & _SIMILARITIES
    config = config.model_copy(update={"calibration": calibration})
    return config.for_scores(reranked=is_reranked)


def rank_all(candidates: Candidates, settings: QuerySettings) -> list[Ranked]:
    """Rank the candidates of each query by itself."""
    return [
        rank_candidates(query, candidates_of_query, settings)
        for query, candidates_of_query in candidates.items()
    ]


def rank_candidates(query: str, candidates: Sequence[Candidate], settings: QuerySettings) -> Ranked:
    """Compute the relevance of a query's candidates; return them with it, best first."""
    config = settings.config
    name_factors = np.ones(len(candidates))
    if config.name_weight:
        named = named_documents(query, candidates)
        name_factors = np.exp(-config.name_weight * named.shortfall)
        query = named.query
    if settings.reranker is None:
        hits = [(candidate.rank, candidate.score) for candidate in candidates]
        relevance = _relevance_by_search(
            hits, query, candidates, name_factors, hybrid=settings.hybrid, config=config
        )
    else:
        relevance = _relevance_by_reranker(query, candidates, name_factors, settings)
    order = _best_first(relevance)
    return [(candidates[number], float(relevance[number])) for number in order]


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


def _relevance_by_reranker(
    query: str, candidates: Sequence[Candidate], name_factors: Floats, settings: QuerySettings
) -> Floats:
    """Weigh the reranker's relevance against that of the search, see `rerank_weight`."""
    config = settings.config
    reranked_hits = [(candidate.rank, candidate.score) for candidate in candidates]
    relevance = _relevance_of(reranked_hits, name_factors, config)
    search_share = 1.0 - (config.rerank_weight or 0.0)
    if not search_share or not relevance.any():
        return relevance
    for_search = {**FOR_SIMILARITIES, "calibration": "minmax", "min_relevance": 0.0}
    search_config = config.model_copy(update=for_search)
    search_hits = [(candidate.search_rank, candidate.search_score) for candidate in candidates]
    by_search = _relevance_by_search(
        search_hits,
        query,
        candidates,
        name_factors,
        hybrid=settings.hybrid,
        config=search_config,
    )
    mixed = (1.0 - search_share) * relevance + search_share * (relevance.max() * by_search)
    return np.where(relevance > 0, mixed, 0.0)


def _relevance_by_search(
    hits: Sequence[_Hit],
    query: str,
    candidates: Sequence[Candidate],
    name_factors: Floats,
    *,
    hybrid: float,
    config: RSEConfig,
) -> Floats:
    """The relevance by the vector store's scores, the words of the query, and `hybrid`."""
    texts = [candidate.document.page_content for candidate in candidates]
    credit = _CREDIT[1] if (name_factors < 1).any() else _CREDIT[0]
    relevance = _relevance_of(hits, name_factors, config, query, texts, credit=credit)
    if not hybrid:
        return relevance
    lexical_hits = [(candidate.lexical_rank, candidate.lexical_score) for candidate in candidates]
    lexical_config = config.model_copy(update={"calibration": "minmax"})
    lexical = _relevance_of(lexical_hits, name_factors, lexical_config)
    return (1 - hybrid) * relevance + hybrid * lexical


def _relevance_of(
    hits: Sequence[_Hit],
    name_factors: Floats,
    config: RSEConfig,
    query: str = "",
    texts: Sequence[str] | None = None,
    *,
    credit: float = 1.0,
) -> Floats:
    """The relevance of candidates by their hits in one search, and by words if there are texts.

    It is multiplied by ``name_factors``, which are below 1 for candidates of documents that the
    query does not name, if it names others. Candidates without a rank have relevance 0.
    """
    relevance = np.zeros(len(hits))
    ranked_numbers = []
    for number, (rank, _) in enumerate(hits):
        if rank is not None:
            ranked_numbers.append((rank, number))
    numbers = [number for _, number in sorted(ranked_numbers)]
    if not numbers:
        return relevance
    factors = name_factors[numbers]
    calibrated = calibrate([hits[number][1] for number in numbers], config.calibration)
    ranks = np.arange(len(numbers))
    if (factors < 1).any():
        ranks = _ranks(calibrated * factors)
    fused = credit * _fuse(calibrated * factors, ranks, config)
    if config.lexical_credit and texts:
        words = bm25_scores(query, [texts[number] for number in numbers]) * factors
        if words.any():  # none match a query in another language
            # Scores and words are independent evidence: noisy or, as for neighbors.
            by_words = config.lexical_credit * _fuse(minmax(words), _ranks(words), config)
            fused = fused + by_words * (1 - fused)
    relevance[numbers] = np.where(calibrated >= config.min_relevance, fused, 0.0)
    return relevance


def _fuse(relevance: Floats, ranks: NDArray[np.intp], config: RSEConfig) -> Floats:
    """Fuse relevance with the rank. Fields of ``config`` must not be None."""
    if config.rank_fusion == "mean":
        return fuse_mean(relevance, ranks, count=relevance.size)
    return fuse_decay(relevance, ranks, decay_rate=config.decay_rate or 0.0)


def _best_first(relevance: Floats) -> NDArray[np.intp]:
    """The indexes of relevances, the highest first; equal ones in their order."""
    return np.argsort(-relevance, kind="stable")


def _ranks(relevance: Floats) -> NDArray[np.intp]:
    """The rank of each relevance, the highest 0."""
    ranks = np.empty(relevance.size, np.intp)
    ranks[_best_first(relevance)] = np.arange(relevance.size)
    return ranks
