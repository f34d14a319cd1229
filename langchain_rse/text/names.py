"""Titles and names of documents, and the documents that a query names."""

import html
import itertools
import os
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from langchain_rse.text.headings import (
    atx_headings,
    end_of_front_matter,
    outside_fences,
    title_of_heading,
    without_comments,
)
from langchain_rse.text.quoting import one_line, shortened
from langchain_rse.text.words import TextWords, find_words, function_words_of, without_words

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_SUFFIX = re.compile(r"(?<=.)\.[a-zA-Z][a-zA-Z0-9]{0,4}$")
# Scheme and host of an address; query and fragment after its path.
_AROUND_PATH = re.compile(r"(?s)^.*?://[^/?#]*|[?#].*")
# Names without information: digests, and pages such as index.html.
_NAMELESS = re.compile(r"[0-9a-f]{8}[0-9a-f-]{8,}|index|default|untitled|[\W_]*", re.IGNORECASE)
_LONGEST_TITLE = 500
# Identifiers of programs, such as __del__: their words do not name documents.
_PRIVATE_NAME = re.compile(r"\b_\w+")
_LETTERS_OR_DIGITS = re.compile(r"[^\W\d_]{2,}|\d{2,}")
# The maximum number of words that a name may join, as in ACTIVISIONBLIZZARD.
_MOST_JOINED = 3
# With this score, a document counts as named even if another document has a higher score.
_NAMED_WEIGHT = 3.0

# A title must be in this many characters at the beginning of a text.
_HEADING_WITHIN = 4_000
_LONGEST_HEADING = 100
_READ = 10 * _HEADING_WITHIN  # including comments

_DEEPEST = 10  # maximum number of path components in a short name

_TITLE_FIELD = re.compile(
    r"""^title[ \t]*[:=][ \t]*(?P<mark>["']?)(?P<title>[^\n]*?)(?P=mark)[ \t]*\r?$""",
    re.MULTILINE | re.IGNORECASE,
)
# HTML comments; reStructuredText directives and comments, including their indented lines.
_HIDDEN = re.compile(
    r"<!--[\s\S]*?(?:-->|\Z)|^\.\.(?:[ ][^\n]*)?(?:\n|\Z)(?:[ \t]*\n|[ \t]+[^\n]*(?:\n|\Z))*",
    re.MULTILINE,
)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_LETTER = re.compile(r"[^\W\d_]")


def shown_name(doc_id: str, source: object) -> str:
    """Return the display name of a document: its source, or its id if it shares the source."""
    if source is None or doc_id.startswith(f"{source}, "):
        return doc_id
    return str(source)


def name_of(doc_id: str, metadata: Mapping[str, Any]) -> str:
    """Return the display name of a document: source, else title, else id."""
    return shown_name(doc_id, metadata.get("source") or metadata.get("title"))


def short_names(names: Mapping[str, str], taken: Container[str] = ()) -> dict[str, str]:
    """Shorten the names of documents, by id, so that no two are equal and none is ``taken``.

    Absolute paths are cut to their shortest unique endings. Documents with the same name have their
    ids instead.
    """
    short = dict(names)
    pending = list(names)
    for depth in range(1, _DEEPEST + 1):
        for doc_id in pending:
            path = Path(names[doc_id])
            if path.is_absolute():
                short[doc_id] = str(Path(*path.parts[-depth:]))
        count_of = Counter(short.values())
        pending = [each for each in pending if count_of[short[each]] > 1 or short[each] in taken]
    return short | {doc_id: doc_id for doc_id in pending}


def first_heading(text: str) -> str:
    """Return the title in the front matter, else the first heading near the beginning.

    Without a heading, a short first line is the title. Code blocks and comments are ignored.
    """
    front_matter_end = end_of_front_matter(text)
    field = _TITLE_FIELD.search(text, 0, front_matter_end)
    if field is not None and _LETTER.search(field["title"]):
        return one_line(field["title"])
    below = text[front_matter_end:].removeprefix("\ufeff")
    text = _HIDDEN.sub("", outside_fences(below)[:_READ])
    beginning = text[:_HEADING_WITHIN]
    for heading in without_comments(beginning, atx_headings(beginning)):
        title = title_of_heading(beginning[heading.start : heading.end])
        if _LETTER.search(title):
            return title
    for line in beginning.splitlines():
        title = html.unescape(_TAG.sub(" ", line)).strip()
        if _LETTER.search(title):
            return one_line(title) if len(title) <= _LONGEST_HEADING else ""
    return ""


def title_of_source(source: object) -> str:
    """Return the name of a file or web page without folders and suffix; "" if uninformative."""
    if isinstance(source, (str, os.PathLike)):
        return _title_of(str(source))
    return ""


