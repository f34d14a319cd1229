"""How many of the nearest chunks Chroma's approximate search finds, by its settings.

``python benchmarks/approximate.py --data PATH [--folders NAME ...] [--embeddings wordllama]``

Vectors are searched in full for comparison. The collections are in memory.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import chromadb
import numpy as np
from chromadb.config import Settings
from folders import (
    Folder,
    add_embeddings,
    cached_embeddings,
    folder_names,
    make_parser,
    read_folder,
    write_page,
)
from langchain_core.stores import InMemoryStore
from numpy.typing import NDArray
from pages import table
from quality import index

CANDIDATES = 200
BEST = 20
BATCH = 1_000
FEWEST_CHUNKS = 5_000
# Chroma's settings of the index by what the tables call them.
CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "`ef_search` 200": {"ef_search": 200},
    "`ef_search` 400": {"ef_search": 400},
    "`ef_search` 400, cosine": {"ef_search": 400, "space": "cosine"},
    "cosine, `max_neighbors` 32, `ef_construction` 200": {
        "ef_search": 400,
        "space": "cosine",
        "max_neighbors": 32,
        "ef_construction": 200,
    },
}

Floats = NDArray[np.float32]
# The numbers of the chunks that were found for each question, best first.
Found = Sequence[Sequence[int]]


class Measured(NamedTuple):
    """How a configuration searches a set."""

    chunks: int
    questions: int
    of_candidates: float  # the share of the nearest 200 that is found
    of_best: float  # of the nearest 20
    has_nearest: float  # the share of questions whose nearest chunk is found
    milliseconds: float  # of a query, the median


def main() -> None:
    """Measure, print, and write what was printed."""
    parser = make_parser(__doc__)
    add_embeddings(parser)
    parser.add_argument("--folders", nargs="+", metavar="NAME", help="default: all in PATH")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    results: dict[str, dict[str, Measured]] = {}
    for name in folder_names(arguments):
        folder = read_folder(arguments, name)
        _, store = index(folder, arguments, InMemoryStore())
        if len(store) < FEWEST_CHUNKS:
            continue
        embeddings = cached_embeddings(folder, arguments)
        queries = embeddings.queries([question.question for question in folder.questions])
        store.similarity_search(folder.questions[0].question, 1)  # makes the vectors
        vectors = np.array(list(store.vectors.values()))
        results[name] = measure(client, folder, vectors, queries)
    command = f"python benchmarks/approximate.py --data PATH --embeddings {arguments.embeddings}"
    write_page(arguments, f"approximate-{arguments.embeddings}", write_up(results, command))


def measure(
    client: Any,  # noqa: ANN401 - chromadb's ClientAPI is no public name
    folder: Folder,
    vectors: Floats,
    queries: Floats,
) -> dict[str, Measured]:
    """Search a set with each configuration."""
    exact = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :CANDIDATES]
    results: dict[str, Measured] = {}
    for label, configuration in CONFIGURATIONS.items():
        collection = client.create_collection(folder.name, configuration={"hnsw": configuration})
        for start in range(0, len(vectors), BATCH):
            batch = vectors[start : start + BATCH]
            ids = [str(start + number) for number in range(len(batch))]
            collection.add(ids=ids, embeddings=batch)
        found: list[list[int]] = []
        milliseconds: list[float] = []
        for query in queries:
            started = time.perf_counter()
            answer = collection.query(query_embeddings=[query], n_results=CANDIDATES, include=[])
            milliseconds.append(1_000 * (time.perf_counter() - started))
            found.append([int(identity) for identity in answer["ids"][0]])
        client.delete_collection(folder.name)
        results[label] = Measured(
            chunks=len(vectors),
            questions=len(queries),
            of_candidates=share_found(exact, found),
            of_best=share_found(exact[:, :BEST], found),
            has_nearest=share_found(exact[:, :1], found),
            milliseconds=statistics.median(milliseconds),
        )
    return results


def share_found(exact: NDArray[np.intp], found: Found) -> float:
    """The mean share of the nearest chunks that were found."""
    shares = []
    for nearest, found_for_query in zip(exact.tolist(), found, strict=True):
        shares.append(len(set(nearest) & set(found_for_query)) / len(nearest))
    return statistics.mean(shares)


def write_up(results: Mapping[str, Mapping[str, Measured]], command: str) -> Iterator[str]:
    """The whole page, line by line."""
    yield from ("# Chroma's approximate search", "", f"Made by `{command}`.", "")
    yield from (
        f"Shares of the nearest {CANDIDATES} and {BEST} chunks by exact search that are among the",
        f"{CANDIDATES} found, of questions whose nearest chunk is, and a query's median time.",
        "",
    )
    header = ["set", "chunks", "questions", "index", f"of {CANDIDATES}", f"of {BEST}", "nearest"]
    rows = []
    for name, by_label in results.items():
        for label, measured in by_label.items():
            rows.append(
                [
                    name,
                    f"{measured.chunks:,}",
                    str(measured.questions),
                    label,
                    f"{measured.of_candidates:.3f}",
                    f"{measured.of_best:.3f}",
                    f"{measured.has_nearest:.3f}",
                    f"{measured.milliseconds:.1f}",
                ]
            )
    yield from table([*header, "ms"], rows)


if __name__ == "__main__":
    main()
