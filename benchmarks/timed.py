"""Stores that time themselves, and the retriever over them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chromadb.config import Settings
from corpus import CHUNK_SIZE
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings


class Clock:
    """Adds up the seconds spent in named parts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the block towards a part."""
        started = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed

    def take(self) -> dict[str, float]:
        """What was counted since the last time."""
        taken, self.seconds = self.seconds, {}
        return taken


CLOCK = Clock()


class TimedEmbeddings(WordLlamaEmbeddings):
    """Static vectors, far faster than a transformer's, so that overhead shows."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts."""
        with CLOCK.part("embedding"):
            return super().embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        with CLOCK.part("embedding"):
            return super().embed_query(text)


class TimedCollection:
    """Chroma's own collection, which gets chunks with their vectors."""

    def __init__(self, collection: Any) -> None:  # noqa: ANN401 - of chromadb
        self._collection = collection

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the collection
        return getattr(self._collection, name)

    def upsert(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - of chromadb
        """Write chunks."""
        with CLOCK.part("upsert"):
            self._collection.upsert(*arguments, **named)


class TimedChroma(Chroma):
    """Chroma; the time of its search has the embedding's in it."""

    @property
    def _collection(self) -> Any:  # noqa: ANN401 - of chromadb
        return TimedCollection(super()._collection)

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:  # noqa: ANN401
        """Add documents."""
        with CLOCK.part("store"):
            return super().add_documents(documents, **kwargs)

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: dict[str, Any] | None = None,  # noqa: A002
        where_document: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> list[tuple[Document, float]]:
        """Search."""
        with CLOCK.part("store"):
            return super().similarity_search_with_score(query, k, filter, where_document, **kwargs)


class TimedSplitter(RecursiveCharacterTextSplitter):
    """The default splitter."""

    def split_text(self, text: str) -> list[str]:
        """Split a text."""
        with CLOCK.part("splitting"):
            return super().split_text(text)


class TimedDocStore(SQLDocStore):
    """SQLDocStore that times its first read apart from its second."""

    reads = 0

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get Documents."""
        with CLOCK.part(self._read()):
            return super().mget(keys)

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Write Documents."""
        with CLOCK.part("docstore"):
            super().mset(key_value_pairs)

    def _read(self) -> str:
        self.reads += 1
        return f"docstore read {self.reads}"


def make_retriever(
    folder: Path, splitter: type[RecursiveCharacterTextSplitter] = TimedSplitter
) -> RSERetriever:
    """A retriever with default settings over timed stores."""
    store = TimedChroma(
        collection_name="benchmark",
        embedding_function=TimedEmbeddings(),
        client_settings=Settings(
            anonymized_telemetry=False,
            is_persistent=True,
            persist_directory=str(folder / "chroma"),
        ),
    )
    return RSERetriever(
        vectorstore=store,
        docstore=TimedDocStore(f"sqlite:///{folder / 'chunks.db'}"),
        text_splitter=splitter(chunk_size=CHUNK_SIZE, chunk_overlap=0),
    )


def store_of(retriever: RSERetriever) -> Chroma:
    """The retriever's vector store."""
    if not isinstance(retriever.vectorstore, Chroma):
        raise TypeError("the retriever needs a Chroma store")
    return retriever.vectorstore


def say(message: str) -> None:
    """Print at once."""
    print(message, flush=True)
