"""Joining the chunks of a document into one text: overlap out, white space in, gaps marked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from langchain_rse.adopting.chunks import StoredChunk
from langchain_rse.adopting.index import ExistingIndex
from langchain_rse.adopting.report import Gap
from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.overlap import WHITE_SPACE, agrees, is_stripped, overlap, white_space

_PAGE_BREAK = "\n\n"


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
