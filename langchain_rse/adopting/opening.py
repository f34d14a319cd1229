"""Opening vector stores to read them out: no embedding model is needed for that."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import sqlalchemy as sa
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

__all__ = ["open_store"]


def open_store(where: str, collection: str | None, *, trust_pickle: bool = False) -> VectorStore:
    """Open a vector store on the disk or in PostgreSQL.

    Args:
        where: A folder of Chroma's or FAISS's, or the URL of a PostgreSQL database.
        collection: The collection in Chroma or PostgreSQL; None for the only one. FAISS: the
            name of the index; None for ``"index"``.
        trust_pickle: Whether FAISS may unpickle its texts: that can run any code.

    Raises:
        ValueError: If there is no such store or collection, or FAISS may not unpickle.
        ImportError: If the store's package is missing; the message names it.
    """
    if "://" in where:
        return _open_postgres(where, collection)
    folder = Path(where)
    if (folder / "chroma.sqlite3").exists():
        return _open_chroma(folder, collection)
    if (folder / f"{collection or 'index'}.faiss").exists():
        return _open_faiss(folder, collection or "index", trust_pickle=trust_pickle)
    raise ValueError(
        f"there is no vector store in {where}: neither chroma.sqlite3 (of Chroma) nor "
        f"{collection or 'index'}.faiss (of FAISS). For PostgreSQL with pgvector, give a URL such "
        "as postgresql://user:password@host/database"
    )


def _open_chroma(folder: Path, collection: str | None) -> VectorStore:
    try:
        import chromadb  # noqa: PLC0415
        from chromadb.config import Settings  # noqa: PLC0415
        from langchain_chroma import Chroma  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("Chroma needs: pip install 'langchain-rse[chroma]'") from error
    client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
    names = [found.name for found in client.list_collections()]
    return Chroma(
        client=client,
        collection_name=_chosen(collection, names, str(folder)),
        create_collection_if_not_exists=False,
    )


def _open_faiss(folder: Path, name: str, *, trust_pickle: bool) -> VectorStore:
    if not trust_pickle:
        raise ValueError(
            f"{folder / name}.pkl is a pickle, which can run any code when it is read: if you made "
            "it yourself, say so (--trust-pickle)"
        )
    try:
        import faiss  # noqa: F401, PLC0415
        from langchain_community.vectorstores import FAISS  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "FAISS needs: pip install 'langchain-rse[community]' faiss-cpu"
        ) from error
    return FAISS.load_local(
        str(folder), _NoEmbeddings(), name, allow_dangerous_deserialization=True
    )


def _open_postgres(url: str, collection: str | None) -> VectorStore:
    try:
        import psycopg  # noqa: F401, PLC0415
        from langchain_postgres import PGVector  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "PostgreSQL needs: pip install 'langchain-rse[postgres]' langchain-postgres"
        ) from error
    address = sa.make_url(url).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(address)
    table = "langchain_pg_collection"
    if not sa.inspect(engine).has_table(table):
        raise ValueError(f"the database {address.database!r} has no table {table} of PGVector's")
    with engine.connect() as connection:
        known = sa.table(table, sa.column("name", sa.String))
        names = list(connection.scalars(sa.select(known.c.name)))
    store: VectorStore = PGVector(
        _NoEmbeddings(),
        connection=engine,
        collection_name=_chosen(collection, names, str(address.database)),
        create_extension=False,
    )
    return store


def _chosen(collection: str | None, names: list[str], where: str) -> str:
    """The collection of that name, or the only one: opening another would make it."""
    known = ", ".join(map(repr, sorted(names))) or "none"
    if collection is None and len(names) != 1:
        raise ValueError(f"say which collection of {where} it is; there are: {known}")
    if collection is not None and collection not in names:
        raise ValueError(f"{where} has no collection {collection!r}; there are: {known}")
    return names[0] if collection is None else collection


class _NoEmbeddings(Embeddings):
    """Stands where a store asks for a model that it will not use."""

    def embed_documents(self, texts: list[str]) -> NoReturn:
        raise NotImplementedError("this store was opened to be read out")

    def embed_query(self, text: str) -> NoReturn:
        raise NotImplementedError("this store was opened to be read out")
