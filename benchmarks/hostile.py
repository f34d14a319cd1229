"""Times how the package reads hostile texts; the time must grow in proportion to the length.

Run from anywhere: ``python benchmarks/hostile.py``. Each reader of the package gets all texts of
tests/hostile.py at 250,000 characters, and its slowest texts also at 500,000 and 1,000,000. Exits
with 1 if a text of 1,000,000 characters takes more than 2 seconds.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the tests' texts

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever, SQLDocStore
from tests.hostile import READERS, hostile_texts

LENGTHS = (250_000, 500_000, 1_000_000)
MOST_SECONDS = 2.0
SLOWEST = 2  # texts of each reader that are measured at all lengths

Reader = Callable[[str], Callable[[], object]]


class AllAlike(Embeddings):
    """A model that takes no time, so that only the package is measured."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts."""
        return [[1.0, 0.0]] * len(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        del text
        return [1.0, 0.0]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", nargs="+", help="default: all", metavar="NAME")
    wanted = parser.parse_args().readers
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    texts = {length: dict(hostile_texts(length)) for length in LENGTHS}
    texts_of_queries = {
        length: {"different words": " ".join(map(str, range(length)))[:length]}
        for length in LENGTHS
    }
    print(f"{'':32} {'text':36} {'s at 1 MB':>9} {'/ 0.5 MB':>8} {'/ 0.25 MB':>9}")
    is_met = True
    for name, reader in readers().items():
        if wanted and name not in wanted:
            continue
        texts_of_reader = texts_of_queries if name.startswith("a query") else texts
        for title, seconds in slowest(reader, texts_of_reader):
            shortest, middle, longest = seconds
            is_met &= longest <= MOST_SECONDS
            print(
                f"{name:32} {title:36} {longest:9.2f} {longest / middle:8.1f} "
                f"{longest / shortest:9.1f}",
                flush=True,
            )
    print(f"Target: at most {MOST_SECONDS:g} seconds at 1 MB: {'met' if is_met else 'MISSED'}.")
    return int(not is_met)


def readers() -> dict[str, Reader]:
    """Everything that reads untrusted text."""
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(AllAlike()),
        docstore=SQLDocStore("sqlite://"),
    )
    retriever.add_documents(
        [Document(f"Pump {n} needs oil every {n} weeks.", id=str(n)) for n in range(200)]
    )

    def ask(query: str) -> Callable[[], object]:
        return lambda: retriever.invoke(query)

    def ask_by_words(query: str) -> Callable[[], object]:
        return lambda: retriever.invoke(query, hybrid=0.5)

    return {**READERS, "a query": ask, "a query, hybrid": ask_by_words}


def slowest(
    reader: Reader, texts: dict[int, dict[str, str]]
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield the slowest texts of a reader, each with its seconds by length."""
    shortest_texts = texts[LENGTHS[0]]
    seconds = {title: seconds_of(reader(text)) for title, text in shortest_texts.items()}
    titles = sorted(seconds, key=lambda title: -seconds[title])[:SLOWEST]
    for title in titles:
        yield title, tuple(seconds_of(reader(texts[length][title])) for length in LENGTHS)


def seconds_of(call: Callable[[], object]) -> float:
    """The seconds of a call; the better of two runs if the first is short."""
    best = float("inf")
    for _ in range(2):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
        if best > MOST_SECONDS:
            break
    return best


if __name__ == "__main__":
    sys.exit(main())
