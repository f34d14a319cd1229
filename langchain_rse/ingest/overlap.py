"""Measures by how many characters the end of a chunk overlaps the beginning of the next one."""

SURE_OVERLAP = 24
"""Neighbors with this many equal characters overlap; fewer may be equal by chance."""

# Chunks of a splitter overlap less than this.
_LONGEST_OVERLAP = 10_000


def overlap(before: str, after: str, max_overlap: int | None = None) -> int:
    """Return the length of the longest end of one text that begins the next, 0 if by chance.

    `SURE_OVERLAP` characters are not equal by chance. If chunks are known to overlap, by at most
    ``max_overlap`` characters, fewer count as well if they are whole words.
    """
    limit = _LONGEST_OVERLAP
    if max_overlap is not None:
        limit = max_overlap
    longest = min(len(before) - 1, len(after) - 1, limit)
    length = _long_overlap(before, after, longest)
    if length == 0 and max_overlap is not None:
        length = _overlap_of_words(before, after, min(longest, SURE_OVERLAP - 1))
    return length


def sure_overlap(before: str, after: str) -> int | None:
    """Return the length of a sure overlap, or 0; None if the text there repeats itself.

    If text repeats itself, more characters may be equal than the chunks share.
    """
    length = overlap(before, after)
    if length == 0:
        return 0
    overlap_without_first = overlap(before[1 - length :], after)
    if 2 * overlap_without_first >= length:
        return None
    return length


def _long_overlap(before: str, after: str, longest: int) -> int:
    """Return the longest overlap of at least `SURE_OVERLAP` characters, 0 if there is none."""
    if longest < SURE_OVERLAP:
        return 0
    beginning = after[:SURE_OVERLAP]
    start = before.find(beginning, len(before) - longest)
    while start >= 0:
        if after.startswith(before[start:]):
            return len(before) - start
        start = before.find(beginning, start + 1)
    return 0


def _overlap_of_words(before: str, after: str, longest: int) -> int:
    """Return the longest overlap that consists of whole words, 0 if there is none."""
    for length in range(longest, 0, -1):
        shared = after[:length]
        if not before.endswith(shared):
            continue
        has_words = any(character.isalnum() for character in shared)
        if has_words and not _cuts_word(before, after, length):
            return length
    return 0


def _cuts_word(before: str, after: str, length: int) -> bool:
    """Return True if an overlap of a length begins or ends in the middle of a word."""
    start = len(before) - length
    begins_in_word = before[start - 1].isalnum() and before[start].isalnum()
    ends_in_word = after[length - 1].isalnum() and after[length].isalnum()
    return begins_in_word or ends_in_word
