"""What this package knows of vector stores: one file a store, asked through `adapter_for`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_rse.stores.vectorstores.base import VectorStoreAdapter, vector_id_of
from langchain_rse.stores.vectorstores.chroma import ChromaAdapter
from langchain_rse.stores.vectorstores.faiss import FAISSAdapter
from langchain_rse.stores.vectorstores.in_memory import InMemoryAdapter
from langchain_rse.stores.vectorstores.lancedb import LanceDBAdapter
from langchain_rse.stores.vectorstores.milvus import MilvusAdapter
from langchain_rse.stores.vectorstores.pgvector import PGVectorAdapter, PGVectorStoreAdapter
from langchain_rse.stores.vectorstores.qdrant import QdrantAdapter

if TYPE_CHECKING:  # half a second of imports that docstores do without
    from langchain_core.vectorstores import VectorStore

__all__ = ["ADAPTERS", "FILTERED", "IN_ORDER", "LISTED", "adapter_for", "vector_id_of"]

# By the names of the stores' classes, so that no store's package is imported.
ADAPTERS: dict[str, type[VectorStoreAdapter]] = {
    "Chroma": ChromaAdapter,
    "FAISS": FAISSAdapter,
    "InMemoryVectorStore": InMemoryAdapter,
    "QdrantVectorStore": QdrantAdapter,
    "PGVector": PGVectorAdapter,
    "PGVectorStore": PGVectorStoreAdapter,
    "Milvus": MilvusAdapter,
    "LanceDB": LanceDBAdapter,
}


def _stores_with(ability: str) -> str:
    """The names of the stores whose adapters have an ability."""
    return ", ".join(name for name, adapter in ADAPTERS.items() if getattr(adapter, ability))


LISTED = _stores_with("can_list")
"""The names of the stores whose chunks can be listed."""

IN_ORDER = _stores_with("lists_in_insertion_order")
"""The names of the stores whose chunks are listed in the order in which they were added."""

FILTERED = _stores_with("can_filter_namespaces")
"""The names of the stores that can be filtered by namespace."""


def adapter_for(store: VectorStore) -> VectorStoreAdapter:
    """The adapter of a vector store, by its class or the nearest class that it derives from."""
    for cls in type(store).__mro__:
        if cls.__name__ in ADAPTERS:
            return ADAPTERS[cls.__name__](store)
    return VectorStoreAdapter(store)
