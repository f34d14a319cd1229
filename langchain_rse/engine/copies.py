"""Finds chunks that occur word for word in other documents, at any position."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

# The length of the shortest text that counts as a copy, without white space: about 30 words.
_SHORTEST_COPY = 150

# Underlines of headings: their characters depend on the level of the heading.
_RULE = re.compile(r"([=~^*#+.-])\1\1\1+")

# White space, as `str.split` knows it.
_WHITE_SPACE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
# A quick comparison ignores the bytes of these characters, and splits texts into pieces at some
# bytes of UTF-8 that are frequent enough in one script or another.
_IGNORED = f"{_WHITE_SPACE}=~^*#+.-".encode()
_TO_SEPARATORS = bytes.maketrans(b",\x8c\x99\xb0\xb1", b"\n\n\n\n\n")

ChunkPlace = tuple[int, int]
"""The numbers of a document and of one of its chunks."""


def find_copied(
    documents: Sequence[Mapping[int, str]],
    may_drop: Callable[[ChunkPlace, int], bool],
) -> dict[ChunkPlace, int]:
    """Find chunks whose whole text occurs word for word in chunks of a better document.

    Neighboring chunks are compared as one text, because two documents rarely split a passage at the
    same positions. White space is ignored. Short texts, such as a turn of a chat or a heading,
    never count as copies.

    Args:
        documents: For each document, best first: the texts of its chunks by number, without
            overlap.
        may_drop: Called with a copy and the number of the document that contains its text. Returns
            False to keep the copy.

    Returns:
        For each copy, the number of the first document that contains its text; copies are in the
        order of ``documents``.
    """
    places = _possible_copies(documents)
    if not places:  # true for most queries
        return {}
    comparable_documents: list[str] = []
    for texts in documents:
        comparable_texts = {index: comparable(text) for index, text in texts.items()}
        comparable_documents.append(_join_neighbors(comparable_texts))
    copied: dict[ChunkPlace, int] = {}
    for number, index in places:
        text = comparable(documents[number][index])
        if len(text) < _SHORTEST_COPY:
            continue
        for original, better in enumerate(comparable_documents[:number]):
            if text in better:
                if may_drop((number, index), original):
                    copied[number, index] = original
                break
    return copied


def comparable(text: str) -> str:
    """Return a text without white space and underlines, which vary with the layout."""
    return "".join(_RULE.sub("", text).split())


def _possible_copies(documents: Sequence[Mapping[int, str]]) -> list[ChunkPlace]:
    """Find the chunks that may occur in better documents, by their pieces: no copy is missed."""
    possible: list[ChunkPlace] = []
    better_documents: list[str] = []
    known: set[str] = set()  # pieces of better documents
    for number, texts in enumerate(documents):
        prepared: dict[int, str] = {}  # without white space and rules, its pieces in lines
        for index, text in texts.items():
            pieces_of_text = text.encode(errors="replace").translate(_TO_SEPARATORS, _IGNORED)
            prepared[index] = pieces_of_text.decode("latin-1")
        for index, text in prepared.items():
            pieces = text.split("\n")[1:-1]  # the first and the last may be cut
            if len(texts[index]) < _SHORTEST_COPY or not known.issuperset(pieces):
                continue
            if any(text in better for better in better_documents):
                possible.append((number, index))
        joined = _join_neighbors(prepared)
        better_documents.append(joined)
        known.update(joined.split("\n"))
    return possible


def _join_neighbors(texts: Mapping[int, str]) -> str:
    """Join the texts of a document's chunks by number; a line for each run of neighbors."""
    joined: list[str] = []
    for index in sorted(texts):
        if index - 1 not in texts:
            joined.append("\n")
        joined.append(texts[index])
    return "".join([*joined, "\n"])
