"""Joining the chunks of a document into one text: overlap out, white space in, gaps marked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from langchain_rse.adopting.chunks import StoredChunk
from langchain_rse.adopting.index import ExistingIndex
from langchain_rse.adopting.report import Gap
from langchain_rse.errors import AdoptionError

# Splitters strip white space, indentation included: at most this many missing characters between
# two chunks are taken for it.
_WHITE_SPACE = 16
_PAGE_BREAK = "\n\n"
# Neighbors with this many equal characters overlap; fewer may be equal by chance.
_SURE_OVERLAP = 24


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
            if chunk.start > _WHITE_SPACE:
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
        if index.start_index_key and chunk.position > _WHITE_SPACE:
            return chunk.position, None
        return len(_PAGE_BREAK), _PAGE_BREAK
    if index.start_index_key:
        return _step_by_start(last, chunk)
    if chunk.position == number:
        raise _conflict(last, chunk)
    if by_number and chunk.position > number + 1:
        return None, None
    shared = _overlap(last.text, chunk.text, index.chunk_overlap)
    stripped = not (shared or last.text[-1].isspace() or chunk.text[0].isspace())
    between = index.separator if stripped else ""
    return len(between) - shared, between


def _step_by_start(last: StoredChunk, chunk: StoredChunk) -> _Step:
    distance = chunk.position - last.position - len(last.text)
    there = last.text[distance:] if distance < 0 else ""
    if not (there.startswith(chunk.text) or chunk.text.startswith(there)):
        raise _conflict(last, chunk)
    if distance > _WHITE_SPACE:
        return distance, None
    # A space, or most likely a blank line and indentation.
    return distance, " " if distance == 1 else "\n\n".ljust(distance)[: max(distance, 0)]


def _conflict(*chunks: StoredChunk) -> AdoptionError:
    named = (
        f"{one.vectors[0]!r} (page {one.page}, position {one.position}, begins {one.text[:40]!r})"
        for one in chunks
    )
    return AdoptionError(
        f"two chunks have different texts at one place: {' and '.join(named)}. If one is of an "
        "older version of the document, delete it. If positions count from the top of each page, "
        "set page_key. If the store lists the chunks of a page in order, set in_store_order=True"
    )


def _overlap(before: str, after: str, most: int | None) -> int:
    """Characters of the longest end of one text that begins the next, 0 if equal by chance.

    `_SURE_OVERLAP` characters are no chance; where the index has overlap (`most`), fewer count as
    well if they are whole words.
    """
    longest = min(len(before), len(after)) - 1
    if most is not None:
        longest = min(longest, most)
    for shared in range(longest, 0 if most else _SURE_OVERLAP - 1, -1):
        if before[-shared] == after[0] and before.endswith(after[:shared]):
            ends = before[-shared - 1 :][:2], after[shared - 1 : shared + 1]
            cuts_a_word = any(map(str.isalnum, ends))
            has_words = any(map(str.isalnum, after[:shared]))
            if shared >= _SURE_OVERLAP or (has_words and not cuts_a_word):
                return shared
    return 0
