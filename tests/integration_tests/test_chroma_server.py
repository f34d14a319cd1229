"""Several indexers on one Chroma server, with a docstore on SQLite that they share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple

import chromadb
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.stores.layouts import read_manifests
from tests.integration_tests.postgres_pair import document
from tests.integration_tests.processes import run_at_once
from tests.unit_tests import fakes

PROCESSES = 2
NAMES = [f"report {number}" for number in range(6)]


class Place(NamedTuple):
    """Where the stores are; can be sent to other processes."""

    server: str
    collection: str
    folder: Path

    @contextmanager
    def opened(self) -> Iterator[RSEIndexer]:
        host, port = self.server.split(":")
        settings = Settings(anonymized_telemetry=False)
        client: Any = chromadb.HttpClient(host, int(port), settings=settings)
        try:
            with closing(SQLDocStore(f"sqlite:///{self.folder}/chunks.db")) as docstore:
                yield RSEIndexer(
                    Chroma(self.collection, fakes.BagOfWords(), client=client),
                    docstore,
                    text_splitter=RecursiveCharacterTextSplitter(chunk_size=100, chunk_overlap=0),
                    batch_size=7,
                )
        finally:
            for part in (client, client._admin_client):  # they stay open otherwise
                part._server._session.close()


def write(place: Place, process: int, start: Barrier) -> None:
    """Add, replace and delete documents, each of which this process alone writes."""
    with place.opened() as indexer:
        start.wait(60)
        mine = NAMES[process::PROCESSES]
        indexer.add_documents([document(name) for name in mine])
        indexer.add_documents([document(mine[0], 1, paragraphs=20)])
        indexer.delete([mine[1]])


def test_several_indexers(chroma_url: str, tmp_path: Path) -> None:
    place = Place(chroma_url, f"chunks_{uuid.uuid4().hex}", tmp_path)
    run_at_once([write] * PROCESSES, place)

    expected = {name: document(name, 1, paragraphs=20) for name in NAMES[:PROCESSES]}
    expected |= {name: document(name) for name in NAMES[2 * PROCESSES :]}
    with place.opened() as indexer:
        manifests = list(read_manifests(indexer.docstore))
        assert {one.doc_id for one in manifests} == expected.keys()
        vectors = [
            vector for one in manifests if one.current for vector in one.current.vector_ids(one.key)
        ]
        assert isinstance(indexer.vectorstore, Chroma)
        assert sorted(indexer.vectorstore.get()["ids"]) == sorted(vectors)
        retriever = RSERetriever(
            vectorstore=indexer.vectorstore, docstore=indexer.docstore, config=fakes.EVERYTHING
        )
        found = retriever.invoke("harbor", max_context_length=None)
        assert {one.metadata["doc_id"]: one.page_content for one in found} == {
            name: text.page_content for name, text in expected.items()
        }
