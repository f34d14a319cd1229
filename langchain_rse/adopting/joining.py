"""Joins the chunks of a document of an existing index into one text, ready to be written.

Overlap is removed, stripped white space is put back, and gaps are marked.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse.adopting.index import ExistingIndex, Gap
from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.documents import sort_metadata
from langchain_rse.ingest.overlap import WHITE_SPACE, agrees, is_stripped, overlap, white_space
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
_PAGE_BREAK = "\n\n"
# Some stores keep whole numbers as floats or strings: both are read.
_NUMBER: TypeAdapter[int] = TypeAdapter(NonNegativeInt)


@dataclasses.dataclass
class StoredChunk:
    """A chunk as the vector store has it, and its place in the document."""

    text: str  # empty for a gap
    metadata: Mapping[str, Any]  # for text without a vector, that of the chunk beside it
    vectors: list[str]  # ids of all vectors with this text and position, if there are any
    page: int = 0
    position: int = 0  # in the page: first character, chunk number, or place in the store
    start: int = 0  # first character in the document's text, once that is joined

    @property
    def end(self) -> int:
        """The character after its last one in the text of the document."""
        return self.start + len(self.text)


def doc_id_of(document: Document, key: str) -> str:
    """The id of a chunk's document; AdoptionError if it has none."""
    value = document.metadata.get(key)
    if not isinstance(value, (str, int)) or value == "":
        raise AdoptionError(
            f"chunk {document.id!r} has {key}={value!r} in its metadata; doc_id_key must name a "
            "field that holds the document's name, a string or a whole number. "
            f"{_fields(document, (str, int))}"
        )
    return str(value)


def _number(document: Document, key: str | None, default: int) -> int:
    if key is None:
        return default
    value = document.metadata.get(key)
    try:
        return _NUMBER.validate_python(value)
    except ValidationError as error:
        why = ": the splitter could not tell where it lies" if value == -1 else ""
        raise AdoptionError(
            f"chunk {document.id!r} has {key}={value!r} in its metadata{why}; this field must hold "
            f"whole numbers of at least 0. {_fields(document, int)}"
        ) from error


def _fields(document: Document, kind: type | tuple[type, ...]) -> str:
    """Make a sentence that lists the fields of a chunk with values of a type."""
    some = [f"{n}={v!r:.60}" for n, v in document.metadata.items() if isinstance(v, kind)]
    return f"Its fields of this kind: {', '.join(sorted(some)) or 'none'}"


def _distinct(chunks: Iterable[StoredChunk]) -> list[StoredChunk]:
    """Sort chunks; join those with equal text at one position, with all their vectors."""
    found: dict[tuple[int, int, int, str], StoredChunk] = {}
    for chunk in chunks:
        # Longer chunks first, before those inside them.
        place = (chunk.page, chunk.position, -len(chunk.text), chunk.text)
        if place in found:
            found[place].vectors += chunk.vectors
        else:
            found[place] = chunk
    return [found[place] for place in sorted(found)]


def _join(
    doc_id: str, chunks: Iterable[StoredChunk], index: ExistingIndex
) -> tuple[list[StoredChunk], list[Gap]]:
    """Join chunks in the order of pages and positions; leave out those that add no text."""
    joined: list[StoredChunk] = []
    gaps: list[Gap] = []
    position = 0
    for chunk in chunks:
        number, position = position, chunk.position  # number: the chunk before's, even if left out
        if not chunk.text:
            continue
        if not joined:
            chunk.start = chunk.position if index.start_index_key else 0
            if chunk.start > WHITE_SPACE:
                gaps.append(Gap(doc_id, None, chunk.vectors[0], chunk.start))
            joined.append(chunk)
            continue
        last = joined[-1]
        distance, between = _step(last, chunk, number, index)
        chunk.start = last.end + (1 if distance is None else distance)
        if chunk.end <= last.end:
            continue
        if between is None:
            gaps.append(Gap(doc_id, last.vectors[0], chunk.vectors[0], distance))
            joined.append(StoredChunk("", last.metadata, [], start=last.end))
        else:
            last.text = (last.text + between)[: chunk.start - last.start]
        joined.append(chunk)
    return joined, gaps


# From the last chunk to the next: the number of characters between, negative for overlap and None
# if unknown; and the text to put there, None for a gap.
_Step = tuple[int | None, str | None]


def _step(last: StoredChunk, chunk: StoredChunk, number: int, index: ExistingIndex) -> _Step:
    by_number = index.start_index_key is None and index.chunk_index_key is not None
    if chunk.page != last.page:
        # Chunk numbers continue from page to page, or begin again.
        if chunk.page > last.page + 1 or (by_number and chunk.position not in {0, 1, number + 1}):
            return None, None
        if index.start_index_key and chunk.position > WHITE_SPACE:
            return chunk.position, None
        return len(_PAGE_BREAK), _PAGE_BREAK
    place = chunk.position - last.position
    if index.start_index_key and agrees(last.text, place, chunk.text):
        distance = place - len(last.text)
        return distance, white_space(distance) if distance <= WHITE_SPACE else None
    if index.start_index_key or chunk.position == number:
        raise _conflict(last, chunk)
    if by_number and chunk.position > number + 1:
        return None, None
    shared = overlap(last.text, chunk.text, index.chunk_overlap)
    between = "" if shared or not is_stripped(last.text, chunk.text) else index.separator
    return len(between) - shared, between


