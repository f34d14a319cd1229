"""Joins the chunks of a document from an existing index, page by page, and finds gaps."""

from collections.abc import Sequence
from typing import NamedTuple

from langchain_rse.adopting.chunks import AdoptedChunk, cut_text
from langchain_rse.adopting.existing_index import ExistingIndex, Gap
from langchain_rse.adopting.joining import STRIPPED, JoinedText, join_by_start
from langchain_rse.adopting.stated_overlap import join_by_overlap
from langchain_rse.errors import AdoptionError, SplittingError

_PAGE_BREAK = "\n\n"

# The assumed length of a gap of unknown length.
_UNKNOWN_LENGTH = 1


class UnstatedOverlapError(AdoptionError):
    """The overlap of neighboring chunks is unknown, which concerns the whole index."""


class _Run(NamedTuple):
    """Consecutive chunks of one page, without missing text between them."""

    chunks: list[AdoptedChunk]
    gap: Gap | None  # the missing text before the run


def join_chunks(
    doc_id: str, chunks: Sequence[AdoptedChunk], index: ExistingIndex
) -> tuple[list[AdoptedChunk], list[Gap]]:
    """Join chunks, sorted by position; return them with the gaps between them.

    Overlap belongs to the later chunk. Chunks that add no text are dropped.

    Raises:
        AdoptionError: If two chunks disagree about the text they share.
    """
    joined: list[AdoptedChunk] = []
    gaps: list[Gap] = []
    for run in _find_runs(doc_id, chunks, index):
        if run.gap is not None:
            gaps.append(run.gap)
        if not joined:
            # Greater than 0 if the beginning of the text is missing.
            start = run.chunks[0].start if index.start_index_key else 0
        else:
            last = joined[-1]
            if run.gap is None:
                text = last.text + _PAGE_BREAK
                joined[-1] = last._replace(text=text, end=last.end + len(_PAGE_BREAK))
            else:
                end = last.end + (run.gap.length or _UNKNOWN_LENGTH)
                joined.append(AdoptedChunk("", last.metadata, [], last.end, end))
            start = joined[-1].end
        text, starts = _join_texts(run.chunks, index)
        joined += cut_text(text, run.chunks, starts, start)
    return joined, gaps


# Runs


def _find_runs(doc_id: str, chunks: Sequence[AdoptedChunk], index: ExistingIndex) -> list[_Run]:
    """Divide chunks where a page ends or text is missing; drop empty chunks."""
    runs: list[_Run] = []
    last: AdoptedChunk | None = None  # the chunk that reaches furthest
    last_position = 0  # position of the previous chunk, empty or not
    for chunk in chunks:
        position_before = last_position
        last_position = chunk.start
        if not chunk.text:
            continue
        if last is None:
            runs.append(_Run([chunk], _gap_at_beginning(doc_id, chunk, index)))
            last = chunk
            continue
        _check_position(last, chunk, index)
        gap = _gap_between(doc_id, last, chunk, position_before, index)
        if gap is not None or chunk.page != last.page:
            runs.append(_Run([chunk], gap))
        else:
            runs[-1].chunks.append(chunk)
        if not _is_inside(last, chunk, index):
            last = chunk
    return runs


def _gap_at_beginning(doc_id: str, first: AdoptedChunk, index: ExistingIndex) -> Gap | None:
    if index.start_index_key is None or first.start <= STRIPPED:
        return None
    return Gap(doc_id, None, first.vectors[0], first.start)


def _gap_between(
    doc_id: str, last: AdoptedChunk, chunk: AdoptedChunk, position_before: int, index: ExistingIndex
) -> Gap | None:
    """Return the gap between two neighbors; None if no text is known to be missing."""
    gap = Gap(doc_id, last.vectors[0], chunk.vectors[0], None)
    is_on_same_page = chunk.page == last.page
    if chunk.page > last.page + 1:
        return gap
    if index.start_index_key is not None:
        end = last.end if is_on_same_page else 0
        missing = chunk.start - end
        if missing > STRIPPED:
            return gap._replace(length=missing)
    elif index.chunk_index_key is not None:
        next_positions = {position_before + 1}
        if not is_on_same_page:
            # Chunk numbers either continue on the next page or start again.
            next_positions |= {0, 1}
        if chunk.start not in next_positions:
            return gap
    return None


def _is_inside(last: AdoptedChunk, chunk: AdoptedChunk, index: ExistingIndex) -> bool:
    """True if a chunk is known to be contained in the previous one."""
    if index.start_index_key is None or chunk.page != last.page:
        return False
    return chunk.end <= last.end


def _check_position(last: AdoptedChunk, chunk: AdoptedChunk, index: ExistingIndex) -> None:
    """Refuse two chunks with the same number; equal start characters are fine."""
    if index.start_index_key is not None or chunk.page != last.page:
        return
    if chunk.start == last.start:
        both = f"{last.description} and {chunk.description}"
        raise AdoptionError(f"two chunks have the same position: {both}. {_CONTRADICTION}")


# Text


def _join_texts(chunks: Sequence[AdoptedChunk], index: ExistingIndex) -> JoinedText:
    if index.start_index_key is not None:
        try:
            return join_by_start(chunks)
        except SplittingError as error:
            raise AdoptionError(f"{error}. {_CONTRADICTION}") from None
    max_overlap = index.chunk_overlap
    if max_overlap is None:
        if len(chunks) > 1:
            raise _unstated_overlap(index)
        max_overlap = 0
    try:
        return join_by_overlap(chunks, max_overlap, index.separator)
    except SplittingError as error:
        raise AdoptionError(f"{error}. {_POSITIONS}") from None


# Messages

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


def _unstated_overlap(index: ExistingIndex) -> UnstatedOverlapError:
    fields = index.model_dump(exclude_defaults=True)
    arguments = "".join(f"{name}={value!r}, " for name, value in fields.items())
    return UnstatedOverlapError(
        "the overlap of neighboring chunks is unknown. Pass the chunk_overlap of the splitter that "
        f"made them, 0 for none: ExistingIndex({arguments}chunk_overlap=...). To find out, compare "
        f"the end of a chunk with the beginning of the next. {_POSITIONS}"
    )
