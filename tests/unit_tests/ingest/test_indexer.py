"""The indexer: what it writes, what it leaves alone, and what a crash leaves behind."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import re
import time
import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import tqdm
from langchain_core.documents import Document
from langchain_core.stores import BaseStore, InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.stores import records, vectorstores
from langchain_rse.stores.records import digest, document_key, manifest_key
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way
EVERYTHING = fakes.EVERYTHING
text_of = fakes.text_of

CHUNK_SIZE = 40
BATCH_SIZE = 3


def splitter(chunk_size: int = CHUNK_SIZE) -> RecursiveCharacterTextSplitter:
    return RecursiveCharacterTextSplitter(chunk_size=chunk_size, chunk_overlap=0)


class Stores:
    """An indexer and a retriever over one pair of watched stores."""

    def __init__(self, docstore: BaseStore[str, Any], way: Way) -> None:
        self.way = way
        self.writes = fakes.Writes()
        self.embeddings = fakes.BagOfWords()
        self.vectorstore = fakes.WatchedVectorStore(self.embeddings, self.writes)
        self.docstore = fakes.WatchedDocStore(docstore, self.writes)
        self.indexer = self.indexer_with()
        self.retriever = RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            config=EVERYTHING,
            max_context_length=None,
        )

    def indexer_with(self, **kwargs: Any) -> RSEIndexer:
        settings = {"text_splitter": splitter(), "batch_size": BATCH_SIZE, **kwargs}
        return RSEIndexer(self.vectorstore, self.docstore, **settings)

    def add(self, *documents: Document, **kwargs: Any) -> list[str]:
        return self.way.add(self.indexer, documents, **kwargs)

    def add_text(self, text: str, doc_id: str = "a") -> list[str]:
        return self.add(Document(text), ids=[doc_id])

    def delete(self, *ids: str) -> list[str]:
        return self.way.delete(self.indexer, ids)

    def passages(self) -> dict[str, list[Document]]:
        """All that a reader gets, by document, in the order of the text."""
        found: dict[str, list[Document]] = {}
        for passage in self.way.invoke(self.retriever, "text"):
            found.setdefault(passage.metadata["doc_id"], []).append(passage)
        return found

    def vectors(self, doc_id: str | None = None) -> list[dict[str, Any]]:
        """The chunks in the vector store, in the order of the text."""
        some: list[dict[str, Any]] = [
            vector
            for vector in self.vectorstore.store.values()
            if doc_id in (None, vector["metadata"]["doc_id"])
        ]
        return sorted(some, key=lambda vector: int(vector["metadata"]["chunk_index"]))

    def keys(self) -> list[str]:
        return fakes.keys_of(self.docstore)


@pytest.fixture
def stores(way: Way) -> Stores:
    return Stores(SQLDocStore("sqlite://"), way)


def what_is_read(passages: Sequence[Document], texts: Sequence[str]) -> str:
    """The one text of which the passages are slices, if they have all of it."""
    assert len({passage.metadata["rse"]["version"] for passage in passages}) == 1
    for passage in passages:  # no vector is missing, which the docstore would make up for
        assert not [chunk for chunk in passage.metadata["rse"]["chunks"] if "filled" in chunk]
    for text in texts:
        if all(
            text[passage.metadata["start_index"] : passage.metadata["end_index"]]
            == passage.page_content
            for passage in passages
        ):
            ends = [0, *(passage.metadata["end_index"] for passage in passages)]
            starts = [*(passage.metadata["start_index"] for passage in passages), len(text)]
            assert ends == starts, "a part of the text is missing"
            return text
    pytest.fail(f"not slices of one text: {[passage.page_content for passage in passages]}")


def assert_holds_exactly(stores: Stores, texts: dict[str, str]) -> None:
    """Both stores have all of these documents and nothing else."""
    expected_keys: set[str] = set()
    for doc_id, text in texts.items():
        vectors = stores.vectors(doc_id)
        metadata = [vector["metadata"] for vector in vectors]
        assert [each["chunk_index"] for each in metadata] == list(range(len(vectors)))
        assert [
            text[each["start_index"] : each["end_index"]].strip() for each in metadata
        ] == text.split("\n\n")
        assert [vector["text"] for vector in vectors] == text.split("\n\n")
        (version,) = {each["rse_version"] for each in metadata}
        key = document_key(doc_id)
        expected_keys |= {f"{key}/{version}/{index}" for index in range(len(vectors))}
        expected_keys.add(f"{key}/{version}/document")
        expected_keys.add(f"manifest/{key}")
    assert stores.keys() == sorted(expected_keys)
    assert {vector["metadata"]["doc_id"] for vector in stores.vectors()} == set(texts)
    assert {
        doc_id: what_is_read(passages, [texts[doc_id]])
        for doc_id, passages in stores.passages().items()
    } == texts


# Ids


@pytest.mark.parametrize(
    ("document", "ids", "expected"),
    [
        (Document("t", metadata={"doc_id": "m", "source": "s"}, id="i"), ["given"], "given"),
        (Document("t", metadata={"doc_id": "m", "source": "s"}, id="i"), None, "m"),
        (Document("t", metadata={"doc_id": 7, "source": "s"}, id="i"), None, "7"),
        (Document("t", metadata={"doc_id": "", "source": "s"}, id="i"), None, "i"),
        (Document("t", metadata={"source": "s"}, id="i"), None, "i"),
        (Document("t", metadata={"source": "s"}), None, "s"),
        (Document("t", metadata={"source": None}), None, digest("t")),
        (Document("t", metadata={"title": "s"}), None, digest("t")),
    ],
)
def test_where_the_id_comes_from(
    way: Way, document: Document, ids: list[str] | None, expected: str
) -> None:
    stores = Stores(InMemoryByteStore(), way)
    assert stores.add(document, ids=ids) == [expected]
    assert [vector["metadata"]["doc_id"] for vector in stores.vectors()] == [expected]


def test_ids_are_returned_once_and_in_order_of_appearance(stores: Stores) -> None:
    names = ("b1", "a1", "b2", "c1", "a2")
    pages = [Document(name, metadata={"page": int(name[1])}) for name in names]
    assert stores.add(*pages, ids=["b", "a", "b", "c", "a"]) == ["b", "a", "c"]
    assert stores.add() == []


@pytest.mark.parametrize("bad", ["", None, 3])
@pytest.mark.parametrize("as_iterator", [False, True])
def test_ids_are_strings_that_are_not_empty(
    stores: Stores, bad: object, *, as_iterator: bool
) -> None:
    documents = [Document("one"), Document("two")]
    with pytest.raises(ValueError, match=r"ids must"):
        stores.way.add(
            stores.indexer, iter(documents) if as_iterator else documents, ids=["a", bad]
        )
    assert stores.keys() == []


def test_documents_are_not_one_document(stores: Stores) -> None:
    with pytest.raises(TypeError, match=r"or \[document\]; got Document$"):
        stores.way.add(stores.indexer, Document("one"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got list with 'one'"):
        stores.way.add(stores.indexer, ["one"])  # type: ignore[list-item]


def test_documents_without_an_id_and_of_the_same_text_are_added_once(stores: Stores) -> None:
    same = [Document("the same", metadata={"n": number}) for number in range(3)]
    with pytest.warns(UserWarning, match="2 document") as caught:
        assert stores.add(Document("other"), *same) == [digest("other"), digest("the same")]
    assert len(caught) == 1
    assert len(stores.vectors()) == 2
    with pytest.warns(UserWarning, match="2 document"):
        assert stores.way.add(stores.indexer, iter(same)) == [digest("the same")]
    assert stores.add(*same, ids=["0", "1", "2"]) == ["0", "1", "2"]
    assert len(stores.vectors()) == 5


# Parts


def test_parts_are_joined_in_their_order(stores: Stores) -> None:
    scattered = ["a1", "b1", "a2", "b2", "a3"]
    documents = [
        Document(f"page {name}", metadata={"doc_id": name[0], "page": int(name[1])})
        for name in scattered
    ]
    expected = {"a": "page a1\n\npage a2\n\npage a3", "b": "page b1\n\npage b2"}

    stores.add(*documents)
    read = {doc_id: found[0].page_content for doc_id, found in stores.passages().items()}
    assert read == expected

    in_groups = sorted(documents, key=lambda document: str(document.metadata["doc_id"]))
    stores.writes.made.clear()
    assert stores.way.add(stores.indexer, iter(in_groups)) == ["a", "b"]
    assert stores.writes.made == []  # an iterator gives the same documents


def test_parts_scattered_over_an_iterator_are_an_error(stores: Stores) -> None:
    pages = [Document(name, metadata={"source": name[0]}) for name in ("a1", "b1", "a2")]
    with pytest.raises(ValueError, match=r"document 'a' are not consecutive.*list"):
        stores.way.add(stores.indexer, iter(pages))


def test_a_chunk_that_is_added_again_keeps_nothing_of_its_former_place(stores: Stores) -> None:
    stores.add(Document(text_of("first", 3), id="a", metadata={"title": "T"}))
    (_, chunk, _) = stores.vectors()
    written = {"rse_version", "start_index"}  # a chunk that has them is refused
    kept = {name: value for name, value in chunk["metadata"].items() if name not in written}
    again = Document(chunk["text"], id="again", metadata=kept)
    second = Document("second part")
    assert stores.add(again, second, ids=["b", "b"]) == ["b"]
    (passage,) = stores.passages()["b"]
    assert "title_start" in passage.metadata
    stale = {"rse_version", "chunk_id", "chunk_index", "start_index", "end_index"}
    assert not {f"{name}_start" for name in stale} & passage.metadata.keys()
    found = [vector["metadata"] for vector in stores.vectors("b")]
    assert [(each["chunk_index"], each["start_index"]) for each in found] == [(0, 0), (1, 32)]
    assert not {each["chunk_id"] for each in found} & {chunk["metadata"]["chunk_id"]}
    before = stores.keys()
    plain = again.model_copy(update={"metadata": {"title": "T"}})
    stores.add(plain, second, ids=["b", "b"])
    assert stores.keys() == before  # the stale names are no part of the version


# Metadata


def test_metadata_goes_where_it_can_be_kept(stores: Stores) -> None:
    day = dt.date(2024, 2, 29)
    shared = {
        "source": "report.pdf",
        "year": np.int64(2024),
        "draft": False,
        "weight": 0.5,
        "day": day,
        "authors": ["x", "y"],
        "nothing": None,
    }
    pages = [
        Document(f"this is page {page} of the report", metadata={**shared, "page": page})
        for page in (1, 2, 3)
    ]
    stores.add(*pages)

    vectors = stores.vectors()
    assert [vector["metadata"]["page"] for vector in vectors] == [1, 2, 3]
    for vector in vectors:
        metadata = vector["metadata"]
        assert set(metadata) == {
            *("source", "year", "draft", "weight", "page", "authors"),
            *("doc_id", "chunk_id", "chunk_index", "start_index", "end_index", "rse_version"),
        }
        assert type(metadata["year"]) is int
        assert metadata["draft"] is False
        assert metadata["chunk_id"] == vector["id"]

    (passage,) = stores.passages()["report.pdf"]
    assert {name: passage.metadata[name] for name in shared} == {**shared, "year": 2024}
    assert (passage.metadata["page_start"], passage.metadata["page_end"]) == (1, 3)
    assert "page" not in passage.metadata


# Again, changed, gone


@fakes.both_ways
def test_adding_the_same_again_writes_and_embeds_nothing(stores: Stores) -> None:
    metadata = {"tags": ["a", "b"], "day": dt.date(2024, 1, 1)}
    document = Document(text_of("first", 4), id="a", metadata=metadata)
    stores.add(document)
    before = stores.keys()
    stores.writes.made.clear()
    stores.embeddings.batches.clear()

    assert stores.add(document.model_copy(deep=True)) == ["a"]
    assert stores.writes.made == []
    assert stores.embeddings.batches == []
    assert stores.keys() == before


def test_changed_metadata_replaces(stores: Stores) -> None:
    text = text_of("first", 3)
    stores.add(Document(text, id="a", metadata={"year": 2023, "day": dt.date(2023, 1, 1)}))
    for metadata in ({"year": 2024, "day": dt.date(2023, 1, 1)}, {"year": 2024}):
        stores.add(Document(text, id="a", metadata=metadata))
        assert [vector["metadata"]["year"] for vector in stores.vectors()] == [2024] * 3
        (passage,) = stores.passages()["a"]
        assert {name: passage.metadata.get(name) for name in ("year", "day")} == {
            "day": None,
            **metadata,
        }
        assert_holds_exactly(stores, {"a": text})


@fakes.both_ways
def test_delete_leaves_nothing(stores: Stores) -> None:
    texts = {"a": text_of("first", 5), "b": text_of("second", 7)}
    stores.add(*(Document(text, id=name) for name, text in texts.items()))
    assert stores.delete("a") == ["a"]
    assert_holds_exactly(stores, {"b": texts["b"]})
    assert stores.delete("b", "b") == ["b"]
    assert stores.keys() == []
    assert stores.vectors() == []


# Texts without words


@pytest.mark.parametrize("empty", ["", " \n\t\u2003"])
def test_empty_text_is_recorded_and_said(stores: Stores, empty: str) -> None:
    with pytest.warns(UserWarning, match=r"1 document\(s\) have no text \('a'\).*OCR"):
        assert stores.add_text(empty) == ["a"]
    assert len(stores.keys()) == 2  # the manifest, and its copy
    assert stores.vectors() == []
    with pytest.warns(UserWarning, match="no documents with text"):
        assert stores.passages() == {}
    assert stores.delete("a") == ["a"]
    assert stores.keys() == []


# Reading ahead


def test_documents_are_not_held(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """2,500 documents from an iterator: only so many are read, or alive, before a write."""
    gone: list[int] = []
    written: set[str] = set()
    most_alive = most_ahead = 0

    def documents() -> Iterator[Document]:
        nonlocal most_alive, most_ahead
        for number in range(2_500):
            document = Document(f"document {number}", id=f"doc{number}")
            weakref.finalize(document, gone.append, number)
            most_alive = max(most_alive, number + 1 - len(gone))
            most_ahead = max(most_ahead, number + 1 - len(written))
            yield document

    embed = stores.embeddings.embed_documents

    def embed_documents(texts: list[str]) -> list[list[float]]:
        written.update(texts)
        return embed(texts)

    monkeypatch.setattr(stores.embeddings, "embed_documents", embed_documents)
    stores.indexer = stores.indexer_with(batch_size=500)
    ids = stores.way.add(stores.indexer, documents())
    assert len(ids) == len(written) == 2_500
    assert most_alive <= 1_100
    assert most_ahead <= 1_100


@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
def test_batches(stores: Stores, batch_size: int) -> None:
    stores.indexer = stores.indexer_with(batch_size=batch_size)
    for name in ("old", "new"):
        stores.add(*(Document(text_of(f"{name}{n}", 3), id=f"doc{n}") for n in range(4)))
    stores.delete("doc0", "doc1", "doc2", "doc3")
    for method in ("mset", "mdelete", "write_vectors", "delete"):
        assert max(stores.writes.sizes(method)) <= batch_size
        assert sum(stores.writes.sizes(method)) > 0
    if batch_size == 5:
        assert stores.writes.sizes("write_vectors") == [5, 5, 2, 5, 5, 2]
        assert stores.embeddings.batches == [5, 5, 2, 5, 5, 2]


async def test_a_generator_that_blocks_does_not_block_the_event_loop() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    def documents() -> Iterator[Document]:
        for name in "abc":
            before = turns
            deadline = time.monotonic() + 5
            while turns == before and time.monotonic() < deadline:
                time.sleep(0.001)
            assert turns > before
            yield Document(text_of(name, 2), id=name)

    stores = Stores(InMemoryByteStore(), Way(None))
    counting = asyncio.create_task(count_turns())
    assert await stores.indexer.aadd_documents(documents()) == [*"abc"]
    counting.cancel()


def test_progress_is_shown_by_chunk(
    stores: Stores, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tqdm, "tqdm", partial(tqdm.tqdm, mininterval=0, miniters=1))
    documents = [Document(text_of(str(n), 5), id=str(n)) for n in range(4)]
    stores.add(*documents, show_progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    written = [int(count) for count in re.findall(r"(\d+) chunks \[", captured.err)]
    assert (written, written[-1]) == (sorted(written), 20)
    stores.way.add(stores.indexer, iter(documents))
    assert capsys.readouterr().err == ""


# Errors of others


def test_a_splitter_that_fails(stores: Stores) -> None:
    class Broken(RecursiveCharacterTextSplitter):
        def split_text(self, text: str) -> list[str]:
            raise RuntimeError(f"cannot split {len(text)} characters")

    stores.indexer = stores.indexer_with(text_splitter=Broken())
    with pytest.raises(RuntimeError, match="cannot split 9 characters") as caught:
        stores.add_text("some text", "report")
    assert "splitting document 'report'" in "".join(caught.value.__notes__)
    assert stores.writes.made == []


def test_a_vector_store_that_ignores_ids_is_refused(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectorstores, "ADAPTERS", {})  # a store that this package does not know

    class Headstrong(InMemoryVectorStore):
        def add_documents(
            self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any
        ) -> list[str]:
            return super().add_documents(
                documents, ids=[f"mine{number}" for number, _ in enumerate(ids or [])], **kwargs
            )

        async def aadd_documents(
            self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any
        ) -> list[str]:
            return self.add_documents(documents, ids, **kwargs)

    vectorstore = Headstrong(fakes.BagOfWords())
    docstore = SQLDocStore("sqlite://")
    with pytest.raises(ValueError, match="Headstrong did not keep the given ids"):
        way.add(RSEIndexer(vectorstore, docstore), [Document("some text", id="a")])
    retriever = RSERetriever(vectorstore=vectorstore, docstore=docstore, config=EVERYTHING)
    assert way.invoke(retriever, "text") == []


def test_vectors_that_could_not_be_deleted_are_deleted_by_the_next_call(way: Way) -> None:
    class Failing(InMemoryVectorStore):
        """Says in its answer that it failed, and cannot tell what it has."""

        failures = 1

        def delete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:  # type: ignore[override]
            self.failures -= 1
            if self.failures >= 0:
                return False
            super().delete(ids, **kwargs)
            return True

        async def adelete(  # type: ignore[override]
            self, ids: Sequence[str] | None = None, **kwargs: Any
        ) -> bool:
            return self.delete(ids, **kwargs)

        def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
            raise NotImplementedError

        async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
            raise NotImplementedError

    vectorstore = Failing(fakes.BagOfWords())
    docstore = SQLDocStore("sqlite://")
    indexer = RSEIndexer(vectorstore, docstore)
    way.add(indexer, [Document("some text", id="a")])
    with pytest.raises(RuntimeError, match="Failing could not delete vectors"):
        way.delete(indexer, ["a"])
    assert len(vectorstore.store) == 1
    assert way.delete(indexer, ["a"]) == ["a"]
    assert vectorstore.store == {}
    assert fakes.keys_of(docstore) == []


@pytest.mark.parametrize(
    "fields",
    [{}, {"format": 5, "doc_id": "a", "current": ["v"]}, {"format": 4, "length": -1}],
)
@pytest.mark.parametrize("call", ["add", "replace", "delete"])
def test_a_manifest_that_cannot_be_read_is_written_again(
    stores: Stores, fields: dict[str, Any], call: str
) -> None:
    """What it listed is found by the keys of its records."""
    stores.add_text("old text")
    key = manifest_key(document_key("a"))
    stores.docstore.mset([(key, Document("", metadata=fields))])
    if call == "delete":
        assert stores.delete("a") == ["a"]
        assert not stores.vectorstore.store
        assert fakes.keys_of(stores.docstore) == []
        return
    text = "old text" if call == "add" else "new text"
    stores.add_text(text)
    assert what_is_read(stores.passages()["a"], [text]) == text
    assert len(stores.vectors()) == 1
    assert len(list(stores.docstore.yield_keys(prefix=document_key("a")))) == 2


# Crashes


class Scenario(NamedTuple):
    """What is there, and the call that crashes.

    Attributes:
        before: The text of document "a" before the call; None if it is not there.
        after: The text after the call; None if it is gone.
    """

    before: str | None
    after: str | None

    def prepare(self, stores: Stores) -> None:
        stores.add_text(OTHER, "other")
        if self.before is not None:
            stores.add_text(self.before)

    def act(self, stores: Stores) -> None:
        if self.after is None:
            stores.delete("a")
        else:
            stores.add_text(self.after)


OTHER = text_of("other", 2)
SAME = text_of("same", 5).split("\n\n")
SCENARIOS = {
    "add": Scenario(None, text_of("new", 7)),
    "shrink": Scenario(text_of("old", 7), text_of("new", 2)),
    "grow": Scenario(text_of("old", 2), text_of("new", 7)),
    "common chunks": Scenario(text_of("same", 4), text_of("same", 7)),
    "one chunk changed": Scenario(text_of("same", 7), text_of("same", 7).replace("04", "xx")),
    "no chunk changed": Scenario("\n\n".join(SAME), "\n\n".join(SAME[1:2] + SAME[:1] + SAME[2:])),
    "delete": Scenario(text_of("old", 7), None),
}


def crashed(way: Way, scenario: Scenario) -> Iterator[Stores]:
    """Stores in which the scenario crashed: halfway in its first writing call, its second, ..."""
    for call in itertools.count():
        stores = Stores(SQLDocStore("sqlite://"), way)
        scenario.prepare(stores)
        stores.writes.fail_at(call, "halfway")
        try:
            scenario.act(stores)
        except fakes.CrashError:
            stores.writes.fail_at(None)
            yield stores
        else:
            assert call >= 4
            return


def forget_dead_calls(stores: Stores) -> None:
    """Repair, an hour later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "ANNOUNCEMENT_LIFETIME", -1.0)
        report = stores.way.call(stores.indexer.check, stores.indexer.acheck, repair=True)
    assert report.ok, report
    assert report.repaired.keys() <= {"leftovers"}


