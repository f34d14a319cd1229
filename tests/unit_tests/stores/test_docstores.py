"""Docstores: what goes in comes out, whatever the database and the way to it."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.storage import LocalFileStore
from langchain_core.documents import Document
from langchain_core.stores import BaseStore, InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import BaseStoreAsyncTests, BaseStoreSyncTests

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.errors import CorruptRecordError, FormatError
from langchain_rse.stores.json import JSONDocStore, as_docstore, decode_document, encode_document
from langchain_rse.stores.pairing import PAIR_KEY
from langchain_rse.stores.records import document_key, manifest_key
from tests.unit_tests import fakes

MakeStore = Callable[[Path], BaseStore[str, Document]]
STORES: dict[str, MakeStore] = {
    "sqlite": lambda folder: SQLDocStore(f"sqlite:///{folder}/chunks.db"),
    "sqlite-memory": lambda _: SQLDocStore("sqlite://"),
    "byte-memory": lambda _: JSONDocStore(InMemoryByteStore()),
    "byte-files": lambda folder: JSONDocStore(LocalFileStore(folder / "chunks")),
}
SQL_STORES = [name for name in STORES if name.startswith("sqlite")]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BaseStore[str, Document]:
    """Each docstore, empty."""
    return STORES[request.param](tmp_path)


@pytest.fixture(params=SQL_STORES)
def sql_store(request: pytest.FixtureRequest, tmp_path: Path) -> BaseStore[str, Document]:
    """Each way to SQLite, empty."""
    return STORES[request.param](tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chunks.db"


@pytest.fixture
def file_store(path: Path) -> SQLDocStore:
    return SQLDocStore(f"sqlite:///{path}")


def get(store: BaseStore[str, Document], *keys: str) -> list[Document | None]:
    return store.mget(keys)


def put(store: BaseStore[str, Document], *pairs: tuple[str, Document]) -> None:
    store.mset(pairs)


# LangChain's standard tests


class TestSync(fakes.ThreeValues, BaseStoreSyncTests[Document]):
    @pytest.fixture
    def kv_store(self, store: BaseStore[str, Document]) -> BaseStore[str, Document]:
        return store


class TestAsync(fakes.ThreeValues, BaseStoreAsyncTests[Document]):
    @pytest.fixture
    async def kv_store(self, store: BaseStore[str, Document]) -> BaseStore[str, Document]:
        return store


# Every character, NUL and surrogates included, and pairs of them.
# Two code points, which `bytes.decode("utf-8", "surrogatepass")` makes of CESU-8.
PAIR = "\ud83d\ude00"
any_text = st.lists(
    st.characters(exclude_categories=()) | st.sampled_from([PAIR, "\U0001f600"]), max_size=20
).map("".join)
fixed_zones = st.sampled_from(
    [dt.UTC, dt.timezone(dt.timedelta(hours=-5, minutes=-30, seconds=-7))]
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    any_text,
    st.dates(),
    st.datetimes(timezones=st.none() | fixed_zones),
)
names = st.text(max_size=20) | st.sampled_from(["\ud800", "page_content", "id"])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(names, inner, max_size=3),
    ),
    max_leaves=8,
)
documents = st.builds(
    Document,
    page_content=any_text,
    metadata=st.dictionaries(names, values, max_size=4),
    id=st.none() | any_text,
)


def exactly(value: object) -> object:
    """A form in which values are equal only if their types are too, and nan equals nan."""
    if isinstance(value, Document):
        return exactly([value.page_content, value.metadata, value.id])
    if isinstance(value, dict):
        return {name: exactly(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [exactly(inner) for inner in value]
    if isinstance(value, dt.datetime):
        value = value.replace(fold=0)  # ISO 8601 has no word for it
    return type(value), repr(value)


@given(documents)
def test_a_document_reads_back_as_it_was(document: Document) -> None:
    text = encode_document(document, "key")
    text.encode()  # databases take no lone surrogates
    assert "\x00" not in text  # nor does PostgreSQL take NUL
    read = decode_document(text, "key")
    assert exactly(read) == exactly(document)
    assert encode_document(read, "key") == text


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        ({1, 2}, "document['metadata']['field']"),
        (np.zeros(2), "document['metadata']['field']"),
        (dt.timedelta(1), "document['metadata']['field']"),
        (np.datetime64("2024-02-29"), "document['metadata']['field']"),
        # orjson writes these as a list, strings and a dict.
        ((1, 2), "document['metadata']['field']"),
        (uuid.UUID(int=1), "document['metadata']['field']"),
        (dt.time(1), "document['metadata']['field']"),
        (make_dataclass("Point", ["x"])(1), "document['metadata']['field']"),
        (b"bytes", "document['metadata']['field']"),
        (Path("a/b.txt"), "document['metadata']['field']"),
        ([0, {"deep": [1, {2}]}], "document['metadata']['field'][1]['deep'][1]"),
        ({"a": {3: "x"}}, "the key 3 in document['metadata']['field']['a']"),
        ({"__rse__": 1}, "the key '__rse__' in document['metadata']['field']"),
        ({PAIR: 1}, "the key '\\ud83d\\ude00' in document['metadata']['field']"),
    ],
)
def test_what_cannot_be_kept_is_refused(bad: object, place: str) -> None:
    with pytest.raises(TypeError, match="docstore cannot keep") as caught:
        encode_document(Document("", metadata={"field": bad}), "key")
    assert str(caught.value).startswith(f"{place} has the type ")


def test_a_refused_document_keeps_the_others_out(store: BaseStore[str, Document]) -> None:
    bad = Document("", metadata={"field": {1, 2}})
    with pytest.raises(TypeError, match="docstore cannot keep"):
        put(store, ("a", Document("good")), ("b", bad))
    assert list(store.yield_keys()) == []


def test_a_record_that_was_changed_is_an_error() -> None:
    """Each bit, each length; and as another key's."""
    record = encode_document(Document("Words, é.", metadata={"n": 1}, id="x"), "key").encode()
    assert json.loads(record)["page_content"] == "Words, é."
    changed = [record[:length] for length in range(len(record))]
    for place, byte in enumerate(record):
        changed += [
            bytes([*record[:place], byte ^ 1 << bit, *record[place + 1 :]]) for bit in range(8)
        ]
    for each in [*changed, record + b" ", record.replace(b'"n":1', b'"n":2')]:
        with pytest.raises(CorruptRecordError, match="'key'"):
            decode_document(each, "key")
    with pytest.raises(CorruptRecordError, match=r"'other'.*belongs to another key"):
        decode_document(record, "other")
    assert decode_document(record, "key").id == "x"


