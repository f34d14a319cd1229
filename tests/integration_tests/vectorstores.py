"""The vector stores of the compatibility suite: how each is opened, scores and filters."""

from __future__ import annotations

import asyncio
import json
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from sqlalchemy.ext.asyncio import create_async_engine

from langchain_rse.query.filters import filters_of

DIMENSIONS = 65
"""Of `tests.unit_tests.fakes.BagOfWords`."""


@dataclass(frozen=True)
class Place:
    """Where a test may put its index.

    Attributes:
        folder: Empty at first.
        embeddings: The model.
        is_async: Whether the async methods will be called.
        server: Gives the address of a server by its name, and starts it if need be.
    """

    folder: Path
    embeddings: Embeddings
    is_async: bool
    server: Callable[[str], str]


Opener = Callable[[Place], AbstractContextManager[VectorStore]]


@dataclass(frozen=True)
class Case:
    """A vector store and what a user has to know of it.

    Attributes:
        name: For the reports.
        open: Opens an empty store.
        score: What the store gives as the score of a chunk whose vector, of length 1, has
            this cosine with the query's.
        filtered: The ``search_kwargs`` that keep chunks whose metadata has this value.
        linear: Whether the score is a linear function of the cosine.
        typed: Whether there is nothing to ask before the first chunks are added, which then
            decide which metadata all others may have, and of which types.
        reuses: Whether its vectors are written again for chunks that did not change.
        looks_into: The ``search_kwargs`` that keep chunks with this value in a list of their
            metadata; None for stores that get no lists.
        relevant: Whether LangChain's relevance scores fall from the best chunk to the worst.
    """

    name: str
    open: Opener
    score: Callable[[float], float]
    filtered: Callable[[str, int | str], dict[str, Any]]
    linear: bool = True
    typed: bool = False
    reuses: bool = True
    looks_into: Callable[[str, str], dict[str, Any]] | None = None
    relevant: bool = True


_UNABLE: dict[str, Any] = {"reuses": False}


def cosine(similarity: float) -> float:
    return similarity


def cosine_distance(similarity: float) -> float:
    return 1.0 - similarity


def negative_cosine(similarity: float) -> float:
    return -similarity


def squared_distance(similarity: float) -> float:
    return 2.0 - 2.0 * similarity


def distance(similarity: float) -> float:
    return float(max(squared_distance(similarity), 0.0) ** 0.5)


