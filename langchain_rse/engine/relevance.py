"""Computes the relevance of chunks from calibrated scores, ranks, words and neighbors.

Arguments and results named relevance are arrays of numbers in [0, 1].
"""

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from langchain_rse.engine.segments import Floats

_WORD = re.compile(r"\w+")
# Translates ASCII to words in lower case with spaces between, much faster than the expression.
_SPACED = bytes(c if _WORD.match(chr(c)) else 32 for c in bytes(range(128)).lower()).ljust(256)


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
    """
    terms, spaced = dict.fromkeys(lower_words(query).split()), [lower_words(text) for text in texts]
    # All words in one array of bytes, in which all places of a term are found at once.
    codes = np.frombuffer(b" ".join([b"", *spaced, b""]), np.uint8)
    edges = np.flatnonzero(np.diff(codes == ord(" "))) + 1
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    firsts = codes[starts]
    ends = np.cumsum([len(text) + 1 for text in spaced])
    counts = np.zeros((len(texts), len(terms)))
    for column, term in enumerate(terms):
        places = starts[(firsts == term[0]) & (lengths == len(term))]
        for offset, code in enumerate(term[1:], 1):
            places = places[codes[places + offset] == code]
        counts[:, column] = np.bincount(np.searchsorted(ends, places), minlength=len(texts))
    if not counts.any():
        return np.zeros(len(texts))
    sizes = np.diff(np.searchsorted(starts, ends), prepend=0).astype(np.float64)
    has = (counts > 0).astype(np.float64)
    having, both = has.sum(axis=0), has.T @ has  # whole numbers: exact in any order
    either = np.maximum(having[:, None] + having - both, 1.0)
    idf = np.log1p((len(texts) - having + 0.5) / (having + 0.5))
    idf /= np.maximum((both / either).sum(axis=1), 1.0)
    discount = k1 * (1 - b + b * sizes / sizes.mean())
    found = counts * (k1 + 1) / np.where(counts > 0, counts + discount[:, None], 1.0)
    # Not a matrix product, whose order of additions, and so last digits, may vary.
    return np.asarray((found * idf).sum(axis=1))


@lru_cache(maxsize=2_000)  # a query needs the words of its candidates twice
def lower_words(text: str) -> bytes:
    """The words of a text in lower case, as UTF-8, with spaces between."""
    if text.isascii():
        return text.encode().translate(_SPACED)
    return " ".join(_WORD.findall(text.lower())).encode()


def neighbor_credit(relevance: Floats, *, credit: float, radius: int) -> Floats:
    """Let chunks near relevant ones count as relevant.

    ``1 - prod(1 - credit ** abs(k) * r[i + k] for k in -radius..radius)`` (noisy or): a chunk
    between relevant chunks belongs to the answer, whatever its own score.

    The relevance has the shape ``(..., chunks)``, the chunks of one document; the result is of the
    same shape and nowhere lower.
    """
    missed = np.ones_like(relevance)
    for distance in range(1, min(radius, relevance.shape[-1] - 1) + 1):
        share = credit**distance
        missed[..., distance:] *= 1.0 - share * relevance[..., :-distance]
        missed[..., :-distance] *= 1.0 - share * relevance[..., distance:]
    # In this form, a credit of 0 leaves the relevance unchanged to the last digit.
    return np.asarray(relevance + (1.0 - relevance) * (1.0 - missed))
