"""Voyage's reranking over HTTP, by LangChain's integration, in an environment of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.special import betainc

from tests.integration_tests.environments import Environment
from tests.integration_tests.rerank_server import rerank_server

KEY = "a-secret-key"
COUNT = 200

PROGRAM = """
import asyncio, json, sys
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_rse import PRESETS, RSERetriever
from langchain_text_splitters import TextSplitter
from langchain_voyageai import VoyageAIRerank

class Lines(TextSplitter):
    def split_text(self, text):
        return text.splitlines(keepends=True)

url, key, count = sys.argv[1:]
retriever = RSERetriever(
    vectorstore=InMemoryVectorStore(DeterministicFakeEmbedding(size=4)),
    docstore=InMemoryStore(),
    text_splitter=Lines(),
    reranker=VoyageAIRerank(model="rerank-2.5", api_key=key, base_url=url + "/v1"),
    fetch_k=int(count),
    config=PRESETS["precision"].replace(
        rerank_weight=1.0, neighbor_weight=0.0, decay_rate=1e9
    ),
)
lines = [f"dog {number}" for number in range(int(count) - 2)]
text = "\\n".join([*lines, "quick red fox", "red and fox"]) + "\\n"
retriever.add_documents([Document(text)], ids=["a"])
for passages in (
    retriever.invoke("quick red fox"),
    asyncio.run(retriever.ainvoke("quick red fox")),
):
    print(json.dumps([[s.page_content, s.metadata["rse"]["chunks"]] for s in passages]))
print(repr(retriever), file=sys.stderr)
"""


@pytest.mark.nightly
def test_langchains_integration(tmp_path: Path) -> None:
    environment = Environment(tmp_path, "langchain-voyageai")
    with rerank_server() as server:
        result = environment.run("-c", PROGRAM, server.url, KEY, str(COUNT))
    assert result.returncode == 0, result.stderr
    assert KEY not in result.stdout + result.stderr
    assert server.keys == [f"Bearer {KEY}"] * 2
    assert [len(request["documents"]) for request in server.requests] == [COUNT] * 2
    sync, asynchronous = result.stdout.splitlines()
    assert asynchronous == sync
    ((text, (first, second)),) = json.loads(sync)
    assert text == "quick red fox\nred and fox\n"
    assert (first["rank"], first["score"], first["relevance"]) == (0, 1, 1)
    # Its own calibration, the incomplete beta function of 0.5 and 1.8.
    assert (second["rank"], second["score"]) == (1, pytest.approx(2 / 3, rel=1e-3))
    assert second["relevance"] == pytest.approx(betainc(0.5, 1.8, 2 / 3), rel=1e-3)
