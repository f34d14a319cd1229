"""A trace by document: what the text, the plot and the report of a trace show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from langchain_rse.query.candidates import ChunkKey, Reason, best_of_queries
from langchain_rse.query.reading import Passage, measure
from langchain_rse.query.scoring import Chunk
from langchain_rse.query.trace import Trace
from langchain_rse.stores.layouts import Layout
from langchain_rse.text.names import name_of, short_names

_SHOWN = frozenset({Reason.RETURNED, Reason.FILLED})  # outcomes of chunks of the answer


class DocumentTrace(NamedTuple):
    """A document with candidates.

    Attributes:
        doc_id: The id of the document.
        metadata: The metadata of the document.
        length: The length in characters; None if the query did not look the document up.
        chunk_count: The number of chunks; None like the length.
        reason: Why none of its chunks was considered; None if one was.
        chunks: The chunks that the query dealt with, in the order of the text.
        returned: The returned passages, each with its number in the answer, from 1.
    """

    doc_id: str
    metadata: Mapping[str, Any]
    length: int | None
    chunk_count: int | None
    reason: str | None
    chunks: Sequence[Chunk]
    returned: Sequence[tuple[int, Passage]]

    def __repr__(self) -> str:
        return f"<DocumentTrace of {self.name!r}: {len(self.chunks)} chunks>"

    @property
    def name(self) -> str:
        """The name for people: source, else title, else id."""
        return name_of(self.doc_id, self.metadata)


class TraceByDocument(Trace):
    """A trace with its chunks and passages by document."""

    @cached_property
    def documents(self) -> list[DocumentTrace]:
        """The documents with candidates, best first."""
        returned_of: dict[str, list[tuple[int, Passage]]] = {}
        for number, passage in enumerate(self.returned, start=1):
            returned_of.setdefault(passage.layout.manifest.key, []).append((number, passage))
        return [
            self._document(key, sorted(chunks, key=_index), returned_of.get(key, ()))
            for key, chunks in self._chunks_by_document.items()
        ]

    @cached_property
    def _chunks_by_document(self) -> dict[str, list[Chunk]]:
        """The chunks of each document, by its key; the best document first."""
        chunks_of: dict[str, list[Chunk]] = {}
        for chunk in self.chunks:
            if chunk.layout is not None:
                chunks_of.setdefault(chunk.layout.manifest.key, []).append(chunk)
            elif chunk.candidate is not None:
                chunks_of.setdefault(chunk.candidate.key, []).append(chunk)
        return chunks_of

    def _document(
        self, key: str, chunks: Sequence[Chunk], returned: Sequence[tuple[int, Passage]]
    ) -> DocumentTrace:
        doc_id, metadata = self._identity_of(key, chunks)
        is_considered = any(chunk.weight for chunk in chunks)
        layout = self._layout_of(key)
        length = chunk_count = None
        if layout is not None:
            length = layout.manifest.length
            chunk_count = layout.chunk_count
        reason = None if is_considered else self.why(chunks[0])
        return DocumentTrace(doc_id, metadata, length, chunk_count, reason, chunks, returned)

    def _layout_of(self, key: str) -> Layout | None:
        """The layout of a document; None if the query did not read it."""
        return None if self.looked_up is None else self.looked_up.layouts.get(key)

    def _identity_of(self, key: str, chunks: Sequence[Chunk]) -> tuple[str, Mapping[str, Any]]:
        """The id and the metadata of a document."""
        found = next(chunk.candidate for chunk in chunks if chunk.candidate is not None)
        layout = self._layout_of(key)
        if layout is None:
            return found.doc_id, found.document.metadata
        return found.doc_id, layout.manifest.metadata

    @cached_property
    def ranks(self) -> dict[ChunkKey, int]:
        """The ranks of the candidates of all queries by relevance, from 1."""
        ranked = best_of_queries(self.candidates)
        return {candidate.chunk_key: rank for rank, candidate in enumerate(ranked, start=1)}

    @cached_property
    def short_names(self) -> dict[str, str]:
        """The printed names of documents, by their names: paths without common folders."""
        names = []
        for key, chunks in self._chunks_by_document.items():
            names.append(name_of(*self._identity_of(key, chunks)))
        return short_names(names)

    def why(self, chunk: Chunk) -> str:
        """Explain in a sentence why a chunk was returned or not."""
        original = chunk.duplicate_of
        if original is not None:
            chunk = replace(chunk, duplicate_of=self.short_names.get(original, original))
        return super().why(chunk)

    @property
    def answered(self) -> list[DocumentTrace]:
        """The documents of the answer, in the order of the answer."""
        answered = [document for document in self.documents if document.returned]
        return sorted(answered, key=lambda document: document.returned[0][0])

    @property
    def left_out(self) -> list[tuple[DocumentTrace, Chunk]]:
        """The candidates that were not returned, the closest to being returned first; see `why`."""
        order = {reason: number for number, reason in enumerate(Reason)}

        def distance(pair: tuple[DocumentTrace, Chunk]) -> tuple[float, ...]:
            _, chunk = pair
            hit = None if chunk.candidate is None else chunk.candidate.hit
            rank = math.inf if hit is None else hit.rank
            return order[chunk.outcome], -chunk.credited, -chunk.relevance, rank

        pairs = []
        for document in self.documents:
            for chunk in document.chunks:
                if chunk.candidate is not None and chunk.outcome not in _SHOWN:
                    pairs.append((document, chunk))
        return sorted(pairs, key=distance)

    @property
    def spent(self) -> float:
        """The length of the answer, in the units of ``length_function``."""
        function = self.settings.length_function
        return sum(measure(each.page_content, function) for each in self.documents_returned)


def _index(chunk: Chunk) -> int:
    return chunk.index
