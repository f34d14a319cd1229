"""Calibration: maps the scores of a store or reranker to relevances in [0, 1]."""

import functools
import math
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from langchain_rse.engine.problem import Floats

Calibration = str | Callable[[Floats], ArrayLike]
"""The name of a method of `calibrate`, or a function from scores to relevances in [0, 1]."""

RANK_RELEVANCE = 0.8
"""Relevance of every candidate if only ranks can be trusted (dsRAG's constant)."""

# Beta parameters from dsRAG (dsrag.reranker), by reranker.
_BETA_OF_RERANKER = {"cohere": (0.4, 0.4), "voyage": (0.5, 1.8)}
_NAMES = ("identity", "minmax", "sigmoid", "rank", *_BETA_OF_RERANKER)
_BETA = re.compile(r"beta\(\s*([^\s,()]+)\s*,\s*([^\s,()]+)\s*\)")
# Approximate indexes return scores out of order within single precision: up to this share of the
# largest score.
_NOISE = 2e-6
# In single precision, the distance of equal vectors may fall this far below 0.
_ROUNDING = 1e-4
# Limits of the series of the beta function: the smallest term, as a share of the sum, and the
# number of terms.
_PRECISION = 1e-16
_MOST_TERMS = 100_000


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
            - ``"sigmoid"``: for logits; see `sigmoid`
            - ``"beta(a, b)"``: the regularized incomplete beta function; see `beta_cdf`
            - ``"cohere"``, ``"voyage"``: ``beta(0.4, 0.4)``, ``beta(0.5, 1.8)``, from dsRAG
            - ``"rank"``: the constant `RANK_RELEVANCE`
            - a function from an array of scores, higher is better, to relevances

    Returns:
        Shape ``(candidates,)``, each in [0, 1].

    Raises:
        ValueError: If the method is unknown, or a function does not return one finite number per
            candidate.
    """
    if method not in _NAMES:
        check_calibration(method)
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
    if callable(method):
        return _calibrate_by_function(oriented, method)
    if method == "minmax":
        return minmax(oriented)
    if method == "sigmoid":
        return sigmoid(oriented)
    # The other methods need similarities. Scores that rise from below 0 are negated similarities,
    # because distances are never negative.
    if not is_falling and values[0] >= -_ROUNDING:
        oriented = 1.0 + oriented
    similarity = oriented.clip(0.0, 1.0)
    parameters = _beta_parameters(method)
    if parameters is None:  # "identity"
        return similarity
    return beta_cdf(similarity, *parameters)


def check_calibration(method: Calibration) -> Calibration:
    """Return the method if `calibrate` supports it, else raise a ValueError."""
    is_name = method in _NAMES or _beta_parameters(str(method)) is not None
    if not (is_name or callable(method)):
        raise ValueError(
            f"calibration must be one of {', '.join(_NAMES)}, 'beta(a, b)' with positive a and b, "
            f"or a function; got {method!r}"
        )
    return method


@functools.cache
def _beta_parameters(method: str) -> tuple[float, float] | None:
    """Return the parameters of a beta calibration; None for any other name."""
    if method in _BETA_OF_RERANKER:
        return _BETA_OF_RERANKER[method]
    match = _BETA.fullmatch(method)
    if match is None:
        return None
    try:
        a = float(match[1])
        b = float(match[2])
    except ValueError:
        return None
    if 0 < a < math.inf and 0 < b < math.inf:
        return a, b
    return None


def _calibrate_by_function(scores: Floats, function: Callable[[Floats], ArrayLike]) -> Floats:
    relevance = np.asarray(function(scores), dtype=np.float64)
    if relevance.shape != scores.shape or not np.isfinite(relevance).all():
        raise ValueError(
            f"calibration {function!r} must return one finite number for each of the "
            f"{scores.size} scores; got {relevance!r}"
        )
    return relevance.clip(0.0, 1.0)


def minmax(scores: Floats) -> Floats:
    """Scale scores linearly to [0, 1], lowest to highest. If all are equal, all become 1."""
    spread = np.ptp(scores)
    if spread == 0:
        return np.ones_like(scores)
    return np.asarray((scores - scores.min()) / spread)


def sigmoid(logits: Floats) -> Floats:
    """Return the logistic function 1 / (1 + exp(-x)), for the logits of cross-encoders."""
    # Unlike exp, tanh does not overflow.
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)), dtype=np.float64)


def beta_cdf(x: Floats, a: float, b: float) -> Floats:
    """Return the regularized incomplete beta function I_x(a, b).

    Scores of rerankers crowd near 0 and 1; this function spreads them evenly (dsRAG). ``x`` is in
    [0, 1]; ``a`` and ``b`` are positive. Computed with the series DLMF 8.17.8, whose terms are all
    positive; agrees with ``scipy.special.betainc`` to 1e-12.
    """
    x = np.asarray(x, dtype=np.float64)
    # The series converges fast below the mean of the distribution. Above the mean, use the
    # symmetry I_x(a, b) = 1 - I_{1-x}(b, a), DLMF 8.17.4.
    above = x > (a + 1.0) / (a + b + 2.0)
    result = np.empty_like(x)
    result[~above] = _beta_below_mean(x[~above], a, b)
    result[above] = 1.0 - _beta_below_mean(1.0 - x[above], b, a)
    return result.clip(0.0, 1.0)


def _beta_below_mean(x: Floats, a: float, b: float) -> Floats:
    term = np.ones_like(x)
    total = term
    for n in range(1, _MOST_TERMS):
        term = term * x * ((a + b + n - 1) / (a + n))
        total = total + term
        if (term <= _PRECISION * total).all():
            break
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    with np.errstate(divide="ignore"):
        log_factor = a * np.log(x) + b * np.log1p(-x) - log_beta
    return np.asarray(np.exp(log_factor) * total / a)
