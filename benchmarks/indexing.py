"""Indexing without the embedding: splitting, aligning and storing; and what it needs of memory.

The vector store does nothing, the docstore is a `SQLDocStore` on SQLite in a temporary folder.
Run from anywhere: ``python benchmarks/indexing.py [--data DIR] [--rounds 5] [--memory 100]``.
"""

from __future__ import annotations

import argparse
import gzip
import multiprocessing
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from typing_extensions import override

from langchain_rse import RSEIndexer, SQLDocStore
from langchain_rse.indexing import default_text_splitter
from langchain_rse.splitting import split_spans

RATIO = 2.0
MEGABYTES = 1024
SUFFIXES = (".txt", ".md", ".txt.gz", ".md.gz")


class NoVectors(VectorStore):
    """A vector store that does nothing, so that all that is measured is what RSE does."""

    @override
    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        return [str(document.id) for document in documents]

    @override
    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        return True

    @override
    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return []

    @classmethod
    @override
    def from_texts(
        cls,
        texts: list[str],
        embedding: object,
        metadatas: list[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> NoVectors:
        return cls()


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="folder of .txt, .md or .txt.gz; default: Python's reference"
    )
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument(
        "--memory", type=int, default=100, help="size of the one long document in MB; default 100"
    )
    arguments = parser.parse_args()
    print(f"Python {platform.python_version()}")
    documents = read_documents(arguments.data)
    report_times(documents, arguments.rounds)
    if arguments.memory:
        report_memory(documents, arguments.memory)


def read_documents(folder: Path | None) -> list[Document]:
    """The files of a folder; or Python's reference, ten times."""
    if folder is None:
        reference = "\n\n".join(topics.values())
        return [Document(f"{n}\n\n{reference}", metadata={"source": str(n)}) for n in range(10)]
    paths = sorted(path for path in folder.rglob("*") if path.name.endswith(SUFFIXES))
    if not paths:
        sys.exit(f"no {', '.join(SUFFIXES)} in {folder}")
    return [Document(read(path), metadata={"source": path.name}) for path in paths]


def read(path: Path) -> str:
    """The text of a file, packed or not."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def report_times(documents: Sequence[Document], rounds: int) -> None:
    """Print how long splitting takes by itself, and with what RSE does."""
    splitter = default_text_splitter()
    texts = [document.page_content for document in documents]

    def split() -> None:
        for text in texts:
            splitter.split_text(text)

    def align() -> None:
        for text in texts:
            split_spans(text, splitter)

    ways: dict[str, Callable[[], float]] = {
        "the splitter": lambda: timed(split),
        "split_spans": lambda: timed(align),
        "add_documents": lambda: index(documents),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):  # they take turns: a busy machine slows all of them
        for name, way in ways.items():
            seconds[name].append(way())
    chunks = sum(len(split_spans(text, splitter)) for text in texts)
    print(
        f"\nIndexing {len(documents)} documents, {sum(map(len, texts)):,} characters, {chunks:,} "
        f"chunks, without the embedding: medians of {rounds}"
    )
    print(f"{'':16} {'seconds':>8} {'µs a chunk':>11} {'x splitter':>11}")
    base = seconds["the splitter"]
    ratios = {
        name: statistics.median(one / own for one, own in zip(some, base, strict=True))
        for name, some in seconds.items()
    }
    for name, some in seconds.items():
        median = statistics.median(some)
        print(f"{name:16} {median:8.2f} {1e6 * median / chunks:11.0f} {ratios[name]:11.2f}")
    ratio = ratios["add_documents"]
    verdict = "met" if ratio <= RATIO else "missed"
    print(
        f"Target, on company filings: add_documents at most {RATIO:g} x the splitter. Here "
        f"{verdict} ({ratio:.2f})."
    )


def timed(work: Callable[[], object]) -> float:
    """The seconds it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def index(documents: Sequence[Document]) -> float:
    """Index into a new database; the seconds of the call."""
    with tempfile.TemporaryDirectory() as folder:
        docstore = SQLDocStore(f"sqlite:///{folder}/chunks.db")
        indexer = RSEIndexer(NoVectors(), docstore)
        seconds = timed(lambda: indexer.add_documents(documents))
        docstore.close()
    return seconds


def report_memory(documents: Sequence[Document], size: int) -> None:
    """Print the largest memory of a process that indexes one long document, by its characters."""
    print(f"\nMemory: one document of {size} MB, made of these, in a process of its own")
    print(f"{'':34} {'MB':>6}")
    # Python keeps a text with one character beyond U+FFFF in four bytes a character.
    for name, added in [("as they are", ""), ("with an emoji", "\N{GRINNING FACE}")]:
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=measure_memory,
            args=([document.page_content for document in documents], size, added, sender),
        )
        process.start()
        try:
            before, text, peak = receiver.recv()
        finally:
            process.join()
        verdict = "met" if peak < MEGABYTES else "MISSED"
        print(f"{name + ': before, libraries':34} {before:6.0f}")
        print(f"{name + ': the text alone':34} {text:6.0f}")
        print(f"{name + ': at most':34} {peak:6.0f}  target {MEGABYTES}: {verdict}")


def measure_memory(texts: Sequence[str], size: int, added: str, sender: Any) -> None:  # noqa: ANN401
    """In the new process: index a text of so many megabytes, and send what that took."""
    before = used()
    text = added.join(("", "".join(pieces(texts, size * 1_000_000))))
    document = Document(text, metadata={"source": "long"})
    size_of_text = sys.getsizeof(text) / 2**20
    del text
    index([document])
    sender.send((before, size_of_text, used()))


def pieces(texts: Sequence[str], size: int) -> Iterator[str]:
    """The texts again and again, until there are so many bytes."""
    while True:
        for text in texts:
            data = text.encode()[:size]
            yield data.decode(errors="ignore")
            size -= len(data)
            if size <= 0:
                return


def used() -> float:
    """The most memory this process has had, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


if __name__ == "__main__":
    main()