def test_one_record_of_another_version_costs_one_document() -> None:
    byte_store = InMemoryByteStore()
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()), docstore=byte_store
    )
    retriever.add_documents([Document(name, metadata={"doc_id": name}) for name in ("a", "b")])

    def age(key: str) -> None:
        (record,) = byte_store.mget([key])
        assert record is not None
        byte_store.mset([(key, record.replace(b'"format":7}', b'"format":8}'))])

    age(manifest_key(document_key("a")))
    assert retriever.text("b") == "b"
    with pytest.raises(FormatError):
        retriever.text("a")
    age(PAIR_KEY)
    again = RSERetriever(vectorstore=retriever.vectorstore, docstore=byte_store)
    with pytest.raises(FormatError, match="into a new docstore and a new collection"):
        again.invoke("b")


def test_metadata_that_is_nested_too_deep_is_refused(store: BaseStore[str, Document]) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TypeError, match="nested too deep"):
        put(store, ("a", Document("", metadata={"deep": deep})))
    assert get(store, "a") == [None]


# The last two are no UTF-8; SQLite keeps the second as text.
@pytest.mark.parametrize("record", ["not JSON", b"\x80\x81", "CAST(x'7b80ff' AS TEXT)"])
def test_one_corrupt_record_leaves_the_others(path: Path, record: str | bytes) -> None:
    file_store = SQLDocStore(f"sqlite:///{path}", lexical=False)  # others may write to it
    byte_store = InMemoryByteStore()
    stores = (file_store, JSONDocStore(byte_store))
    for store in stores:
        store.mset([("good", Document("good"))])
    byte_store.mset([("doc/bad", record if isinstance(record, bytes) else record.encode())])
    with sqlite3.connect(path) as connection:
        typed = isinstance(record, str) and record.startswith("CAST")
        value = record if isinstance(record, str) and typed else "?"
        parameters = () if typed else (record,)
        connection.execute(f"INSERT INTO langchain_rse VALUES ('doc/bad', {value})", parameters)
    connection.close()
    for store in stores:
        with pytest.raises(CorruptRecordError, match="'doc/bad'"):
            get(store, "good", "doc/bad")
        assert get(store, "good") == [Document("good")]


