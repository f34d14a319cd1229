"""Adapters for PGVector and PGVectorStore of langchain-postgres."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse._sync import Steps, batches, run
from langchain_rse.stores.vectorstores.base import (
    PAGE_SIZE,
    EmbeddedChunk,
    IdsWithVectors,
    VectorStoreAdapter,
    chunks_of,
    columns,
)


class PGVectorAdapter(VectorStoreAdapter):
    """Adapter for PGVector, which is deprecated in favor of PGVectorStore."""

    takes_lists = True
    can_filter_namespaces = True


class PGVectorStoreAdapter(PGVectorAdapter):
    """Adapter for PGVectorStore, which keeps each collection in a separate table."""

    can_list = True
    can_read_vectors = True

    @property
    @override
    def collection_name(self) -> str:
        return str(self.store.get_table_name())

    @override
    def search(self, method: str, query: str, arguments: Mapping[str, Any]) -> Steps[Any]:
        if arguments.get("filter"):
            arguments = {**arguments, "filter": _with_list_operators(arguments["filter"])}
        return super().search(method, query, arguments)

    @override
    def list_chunks(self) -> Iterator[Document]:
        # All ids at once, because the store reads pages in no fixed order.
        all_ids = self.store.get(include=[])["ids"]
        for ids in batches(all_ids, PAGE_SIZE):
            yield from chunks_of(self.store.get(ids=ids, include=["documents", "metadatas"]))

    @override
    def get_vectors(self, ids: Sequence[str]) -> IdsWithVectors:
        if not ids:
            return []  # without ids, the store would return all vectors
        found = run(self._call("get", ids=list(ids), include=["embeddings"]))
        return zip(found["ids"], map(_parse_vector, found["embeddings"]), strict=True)

    @override
    def put_chunks(self, chunks: Iterable[EmbeddedChunk]) -> None:
        ids, texts, metadatas, vectors = columns(chunks)
        self._change("add_embeddings", texts, vectors, metadatas, ids)


def _parse_vector(vector: Any) -> Sequence[float]:  # noqa: ANN401
    """Return a vector that some drivers return as text, such as "[0.5,1]"."""
    values: Sequence[float] = json.loads(vector) if isinstance(vector, str) else vector
    return values


def _with_list_operators(condition: Mapping[str, Any]) -> dict[str, Any]:
    """Replace ``$contains``, which PGVectorStore lacks, by patterns of a list's JSON."""
    conditions: list[dict[str, Any]] = []
    for name, value in condition.items():
        if name in {"$and", "$or"}:
            conditions.append({name: [_with_list_operators(each) for each in value]})
        elif isinstance(value, Mapping) and value.keys() == {"$contains"}:
            patterns = _patterns_of_lists(value["$contains"])
            conditions.append({"$or": [{name: {"$like": pattern}} for pattern in patterns]})
        else:
            conditions.append({name: value})
    return {"$and": conditions}


def _patterns_of_lists(item: object) -> list[str]:
    """Return patterns for the JSON of lists that contain an item."""
    patterns: list[str] = []
    for is_ascii in (True, False):  # as JSON and JSONB columns keep it
        encoded = json.dumps(item, ensure_ascii=is_ascii)
        escaped = re.sub(r"([\\%_])", r"\\\1", encoded)
        patterns += [f"[{escaped}]", f"[{escaped}, %", f"%, {escaped}, %", f"%, {escaped}]"]
    return patterns
