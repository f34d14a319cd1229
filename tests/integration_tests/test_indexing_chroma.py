"""The indexer on Chroma and SQLite, on disk, opened anew for each step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chromadb
import pytest
from chromadb.api.shared_system_client import SharedSystemClient
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.stores.records import document_key
from tests.integration_tests.stores import open_chroma
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way
EVERYTHING = fakes.EVERYTHING
text_of = fakes.text_of


class Index:
    """One process's view of the index in a folder."""

    def __init__(self, folder: Path, way: Way) -> None:
        self.way = way
        self.embeddings = fakes.CountingModel()
        self.chroma = open_chroma(folder, self.embeddings)
        self.docstore = SQLDocStore(f"sqlite:///{folder}/chunks.db")
        self.indexer = RSEIndexer(
            self.chroma,
            self.docstore,
            text_splitter=RecursiveCharacterTextSplitter(chunk_size=40, chunk_overlap=0),
            batch_size=3,
        )
        self.retriever = RSERetriever(
            vectorstore=self.chroma, docstore=self.docstore, config=EVERYTHING
        )

    def add(self, *documents: Document, **kwargs: Any) -> list[str]:
        return self.way.add(self.indexer, documents, **kwargs)

    def vectors(self) -> list[dict[str, Any]]:
        """The metadata of all chunks in Chroma, in the order of documents and chunks."""
        found: list[dict[str, Any]] = self.chroma.get()["metadatas"]
        return sorted(found, key=lambda metadata: (metadata["doc_id"], metadata["chunk_index"]))

    def segments(self) -> list[Document]:
        found: list[Document] = self.way.invoke(self.retriever, "paragraph")
        return found

    def assert_holds_exactly(self, texts: dict[str, str]) -> None:
        vectors = self.vectors()
        assert [
            (each["doc_id"], texts[each["doc_id"]][each["start_index"] : each["end_index"]].strip())
            for each in vectors
        ] == [(name, part) for name in sorted(texts) for part in texts[name].split("\n\n")]
        keys = set()
        for each in vectors:
            key = document_key(each["doc_id"])
            version = f"{key}/{each['rse_version']}"
            keys |= {f"manifest/{key}", f"{version}/document", f"{version}/spans/0"}
            keys.add(f"{version}/{each['chunk_index']}")
        assert set(fakes.keys_of(self.docstore)) == keys
        segments = self.segments()
        assert {each.metadata["doc_id"]: each.page_content for each in segments} == texts
        assert len(segments) == len(texts)


class Folder:
    """Opens the index in a folder as a new process would."""

    def __init__(self, folder: Path, way: Way) -> None:
        self.folder = folder
        self.way = way

    @contextmanager
    def open(self) -> Iterator[Index]:
        index = Index(self.folder, self.way)
        try:
            yield index
        finally:
            index.docstore.close()
            # Chroma keeps what it has opened for the whole process.
            SharedSystemClient.clear_system_cache()


@pytest.fixture
def folder(tmp_path: Path, way: Way) -> Folder:
    return Folder(tmp_path, way)


@fakes.both_ways
def test_add_and_read(folder: Folder) -> None:
    texts = {"a": text_of("first", 5), "b": text_of("second", 4)}
    with folder.open() as index:
        assert index.add(*(Document(text, id=name) for name, text in texts.items())) == ["a", "b"]
        index.assert_holds_exactly(texts)
    with folder.open() as index:
        index.assert_holds_exactly(texts)


@fakes.both_ways
def test_a_call_that_was_cut_off_goes_on_in_another_process(folder: Folder) -> None:
    text = text_of("first", 9)
    with folder.open() as index:
        index.embeddings.left = 6
        with pytest.raises(fakes.CutOffError):
            index.add(Document(text, id="a"))
    with folder.open() as index:
        assert index.segments() == []
        index.add(Document(text, id="a"))
        assert index.embeddings.taken() == text.split("\n\n")[6:]
        index.assert_holds_exactly({"a": text})


def test_replacing_embeds_what_changed(folder: Folder) -> None:
    text = text_of("first", 9)
    with folder.open() as index:
        index.add(Document(text, id="a"))
    new = text.replace("04", "xx")
    with folder.open() as index:
        index.add(Document(new, id="a"))
        assert index.embeddings.taken() == [new.split("\n\n")[4]]
        index.assert_holds_exactly({"a": new})
    with folder.open() as index:
        index.add(Document(new, id="a", metadata={"year": 2024}))
        assert index.embeddings.taken() == []
        index.assert_holds_exactly({"a": new})
        assert {metadata["year"] for metadata in index.vectors()} == {2024}


@fakes.both_ways
def test_delete(folder: Folder) -> None:
    texts = {"a": text_of("first", 5), "b": text_of("second", 4)}
    with folder.open() as index:
        index.add(*(Document(text, id=name) for name, text in texts.items()))
    with folder.open() as index:
        assert folder.way.delete(index.indexer, ["a", "unknown"]) == ["a"]
    with folder.open() as index:
        index.assert_holds_exactly({"b": texts["b"]})
        assert folder.way.delete(index.indexer, ["a", "b"]) == ["b"]
    with folder.open() as index:
        assert index.vectors() == []
        assert fakes.keys_of(index.docstore) == []
        assert index.segments() == []


@fakes.both_ways
@pytest.mark.parametrize("ef_search", [100, 400])
def test_an_index_that_misses_candidates_is_warned_of_once(way: fakes.Way, ef_search: int) -> None:
    store = Chroma(
        f"ef-{ef_search}-{way.is_async}",
        fakes.BagOfWords(),
        client=chromadb.EphemeralClient(Settings(anonymized_telemetry=False)),
        collection_configuration={"hnsw": {"ef_search": ef_search}},
    )
    retriever = RSERetriever(
        vectorstore=store, docstore=InMemoryStore(), text_splitter=fakes.Lines(), fetch_k=150
    )
    retriever.add_documents([Document("".join(f"word {n}\n" for n in range(1_600)), id="a")])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            way.invoke(retriever, "word 7")
    said = [str(one.message) for one in caught if "ef_search" in str(one.message)]
    assert len(said) == (1 if ef_search == 100 else 0)
    if said:
        assert "100 chunks for 150 candidates" in said[0]
        assert "{'hnsw': {'ef_search': 300}}" in said[0]
    store.delete_collection()
