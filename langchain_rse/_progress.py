"""Progress bars, drawn by tqdm."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

from langchain_rse._messages import load
from langchain_rse.text.quoting import shortened, visible

Advance = Callable[[int], object]
"""Advances a progress bar by a number of items."""

# Without the rate of tqdm's own format, a line of 80 columns has place for a name.
_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
_COUNT = "{desc}: {n_fmt}{unit} [{elapsed}{postfix}]"
_NAME = 20  # characters of a document's name


@contextmanager
def progress_bar(total: int | None, *, unit: str, title: str, show: bool) -> Iterator[Advance]:
    """Show a progress bar if ``show`` is True; yield the function that advances it."""
    with _tqdm(show, total=total, unit=f" {unit}", desc=title) as bar:
        yield (lambda _: None) if bar is None else bar.update


class ChunkBar:
    """A progress bar that counts written chunks and names the current document."""

    def __init__(self) -> None:
        # Characters of all documents, used to estimate the number of chunks. 0 once all
        # documents are split; None if unknown, and then the bar has no total.
        self.length: int | None = None
        self._bar: Any = None
        self._chunks = self._split = 0

    @contextmanager
    def shown(self, *, show: bool) -> Iterator[None]:
        """Show the bar if ``show`` is True; an ImportError if tqdm is missing."""
        with _tqdm(show, unit=" chunks", desc="Indexing", bar_format=_COUNT) as self._bar:
            yield
            if self._bar is not None:
                # The last documents may have had no chunks, and no document is being written.
                self._bar.total = self._bar.n
                self._bar.set_postfix_str("", refresh=False)

    def expect(self, chunks: int, length: int) -> None:
        """Add a document's chunks and characters to the expected total."""
        self._chunks += chunks
        self._split += length
        if self._bar is not None:
            left = self.length and max(1, self.length - self._split)
            more = left and 1 + self._chunks * left // max(1, self._split)
            self._bar.total = None if more is None else self._chunks + more
            self._bar.bar_format = _COUNT if more is None else _BAR

    def advance(self, chunks: int, doc_id: str = "") -> None:
        """Count chunks; show the last part of the document's id, such as its file name."""
        if self._bar is not None:
            self._bar.update(chunks)
            if doc_id:
                name = re.split(r"[/\\]", doc_id.rstrip("/\\"))[-1]
                self._bar.set_postfix_str(shortened(visible(name), _NAME))


def _tqdm(show: bool, **settings: Any) -> AbstractContextManager[Any]:  # noqa: ANN401, FBT001
    if not show:
        return nullcontext()
    tqdm = load("tqdm", "progress", "show_progress=True").tqdm
    return cast("AbstractContextManager[Any]", tqdm(**settings))
