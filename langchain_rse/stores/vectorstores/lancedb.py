"""Adapter for LanceDB of langchain-community.

It cannot tell which ids exist. If an id is added twice, it keeps both vectors; the `Writer` never
adds one twice.
"""

from __future__ import annotations

from typing_extensions import override

from langchain_rse.stores.vectorstores.base import VectorStoreAdapter


class LanceDBAdapter(VectorStoreAdapter):
    """Adapter for LanceDB."""

    @override
    def delete(self, ids: list[str]) -> None:
        # The first addition creates the table; before that, deleting fails.
        if self.store.get_table() is not None:
            super().delete(ids)
