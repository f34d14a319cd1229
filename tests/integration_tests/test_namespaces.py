"""Namespaces on real stores: nobody's chunks are found elsewhere, nor crowd anybody's out.

With SOAK=n in the environment, there are more of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.errors import StoreMismatchError
from langchain_rse.stores.namespaces import namespace_digest
from tests.integration_tests.vectorstores import CASES, Case, Place, announced, params
from tests.soaking import SOAK
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

A, B = "acme", 'Åcme\'s "other" tenant -- \\'
NAMES = (
    *("InMemoryVectorStore", "Chroma disk cosine", "Chroma server cosine"),
    *("Qdrant disk cosine", "Milvus cosine", "PGVector cosine", "PGVectorStore cosine"),
)
MANY = 300 if SOAK == 1 else 1_000
_numbers = itertools.count()


@pytest.fixture(params=params(case for case in CASES if case.name in NAMES))
def case(request: pytest.FixtureRequest) -> Case:
    return cast("Case", request.param)


@pytest.fixture
def vectorstore(
    case: Case, way: Way, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[VectorStore]:
    def server(name: str) -> str:
        return str(request.getfixturevalue(f"{name}_url"))

    with case.open(Place(tmp_path, fakes.CountingModel(), way.is_async, server)) as store:
        yield store


@pytest.fixture
def docstore(
    case: Case, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[BaseStore[str, Document]]:
    url = f"sqlite:///{tmp_path}/chunks.db"
    if case.name.startswith("PG"):
        url = request.getfixturevalue("postgres_url")
    store = SQLDocStore(url, table_name=f"namespaces_{next(_numbers)}", lexical=True)
    yield store
    store.close()


def document(doc_id: str, *lines: str, **metadata: Any) -> Document:
    return Document("".join(f"{line}\n" for line in lines), id=doc_id, metadata=metadata)


@fakes.both_ways
def test_tenants_share_stores(
    way: Way, case: Case, vectorstore: VectorStore, docstore: BaseStore[str, Document]
) -> None:
    """Chunks of another tenant that match better are there, in numbers, before and after."""

    def opened(namespace: str, **fields: Any) -> RSERetriever:
        return RSERetriever(
            vectorstore=vectorstore,
            docstore=docstore,
            namespace=namespace,
            text_splitter=fakes.Lines(),
            fetch_k=10,
            **fields,
        )

    def ask(retriever: RSERetriever, **arguments: Any) -> list[str]:
        found = way.invoke(retriever, "harbor pilot", **announced(arguments))
        return [one.page_content for one in found]

    a, b = opened(A), opened(B)
    same = document("d", "the harbor pilot came", "and left the ship", year=1)
    way.add(a, [document("many", *(f"harbor pilot {n}" for n in range(MANY))), same])
    way.add(b, [same, document("e", "an orchestra", year=2)])
    whole = same.page_content
    assert ask(b, k=1) == [whole]
    filtered = case.filtered("year", 1)
    assert ask(b, search_kwargs=filtered) == [whole]
    assert ask(b, search_kwargs=case.filtered("year", 3)) == []
    # A user's filter cannot widen.
    assert ask(b, search_kwargs=case.filtered("rse_namespace", namespace_digest(A))) == []
    if case.name.startswith(("Chroma", "PG")):
        by_words = opened(B, hybrid=0.9)
        assert ask(by_words, k=1) == [whole]
        assert ask(by_words, filter={"year": 1}) == [whole]
        assert ask(by_words, filter={"year": 3}) == []

    # Replacing and deleting in one leaves the other as it is.
    way.add(a, [document("d", "of the harbor pilot nothing is left", year=1)])
    way.add(b, [document("e", "nor an orchestra")], append=True)
    assert ask(b, k=1) == [whole]
    assert way.delete(a, ["d", "many", "e"]) == ["d", "many"]
    assert ask(a) == []
    assert ask(b, k=1) == [whole]
    assert {c.metadata["doc_id"] for c in b.indexer.chunks()} == {"d", "e"}
    with pytest.raises(StoreMismatchError):
        ask(opened(""))
    assert way.delete(b, ["d", "e"]) == ["d", "e"]
    left = {key.rpartition("-")[2] for key in docstore.yield_keys()}
    assert left == {"namespaces", "vectorstore"}
