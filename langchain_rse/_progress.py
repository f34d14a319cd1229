"""Progress bars, where tqdm is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Advance", "progress_bar"]

Advance = Callable[[int], object]
"""Moves a progress bar on."""


@contextmanager
def progress_bar(total: int | None, *, unit: str, title: str, show: bool) -> Iterator[Advance]:
    """A progress bar, if wanted.

    Raises:
        ImportError: If it is wanted and tqdm is not installed.
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
