"""Finds the documents that a query names, by their titles or the names of their files."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from langchain_rse.engine import Floats
from langchain_rse.engine.relevance import lower_words
from langchain_rse.headers.titles import title_of_source
from langchain_rse.query.searching import Candidate

_WORD = re.compile(r"[^\W_]+")
_LETTERS_OR_DIGITS = re.compile(r"[^\W\d_]{2,}|\d{2,}")
# The most words that a name may write as one, as in ACTIVISIONBLIZZARD.
_RUN = 3
# A document whose words weigh this much counts as named, even if more words name another one.
_NAMED = 3.0


class Named(NamedTuple):
    """What the names of documents say about the candidates of a query."""

    shortfall: Floats  # per candidate: how much less its document is named than another one
    query: str  # the query without the words that name documents


def named_documents(query: str, candidates: Sequence[Candidate]) -> Named:
    """Find the documents that a query names.

    A name is the ``title`` in the metadata, else the name of the file in ``source``. A word of it
    that is in the query weighs ``-log(share)``, with the share of candidates of other documents
    that have the word, and less if other names have it.
    """
    nothing = Named(np.zeros(len(candidates)), query)
    names = {c.key: c for c in reversed(candidates)}
    if len(names) <= 1:
        return nothing
    words, asked = _WORD.findall(query.lower()), _words(query)
    for first, size in itertools.product(range(len(words)), range(2, _RUN + 1)):
        asked.add("".join(words[first : first + size]))
    metadata = {key: candidate.document.metadata for key, candidate in names.items()}
    found = {
        key: asked & _words(str(one.get("title") or title_of_source(one.get("source"))))
        for key, one in metadata.items()
    }
    if not any(found.values()):  # true for most queries, which saves reading the texts
        return nothing
    weights = _weights(found, candidates)
    sums = {key: sum(weights[key].values()) for key in names}
    best = max(sums.values())
    if best < 1:
        return nothing
    # Documents that are named together, as in a comparison, do not compete: a document is less
    # named only if its words are some of another's, or weigh little.
    shortfall = {
        key: max(
            sums[other] - sums[key]
            for other in names
            if sums[key] < _NAMED or found[key] <= found[other]
        )
        for key in names
    }
    naming = {word for key in names if shortfall[key] == 0 for word in weights[key]}
    left = [word for word in re.findall(r"\w+", query) if not _words(word) <= naming]
    return Named(
        np.array([shortfall[candidate.key] for candidate in candidates]),
        " ".join(left) if left else query,
    )


def _weights(
    found: dict[str, set[str]], candidates: Sequence[Candidate]
) -> dict[str, dict[str, float]]:
    """Weigh each word of a document's name; none if they are numbers only."""
    keys = np.array([candidate.key for candidate in candidates])
    texts = [b" " + lower_words(c.document.page_content) + b" " for c in candidates]
    weights: dict[str, dict[str, float]] = {key: {} for key in found}
    for word in set().union(*found.values()):
        having = np.array([f" {word} ".encode() in text for text in texts])
        named = [key for key, words in found.items() if word in words]
        shared = (len(named) - 1) / (len(found) - 1)
        for key in named:
            others = having[keys != key]
            weight = -math.log((others.sum() + 0.5) / (others.size + 1)) * (1 - shared)
            if weight > 0 and any(letter.isalpha() for one in found[key] for letter in one):
                weights[key][word] = weight
    return weights


def _words(text: str) -> set[str]:
    """Words in lower case, and the parts of those with letters and digits, as in FY2018."""
    words = set(_WORD.findall(text.lower()))
    return words.union(*map(_LETTERS_OR_DIGITS.findall, words))
