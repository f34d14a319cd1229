"""Making documents, ready to be written, from the chunks of a vector store."""

import re
from collections.abc import Iterable, Mapping

from langchain_core.documents import Document

from langchain_rse.adopting.index import ExistingIndex
from langchain_rse.adopting.joining import (
    JoinedChunks,
    StoredChunk,
    distinct,
    join_chunks,
    read_chunk,
)
from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.documents import sort_metadata
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import (
    CHUNK_INDEX,
    END_INDEX,
    NAMESPACE,
    START_INDEX,
    Chunk,
    DocumentVersion,
    Rule,
    Version,
    version_name,
)

# Part of every adopted version's name: raised when the same chunks would be joined differently.
_FORMAT = "adopted 3"

# Segments have these fields of their own.
_OWN = frozenset({CHUNK_INDEX, START_INDEX, END_INDEX, NAMESPACE})

_WORD = re.compile(r"[^\W_]")


def locate_chunks(
    doc_id: str, documents: Mapping[str, Document], index: ExistingIndex, whole: Document | None
) -> JoinedChunks:
    """Find the places of a document's chunks in its text, and free them of overlap."""
    if index.texts is not None and not isinstance(whole, Document):
        if whole is None:
            raise AdoptionError("texts has no text of it")
        raise AdoptionError(
            f"texts has {type(whole).__name__} instead of a Document. A byte store that a "
            "ParentDocumentRetriever wrote: texts=langchain_classic.storage.create_kv_docstore(...)"
        )
    ordered = index.in_store_order or whole is not None
    chunks = [
        read_chunk(vector, document, index, number if ordered else 0)
        for number, (vector, document) in enumerate(documents.items())
    ]
    if whole is None:
        return join_chunks(doc_id, distinct(chunks), index)
    for chunk in chunks:  # which may have been given some fields only
        chunk.metadata = {**whole.metadata, **chunk.metadata}
    _search(whole.page_content, sorted(chunks, key=lambda chunk: (chunk.page, chunk.position)))
    return _lay_over(whole.page_content, distinct(chunks))


def _search(text: str, chunks: Iterable[StoredChunk]) -> None:
    """Find each chunk after the beginning of the one before, or else anywhere in the text."""
    start = -1
    for chunk in chunks:
        start = text.find(chunk.text, start + 1)
        if start < 0:
            start = text.find(chunk.text)
        if start < 0:
            raise AdoptionError(
                f"chunk {chunk.vectors[0]!r}, which begins {chunk.text[:40]!r}, is not in the text "
                "that texts has of it: it is of another version, or its splitter changes text"
            )
        chunk.page, chunk.position, chunk.start = 0, start, start


def _lay_over(text: str, chunks: Iterable[StoredChunk]) -> JoinedChunks:
    """Lay chunks over the whole text: letters or digits between two become one without a vector."""
    joined = JoinedChunks()
    kept = joined.chunks
    end = 0
    for chunk in chunks:
        if not chunk.text or chunk.end <= end:  # inside those before
            joined.left_out += chunk.vectors
        else:
            kept += _between(text, end, chunk.start, kept[-1] if kept else chunk)
            kept.append(chunk)
            end = chunk.end
    if kept:
        kept += _between(text, end, len(text), kept[-1])
        kept[0].start = 0
    for chunk, end in zip(kept, [*(one.start for one in kept[1:]), len(text)], strict=True):
        chunk.text = text[chunk.start : end]
    return joined


def _between(text: str, start: int, end: int, neighbor: StoredChunk) -> list[StoredChunk]:
    """What lies between two chunks, as a chunk without a vector; [] if it is white space."""
    if _WORD.search(text, start, end) is None:
        return []
    content = text[start:end].lstrip()
    return [StoredChunk(content, neighbor.metadata, [], start=end - len(content))]


def make_version(
    doc_id: str, joined: JoinedChunks, rules: Mapping[str, Rule], namespace: str = ""
) -> DocumentVersion:
    """Make a document that can be written from its joined chunks."""
    place = f"metadata of document {doc_id!r}"
    metadata = [
        {name: value for name, value in chunk.metadata.items() if name not in _OWN}
        for chunk in joined.chunks
    ]
    shared, changing, stored_rules = sort_metadata(metadata, rules, doc_id)
    adopted: list[tuple[str, int | None]] = [(vector, None) for vector in joined.left_out]
    chunks = []
    length = joined.chunks[-1].end if joined.chunks else 0
    ends = [*(chunk.start for chunk in joined.chunks[1:]), length]
    for number, chunk in enumerate(joined.chunks):
        adopted += [(vector, number) for vector in chunk.vectors]
        places = [(0, changing[number])] if changing else ()
        chunks.append(Chunk(chunk.start, ends[number], chunk.text, chunk.text, places))
    gaps = frozenset(number for number, chunk in enumerate(chunks) if not chunk.text)
    spans = [chunk[:2] for chunk in chunks]
    description = [spans, adopted, shared, changing, stored_rules]
    texts = (chunk.text for chunk in chunks)
    name = version_name(namespace, _FORMAT, *texts, encode_json(description, place))
    return DocumentVersion(
        doc_id=doc_id,
        version=Version(name, len(chunks), len(adopted)),
        length=length,
        metadata=shared,
        chunks=chunks,
        gaps=gaps,
        rules=stored_rules,
        adopted=adopted,
    )
