"""Joins the chunks of a document from an existing index, and finds gaps.

Without positions, the text that neighboring chunks share is measured, given the most that they may
share. Splitters repeat whole pieces at the beginning of a chunk: as many lines, sentences, words or
characters from the end of the previous chunk as fit into the overlap. So neighbors may share less
than the overlap, or no text at all. In repetitive text, several lengths may fit, or equal words may
be either an overlap or a real repetition; such chunks are refused.
"""

import re
from collections.abc import Iterable, Sequence

from langchain_rse.adopting.chunks import AdoptedChunk
from langchain_rse.adopting.existing_index import ExistingIndex, Gap
from langchain_rse.errors import AdoptionError

# Up to this many missing characters between two chunks count as white space that the splitter
# stripped: a blank line and the indentation of deeply nested code.
_STRIPPED = 32

_PAGE_BREAK = "\n\n"

# The assumed length of a gap of unknown length.
_UNKNOWN_LENGTH = 1

# This many equal characters make an overlap certain; fewer may match by chance.
_SURE_OVERLAP = 24
# No splitter uses a longer overlap.
_LONGEST_OVERLAP = 10_000
# Up to this many equal characters in the middle of a word are a chance match.
_BY_CHANCE = 4
# Longest immediate repetition that is searched for, in words.
_LONGEST_REPETITION = 50

_LAST_WORD = re.compile(r"\S*\s*\Z")
_ENDS_OF_SENTENCES = (".", "!", "?", "\u3002")

_CONTRADICTION = (
    "If one belongs to an older version of the document, delete it. If positions start again on "
    "each page, set page_key. If the store lists the chunks of a page in order, set "
    "in_store_order=True"
)

_TEXTS = "Pass the documents that the index was made from: ExistingIndex(texts=loader.load())"


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
    _check_no_repetition(chunks, [length for length in shared_lengths if length])
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
            "the index was split without add_start_index=True, so the overlap of neighboring "
            f"chunks is unknown. {_TEXTS}. Without the documents, state the chunk_overlap of the "
            f"splitter that made the chunks, 0 for none: {stated}, chunk_overlap=...). To find "
            "out, compare the end of a chunk with the beginning of the next"
        )
    shared = _shared_length(last.text, chunk.text, index.chunk_overlap)
    if shared is None:
        raise AdoptionError(
            f"with chunk_overlap={index.chunk_overlap}, the number of characters that two chunks "
            f"share is ambiguous: {last.description} and {chunk.description}. {_TEXTS}"
        )
    has_white_space = last.text[-1].isspace() or chunk.text[0].isspace()
    if shared == 0 and not has_white_space:
        _extend(joined, index.separator)
    return joined[-1].end - shared


# A stated overlap


def _equal_lengths(before: str, after: str) -> list[int]:
    """Return all lengths at which the end of one text begins the next, ascending."""
    lengths: list[int] = []
    longest = min(len(before), len(after), _LONGEST_OVERLAP)
    start = before.find(after[0], len(before) - longest)
    while start >= 0:
        if after.startswith(before[start:]):
            lengths.append(len(before) - start)
        start = before.find(after[0], start + 1)
    return lengths[::-1]


def _shared_length(before: str, after: str, max_overlap: int) -> int | None:
    """Return how many characters two neighbors share; None if that is ambiguous."""
    if max_overlap == 0:
        return 0
    longest = 0
    whole: list[int] = []  # lengths of whole lines, sentences or words
    for length in _equal_lengths(before, after):
        if length > max_overlap:
            if _SURE_OVERLAP <= length < min(len(before), len(after)):
                return None
            continue
        fills_overlap = before[-max_overlap:].lstrip() == after[:length]
        cuts_word = _cuts_word(before, after, length)
        if cuts_word and not fills_overlap and length <= _BY_CHANCE:
            continue
        longest = length
        has_whole_words = not cuts_word and _has_whole_pieces(before, after, length, max_overlap)
        if fills_overlap or has_whole_words:
            whole.append(length)
    if longest == 0:
        return 0
    is_certain = whole == [longest] and _stands_once(before, after, longest, max_overlap)
    return longest if is_certain else None


def _cuts_word(before: str, after: str, length: int) -> bool:
    """True if an overlap of this length begins or ends in the middle of a word."""
    start = len(before) - length
    begins_in_word = before[max(start - 1, 0) : start].isalnum() and after[0].isalnum()
    ends_in_word = after[length - 1].isalnum() and after[length : length + 1].isalnum()
    return begins_in_word or ends_in_word


def _has_whole_pieces(before: str, after: str, length: int, max_overlap: int) -> bool:
    """True if an overlap consists of lines or sentences, or of as many words as fit."""
    rest, following = before[:-length], after[length:]
    last_word = _LAST_WORD.search(rest)
    has_all_words = last_word is not None and length + len(last_word[0]) > max_overlap
    space_before = rest[len(rest.rstrip()) :]
    space_after = following[: len(following) - len(following.lstrip())]
    has_lines = "\n" in space_before and "\n" in space_after
    ends = (before, rest.rstrip())
    has_sentences = all(text.endswith(_ENDS_OF_SENTENCES) for text in ends)
    return has_all_words or has_lines or has_sentences


def _stands_once(before: str, after: str, length: int, max_overlap: int) -> bool:
    """True if the shared text occurs once in the joined chunks and is not all of either."""
    if length in {len(before), len(after)}:
        return False
    rest = before[:-length]
    stripped = len(rest) - len(rest.rstrip())  # white space that counts as overlap
    joined = before + after[length:]
    shared = after[:length]
    is_first = joined.find(shared) == len(rest)
    is_last = joined.rfind(shared) == len(rest)
    return length + stripped <= max_overlap and is_first and is_last


def _check_no_repetition(chunks: Iterable[AdoptedChunk], shared_lengths: Sequence[int]) -> None:
    """Refuse chunks with an immediately repeated passage as long as text that neighbors share.

    In such a text, a match between two chunks may be a real repetition instead of an overlap.
    """
    if not shared_lengths:
        return
    least = min(*shared_lengths, _SURE_OVERLAP)
    for chunk in chunks:
        words = chunk.text.split()
        for count in range(1, min(_LONGEST_REPETITION, len(words) // 2) + 1):
            equal = 0  # consecutive words that equal the word `count` words later
            for number in range(len(words) - count):
                equal = equal + 1 if words[number] == words[number + count] else 0
                passage = " ".join(words[number + 1 : number + 1 + count])
                if equal >= count and len(passage) >= least:
                    raise AdoptionError(
                        f"it repeats text ({passage!r:.100}), so overlap cannot be distinguished "
                        f"from repetition. {_TEXTS}"
                    )
