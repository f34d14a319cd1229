"""Adapter for Chroma of langchain-chroma and langchain-community."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, compute
from langchain_rse.stores.vectorstores.base import (
    PAGE_SIZE,
    ChunkRow,
    IdsWithVectors,
    VectorStoreAdapter,
    chunks_of,
    columns,
)

# An index with at most this many times the wanted chunks is searched nearly in full.
_SMALL_INDEX = 10

# Stores whose settings were checked.
_checked: weakref.WeakSet[Any] = weakref.WeakSet()


class ChromaAdapter(VectorStoreAdapter):
    """Adapter for Chroma."""

    can_list = True
    lists_in_insertion_order = True
    can_read_vectors = True
    can_filter_namespaces = True

    @override
    def search(self, method: str, query: str, arguments: Mapping[str, Any]) -> Steps[Any]:
        if self.store not in _checked:
            _checked.add(self.store)
            yield from compute(self._warn_of_missed_chunks, arguments.get("k", 0))
        return (yield from super().search(method, query, arguments))

    def _warn_of_missed_chunks(self, wanted: int) -> None:
        """Warn if a large index examines fewer chunks than wanted."""
        collection = self.store._collection  # noqa: SLF001 - LangChain has no method for it
        # Not `configuration`, which warns about embedding functions.
        index = (collection.configuration_json or {}).get("hnsw") or {}
        ef_search = index.get("ef_search")
        if not isinstance(ef_search, int) or ef_search >= wanted:
            return
        if collection.count() > _SMALL_INDEX * wanted:
            warn(
                f"Chroma's index examines only {ef_search} chunks (ef_search) to find {wanted} "
                "candidates, so it misses some. Raise ef_search: "
                f"vectorstore._collection.modify(configuration={{'hnsw': {{'ef_search': "
                f"{2 * wanted}}}}}), or see docs/stores.md, Chroma's search"
            )

    @property
    @override
    def takes_lists(self) -> bool:
        # Since chromadb 1.5. An older server cannot be detected here.
        from chromadb.api.types import validate_metadata  # noqa: PLC0415 - need not be installed

        try:
            validate_metadata({"list": ["value"]})
        except ValueError:
            return False
        return True

    @override
    def existing_texts(self, ids: Sequence[str]) -> Steps[dict[str, str] | None]:
        # get_by_ids fails for chunks without metadata.
        found = yield from compute(self.store.get, ids=list(ids), include=["documents"])
        texts = dict(zip(found["ids"], found["documents"], strict=True))
        return {vector: texts[vector] or "" for vector in ids if vector in texts}

    @override
    def list_chunks(self) -> Iterator[Document]:
        for offset in itertools.count(step=PAGE_SIZE):
            include = ["documents", "metadatas"]
            page = self.store.get(limit=PAGE_SIZE, offset=offset, include=include)
            if not page["ids"]:
                return
            yield from chunks_of(page)

    @override
    def get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        found = self.store.get(ids=list(ids), include=["embeddings"])
        return zip(found["ids"], found["embeddings"], strict=True)

    @override
    def put_chunks(self, rows: Sequence[ChunkRow]) -> None:
        ids, texts, metadatas, vectors = columns(rows)
        # langchain-chroma has no method that accepts vectors; its documentation does the same.
        self.store._collection.upsert(ids, vectors, metadatas, texts)  # noqa: SLF001
