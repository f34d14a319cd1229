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
from langchain_rse.query.naming import named_documents
from langchain_rse.text.words import beginning_of, without_function_words

# Which calibration a reranker's scores need, by the name of its class.
_CALIBRATIONS: Mapping[str, Calibration] = {
    "CohereRerank": "cohere",
    "CohereReranker": "cohere",
    "VoyageAIRerank": "voyage",
    "SimilarityBasedRelevanceFilter": "identity",
}

# With the full-text index, the share of `RSEConfig.lexical_credit` that is left for BM25 among the
# candidates.
_SHARE_BESIDE_INDEX = 0.5

Ranked = Sequence[tuple[Candidate, float]]
"""Candidates with their relevance, best first."""


class _Evidence(NamedTuple):
    """What each kind of evidence adds to the relevance of candidates; shapes ``(candidates,)``."""

    vectors: Floats
    full_text: Floats
    words: Floats
    reranker: Floats

    def total(self) -> Floats:
        """The relevance."""
        return self.vectors + self.full_text + self.words + self.reranker

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
        name_factors = np.exp(-config.name_weight * named.name_gap)
        query = named.query
    query = without_function_words(query)
    if settings.reranker is None:
        hits = [(candidate.rank, candidate.score) for candidate in candidates]
        evidence = _evidence_of_search(hits, query, candidates, name_factors, settings)
    else:
        evidence = _evidence_of_reranker(query, candidates, name_factors, settings)
    relevance = evidence.total()
    added = np.transpose(evidence).tolist()  # a row for each candidate
    ranked = []
    for number in _best_first(relevance):
        vectors, full_text, words, reranker = added[number]
        name_factor = float(name_factors[number])
        parts = RelevanceParts(vectors, full_text, words, reranker, name_factor, query)
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
    relevance = _relevance_of(reranked_hits, name_factors, config)
    search_share = 1.0 - config.rerank_weight
    by_reranker = _no_evidence(len(candidates))._replace(reranker=relevance)
    if not search_share or not relevance.any():
        return by_reranker
    search_config = config.model_copy(update={"calibration": "minmax", "min_relevance": 0.0})
    search_hits = [(candidate.search_rank, candidate.search_score) for candidate in candidates]
    search_settings = settings.model_copy(update={"config": search_config})
    by_search = _evidence_of_search(search_hits, query, candidates, name_factors, search_settings)
    mixed = by_search.times(search_share * relevance.max())
    mixed = mixed._replace(reranker=(1.0 - search_share) * relevance)
    return mixed.times(np.where(relevance > 0, 1.0, 0.0))


def _evidence_of_search(
    hits: Sequence[_Hit],
    query: str,
    candidates: Sequence[Candidate],
    name_factors: Floats,
    settings: QuerySettings,
) -> _Evidence:
    """The relevance by the vector store's scores, the full-text index and the query's words.

    They are independent evidence: noisy or, as for neighbors.
    """
    config = settings.config
    by_vectors = _score_credit(name_factors, config) * _relevance_of(hits, name_factors, config)
    by_index = np.zeros(len(candidates))
    lexical_credit = config.lexical_credit
    if any(candidate.lexical_rank is not None for candidate in candidates):
        lexical_hits = [(each.lexical_rank, each.lexical_score) for each in candidates]
        lexical_config = config.model_copy(update={"calibration": "minmax", "min_relevance": 0.0})
        weight = lexical_credit if settings.hybrid == "auto" else settings.hybrid
        by_index = weight * _relevance_of(lexical_hits, name_factors, lexical_config)
        # The same words again, with their statistics among the candidates.
        lexical_credit *= _SHARE_BESIDE_INDEX
    by_words = np.zeros(len(candidates))
    if lexical_credit:
        by_words = lexical_credit * _relevance_of_words(
            hits, query, candidates, name_factors, config
        )
    return _no_evidence(len(candidates))._replace(
        vectors=by_vectors,
        full_text=(1 - by_vectors) * by_index,
        words=(1 - by_vectors) * (1 - by_index) * by_words,
    )


def _score_credit(name_factors: Floats, config: RSEConfig) -> float:
    """How much scores count, see `RSEConfig.score_credit`."""
    names_documents = bool((name_factors < 1).any())
    if names_documents:
        return (config.score_credit + 1.0) / 2.0
    return config.score_credit


def _relevance_of(hits: Sequence[_Hit], name_factors: Floats, config: RSEConfig) -> Floats:
    """The relevance of candidates by their hits in one search; 0 for those without a rank.

    It is multiplied by ``name_factors``, which are below 1 for candidates of documents that the
    query does not name, if it names others.
    """
    relevance = np.zeros(len(hits))
    numbers = _ranked_numbers(hits)
    if not numbers:
        return relevance
    factors = name_factors[numbers]
    calibrated = calibrate([hits[number][1] for number in numbers], config.calibration)
    ranks = np.arange(len(numbers))
    if (factors < 1).any():
        ranks = _ranks(calibrated * factors)
    fused = _fuse(calibrated * factors, ranks, config)
    relevance[numbers] = np.where(calibrated >= config.min_relevance, fused, 0.0)
    return relevance


def _relevance_of_words(
    hits: Sequence[_Hit],
    query: str,
    candidates: Sequence[Candidate],
    name_factors: Floats,
    config: RSEConfig,
) -> Floats:
    """The relevance of the search's candidates by the words of the query: BM25 among them."""
    relevance = np.zeros(len(hits))
    numbers = _ranked_numbers(hits)
    texts = [candidates[number].document.page_content for number in numbers]
    words = bm25_scores(query, texts) * name_factors[numbers]
    if not words.any():  # none match a query in another language
        return relevance
    relevance[numbers] = _fuse(minmax(words), _ranks(words), config)
    if config.min_relevance:
        calibrated = calibrate([hits[number][1] for number in numbers], config.calibration)
        relevance[numbers] *= calibrated >= config.min_relevance
    return relevance


def _ranked_numbers(hits: Sequence[_Hit]) -> list[int]:
    """The numbers of the hits that have a rank, by their rank."""
    ranked_numbers = []
    for number, (rank, _) in enumerate(hits):
        if rank is not None:
            ranked_numbers.append((rank, number))
    return [number for _, number in sorted(ranked_numbers)]


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
