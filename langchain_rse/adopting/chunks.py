"""The chunks of an existing index: their positions in their documents, overlap, and gaps."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from langchain_core.documents import Document
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from langchain_rse._messages import did_you_mean
from langchain_rse.adopting.existing_index import ExistingIndex, Gap
from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.source_documents import LONGEST_OVERLAP, SURE_OVERLAP
from langchain_rse.stores.vectorstores import IN_ORDER

# Some stores keep integers as floats or strings: accept both.
_WHOLE_NUMBER: TypeAdapter[int] = TypeAdapter(NonNegativeInt)
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")

EXCERPT = 40
"""Length of quoted text in messages, in characters."""


class AdoptedChunk(NamedTuple):
    """A chunk of an existing index; first as it is stored, then without overlap.

    Attributes:
        text: Its text; empty for a gap.
        metadata: Its metadata; for text without a vector, that of the chunk before it.
        vectors: Ids of all vectors with this text and position; may be empty.
        start: As stored: the position of its first character in the page, its number, or its rank
            in the store. Then: the position of its first character in the document.
        end: The position after its last character.
        page: The number of its page; 0 without pages.
    """

    text: str
    metadata: Mapping[str, Any]
    vectors: list[str]
    start: int
    end: int
    page: int = 0

    @property
    def description(self) -> str:
        """The chunk's name in messages."""
        page = f"page {self.page}, " if self.page else ""
        return f"{self.vectors[0]!r} ({page}position {self.start}, begins {self.text[:EXCERPT]!r})"


# Positions from metadata


def document_name(value: object) -> str | None:
    """Read a document's name, a string or an integer; None for another value or an empty one."""
    return str(value) if isinstance(value, (str, int)) and value != "" else None


def doc_id_of(document: Document, index: ExistingIndex, kind: str = "chunk") -> str:
    """Return the id of a chunk's document; raise an AdoptionError if it has none."""
    if index.doc_id_key is None:
        return str(index.doc_id)
    fields = document.metadata
    value = fields.get(index.doc_id_key)
    name = document_name(value)
    if name is None:
        raise AdoptionError(
            f"the {kind} that begins {document.page_content[:EXCERPT]!r} has "
            f"{index.doc_id_key}={value!r} in its metadata; doc_id_key must name a field with the "
            f"document's name, a string or an integer. Its metadata: {fields!r:.500}. If all "
            "chunks belong to one document, name it instead: doc_id='handbook'"
            f"{did_you_mean(index.doc_id_key, fields)}"
        )
    return name


def read_chunks(documents: Mapping[str, Document], index: ExistingIndex) -> list[AdoptedChunk]:
    """Read the positions of a document's chunks, given by vector id.

    Raises:
        AdoptionError: If a position field does not hold an integer.
    """
    position_key = index.start_index_key or index.chunk_index_key
    is_in_given_order = index.in_store_order or index.texts is not None
    chunks: list[AdoptedChunk] = []
    for number, (vector, document) in enumerate(documents.items()):
        page = 0
        if index.page_key is not None:
            page = _whole_number(document, index.page_key)
        start = number if is_in_given_order else 0
        if position_key is not None:
            start = _whole_number(document, position_key)
        text = document.page_content
        end = start + len(text)
        chunks.append(AdoptedChunk(text, document.metadata, [vector], start, end, page))
    return chunks


def merge_equal(chunks: Iterable[AdoptedChunk]) -> list[AdoptedChunk]:
    """Sort chunks by position; merge chunks with equal text at the same position.

    At the same position, longer chunks come before the chunks that they contain.
    """
    merged: dict[tuple[int, int, int, str], AdoptedChunk] = {}
    for chunk in chunks:
        place = (chunk.page, chunk.start, -len(chunk.text), chunk.text)
        if place in merged:
            merged[place].vectors.extend(chunk.vectors)
        else:
            merged[place] = chunk
    return [merged[place] for place in sorted(merged)]


