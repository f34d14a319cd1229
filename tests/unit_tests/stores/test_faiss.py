"""FAISS under threads: readers beside writers get whole answers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore

from langchain_rse import RSEIndexer, RSERetriever
from tests.unit_tests import fakes
from tests.unit_tests.ingest.test_known_vectors import Counting, faiss_store


@pytest.fixture
def _many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_many_switches")
@pytest.mark.filterwarnings("ignore:some documents are excluded.*were replaced")
def test_readers_beside_writers() -> None:
    store = faiss_store(Counting())
    docstore = InMemoryByteStore()
    indexer = RSEIndexer(store, docstore, text_splitter=fakes.Lines(), batch_size=3)
    retriever = RSERetriever(vectorstore=store, docstore=docstore, config=fakes.EVERYTHING)
    indexer.add_documents([Document("harbor stays\n", id="stays")])
    is_over = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while not is_over.is_set():
                found = {passage.metadata["doc_id"] for passage in retriever.invoke("harbor")}
                assert "stays" in found
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(30):
        text = "".join(f"harbor {number} {line}\n" for line in range(5))
        indexer.add_documents([Document(text, id="changes")])
        indexer.delete(["changes"])
    is_over.set()
    for reader in readers:
        reader.join()
    assert errors == []


def test_a_filter_holds_for_the_whole_index() -> None:
    store = faiss_store(Counting())
    retriever = RSERetriever(
        vectorstore=store,
        docstore=InMemoryByteStore(),
        text_splitter=fakes.Lines(),
        config=fakes.EVERYTHING,
    )
    many = [Document(f"harbor {number}\n", id=str(number)) for number in range(30)]
    far = Document("something else\n", id="far", metadata={"year": 2021})
    retriever.add_documents([*many, far])

    def ids(**search_kwargs: object) -> list[str]:
        found = retriever.invoke("harbor", search_kwargs=search_kwargs)
        return [passage.metadata["doc_id"] for passage in found]

    assert ids(filter={"year": 2021}) == ["far"]
    assert ids(filter={"year": 2021}, fetch_k=5) == []  # what the user sets holds
