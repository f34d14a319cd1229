"""Input of the benchmarks: datasets of questions, and texts that every Python includes."""

from __future__ import annotations

import argparse
import gzip
import random
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple, Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter, TextSplitter
from models import MODELS, CachedEmbeddings, Floats32, progress
from typing_extensions import override

from langchain_rse import RSERetriever
from langchain_rse.evaluation import Question, load_questions
from langchain_rse.indexer import default_text_splitter

HERE = Path(__file__).resolve().parent
CHUNK_SIZE = 800  # of the texts that every Python includes


class Layout(NamedTuple):
    """How a dataset is measured."""

    chunk_size: int
    budgets: tuple[int, ...]  # characters, ascending
    names: bool  # True to embed chunks with their document's name in front


LANGUAGE = "languages-"  # prefix of datasets that are not in English
LANGUAGES = Layout(200, (400, 800, 1600), names=False)
LAYOUTS = {
    "chats": Layout(400, (800, 1600, 3200), names=False),
    "claims": Layout(800, (1600, 3200, 6400), names=False),
    "code": Layout(800, (1600, 3200, 6400), names=False),
    "diseases": Layout(800, (1600, 3200, 6400), names=False),
    "excerpts": Layout(400, (800, 1600, 3200, 6400), names=False),
    "filings": Layout(800, (4000, 8000, 16000), names=True),
    "manuals": Layout(400, (800, 1600, 3200), names=False),
    "mergers": Layout(800, (1600, 3200, 6400), names=False),
    "meetings": Layout(800, (4000, 8000, 16000), names=False),
    "papers": Layout(800, (1600, 3200, 6400), names=False),
    "policies": Layout(800, (1600, 3200, 6400), names=False),
    "reports": Layout(400, (800, 1600, 3200), names=False),
    "stories": Layout(400, (800, 1600, 3200), names=False),
    "turns": Layout(400, (800, 1600, 3200), names=False),
    **{f"languages-{code}": LANGUAGES for code in ("ar", "de", "hi", "ru", "th", "zh")},
}
OTHER_LAYOUT = Layout(800, (4000, 8000, 16000), names=False)


@dataclass(frozen=True)
class Folder:
    """A dataset: documents and questions about them."""

    name: str
    layout: Layout
    sources: dict[str, str]  # texts by document id
    questions: list[Question]

    @property
    def documents(self) -> list[Document]:
        """The documents; their ids, which the evidence uses, are names of files."""
        return [
            Document(page_content=text, metadata={"doc_id": name, "source": f"{name}.txt"})
            for name, text in self.sources.items()
        ]

    @property
    def splitter(self) -> TextSplitter:
        """The splitter that all methods use."""
        return default_text_splitter(self.layout.chunk_size)


def parse_arguments(description: str | None, **options: Mapping[str, Any]) -> argparse.Namespace:
    """Read the options that all quality benchmarks share, and additional ones by name.

    Makes the folder for results now, rather than after hours.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="folder of the datasets")
    parser.add_argument("--folders", nargs="+", metavar="NAME", help="default: all datasets")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["minilm"])
    parser.add_argument("--every", type=int, default=1, help="ask every Nth question; default 1")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for results")
    parser.add_argument("--cache", type=Path, default=HERE / ".cache", help="folder for vectors")
    for name, settings in options.items():
        parser.add_argument(f"--{name}", **settings)
    arguments = parser.parse_args()
    if not arguments.folders:
        sets = arguments.data.glob("*/questions.jsonl")
        arguments.folders = sorted(path.parent.name for path in sets)
    arguments.out.mkdir(parents=True, exist_ok=True)
    return arguments


def command_given() -> str:
    """The command line, without the folders of data and results."""
    script = Path(sys.argv[0]).name
    given = iter(sys.argv[1:])
    options = []
    for option in given:
        if option in {"--data", "--out", "--cache"}:
            next(given)
        else:
            options.append(option)
    return " ".join([f"python benchmarks/{script} --data PATH", *options])


def read_folder(data: Path, name: str) -> Folder:
    """Read documents and questions."""
    path = data / name
    sources = {}
    for file in sorted((path / "documents").iterdir()):
        doc_id = file.name.removesuffix(".gz")
        if doc_id.endswith((".md", ".txt")):
            # Offsets count every character: line ends stay as they are.
            reader = gzip.open if file.suffix == ".gz" else open
            with reader(file, "rt", encoding="utf-8", newline="") as stream:
                sources[doc_id.rpartition(".")[0]] = str(stream.read())
    layout = LAYOUTS.get(name, OTHER_LAYOUT)
    return Folder(name, layout, sources, load_questions(path / "questions.jsonl"))


def index(
    folder: Folder, model: str, cache: Path, docstore: BaseStore[str, Document]
) -> tuple[RSERetriever, MatrixStore]:
    """A retriever over a dataset's chunks, and its vector store."""
    embeddings = CachedEmbeddings(model, cache / f"{folder.name}-{model}.npz")
    store = MatrixStore(embeddings, f"{folder.name}, chunks", named=folder.layout.names)
    ours = RSERetriever(vectorstore=store, docstore=docstore, text_splitter=folder.splitter)
    progress(f"{folder.name}: indexing")
    ours.add_documents(folder.documents)
    embeddings.queries([question.question for question in folder.questions])
    return ours, store


