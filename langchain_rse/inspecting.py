"""What the two stores have of a document: its chunks, what was embedded, what is returned."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from langchain_rse._steps import run
from langchain_rse.along import DEFAULT_RULES, changes_in, metadata_of_segment
from langchain_rse.docstores import as_docstore
from langchain_rse.reading import Layout, read_layouts
from langchain_rse.schema import (
    CHUNK_INDEX,
    HEADER,
    VERSION,
    CorruptRecordError,
    Manifest,
    Version,
    adopted_key,
    chunk_key,
    document_key,
    manifest_key,
)
from langchain_rse.selection import Window
from langchain_rse.writing import Writer, batches

__all__ = ["DocumentNames", "InspectedChunk", "Inspection", "inspect_document"]

_BATCH = 500
_SIMILAR = 5
_SIMILARITY = 0.5


class DocumentNames:
    """Finds documents by their ids, or by the names of their files.

    Args:
        docstore: The docstore that has them.

    Raises:
        CorruptRecordError: If a record of the docstore cannot be read.
    """

    def __init__(self, docstore: BaseStore[str, Any]) -> None:
        store = as_docstore(docstore)
        self.ids: list[str] = []
        keys = sorted(store.yield_keys(prefix=manifest_key("")))
        for some in batches(keys, _BATCH):
            for key, record in zip(some, store.mget(some), strict=True):
                if record is not None:
                    self.ids.append(Manifest.from_document(record, key).doc_id)
        self._named: dict[str, list[str]] = {}
        for doc_id in self.ids:
            for name in {doc_id, Path(doc_id).name, Path(doc_id).stem}:
                self._named.setdefault(name, []).append(doc_id)
        self._ids = frozenset(self.ids)

    def find(self, name: str) -> str | None:
        """The id of the document of that id or name; None if there is none.

        Raises:
            ValueError: If several documents have the name.
        """
        found = [name] if name in self._ids else self._named.get(name, [])
        if len(found) > 1:
            raise ValueError(
                f"{name!r} may be any of {', '.join(sorted(found))}: give the whole path as doc_id"
            )
        return found[0] if found else None

    def similar(self, name: str) -> list[str]:
        """Ids of documents whose names are like that one, the most similar first."""
        lowered = name.lower()
        like = [
            doc_id
            for known, ids in self._named.items()
            if lowered in known.lower()
            for doc_id in ids
        ]
        close = difflib.get_close_matches(name, self._named, _SIMILAR, _SIMILARITY)
        found = [doc_id for known in close for doc_id in self._named[known]]
        return list(dict.fromkeys([*found, *like]))[:_SIMILAR]


@dataclass(frozen=True)
class InspectedChunk:
    """A chunk as the stores have it.

    Attributes:
        index: Its number, from 0.
        start: Its first character in the document.
        end: The character after its last one.
        text: What would be returned; None if the docstore lacks it, or it is a gap.
        gap: Whether it is a gap in an adopted document: text that nobody has.
        at_border: Whether a section is known to begin here.
        header: What stood in front of it when it was embedded; None if nothing did.
        metadata: What a segment of this chunk alone would carry, beside what holds for the
            whole document.
        vectors: By the ids of its vectors, one unless it was adopted, the text that was embedded;
            None for a vector that the vector store lacks.
    """

    index: int
    start: int
    end: int
    text: str | None
    gap: bool
    at_border: bool
    header: str | None
    metadata: Mapping[str, Any]
    vectors: Mapping[str, str | None]

    def to_dict(self) -> dict[str, Any]:
        """The fields, and the chunk's length."""
        return {**vars(self), "length": self.end - self.start}


@dataclass(frozen=True)
class Inspection:
    """A document as the stores have it.

    Attributes:
        manifest: What the docstore knows of it.
        chunks: The chunks of its current version; none if there is none.
    """

    manifest: Manifest
    chunks: Sequence[InspectedChunk]

    def to_dict(self) -> dict[str, Any]:
        """All there is to say, as plain values; metadata as it is."""
        manifest = self.manifest
        current = manifest.current
        return {
            "doc_id": manifest.doc_id,
            "version": current.name if current else None,
            "adopted": current is not None and current.adopted > 0,
            "leftovers": [version.name for version in manifest.leftovers],
            "length": manifest.length,
            "metadata": dict(manifest.metadata),
            "rules": dict(manifest.rules),
            "chunks": [chunk.to_dict() for chunk in self.chunks],
        }


