"""Readers of strangers' texts take time in proportion to the text, whatever it repeats.

The shapes are made from the package's own expressions, and each night from other random choices
with SEED=n in the environment.
"""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable, Iterator

import pytest

from langchain_rse.ingest.default_splitter import default_text_splitter
from langchain_rse.ingest.splitting import find_spans
from langchain_rse.text.headings import end_before_headings, outline
from langchain_rse.text.names import first_heading
from langchain_rse.text.patterns import Pattern
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
# Seconds of processor time. Below the first, a square would be within the second for a megabyte.
UNSUSPICIOUS = 0.12
MOST = 2.0
_MEASURABLE = 0.02
SHAPES = shapes(random.Random(int(os.environ.get("SEED") or 1)))  # noqa: S311 - reproducible

KNOWN = [
    Shape("one", "", 'b","c\n'),
    Shape("one", "", 'b"\t"c\n'),
    Shape("one", "", 'b";"c\n'),
    Shape("one", "", '|b"|"c|\n'),
    # Cases of the same kind: rows within rows, openings that no line closes.
    Shape("one", "", '"x,",y\n,"\n'),
    Shape("one", "", 'a,"b ""c"",\n"d",e\n'),
    Shape("falling", "``", "`"),
    Shape("falling", "- ~~", "~"),
    *(Shape("one", *parts) for parts in (("<", "a"), ("a", " "), ("\n", "\r"), ("|", "| "))),
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


def grows(read: Reader, shape: Shape) -> bool:
    """True if four times the text takes more than ten times as long, each time it is tried."""
    for _ in range(4):
        long = seconds(read, shape.text(32_000))
        short = seconds(read, shape.text(8_000))
        if long <= max(10 * short, _MEASURABLE):
            return False
    return True


@pytest.mark.parametrize("reader", READERS)
def test_four_times_a_text_takes_some_four_times_as_long(reader: str) -> None:
    chosen = random.Random(1).sample(SHAPES, 20)  # noqa: S311
    read = READERS[reader]
    assert [shape for shape in [*KNOWN, *chosen] if grows(read, shape)] == []


@pytest.mark.nightly
@pytest.mark.parametrize("reader", READERS)
def test_a_megabyte_of_any_shape_takes_seconds(reader: str) -> None:
    read = READERS[reader]
    slow = []
    for shape in [*KNOWN, *SHAPES]:
        for size in SIZES:
            taken = seconds(read, shape.text(size))
            if taken < UNSUSPICIOUS * size / SIZES[0]:
                break
            if taken > MOST * size / SIZES[-1]:
                # Not because of other processes: the best of three times counts.
                taken = min(seconds(read, shape.text(size)) for _ in range(3))
            if taken > MOST * size / SIZES[-1]:
                slow.append((shape, size, taken))
                break
    assert slow == []
