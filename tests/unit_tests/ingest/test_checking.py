"""Checking and repairing: each kind of damage is found, counted and repaired, or named."""

from __future__ import annotations

import copy
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import ExistingIndex, RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.errors import CorruptRecordError, StoreMismatchError
from langchain_rse.headers import DocumentHeaders
from langchain_rse.ingest.checking import CheckReport
from langchain_rse.stores import records as records_of_stores
from langchain_rse.stores.json import as_docstore
from langchain_rse.stores.records import (
    Manifest,
    Version,
    answers_key,
    chunk_key,
    description_key,
    digest,
    document_key,
    manifest_key,
    vector_id,
)
from tests.unit_tests import fakes
from tests.unit_tests.writes import vectors_without_writes

way = fakes.way
Way = fakes.Way

A, B = document_key("a"), document_key("b")


class Pair:
    """Two stores with documents, and ways to damage them."""

    def __init__(self, docstore: Any, way: Way, model: Embeddings | None = None) -> None:
        self.way = way
        self.raw = docstore
        self.docstore = as_docstore(docstore)
        self.vectorstore = InMemoryVectorStore(model or fakes.BagOfWords())
        self.add("a", "b")

    @property
    def indexer(self) -> RSEIndexer:
        splitter = RecursiveCharacterTextSplitter(chunk_size=40, chunk_overlap=0)
        return RSEIndexer(
            self.vectorstore,
            self.docstore,
            text_splitter=splitter,
            batch_size=3,
            headers=DocumentHeaders(),
        )

    def add(self, *names: str, chunks: int = 6) -> None:
        documents = [
            Document(fakes.text_of(name, chunks), metadata={"source": name, "title": f"On {name}"})
            for name in names
        ]
        self.way.add(self.indexer, documents)

    def check(self) -> CheckReport:
        before = self.contents()
        report = self.way.call(self.indexer.check, self.indexer.acheck)
        assert self.contents() == before, "check changed something"
        return report

    def repair(self) -> CheckReport:
        return self.way.call(self.indexer.check, self.indexer.acheck, repair=True)

    def contents(self) -> Any:
        return copy.deepcopy((self.records(), self.vectorstore.store))

    def records(self) -> dict[str, Any]:
        keys = sorted(self.docstore.yield_keys())
        found: dict[str, Any] = {}
        for key in keys:
            try:
                found[key] = self.docstore.mget([key])[0]
            except ValueError as error:
                found[key] = str(error)
        return found

    def manifest(self, name: str) -> Manifest:
        key = manifest_key(document_key(name))
        record = self.docstore.mget([key])[0]
        assert record is not None
        return Manifest.from_document(record, key)

    def version(self, name: str) -> Version:
        current = self.manifest(name).current
        assert current is not None
        return current

    def spoil(self, key: str) -> None:
        """Let nobody read a record."""
        if isinstance(self.raw, SQLDocStore):
            self.raw.mset([(key, Document(""))])
            file = repr(self.raw).split("sqlite:///")[1].rstrip("')")
            with closing(sqlite3.connect(file)) as connection, connection:
                connection.execute("UPDATE langchain_rse SET value = '{' WHERE key = ?", [key])
        else:
            self.raw.mset([(key, b"{")])

    def texts(self) -> dict[str, str]:
        """The embedded texts by the ids of vectors."""
        return {one: row["text"] for one, row in self.vectorstore.store.items()}

    def vectors(self) -> dict[str, Any]:
        return vectors_without_writes(self.vectorstore.store)

    def answers(self) -> list[str]:
        retriever = RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            config=fakes.EVERYTHING,
            max_context_length=None,
        )
        return sorted(one.page_content for one in self.way.invoke(retriever, "paragraph"))


