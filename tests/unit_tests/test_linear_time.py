"""Readers of strangers' texts take time in proportion to the text, whatever it repeats.

The shapes are made from the package's own expressions, and each night from other random choices
with SEED=n in the environment.
"""

from __future__ import annotations

import gc
import heapq
import os
import random
import time
from collections.abc import Callable, Iterator

import pytest

from langchain_rse.finding import Pattern
from langchain_rse.ingest.default_splitter import default_text_splitter
from langchain_rse.ingest.splitting import find_spans
from langchain_rse.text.headings import end_before_headings, outline
from langchain_rse.text.names import first_heading
from langchain_rse.text.sentences import split_sentences
from langchain_rse.text.words import spaced_words, with_pairs
from tests.unit_tests.hostile_shapes import Shape, shapes

Reader = Callable[[str], object]

READERS: dict[str, Reader] = {
    "the default splitter": lambda text: find_spans(text, default_text_splitter()),
    "words": lambda text: spaced_words([text]),
    "words of the index": with_pairs,
    "outline": outline,
    "headings at the end": end_before_headings,
    "title": first_heading,
    "sentences": split_sentences,
    "find": lambda text: list(Pattern("it's so - x").find(text)),
}
SIZES = (250_000, 500_000, 1_000_000)
# In times of `reference`, which takes some .04 seconds of a core that does nothing else. Below the
# first, a square would be within the second for a megabyte, which is 2 seconds.
UNSUSPICIOUS = 3
MOST = 50
GROWTH = 10  # of the time for four times a text, at most
_MEASURABLE = 0.02
CHANCE = random.Random(int(os.environ.get("SEED") or 1))  # noqa: S311 - reproducible
SHAPES = shapes(CHANCE)

# Rows, rows within rows, openings that no line closes.
ROWS = ('b","c\n', 'b"\t"c\n', 'b";"c\n', '|b"|"c|\n', '"x,",y\n,"\n', 'a,"b ""c"",\n"d",e\n')
STARTED = (("<", "a"), ("a", " "), ("\n", "\r"), ("|", "| "))
KNOWN = [
    *(Shape("one", *parts) for parts in [*(("", row) for row in ROWS), *STARTED]),
    *(Shape("falling", *parts) for parts in (("``", "`"), ("- ~~", "~"))),
]


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def seconds(read: Reader, text: str) -> float:
    start = time.process_time()
    read(text)
    return time.process_time() - start


def reference() -> float:
    """Seconds of a computation that is always the same, for the load of the machine."""
    return seconds(lambda _: sum(number & 3 for number in range(1_000_000)), "")


def grows(read: Reader, shape: Shape) -> bool:
    """True if four times the text takes much more than four times as long, each time."""
    for _ in range(4):
        long = seconds(read, shape.text(32_000))
        short = seconds(read, shape.text(8_000))
        if long <= max(GROWTH * short, _MEASURABLE):
            return False
    return True


@pytest.mark.parametrize("reader", READERS)
def test_four_times_a_text_takes_some_four_times_as_long(reader: str) -> None:
    chosen = random.Random(1).sample(SHAPES, 20)  # noqa: S311
    read = READERS[reader]
    assert [shape for shape in [*KNOWN, *chosen] if grows(read, shape)] == []


def suspicious(read: Reader) -> set[Shape]:
    """The tenths of all shapes that take longest and grow most, and some others."""
    taken = {shape: seconds(read, shape.text(60_000)) for shape in [*KNOWN, *SHAPES]}
    short = {shape: seconds(read, shape.text(15_000)) for shape in taken}
    growth = {shape: taken[shape] / max(short[shape], 0.001) for shape in taken}
    chosen = set(CHANCE.sample(SHAPES, 20))
    for measure in (taken, growth):
        chosen.update(heapq.nlargest(len(taken) // 10, measure, key=measure.__getitem__))
    return chosen


@pytest.mark.nightly
@pytest.mark.parametrize("reader", READERS)
def test_a_megabyte_of_any_shape_takes_seconds(reader: str) -> None:
    read = READERS[reader]
    slow = []
    for shape in suspicious(read):
        first = 0.0
        for size in SIZES:
            text = shape.text(size)
            taken = seconds(read, text) / reference()
            first = first or taken
            most = min(MOST * size / SIZES[-1], GROWTH * first)
            if taken > most:
                taken = min(seconds(read, text) / reference() for _ in range(3))
            if taken > most:
                slow.append((shape, size, taken))
            if taken > most or taken < UNSUSPICIOUS * size / SIZES[0]:
                break
    assert slow == []
