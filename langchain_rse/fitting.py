"""How much of a selection fits a budget of text, in any unit of length.

The solver thinks in characters, which the docstore's spans give without a text being read.
A budget in other units is converted at the rate of the candidates' texts; the texts of what
then seems to fit, and of a little more, are read, and measuring those decides.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from langchain_rse.selection import Selected, Selection, Step

__all__ = ["Chunk", "LengthFunction", "Measure", "Reach", "characters", "cut"]

LengthFunction = Callable[[str], float]
Chunk = tuple[int, int]
"""A document's place in the list of documents, and the index of a chunk."""

# With other units than characters: how much more than what seems to fit is read.
_MARGIN = 0.15
# Ends of sentences, in scripts with and without spaces, and of lines; else those of words.
_ENDS = re.compile(r"""[.!?…]+[\"'”\u2019»)\]]*(?=\s)|[\u3002\uff01\uff1f]|\S(?=\s*\n)""")
_SPACES = re.compile(r"\S(?=\s)")


class Measure:
    """A length function that is checked, and asked once about each text.

    Args:
        function: From a text to its length.
    """

    def __init__(self, function: LengthFunction) -> None:
        self._function = function
        self.counts_characters = function is len
        self._known: dict[str, float] = {}

    def __call__(self, text: str) -> float:
        """The length of a text.

        Raises:
            ValueError: If the function returns something else than a finite number of at
                least 0.
        """
        if self.counts_characters:
            return len(text)
        if text not in self._known:
            length = self._function(text)
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


class Reach(NamedTuple):
    """How far a budget reaches, as far as that is known before the texts are read.

    Attributes:
        likely: How many steps seem to fit.
        read: How many steps' texts are needed to be sure.
    """

    likely: int
    read: int

    @classmethod
    def of(
        cls,
        selection: Selection,
        limit: float,
        measure: Measure,
        *,
        spans: Callable[[Step], Sequence[int]],
        texts: Mapping[Chunk, str],
        spare: int,
    ) -> Reach:
        """Estimate it from the lengths of the chunks in characters.

        Args:
            selection: The selection.
            limit: The budget, in the units of ``measure``.
            measure: Measures texts.
            spans: From a step to the lengths of its chunks, in characters.
            texts: Texts that are at hand, of some of the chunks.
            spare: How many steps beyond what fits are wanted in any case.
        """
        sizes = _sizes(selection.steps, measure, spans, texts)
        likely = read = 0
        margin = 0.0 if measure.counts_characters else _MARGIN
        for size in itertools.accumulate(sizes):
            likely += size <= limit
            read += size <= limit * (1 + margin)
            if size > limit * (1 + margin):
                break
        spare += not measure.counts_characters
        return cls(likely, min(read + spare, len(selection.steps)))

    def fit(
        self,
        selection: Selection,
        limit: float,
        measure: Measure,
        text_of: Callable[[Selected], str],
        *,
        is_known: bool = True,
    ) -> int:
        """How many steps fit, by measuring the texts of their segments.

        Args:
            selection: The selection.
            limit: The budget, in the units of ``measure``.
            measure: Measures texts.
            text_of: What is returned of a segment that consists of steps that were read.
            is_known: Whether that is nothing but the chunks, of which the characters are known.
        """
        if is_known and measure.counts_characters:
            return self.likely

        def fits(count: int) -> bool:
            return sum(measure(text_of(one)) for one in selection.segments(count)) <= limit

        count = min(self.likely, self.read)
        if count and not fits(count):
            while count and not fits(count):
                count -= 1
            return count
        while count < self.read and fits(count + 1):
            count += 1
        return count


def characters(limit: float, measure: Measure, sample: Sequence[str]) -> float | None:
    """A budget in characters, generously, at the rate of some texts; None if unlimited."""
    if measure.counts_characters:
        return limit
    length = sum(map(measure, sample))
    return limit * (1 + 2 * _MARGIN) * sum(map(len, sample)) / length if length else None


def _sizes(
    steps: Sequence[Step],
    measure: Measure,
    spans: Callable[[Step], Sequence[int]],
    texts: Mapping[Chunk, str],
) -> Iterator[float]:
    measured = length = 1.0
    for step in steps:
        size = 0.0
        for index, span in enumerate(spans(step), step.start):
            text = texts.get((step.document, index))
            if measure.counts_characters:
                size += span
            elif text:
                # The text may be more than the span: a header, or overlap.
                size += measure(text) * span / len(text)
                measured += measure(text)
                length += len(text)
            else:
                size += span * measured / length
        yield size


def cut(text: str, fits: Callable[[str], bool], *, keep_end: bool) -> str:
    """The longest part of a text that fits, cut at the end of a sentence or line.

    Where no sentence and no line ends in what fits, it is cut at white space.

    Args:
        text: The text, which does not fit as a whole.
        fits: Whether a part of it does.
        keep_end: Whether to keep its end, not its start.

    Returns:
        The part; empty if none fits.
    """
    for pattern in (_ENDS, _SPACES):
        ends = [match.end() for match in pattern.finditer(text)]
        parts = (
            [text[end:].lstrip() for end in reversed(ends)]
            if keep_end
            else [text[:end] for end in ends]
        )
        parts = [part for part in parts if part.strip()]
        most = bisect_right(parts, False, key=lambda part: not fits(part))
        if most:
            return parts[most - 1]
    return ""