@pytest.fixture(params=["bytes", "sqlite"])
def pair(request: pytest.FixtureRequest, way: Way, tmp_path: Path) -> Iterator[Pair]:
    docstore: Any = InMemoryByteStore()
    if request.param == "sqlite":
        # Without a full-text index, so that `spoil` may write to the table.
        docstore = SQLDocStore(f"sqlite:///{tmp_path / 'chunks.db'}", lexical=False)
    yield Pair(docstore, way)
    if request.param == "sqlite":
        docstore.close()


Damage = Callable[[Pair], None]


def vectors_of_a_deleted_document(pair: Pair) -> None:
    rows = copy.deepcopy(pair.vectorstore.store)
    pair.way.delete(pair.indexer, ["b"])
    pair.vectorstore.store.update(rows)


def vectors_of_a_former_version(pair: Pair) -> None:
    rows = dict(pair.vectorstore.store)
    pair.add("b", chunks=7)
    pair.vectorstore.store.update(rows)


def records_of_a_former_version(pair: Pair) -> None:
    former = {key: one for key, one in pair.records().items() if key.startswith(B)}
    pair.add("b", chunks=7)
    pair.docstore.mset(list(former.items()))


def one_vector(pair: Pair) -> None:
    pair.vectorstore.delete([vector_id(B, pair.version("b").name, 1)])


def all_vectors(pair: Pair) -> None:
    pair.vectorstore.store.clear()


def left_answers(pair: Pair) -> None:
    answers = Document("", metadata={"answers": {}})
    pair.docstore.mset([(answers_key(document_key("gone")), answers)])


def unreadable_description(pair: Pair) -> None:
    pair.spoil(description_key(B, pair.version("b").name))


def unreadable_manifest(pair: Pair) -> None:
    pair.spoil(manifest_key(B))


def lost_manifest(pair: Pair) -> None:
    pair.docstore.mdelete([manifest_key(B)])


# What is repaired, so that both stores are as they would be without the damage.
REPAIRED: dict[Damage, dict[str, int]] = {
    vectors_of_a_deleted_document: {"leftovers": 6},
    vectors_of_a_former_version: {"leftovers": 6},
    records_of_a_former_version: {"leftovers": 1},
    one_vector: {"vectors": 1},
    all_vectors: {"vectors": 12},
    left_answers: {"leftovers": 1},
    unreadable_description: {"unreadable": 1},
    unreadable_manifest: {"unreadable": 1},
    lost_manifest: {"unreadable": 1},
}


@pytest.mark.parametrize("damage", REPAIRED, ids=lambda damage: damage.__name__)
def test_damage_is_found_and_mended(pair: Pair, damage: Damage) -> None:
    damage(pair)
    report = pair.check()
    assert (report.ok, dict(report.problems)) == (False, REPAIRED[damage])
    repaired = pair.repair()
    assert repaired.ok, repaired
    assert dict(repaired.repaired) == REPAIRED[damage]
    assert pair.check().ok
    # As if nothing had happened, but for what was deleted or replaced.
    vectors = pair.vectors()
    expected = Pair(InMemoryByteStore(), pair.way)
    gone = damage.__name__.endswith("deleted_document")
    if gone:
        expected.way.delete(expected.indexer, ["b"])
    elif damage.__name__.endswith("former_version"):
        expected.add("b", chunks=7)
    assert vectors == expected.vectors()
    assert pair.answers() == expected.answers()


def unreadable_chunk(pair: Pair) -> None:
    pair.spoil(chunk_key(B, pair.version("b").name, 2))


def other_text_of_the_same_length(pair: Pair) -> None:
    key = chunk_key(B, pair.version("b").name, 2)
    record = pair.docstore.mget([key])[0]
    assert record is not None
    record.page_content = record.page_content[::-1]
    pair.docstore.mset([(key, record)])


def missing_chunk(pair: Pair) -> None:
    pair.docstore.mdelete([chunk_key(B, pair.version("b").name, 5)])


# What is lost: the document is named and left as it is, and adding it again writes it anew.
LOST: list[Damage] = [
    unreadable_chunk,
    other_text_of_the_same_length,
    missing_chunk,
]


