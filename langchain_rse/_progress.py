"""Progress bars; need tqdm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], object]
"""Advances a progress bar by a number of items."""


@contextmanager
def progress_bar(total: int | None, *, unit: str, title: str, show: bool) -> Iterator[Advance]:
    """Show a progress bar; yield the function that advances it.

    Args:
        total: Number of items; None if unknown.
        unit: What the items are, in the plural.
        title: Text in front of the bar.
        show: False for no bar.

    Raises:
        ImportError: If ``show`` is True and tqdm is not installed.
    """
    if not show:
        yield lambda _: None
        return
    try:
        from tqdm import tqdm  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "show_progress=True needs tqdm: pip install 'langchain-rse[progress]'"
        ) from error
    with tqdm(total=total, unit=f" {unit}", desc=title) as bar:
        yield bar.update
