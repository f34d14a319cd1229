"""Joins the chunks of a document from an existing index, and finds gaps."""

from collections.abc import Sequence

from langchain_rse.adopting.chunks import AdoptedChunk
from langchain_rse.adopting.existing_index import ExistingIndex, Gap
from langchain_rse.adopting.stated_overlap import check_no_repetition, shared_length
from langchain_rse.errors import AdoptionError

# Up to this many missing characters between two chunks count as white space that the splitter
# stripped: a blank line and the indentation of deeply nested code.
_STRIPPED = 32

_PAGE_BREAK = "\n\n"

# The assumed length of a gap of unknown length.
_UNKNOWN_LENGTH = 1

_CONTRADICTION = (
    "If one belongs to an older version of the document, delete it. If positions start again on "
    "each page, set page_key. If the store lists the chunks of a page in order, set "
    "in_store_order=True"
)

_POSITIONS = (
    "Alternatively, provide positions: start_index_key (the field that splitters write with "
    "add_start_index=True) or texts (the documents' whole texts). Or index the documents with "
    "add_documents"
)


class UnstatedOverlapError(AdoptionError):
    """The overlap of neighboring chunks is unknown, which concerns the whole index."""


def join_chunks(
    doc_id: str, chunks: Sequence[AdoptedChunk], index: ExistingIndex
) -> tuple[list[AdoptedChunk], list[Gap]]:
    """Join chunks, sorted by position; return them with the gaps between them.

    Overlap belongs to the later chunk. Chunks that add no text are dropped. Stripped white space
    between chunks is restored.

    Raises:
        AdoptionError: If two chunks disagree about the text they share, or its length is unknown.
    """
    joined: list[AdoptedChunk] = []
    gaps: list[Gap] = []
    shared_lengths: list[int] = []
    last: AdoptedChunk | None = None  # the chunk, as stored, that reaches furthest
    last_position = 0  # position of the previous chunk, empty or not
    page_start = 0  # position of the page in the document
    for chunk in chunks:
        position_before = last_position
        last_position = chunk.start
        if not chunk.text:
            continue
        gap = _gap_before(doc_id, last, chunk, position_before, index)
        if gap is not None:
            gaps.append(gap)
        start = chunk.start if index.start_index_key is not None else 0
        if last is None:
            page_start = 0
        elif gap is not None or chunk.page != last.page:
            _end_run(joined, gap)
            page_start = joined[-1].end - start
        elif index.start_index_key is None:
            page_start = _start_with_overlap(joined, last, chunk, index)
            shared_lengths.append(joined[-1].end - page_start)
        if _append(joined, chunk, page_start + start, last):
            last = chunk
    check_no_repetition(chunks, [length for length in shared_lengths if length])
    return joined, gaps


def _end_run(joined: list[AdoptedChunk], gap: Gap | None) -> None:
    """End a page, or add a chunk without text for a gap."""
    if gap is None:
        _extend(joined, _PAGE_BREAK)
        return
    last = joined[-1]
    end = last.end + (gap.length or _UNKNOWN_LENGTH)
    joined.append(AdoptedChunk("", last.metadata, [], last.end, end))


def _extend(joined: list[AdoptedChunk], text: str) -> None:
    """Add text to the last chunk."""
    last = joined[-1]
    joined[-1] = last._replace(text=last.text + text, end=last.end + len(text))


def _append(
    joined: list[AdoptedChunk], chunk: AdoptedChunk, start: int, last: AdoptedChunk | None
) -> bool:
    """Add a chunk at its start in the document; False if its text is known already."""
    if joined:
        before = joined[-1]
        missing = start - before.end
        if missing > 0:
            # A guess: a space, or a blank line and indentation.
            _extend(joined, " " if missing == 1 else "\n\n" + " " * (missing - 2))
        elif missing < 0:
            shared = before.text[missing:]
            is_inside = shared.startswith(chunk.text)
            if last is not None and not is_inside and not chunk.text.startswith(shared):
                both = f"{last.description} and {chunk.description}"
                raise AdoptionError(
                    f"two chunks disagree about the text they share: {both}. {_CONTRADICTION}"
                )
            if is_inside:
                return False
            joined[-1] = before._replace(text=before.text[:missing], end=start)
    joined.append(chunk._replace(start=start, end=start + len(chunk.text)))
    return True


def _gap_before(
    doc_id: str,
    last: AdoptedChunk | None,
    chunk: AdoptedChunk,
    position_before: int,
    index: ExistingIndex,
) -> Gap | None:
    """Return the gap before a chunk; None if no text is known to be missing."""
    gap = Gap(doc_id, last.vectors[0] if last else None, chunk.vectors[0], None)
    is_on_same_page = last is not None and chunk.page == last.page
    if last is not None and chunk.page > last.page + 1:
        return gap
    if index.start_index_key is not None:
        missing = chunk.start - (last.end if last is not None and is_on_same_page else 0)
        return gap._replace(length=missing) if missing > _STRIPPED else None
    if last is None:
        return None
    if is_on_same_page and chunk.start == last.start:
        both = f"{last.description} and {chunk.description}"
        raise AdoptionError(f"two chunks have the same position: {both}. {_CONTRADICTION}")
    if index.chunk_index_key is None:
        return None
    next_positions = {position_before + 1}
    if not is_on_same_page:
        # Chunk numbers either continue on the next page or start again.
        next_positions |= {0, 1}
    return None if chunk.start in next_positions else gap


def _start_with_overlap(
    joined: list[AdoptedChunk], last: AdoptedChunk, chunk: AdoptedChunk, index: ExistingIndex
) -> int:
    """Return the start of a chunk in the document, given the stated overlap."""
    if index.chunk_overlap is None:
        stated = repr(index).removesuffix(")")
        raise UnstatedOverlapError(
            "the overlap of neighboring chunks is unknown. Pass the chunk_overlap of the splitter "
            f"that made them, 0 for none: {stated}, chunk_overlap=...). To find "
            f"out, compare the end of a chunk with the beginning of the next. {_POSITIONS}"
        )
    shared = shared_length(last.text, chunk.text, index.chunk_overlap)
    if shared is None:
        raise AdoptionError(
            f"with chunk_overlap={index.chunk_overlap}, the number of characters that two chunks "
            f"share is ambiguous: {last.description} and {chunk.description}. {_POSITIONS}"
        )
    has_white_space = last.text[-1].isspace() or chunk.text[0].isspace()
    if shared == 0 and not has_white_space:
        _extend(joined, index.separator)
    return joined[-1].end - shared
