"""Vectors are checked before they are written; a bad one costs its document, and is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSEIndexer, RSERetriever
from langchain_rse.errors import EmbeddingError
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way

way = fakes.way


class Spoiling(fakes.BagOfWords):
    """Spoils the vectors of texts with the word "bad", as long as it is told to."""

    def __init__(self, spoil: Callable[[list[float]], list[float]]) -> None:
        super().__init__()
        self.spoil: Callable[[list[float]], list[float]] | None = spoil

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors = super().embed_documents(texts)
        if self.spoil is None:
            return vectors
        spoiled = []
        for text, vector in zip(texts, vectors, strict=True):
            spoiled.append(self.spoil(vector) if "bad" in text else vector)
        return spoiled


BAD: dict[str, Callable[[list[float]], list[float]]] = {
    "not finite": lambda vector: [float("nan"), *vector[1:]],
    "dimensions instead of 65": lambda vector: vector[:3],
    "is all zeros": lambda vector: [0.0 for _ in vector],
}


def documents_of(*texts: str) -> list[Document]:
    return [Document(text, metadata={"source": text.split()[0]}) for text in texts]


def stored_ids(indexer: RSEIndexer) -> list[str]:
    return sorted({chunk.metadata["doc_id"] for chunk in indexer.chunks()})


@pytest.mark.parametrize("problem", BAD)
@fakes.both_ways
def test_a_bad_vector_costs_its_document(way: Way, problem: str) -> None:
    model = Spoiling(BAD[problem])
    vectorstore = InMemoryVectorStore(model)
    docstore = InMemoryByteStore()
    indexer = RSEIndexer(vectorstore, docstore, batch_size=2, text_splitter=fakes.Lines())
    documents = documents_of("a one\ntwo\n", "b three\nbad four\nfive\n", "c six\n")
    with pytest.raises(EmbeddingError, match=f"1 document.*'b'.*bad four.*{problem}"):
        way.add(indexer, documents)
    assert indexer.check().ok
    assert indexer.check().documents == 2
    retriever = RSERetriever(
        vectorstore=vectorstore, docstore=docstore, config=fakes.EVERYTHING, max_context_length=None
    )
    found = {passage.metadata["doc_id"] for passage in way.invoke(retriever, "one six")}
    assert found == {"a", "c"}

    # The next run mends it.
    model.spoil = None
    way.add(indexer, documents)
    assert indexer.check().documents == 3
    assert indexer.check().ok


class Refusing(fakes.BagOfWords):
    """Raises for texts with the word "bad", for too many texts and, if it is broken, for all."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.is_broken or len(texts) > 4 or any("bad" in text for text in texts):
            raise RuntimeError("too long")
        return super().embed_documents(texts)


@pytest.mark.parametrize("batch_size", [1, 2, 100])
@fakes.both_ways
def test_a_text_that_the_model_refuses_costs_its_document(way: Way, batch_size: int) -> None:
    indexer = RSEIndexer(
        InMemoryVectorStore(Refusing()),
        InMemoryByteStore(),
        batch_size=batch_size,
        text_splitter=fakes.Lines(),
    )
    texts = ("a one\ntwo\n", "b three\nbad four\nfive\n", "c six\n", "d bad\n")
    with pytest.raises(
        EmbeddingError,
        match=r"2 document.*'b' \('bad four' raised RuntimeError: too long\), 'd' \('d bad' raised",
    ):
        way.add(indexer, documents_of(*texts))
    assert stored_ids(indexer) == ["a", "c"]
    assert indexer.check().ok
