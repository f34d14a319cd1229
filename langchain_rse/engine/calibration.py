"""Calibration: maps the scores of a store or reranker to relevances in [0, 1]."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from langchain_rse.engine.problem import Floats

Calibration = Literal["identity", "minmax", "rank", "cohere", "voyage"]
"""The name of a method of `calibrate`."""

RANK_RELEVANCE = 0.8
"""Relevance of every candidate if only ranks can be trusted (dsRAG's constant)."""

# Approximate indexes return scores out of order within single precision: up to this share of the
# largest score.
_NOISE = 2e-6
# In single precision, the distance of equal vectors may fall this far below 0.
_ROUNDING = 1e-4
# Terms of the series of the beta function: enough for double precision.
_TERMS = 100


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
    is_falling = False
    is_rising = False
    if np.isfinite(values).all():
        steps = np.diff(values)
        noise = _NOISE * np.abs(values).max(initial=0.0)
        is_falling = bool((steps <= noise).all())
        is_rising = bool((steps >= -noise).all())
    if method == "rank" or not (is_falling or is_rising):
        return np.full(values.size, RANK_RELEVANCE)
    if not values.size:
        return values
    oriented = values if is_falling else -values  # higher is better
    if method == "minmax":
        return minmax(oriented)
    # The other methods need similarities. Scores that rise from below 0 are negated similarities,
    # because distances are never negative.
    if not is_falling and values[0] >= -_ROUNDING:
        oriented = 1.0 + oriented
    similarity = oriented.clip(0.0, 1.0)
    if method == "cohere":
        return beta_cdf(similarity, 0.4, 0.4)
    if method == "voyage":
        return beta_cdf(similarity, 0.5, 1.8)
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
