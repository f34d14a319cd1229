"""LanceDB, of langchain-community.

It cannot tell which ids it has, and keeps both vectors of an id that is added twice, which the
`Writer` avoids.
"""

from __future__ import annotations

from typing_extensions import override

from langchain_rse._sync import Steps, compute
from langchain_rse.stores.vectorstores.base import VectorStoreAdapter


class LanceDBAdapter(VectorStoreAdapter):
    """LanceDB."""

    @override
    def delete(self, ids: list[str]) -> Steps[None]:
        # The table is created when something is added; until then, deleting fails.
        table = yield from compute(self.store.get_table)
        if table is not None:
            yield from super().delete(ids)