# Keys


def test_many_keys_with_duplicates_come_in_order(store: BaseStore[str, Document]) -> None:
    put(store, *((f"key{number}", Document(f"{number}")) for number in range(0, 1_300, 2)))
    wanted = [*range(1_299, -1, -1), 0, 2, 3, 0]
    read = get(store, *(f"key{number}" for number in wanted))
    assert [document and document.page_content for document in read] == [
        None if number % 2 else f"{number}" for number in wanted
    ]
    assert get(store) == []


LAST = "\U0010fffe"


@given(
    st.lists(st.text("ab%_\ud7ff\ue000" + LAST, max_size=4), max_size=12),
    st.text("ab%_\ud7ff\ue000" + LAST, max_size=3),
)
def test_any_keys_by_any_prefix(keys: list[str], prefix: str) -> None:
    store = SQLDocStore("sqlite://")
    store.mset([(key, Document("")) for key in keys])
    assert list(store.yield_keys(prefix=prefix)) == sorted(
        {key for key in keys if key.startswith(prefix)}
    )
    store.close()


def test_keys_can_be_deleted_while_they_are_listed(sql_store: BaseStore[str, Document]) -> None:
    keys = sorted(f"{number}" for number in range(1_100))
    sql_store.mset([(key, Document("")) for key in keys])
    seen = []
    for key in sql_store.yield_keys():
        seen.append(key)
        if len(seen) % 100 == 0:
            sql_store.mdelete(seen)
    assert seen == keys
    assert list(sql_store.yield_keys()) == []


def test_a_prefix_is_a_search_of_the_index(path: Path, file_store: SQLDocStore) -> None:
    """Listing the keys of one document must not read those of all others."""
    file_store.mset([(f"{number}", Document("")) for number in range(1_500)])
    statements: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        statements.append((statement, parameters))

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    assert len(list(file_store.yield_keys(prefix="1"))) == 611
    sa.event.remove(sa.Engine, "before_cursor_execute", note)

    connection = sqlite3.connect(path)
    for statement, parameters in statements:
        plan = str(connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall())
        assert "SEARCH langchain_rse USING COVERING INDEX" in plan
        assert "TEMP B-TREE" not in plan  # nothing is sorted
    connection.close()
    assert statements


# SQLite


def test_parent_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep folder" / "chunks.db"
    store = SQLDocStore(f"sqlite:///{path}")
    assert not path.parent.exists()  # only use makes them
    put(store, ("a", Document("text")))
    assert path.exists()
    assert get(SQLDocStore(f"sqlite:///{path}"), "a") == [Document("text")]


def test_a_write_that_fails_writes_nothing(path: Path, file_store: SQLDocStore) -> None:
    put(file_store, ("a", Document("old")))
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TRIGGER no BEFORE INSERT ON langchain_rse WHEN new.key = 'key1999' "
            "BEGIN SELECT RAISE(FAIL, 'not this one'); END"
        )
    connection.close()
    with pytest.raises(sa.exc.IntegrityError, match="not this one"):
        put(
            file_store,
            ("a", Document("new")),
            *((f"key{number}", Document("")) for number in range(2_000)),
        )
    assert list(file_store.yield_keys()) == ["a"]
    assert get(file_store, "a") == [Document("old")]