def expected(text: str | None) -> dict[str, str]:
    return {"other": OTHER} if text is None else {"a": text, "other": OTHER}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_after_a_crash_one_version_is_read_and_the_same_call_completes_it(
    way: Way, scenario: Scenario
) -> None:
    texts = [text for text in scenario if text is not None]
    seen = set()
    for stores in crashed(way, scenario):
        passages = stores.passages()
        assert what_is_read(passages.pop("other"), [OTHER]) == OTHER
        read = what_is_read(passages["a"], texts) if "a" in passages else None
        assert read in scenario
        seen.add(read)

        scenario.act(stores)
        forget_dead_calls(stores)
        assert_holds_exactly(stores, expected(scenario.after))
    if scenario.before and scenario.after:  # the calls reach from the one to the other
        assert seen == set(scenario)


@pytest.mark.parametrize("text", ["one two\nthree four\n", "\none two\nthree four\n\n"])
def test_another_embedded_text_of_the_same_chunks_is_another_version(way: Way, text: str) -> None:
    class Stripped(fakes.Lines):
        def split_text(self, text: str) -> list[str]:
            return [line.strip() for line in super().split_text(text) if line.strip()]

    vectorstore, docstore = InMemoryVectorStore(fakes.BagOfWords()), SQLDocStore("sqlite://")
    for lines in (fakes.Lines(), Stripped(), fakes.Lines()):
        indexer = RSEIndexer(vectorstore, docstore, text_splitter=lines)
        way.add(indexer, [Document(text, id="a")])
        embedded = [entry["text"] for entry in vectorstore.store.values()]
        assert sorted(embedded) == sorted(line for line in lines.split_text(text) if line.strip())
