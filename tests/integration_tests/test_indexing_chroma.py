"""An index of Chroma that gives fewer candidates than it is asked for."""

from __future__ import annotations

import warnings

import chromadb
import pytest
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore

from langchain_rse import RSERetriever
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way


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
        assert "only 100 chunks (ef_search) to find 150 candidates" in said[0]
        assert "{'hnsw': {'ef_search': 300}}" in said[0]
    store.delete_collection()
