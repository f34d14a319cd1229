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

# This many pieces of a text must be in another for a comparison of all.
_COMPARED_PIECES = 3

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
    comparable_documents: dict[int, bytes] = {}
    copied: dict[ChunkPlace, int] = {}
    for (number, index), originals in _possible_copies(documents).items():
        text = comparable(documents[number][index])
        if len(text) < _SHORTEST_COPY:
            continue
        copy = _as_bytes(text)
        for original in originals:
            if original not in comparable_documents:
                chunks = documents[original].items()
                texts = {number: _as_bytes(comparable(chunk)) for number, chunk in chunks}
                comparable_documents[original] = _join_neighbors(texts)
            if copy in comparable_documents[original]:
                if may_drop((number, index), original):
                    copied[number, index] = original
                break
    return copied


def comparable(text: str) -> str:
    """Return a text without white space and underlines, which vary with the layout."""
    return "".join(_RULE.sub("", text).split())


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _possible_copies(documents: Sequence[Mapping[int, str]]) -> dict[ChunkPlace, list[int]]:
    """Find the chunks that may occur in better documents, with these: no copy is missed."""
    possible: dict[ChunkPlace, list[int]] = {}
    better_documents: list[bytes] = []
    known: set[bytes] = set()  # pieces of better documents
    for number, texts in enumerate(documents):
        prepared = {}  # without white space and rules; the pieces of each text are lines
        for index, chunk_text in texts.items():
            codes = chunk_text.encode(errors="replace")
            prepared[index] = codes.translate(_TO_SEPARATORS, _IGNORED)
        for index, text in prepared.items():
            pieces = text.split(b"\n", _COMPARED_PIECES + 1)[1:-1]  # the first may be cut
            if len(texts[index]) < _SHORTEST_COPY or not known.issuperset(pieces):
                continue
            originals = [other for other, better in enumerate(better_documents) if text in better]
            if originals:
                possible[number, index] = originals
        joined = _join_neighbors(prepared)
        better_documents.append(joined)
        known.update(joined.split(b"\n"))
    return possible


def _join_neighbors(texts: Mapping[int, bytes]) -> bytes:
    """Join the texts of a document's chunks by number; a line for each run of neighbors."""
    joined: list[bytes] = []
    for index in sorted(texts):
        if index - 1 not in texts:
            joined.append(b"\n")
        joined.append(texts[index])
    return b"".join([*joined, b"\n"])
