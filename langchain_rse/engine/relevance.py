"""Computes the relevance of chunks from scores, ranks, words and neighbors.

All relevances are arrays of numbers in [0, 1].
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""An array of floats."""

Indices = NDArray[np.intp]

Calibration = Literal["identity", "minmax", "rank", "cohere", "voyage"]
"""The name of a method of `calibrate`."""

RANK_RELEVANCE = 0.8
"""Relevance of every candidate if only ranks can be trusted (dsRAG's constant)."""

NEIGHBOR_RADIUS = 2
"""Distance of the farthest neighbor that gets credit from a chunk, in chunks."""

# Approximate indexes return scores out of order within single precision: up to this share of the
# largest score.
_NOISE = 2e-6
# In single precision, the distance of equal vectors may fall this far below 0.
_ROUNDING = 1e-4
# The parameters of the beta function for the scores of rerankers, from dsRAG.
_BETA_PARAMETERS = {"cohere": (0.4, 0.4), "voyage": (0.5, 1.8)}
# Terms of the series of the beta function: enough for double precision.
_TERMS = 100
_B = 0.75  # BM25: length normalization from 0 (none) to 1 (full)


def calibrate(scores: Sequence[float | None] | Floats, method: Calibration) -> Floats:
    """Map the scores of candidates, best candidate first, to relevances in [0, 1].

    The order of the candidates is authoritative. Scores that fall from first to last are
    similarities; scores that rise are distances and are negated. If scores do neither, or if a
    score is missing or not finite, every candidate gets `RANK_RELEVANCE`.

    Args:
        scores: One score per candidate, best candidate first.
        method: The calibration:

            - ``"identity"``: the score, clipped to [0, 1]; 1 - d for a distance d; the similarity
              for a negated similarity (scores that rise from below 0)
            - ``"minmax"``: 0 for the worst candidate, 1 for the best; see `minmax`
            - ``"cohere"``, ``"voyage"``: the regularized incomplete beta function with the
              parameters (0.4, 0.4) and (0.5, 1.8), from dsRAG; see `beta_cdf`
            - ``"rank"``: the constant `RANK_RELEVANCE`

    Returns:
        Shape ``(candidates,)``, each in [0, 1].
    """
    values = np.asarray(scores, dtype=np.float64)  # None becomes NaN
    without_scores = np.full(values.size, RANK_RELEVANCE)
    if method == "rank" or not values.size or not np.isfinite(values).all():
        return without_scores
    steps = np.diff(values)
    noise = _NOISE * np.abs(values).max()
    is_falling = (steps <= noise).all()
    if not is_falling and (steps < -noise).any():
        return without_scores
    oriented = values if is_falling else -values  # higher is better
    if method == "minmax":
        return minmax(oriented)
    # The other methods need similarities. Scores that rise from below 0 are negated similarities,
    # because distances are never negative.
    if not is_falling and values[0] >= -_ROUNDING:
        oriented = 1.0 + oriented
    similarity = oriented.clip(0.0, 1.0)
    if method in _BETA_PARAMETERS:
        return beta_cdf(similarity, *_BETA_PARAMETERS[method])
    return similarity


def minmax(scores: Floats) -> Floats:
    """Scale scores linearly to [0, 1], lowest to highest. If all are equal, all become 1."""
    spread = np.ptp(scores)
    if spread == 0:
        return np.ones_like(scores)
    return np.asarray((scores - scores.min()) / spread)


def beta_cdf(x: Floats, a: float, b: float) -> Floats:
    """Return the regularized incomplete beta function I_x(a, b), for a and b from 0.1 to 3.

    Scores of rerankers crowd near 0 and 1; this function spreads them evenly (dsRAG). ``x`` is in
    [0, 1]. Computed with the series DLMF 8.17.8, whose terms are all positive; agrees with
    ``scipy.special.betainc`` to 1e-12.
    """
    # The series converges fast below the mean of the distribution. Above the mean, use the
    # symmetry I_x(a, b) = 1 - I_{1-x}(b, a), DLMF 8.17.4.
    above = x > (a + 1.0) / (a + b + 2.0)
    result = np.empty_like(x)
    result[~above] = _beta_below_mean(x[~above], a, b)
    result[above] = 1.0 - _beta_below_mean(1.0 - x[above], b, a)
    return result.clip(0.0, 1.0)


def _beta_below_mean(x: Floats, a: float, b: float) -> Floats:
    term = np.ones_like(x)
    total = np.ones_like(x)
    for n in range(1, _TERMS):
        term *= x * ((a + b + n - 1) / (a + n))
        total += term
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    with np.errstate(divide="ignore"):
        log_factor = a * np.log(x) + b * np.log1p(-x) - log_beta
    return np.asarray(np.exp(log_factor) * total / a)


