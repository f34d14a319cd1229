"""A trace by document: what the text, the plot and the report of a trace show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

from langchain_core.documents import Document

from langchain_rse.query.candidates import ChunkKey, Reason, best_of_queries
from langchain_rse.query.reading import Passage, measure
from langchain_rse.query.scoring import Chunk
from langchain_rse.query.trace import Trace
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
        chunks_of: dict[str, list[Chunk]] = {}  # by document key
        for chunk in self.chunks:
            if chunk.layout is not None:
                chunks_of.setdefault(chunk.layout.manifest.key, []).append(chunk)
            elif chunk.candidate is not None:
                chunks_of.setdefault(chunk.candidate.key, []).append(chunk)
        returned_of: dict[str, list[tuple[int, Passage]]] = {key: [] for key in chunks_of}
        for number, passage in enumerate(self.returned, start=1):
            returned_of[passage.layout.manifest.key].append((number, passage))
        layouts = {} if self.looked_up is None else self.looked_up.layouts
        documents = []
        for key, chunks in chunks_of.items():
            found = next(chunk.candidate for chunk in chunks if chunk.candidate is not None)
            metadata: Mapping[str, Any] = found.document.metadata
            length = chunk_count = None
            if key in layouts:
                manifest = layouts[key].manifest
                metadata, length = manifest.metadata, manifest.length
                chunk_count = layouts[key].chunk_count
            chunks.sort(key=lambda chunk: chunk.index)
            is_considered = any(chunk.weight for chunk in chunks)
            document = DocumentTrace(
                doc_id=found.doc_id,
                metadata=metadata,
                length=length,
                chunk_count=chunk_count,
                reason=None if is_considered else self.why(chunks[0]),
                chunks=chunks,
                returned=returned_of[key],
            )
            documents.append(document)
        return documents

    @cached_property
    def ranks(self) -> dict[ChunkKey, int]:
        """The ranks of the candidates of all queries by relevance, from 1."""
        ranked = best_of_queries(self.candidates)
        return {candidate.chunk_key: rank for rank, candidate in enumerate(ranked, start=1)}

    @cached_property
    def short_names(self) -> dict[str, str]:
        """The printed names of documents, by id: paths without common folders.

        To tell other documents apart as well, update it with names of a whole store.
        """
        return short_names({document.doc_id: document.name for document in self.documents})

    @cached_property
    def records(self) -> dict[ChunkKey, Document | None]:
        """The stored texts of the chunks in passages."""
        records: dict[ChunkKey, Document | None] = {}
        for passage in self.passages:
            records.update((chunk.key, chunk.record) for chunk in passage.chunks)
        return records

    @property
    def left_out(self) -> list[tuple[DocumentTrace, Chunk]]:
        """The candidates that were not returned, the closest to being returned first; see `why`."""
        reasons = list(Reason)
        left_out = []
        for document in self.documents:
            for chunk in document.chunks:
                if chunk.candidate is not None and chunk.outcome not in _SHOWN:
                    order = (reasons.index(chunk.outcome), -chunk.credited, -chunk.relevance)
                    left_out.append((order, document, chunk))
        left_out.sort(key=itemgetter(0))
        return [(document, chunk) for _, document, chunk in left_out]

    @property
    def spent(self) -> float:
        """The length of the answer, in the units of ``length_function``."""
        function = self.settings.length_function
        return sum(measure(each.page_content, function) for each in self.documents_returned)
