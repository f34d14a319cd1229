"""From the scores of candidates to the relevance and the values of chunks.

Each step is a function of its own: scores are calibrated to [0, 1], fused with the rank and
sharpened, words of the query count for some of it, neighbors get credit, and a penalty and the
weight of the text turn relevances into values. Needs numpy only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "RANK_RELEVANCE",
    "Calibration",
    "beta_cdf",
    "calibrate",
    "check_calibration",
    "chunk_values",
    "fuse_decay",
    "fuse_mean",
    "is_absolute",
    "length_weights",
    "lexical_scores",
    "minmax",
    "neighbor_credit",
    "sharpen",
    "sigmoid",
]

Floats = NDArray[np.float64]

Calibration = str | Callable[[Floats], ArrayLike]
"""A name that `calibrate` knows, or a function from scores to relevances in [0, 1]."""

RANK_RELEVANCE = 0.8
"""Relevance of every candidate when only ranks can be trusted (dsRAG's constant)."""

# The two rerankers whose scores dsRAG calibrated (dsrag.reranker), and the names under
# which LangChain and this package know them; logits; and a score that is what it says.
_BETA_OF_RERANKER = {"cohere": (0.4, 0.4), "voyage": (0.5, 1.8)}
_RERANKER_CLASSES = {
    "CohereRerank": "cohere",
    "CohereReranker": "cohere",
    "VoyageAIRerank": "voyage",
    "NVIDIARerank": "sigmoid",
    "SimilarityBasedRelevanceFilter": "identity",
}
# Their scores are similarities, which say more by their order than by their size.
_SIMILARITY_CLASSES = frozenset({"SimilarityBasedRelevanceFilter"})
# The relevance that `sharpen` leaves as it is: from where text is worth its room, by default.
_MIDDLE = 0.4
# Of the continued fraction: the smallest change that counts, and what stands for zero.
_PRECISION = 1e-15
_TINY = 1e-300
# How far below 0 a store's single precision may put the distance of equal vectors.
_ROUNDING = 1e-4
_WORD = re.compile(r"\w+")
# For plain ASCII, the same words are found in a third of the time.
_SPACES = {code: " " for code in range(128) if not _WORD.match(chr(code))}
_BETA = re.compile(r"beta\(\s*([^\s,()]+)\s*,\s*([^\s,()]+)\s*\)")


def calibrate(
    scores: Sequence[float | None] | Floats,
    method: Calibration = "auto",
    *,
    reranker: str | None = None,
) -> Floats:
    """Bring the scores of candidates, best first, to relevances in [0, 1].

    The order is the truth. Scores that fall along it are similarities, scores that rise
    are distances and are turned around. Scores that contradict it, are missing or are
    not finite are no scores: every candidate then gets `RANK_RELEVANCE`.

    Args:
        scores: One score a candidate, best candidate first.
        method: How to calibrate:

            - ``"auto"``: a reranker known by name gets its own, other scores ``"minmax"``
            - ``"identity"``: the score, limited to [0, 1]; of a distance d, 1 - d; of a
              negated similarity, which starts below 0, the similarity
            - ``"minmax"``: 0 for the worst candidate, 1 for the best; see `minmax`
            - ``"sigmoid"``: for logits; see `sigmoid`
            - ``"beta(a, b)"``: the regularized incomplete beta function; see `beta_cdf`
            - ``"cohere"``, ``"voyage"``: ``beta(0.4, 0.4)``, ``beta(0.5, 1.8)``, from dsRAG
            - ``"rank"``: the constant `RANK_RELEVANCE`
            - a function from an array of scores, higher is better, to relevances
        reranker: Class name of the reranker that gave the scores, for ``"auto"``.

    Returns:
        Shape ``(candidates,)``, each in [0, 1].

    Raises:
        ValueError: If the method is not one of these, or a function returns
            something else than one number a candidate.
    """
    check_calibration(method)
    oriented = _orient(scores)
    if oriented is None or method == "rank":
        return np.full(len(scores), RANK_RELEVANCE)
    usable, are_distances = oriented
    if not usable.size:
        return usable
    if callable(method):
        relevance = np.asarray(method(usable), dtype=np.float64)
        if relevance.shape != usable.shape or not np.isfinite(relevance).all():
            raise ValueError(
                f"calibration {method!r} must return one finite number for each of the "
                f"{usable.size} scores; got {relevance!r}"
            )
        return relevance.clip(0.0, 1.0)
    if method == "auto":
        method = _RERANKER_CLASSES.get(reranker or "", "minmax")
    if method == "minmax":
        return minmax(usable)
    if method == "sigmoid":
        return sigmoid(usable)
    # What is left has a scale of its own, so a distance has to become a similarity. Nothing
    # is nearer than 0, but for rounding: below it, rising scores are negated similarities.
    if are_distances and usable[0] <= _ROUNDING:
        usable = 1.0 + usable
    similarity = usable.clip(0.0, 1.0)
    parameters = _beta_parameters(method)
    return similarity if parameters is None else beta_cdf(similarity, *parameters)


def check_calibration(method: Calibration) -> Calibration:
    """Return the method if `calibrate` knows it.

    Raises:
        ValueError: If it does not, with what is allowed.
    """
    if callable(method):
        return method
    known = ("auto", "identity", "minmax", "sigmoid", "rank", *_BETA_OF_RERANKER)
    if isinstance(method, str):
        if method in known:
            return method
        try:
            if _beta_parameters(method) is not None:
                return method
        except ValueError:
            pass
    raise ValueError(
        f"calibration must be one of {', '.join(known)}, 'beta(a, b)' with positive a and b, "
        f"or a function; got {method!r}"
    )


def is_absolute(method: Calibration, reranker: str | None) -> bool:
    """Whether calibrated scores say by themselves how relevant a chunk is.

    Those of a reranker do, on a scale of their own: every calibration but ``"minmax"`` and
    ``"rank"``, which look at the other candidates. Similarities do not, whatever their
    calibration: chunks that are beside the point have large ones too.

    Args:
        method: The calibration; see `calibrate`. A function counts as absolute.
        reranker: Class name of the reranker that gave the scores, if one did.
    """
    if reranker is None or reranker in _SIMILARITY_CLASSES:
        return False
    if method == "auto":
        return reranker in _RERANKER_CLASSES
    return method not in ("minmax", "rank")


def _orient(scores: Sequence[float | None] | Floats) -> tuple[Floats, bool] | None:
    """Scores of which higher is better, and whether they were distances, now negated.

    None if a score is missing or not finite, or if they neither fall nor rise along the
    order.
    """
    if any(score is None for score in scores):
        return None
    table = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(table).all():
        return None
    # Halves, so that differences of the largest floats stay finite.
    steps = np.diff(table / 2)
    # Approximate indexes return float32 noise out of order; that is no contradiction.
    noise = 1e-6 * (float(np.abs(table).max()) if table.size else 0.0)
    if (steps <= noise).all():
        return table, False
    if (steps >= -noise).all():
        return -table, True
    return None


def minmax(scores: Floats) -> Floats:
    """Scale scores linearly so that the lowest is 0 and the highest 1.

    Suits similarities of any scale, since only their spread counts. Scores that are all
    equal become 1.
    """
    low, half = scores.min(), scores.max() / 2 - scores.min() / 2
    if half <= 0:
        return np.ones_like(scores)
    # By halves: the spread of the largest floats is not finite.
    return np.asarray((scores / 2 - low / 2) / half, dtype=np.float64)


def sigmoid(logits: Floats) -> Floats:
    """The logistic function 1 / (1 + exp(-x)), for the logits of cross-encoders."""
    # Written with tanh, which does not overflow.
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)), dtype=np.float64)


