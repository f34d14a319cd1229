"""The two stores that run inside the program: in memory, or Chroma and SQLite in a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from sqlalchemy.engine import URL

from langchain_rse._messages import load
from langchain_rse.stores.sql import SQLDocStore

if TYPE_CHECKING:
    from chromadb.api.collection_configuration import CreateCollectionConfiguration
    from langchain_chroma import Chroma

DOCSTORE_FILE = "chunks.db"
CHROMA_FOLDER = "chroma"
_COLLECTION = "chunks"

# With these, a search finds 0.99 of the best 200 of 27,835 chunks; with Chroma's defaults, 0.93.
_INDEX: CreateCollectionConfiguration = {
    "hnsw": {"space": "cosine", "ef_search": 400, "max_neighbors": 32, "ef_construction": 200}
}


def open_stores(
    embedding: Embeddings, folder: str | os.PathLike[str] | None
) -> tuple[VectorStore, SQLDocStore]:
    """Open the vector store and the docstore in a folder, or make both in memory for None.

    Raises:
        ImportError: If there is a folder, and Chroma is not installed.
    """
    if folder is None:
        return InMemoryVectorStore(embedding), SQLDocStore("sqlite://")
    vectorstore = open_chroma(embedding, folder)  # first: without Chroma, no file is made
    return vectorstore, open_docstore(folder)


def open_chroma(embedding: Embeddings, folder: str | os.PathLike[str]) -> Chroma:
    """Open the vector store in a folder; its vectors are those of ``embedding``."""
    user = f"persist_directory={os.fspath(folder)!r}"
    chromadb = load("chromadb", "chroma", user)
    langchain_chroma = load("langchain_chroma", "chroma", user)

    path = Path(folder).resolve() / CHROMA_FOLDER
    path.mkdir(parents=True, exist_ok=True)
    client_settings = chromadb.config.Settings(anonymized_telemetry=False)
    vectorstore: Chroma = langchain_chroma.Chroma(
        _COLLECTION,
        embedding,
        client=chromadb.PersistentClient(str(path), client_settings),
        collection_configuration=_INDEX,
    )
    return vectorstore


def open_docstore(folder: str | os.PathLike[str]) -> SQLDocStore:
    """Open the docstore in a folder."""
    path = (Path(folder) / DOCSTORE_FILE).as_posix()  # as text of a URL, "%20" would be a space
    return SQLDocStore(URL.create("sqlite", database=path))
