"""Time and memory of indexing without the embedding: splitting, aligning and storing.

The vector store discards everything; the docstore is a `SQLDocStore` on SQLite in a temporary
folder.
Run from anywhere: ``python benchmarks/indexing.py [--data DIR] [--rounds 5] [--memory 100]``.
With ``--against PATH``, compares the times with another checkout of this repository instead.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from timing import COMPARED_HEADER, OTHER, THIS, checkouts, compared, in_turns, seconds_of, serve
from typing_extensions import override

from langchain_rse import RSEIndexer, SQLDocStore

# The default splitter.
SPLITTER = RecursiveCharacterTextSplitter(chunk_size=800, chunk_overlap=0)
MEGABYTES = 1024
SUFFIXES = (".txt", ".md", ".txt.gz", ".md.gz")


class NoVectors(VectorStore):
    """A vector store that discards everything, so that only RSE is measured."""

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
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="folder of .txt, .md or .txt.gz; default: Python's reference"
    )
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument(
        "--memory", type=int, default=100, help="size of the one long document in MB; default 100"
    )
    parser.add_argument("--against", type=Path, metavar="PATH", help="another checkout")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    documents = read_documents(arguments.data)
    if arguments.serve:
        serve(lambda _: index(documents))
        return
    print(f"Python {platform.python_version()}")
    if arguments.against:
        compare_checkouts(arguments.against, arguments.data, arguments.rounds)
        return
    report_times(documents, arguments.rounds)
    if arguments.memory:
        report_memory(documents, arguments.memory)


def compare_checkouts(other: Path, data: Path | None, rounds: int) -> None:
    """Print the times of both checkouts side by side."""
    print(f"Indexing by this checkout and {other}, in turns; medians of {rounds}")
    options = ["--data", str(data)] if data else []
    with checkouts(__file__, other, options) as ask:
        answers = in_turns(ask, [None] * (rounds + 1))[1:]  # the first request imports modules
    seconds = {side: [each[side] for each in answers] for side in (THIS, OTHER)}
    print(f"{'':13} {COMPARED_HEADER}")
    print(f"add_documents {compared(seconds)}")


def read_documents(folder: Path | None) -> list[Document]:
    """The files of a folder, or ten copies of Python's reference."""
    if folder is None:
        reference = "\n\n".join(topics.values())
        return [Document(f"{n}\n\n{reference}", metadata={"source": str(n)}) for n in range(10)]
    paths = sorted(path for path in folder.rglob("*") if path.name.endswith(SUFFIXES))
    if not paths:
        sys.exit(f"no {', '.join(SUFFIXES)} in {folder}")
    return [Document(read(path), metadata={"source": path.name}) for path in paths]


def read(path: Path) -> str:
    """The text of a file, compressed or not."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def report_times(documents: Sequence[Document], rounds: int) -> None:
    """Print the times of the splitter alone, `find_spans` and indexing."""
    from langchain_rse.ingest.splitting import find_spans  # noqa: PLC0415 - not in every checkout

    texts = [document.page_content for document in documents]
    counts: list[int] = []

    def split() -> None:
        counts[:] = [len(SPLITTER.split_text(text)) for text in texts]

    def align() -> None:
        for text in texts:
            find_spans(text, SPLITTER)

    ways: dict[str, Callable[[], float]] = {
        "the splitter": lambda: seconds_of(split),
        "find_spans": lambda: seconds_of(align),
        "add_documents": lambda: index(documents),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):  # in turns: a busy machine slows all
        for name, way in ways.items():
            seconds[name].append(way())
    chunks = sum(counts)
    print(
        f"\nIndexing {len(documents)} documents, {sum(map(len, texts)):,} characters, {chunks:,} "
        f"chunks, without the embedding: medians of {rounds}"
    )
    print(f"{'':16} {'seconds':>8} {'µs per chunk':>12} {'x splitter':>11}")
    base = seconds["the splitter"]
    for name, some in seconds.items():
        median = statistics.median(some)
        ratio = statistics.median(one / own for one, own in zip(some, base, strict=True))
        print(f"{name:16} {median:8.2f} {1e6 * median / chunks:12.0f} {ratio:11.2f}")


def index(documents: Sequence[Document]) -> float:
    """Index into a new database and return the seconds of the call."""
    with tempfile.TemporaryDirectory() as folder:
        docstore = SQLDocStore(f"sqlite:///{folder}/chunks.db")
        indexer = RSEIndexer(NoVectors(), docstore, text_splitter=SPLITTER)
        seconds = seconds_of(lambda: indexer.add_documents(documents))
        docstore.close()
    return seconds


def report_memory(documents: Sequence[Document], size: int) -> None:
    """Print the peak memory of a process that indexes one long document."""
    print(f"\nMemory: one document of {size} MB, made of these texts, in a separate process")
    print(f"{'':34} {'MB':>6}")
    # One character beyond U+FFFF makes Python store each character of a text in four bytes.
    for name, added in [("plain", ""), ("with an emoji", "\N{GRINNING FACE}")]:
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
        print(f"{name + ': libraries':34} {before:6.0f}")
        print(f"{name + ': text':34} {text:6.0f}")
        print(f"{name + ': peak':34} {peak:6.0f}  target {MEGABYTES}: {verdict}")


def measure_memory(texts: Sequence[str], size: int, added: str, sender: Any) -> None:  # noqa: ANN401
    """In the new process: index a text of ``size`` megabytes and send the memory used."""
    before = used()
    text = added.join(("", "".join(pieces(texts, size * 1_000_000))))
    document = Document(text, metadata={"source": "long"})
    size_of_text = sys.getsizeof(text) / 2**20
    del text
    index([document])
    sender.send((before, size_of_text, used()))


def pieces(texts: Sequence[str], size: int) -> Iterator[str]:
    """The texts, repeated up to ``size`` bytes."""
    while True:
        for text in texts:
            data = text.encode()[:size]
            yield data.decode(errors="ignore")
            size -= len(data)
            if size <= 0:
                return


def used() -> float:
    """The peak memory of this process, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


if __name__ == "__main__":
    main()
