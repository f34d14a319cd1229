"""Namespaces: keep documents apart that share a docstore and a vector store.

A namespace is part of every key in the docstore and of the names of versions, so its vectors have
ids of their own, and a search that finds those of another namespace can tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse._sync import Steps, arun, call, run
from langchain_rse.errors import StoreMismatchError
from langchain_rse.stores.changing import ComparesAndSets, DocStore, StepStore, list_keys
from langchain_rse.stores.records import NAMESPACE, NAMESPACES, UNENCODABLE, digest, manifest_key
from langchain_rse.stores.vectorstores import kind_of

if TYPE_CHECKING:  # half a second of imports that docstores do without
    from langchain_core.vectorstores import VectorStore

_BAD_NAME = re.compile(f"{UNENCODABLE.pattern}|.{{201}}", re.DOTALL)
# The first part of some records' keys; the keys of all others begin with the document's key.
_FAMILIES = ("manifest", "texts", "answers", "adopted")
# Vector stores that this package knows how to filter.
_BY_DICT = ("Chroma", "FAISS", "PGVector", "PGVectorStore")
_FILTERED = (*_BY_DICT, "InMemoryVectorStore", "Milvus", "QdrantVectorStore")


def namespace_digest(namespace: str) -> str:
    """The digest of a namespace in keys, and as `NAMESPACE` in the metadata of vectors."""
    return digest("namespace", namespace)[:16]


class NamespacedStore(StepStore):
    """The records of one namespace in a docstore; the same key is another record in each."""

    def __init__(self, docstore: DocStore, namespace: str) -> None:
        self.docstore = docstore
        self.namespace = namespace
        self.digest = namespace_digest(namespace)
        self.lexical = bool(getattr(docstore, "lexical", False))
        self._marked = False

    @override
    def _steps(self, method: str, items: Sequence[Any]) -> Steps[Any]:
        yield from self._check(writes=method in {"mset", "compare_and_set"})
        own = [
            self._outer(one) if isinstance(one, str) else (self._outer(one[0]), *one[1:])
            for one in items
        ]
        store = self.docstore
        return (yield from call(getattr(store, method), getattr(store, f"a{method}"), own))

    @override
    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        run(self._check())
        found = self.docstore.yield_keys(prefix=self._outer_prefix(prefix))
        yield from filter(None, (self._inner(key, prefix) for key in found))

    @override
    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        await arun(self._check())
        async for key in self.docstore.ayield_keys(prefix=self._outer_prefix(prefix)):
            if inner := self._inner(key, prefix):
                yield inner

    def lexical_search(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Find chunks of the namespace by their words, see `SQLDocStore.lexical_search`."""
        run(self._check())
        store: Any = self.docstore
        return store.lexical_search(*args, **kwargs, prefix=f"{self.digest}-")

    async def alexical_search(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Like `lexical_search`, async."""
        await arun(self._check())
        store: Any = self.docstore
        return await store.alexical_search(*args, **kwargs, prefix=f"{self.digest}-")

    def _check(self, *, writes: bool = False) -> Steps[None]:
        """Refuse a docstore without namespaces; before the first write, mark that it has some."""
        store = self.docstore
        if self._marked:
            return
        [marker] = yield from call(store.mget, store.amget, [NAMESPACES])
        if marker is None:
            if any("-" not in key for key in (yield from list_keys(store, manifest_key("")))):
                raise StoreMismatchError(
                    "the docstore has documents without a namespace; got "
                    f"namespace={self.namespace!r}. Omit namespace=, or use another docstore"
                )
            if writes:
                yield from call(store.mset, store.amset, [(NAMESPACES, Document(""))])
        self._marked = writes or marker is not None

    def _outer(self, key: str) -> str:
        """The key in the docstore."""
        family, slash, rest = key.partition("/")
        of_family = slash and family in _FAMILIES
        return f"{family}/{self.digest}-{rest}" if of_family else f"{self.digest}-{key}"

    def _outer_prefix(self, prefix: str | None) -> str | None:
        return self._outer(prefix) if prefix and "/" in prefix else None

    def _inner(self, key: str, prefix: str | None) -> str:
        """Undo `_outer`; empty if the key is not of this namespace or lacks the prefix."""
        inner = key.replace(f"{self.digest}-", "", 1)
        return inner if self._outer(inner) == key and inner.startswith(prefix or "") else ""


class _Comparing(NamespacedStore, ComparesAndSets):
    pass


def in_namespace(
    docstore: DocStore,
    namespace: Any,  # noqa: ANN401 - a string, as is checked here
    vectorstore: VectorStore | None = None,
) -> DocStore:
    """Return the part of a docstore in a namespace; the docstore itself for an empty one."""
    if not isinstance(namespace, str) or _BAD_NAME.search(namespace):
        raise ValueError(
            "namespace must be a string of at most 200 characters, none of them NUL or a lone "
            f"surrogate; got {namespace!r:.250}"
        )
    if namespace and vectorstore is not None and kind_of(vectorstore, _FILTERED) not in _FILTERED:
        raise ValueError(
            f"namespace={namespace!r}: langchain-rse cannot filter a {type(vectorstore).__name__}, "
            f"only {', '.join(_FILTERED)}; give each namespace a collection and a "
            "docstore of its own"
        )
    own = docstore.namespace if isinstance(docstore, NamespacedStore) else ""
    if own == namespace:
        return docstore
    if own:
        raise ValueError(f"docstore is that of namespace {own!r}; got {namespace=}")
    kind = _Comparing if hasattr(docstore, "compare_and_set") else NamespacedStore
    return kind(docstore, namespace)


def namespace_of(docstore: DocStore) -> str:
    """The digest of a docstore's namespace; empty if it has none."""
    return docstore.digest if isinstance(docstore, NamespacedStore) else ""


def refuse_namespaces(found: object) -> None:
    """Raise a StoreMismatchError if something of a namespace was found, and none is given."""
    if found:
        raise StoreMismatchError(
            "these stores have namespaces, and none was given: give one with namespace=..., or "
            "use another docstore and collection"
        )


def own_arguments(store: Any, namespace: str, given: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Add the filter on a namespace, given by its digest, to the arguments of a search."""
    if not namespace:
        return {**given}
    kind, own, found = kind_of(store, _FILTERED), {NAMESPACE: {"$eq": namespace}}, {**given}
    name = "expr" if kind == "Milvus" else "filter"
    users: Any = given.get(name)
    if kind == "FAISS":  # it filters after the search
        found["fetch_k"] = max(len(store.index_to_docstore_id), 1)
    if kind == "Milvus":
        expression = f'{NAMESPACE} == "{namespace}"'
        found[name] = f"{expression} and ({users})" if users else expression
    elif kind == "QdrantVectorStore":
        from qdrant_client import models  # noqa: PLC0415 - need not be installed

        place = f"{store.metadata_payload_key}.{NAMESPACE}"
        condition = models.FieldCondition(key=place, match=models.MatchValue(value=namespace))
        found[name] = models.Filter(must=[condition, users] if users else [condition])
    elif kind in _BY_DICT and not callable(users):
        found[name] = {"$and": [own, users]} if users else own
    else:  # InMemoryVectorStore and FAISS take functions

        def passes(one: Any) -> bool:  # noqa: ANN401 - a Document, or its metadata
            own = getattr(one, "metadata", one).get(NAMESPACE) == namespace
            return own and (users is None or bool(users(one)))

        found[name] = passes
    return found