def merge_copies(chunks: Sequence[AdoptedChunk]) -> list[AdoptedChunk]:
    """Merge the copies of a document that was added several times, in order without positions.

    Returns the chunks of the first copy.
    """
    contents = [(chunk.page, chunk.text) for chunk in chunks]
    for length in range(1, len(chunks) // 2 + 1):
        count, incomplete = divmod(len(chunks), length)
        if not incomplete and contents == contents[:length] * count:
            first_copy = list(chunks[:length])
            for number, chunk in enumerate(chunks[length:]):
                original = first_copy[number % length]
                original.vectors.extend(chunk.vectors)
            return first_copy
    return list(chunks)


def whole_number(value: object) -> int | None:
    """Read an integer of at least 0, even if a store keeps it as a float or string; else None."""
    if isinstance(value, bool):
        return None
    try:
        return _WHOLE_NUMBER.validate_python(value)
    except ValidationError:
        return None


def _whole_number(document: Document, key: str) -> int:
    value = document.metadata.get(key)
    number = whole_number(value)
    if number is None:
        raise AdoptionError(
            f"chunk {document.id!r} has {key}={value!r} in its metadata; this field must hold "
            f"integers of at least 0. Its metadata: {document.metadata!r:.500}. Name another "
            "field, or drop it and set in_store_order=True and chunk_overlap: chunks are then read "
            f"in insertion order (supported by {IN_ORDER})"
        )
    return number


# Positions in a whole text


def find_in_text(whole: Document, chunks: Sequence[AdoptedChunk]) -> list[AdoptedChunk]:
    """Locate each chunk in the text, after the start of the previous chunk or else anywhere.

    Returns the chunks in the given order, with their positions in the text. The document's metadata
    is added, because chunks may have only some of it.

    Raises:
        AdoptionError: If the text does not contain a chunk.
    """
    text = whole.page_content
    places = [(chunk.page, chunk.start, number) for number, chunk in enumerate(chunks)]
    placed = list(chunks)
    start = -1
    for _, _, number in sorted(places):
        chunk = chunks[number]
        start = text.find(chunk.text, start + 1)
        if start < 0:
            start = text.find(chunk.text)
        if start < 0:
            raise AdoptionError(
                f"chunk {chunk.vectors[0]!r}, which begins {chunk.text[:EXCERPT]!r}, was not found "
                "in the document's text in texts: it is from another version, or its splitter "
                "changes the text. Summaries and questions, as used by MultiVectorRetriever, are "
                "not part of the text and cannot be adopted; use add_documents instead, with "
                "headers= for context in front of each chunk"
            )
        metadata = {**whole.metadata, **chunk.metadata}
        end = start + len(chunk.text)
        placed[number] = chunk._replace(metadata=metadata, page=0, start=start, end=end)
    return placed


def cut_text(text: str, chunks: Iterable[AdoptedChunk]) -> list[AdoptedChunk]:
    """Cut a text at the starts of its chunks, given in text order.

    Letters or digits between two chunks become a chunk without a vector. Chunks inside earlier
    chunks are dropped.
    """
    pieces: list[AdoptedChunk] = []
    end = 0
    for chunk in chunks:
        if not chunk.text or chunk.end <= end:
            continue
        pieces += _text_between(text, end, chunk.start, pieces[-1] if pieces else chunk)
        pieces.append(chunk)
        end = chunk.end
    if not pieces:
        return []
    pieces += _text_between(text, end, len(text), pieces[-1])
    cuts = [0, *(piece.start for piece in pieces[1:]), len(text)]
    joined: list[AdoptedChunk] = []
    for piece, (start, end) in zip(pieces, pairwise(cuts), strict=True):
        joined.append(piece._replace(start=start, end=end, text=text[start:end]))
    return joined


def _text_between(text: str, start: int, end: int, neighbor: AdoptedChunk) -> list[AdoptedChunk]:
    """Return the text between two chunks as a chunk, if it has a letter or digit."""
    content = text[start:end].lstrip()
    if _LETTER_OR_DIGIT.search(content) is None:
        return []
    return [AdoptedChunk(content, neighbor.metadata, [], end - len(content), end)]


# Joining chunks

# Without positions, the text that neighboring chunks share is measured, given the most that they
# may share. Splitters repeat whole pieces at the beginning of a chunk: as many lines, sentences,
# words or characters from the end of the previous chunk as fit into the overlap. So neighbors may
# share less than the overlap, or no text at all. In repetitive text, several lengths may fit, or
# equal words may be either an overlap or a real repetition; such chunks are refused.

# Up to this many missing characters between two chunks count as white space that the splitter
# stripped: a blank line and the indentation of deeply nested code.
_STRIPPED = 32

_PAGE_BREAK = "\n\n"

# The assumed length of a gap of unknown length.
_UNKNOWN_LENGTH = 1

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
            if gap is None:
                _extend(joined, _PAGE_BREAK)
            else:
                before = joined[-1]
                end = before.end + (gap.length or _UNKNOWN_LENGTH)
                joined.append(AdoptedChunk("", before.metadata, [], before.end, end))
            page_start = joined[-1].end - start
        elif index.start_index_key is None:
            page_start = _start_with_overlap(joined, last, chunk, index)
            shared_lengths.append(joined[-1].end - page_start)
        if _append(joined, chunk, page_start + start, last):
            last = chunk
    _check_no_repetition(chunks, [length for length in shared_lengths if length])
    return joined, gaps


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
            "the overlap of neighboring chunks is unknown without positions (start_index, which "
            f"splitters write with add_start_index=True). {_TEXTS}. Without the documents, state "
            f"the splitter's chunk_overlap, 0 for none: {stated}, chunk_overlap=...). To find it "
            "out, compare the end of a chunk with the beginning of the next"
        )
    shared = _shared_length(last.text, chunk.text, index.chunk_overlap)
    if shared is None:
        raise AdoptionError(
            f"with chunk_overlap={index.chunk_overlap}, the number of characters that two chunks "
            f"share is too high, or is ambiguous: {last.description} and {chunk.description}. "
            f"{_TEXTS}"
        )
    has_white_space = last.text[-1].isspace() or chunk.text[0].isspace()
    if shared == 0 and not has_white_space:
        _extend(joined, index.separator)
    return joined[-1].end - shared


# A stated overlap


def _equal_lengths(before: str, after: str) -> list[int]:
    """Return all lengths at which the end of one text begins the next, ascending."""
    lengths: list[int] = []
    longest = min(len(before), len(after), LONGEST_OVERLAP)
    first = after[:1]
    start = before.find(first, len(before) - longest)
    while start >= 0:
        if after.startswith(before[start:]):
            lengths.append(len(before) - start)
        start = before.find(first, start + 1)
    return lengths[::-1]


def _shared_length(before: str, after: str, max_overlap: int) -> int | None:
    """Return how many characters two neighbors share; None if that is ambiguous."""
    if max_overlap == 0:
        return 0
    longest = 0
    whole: list[int] = []  # lengths of whole lines, sentences or words
    for length in _equal_lengths(before, after):
        if length > max_overlap:
            if SURE_OVERLAP <= length < min(len(before), len(after)):
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
    least = min(*shared_lengths, SURE_OVERLAP)
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
