"""What every docstore promises that can compare and set: `ComparesAndSets`."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.documents import Document

from langchain_rse._sync import in_thread
from langchain_rse.stores.compare_and_set import Change, read_records
from langchain_rse.stores.compare_and_set import change as change_steps

OLD, NEW, OTHER = (Document(text, metadata={"n": 1}, id=text) for text in ("old", "new", "other"))


def change(store: Any, *changes: Change) -> list[bool]:
    made: list[bool] = store.compare_and_set(changes)
    return made


def get(store: Any, *keys: str) -> list[Document | None]:
    records: list[Document | None] = store.mget(keys)
    return records


def count_up(store: Any, key: str, times: int) -> None:
    """Add to the number in a record, again and again, whoever else does."""
    for _ in range(times):
        while True:
            (found,) = store.mget([key])
            number = 1 + (found.metadata["number"] if found else 0)
            new = Document("", metadata={"number": number})
            if store.compare_and_set([(key, found, new)]) == [True]:
                break


async def acount_up(store: Any, key: str, times: int) -> None:
    for _ in range(times):
        while True:
            found: Any = (await in_thread(read_records, store, [key]))[key]
            number = 1 + (found.metadata["number"] if found else 0)
            new = Document("", metadata={"number": number})
            if await in_thread(change_steps, store, [(key, found, new)]) == [True]:
                break


def number_in(store: Any, key: str) -> int:
    (found,) = store.mget([key])
    return int(found.metadata["number"])


def with_checksum(text: bytes, key: str) -> bytes:
    """A record as this package writes it, but for what stands in it."""
    checksum = hashlib.blake2b(text + key.encode(), digest_size=16).hexdigest()
    return text + f',"checksum":"{checksum}","format":7}}'.encode()


class ChangingSuite:
    """Tests of a docstore; a subclass has the fixtures."""

    @pytest.fixture
    def store(self) -> Any:
        """The docstore, empty."""
        raise NotImplementedError

    @pytest.fixture
    def spoil(self, store: Any) -> Callable[[str, bytes], None]:
        """Writes anything as the record of a key."""
        raise NotImplementedError

    def test_a_record_is_made_replaced_and_deleted(self, store: Any) -> None:
        assert change(store, ("a", None, OLD)) == [True]
        assert get(store, "a") == [OLD]
        assert change(store, ("a", OLD, NEW)) == [True]
        assert get(store, "a") == [NEW]
        assert change(store, ("a", NEW, None)) == [True]
        assert get(store, "a") == [None]
        assert change(store, ("a", None, None)) == [True]
        assert change(store) == []

    @pytest.mark.parametrize(
        ("there", "expected", "new"),
        [
            (OLD, None, NEW),
            (OLD, None, None),
            (OLD, OTHER, NEW),
            (OLD, OTHER, None),
            (None, OLD, NEW),
            (None, OLD, None),
            (OLD, Document("old", metadata={"n": 1}), NEW),
            (OLD, Document("old", id="old"), NEW),
        ],
    )
    def test_what_is_not_as_expected_stays(
        self,
        store: Any,
        there: Document | None,
        expected: Document | None,
        new: Document | None,
    ) -> None:
        if there:
            store.mset([("a", there)])
        assert change(store, ("a", expected, new)) == [False]
        assert get(store, "a") == [there]

    def test_each_change_stands_alone(self, store: Any) -> None:
        store.mset([("e", OLD), ("b", OLD), ("d", OLD), ("c", OLD)])
        made = change(
            store,
            *(("z", None, NEW), ("b", OTHER, NEW), ("d", OLD, NEW), ("a", OLD, NEW)),
            *(("e", OLD, None), ("c", None, NEW), ("y", None, None)),
        )
        assert made == [True, False, True, False, True, False, True]
        assert get(store, *"abcdeyz") == [None, OLD, OLD, NEW, None, None, NEW]

    def test_of_a_key_given_twice_one_change_is_made(self, store: Any) -> None:
        assert change(store, ("a", None, OLD), ("a", None, NEW)) == [True, False]
        assert get(store, "a") == [OLD]

    def test_a_record_that_cannot_be_read_counts_as_none(
        self, store: Any, spoil: Callable[[str, bytes], None]
    ) -> None:
        store.mset([("c", OLD)])
        for key in "abc":
            spoil(key, b'{"page_content":"other"}')
        made = change(store, ("a", None, NEW), ("b", None, None), ("c", OLD, NEW))
        assert made == [True, True, False]
        assert get(store, "a", "b") == [NEW, None]

    def test_any_record_can_be_expected(self, store: Any) -> None:
        """NaN does not equal itself; and fields have no order."""
        strange = Document("\x00\ud800", metadata={"a": math.nan, "b": ["x", {"c": 1.5}]})
        store.mset([("a", strange)])
        assert change(store, ("a", *store.mget(["a"]), NEW)) == [True]
        store.mset([("a", Document("", metadata={"x": 1, "y": 2}))])
        assert change(store, ("a", Document("", metadata={"y": 2, "x": 1}), NEW)) == [True]

    def test_a_record_in_another_writing_is_expected_too(
        self, store: Any, spoil: Callable[[str, bytes], None]
    ) -> None:
        store.mset([("a", OLD)])
        spoil("a", with_checksum(b'{ "page_content" : "text", "metadata": {"n": NaN}', "a"))
        assert change(store, ("a", *store.mget(["a"]), NEW)) == [True]
        spoil("a", with_checksum(b'{"page_content":"","metadata":{"revision":"1", "n":NaN}', "a"))
        expected = Document("", metadata={"revision": "1"})
        assert change(store, ("a", expected, NEW)) == [True]

    def test_many_changes(self, store: Any) -> None:
        store.mset([(f"k{number}", OLD) for number in range(0, 1_300, 2)])
        changes: Sequence[Change] = [
            (f"k{number}", None if number % 3 else OLD, NEW) for number in reversed(range(1_300))
        ]
        made = change(store, *changes)
        assert made == [(number % 2 == 1) == (number % 3 > 0) for number in reversed(range(1_300))]
        found = get(store, *(key for key, _, _ in changes))
        assert [record == NEW for record in found] == made

    def test_threads_lose_nothing(self, store: Any) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: count_up(store, "counter", 15), range(4)))
        assert number_in(store, "counter") == 60

    async def test_tasks_lose_nothing(self, store: Any) -> None:
        await asyncio.gather(*(acount_up(store, "counter", 5) for _ in range(4)))
        assert number_in(store, "counter") == 20
