"""Finds text that the end of one chunk shares with the beginning of the next."""

SURE_OVERLAP = 24
"""Neighbors with this many equal characters overlap; fewer may be equal by chance."""

# Chunks of a splitter overlap less than this.
_LONGEST_OVERLAP = 10_000


def overlap(before: str, after: str) -> int:
    """Return the length of the longest end of one text that begins the next, 0 if by chance.

    `SURE_OVERLAP` characters are not equal by chance.
    """
    longest = min(len(before) - 1, len(after) - 1, _LONGEST_OVERLAP)
    if longest < SURE_OVERLAP:
        return 0
    beginning = after[:SURE_OVERLAP]
    start = before.find(beginning, len(before) - longest)
    while start >= 0:
        if after.startswith(before[start:]):
            return len(before) - start
        start = before.find(beginning, start + 1)
    return 0


def chunk_overlap(before: str, after: str) -> int:
    """Return the length of an overlap that only chunks of one text have, 0 if there is none.

    A header, a footer or a row that is repeated within one of the texts is no such overlap.
    """
    length = overlap(before, after)
    shared = after[:length]
    is_repeated = shared in before[:-1] or shared in after[1:]
    return 0 if length == 0 or is_repeated else length
