"""Computes the relevance of chunks from calibrated scores, ranks, words and neighbors.

Arguments and results named relevance are arrays of numbers in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from langchain_rse.engine.segments import Floats
from langchain_rse.text.words import spaced_words


def fuse_decay(relevance: Floats, ranks: ArrayLike, *, decay_rate: float) -> Floats:
    """Let relevance fade with the rank, from 0: ``exp(-rank / decay_rate) * relevance`` (dsRAG)."""
    faded = np.exp(-np.asarray(ranks, dtype=np.float64) / decay_rate)
    return np.asarray(faded * relevance)


def fuse_mean(relevance: Floats, ranks: ArrayLike, *, count: int) -> Floats:
    """Average relevance with the rank, from 0: ``(relevance + 1 - rank / count) / 2``."""
    share = np.asarray(ranks, dtype=np.float64) / max(count, 1)
    return np.asarray((relevance + 1.0 - share) / 2.0)


def bm25_scores(query: str, texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> Floats:
    """Score how well texts match the words of a query, at least 0: BM25 among the texts.

    Words that occur in the same texts, as those of a long name do, count together hardly more than
    one of them: the weight of each is divided by the sum of its overlaps with all words, where an
    overlap is the number of texts with both words over that of texts with either.

    ``k1`` says how soon repetitions of a word stop to count, ``b`` how much longer texts are
    discounted, from 0 to 1. Formula: Robertson and Zaragoza, "The Probabilistic Relevance
    Framework: BM25 and Beyond" (2009), with the logarithm of 1 + odds that keeps it positive.

    Returns:
        Shape ``(texts,)``.
    """
    words = _index_words(texts)
    counts = _count_terms(query, words)
    if not counts.any():
        return np.zeros(len(texts))
    is_in = counts > 0
    sizes = words.sizes()
    length_factors = k1 * (1 - b + b * sizes / sizes.mean())
    denominators = np.where(is_in, counts + length_factors[:, None], 1.0)
    saturated = counts * (k1 + 1) / denominators
    # Not a matrix product, whose order of additions, and so last digits, may vary.
    return np.asarray((saturated * _term_weights(is_in)).sum(axis=1))


def word_shares(query: str, texts: Sequence[str]) -> Floats:
    """The share of a query's words that each text has, from 0 to 1; rare words weigh more.

    The weight of a word is its inverse document frequency among the texts, as in `bm25_scores`; a
    word that no text has weighs most.

    Returns:
        Shape ``(texts,)``; 0 for a query without words.
    """
    is_in = _count_terms(query, _index_words(texts)) > 0
    if not is_in.size:
        return np.zeros(len(texts))
    with_term = is_in.sum(axis=0)
    weights = _rarity(with_term, len(texts))
    weight_found = (is_in * weights).sum(axis=1)
    return np.asarray(weight_found / weights.sum())


def matched_words(query: str, texts: Sequence[str]) -> list[list[str]]:
    """The words of a query that each text has, those that the fewest texts have first."""
    is_in = _count_terms(query, _index_words(texts)) > 0
    with_term = is_in.sum(axis=0)
    rarest_first = np.argsort(with_term, kind="stable")
    terms = [term.decode() for term in _distinct_terms(query)]
    matched = []
    for has_term in is_in:
        matched.append([terms[column] for column in rarest_first if has_term[column]])
    return matched


def _count_terms(query: str, words: _WordIndex) -> Floats:
    """How often each text has each distinct word of a query; shape ``(texts, terms)``."""
    terms = _distinct_terms(query)
    counts = np.zeros((words.text_ends.size, len(terms)))
    for column, term in enumerate(terms):
        counts[:, column] = words.count(term)
    return counts


def _distinct_terms(query: str) -> list[bytes]:
    return list(dict.fromkeys(spaced_words(query).split()))


def _rarity(with_term: NDArray[Any], count: int) -> Floats:
    """The inverse document frequency of terms that are in ``with_term`` of ``count`` texts."""
    odds = (count - with_term + 0.5) / (with_term + 0.5)
    return np.asarray(np.log1p(odds))


def _term_weights(is_in: NDArray[np.bool_]) -> Floats:
    """The inverse document frequency of each term, less for terms that are in the same texts.

    ``is_in`` says which texts have which terms, shape ``(texts, terms)``.
    """
    has_term = is_in.astype(np.float64)
    with_term = has_term.sum(axis=0)
    with_both = has_term.T @ has_term  # whole numbers: exact in any order
    with_either = with_term[:, None] + with_term - with_both
    overlaps = with_both / np.maximum(with_either, 1.0)
    return np.asarray(_rarity(with_term, len(is_in)) / np.maximum(overlaps.sum(axis=1), 1.0))


@dataclass(frozen=True, eq=False)
class _WordIndex:
    """The words of texts in one array of bytes, in which all occurrences of a term are found."""

    codes: NDArray[np.uint8]  # the words as UTF-8, with spaces between
    starts: NDArray[np.intp]  # the index of each word's first byte
    lengths: NDArray[np.intp]  # of each word, in bytes
    first_bytes: NDArray[np.uint8]  # of each word
    text_ends: NDArray[np.intp]  # the index after each text

    def count(self, term: bytes) -> NDArray[np.intp]:
        """Count the term in each text."""
        may_match = (self.first_bytes == term[0]) & (self.lengths == len(term))
        matches = self.starts[may_match]
        for offset, code in enumerate(term[1:], 1):
            matches = matches[self.codes[matches + offset] == code]
        texts = np.searchsorted(self.text_ends, matches)
        return np.bincount(texts, minlength=self.text_ends.size)

    def sizes(self) -> Floats:
        """The number of words of each text."""
        words_before_end = np.searchsorted(self.starts, self.text_ends)
        return np.diff(words_before_end, prepend=0).astype(np.float64)


def _index_words(texts: Sequence[str]) -> _WordIndex:
    spaced = [spaced_words(text) for text in texts]
    codes = np.frombuffer(b" ".join([b"", *spaced, b""]), np.uint8)
    # Words begin and end where spaces change to other bytes, and back.
    edges = np.flatnonzero(np.diff(codes == ord(" "))) + 1
    starts = edges[::2]
    return _WordIndex(
        codes=codes,
        starts=starts,
        lengths=edges[1::2] - starts,
        first_bytes=codes[starts],
        text_ends=np.cumsum([len(text) + 1 for text in spaced]),
    )


def neighbor_credit(relevance: Floats, *, credit: float, radius: int) -> Floats:
    """Let chunks near relevant ones count as relevant.

    ``1 - prod(1 - credit ** abs(k) * r[i + k] for k in -radius..radius)`` (noisy or): a chunk
    between relevant chunks belongs to the answer, whatever its own score.

    The relevance has the shape ``(..., chunks)``, the chunks of one document; the result is of the
    same shape and nowhere lower.
    """
    not_credited = np.ones_like(relevance)
    most_distant = min(radius, relevance.shape[-1] - 1)
    for distance in range(1, most_distant + 1):
        shared = credit**distance * relevance
        not_credited[..., distance:] *= 1.0 - shared[..., :-distance]
        not_credited[..., :-distance] *= 1.0 - shared[..., distance:]
    credited = 1.0 - not_credited
    # In this form, a credit of 0 leaves the relevance unchanged to the last digit.
    return np.asarray(relevance + (1.0 - relevance) * credited)
