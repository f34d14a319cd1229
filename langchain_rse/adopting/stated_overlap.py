"""Measures the text that neighboring chunks share, given the most that they may share.

Splitters repeat whole pieces at the beginning of a chunk: as many lines, sentences, words or
characters from the end of the previous chunk as fit into the overlap. So neighbors may share less
than the overlap, or no text at all. In repetitive text, several lengths may fit, or equal words may
be either an overlap or a real repetition; such chunks are refused.
"""

import re
from collections.abc import Iterable, Sequence

from langchain_rse.adopting.chunks import AdoptedChunk
from langchain_rse.errors import AdoptionError

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


def shared_length(before: str, after: str, max_overlap: int) -> int | None:
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


def check_no_repetition(chunks: Iterable[AdoptedChunk], shared_lengths: Sequence[int]) -> None:
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
                        f"a passage is repeated ({passage!r:.100} in {chunk.description}), so "
                        "text that neighbors share may be a repetition instead of an overlap"
                    )
