"""Bars on a strip that stands for a document, in HTML and in characters."""

import math
from collections.abc import Iterable, Sequence

NOTHING = "·"
"""The character of a strip where nothing is."""

BLOCKS = "▁▂▃▄▅▆▇█"
"""The characters of a strip by the height of a bar."""

_FEWEST_CELLS = 10


def bar_as_html(tag: str, start: int, end: int, length: int) -> str:
    """Draw the characters from ``start`` to before ``end`` of a document of that length."""
    left = 100 * start / length
    width = 100 * (end - start) / length
    return f'<{tag} style="left:{left:.2f}%;width:{width:.2f}%"></{tag}>'


def strip_of(bars: Iterable[Sequence[float]], length: int, cells: int) -> str:
    """Draw a document of that length in ``cells`` characters.

    Each bar is the start and end of a part of the document, in characters, and a height from 0 to
    1. Where bars overlap, the highest is drawn. There are at least ten cells.
    """
    cells = max(cells, _FEWEST_CELLS)
    symbols = NOTHING + BLOCKS
    levels = [0] * cells
    for start, end, height in bars:
        level = min(int(height * len(BLOCKS)) + 1, len(BLOCKS))
        first_cell = int(start * cells / length)
        end_cell = math.ceil(end * cells / length)
        end_cell = max(end_cell, first_cell + 1)  # the shortest part is seen
        for cell in range(first_cell, min(end_cell, cells)):
            levels[cell] = max(levels[cell], level)
    return "".join(symbols[level] for level in levels)
