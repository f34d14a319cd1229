"""Milvus, of langchain-milvus, and Zilliz, which derives from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from langchain_rse._sync import Steps, compute
from langchain_rse.stores.records import NAMESPACE
from langchain_rse.stores.vectorstores.base import VectorStoreAdapter


class MilvusAdapter(VectorStoreAdapter):
    """Milvus."""

    can_filter_namespaces = True

    @property
    @override
    def takes_lists(self) -> bool:
        # Without dynamic fields, each field has the type that the first chunk gives it.
        return bool(self.store.enable_dynamic_field)

    @override
    def delete(self, ids: list[str]) -> Steps[None]:
        # The collection is created when something is added; until then, deleting fails.
        collection = yield from compute(lambda: self.store.col)
        if collection is not None:
            yield from super().delete(ids)

    @override
    def search_arguments(self, namespace: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        expression = f'{NAMESPACE} == "{namespace}"'
        if arguments.get("expr"):
            expression = f"{expression} and ({arguments['expr']})"
        return {**arguments, "expr": expression}