def announced(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a query, with ``candidates_only`` if a filter is not a dict.

    Without it, a warning would say that passages contain the candidates only.
    """
    search_kwargs = arguments.get("search_kwargs", {})
    if not filters_of(search_kwargs, None).others:
        return arguments
    return {**arguments, "candidates_only": True}


def by_dict(name: str, value: int | str) -> dict[str, Any]:
    return {"filter": {name: value}}


@contextmanager
def in_memory(place: Place) -> Iterator[VectorStore]:
    yield InMemoryVectorStore(place.embeddings)


def by_function(name: str, value: int | str) -> dict[str, Any]:
    return {"filter": lambda document: document.metadata.get(name) == value}


def in_list_by_function(name: str, value: str) -> dict[str, Any]:
    return {"filter": lambda document: value in document.metadata.get(name, [])}


def chroma_contains(name: str, value: str) -> dict[str, Any]:
    return {"filter": {name: {"$contains": value}}}


def chroma(where: str, space: str) -> Opener:
    @contextmanager
    def opened(place: Place) -> Iterator[VectorStore]:
        import chromadb
        from chromadb.config import Settings
        from langchain_chroma import Chroma

        settings = Settings(anonymized_telemetry=False)
        client: Any
        if where == "server":
            host, port = place.server("chroma").split(":")
            client = chromadb.HttpClient(host=host, port=int(port), settings=settings)
        elif where == "disk":
            client = chromadb.PersistentClient(place.folder, settings=settings)
        else:
            client = chromadb.EphemeralClient(settings=settings)
        configuration: Any = {"hnsw": {"space": space}}
        # All that are in process share what they hold, as do those of the server.
        yield Chroma(
            collection_name=_new_name(),
            embedding_function=place.embeddings,
            client=client,
            collection_configuration=configuration,
        )
        client.close()
        if where == "server":
            for part in (client, client._admin_client):  # they stay open otherwise
                part._server._session.close()

    return opened


def faiss(strategy: str) -> Opener:
    @contextmanager
    def opened(place: Place) -> Iterator[VectorStore]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the package is being sunset
            faiss = pytest.importorskip("faiss")
            pytest.importorskip("langchain_community")
            from langchain_community.docstore.in_memory import InMemoryDocstore
            from langchain_community.vectorstores import FAISS
            from langchain_community.vectorstores.utils import DistanceStrategy
        of_products = strategy == "MAX_INNER_PRODUCT"
        yield FAISS(
            embedding_function=place.embeddings,
            index=(faiss.IndexFlatIP if of_products else faiss.IndexFlatL2)(DIMENSIONS),
            docstore=InMemoryDocstore(),
            index_to_docstore_id={},
            distance_strategy=DistanceStrategy[strategy],
        )

    return opened


def faiss_filter(name: str, value: int | str) -> dict[str, Any]:
    # It filters what it has found: the best 20 chunks, unless told otherwise.
    return {"filter": {name: value}, "fetch_k": 10_000}


def faiss_contains(name: str, value: str) -> dict[str, Any]:
    return {"filter": lambda metadata: value in metadata.get(name, []), "fetch_k": 10_000}


def qdrant(where: str, metric: str) -> Opener:
    @contextmanager
    def opened(place: Place) -> Iterator[VectorStore]:
        from langchain_qdrant import QdrantVectorStore
        from qdrant_client import QdrantClient, models

        settings: dict[str, Any] = (
            {"path": str(place.folder)} if where == "disk" else {"location": ":memory:"}
        )
        client = QdrantClient(**settings)
        params = models.VectorParams(size=DIMENSIONS, distance=models.Distance[metric])
        client.create_collection("chunks", vectors_config=params)
        yield QdrantVectorStore(
            client, "chunks", place.embeddings, distance=models.Distance[metric]
        )
        client.close()

    return opened


def qdrant_filter(name: str, value: int | str) -> dict[str, Any]:
    from qdrant_client import models

    condition = models.FieldCondition(key=f"metadata.{name}", match=models.MatchValue(value=value))
    return {"filter": models.Filter(must=[condition])}


def lancedb(**settings: Any) -> Opener:
    @contextmanager
    def opened(place: Place) -> Iterator[VectorStore]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the package is being sunset
            pytest.importorskip("lancedb")
            pytest.importorskip("langchain_community")
            from langchain_community.vectorstores import LanceDB
        # By default, each batch that is added replaces all that was there.
        yield LanceDB(
            uri=str(place.folder), embedding=place.embeddings, **{"mode": "append", **settings}
        )

    return opened


def lancedb_filter(name: str, value: int | str) -> dict[str, Any]:
    literal = value if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
    # Unless told otherwise, it filters what it has found.
    return {"filter": f"metadata.{name} = {literal}", "prefilter": True}


def milvus(metric: str) -> Opener:
    @contextmanager
    def opened(place: Place) -> Iterator[VectorStore]:
        from langchain_milvus import Milvus
        from milvus_lite.server_manager import server_manager_instance

        path = str(place.folder / "milvus.db")
        store = Milvus(
            place.embeddings,
            connection_args={"uri": path},
            index_params={"index_type": "FLAT", "metric_type": metric},
            enable_dynamic_field=True,  # or all chunks need the metadata of the first one
        )
        yield store
        store.client.close()
        server_manager_instance.release_server(path)  # it runs in a thread

    return opened


def milvus_filter(name: str, value: int | str) -> dict[str, Any]:
    return {"expr": f"{name} == {json.dumps(value)}"}


def milvus_contains(name: str, value: str) -> dict[str, Any]:
    return {"expr": f"json_contains({name}, {json.dumps(value)})"}


def pgvector(strategy: str) -> Opener:
    @contextmanager
    def opened(place: Place) -> Iterator[VectorStore]:
        from langchain_postgres import PGVector
        from langchain_postgres.vectorstores import DistanceStrategy

        url = place.server("postgres")
        engine: Any = (
            create_async_engine(url, poolclass=sa.NullPool)
            if place.is_async
            else sa.create_engine(url, poolclass=sa.NullPool)
        )
        yield PGVector(
            place.embeddings, connection=engine, distance_strategy=DistanceStrategy[strategy]
        )
        # All collections of a database are in one table, under one key.
        _execute(url, "DROP TABLE IF EXISTS langchain_pg_embedding, langchain_pg_collection")

    return opened


def pgvectorstore(strategy: str) -> Opener:
    @contextmanager
    def opened(place: Place) -> Iterator[VectorStore]:
        from langchain_postgres import PGEngine, PGVectorStore
        from langchain_postgres.v2.indexes import DistanceStrategy

        url = place.server("postgres")
        _execute(url, "CREATE EXTENSION IF NOT EXISTS vector")
        engine = PGEngine.from_connection_string(url)
        table = _new_name()
        engine.init_vectorstore_table(table, DIMENSIONS)
        yield PGVectorStore.create_sync(
            engine, place.embeddings, table, distance_strategy=DistanceStrategy[strategy]
        )
        asyncio.run(engine.close())

    return opened


def _execute(url: str, statement: str) -> None:
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        connection.exec_driver_sql(statement)


def _new_name() -> str:
    return f"chunks_{uuid.uuid4().hex}"


_SPACES = {"cosine": cosine_distance, "l2": squared_distance, "ip": cosine_distance}

_FAISS: dict[str, Any] = {"looks_into": faiss_contains}
_QDRANT: dict[str, Any] = {"looks_into": qdrant_filter}
_MILVUS: dict[str, Any] = {**_UNABLE, "looks_into": milvus_contains}
_PGVECTOR: dict[str, Any] = {**_UNABLE, "looks_into": by_dict}
# LangChain takes the products of vectors for distances, as other stores return them.
_INVERTED: dict[str, Any] = {"relevant": False}

CASES = [
    Case(
        "InMemoryVectorStore",
        in_memory,
        cosine,
        by_function,
        looks_into=in_list_by_function,
        relevant=False,
    ),
    *(
        Case(
            f"Chroma {where} {space}",
            chroma(where, space),
            score,
            by_dict,
            looks_into=chroma_contains,
        )
        for where in ("in process", "disk", "server")
        for space, score in _SPACES.items()
    ),
    Case("FAISS l2", faiss("EUCLIDEAN_DISTANCE"), squared_distance, faiss_filter, **_FAISS),
    Case("FAISS ip", faiss("MAX_INNER_PRODUCT"), cosine, faiss_filter, **_FAISS, **_INVERTED),
    Case("Qdrant disk cosine", qdrant("disk", "COSINE"), cosine, qdrant_filter, **_QDRANT),
    Case("Qdrant in process dot", qdrant("", "DOT"), cosine, qdrant_filter, **_QDRANT, **_INVERTED),
    Case(
        "Qdrant in process l2",
        qdrant("process", "EUCLID"),
        distance,
        qdrant_filter,
        linear=False,
        **_QDRANT,
    ),
    Case("LanceDB l2", lancedb(), squared_distance, lancedb_filter, typed=True, **_UNABLE),
    Case("Milvus l2", milvus("L2"), squared_distance, milvus_filter, **_MILVUS),
    Case("Milvus cosine", milvus("COSINE"), cosine, milvus_filter, **_MILVUS),
    Case("PGVector cosine", pgvector("COSINE"), cosine_distance, by_dict, **_PGVECTOR),
    Case("PGVector l2", pgvector("EUCLIDEAN"), distance, by_dict, linear=False, **_PGVECTOR),
    Case("PGVector ip", pgvector("MAX_INNER_PRODUCT"), negative_cosine, by_dict, **_PGVECTOR),
    *(
        Case(
            f"PGVectorStore {name}",
            pgvectorstore(strategy),
            score,
            by_dict,
            linear=score is not distance,
            relevant=score is not cosine,
            looks_into=chroma_contains,
        )
        for name, strategy, score in (
            ("cosine", "COSINE_DISTANCE", cosine_distance),
            ("l2", "EUCLIDEAN", distance),
            ("ip", "INNER_PRODUCT", cosine),
        )
    ),
]

# The stores that each change is tested with; the others are tested at night.
_EACH_CHANGE = {"InMemoryVectorStore", "Chroma disk cosine", "PGVector cosine"}


def params(cases: Iterable[Case]) -> list[Any]:
    """Parameters of tests, marked for the night except for a few stores."""
    marked: list[Any] = []
    for case in cases:
        marks = [] if case.name in _EACH_CHANGE else [pytest.mark.nightly]
        marked.append(pytest.param(case, id=case.name.replace(" ", "-"), marks=marks))
    return marked
