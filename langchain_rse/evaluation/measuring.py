"""How much of the evidence is in the text that a retriever returns."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from langchain_core.documents import Document

from langchain_rse.evaluation.questions import Evidence
from langchain_rse.stores.records import END_INDEX

METRICS = ("recall", "precision", "iou", "segments", "characters")

Slice = tuple[str, int, int]
"""Characters of a document: its id, the first one and the one after the last."""


class Locator(NamedTuple):
    """Finds the place of returned text in its source, by its metadata or by the text itself."""

    sources: Mapping[str, str]
    doc_id_key: str
    start_index_key: str

    def locate(self, document: Document, length: int) -> Slice:
        """The slice that the first characters of a Document are; a ValueError if it is unknown."""
        text, doc_id = document.page_content, document.metadata.get(self.doc_id_key)
        start = _position(document.metadata.get(self.start_index_key))
        if isinstance(doc_id, str) and start is not None:
            end = _position(document.metadata.get(END_INDEX))
            above = max(len(text) - (end - start), 0) if end else 0  # characters of a header
            source = self.sources.get(doc_id)
            # Loaders of pages count characters from the start of the page: then the text decides.
            if source is None or source.startswith(text[above:], start):
                return doc_id, start, start + max(length - above, 0)
        named = [doc_id] if isinstance(doc_id, str) else list(self.sources)
        for find in (_find, _find_words):
            for name in named:
                if found := find(self.sources.get(name, ""), text, length):
                    return name, *found
        raise ValueError(
            f"a Document cannot be located in its source: {text[:80]!r} has "
            f"{self.doc_id_key}={doc_id!r}, {self.start_index_key}="
            f"{document.metadata.get(self.start_index_key)!r} in its metadata and is not in the "
            f"{len(self.sources)} given sources. Keep both in the metadata (add_start_index=True), "
            "name them with doc_id_key and start_index_key, or give sources, texts by document id"
        )


def _position(value: object) -> int | None:
    """A position from metadata, in which some stores keep only floats."""
    return int(value) if isinstance(value, int | float | np.integer) and value >= 0 else None


def _find(source: str, text: str, length: int) -> tuple[int, int] | None:
    start = source.find(text)
    return None if start < 0 else (start, start + length)


def _find_words(source: str, text: str, length: int) -> tuple[int, int] | None:
    """Like `_find`, with any white space between the words."""
    whole, cut = (r"\s+".join(map(re.escape, part.split())) for part in (text, text[:length]))
    match = re.search(whole, source) if whole else None
    part = match and re.compile(cut).match(source, match.start())
    return part.span() if part else None


def measure(
    evidence: Iterable[Evidence], documents: Iterable[Document], budget: int, locator: Locator
) -> list[float]:
    """Return the `METRICS` of what was returned for a question.

    Documents count in their order until the budget, in characters, is spent; the last one is cut.
    """
    spent, returned = 0, []
    for document in documents:
        if spent == budget:
            break
        if not isinstance(document, Document):
            raise TypeError(f"a retriever must return Documents; got {document!r:.80}")
        if length := min(len(document.page_content), budget - spent):
            returned.append(locator.locate(document, length))
            spent += length
    wanted = [(part.doc_id, part.start, part.end) for part in evidence]
    union, size = _size([*wanted, *returned]), _size(wanted)
    common = size + _size(returned) - union
    precision = common / spent if spent else 0.0
    return [common / size, precision, common / union, float(len(returned)), float(spent)]


def _size(slices: Iterable[Slice]) -> int:
    """Characters in the union of slices."""
    size, document, counted = 0, "", 0
    for doc_id, start, end in sorted(slices):
        if doc_id != document:
            document, counted = doc_id, 0
        size += max(end - max(start, counted), 0)
        counted = max(end, counted)
    return size
