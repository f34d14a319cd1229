"""Computes the relevance of chunks from calibrated scores, ranks, words and neighbors.

All relevances are arrays of numbers in [0, 1].
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from langchain_rse.engine.problem import Floats

NEIGHBOR_RADIUS = 2
"""Distance of the farthest neighbor that gets credit from a chunk, in chunks."""


def fuse_decay(relevance: Floats, ranks: ArrayLike, *, decay_rate: float) -> Floats:
    """Decay relevance with rank: ``exp(-rank / decay_rate) * relevance``, ranks from 0 (dsRAG)."""
    faded = np.exp(-np.asarray(ranks, dtype=np.float64) / decay_rate)
    return np.asarray(faded * relevance)


def fuse_mean(relevance: Floats, ranks: ArrayLike, *, count: int) -> Floats:
    """Average relevance with rank: ``(relevance + 1 - rank / count) / 2``, ranks from 0."""
    share = np.asarray(ranks, dtype=np.float64) / max(count, 1)
    return np.asarray((relevance + 1.0 - share) / 2.0)


def bm25_scores(counts: Floats, sizes: Floats, *, k1: float = 1.2, b: float = 0.75) -> Floats:
    """Score how well texts match the words of a query, with BM25 statistics of these texts.

    Words that occur in the same texts, such as the words of a long name, together count little more
    than one of them: the weight of a word is divided by the sum of its overlaps with all words of
    the query. The overlap of two words is the number of texts with both, divided by the number of
    texts with either.

    Args:
        counts: How often each text contains each word of the query, shape ``(texts, words)``.
        sizes: The number of words in each text.
        k1: Saturation of term frequency: lower values count repetitions of a word less.
        b: Length normalization, from 0 (none) to 1 (full).

    Returns:
        Scores of at least 0, shape ``(texts,)``. Formula: Robertson and Zaragoza, "The
        Probabilistic Relevance Framework: BM25 and Beyond" (2009); the inverse document frequency
        is the logarithm of 1 + odds, which is always positive.
    """
    is_in = counts > 0
    if not is_in.any():
        return np.zeros(len(counts))
    length_factors = k1 * (1 - b + b * sizes / sizes.mean())
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
    most_distant = min(radius, relevance.shape[-1] - 1)
    for distance in range(1, most_distant + 1):
        shared = credit**distance * relevance
        not_credited[..., distance:] *= 1.0 - shared[..., :-distance]
        not_credited[..., :-distance] *= 1.0 - shared[..., distance:]
    credited = 1.0 - not_credited
    # With this formula, a credit of 0 leaves relevance unchanged to the last digit.
    return np.asarray(relevance + (1.0 - relevance) * credited)
