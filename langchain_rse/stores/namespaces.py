"""Namespaces separate documents that share a docstore and a vector store.

A namespace is part of every key in the docstore and of every version's name. So vector ids differ
between namespaces, and a search can exclude vectors of other namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse._messages import check_type
from langchain_rse.errors import StoreMismatchError
from langchain_rse.stores.compare_and_set import (
    Change,
    ComparesAndSets,
    DocStore,
    change,
    list_keys,
)
from langchain_rse.stores.records import NAMESPACES, digest, manifest_key
from langchain_rse.stores.vectorstores import FILTERED, adapter_for
from langchain_rse.text.quoting import UNENCODABLE

if TYPE_CHECKING:  # saves half a second of imports for docstores alone
    from langchain_core.vectorstores import VectorStore

_BAD_NAME = re.compile(f"{UNENCODABLE.pattern}|.{{201}}", re.DOTALL)


def namespace_digest(namespace: str) -> str:
    """Return the digest of a namespace, used in keys and in the vectors' metadata."""
    return digest("namespace", namespace)[:16]


class NamespacedStore(ComparesAndSets):
    """A view of a docstore that contains only the records of one namespace."""

    def __init__(self, docstore: DocStore, namespace: str) -> None:
        self.docstore = docstore
        self.namespace = namespace
        self.namespace_digest = namespace_digest(namespace)
        self._prefix = f"{self.namespace_digest}-"
        self._is_marked = False  # True once the docstore is known to use namespaces

    @property
    def lexical(self) -> bool:
        """True if the docstore supports full-text search."""
        return bool(getattr(self.docstore, "lexical", False))

    @override
    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        self._check()
        return self.docstore.mget([self._outer_key(key) for key in keys])

    @override
    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        self._check(mark=True)
        self.docstore.mset([(self._outer_key(key), document) for key, document in key_value_pairs])

    @override
    def mdelete(self, keys: Sequence[str]) -> None:
        self._check()
        self.docstore.mdelete([self._outer_key(key) for key in keys])

    @override
    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        self._check()
        for key in list_keys(self.docstore, self._outer_key(prefix or "")):
            yield key.removeprefix(self._prefix)

    @override
    def compare_and_set(self, changes: Sequence[Change]) -> list[bool]:
        # Safe across processes if the docstore's compare and set is.
        self._check(mark=True)
        outer_changes = [(self._outer_key(key), expected, new) for key, expected, new in changes]
        return change(self.docstore, outer_changes)

    def lexical_search(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Find chunks of the namespace by keywords; see `SQLDocStore.lexical_search`."""
        self._check()
        store: Any = self.docstore
        return store.lexical_search(*args, **kwargs, prefix=self._prefix)

    def _check(self, *, mark: bool = False) -> None:
        """Refuse a docstore that contains documents without a namespace.

        Before the first write, ``mark`` the docstore as one that uses namespaces.
        """
        if self._is_marked:
            return
        [marker] = self.docstore.mget([NAMESPACES])
        if marker is None and list_keys(self.docstore, manifest_key("")):
            raise StoreMismatchError(
                f"namespace={self.namespace!r} cannot be used: the docstore contains documents "
                "without a namespace. Drop namespace=, or use another docstore"
            )
        if marker is None and mark:
            self.docstore.mset([(NAMESPACES, Document(""))])
        self._is_marked = mark or marker is not None

    def _outer_key(self, key: str) -> str:
        """Return the key in the docstore."""
        return self._prefix + key


def in_namespace(
    docstore: DocStore,
    namespace: Any,  # noqa: ANN401 - a string, as is checked here
    vectorstore: VectorStore | None = None,
) -> DocStore:
    """Return a docstore's view of a namespace; the docstore itself for an empty namespace."""
    allowed = "a string of at most 200 characters, without NUL and lone surrogates"
    check_type("namespace", namespace, str, allowed)
    if _BAD_NAME.search(namespace):
        raise ValueError(f"namespace must be {allowed}; got {namespace!r:.100}")
    can_filter = vectorstore is None or adapter_for(vectorstore).can_filter_namespaces
    if namespace and not can_filter:
        raise ValueError(
            f"namespace={namespace!r} is not supported with {type(vectorstore).__name__}, only "
            f"with {FILTERED}. Use a separate collection and docstore for each namespace instead"
        )
    present = docstore.namespace if isinstance(docstore, NamespacedStore) else ""
    if present == namespace:
        return docstore
    if present:
        raise ValueError(f"docstore belongs to namespace {present!r}; got {namespace=}")
    return NamespacedStore(docstore, namespace)


def whole_store(docstore: DocStore) -> DocStore:
    """Return the underlying docstore, which contains all namespaces."""
    return docstore.docstore if isinstance(docstore, NamespacedStore) else docstore
