"""The two stores that run inside the program: in memory, or Chroma and SQLite in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from sqlalchemy.engine import URL

from langchain_rse._messages import check_type, load
from langchain_rse.stores.sql import SQLDocStore
from langchain_rse.text.quoting import first_few

if TYPE_CHECKING:
    from chromadb.api.collection_configuration import CreateCollectionConfiguration

DOCSTORE_FILE = "chunks.db"
CHROMA_FOLDER = "chroma"
_COLLECTION = "chunks"
_CHROMA_FILE = "chroma.sqlite3"

# With these, a search finds 0.99 of the best 200 of 27,835 chunks; with Chroma's defaults, 0.93.
_INDEX: CreateCollectionConfiguration = {
    "hnsw": {"space": "cosine", "ef_search": 400, "max_neighbors": 32, "ef_construction": 200}
}


# The clients that are open in this process, by folder. Those of a folder share its files.
_clients: dict[Path, list[Any]] = {}


def refuse_other_files(folder: Path, name: str, marks: Iterable[str]) -> None:
    """Raise a ValueError if a folder has files, but none of the marks of a folder of stores."""
    names = sorted(path.name for path in folder.glob("[!.]*"))
    if names and set(names).isdisjoint(marks):
        raise ValueError(
            f"{name} has other files ({first_few(names)}). Choose an empty or a new folder, such "
            f"as {folder.resolve().name}-kb"
        )


def open_stores(
    embedding: Embeddings,
    folder: str | os.PathLike[str] | None,
    *,
    marks: Iterable[str] = (CHROMA_FOLDER, DOCSTORE_FILE),
) -> tuple[VectorStore, SQLDocStore, Callable[[], None]]:
    """Open the vector store and the docstore in a folder, or make both in memory for None.

    Returns:
        Both stores, and a function that closes them.

    Raises:
        ImportError: If there is a folder, and Chroma is not installed.
    """
    closing = ExitStack()
    if folder is None:
        return InMemoryVectorStore(embedding), SQLDocStore("sqlite://"), closing.close
    check_type("persist_directory", folder, (str, os.PathLike), "the path of a folder")
    if Path(folder).is_file():
        raise ValueError(f"persist_directory must be a folder; {folder!r} is a file")
    user = f"persist_directory={os.fspath(folder)!r}"
    refuse_other_files(Path(folder), user, marks)
    # Chroma first: if it is not installed, no file is made.
    chromadb = load("chromadb", "chroma", user)
    langchain_chroma = load("langchain_chroma", "chroma", user)
    path = Path(folder).resolve() / CHROMA_FOLDER
    path.mkdir(parents=True, exist_ok=True)
    if not (path / _CHROMA_FILE).exists():  # a new client would share the files that were deleted
        for client in tuple(_clients.get(path, ())):
            _close(path, client)
    client_settings = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(path), client_settings)
    _clients.setdefault(path, []).append(client)
    vectorstore: VectorStore = langchain_chroma.Chroma(
        _COLLECTION, embedding, client=client, collection_configuration=_INDEX
    )
    closing.callback(_close, path, client)
    docstore = open_docstore(folder)
    closing.callback(docstore.close)
    return vectorstore, docstore, closing.close


def _close(path: Path, client: Any) -> None:  # noqa: ANN401 - of Chroma
    """Close a client, unless it was closed before."""
    if client in _clients[path]:
        _clients[path].remove(client)
        client.close()


def open_docstore(folder: str | os.PathLike[str]) -> SQLDocStore:
    """Open the docstore in a folder."""
    path = (Path(folder) / DOCSTORE_FILE).as_posix()  # as text of a URL, "%20" would be a space
    return SQLDocStore(URL.create("sqlite", database=path))
