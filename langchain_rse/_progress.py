"""Progress bars, drawn by tqdm."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from langchain_rse._messages import load

Advance = Callable[[int], object]
"""Advances a progress bar by a number of items."""


def no_progress(count: int) -> None:
    """Count nothing: no progress bar is shown."""


@contextmanager
def progress_bar(total: int | None, *, unit: str, title: str, show: bool) -> Iterator[Advance]:
    """Show a progress bar if ``show`` is True; yield the function that advances it."""
    if not show:
        yield no_progress
        return
    tqdm = load("tqdm", "progress", "show_progress=True").tqdm
    with tqdm(total=total, unit=f" {unit}", desc=title) as bar:
        yield bar.update
