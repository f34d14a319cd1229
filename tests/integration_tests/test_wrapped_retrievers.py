"""Other retrievers give the candidates: LangChain's own, over the same chunks."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain_classic.retrievers import (
    EnsembleRetriever,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter

from langchain_rse import RSEConfig, RSERetriever
from langchain_rse.stores.records import CHUNK_ID
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way

pytestmark = pytest.mark.nightly  # langchain-classic has an end
way = fakes.way

# A line is a chunk. "same words" stands in two documents, and twice in one of them.
TEXTS = {
    "birds": "an owl hunts\nsame words\nit hunts at night\nand sleeps by day\nsame words",
    "fish": "a pike hunts\nsame words\na carp grazes",
}


@pytest.fixture
def source() -> RSERetriever:
    """A retriever over vectors, whose stores the others share."""
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        text_splitter=CharacterTextSplitter("\n", chunk_size=1, chunk_overlap=0),
    )
    logging.disable(logging.WARNING)  # of chunks longer than asked for
    try:
        retriever.add_documents(
            [Document(text, metadata={"source": name}) for name, text in TEXTS.items()]
        )
    finally:
        logging.disable(logging.NOTSET)
    return retriever


class ByWords(BaseRetriever):
    """Finds the chunks that share the most words with the query."""

    chunks: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        del run_manager
        words = set(query.split())
        return sorted(self.chunks, key=lambda chunk: -len(words & set(chunk.page_content.split())))


def by_words(source: RSERetriever) -> BaseRetriever:
    return ByWords(chunks=list(source.indexer.chunks()))


def by_vectors(source: RSERetriever) -> BaseRetriever:
    assert source.vectorstore is not None
    return source.vectorstore.as_retriever(search_kwargs={"k": 20})


def wrapped(source: RSERetriever, base: Any, **kwargs: Any) -> RSERetriever:
    return RSERetriever(base_retriever=base, docstore=source.docstore, **kwargs)


def test_equal_texts_from_different_places_stay_apart(way: Way, source: RSERetriever) -> None:
    members: list[Any] = [by_words(source), by_vectors(source)]

    def places(**kwargs: Any) -> set[tuple[str, int]]:
        base = EnsembleRetriever(retrievers=members, weights=[0.5, 0.5], **kwargs)
        passages = way.invoke(
            wrapped(source, base, candidates_only=False),
            "same words",
            irrelevant_chunk_penalty=0.01,
            rse_config=RSEConfig(neighbor_weight=0),
        )
        return {
            (passage.metadata["source"], chunk["index"])
            for passage in passages
            for chunk in passage.metadata["rse"]["chunks"]
            if "rank" in chunk
        }

    same = {("birds", 1), ("birds", 4), ("fish", 1)}
    assert same <= places(id_key=CHUNK_ID)
    # Without it, the ensemble takes equal texts for one.
    assert len(same & places()) == 1
