"""Cohere's reranking over HTTP, by the SDK that is installed, and at night by the oldest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from cohere.core import ApiError
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter

from langchain_rse import RSEConfig, RSERetriever
from langchain_rse.rerankers import CohereReranker
from tests.integration_tests.rerank_server import RerankServer, rerank_server
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way

way = fakes.way
KEY = "a-secret-key"


@pytest.fixture
def server() -> Iterator[RerankServer]:
    with rerank_server() as running:
        yield running


def ours(server: RerankServer, **kwargs: Any) -> CohereReranker:
    return CohereReranker(
        **{"model": "rerank-v3.5", "cohere_api_key": KEY, "base_url": server.url, **kwargs}
    )


def documents(count: int = 4) -> list[Document]:
    return [
        Document(f"{'red fox' if number % 2 else 'dog'} {number}", id=f"id-{number}")
        for number in range(count)
    ]


def compress(reranker: CohereReranker, documents: list[Document]) -> list[Document]:
    return list(reranker.compress_documents(documents, "red fox"))


def filled(reranker: Any) -> RSERetriever:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(DeterministicFakeEmbedding(size=8)),
        docstore=InMemoryStore(),
        text_splitter=CharacterTextSplitter("\n", chunk_size=10, chunk_overlap=0),
        reranker=reranker,
    )
    text = "a dog\na cat\nred fox\nfox red\nan owl\na crow\nan ox"
    retriever.add_documents([Document(text, metadata={"source": "animals"})])
    return retriever


@fakes.both_ways
def test_passages_by_its_scores(way: Way, server: RerankServer) -> None:
    retriever = filled(ours(server))
    (passage,) = way.invoke(retriever, "red fox", rse_config=RSEConfig(neighbor_weight=0))
    assert passage.page_content.strip() == "red fox\nfox red"
    chunks = passage.metadata["rse"]["chunks"]
    assert [chunk["score"] for chunk in chunks] == [1.0, 1.0]
    assert [chunk["rank"] for chunk in sorted(chunks, key=lambda c: c["rank"])] == [0, 1]
    assert server.keys == [f"Bearer {KEY}"]
    (request,) = server.requests
    assert len(request["documents"]) == 7
    assert request["model"] == "rerank-v3.5"
    assert way.invoke(retriever, "nothing of this") == []


@fakes.both_ways
def test_all_documents_come_back_with_their_scores(way: Way, server: RerankServer) -> None:
    reranker = ours(server)
    compress, acompress = reranker.compress_documents, reranker.acompress_documents
    given = documents()
    reranked = way.call(compress, acompress, given, "red fox")
    assert [document.id for document in reranked] == ["id-1", "id-3", "id-0", "id-2"]
    assert [document.metadata["relevance_score"] for document in reranked] == [1, 1, 0, 0]
    assert given == documents()
    assert way.call(compress, acompress, [], "red fox") == []
    (best,) = way.call(
        ours(server, top_n=1).compress_documents,
        ours(server, top_n=1).acompress_documents,
        given,
        "red fox",
    )
    assert best.id == "id-1"
    # Parameters that were not set are not sent.
    assert [set(request) for request in server.requests] == [{"model", "query", "documents"}] * 2


def test_more_documents_than_one_request_takes(server: RerankServer) -> None:
    given = documents(2_200)
    given[1_700].page_content = "the red fox"
    given[1_701].page_content = "red"
    reranked = compress(ours(server), given)
    assert len(reranked) == 2_200
    assert {document.metadata["relevance_score"] for document in reranked[:1_100]} == {1.0}
    assert reranked[1_100].id == "id-1701"
    assert [len(request["documents"]) for request in server.requests] == [1_000, 1_000, 200]


@pytest.mark.parametrize("status", [429, 503])
def test_it_tries_again(server: RerankServer, status: int) -> None:
    server.failures = [status]
    assert len(compress(ours(server, max_retries=1), documents())) == 4
    assert len(server.requests) == 2


@pytest.mark.parametrize(("failures", "requests"), [([429, 429], 2), ([401], 1)])
@fakes.both_ways
def test_a_refusal_passes_through(
    way: Way, server: RerankServer, failures: list[int], requests: int
) -> None:
    server.failures = [*failures]
    with pytest.raises(ApiError) as caught:
        way.invoke(filled(ours(server, max_retries=1)), "red fox")
    assert caught.value.status_code == failures[0]
    assert len(server.requests) == requests
    assert "reranking with CohereReranker" in str(caught.value.__notes__)
    assert KEY not in f"{caught.value!r} {caught.value}"