class MatrixStore(VectorStore):
    """Vectors in memory, searched exhaustively; scores are cosine similarities.

    The first search embeds all texts; ``title`` is shown meanwhile. ``named`` texts are embedded
    with their document's name in front.
    """

    def __init__(self, embeddings: CachedEmbeddings, title: str, *, named: bool) -> None:
        self._embeddings = embeddings
        self._title = title
        self._named = named
        self._documents: list[Document] = []
        self._vectors: Floats32 | None = None
        self._found: dict[tuple[str, int], list[tuple[int, float]]] = {}

    @property
    @override
    def embeddings(self) -> CachedEmbeddings:
        return self._embeddings

    @cached_property
    def spans(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Start and end of each chunk in its document, by document id and chunk number."""
        return {
            (chunk.metadata["doc_id"], chunk.metadata["chunk_index"]): (
                chunk.metadata["start_index"],
                chunk.metadata["end_index"],
            )
            for chunk in self._documents
        }

    @override
    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[Any, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        texts = list(texts)
        names = ids or [str(len(self._documents) + place) for place in range(len(texts))]
        metadata = metadatas or [{} for _ in texts]
        self._documents += [
            Document(page_content=text, metadata=values, id=name)
            for text, values, name in zip(texts, metadata, names, strict=True)
        ]
        self._vectors = None
        self._found.clear()
        return names

    @override
    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    @override
    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        if (query, k) not in self._found:
            self._found[query, k] = self._search(query, k)
        return [
            (self._documents[place].model_copy(), score) for place, score in self._found[query, k]
        ]

    def _search(self, query: str, k: int) -> list[tuple[int, float]]:
        if not self._documents:
            return []
        if self._vectors is None:
            self._vectors = self._embeddings.matrix(
                [self._embedded(document) for document in self._documents], self._title
            )
        similarity = self._vectors @ self._embeddings.queries([query])[0]
        # Stable, so that duplicate texts keep their order.
        best = np.argsort(-similarity, kind="stable")[:k]
        return list(zip(best.tolist(), similarity[best].tolist(), strict=True))

    def _embedded(self, document: Document) -> str:
        if not self._named:
            return document.page_content
        return f"{document.metadata['doc_id'].replace('_', ' ')}\n\n{document.page_content}"

    @classmethod
    @override
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[Any, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        raise NotImplementedError


class Corpus(NamedTuple):
    """Documents and queries."""

    documents: list[Document]
    chunks: int  # of `CHUNK_SIZE` characters
    queries: list[str]  # sentences of topics


def read_corpus(chunks: int, queries: int, rng: random.Random) -> Corpus:
    """Topics of the reference, then source files in random order, about ``chunks`` chunks."""
    splitter = RecursiveCharacterTextSplitter(chunk_size=CHUNK_SIZE, chunk_overlap=0)
    documents: list[Document] = []
    asked = {" ".join(each.split()) for text in topics.values() for each in text.split(". ")}
    sentences = sorted(text for text in asked if 4 <= len(text.split()) <= 30)
    count = 0
    for source, text in read_texts(rng):
        if count >= chunks:
            break
        count += len(splitter.split_text(text))
        documents.append(Document(page_content=text, metadata={"source": source}))
    return Corpus(documents, count, rng.sample(sentences, queries))


def read_texts(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Pairs of a name and a text: topics, the standard library, installed packages."""
    yield from topics.items()
    paths = sysconfig.get_paths()
    library, packages = Path(paths["stdlib"]), Path(paths["purelib"])
    for folder in (library, packages):
        files = sorted(
            file
            for file in folder.rglob("*.py")
            if folder == packages or "site-packages" not in file.parts
        )
        rng.shuffle(files)
        for file in files:
            # Some test files of Python are unreadable on purpose.
            text = file.read_text(encoding="utf-8", errors="replace")
            if text.strip():
                yield str(file.relative_to(folder)), text
