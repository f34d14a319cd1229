"""The chunks of a vector store, joined into one text: overlap out, white space in, gaps marked."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.documents import Document
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse.adopting.index import ExistingIndex, Gap
from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.overlap import WHITE_SPACE, agrees, is_stripped, overlap, white_space

_PAGE_BREAK = "\n\n"
# Some stores keep whole numbers as floats or strings: both are read.
_NUMBER: TypeAdapter[int] = TypeAdapter(NonNegativeInt)


@dataclasses.dataclass
class StoredChunk:
    """A chunk as the vector store has it, and its place in the document."""

    text: str  # empty for a gap
    metadata: Mapping[str, Any]  # for text in no vector, that of the chunk beside it
    vectors: list[str]  # ids of all vectors of this text and position; none for text in no vector
    page: int = 0
    position: int = 0  # in the page: first character, number, or place in the store
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


def read_chunk(vector: str, document: Document, index: ExistingIndex, number: int) -> StoredChunk:
    """Read a chunk's position; `number` is its position if no metadata field gives one."""
    page = _number(document, index.page_key, 0)
    position = _number(document, index.start_index_key or index.chunk_index_key, number)
    return StoredChunk(document.page_content, document.metadata, [vector], page, position)


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
    """A sentence that names the fields of a chunk that may be meant."""
    some = [f"{n}={v!r:.60}" for n, v in document.metadata.items() if isinstance(v, kind)]
    return f"Its fields of this kind: {', '.join(sorted(some)) or 'none'}"


def distinct(chunks: Iterable[StoredChunk]) -> list[StoredChunk]:
    """The chunks in order, those with equal text at one position once, with all their vectors."""
    found: dict[tuple[int, int, int, str], StoredChunk] = {}
    for chunk in chunks:
        # Longer ones first: those inside them follow.
        place = (chunk.page, chunk.position, -len(chunk.text), chunk.text)
        if place in found:
            found[place].vectors += chunk.vectors
        else:
            found[place] = chunk
    return [found[place] for place in sorted(found)]


@dataclasses.dataclass
class JoinedChunks:
    """A document's chunks in the order of its text, each up to the next one's start."""

    chunks: list[StoredChunk] = dataclasses.field(default_factory=list)
    left_out: list[str] = dataclasses.field(default_factory=list)  # vectors that add no text
    gaps: list[Gap] = dataclasses.field(default_factory=list)


def join_chunks(doc_id: str, chunks: Iterable[StoredChunk], index: ExistingIndex) -> JoinedChunks:
    """Join chunks in the order of their pages and positions."""
    joined = JoinedChunks()
    position = 0
    for chunk in chunks:
        number, position = position, chunk.position  # of the chunk before, even if left out
        last = joined.chunks[-1] if joined.chunks else None
        if not chunk.text:
            joined.left_out += chunk.vectors
        elif last is None:
            chunk.start = chunk.position if index.start_index_key else 0
            if chunk.start > WHITE_SPACE:
                joined.gaps.append(Gap(doc_id, None, chunk.vectors[0], chunk.start))
            joined.chunks.append(chunk)
        else:
            distance, between = _step(last, chunk, number, index)
            chunk.start = last.end + (1 if distance is None else distance)
            if chunk.end <= last.end:
                joined.left_out += chunk.vectors
                continue
            if between is None:
                joined.gaps.append(Gap(doc_id, last.vectors[0], chunk.vectors[0], distance))
                joined.chunks.append(StoredChunk("", last.metadata, [], start=last.end))
            else:
                last.text = (last.text + between)[: chunk.start - last.start]
            joined.chunks.append(chunk)
    return joined


# Where a chunk stands after the last one: the characters between the two, negative for overlap and
# None if unknown; and the text to put there, None for a gap.
_Step = tuple[int | None, str | None]


def _step(last: StoredChunk, chunk: StoredChunk, number: int, index: ExistingIndex) -> _Step:
    by_number = index.start_index_key is None and index.chunk_index_key is not None
    if chunk.page != last.page:
        # Numbers go on from page to page, or begin again.
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