def fuse_with_rank(
    relevance: Floats, method: Literal["decay", "mean"], *, decay_rate: float
) -> Floats:
    """Lower relevance with rank, from 0 for the highest; ties rank by position.

    Args:
        relevance: Relevance of the candidates of a search.
        method: ``"decay"`` computes ``exp(-rank / decay_rate) * relevance`` (dsRAG), ``"mean"``
            computes ``(relevance + 1 - rank / candidates) / 2``.
        decay_rate: Number of ranks in which relevance falls to 37 percent.
    """
    best_first = np.argsort(-relevance, kind="stable")
    ranks = np.argsort(best_first)
    if method == "mean":
        return (relevance + 1.0 - ranks / max(ranks.size, 1)) / 2.0
    return np.asarray(np.exp(-ranks / decay_rate) * relevance)


def bm25_scores(counts: Floats, sizes: Floats, *, k1: float = 1.2) -> Floats:
    """Score how well texts match the words of a query, with BM25 statistics of these texts.

    Words that occur in the same texts, such as the words of a long name, together count little more
    than one of them: the weight of a word is divided by the sum of its overlaps with all words of
    the query. The overlap of two words is the number of texts with both, divided by the number of
    texts with either.

    Args:
        counts: How often each text contains each word of the query, shape ``(texts, words)``.
        sizes: The number of words in each text.
        k1: The saturation of word counts: at 0, only the presence of a word counts.

    Returns:
        Scores of at least 0, shape ``(texts,)``. Formula: Robertson and Zaragoza, "The
        Probabilistic Relevance Framework: BM25 and Beyond" (2009); the inverse document frequency
        is the logarithm of 1 + odds, which is always positive.
    """
    is_in = counts > 0
    if not is_in.any():
        return np.zeros(len(counts))
    length_factors = k1 * (1 - _B + _B * sizes / sizes.mean())
    denominators = np.where(is_in, counts + length_factors[:, None], 1.0)
    saturated = counts * (k1 + 1) / denominators

    has_word = is_in.astype(np.float64)
    with_word = has_word.sum(axis=0)
    with_both = has_word.T @ has_word  # integers: exact in any order of addition
    with_either = with_word[:, None] + with_word - with_both
    overlaps = with_both / np.maximum(with_either, 1.0)
    sums_of_overlaps = np.maximum(overlaps.sum(axis=1), 1.0)
    weights = _inverse_frequencies(is_in) / sums_of_overlaps
    # Not a matrix product: its order of additions may vary, and with it the last digits.
    return np.asarray((saturated * weights).sum(axis=1))


def word_shares(is_in: NDArray[np.bool_]) -> Floats:
    """Return the share of a query's words that each text contains, from 0 to 1.

    Each word is weighted by its inverse document frequency in the texts, as in `bm25_scores`. A
    word that no text contains has the highest weight.

    Args:
        is_in: Whether each text contains each word of the query, shape ``(texts, words)``.

    Returns:
        Shape ``(texts,)``; 0 for a query without words.
    """
    if not is_in.size:
        return np.zeros(len(is_in))
    weights = _inverse_frequencies(is_in)
    weight_found = (is_in * weights).sum(axis=1)
    return np.asarray(weight_found / weights.sum())


def _inverse_frequencies(is_in: NDArray[np.bool_]) -> Floats:
    """Return the inverse document frequency of each word."""
    with_word = is_in.sum(axis=0)
    odds = (len(is_in) - with_word + 0.5) / (with_word + 0.5)
    return np.asarray(np.log1p(odds))


def neighbor_credit(relevance: Floats, *, credit: float, radius: int) -> Floats:
    """Credit the relevance of chunks to their neighbors.

    Computes ``1 - prod(1 - credit ** abs(k) * r[i + k] for k in -radius..radius)`` (noisy or): a
    chunk between relevant chunks belongs to the answer, whatever its score.

    Args:
        relevance: Relevance of the chunks of one document, shape ``(..., chunks)``.
        credit: Share of relevance credited to the next chunk, from 0 to 1.
        radius: Distance of the farthest credited neighbor, in chunks.

    Returns:
        Relevance with neighbor credit, same shape, nowhere lower.
    """
    not_credited = np.ones_like(relevance)
    for distance in range(1, radius + 1):
        shared = credit**distance * relevance
        not_credited[..., distance:] *= 1.0 - shared[..., :-distance]
        not_credited[..., :-distance] *= 1.0 - shared[..., distance:]
    credited = 1.0 - not_credited
    # With this formula, a credit of 0 leaves relevance unchanged to the last digit.
    return np.asarray(relevance + (1.0 - relevance) * credited)