def inspect_document(
    docstore: BaseStore[str, Any], vectorstore: VectorStore, doc_id: str
) -> Inspection:
    """Read all that the two stores have of a document.

    Args:
        docstore: The docstore.
        vectorstore: The vector store; it has to find by id (``get_by_ids``), else its texts are
            taken to be missing.
        doc_id: The document.

    Raises:
        LookupError: If the docstore does not know the document.
        CorruptRecordError: If a record of the docstore cannot be read.
    """
    store = as_docstore(docstore)
    key = document_key(doc_id)
    (manifest,) = run(Writer(vectorstore, store, _BATCH).manifests([key]))
    if manifest is None:
        raise LookupError(f"the docstore does not know the document {doc_id!r}")
    if manifest.current is None or not manifest.current.chunks:
        return Inspection(manifest, [])
    current = manifest.current
    windows = {(key, current.name): [Window(0, current.chunks)]}
    layout = run(read_layouts(store, windows))[key]
    if layout is None or layout.manifest.current != current:
        raise LookupError(f"document {doc_id!r} is being replaced: ask again")
    vectors = _vectors(store, vectorstore, manifest, current)
    return Inspection(manifest, list(_chunks(store, layout, current, vectors)))


def _chunks(
    store: BaseStore[str, Document],
    layout: Layout,
    current: Version,
    vectors: Mapping[int, Mapping[str, str | None]],
) -> Iterator[InspectedChunk]:
    manifest = layout.manifest
    pages = [layout.pages[page] for page in range(current.pages)]
    cuts: list[int] = np.concatenate([pages[0][:1], *(page[1:] for page in pages)]).tolist()
    rules = {**DEFAULT_RULES, **manifest.rules}
    shared = {name for name in manifest.metadata if name not in rules}
    known = {index for window in layout.windows for index in range(*window)}
    for some in batches(enumerate(itertools.pairwise(cuts)), _BATCH):
        keys = [chunk_key(manifest.key, current.name, index) for index, _ in some]
        for (index, (start, end)), key, record in zip(some, keys, store.mget(keys), strict=True):
            places = [here for _, here in changes_in(record, key)] if record else []
            carried = metadata_of_segment(manifest.metadata, manifest.rules, places)
            header = record.metadata.get(HEADER) if record else None
            yield InspectedChunk(
                index=index,
                start=start,
                end=end,
                text=record.page_content if record else None,
                gap=index not in known,
                at_border=index in layout.borders,
                header=header,
                metadata={k: v for k, v in carried.items() if k not in shared},
                vectors=vectors.get(index, {}),
            )


def _vectors(
    store: BaseStore[str, Document], vectorstore: VectorStore, manifest: Manifest, current: Version
) -> dict[int, dict[str, str | None]]:
    """The ids of the vectors of each chunk, with the texts that were embedded."""
    found: dict[int, dict[str, str | None]] = {}
    for some in batches(_places(store, vectorstore, manifest, current), _BATCH):
        texts = _embedded(vectorstore, [vector for vector, _ in some])
        for vector, index in some:
            found.setdefault(index, {})[vector] = texts.get(vector)
    return found


def _places(
    store: BaseStore[str, Document], vectorstore: VectorStore, manifest: Manifest, current: Version
) -> Iterator[tuple[str, int]]:
    """The ids of vectors and the numbers of the chunks that they stand for."""
    if not current.adopted:
        for number, vector in enumerate(current.vector_ids(manifest.key)):
            yield vector, number
        return
    adopted = run(Writer(vectorstore, store, _BATCH).adopted_vectors(manifest, current))
    for some in batches(adopted, _BATCH):
        records = store.mget([adopted_key(vector) for vector in some])
        for vector, record in zip(some, records, strict=True):
            if record is not None and record.metadata.get(VERSION) == current.name:
                index: object = record.metadata.get(CHUNK_INDEX)
                if not isinstance(index, int):
                    raise CorruptRecordError(
                        f"the docstore's record {adopted_key(vector)!r} of vector {vector!r} does "
                        f"not say which chunk it is; adopt the index again"
                    )
                yield vector, index


def _embedded(vectorstore: VectorStore, ids: Sequence[str]) -> dict[str, str]:
    try:
        found = vectorstore.get_by_ids(ids)
    except NotImplementedError:
        return {}
    return {str(document.id): document.page_content for document in found}
