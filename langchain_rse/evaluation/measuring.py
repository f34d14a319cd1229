"""Measures how much of a question's evidence the returned Documents contain."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from langchain_core.documents import Document

from langchain_rse.access import DocumentAccess
from langchain_rse.evaluation.questions import Question
from langchain_rse.stores.records import DOC_ID, END_INDEX, START_INDEX

_NUMBERS = (int, float, np.integer)


def check_budgets(budgets: Iterable[int] | int) -> tuple[int, ...]:
    """Return the budgets, each once, in ascending order."""
    listed: tuple[Any, ...] = () if isinstance(budgets, int) else tuple(budgets)
    if not listed or not all(isinstance(each, _NUMBERS) and each >= 1 for each in listed):
        raise ValueError(
            "budgets must be a list of numbers of characters, each at least 1, for example "
            f"[1000]; got {listed or budgets}"
        )
    return tuple(sorted(set(listed)))


class Slice(NamedTuple):
    """A range of characters of a document's text."""

    doc_id: str
    start: int
    end: int  # the character after the last one

    def is_in(self, other: Self) -> bool:
        """Return True if another slice contains this one."""
        is_within = other.start <= self.start and self.end <= other.end
        return self.doc_id == other.doc_id and is_within


@dataclass(frozen=True)
class Meter:
    """Measures answers within budgets; locates their Documents in the sources."""

    sources: Mapping[str, str]  # texts by document id
    access: DocumentAccess | None = None  # to the index of an RSERetriever
    doc_id_key: str = DOC_ID
    digests: dict[str, str] = field(default_factory=dict)
    """Digests of texts by document id. Of several documents with the same text, an RSERetriever
    returns one, so slices are compared by digest; without a digest, by document id."""

    def measure(
        self, question: Question, answer: Iterable[Document], budget: int
    ) -> dict[str, float]:
        """Compute the metrics of an answer within a budget; `Report` defines them."""
        parts = [Slice(part.doc_id, part.start, part.end) for part in question.evidence]
        evidence = [self._by_digest(part) for part in parts]
        located: list[Slice] = []
        spent = 0
        for document in answer:
            if spent == budget:
                break
            length = min(len(document.page_content), budget - spent)
            if length:
                located.append(self._locate(document, length))
                spent += length
        returned = [self._by_digest(position) for position in located]
        passages = [self._by_digest(passage) for passage in _join(located, self.sources)]
        whole = 0
        for part in parts:
            visible_part = self._by_digest(self._visible(part))
            whole += any(visible_part.is_in(passage) for passage in passages)
        evidence_size = _count_characters(evidence)
        union_size = _count_characters([*evidence, *returned])
        common_size = evidence_size + _count_characters(returned) - union_size
        return {
            "recall": common_size / evidence_size,
            "whole": whole / len(evidence),
            "precision": common_size / spent if spent else 0.0,
            "iou": common_size / union_size,
            "passages": float(len(returned)),
            "characters": float(spent),
        }

    def _by_digest(self, position: Slice) -> Slice:
        """Replace the document's id by the digest of its text."""
        doc_id = position.doc_id
        if self.access is not None and doc_id not in self.digests:
            manifest = self.access.manifests_of([doc_id]).get(doc_id)
            self.digests[doc_id] = manifest.text_digest or doc_id if manifest else doc_id
        return position._replace(doc_id=self.digests.get(doc_id, doc_id))

    def _locate(self, document: Document, length: int) -> Slice:
        """Locate the first ``length`` characters of a Document, by its metadata or by its text."""
        position = self._locate_by_metadata(document, length)
        if position is None:
            position = self._locate_by_text(document, length)
        if position is None:
            raise ValueError(
                f"a Document cannot be located in its source: {document.page_content[:80]!r} has "
                f"{self.doc_id_key}={document.metadata.get(self.doc_id_key)!r} and "
                f"{START_INDEX}={document.metadata.get(START_INDEX)!r} in its metadata, and does "
                f"not occur in the {len(self.sources)} given sources. Add both fields to the "
                "metadata (add_start_index=True, doc_id_key), or pass sources, texts by document id"
            )
        return position

    def _visible(self, position: Slice) -> Slice:
        """Return a slice without white space at its ends, which splitters strip from chunks.

        Without the text in ``sources``, the slice is unchanged.
        """
        text = self.sources.get(position.doc_id, "")[position.start : position.end]
        if not text.strip():
            return position
        start = position.start + len(text) - len(text.lstrip())
        return position._replace(start=start, end=start + len(text.strip()))

    def _locate_by_metadata(self, document: Document, length: int) -> Slice | None:
        text = document.page_content
        doc_id = document.metadata.get(self.doc_id_key)
        start = _read_position(document.metadata.get(START_INDEX))
        end = _read_position(document.metadata.get(END_INDEX))
        if not isinstance(doc_id, str) or start is None:
            return None
        header_length = 0
        if end:
            start, header_length = self._below_header(text, Slice(doc_id, start, end))
        # Positions may count from the start of a page. Then the text is searched for instead.
        if doc_id in self.sources:
            source = self.sources[doc_id]
            if not source.startswith(text[header_length:], start):
                return None
        return Slice(doc_id, start, start + max(length - header_length, 0))

    def _below_header(self, text: str, position: Slice) -> tuple[int, int]:
        """Return the start of a text in its document, and the length of the headers above it.

        Chunks in vector stores may lack the white space at their ends; ``sources`` have it.
        """
        source = self.sources.get(position.doc_id, "")
        for part in (position, self._visible(position)):
            part_text = source[part.start : part.end]
            if part_text and text.endswith(part_text):
                return part.start, len(text) - len(part_text)
        return position.start, max(len(text) - (position.end - position.start), 0)

    def _locate_by_text(self, document: Document, length: int) -> Slice | None:
        """Search for the text in its source, or in all sources; first unchanged, then by words."""
        text = document.page_content
        doc_id = document.metadata.get(self.doc_id_key)
        sources = self.sources
        if isinstance(doc_id, str):
            sources = {doc_id: self.sources.get(doc_id, "")}
        for source_id, source in sources.items():
            start = source.find(text)
            if start >= 0:
                return Slice(source_id, start, start + length)
        if not text.strip():
            return None
        # The group is the part of the match within the length.
        pattern = re.compile(f"(?=({_words_pattern(text[:length])})){_words_pattern(text)}")
        for source_id, source in sources.items():
            match = pattern.search(source)
            if match:
                return Slice(source_id, *match.span(1))
        return None


def _join(slices: Iterable[Slice], sources: Mapping[str, str]) -> list[Slice]:
    """Join slices that touch, or that only white space in ``sources`` separates."""
    joined: list[Slice] = []
    for position in sorted(slices):
        last = joined[-1] if joined else position
        between = sources.get(last.doc_id, "")[last.end : position.start]
        is_next = position.start <= last.end or between.isspace()
        if joined and position.doc_id == last.doc_id and is_next:
            joined[-1] = last._replace(end=max(last.end, position.end))
        else:
            joined.append(position)
    return joined


def _read_position(value: object) -> int | None:
    """Read a position in metadata, a float in some stores; None for any other value."""
    if isinstance(value, int | float | np.integer) and value >= 0:
        return int(value)
    return None


def _words_pattern(text: str) -> str:
    """Make a pattern of a text's words with any white space between them."""
    return r"\s+".join(re.escape(word) for word in text.split())


def _count_characters(slices: Iterable[Slice]) -> int:
    """Count the characters in the union of slices."""
    return sum(position.end - position.start for position in _join(slices, {}))
