"""The budget: decides which of the selected segments fit, by the lengths of their texts.

The solver counts characters, which are known without reading a text. A budget in other units is
converted at the rate of the candidates' texts, with a margin; then the texts are measured.
"""

import itertools
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping

from langchain_core.documents import Document

from langchain_rse.config import QuerySettings
from langchain_rse.engine import Segment
from langchain_rse.query.scoring import ScoredChunks
from langchain_rse.query.selecting import Selection
from langchain_rse.stores.records import with_header

# Typed as an object: to mypy, a Callable is never a builtin function.
_CHARACTERS: object = len
# With other units than characters: the share of the budget in characters to select and read.
_MARGIN = 1.3
# The number of candidates whose texts give the rate between a unit and characters.
_SAMPLE = 10
# Ends of sentences, in scripts with and without spaces, and of lines; else ends of words.
_SENTENCE_ENDS = re.compile(r"""[.!?…]+[\"'”\u2019»)\]]*(?=\s)|[\u3002\uff01\uff1f]|\S(?=\s*\n)""")
_WORD_ENDS = re.compile(r"\S(?=\s)")


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
        found = (self.records[column] for column in range(start, end))
        return "".join(record.page_content for record in found if record)

    def length(self, start: int, end: int) -> float:
        """The length of a range of columns that is returned as a segment."""
        return self.length_of(self.of(start, end), start)

    def length_of(self, text: str, column: int) -> float:
        """The length of a text that is returned as a segment of a column's document."""
        if self._budget.include_header:
            text = with_header(self._scored.places[column][0].manifest.header, text)
        return self._budget.measure(text)


class Budget:
    """The budget of a query: how much text fits, and how it is measured."""

    def __init__(self, settings: QuerySettings, sample: Iterable[str]) -> None:
        given = settings.max_context_length
        self.limit = math.inf if given is None else given
        self.characters = given  # with a margin if the budget is in other units
        self._length_function = settings.length_function
        self._known: dict[str, float] = {}
        counts_characters = settings.length_function is _CHARACTERS
        self.include_header = settings.include_header
        # True if the lengths of chunks in characters decide what fits.
        self.is_exact = counts_characters and not settings.include_header
        self._spare = settings.allow_trim or not counts_characters
        if given is not None and not counts_characters:
            texts = list(itertools.islice(sample, _SAMPLE))
            length = sum(map(self.measure, texts))
            self.characters = given * _MARGIN * sum(map(len, texts)) / length if length else None

    def measure(self, text: str) -> float:
        """The length of a text in the units of the budget."""
        if self._length_function is _CHARACTERS:
            return len(text)
        if text not in self._known:
            length = self._length_function(text)
            try:
                number = math.nan if isinstance(length, (bool, str, bytes)) else float(length)
            except (TypeError, ValueError, OverflowError):
                number = math.nan
            if not (math.isfinite(number) and number >= 0):
                raise ValueError(
                    "length_function must return a finite number of at least 0; got "
                    f"{length!r} for a text of {len(text)} characters, {text[:40]!r}"
                )
            self._known[text] = number
        return self._known[text]

    def steps_to_read(self, scored: ScoredChunks, selection: Selection) -> int:
        """The number of steps of a selection whose texts decide what fits."""
        steps, room = selection.steps, self.characters
        if room is None:
            return len(steps)
        sizes = itertools.accumulate(int(scored.lengths[start:end].sum()) for start, end in steps)
        count = sum(1 for _ in itertools.takewhile(lambda size: size <= room, sizes))
        return min(count + self._spare, len(steps))

    def fit(self, selection: Selection, count: int, texts: Texts) -> int:
        """The number of steps that fit, of those whose texts were read."""
        if self.is_exact and not self._spare:
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


def trim(
    selection: Selection, count: int, texts: Texts, budget: Budget, minimum_value: float
) -> tuple[list[Segment], tuple[Segment, int, int] | None]:
    """Add as much of the step after the first ``count`` as fits.

    Returns the unchanged segments; and the segment that grew or is new, if any, with the number of
    characters to leave out at its beginning and at its end.
    """
    chosen = selection.segments(count)
    start, end = selection.steps[count]
    text = texts.of(start, end)
    grown = next((s for s in selection.segments(count + 1) if s.start <= start < s.end), None)
    if grown is None or not all(texts.of(column, column + 1) for column in range(start, end)):
        return chosen, None
    # If the step extends the segment after it, its end is kept; else its beginning, after the
    # segment before it.
    keep_end = grown.start == start and grown.end > end
    beside = (end, grown.end) if keep_end else (grown.start, start)
    extended = next((segment for segment in chosen if segment[:2] == beside), None)
    if extended is None:
        keep_end, beside = False, (start, start)
    neighbor = texts.of(*beside)
    room = budget.limit - budget.used(selection, count, texts)
    if extended is not None:
        room += texts.length(*beside)

    def fits(part: str) -> bool:
        joined = part + neighbor if keep_end else neighbor + part
        return texts.length_of(joined, start) <= room

    part = _longest_part(text, fits, keep_end=keep_end)
    if not part:
        return chosen, None
    value = float(selection.values[start:end].sum()) * len(part) / len(text)
    if extended is not None:
        chosen.remove(extended)
        value += extended.value
    elif value < minimum_value:
        return chosen, None
    if keep_end:
        return chosen, (Segment(start, beside[1], value), len(text) - len(part), 0)
    # A step of several chunks may lose some of them.
    sizes = list(itertools.accumulate(len(texts.of(c, c + 1)) for c in range(start, end)))
    last = bisect_left(sizes, len(part))
    return chosen, (Segment(beside[0], start + last + 1, value), 0, sizes[last] - len(part))


def _longest_part(text: str, fits: Callable[[str], bool], *, keep_end: bool) -> str:
    """The longest end or beginning of a text that fits, cut after a sentence, line or word."""
    for pattern in (_SENTENCE_ENDS, _WORD_ENDS):
        ends = [match.end() for match in pattern.finditer(text)]
        beginnings = (text[:end] for end in ends)
        endings = (text[end:].lstrip() for end in reversed(ends))
        parts = [part for part in (endings if keep_end else beginnings) if part.strip()]
        most = bisect_right(parts, False, key=lambda part: not fits(part))
        if most:
            return parts[most - 1]
    return ""
