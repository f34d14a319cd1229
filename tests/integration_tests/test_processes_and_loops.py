"""A SQLDocStore in one event loop after the other, and with a damaged file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa
from langchain_core.documents import Document

from langchain_rse import SQLDocStore
from tests.integration_tests.stores import soon


def count_connections(watcher: sa.Engine) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loops'"
    with watcher.connect() as connection:
        return int(connection.exec_driver_sql(query).scalar_one())


def test_event_loops_share_the_connections_of_the_pool(postgres_url: str) -> None:
    url = sa.make_url(postgres_url).update_query_dict({"application_name": "loops"})
    store = SQLDocStore(url, table_name="loops")
    watcher = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT")

    async def work() -> None:
        await asyncio.gather(*(store.amget([f"{number}"]) for number in range(3)))

    store.mget([])
    store.close()
    for _ in range(20):
        asyncio.run(work())
    assert soon(lambda: count_connections(watcher) <= 5)  # those of the pool
    store.close()
    assert soon(lambda: count_connections(watcher) == 0)
    watcher.dispose()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"This is a text. " * 400, "not a database"), (None, "malformed")],
    ids=["text", "damaged"],
)
async def test_a_damaged_file_is_an_error_for_its_reader(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "chunks.db"
    store = SQLDocStore(f"sqlite:///{path}")
    keys = [f"{number}" for number in range(200)]
    store.mset([(key, Document("text " * 500)) for key in keys])
    store.close()
    data = path.read_bytes()
    path.write_bytes(content or data[: 4096 * 3] + b"\x5a" * 4096 * 20 + data[4096 * 23 :])
    with pytest.raises(sa.exc.DatabaseError, match=message) as caught:
        store.mget(keys)
    assert str(path) in str(caught.value)
    with pytest.raises(sa.exc.DatabaseError, match=message):
        await store.amget(keys)
