"""Measures how far neighboring chunks overlap, and guesses white space stripped between them."""

WHITE_SPACE = 16
"""Splitters strip white space, indentation included: up to this many missing characters between
two chunks are taken for stripped white space."""

SURE_OVERLAP = 24
"""Neighbors with this many equal characters overlap; fewer may be equal by chance."""

# Chunks of a splitter overlap less than this.
_LONGEST_OVERLAP = 10_000


def white_space(length: int) -> str:
    """The white space that was most likely stripped: a space, or a blank line and indentation."""
    return " " if length == 1 else "\n\n".ljust(length)[: max(length, 0)]


def agrees(text: str, start: int, chunk: str) -> bool:
    """Return True if a chunk that starts within a text, or after it, does not contradict it."""
    there = text[start:]
    return there.startswith(chunk) or chunk.startswith(there)


def is_stripped(before: str, after: str) -> bool:
    """Return True if there is no white space where two texts meet."""
    return not (before[-1:].isspace() or after[:1].isspace())


def overlap(before: str, after: str, most: int | None = None) -> int:
    """The length of the longest end of one text that begins the next, 0 if equal by chance.

    `SURE_OVERLAP` characters are not equal by chance; if chunks are known to overlap, by at most
    ``most`` characters, fewer count as well if they are whole words.
    """
    limit = _LONGEST_OVERLAP if most is None else most
    longest = min(len(before) - 1, len(after) - 1, limit)
    if longest >= SURE_OVERLAP:
        beginning = after[:SURE_OVERLAP]
        place = before.find(beginning, len(before) - longest)
        while place >= 0:
            if after.startswith(before[place:]):
                return len(before) - place
            place = before.find(beginning, place + 1)
    for shared in range(min(longest, SURE_OVERLAP - 1) if most else 0, 0, -1):
        if before.endswith(after[:shared]):
            ends = before[-shared - 1 :][:2], after[shared - 1 : shared + 1]
            has_words = any(map(str.isalnum, after[:shared]))
            if has_words and not any(map(str.isalnum, ends)):
                return shared
    return 0
