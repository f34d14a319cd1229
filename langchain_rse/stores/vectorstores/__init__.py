"""Adapters for vector stores, one file per store; get one with `adapter_for`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_rse.stores.vectorstores.base import VectorStoreAdapter, vector_id_of
from langchain_rse.stores.vectorstores.chroma import ChromaAdapter
from langchain_rse.stores.vectorstores.faiss import FAISSAdapter
from langchain_rse.stores.vectorstores.in_memory import InMemoryAdapter
from langchain_rse.stores.vectorstores.milvus import MilvusAdapter
from langchain_rse.stores.vectorstores.pgvector import PGVectorAdapter, PGVectorStoreAdapter
from langchain_rse.stores.vectorstores.qdrant import QdrantAdapter

if TYPE_CHECKING:  # saves half a second of imports for docstores alone
    from langchain_core.vectorstores import VectorStore

__all__ = ["ADAPTERS", "FILTERED", "IN_ORDER", "LISTED", "adapter_for", "vector_id_of"]

# By class name, so that no vector store package is imported.
ADAPTERS: dict[str, type[VectorStoreAdapter]] = {
    "PGVectorStore": PGVectorStoreAdapter,
    "Chroma": ChromaAdapter,
    "FAISS": FAISSAdapter,
    "InMemoryVectorStore": InMemoryAdapter,
    "QdrantVectorStore": QdrantAdapter,
    "PGVector": PGVectorAdapter,
    "Milvus": MilvusAdapter,
}


def _stores_with(ability: str) -> str:
    """Return the names of the stores whose adapters have an ability."""
    return ", ".join(name for name, adapter in ADAPTERS.items() if getattr(adapter, ability))


LISTED = _stores_with("can_list")
"""Names of the stores that can list their chunks."""

IN_ORDER = _stores_with("lists_in_insertion_order")
"""Names of the stores that list their chunks in insertion order."""

FILTERED = _stores_with("can_filter_namespaces")
"""Names of the stores that can filter by namespace."""


def adapter_for(store: VectorStore) -> VectorStoreAdapter:
    """Return the adapter for a vector store's class or its nearest known base class."""
    for cls in type(store).__mro__:
        if cls.__name__ in ADAPTERS:
            return ADAPTERS[cls.__name__](store, cls.__name__)
    return VectorStoreAdapter(store)
