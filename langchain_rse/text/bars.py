"""Draws a document as a strip with bars, in HTML and in characters."""

import math
from collections.abc import Iterable, Sequence

EMPTY = "·"
"""The character of a strip without a bar."""

BLOCKS = "▁▂▃▄▅▆▇█"
"""The characters of bars, from the lowest to the highest."""

_FEWEST_CELLS = 10


def bar_as_html(tag: str, start: int, end: int, length: int) -> str:
    """Draw the characters from ``start`` to ``end`` (exclusive) of a document as an element."""
    left = 100 * start / length
    width = 100 * (end - start) / length
    return f'<{tag} style="left:{left:.2f}%;width:{width:.2f}%"></{tag}>'


def strip_of(bars: Iterable[Sequence[float]], length: int, cells: int) -> str:
    """Draw a document as a strip of characters.

    Args:
        bars: The start, end (exclusive) and height (0 to 1) of each bar. Where bars overlap, the
            highest is drawn.
        length: The length of the document in characters.
        cells: The length of the strip, at least ten.
    """
    cells = max(cells, _FEWEST_CELLS)
    symbols = EMPTY + BLOCKS
    levels = [0] * cells
    for start, end, height in bars:
        level = min(int(height * len(BLOCKS)) + 1, len(BLOCKS))
        first_cell = int(start * cells / length)
        end_cell = math.ceil(end * cells / length)
        end_cell = max(end_cell, first_cell + 1)  # every bar is visible
        for cell in range(first_cell, min(end_cell, cells)):
            levels[cell] = max(levels[cell], level)
    return "".join(symbols[level] for level in levels)