def beta_cdf(x: Floats, a: float, b: float) -> Floats:
    """The regularized incomplete beta function I_x(a, b), in numpy alone.

    Rerankers crowd their scores near 0 and 1; this spreads them evenly (dsRAG).

    Args:
        x: Numbers in [0, 1].
        a: First shape parameter, positive.
        b: Second shape parameter, positive.

    Returns:
        I_x(a, b), of the shape of ``x``. Computed by the continued fraction DLMF 8.17.22
        with the modified Lentz algorithm; agrees with ``scipy.special.betainc`` to 1e-12.
    """
    x = np.asarray(x, dtype=np.float64)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    # The fraction converges fast below the mean of the distribution; above it, use
    # the symmetry I_x(a, b) = 1 - I_{1-x}(b, a), DLMF 8.17.4.
    above = x > (a + 1.0) / (a + b + 2.0)
    result = np.empty_like(x)
    result[~above] = _beta_below_mean(x[~above], a, b, log_beta)
    result[above] = 1.0 - _beta_below_mean(1.0 - x[above], b, a, log_beta)
    return result.clip(0.0, 1.0)


def _beta_below_mean(x: Floats, a: float, b: float, log_beta: float) -> Floats:
    inside = x > 0.0
    x = np.where(inside, x, 0.5)
    d = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    c = np.ones_like(x)
    fraction = d
    for m in range(1, 1000):
        for coefficient in (
            m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d = 1.0 / _away_from_zero(1.0 + coefficient * d)
            c = _away_from_zero(1.0 + coefficient / c)
            fraction = fraction * (c * d)
        if (np.abs(c * d - 1.0) < _PRECISION).all():
            break
    front = np.exp(a * np.log(x) + b * np.log1p(-x) - log_beta) / a
    return np.where(inside, front * fraction, 0.0)


def _away_from_zero(x: Floats) -> Floats:
    return np.where(np.abs(x) < _TINY, _TINY, x)


def _beta_parameters(method: str) -> tuple[float, float] | None:
    if method in _BETA_OF_RERANKER:
        return _BETA_OF_RERANKER[method]
    match = _BETA.fullmatch(method)
    if match is None:
        return None
    a, b = float(match[1]), float(match[2])
    if not (0 < a < np.inf and 0 < b < np.inf):
        raise ValueError(f"the parameters of {method} must be positive")
    return a, b


def fuse_decay(relevance: Floats, ranks: ArrayLike, *, decay_rate: float) -> Floats:
    """Let relevance fade with the rank: ``exp(-rank / decay_rate) * relevance`` (dsRAG).

    Args:
        relevance: Calibrated relevances in [0, 1].
        ranks: Rank of each, from 0.
        decay_rate: The rank at which 1/e, about 37 %, is left.

    Returns:
        The fused relevances, in [0, 1].
    """
    return np.asarray(
        np.exp(-np.asarray(ranks, dtype=np.float64) / decay_rate) * relevance, dtype=np.float64
    )


def fuse_mean(relevance: Floats, ranks: ArrayLike, *, count: int) -> Floats:
    """Average relevance with the rank: ``(relevance + 1 - rank / count) / 2``.

    Args:
        relevance: Calibrated relevances in [0, 1].
        ranks: Rank of each, from 0.
        count: Number of candidates.

    Returns:
        The fused relevances, in [0, 1].
    """
    share = np.asarray(ranks, dtype=np.float64) / max(count, 1)
    return np.asarray((relevance + 1.0 - share) / 2.0, dtype=np.float64)


def sharpen(relevance: Floats, *, contrast: float) -> Floats:
    """Drive relevances apart around 0.4: raise their odds against it to a power.

    ``odds(r') / odds(0.4) = (odds(r) / odds(0.4)) ** contrast``, with ``odds(r) = r / (1 - r)``.
    0, 0.4 and 1 stay, and so does the order.

    Args:
        relevance: Relevances in [0, 1].
        contrast: Above 0; 1 changes nothing, more makes clear cases clearer.

    Returns:
        The sharpened relevances, of the same shape, in [0, 1].
    """
    if contrast == 1:
        return relevance
    middle = math.log(_MIDDLE / (1 - _MIDDLE))
    with np.errstate(divide="ignore"):
        logits = np.log(relevance) - np.log1p(-relevance)
    # The logistic function, exact for small relevances too.
    return np.asarray(np.exp(-np.logaddexp(0.0, -(contrast * (logits - middle) + middle))))


def lexical_scores(query: str, texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> Floats:
    """How well the words of texts match those of a query: BM25 among the texts themselves.

    The candidates are all that is looked at, so no index is needed, and words that all of
    them have, as those of everyday grammar, hardly count.

    Args:
        query: The query.
        texts: The candidates' texts.
        k1: How soon more of the same word adds nothing.
        b: How much longer texts are discounted, from 0 to 1.

    Returns:
        Shape ``(texts,)``, at least 0. Formula: Robertson and Zaragoza, "The Probabilistic
        Relevance Framework: BM25 and Beyond" (2009), with the logarithm of 1 + odds that
        keeps it positive.
    """
    terms = {term: column for column, term in enumerate(dict.fromkeys(_words(query)))}
    table, lengths = [], []
    for text in texts:
        words = _words(text)
        row = [0] * len(terms)
        for word in filter(terms.__contains__, words):
            row[terms[word]] += 1
        table.append(row)
        lengths.append(len(words))
    counts = np.array(table, dtype=np.float64).reshape(len(texts), len(terms))
    sizes = np.array(lengths, dtype=np.float64)
    if not counts.any():
        return np.zeros(len(texts))
    having = (counts > 0).sum(axis=0)
    idf = np.log1p((len(texts) - having + 0.5) / (having + 0.5))
    discount = k1 * (1 - b + b * sizes / sizes.mean())
    found = counts * (k1 + 1) / np.where(counts > 0, counts + discount[:, None], 1.0)
    # Not a matrix product, whose order of adding, and so whose last digits, may vary.
    return np.asarray((found * idf).sum(axis=1), dtype=np.float64)


def _words(text: str) -> list[str]:
    text = text.lower()
    return text.translate(_SPACES).split() if text.isascii() else _WORD.findall(text)


def neighbor_credit(relevance: Floats, *, credit: float, radius: int) -> Floats:
    """Let chunks near relevant ones count as relevant.

    A chunk between relevant chunks belongs to the answer, whatever its own score. With the
    relevances read as chances that a chunk, or a neighbor for it, belongs to the answer:
    ``1 - prod(1 - credit ** abs(k) * r[i + k] for k in -radius..radius)`` (noisy or).

    Args:
        relevance: Shape ``(..., chunks)``, the chunks of one document, each in [0, 1].
        credit: What counts for the next chunk, in [0, 1]; its square for the one after.
        radius: How many chunks away the credit ends.

    Returns:
        The relevances with credit, of the same shape, in [0, 1] and nowhere lower.
    """
    missed = np.ones_like(relevance)
    for distance in range(1, min(radius, relevance.shape[-1] - 1) + 1):
        share = credit**distance
        missed[..., distance:] *= 1.0 - share * relevance[..., :-distance]
        missed[..., :-distance] *= 1.0 - share * relevance[..., distance:]
    # So written, no credit leaves the relevance as it is, to the last digit.
    return np.asarray(relevance + (1.0 - relevance) * (1.0 - missed), dtype=np.float64)


def length_weights(lengths: ArrayLike, *, reference_length: float, at_least_one: bool) -> Floats:
    """The weight of each chunk: ``length / reference_length``.

    With weights, a value is worth text, and short fragments gain nothing by being short.

    Args:
        lengths: Length of each chunk, in the unit of ``reference_length``.
        reference_length: The length that weighs 1.
        at_least_one: Only scale up, as dsRAG does.

    Returns:
        The weights, of the shape of ``lengths``.
    """
    weights = np.asarray(lengths, dtype=np.float64) / reference_length
    return np.maximum(weights, 1.0) if at_least_one else weights


def chunk_values(relevance: Floats, *, penalty: float, weights: ArrayLike = 1.0) -> Floats:
    """What chunks are worth in a segment: ``weight * (relevance - penalty)``.

    Args:
        relevance: Relevance of each chunk, 0 for those that are no candidates.
        penalty: What a chunk without any relevance costs.
        weights: Weight of each chunk, see `length_weights`.

    Returns:
        The values, negative where the penalty outweighs the relevance.
    """
    return np.asarray(np.asarray(weights) * (relevance - penalty), dtype=np.float64)
