"""Where returned texts stand in their sources, and how much evidence they cover."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from langchain_core.documents import Document

from langchain_rse.evaluation.questions import Evidence
from langchain_rse.schema import END_INDEX

__all__ = ["METRICS", "Piece", "Placer", "measure"]

METRICS = ("recall", "precision", "iou", "segments", "characters")
"""What `measure` returns, in its order."""

_EXCERPT = 80


class Piece(NamedTuple):
    """Text that was returned, placed in its source.

    Attributes:
        doc_id: The source.
        stops: ``stops[n]`` is where its first n characters end in the source. Mostly a
            range; white space that differs makes it uneven.
    """

    doc_id: str
    stops: Sequence[int]

    @property
    def length(self) -> int:
        """Characters of the text as returned."""
        return len(self.stops) - 1

    def cut(self, length: int) -> Piece:
        """At most the first characters."""
        return self._replace(stops=self.stops[: length + 1])


class _Source:
    """A document's text, in which other texts are looked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, wanted: str) -> Sequence[int] | None:
        """The stops of a text, as in `Piece`."""
        start = self.text.find(wanted)
        return None if start < 0 else range(start, start + len(wanted) + 1)

    def find_loosely(self, wanted: str) -> Sequence[int] | None:
        """Like `find`; one run of white space is as good as another."""
        words, in_words, in_text = self._words
        joined = " ".join(wanted.split())
        place = words.find(joined) if joined else -1
        if place < 0:
            return None
        run = bisect.bisect_right(in_words, place) - 1
        start = in_text[run] + place - in_words[run]
        # Both have the same other characters in the same order.
        solid = (i + 1 for i in range(start, len(self.text)) if not self.text[i].isspace())
        return list(
            itertools.accumulate(
                wanted,
                lambda stop, character: stop if character.isspace() else next(solid),
                initial=start,
            )
        )

    @cached_property
    def _words(self) -> tuple[str, list[int], list[int]]:
        """The text with single spaces, and where each word starts in it and in the text."""
        words = list(re.finditer(r"\S+", self.text))
        lengths = (word.end() - word.start() + 1 for word in words)
        return (
            " ".join(word.group() for word in words),
            list(itertools.accumulate(lengths, initial=0)),
            [word.start() for word in words],
        )


class Placer:
    """Says where Documents stand in their sources, by metadata or by their text."""

    def __init__(
        self, sources: Mapping[str, str] | None, doc_id_key: str, start_index_key: str
    ) -> None:
        self._sources = {doc_id: _Source(text) for doc_id, text in (sources or {}).items()}
        self._keys = (doc_id_key, start_index_key)

    def pieces(self, documents: Iterable[Document], budget: int) -> list[Piece]:
        """Place Documents, as many as a budget of characters has room for."""
        pieces = []
        for document in documents:
            if budget <= 0:
                break
            if not isinstance(document, Document):
                raise TypeError(
                    f"a retriever must return Documents; got one {type(document).__name__}"
                )
            if document.page_content:
                pieces.append(self._place(document))
                budget -= pieces[-1].length
        return pieces

    def _end_below_header(
        self, document: Document, doc_id: str, stops: Sequence[int]
    ) -> int | None:
        """Where the text ends in its source if a header, which is not of it, stands above."""
        end: Any = document.metadata.get(END_INDEX)
        if not _is_position(end) or not stops[0] < end < stops[-1]:
            return None
        slice_ = document.page_content[int(stops[0] - end) :]
        known = doc_id in self._sources
        if known and not self._sources[doc_id].text.startswith(slice_, stops[0]):
            return None
        return int(end)

    def _place(self, document: Document) -> Piece:
        text, found = document.page_content, document.metadata
        doc_id: Any = found.get(self._keys[0])
        start: Any = found.get(self._keys[1])
        known = isinstance(doc_id, str) and doc_id != ""
        if known and _is_position(start):
            stops = range(int(start), int(start) + len(text) + 1)
            if (end := self._end_below_header(document, doc_id, stops)) is not None:
                return Piece(doc_id, range(stops[0], end + 1))
            # Loaders of pages count from the start of the page: the text has the last word.
            if doc_id not in self._sources or self._sources[doc_id].text.startswith(text, stops[0]):
                return Piece(doc_id, stops)
        among = [doc_id] if known else list(self._sources)
        for find in (_Source.find, _Source.find_loosely):
            for name in among:
                place = find(self._sources[name], text) if name in self._sources else None
                if place is not None:
                    return Piece(name, place)
        if not self._sources:
            tried = "no sources were given to look for its text"
        elif not known:
            tried = f"its text is in none of the {len(among)} sources"
        elif doc_id in self._sources:
            tried = f"its text is not in sources[{doc_id!r}]"
        else:
            tried = f"sources has no {doc_id!r}"
        given = ", ".join(f"{key}={found.get(key)!r}" for key in self._keys)
        raise ValueError(
            f"a Document cannot be placed in its source: {text[:_EXCERPT]!r} has {given} in its "
            f"metadata, and {tried}. Keep the document's id and the text's place in the metadata "
            "(splitters do with add_start_index=True), name their keys with doc_id_key and "
            "start_index_key, or give sources, the documents' texts by id"
        )


def _is_position(value: Any) -> bool:  # noqa: ANN401 - anything stands in metadata
    if isinstance(value, float):  # some stores know floats only
        return value >= 0 and value.is_integer()
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0


def measure(evidence: Iterable[Evidence], pieces: Iterable[Piece], budget: int) -> list[float]:
    """The figures, in the order of `METRICS`, of pieces taken until a budget is spent."""
    room = budget
    taken = []
    for piece in pieces:
        if room <= 0:
            break
        taken.append(piece.cut(room))
        room -= taken[-1].length
    wanted = [(part.doc_id, part.start, part.end) for part in evidence]
    got = [(piece.doc_id, piece.stops[0], piece.stops[-1]) for piece in taken]
    either, asked, spent = _size(wanted + got), _size(wanted), budget - room
    covered = asked + _size(got) - either
    return [
        covered / asked,
        covered / spent if spent else 0.0,
        covered / either,
        float(len(taken)),
        float(spent),
    ]


def _size(intervals: Iterable[tuple[str, int, int]]) -> int:
    """Characters in a union of intervals."""
    size = reached = 0
    last = None
    for doc_id, start, end in sorted(intervals):
        reached = max(reached, start) if doc_id == last else start
        size += max(end - reached, 0)
        reached = max(reached, end)
        last = doc_id
    return size