@lru_cache(maxsize=1_000)  # each query asks for the title of each document it finds
def _title_of(path: str) -> str:
    if "://" in path:
        path = unquote(_AROUND_PATH.sub("", path))
    file_name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
    title = " ".join(_SUFFIX.sub("", file_name).replace("_", " ").split())
    return "" if _NAMELESS.fullmatch(title) else shortened(title, _LONGEST_TITLE)


def named_documents(
    query: str,
    names: Sequence[str],
    owners: Sequence[int],
    texts: TextWords,
    text_numbers: Sequence[int],
) -> tuple[Floats, str]:
    """Find the documents that a query names.

    If a word of a name occurs in the query, its weight is ``-log(share)``, where ``share`` is the
    share of other documents' candidates that contain the word. Words of several names weigh less.
    The score of a document is the sum of the weights of its words.

    Args:
        query: The query.
        names: The name of each document: its title or file name.
        owners: The number of each candidate's document.
        texts: The words of texts.
        text_numbers: The number of each candidate's text in ``texts``.

    Returns:
        The gap of each candidate: 0 for the best named document, else the distance to its score. If
        the query has one word of a longer name, candidates with that word have a gap of 0. And the
        query without the words that name documents; unchanged if no words would remain.
    """
    nothing_named = np.zeros(len(owners)), query
    if len(names) <= 1:
        return nothing_named
    words_of_names = [_words_of_name(name) for name in names]
    words = sorted(_words_that_may_name(query) & frozenset().union(*words_of_names))
    if not words:  # true for most queries
        return nothing_named
    in_name = np.array([[word in of_name for word in words] for of_name in words_of_names])
    has_word = texts.counts(words)[text_numbers] > 0
    weights = _weights(words, in_name, owners, has_word)
    scores = weights.sum(axis=1)
    if scores.max() < 1:
        return nothing_named
    distances = _distances(in_name, scores)
    is_named = distances.max(axis=1) == 0
    naming_words = set(itertools.compress(words, weights[is_named].any(axis=0)))
    rest_of_query = without_words(query, lambda word: _words(word) <= naming_words)
    asks_for_more = not function_words_of(query).issuperset(find_words(rest_of_query))

    # One word of a longer name, such as API of registry-web-api, also occurs in other documents:
    # it does not count against chunks that contain it.
    has_longer_name = np.array([len(of_name) > 1 for of_name in words_of_names])
    is_one_word = has_longer_name & ((weights > 0).sum(axis=1) == 1)
    contained = (has_word & ~in_name[owners]) @ np.where(is_one_word, weights.T, 0.0)
    gaps = (distances[owners] - contained).max(axis=1)
    return gaps, rest_of_query if asks_for_more else query


def _words_that_may_name(query: str) -> set[str]:
    """Return the content words of a query, parts of them, and joined neighbors."""
    function_words = function_words_of(query)
    without_private = _PRIVATE_NAME.sub(" ", query)
    words = set(_words(without_private) - function_words)
    in_order = find_words(without_private)
    for count in range(2, _MOST_JOINED + 1):
        for start in range(len(in_order)):
            neighbors = in_order[start : start + count]
            if not function_words.issuperset(neighbors):
                words.add("".join(neighbors))
    return words


def _weights(
    words: Sequence[str],
    in_name: Booleans,
    owners: Sequence[int],
    has_word: Booleans,
) -> Floats:
    """Weigh the words of names, shape ``(documents, words)``.

    Documents named only by numbers are ignored.
    """
    documents = np.arange(len(in_name))
    is_other = documents[:, None] != np.array(owners)  # candidates of others
    others = is_other.astype(np.float64)
    others_with_word = others @ has_word
    count_of_others = others.sum(axis=1, keepdims=True)
    shares = (others_with_word + 0.5) / (count_of_others + 1)
    other_names_with_word = in_name.sum(axis=0) - 1
    shared = other_names_with_word / (len(in_name) - 1)
    weights = -np.log(shares) * (1 - shared)
    has_letters = np.array([any(map(str.isalpha, word)) for word in words])
    named_by_letters = (in_name & has_letters).any(axis=1)
    counts = in_name & (weights > 0) & named_by_letters[:, None]
    return np.where(counts, weights, 0.0)


def _distances(in_name: Booleans, scores: Floats) -> Floats:
    """Return the distance of each document's score to each score that it competes with.

    Documents that are named together, as in a comparison, do not compete. A document competes with
    another only if its words are a subset of the other's, or if its score is low.
    """
    words_beside = in_name.astype(np.float64) @ ~in_name.T  # words that the other's name lacks
    competes = (words_beside == 0) | (scores < _NAMED_WEIGHT)[:, None]
    return np.where(competes, scores - scores[:, None], 0.0)


def _words(text: str) -> frozenset[str]:
    """Return the words of a text, and the parts of words such as FY2018."""
    words = find_words(text)
    return frozenset([*words, *_LETTERS_OR_DIGITS.findall(" ".join(words))])


_words_of_name = lru_cache(maxsize=1_000)(_words)  # each query compares all names it finds