def test_a_read_only_database(path: Path, file_store: SQLDocStore) -> None:
    file_store.mset([("a", Document("text"))])
    file_store.close()
    for options in ("mode=ro", "mode=ro&immutable=1"):
        store = SQLDocStore(f"sqlite:///file:{path}?{options}&uri=true")
        assert get(store, "a", "b") == [Document("text"), None]
        assert list(store.yield_keys()) == ["a"]
        with pytest.raises(sa.exc.OperationalError, match=r"(?s)chunks\.db.*readonly database"):
            put(store, ("b", Document("")))
        with pytest.raises(sa.exc.OperationalError, match="readonly database"):
            store.mdelete(["a"])
        assert get(store, "a") == [Document("text")]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "url must be"),
        ("chunks.db", "url must be.*sqlite:///chunks.db"),
        (None, "url must be"),
        ("nosuchdatabase://host/name", "url must be"),
        ("sqlite+nosuchdriver:///chunks.db", "url must be"),
        ("sqlite+aiosqlite:///chunks.db", "synchronous driver.*aiosqlite"),
        ("postgresql+asyncpg://host/name", "synchronous driver.*asyncpg"),
        ("postgresql+psycopg_async://host/name", "synchronous driver.*psycopg_async"),
    ],
)
def test_urls_that_cannot_be_used(url: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SQLDocStore(url)


# Threads and event loops


def test_threads(sql_store: BaseStore[str, Document]) -> None:
    """Cold start included: all threads find the table missing."""

    def work(thread: int) -> None:
        for number in range(15):
            sql_store.mset(
                [(f"{thread}/{number}", Document(f"{number}")), ("shared", Document(f"{thread}"))]
            )
            assert sql_store.mget([f"{thread}/{number}"]) == [Document(f"{number}")]
            if number % 5 == 4:
                sql_store.mdelete([f"{thread}/{number}"])
                assert len(list(sql_store.yield_keys(prefix=f"{thread}/"))) == (number + 1) * 4 // 5

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(list(sql_store.yield_keys())) == 8 * 12 + 1


# Wrapping


class PlainBytes(BaseStore[str, bytes]):
    """A byte store as a user writes it."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.kept.get(key) for key in keys]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        self.kept.update(key_value_pairs)

    def mdelete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.kept.pop(key, None)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        return (key for key in self.kept if key.startswith(prefix or ""))


class DerivedBytes(PlainBytes):
    """The type of the values stands in the base class."""


@pytest.mark.parametrize(
    "make",
    [
        lambda _: InMemoryByteStore(),
        LocalFileStore,
        lambda _: PlainBytes(),
        lambda _: DerivedBytes(),
    ],
    ids=["InMemoryByteStore", "LocalFileStore", "plain", "derived"],
)
def test_byte_stores_are_wrapped(
    tmp_path: Path, make: Callable[[Path], BaseStore[str, bytes]]
) -> None:
    store = make(tmp_path)
    wrapped = as_docstore(store)
    assert isinstance(wrapped, JSONDocStore)
    assert wrapped.store is store
    document = Document("é\x00", metadata={"day": dt.date(2024, 1, 1)}, id="x")
    put(wrapped, ("folder/a", document))
    assert get(wrapped, "folder/a", "folder/b") == [document, None]
    (value,) = store.mget(["folder/a"])
    assert value
    assert value.decode().startswith('{"page_content":"é')
    assert as_docstore(wrapped) is wrapped


@pytest.mark.parametrize("make", [InMemoryByteStore, InMemoryStore, PlainBytes])
def test_a_retriever_takes_any_store(make: Callable[[], BaseStore[str, Any]]) -> None:
    vectorstore = fakes.WatchedVectorStore(fakes.BagOfWords(), fakes.Writes())
    retriever = RSERetriever(vectorstore=vectorstore, docstore=make())
    retriever.add_documents(
        [Document("some text that is found", metadata={"day": dt.date(2024, 1, 1)})]
    )
    (passage,) = retriever.invoke("text")
    assert passage.metadata["day"] == dt.date(2024, 1, 1)
