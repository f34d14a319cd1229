"""Measures the overlap between the end of one chunk and the beginning of the next."""

SURE_OVERLAP = 24
"""Number of equal characters that make an overlap certain; fewer may match by chance."""

# No splitter uses a longer overlap.
_LONGEST_OVERLAP = 10_000


def overlap(before: str, after: str) -> int:
    """Return the length of the longest end of one text that begins the next.

    Return 0 for a match of fewer than `SURE_OVERLAP` characters, which may be chance.
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
