"""Adapter for Milvus of langchain-milvus, and for its subclass Zilliz."""

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from langchain_rse.stores.records import NAMESPACE
from langchain_rse.stores.vectorstores.base import VectorStoreAdapter


class MilvusAdapter(VectorStoreAdapter):
    """Adapter for Milvus."""

    can_filter_namespaces = True

    @property
    @override
    def takes_lists(self) -> bool:
        # Without dynamic fields, the first chunk fixes the type of each field.
        return bool(self.store.enable_dynamic_field)

    @override
    def delete(self, ids: list[str]) -> None:
        # The first addition creates the collection; before that, deleting fails.
        if self.store.col is not None:
            super().delete(ids)

    @override
    def search_arguments(self, namespace: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        expression = f'{NAMESPACE} == "{namespace}"'
        if arguments.get("expr"):
            expression = f"{expression} and ({arguments['expr']})"
        return {**arguments, "expr": expression}
