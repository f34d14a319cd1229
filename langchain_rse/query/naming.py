"""Finds the documents that a query names, by their titles or the names of their files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from langchain_rse.engine import Floats
from langchain_rse.query.candidates import Candidate
from langchain_rse.text.titles import title_of_source
from langchain_rse.text.words import find_words, function_words_of, spaced_words, without_words

# Names in programs, such as __del__: their words are no names of documents.
_PRIVATE_NAME = re.compile(r"\b_\w+")
_LETTERS_OR_DIGITS = re.compile(r"[^\W\d_]{2,}|\d{2,}")
# The most words that a name may write as one, as in ACTIVISIONBLIZZARD.
_MOST_JOINED = 3
# A document whose words weigh this much counts as named, even if more words name another one.
_NAMED_WEIGHT = 3.0


class Named(NamedTuple):
    """What the names of documents say about the candidates of a query."""

    shortfall: Floats  # per candidate: how much less its document is named than another one
    # The query without the words that name documents, if other words are left.
    query: str


def named_documents(query: str, candidates: Sequence[Candidate]) -> Named:
    """Find the documents that a query names.

    A name is the ``title`` in the metadata, else the name of the file in ``source``. A word of it
    that is in the query weighs ``-log(share)``, with the share of candidates of other documents
    that have the word, and less if other names have it.
    """
    nothing_named = Named(np.zeros(len(candidates)), query)
    best_candidates: dict[str, Candidate] = {}  # of each document
    for candidate in candidates:
        best_candidates.setdefault(candidate.key, candidate)
    if len(best_candidates) <= 1:
        return nothing_named
    query_words = _words_of_query(query)
    named_words = {}  # by document: the words of its name that are in the query
    for key, candidate in best_candidates.items():
        named_words[key] = query_words & _words(name_of(candidate))
    if not any(named_words.values()):  # true for most queries, which saves reading the texts
        return nothing_named
    weights = _weights(named_words, candidates)
    sums = {key: sum(weights_of_words.values()) for key, weights_of_words in weights.items()}
    if max(sums.values()) < 1:
        return nothing_named
    shortfall = _shortfalls(named_words, sums)
    naming_words: set[str] = set()
    for key, weights_of_words in weights.items():
        if shortfall[key] == 0:
            naming_words.update(weights_of_words)
    rest_of_query = without_words(query, lambda word: _words(word) <= naming_words)
    asks_for_more = bool(set(find_words(rest_of_query)) - function_words_of(query))
    return Named(
        shortfall=np.array([shortfall[candidate.key] for candidate in candidates]),
        query=rest_of_query if asks_for_more else query,
    )


def name_of(candidate: Candidate) -> str:
    """The title of a candidate's document, else the name of its file."""
    metadata = candidate.document.metadata
    return str(metadata.get("title") or title_of_source(metadata.get("source")))


def _words_of_query(query: str) -> set[str]:
    """The content words of a query, and neighbors of all its words joined to one."""
    function_words = function_words_of(query)
    without_private = _PRIVATE_NAME.sub(" ", query)
    words = _words(without_private) - function_words
    in_order = find_words(without_private)
    for count in range(2, _MOST_JOINED + 1):
        for start in range(len(in_order)):
            neighbors = in_order[start : start + count]
            if not function_words.issuperset(neighbors):
                words.add("".join(neighbors))
    return words


def _shortfalls(named_words: Mapping[str, set[str]], sums: Mapping[str, float]) -> dict[str, float]:
    """How much less each document is named than another one.

    Documents that are named together, as in a comparison, do not compete: a document is less named
    only if its words are some of another's, or weigh little.
    """
    shortfalls = {}
    for key, words in named_words.items():
        shortfall = 0.0
        for other, other_words in named_words.items():
            if sums[key] < _NAMED_WEIGHT or words <= other_words:
                shortfall = max(shortfall, sums[other] - sums[key])
        shortfalls[key] = shortfall
    return shortfalls


def _weights(
    named_words: Mapping[str, set[str]], candidates: Sequence[Candidate]
) -> dict[str, dict[str, float]]:
    """Weigh each word of a document's name; none if they are numbers only."""
    keys = np.array([candidate.key for candidate in candidates])
    texts = [b" " + spaced_words(c.document.page_content) + b" " for c in candidates]
    weights: dict[str, dict[str, float]] = {key: {} for key in named_words}
    for word in set().union(*named_words.values()):
        has_word = np.array([f" {word} ".encode() in text for text in texts])
        named_by_word = [key for key, words in named_words.items() if word in words]
        shared = (len(named_by_word) - 1) / (len(named_words) - 1)
        for key in named_by_word:
            others = has_word[keys != key]
            share = (others.sum() + 0.5) / (others.size + 1)
            weight = -math.log(share) * (1 - shared)
            if weight > 0 and _has_letters(named_words[key]):
                weights[key][word] = weight
    return weights


def _has_letters(words: Iterable[str]) -> bool:
    return any(character.isalpha() for character in "".join(words))


def _words(text: str) -> set[str]:
    """The words of a text, and the parts of those with letters and digits, as in FY2018."""
    words = set(find_words(text))
    parts = set()
    for word in words:
        parts.update(_LETTERS_OR_DIGITS.findall(word))
    return words | parts