@pytest.mark.parametrize("damage", LOST, ids=lambda damage: damage.__name__)
def test_what_cannot_be_mended_is_named_to_be_added_again(pair: Pair, damage: Damage) -> None:
    damage(pair)
    before = pair.records().keys()
    assert pair.check().problems == {"unreadable": 1}
    repaired = pair.repair()
    assert (repaired.ok, repaired.problems) == (False, {"unreadable": 1})
    assert repaired.add_again == ["b"]
    assert "'b'" in str(repaired)
    assert pair.records().keys() == before
    pair.add("b")
    assert pair.check().ok
    assert pair.answers() == Pair(InMemoryByteStore(), pair.way).answers()


@fakes.both_ways
def test_a_store_that_cannot_be_read_is_not_repaired(pair: Pair) -> None:
    for name, key in (("a", A), ("b", B)):
        pair.docstore.mdelete([chunk_key(key, pair.version(name).name, 1)])
        pair.spoil(manifest_key(key))
    before = pair.contents()
    with pytest.raises(CorruptRecordError, match=r"2 of 2 documents cannot be read.*Nothing was"):
        pair.repair()
    assert pair.contents() == before
    pair.add("a", "b")
    assert pair.check().ok


@fakes.both_ways
def test_what_a_live_call_is_writing_is_left_alone(pair: Pair) -> None:
    """A call that announced its version less than an hour ago may be alive."""
    manifest = pair.manifest("b")
    new = Version("1" * 32, 1)
    announced = manifest.with_announcement(new)
    chunk = chunk_key(B, new.name, 0)
    vector = vector_id(B, new.name, 0)
    metadata = {"doc_id": "b", "rse_version": new.name, "chunk_index": 0}
    records = [(manifest_key(B), announced.to_document())]
    pair.docstore.mset([*records, (chunk, Document("?", metadata=metadata))])
    pair.vectorstore.add_documents([Document("?", metadata=metadata)], ids=[vector])
    before = pair.contents()
    repaired = pair.repair()
    assert repaired.ok
    assert "document 'b' is being written" in str(repaired)
    assert pair.contents() == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records_of_stores, "ANNOUNCEMENT_LIFETIME", -1.0)  # an hour later
        assert pair.check().problems == {"leftovers": 1}
        assert pair.repair().ok
    assert vector not in pair.texts()
    assert pair.docstore.mget([chunk]) == [None]


@fakes.both_ways
def test_a_document_that_is_replaced_while_it_is_looked_at_is_not_damaged(pair: Pair) -> None:
    """What repair has read is not written over what another call wrote since."""
    pair.vectorstore.store.clear()
    read = pair.docstore.mget
    left = [manifest_key(B)]

    def mget(keys: Sequence[str]) -> list[Any]:
        found = read(keys)
        if chunk_key(B, former, 0) in keys and left:
            left.pop()
            pair.docstore.mget = read  # type: ignore[method-assign]
            pair.add("b", chunks=8)
        return found

    former = pair.version("b").name
    pair.docstore.mget = mget  # type: ignore[method-assign]
    pair.way = Way(None)
    pair.repair()
    assert pair.version("b").chunks == 8
    assert pair.check().ok


class Other(fakes.BagOfWords):
    """Another model of the same size."""

    def embed_query(self, text: str) -> list[float]:
        return super().embed_query(text)[::-1]


def test_documents_of_another_model_are_embedded_again(pair: Pair) -> None:
    pair.vectorstore.embedding = Other()
    assert pair.check().problems == {"vectors": 1}
    repaired = pair.repair()
    assert repaired.ok
    assert repaired.repaired == {"vectors": 2}
    for row in pair.vectorstore.store.values():
        assert row["vector"] == Other().embed_query(row["text"])
    assert pair.check().ok
    pair.add("a", "b", "c")
    assert pair.check().ok


