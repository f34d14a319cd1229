"""JSONDocStore: a docstore of any LangChain byte store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TypeVar, cast, get_args, get_origin

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse.docstores.encoding import decode_document, encode_document

__all__ = ["JSONDocStore", "as_docstore"]


class JSONDocStore(BaseStore[str, Document]):
    """Makes a docstore of a byte store such as ``LocalFileStore`` or ``RedisStore``.

    `langchain_rse.RSERetriever` wraps byte stores by itself; this is for direct use.

    Args:
        store: The byte store. It keeps UTF-8 JSON.
    """

    def __init__(self, store: BaseStore[str, bytes]) -> None:
        self.store = store

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get the Documents of the keys, None where there is none."""
        return self._decoded(keys, self.store.mget(keys))

    async def amget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get the Documents of the keys, None where there is none."""
        return self._decoded(keys, await self.store.amget(keys))

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Write Documents; those that are there are replaced."""
        self.store.mset(self._encoded(key_value_pairs))

    async def amset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Write Documents; those that are there are replaced."""
        await self.store.amset(self._encoded(key_value_pairs))

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete the keys that are there."""
        self.store.mdelete(keys)

    async def amdelete(self, keys: Sequence[str]) -> None:
        """Delete the keys that are there."""
        await self.store.amdelete(keys)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with the prefix."""
        # Not every store takes a prefix for the beginning of a key: to some it is a folder.
        for key in self.store.yield_keys():
            if key.startswith(prefix or ""):
                yield key

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """Yield the keys that begin with the prefix."""
        async for key in self.store.ayield_keys():
            if key.startswith(prefix or ""):
                yield key

    @staticmethod
    def _encoded(pairs: Sequence[tuple[str, Document]]) -> list[tuple[str, bytes]]:
        return [(key, encode_document(document).encode()) for key, document in pairs]

    @staticmethod
    def _decoded(keys: Sequence[str], values: Sequence[bytes | None]) -> list[Document | None]:
        return [
            None if value is None else decode_document(value, key)
            for key, value in zip(keys, values, strict=True)
        ]


def as_docstore(
    store: BaseStore[str, Document] | BaseStore[str, bytes],
) -> BaseStore[str, Document]:
    """Return a store of Documents; a byte store is wrapped in a `JSONDocStore`.

    Raises:
        TypeError: If it is no LangChain ``BaseStore``.
    """
    if not isinstance(store, BaseStore):
        raise TypeError(
            "docstore must be a LangChain BaseStore, for example "
            f"SQLDocStore('sqlite:///chunks.db'); got {type(store).__name__}"
        )
    if _value_type(type(store)) is bytes:
        return JSONDocStore(cast("BaseStore[str, bytes]", store))
    return cast("BaseStore[str, Document]", store)


def _value_type(cls: type) -> object:
    """The type of the values that a subclass of ``BaseStore[str, V]`` declares, if it does."""
    for base in getattr(cls, "__orig_bases__", ()):
        origin, arguments = get_origin(base), get_args(base)
        if isinstance(origin, type) and issubclass(origin, BaseStore):
            # ``BaseStore[str, bytes]`` and ``InMemoryBaseStore[bytes]`` alike name it last.
            found = arguments[-1] if arguments else None
            if not isinstance(found, TypeVar):
                return found
    for base in cls.__bases__:
        if issubclass(base, BaseStore) and base is not BaseStore:
            found = _value_type(base)
            if found is not None:
                return found
    return None
