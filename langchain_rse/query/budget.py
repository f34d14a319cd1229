"""The budget: decides which of the selected segments fit, by the lengths of their texts.

The solver counts characters, which are known without reading a text. A budget in other units is
converted at the rate of the candidates' texts, with a margin; then the texts are measured.
"""

import itertools
import math
import numbers
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from langchain_core.documents import Document

from langchain_rse.config import QuerySettings
from langchain_rse.query.scoring import ScoredChunks
from langchain_rse.query.selection import Selection
from langchain_rse.stores.records import with_headers

# Typed as an object: to mypy, a Callable is never a builtin function.
_CHARACTERS: object = len
# With other units than characters: the share of the budget in characters to select and read.
_MARGIN = 1.3
# The number of candidates whose texts give the rate between a unit and characters.
_SAMPLE = 10


class Texts:
    """The chunks that were read, by column, and the lengths of their texts."""

    def __init__(
        self, scored: ScoredChunks, records: Mapping[int, Document | None], budget: "Budget"
    ) -> None:
        self.records = records  # None for missing chunks
        self._scored = scored
        self._budget = budget

    def of(self, start: int, end: int) -> str:
        """The text of a range of columns."""
        texts = []
        for column in range(start, end):
            record = self.records[column]
            if record is not None:
                texts.append(record.page_content)
        return "".join(texts)

    def length(self, start: int, end: int) -> float:
        """The length of a range of columns that is returned as a segment."""
        return self.length_of(self.of(start, end), start)

    def length_of(self, text: str, column: int) -> float:
        """The length of a text that is returned as a segment whose first chunk is a column's."""
        if self._budget.include_header:
            layout, _ = self._scored.chunks[column]
            text = with_headers(layout.manifest.header, self.records[column], text)
        return self._budget.measure(text)


class Budget:
    """The budget of a query: how much text fits, and how it is measured.

    Attributes:
        limit: The budget in its own units; infinite if there is none.
        characters: The budget in characters, with a margin if they are not its units; None if
            there is none.
        include_header: True if segments are returned with the header of their document, and that of
            the table in which they begin.
        is_exact: True if the lengths of chunks in characters decide what fits.
    """

    def __init__(self, settings: QuerySettings, sample: Iterable[str]) -> None:
        self._length_function = settings.length_function
        self._lengths: dict[str, float] = {}  # of texts that were measured
        counts_characters = settings.length_function is _CHARACTERS
        self.limit = math.inf
        self.characters = settings.max_context_length
        self.include_header = settings.include_header
        self.is_exact = counts_characters and not settings.include_header
        # True if the text of the first step that does not fit is read as well.
        self._reads_one_more = settings.allow_trim or not counts_characters
        if settings.max_context_length is not None:
            self.limit = settings.max_context_length
            if not counts_characters:
                self.characters = self._estimate_characters(itertools.islice(sample, _SAMPLE))

    def _estimate_characters(self, sample: Iterable[str]) -> float | None:
        """Convert the limit at the rate of a sample of texts, with a margin."""
        characters = 0
        length = 0.0
        for text in sample:
            characters += len(text)
            length += self.measure(text)
        return self.limit * _MARGIN * characters / length if length else None

    def measure(self, text: str) -> float:
        """The length of a text in the units of the budget."""
        if self._length_function is _CHARACTERS:
            return len(text)
        if text not in self._lengths:
            self._lengths[text] = self._checked_length(text)
        return self._lengths[text]

    def _checked_length(self, text: str) -> float:
        length: object = self._length_function(text)
        if isinstance(length, numbers.Real) and math.isfinite(length) and float(length) >= 0:
            return float(length)
        raise ValueError(
            "length_function must return a finite number of at least 0; got "
            f"{length!r} for a text of {len(text)} characters, {text[:40]!r}"
        )

    def steps_to_read(self, scored: ScoredChunks, selection: Selection) -> int:
        """The number of steps of a selection whose texts decide what fits."""
        if self.characters is None:
            return len(selection.steps)
        count = 0
        characters = 0
        for start, end in selection.steps:
            characters += int(scored.lengths[start:end].sum())
            if characters > self.characters:
                break
            count += 1
        if self._reads_one_more and count < len(selection.steps):
            count += 1
        return count

    def fit(self, selection: Selection, count: int, texts: Texts) -> int:
        """The number of steps that fit, of those whose texts were read."""
        if self.is_exact and not self._reads_one_more:
            return count
        # More steps make more text, so a binary search finds the first that do not fit.
        return bisect_left(
            range(1, count + 1),
            True,
            key=lambda steps: self.used(selection, steps, texts) > self.limit,
        )

    def used(self, selection: Selection, count: int, texts: Texts) -> float:
        """The length of the segments that a number of steps forms."""
        segments = selection.segments(count)
        return sum(texts.length(segment.start, segment.end) for segment in segments)