def _conflict(*chunks: StoredChunk) -> AdoptionError:
    named = (
        f"{one.vectors[0]!r} (page {one.page}, position {one.position}, begins {one.text[:40]!r})"
        for one in chunks
    )
    first, second = (one.metadata for one in chunks)
    differ = [name for name in first if "page" in name and first[name] != second.get(name)]
    hint = f"={differ[0]!r}, in which they differ" if differ else ""
    return AdoptionError(
        f"two chunks have different texts at one place: {' and '.join(named)}. If one is of an "
        "older version of the document, delete it. If positions count from the top of each page, "
        f"set page_key{hint}. If the store lists the chunks of a page in order, set "
        "in_store_order=True"
    )


# With the whole text


def _search(text: str, chunks: Iterable[StoredChunk]) -> None:
    """Find each chunk in the text after the start of the one before, else anywhere."""
    start = -1
    for chunk in chunks:
        after = text.find(chunk.text, start + 1)
        start = text.find(chunk.text) if after < 0 else after
        if start < 0:
            raise AdoptionError(
                f"chunk {chunk.vectors[0]!r}, which begins {chunk.text[:40]!r}, is not in the text "
                "of its document in texts: it is of another version, or its splitter changes text"
            )
        chunk.page, chunk.position, chunk.start = 0, start, start


def _lay_over(text: str, chunks: Iterable[StoredChunk]) -> list[StoredChunk]:
    """Lay chunks over the whole text; letters or digits between two make one without a vector."""
    kept: list[StoredChunk] = []
    end = 0
    for chunk in chunks:
        if chunk.text and chunk.end > end:  # else it is inside the chunks before it
            kept += _between(text, end, chunk.start, kept[-1] if kept else chunk)
            kept.append(chunk)
            end = chunk.end
    if kept:
        kept += _between(text, end, len(text), kept[-1])
        kept[0].start = 0
    for chunk, end in zip(kept, [*(one.start for one in kept[1:]), len(text)], strict=True):
        chunk.text = text[chunk.start : end]
    return kept


def _between(text: str, start: int, end: int, neighbor: StoredChunk) -> list[StoredChunk]:
    content = text[start:end].lstrip()
    one = StoredChunk(content, neighbor.metadata, [], start=end - len(content))
    return [one] if _WORD.search(content) else []


# The document


def make_version(
    doc_id: str,
    documents: Mapping[str, Document],
    whole: Document | None,
    *,
    index: ExistingIndex,
    rules: Mapping[str, Rule],
    namespace: str,
) -> tuple[DocumentVersion, list[Gap]]:
    """Make a document that can be written from its chunks by the ids of their vectors.

    ``whole`` is its text, if the index has ``texts``. Also returns places where text is missing.
    """
    if index.texts is not None and not isinstance(whole, Document):
        if whole is None:
            raise AdoptionError("texts has no text of it")
        raise AdoptionError(
            f"texts has {type(whole).__name__} instead of a Document. A byte store that a "
            "ParentDocumentRetriever wrote: texts=langchain_classic.storage.create_kv_docstore(...)"
        )
    key, ordered = index.start_index_key or index.chunk_index_key, index.in_store_order or whole
    stored = []
    for number, (vector, one) in enumerate(documents.items()):
        page = _number(one, index.page_key, 0)
        position = _number(one, key, number if ordered else 0)
        stored.append(StoredChunk(one.page_content, one.metadata, [vector], page, position))
    if whole is None:
        stored = _distinct(stored)
        joined, gaps = _join(doc_id, stored, index)
    else:
        for chunk in stored:  # chunks may have only some of the metadata
            chunk.metadata = {**whole.metadata, **chunk.metadata}
        _search(whole.page_content, sorted(stored, key=lambda one: (one.page, one.position)))
        stored = _distinct(stored)
        joined, gaps = _lay_over(whole.page_content, stored), []
    return _version(doc_id, stored, joined, rules, namespace), gaps


def _version(
    doc_id: str,
    stored: Iterable[StoredChunk],
    joined: Sequence[StoredChunk],
    rules: Mapping[str, Rule],
    namespace: str,
) -> DocumentVersion:
    metadata = [
        {name: value for name, value in chunk.metadata.items() if name not in _OWN}
        for chunk in joined
    ]
    shared, changing, stored_rules = sort_metadata(metadata, rules, doc_id)
    used = {vector for chunk in joined for vector in chunk.vectors}
    adopted: list[tuple[str, int | None]] = [
        (vector, None) for chunk in stored for vector in chunk.vectors if vector not in used
    ]
    chunks = []
    length = joined[-1].end if joined else 0
    ends = [*(chunk.start for chunk in joined[1:]), length]
    for number, chunk in enumerate(joined):
        adopted += [(vector, number) for vector in chunk.vectors]
        places = [(0, changing[number])] if changing else ()
        chunks.append(Chunk(chunk.start, ends[number], chunk.text, chunk.text, places))
    gaps = frozenset(number for number, chunk in enumerate(chunks) if not chunk.text)
    spans = [chunk[:2] for chunk in chunks]
    description = [spans, adopted, shared, changing, stored_rules]
    described = encode_json(description, f"metadata of document {doc_id!r}")
    name = version_name(namespace, _FORMAT, *(chunk.text for chunk in chunks), described)
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