def test_adopted_documents_keep_their_vectors(pair: Pair) -> None:
    chunks = [
        Document(text, id=f"x{number}", metadata={"file": "x", "n": number})
        for number, text in enumerate(["First part of it.", "Second part of it.", "Third."])
    ]
    pair.vectorstore.add_documents(chunks)
    index = ExistingIndex(doc_id_key="file", chunk_index_key="n", chunk_overlap=0)
    pair.way.call(pair.indexer.adopt, pair.indexer.aadopt, index)
    assert pair.check().ok
    key = document_key("x")
    adopted = f"adopted/{digest('x1')}"
    pair.spoil(manifest_key(key))
    assert pair.check().problems == {"unreadable": 1}
    assert pair.repair().ok
    for lost in ("adopted", "chunk"):
        pair.spoil(adopted if lost == "adopted" else chunk_key(key, pair.version("x").name, 1))
        assert pair.check().problems.keys() == {"unreadable"}
        assert pair.repair().add_again == ["x"]
        assert {"x0", "x1", "x2"} <= pair.texts().keys()
        pair.way.call(pair.indexer.adopt, pair.indexer.aadopt, index)
        assert pair.check().ok
        assert pair.check().documents == 3
    # A vector that its owner has removed is named; it is not ours to write.
    pair.vectorstore.delete(["x1"])
    assert pair.repair().problems == {"vectors": 1}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "append", "delete", "adopt", "repair"]),
        st.sampled_from("abc"),
        st.integers(1, 4),
    ),
    max_size=8,
)


@given(STEPS)
def test_nothing_is_ever_wrong_after_a_call(steps: list[tuple[str, str, int]]) -> None:
    pair = Pair(InMemoryByteStore(), Way(None))
    for number, (step, name, chunks) in enumerate(steps):
        text = fakes.text_of(f"{name}{number}", chunks)
        document = Document(text, metadata={"source": name, "title": "A title"})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # parts that do not follow one another
            if step == "delete":
                pair.indexer.delete([name])
            elif step == "repair":
                assert pair.indexer.check(repair=True).repaired == {}
            elif step == "adopt":
                loose = [Document(text, id=f"{name}{number}", metadata={"file": f"old {name}"})]
                pair.vectorstore.add_documents(loose)
                pair.indexer.adopt(
                    ExistingIndex(doc_id_key="file", in_store_order=True, chunk_overlap=0)
                )
            else:
                pair.indexer.add_documents([document], append=step == "append")
        report = pair.check()
        assert report.ok, (step, str(report))


@fakes.both_ways
def test_an_empty_docstore_is_taken_for_a_mistyped_path(way: Way, tmp_path: Path) -> None:
    pair = Pair(InMemoryByteStore(), way)
    vectors = dict(pair.vectorstore.store)
    for mistyped in (InMemoryByteStore(), SQLDocStore(f"sqlite:///{tmp_path}/mistyped.db")):
        indexer = RSEIndexer(pair.vectorstore, mistyped)
        assert way.call(indexer.check, indexer.acheck).problems == {"leftovers": 12}
        with pytest.raises(StoreMismatchError, match=r"is empty.* has 12 vectors.*No vector was"):
            way.call(indexer.check, indexer.acheck, repair=True)
        assert pair.vectorstore.store == vectors
    assert pair.repair().ok


@fakes.both_ways
def test_vectors_of_other_code_are_listed_and_left_alone(way: Way) -> None:
    pair = Pair(InMemoryByteStore(), way)
    foreign = [Document(f"foreign {number}", id=f"foreign-{number}") for number in range(3)]
    pair.vectorstore.add_documents(foreign)
    for report in (pair.check(), pair.repair(), pair.check()):
        assert report.problems == {"foreign_vectors": 3}
        assert report.examples == {"foreign_vectors": ["foreign-0 (3)"]}
        assert not report.add_again
    assert pair.vectorstore.get_by_ids(["foreign-0", "foreign-1", "foreign-2"]) == foreign
    pair.vectorstore.delete([document.id for document in foreign if document.id])
    assert pair.check().ok
