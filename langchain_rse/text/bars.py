"""Draws bars on a strip that represents a document, in HTML and in characters."""

import math
from collections.abc import Iterable, Sequence

NOTHING = "·"
"""The character for an empty part of a strip."""

BLOCKS = "▁▂▃▄▅▆▇█"
"""The characters for bars, by height."""

_FEWEST_CELLS = 10


def bar_as_html(tag: str, start: int, end: int, length: int) -> str:
    """Draw the range ``start`` to ``end`` (exclusive) of a document of ``length`` characters."""
    left = 100 * start / length
    width = 100 * (end - start) / length
    return f'<{tag} style="left:{left:.2f}%;width:{width:.2f}%"></{tag}>'


def strip_of(bars: Iterable[Sequence[float]], length: int, cells: int) -> str:
    """Draw a document of ``length`` characters as a strip of ``cells`` characters, at least ten.

    Each bar is a tuple of start, end (in characters of the document) and height (0 to 1). Where
    bars overlap, the highest is drawn.
    """
    cells = max(cells, _FEWEST_CELLS)
    symbols = NOTHING + BLOCKS
    levels = [0] * cells
    for start, end, height in bars:
        level = min(int(height * len(BLOCKS)) + 1, len(BLOCKS))
        first_cell = int(start * cells / length)
        end_cell = math.ceil(end * cells / length)
        end_cell = max(end_cell, first_cell + 1)  # at least one cell
        for cell in range(first_cell, min(end_cell, cells)):
            levels[cell] = max(levels[cell], level)
    return "".join(symbols[level] for level in levels)
