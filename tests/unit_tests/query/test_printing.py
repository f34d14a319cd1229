"""What retrievers, indexers and other objects print."""

from __future__ import annotations

from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import DocumentHeaders, RSEConfig, RSERetriever, SQLDocStore
from tests.unit_tests.fakes import BagOfWords


def test_a_retriever_prints_its_stores_and_the_settings_that_differ() -> None:
    vectorstore = InMemoryVectorStore(BagOfWords())
    docstore = SQLDocStore("sqlite://")
    retriever = RSERetriever(vectorstore=vectorstore, docstore=docstore)
    stores = "vectorstore=InMemoryVectorStore, docstore=SQLDocStore"
    assert repr(retriever) == f"RSERetriever({stores})"
    retriever = RSERetriever(
        vectorstore=vectorstore,
        docstore=docstore,
        k=3,
        max_context_length=None,
        config=RSEConfig(decay_rate=7.5),
        length_function=str.__len__,
        headers=DocumentHeaders(),
    )
    assert repr(retriever) == (
        "RSERetriever(k=3, max_context_length=None, length_function=__len__, "
        f"config=RSEConfig(decay_rate=7.5), {stores}, headers=DocumentHeaders())"
    )
    assert repr(retriever.indexer) == "RSEIndexer(InMemoryVectorStore, SQLDocStore('sqlite://'))"
