"""Draws a document as a strip of characters with bars."""

from collections.abc import Iterable

_LEVELS = "·▁▂▃▄▅▆▇█"  # no bar, then from the lowest to the highest

_FEWEST_CELLS = 10


def strip_of(bars: Iterable[tuple[int, int, float]], length: int, cells: int) -> str:
    """Draw a document as a strip of characters.

    Args:
        bars: The start, end (exclusive) and height (0 to 1) of each bar. Where bars overlap, the
            highest is drawn.
        length: The length of the document in characters.
        cells: The length of the strip, at least ten.
    """
    cells = max(cells, _FEWEST_CELLS)
    levels = [0] * cells
    for start, end, height in bars:
        level = min(int(height * 8) + 1, 8)
        first = start * cells // length
        end_cell = max(-(-end * cells // length), first + 1)  # every bar is visible
        levels[first:end_cell] = [max(each, level) for each in levels[first:end_cell]]
    return "".join(_LEVELS[level] for level in levels)
