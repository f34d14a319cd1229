"""Texts that every Python has, and queries about them: its reference and its source."""

from __future__ import annotations

import ast
import random
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics
from typing import NamedTuple

from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter

CHUNK_SIZE = 800


class Corpus(NamedTuple):
    """Documents and queries.

    Attributes:
        documents: One for each text.
        chunks: How many chunks of `CHUNK_SIZE` characters the documents have.
        queries: First sentences of topics and docstrings.
    """

    documents: list[Document]
    chunks: int
    queries: list[str]


def read_corpus(chunks: int, queries: int, rng: random.Random) -> Corpus:
    """The reference's topics, then files of source in random order, about ``chunks`` chunks."""
    splitter = RecursiveCharacterTextSplitter(chunk_size=CHUNK_SIZE, chunk_overlap=0)
    documents: list[Document] = []
    asked = [" ".join(text.split(".")[0].split()) for text in topics.values()]
    count = 0
    for source, text in read_texts(rng):
        if count >= chunks:
            break
        count += len(splitter.split_text(text))
        documents.append(Document(page_content=text, metadata={"source": source}))
        if len(asked) < 10 * queries and source.endswith(".py"):
            asked += first_sentences(text)
    asked = sorted({text for text in asked if 4 <= len(text.split()) <= 30})
    return Corpus(documents, count, rng.sample(asked, min(queries, len(asked))))


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
            # Some of Python's own tests are meant to be unreadable.
            text = file.read_text(encoding="utf-8", errors="replace")
            if text.strip():
                yield str(file.relative_to(folder)), text


def first_sentences(source: str) -> list[str]:
    """The first sentences of all docstrings of a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what the file does
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            return []
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    return [" ".join(text.split("\n\n")[0].split(". ")[0].split()) for text in docstrings if text]
