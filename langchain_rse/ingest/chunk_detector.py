"""Detects documents without an id that look like chunks of one text."""

import re
from dataclasses import dataclass, field
from itertools import pairwise

from langchain_core.documents import Document

from langchain_rse.ingest.overlap import chunk_overlap
from langchain_rse.ingest.rejoining import begins_later
from langchain_rse.stores.records import START_INDEX

# Documents look cut if one with at least this many characters ends in the middle of a sentence.
_SHORTEST_CUT = 60
_OPEN_END = re.compile(r"[^\W_]\Z|[,\-\u2013\u2014]\Z")

# Splitters fill chunks: two neighbors that fit the chunk size together would not have been cut.
# Documents look filled if the longest has at least this many characters and most pairs of neighbors
# are longer than it.
_SHORTEST_FILLED = 200
_FILLED_SHARE = 0.8
_FEWEST_FILLED = 2


@dataclass
class ChunkDetector:
    """Observes documents without an id and warns if they look like chunks of one text."""

    _lengths: list[int] = field(default_factory=list)
    _text_before: str = ""
    _look_cut: bool = False

    def observe(self, document: Document) -> None:
        """Observe the next document without an id."""
        text = document.page_content
        is_later = begins_later(document)
        other_fields = document.metadata.keys() - {START_INDEX}
        if other_fields and not is_later:
            return
        overlaps = chunk_overlap(self._text_before, text) > 0
        if is_later or overlaps or _is_cut(self._text_before, text):
            self._look_cut = True
        self._text_before = text
        self._lengths.append(len(text))

    def warning(self) -> str | None:
        """Return a warning, or None if the documents do not look like chunks."""
        if len(self._lengths) < 2:  # noqa: PLR2004 - a single document has no neighbor
            return None
        if not self._look_cut and not _look_filled(self._lengths):
            return None
        return (
            f"{len(self._lengths)} documents without an id look like chunks of one text. They were "
            "stored as separate documents, and no passage spans two documents. If they are chunks, "
            "add the whole text instead: add_documents([Document(text)]). If they are not, set "
            "separate=True, or give them ids with ids= or metadata['doc_id']"
        )


def _is_cut(before: str, after: str) -> bool:
    """True if a sentence seems to continue from one text to the next."""
    is_long = len(before) >= _SHORTEST_CUT
    has_open_end = _OPEN_END.search(before) is not None
    return is_long and has_open_end and after[:1].islower()


def _look_filled(lengths: list[int]) -> bool:
    """True if most pairs of neighbors are longer than the longest document."""
    longest = max(lengths)
    if longest < _SHORTEST_FILLED:
        return False
    filled = 0
    for length, next_length in pairwise(lengths):
        if length + next_length > longest:
            filled += 1
    neighbors = len(lengths) - 1
    return filled >= max(_FEWEST_FILLED, _FILLED_SHARE * neighbors)
