"""Folders with documents and questions about them, and how each is measured."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_text_splitters import TextSplitter
from models import MODELS
from vectors import CachedCrossEncoder, CachedEmbeddings

from langchain_rse.evaluation import Question, load_questions
from langchain_rse.indexer import default_text_splitter

HERE = Path(__file__).resolve().parent


class Layout(NamedTuple):
    """How a folder is measured.

    Attributes:
        chunk_size: Characters of a full chunk.
        budgets: Characters that may be returned, ascending.
        names: True to embed chunks with their document's name in front.
    """

    chunk_size: int
    budgets: tuple[int, ...]
    names: bool


LANGUAGE = "languages-"  # begins the names of sets that are not in English
LANGUAGES = Layout(200, (400, 800, 1600), names=False)
LAYOUTS = {
    "chats": Layout(400, (800, 1600, 3200), names=False),
    "code": Layout(800, (1600, 3200, 6400), names=False),
    "excerpts": Layout(400, (800, 1600, 3200, 6400), names=False),
    "filings": Layout(800, (4000, 8000, 16000), names=True),
    "manuals": Layout(400, (800, 1600, 3200), names=False),
    "mergers": Layout(800, (1600, 3200, 6400), names=False),
    "meetings": Layout(800, (4000, 8000, 16000), names=False),
    "papers": Layout(800, (1600, 3200, 6400), names=False),
    "policies": Layout(800, (1600, 3200, 6400), names=False),
    "stories": Layout(400, (800, 1600, 3200), names=False),
    **{f"languages-{code}": LANGUAGES for code in ("ar", "de", "hi", "ru", "th", "zh")},
}
OTHER_LAYOUT = Layout(800, (4000, 8000, 16000), names=False)


@dataclass(frozen=True)
class Folder:
    """A set of documents and questions about them.

    Attributes:
        name: The sub-folder's name.
        layout: How it is measured.
        sources: Texts of the documents by id.
        questions: The questions with their evidence.
    """

    name: str
    layout: Layout
    sources: dict[str, str]
    questions: list[Question]

    @property
    def cells(self) -> list[str]:
        """Titles of its columns in tables."""
        return [f"{self.name} {budget:,}" for budget in self.layout.budgets]

    @property
    def documents(self) -> list[Document]:
        """The documents, with the file's name, which the questions use, as their source."""
        return [
            Document(page_content=text, metadata={"doc_id": name, "source": f"{name}.txt"})
            for name, text in self.sources.items()
        ]

    @property
    def splitter(self) -> TextSplitter:
        """The splitter that all methods use."""
        return default_text_splitter(self.layout.chunk_size)


def _made_folder(path: str) -> Path:
    """Make a folder before the benchmark runs for hours, and not only when it writes there."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all these benchmarks have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="folder with the sub-folders")
    parser.add_argument(
        "--out", type=_made_folder, default=HERE / "results", help="folder for results"
    )
    parser.set_defaults(chunk_size=None, budgets=None, names=None)
    return parser


def add_embeddings(parser: argparse.ArgumentParser) -> None:
    """Add the options of the benchmarks that embed."""
    parser.add_argument("--embeddings", choices=MODELS, default="minilm", help="default minilm")
    parser.add_argument("--cache", type=Path, default=HERE / ".cache", help="folder for vectors")


def cached_embeddings(folder: Folder, arguments: argparse.Namespace) -> CachedEmbeddings:
    """The embeddings for a folder, with the vectors that were kept."""
    file = arguments.cache / f"{folder.name}-{arguments.embeddings}.npz"
    return CachedEmbeddings(arguments.embeddings, file)


def cached_cross_encoder(folder: Folder, arguments: argparse.Namespace) -> CachedCrossEncoder:
    """The cross-encoder for a folder, with the scores that were kept."""
    return CachedCrossEncoder(arguments.cache / f"{folder.name}-cross-encoder.npz")


def write_page(
    arguments: argparse.Namespace,
    stem: str,
    lines: Iterable[str],
    **figures: Any,  # noqa: ANN401
) -> None:
    """Print a page, and write it with its figures, if there are any, into the results."""
    text = "\n".join(lines)
    print(text)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{stem}.md").write_text(text + "\n", encoding="utf-8")
    if figures:
        (arguments.out / f"{stem}.json").write_text(
            json.dumps(figures, indent=1) + "\n", encoding="utf-8"
        )


def folder_names(arguments: argparse.Namespace) -> list[str]:
    """The sub-folders to measure."""
    names: list[str] = arguments.folders or sorted(
        path.parent.name for path in arguments.data.glob("*/questions.jsonl")
    )
    missing = [name for name in names if not (arguments.data / name / "questions.jsonl").exists()]
    if missing or not names:
        sys.exit(f"{arguments.data} has no {'/'.join(missing) or '*'}/questions.jsonl")
    return names


def read_folder(arguments: argparse.Namespace, name: str) -> Folder:
    """Read documents and questions."""
    layout = LAYOUTS.get(name, OTHER_LAYOUT)
    if arguments.chunk_size:
        layout = layout._replace(chunk_size=arguments.chunk_size)
    if arguments.budgets:
        layout = layout._replace(budgets=tuple(sorted(arguments.budgets)))
    if arguments.names is not None:
        layout = layout._replace(names=arguments.names)
    path = arguments.data / name
    sources = {}
    for file in sorted((path / "documents").iterdir()):
        doc_id = file.name.removesuffix(".gz")
        if doc_id.endswith((".md", ".txt")):
            # Offsets count every character: line ends stay as they are.
            reader = gzip.open if file.suffix == ".gz" else open
            with reader(file, "rt", encoding="utf-8", newline="") as stream:
                sources[doc_id.rpartition(".")[0]] = str(stream.read())
    return Folder(name, layout, sources, load_questions(path / "questions.jsonl"))
