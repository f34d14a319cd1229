"""Adapter for Chroma of langchain-chroma and langchain-community."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse._sync import Steps, compute
from langchain_rse.stores.vectorstores.base import (
    PAGE_SIZE,
    EmbeddedChunk,
    IdsWithVectors,
    VectorStoreAdapter,
    chunks_of,
    columns,
)

# How often a search is repeated that met a chunk while another thread deleted it.
_REPEATS = 3


class ChromaAdapter(VectorStoreAdapter):
    """Adapter for Chroma."""

    can_list = True
    lists_in_insertion_order = True
    can_read_vectors = True
    can_filter_namespaces = True
    takes_lists = True

    @override
    def search(self, method: str, query: str, arguments: Mapping[str, Any]) -> Steps[Any]:
        for _ in range(_REPEATS):
            try:
                return (yield from super().search(method, query, arguments))
            except Exception as error:
                if "Error finding id" not in str(error):
                    raise
        return (yield from super().search(method, query, arguments))

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
    def put_chunks(self, chunks: Iterable[EmbeddedChunk]) -> None:
        ids, texts, metadatas, vectors = columns(chunks)
        # langchain-chroma has no method that accepts vectors; its documentation does the same.
        self.store._collection.upsert(ids, vectors, metadatas, texts)  # noqa: SLF001
