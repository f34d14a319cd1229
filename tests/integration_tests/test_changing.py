"""Comparing and setting on real servers, and between processes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import sqlalchemy as sa
from langchain_core.documents import Document

from langchain_rse import SQLDocStore
from tests.integration_tests.processes import run_at_once
from tests.unit_tests import fakes
from tests.unit_tests.stores.changing_suite import NEW, OLD, ChangingSuite, count_up, number_in

way = fakes.way
_numbers = itertools.count()


class TestPostgres(ChangingSuite):
    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[SQLDocStore]:
        store = SQLDocStore(postgres_url, table_name=f"changing_{next(_numbers)}")
        yield store
        store.close()

    @pytest.fixture
    def spoil(self, store: SQLDocStore, postgres_url: str) -> Callable[[str, bytes], None]:
        def write(key: str, record: bytes) -> None:
            store.mset([(key, OLD)])
            engine = sa.create_engine(postgres_url)
            with engine.begin() as connection:
                connection.execute(
                    sa.text(f"UPDATE {store._table.name} SET value = :value WHERE key = :key"),
                    {"key": key, "value": record.decode()},
                )
            engine.dispose()

        return write

    def test_callers_in_different_orders_do_not_wait_in_a_circle(self, store: SQLDocStore) -> None:
        """What is there and what is not, changed, written and deleted; PostgreSQL would end one."""
        keys = [f"{number}" for number in range(60)]

        def work(seed: int) -> None:
            order = random.Random(seed)  # noqa: S311
            for _ in range(12):
                some = order.sample(keys, 40)
                found = store.mget(some)
                changes = [
                    (key, old, order.choice([NEW, OLD, None]))
                    for key, old in zip(some, found, strict=True)
                ]
                store.compare_and_set(changes)
                if seed % 2:
                    store.mdelete(order.sample(keys, 20))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))


def count_in_process(where: str, _number: int, start: Barrier) -> None:
    store = SQLDocStore(where, table_name="counting")
    start.wait(60)
    count_up(store, "folder/counter", 40)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_processes_lose_nothing(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "sqlite":
        where = f"sqlite:///{tmp_path}/chunks.db"
    else:
        where = request.getfixturevalue("postgres_url")
    run_at_once([count_in_process] * 3, where)
    store = SQLDocStore(where, table_name="counting")
    assert number_in(store, "folder/counter") == 120
    assert isinstance(store.mget(["folder/counter"])[0], Document)
