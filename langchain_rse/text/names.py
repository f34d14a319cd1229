"""Finds the documents that a query names by title or file name."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from langchain_rse.text.words import find_words, function_words_of, spaced_words, without_words

# Identifiers of programs, such as __del__: their words do not name documents.
_PRIVATE_NAME = re.compile(r"\b_\w+")
_LETTERS_OR_DIGITS = re.compile(r"[^\W\d_]{2,}|\d{2,}")
# The maximum number of words that a name may join, as in ACTIVISIONBLIZZARD.
_MOST_JOINED = 3
# With this score, a document counts as named even if another document has a higher score.
_NAMED_WEIGHT = 3.0


class Named(NamedTuple):
    """The result of `named_documents`.

    Attributes:
        name_gap: Per candidate: 0 for the best named document, else the distance to its score.
        query: The query without the words that name documents; unchanged if no words would remain.
    """

    name_gap: npt.NDArray[np.float64]
    query: str


def named_documents(
    query: str, names: Sequence[str], owners: Sequence[int], texts: Sequence[str]
) -> Named:
    """Find the documents that a query names.

    If a word of a name occurs in the query, its weight is ``-log(share)``, where ``share`` is the
    share of other documents' candidates that contain the word. Words of several names weigh less.
    The score of a document is the sum of the weights of its words.

    Args:
        query: The query.
        names: The name of each document: its title or file name.
        owners: The number of each candidate's document.
        texts: The text of each candidate. Not read if the query contains no word of a name.
    """
    nothing_named = Named(np.zeros(len(owners)), query)
    if len(names) <= 1:
        return nothing_named
    function_words = function_words_of(query)
    without_private = _PRIVATE_NAME.sub(" ", query)
    query_words = _words(without_private) - function_words
    in_order = find_words(without_private)
    for count in range(2, _MOST_JOINED + 1):
        for start in range(len(in_order)):
            neighbors = in_order[start : start + count]
            if not function_words.issuperset(neighbors):
                query_words.add("".join(neighbors))
    named_words = [query_words & _words(name) for name in names]
    if not any(named_words):  # true for most queries
        return nothing_named
    weights = _weights(named_words, owners, texts)
    scores = [sum(weights_of_words.values()) for weights_of_words in weights]
    if max(scores) < 1:
        return nothing_named
    gaps = _gaps(named_words, scores)
    naming_words: set[str] = set()
    for gap, weights_of_words in zip(gaps, weights, strict=True):
        if gap == 0:
            naming_words.update(weights_of_words)
    rest_of_query = without_words(query, lambda word: _words(word) <= naming_words)
    asks_for_more = not function_words.issuperset(find_words(rest_of_query))
    return Named(
        name_gap=np.array([gaps[owner] for owner in owners]),
        query=rest_of_query if asks_for_more else query,
    )


def _weights(
    named_words: Sequence[set[str]], owners: Sequence[int], texts: Sequence[str]
) -> list[dict[str, float]]:
    """Weigh the words of each document's name; ignore documents named only by numbers."""
    owners_array = np.array(owners)
    spaced_texts = [b" " + spaced_words(text) + b" " for text in texts]
    weights: list[dict[str, float]] = [{} for _ in named_words]
    for word in set().union(*named_words):
        has_word = np.array([f" {word} ".encode() in text for text in spaced_texts])
        named_by_word = [number for number, words in enumerate(named_words) if word in words]
        shared = (len(named_by_word) - 1) / (len(named_words) - 1)
        for number in named_by_word:
            others = has_word[owners_array != number]
            share = (others.sum() + 0.5) / (others.size + 1)
            weight = -math.log(share) * (1 - shared)
            has_letters = any(letter.isalpha() for letter in "".join(named_words[number]))
            if weight > 0 and has_letters:
                weights[number][word] = weight
    return weights


def _gaps(named_words: Sequence[set[str]], scores: Sequence[float]) -> list[float]:
    """Return the distance of each document's score to the best score it competes with.

    Documents that are named together, as in a comparison, do not compete. A document competes with
    another only if its words are a subset of the other's, or if its score is low.
    """
    gaps = []
    for words, score in zip(named_words, scores, strict=True):
        gap = 0.0
        for other_words, other_score in zip(named_words, scores, strict=True):
            if score < _NAMED_WEIGHT or words <= other_words:
                gap = max(gap, other_score - score)
        gaps.append(gap)
    return gaps


def _words(text: str) -> set[str]:
    """Return the words of a text, and the parts of words such as FY2018."""
    words = set(find_words(text))
    parts: set[str] = set()
    for word in words:
        parts.update(_LETTERS_OR_DIGITS.findall(word))
    return words | parts
