"""What a user of the retriever relies on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.config import PRESETS, Greedy
from langchain_rse.stores.records import chunk_key, document_key, manifest_key
from tests.unit_tests import fakes
from tests.unit_tests.fakes import (
    QUERY,
    Angles,
    FixedRetriever,
    Way,
    ask,
    chunks_in,
    lines,
    make_retriever,
    ranges,
    wrap,
)

way = fakes.way

GREEDY = PRESETS["walkthrough"].replace(
    calibration="identity",
    decay_rate=1e9,
    irrelevant_chunk_penalty=0.5,
    solver=Greedy(max_length=5, overall_max_length=100, minimum_value=0.0, length_weighting="none"),
    top_k_for_document_selection=None,
)


class CountingStore(InMemoryStore):
    """Counts reads, and can do something between them."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.before_read: Callable[[int], None] = lambda _: None

    def mget(self, keys: Sequence[str]) -> list[Any]:
        self.reads += 1
        self.before_read(self.reads)
        return super().mget(keys)


class Scoreless(InMemoryVectorStore):
    """A store that cannot give scores."""

    def similarity_search_with_score(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def asimilarity_search_with_score(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        found = super().similarity_search_with_score(query, k, **kwargs)
        return [document for document, _ in found]

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return self.similarity_search(query, k, **kwargs)


# What comes back


@fakes.both_ways
def test_passages_by_hand(way: Way) -> None:
    # Cosines < 0, 1, 0.5, 0.94, < 0; less a penalty of 0.45: < 0, 0.55, 0.05, 0.49, < 0.
    text = lines(100, 0, 60, 20, 100)
    retriever = make_retriever({"a": text})
    (passage,) = way.invoke(retriever, QUERY, irrelevant_chunk_penalty=0.45)
    assert passage.page_content == "c1 0\nc2 60\nc3 20\n"
    assert passage.metadata["start_index"] == text.index("c1")
    assert passage.metadata["end_index"] == text.index("c4")
    cosine = math.cos(math.radians(20))
    # Each weighs its length over the mean length of the relevant ones.
    worth = 5 * 0.55 + 6 * 0.05 + 6 * (cosine - 0.45)
    assert passage.metadata["relevance_score"] == pytest.approx(worth / (17 / 3))
    assert passage.metadata["doc_id"] == passage.metadata["source"] == "a"
    chunks = passage.metadata["rse"]["chunks"]
    assert [chunk["index"] for chunk in chunks] == [1, 2, 3]
    assert [chunk["length"] for chunk in chunks] == [5, 6, 6]
    assert [chunk["rank"] for chunk in chunks] == [0, 2, 1]
    for name in ("score", "relevance"):  # rounded
        assert [chunk[name] for chunk in chunks] == [1, 0.5, round(cosine, 4)]


def test_a_chunk_between_candidates_is_filled_in() -> None:
    retriever = make_retriever({"a": lines(0, 95, 0)}, fetch_k=2, passage_cost=2.0)
    (passage,) = ask(retriever, irrelevant_chunk_penalty=0.3)
    assert passage.page_content == lines(0, 95, 0)
    assert passage.metadata["rse"]["chunks"][1] == {
        "index": 1,
        "length": 6,
        "filled": True,
        "credited": 0.0,
        "value": pytest.approx(-0.3 * 6 / 5),
    }


def test_metadata_and_id_survive_json_and_repeat() -> None:
    retriever = make_retriever({"a": lines(0, 10, 90)})
    first = ask(retriever)
    assert ask(retriever) == first
    assert json.loads(json.dumps(first[0].metadata)) == first[0].metadata
    assert first[0].id == first[0].metadata["chunk_id"]
    retriever.add_documents([Document(lines(0, 10, 80), metadata={"source": "a"})])
    assert ask(retriever)[0].id != first[0].id


@pytest.mark.parametrize("query", ["", "  \n"])
def test_an_empty_query_finds_nothing(query: str) -> None:
    trace = make_retriever({"a": lines(0)}).explain(query)
    assert not trace.documents_returned
    assert trace.reason


# Wrong arguments


def test_a_missing_docstore_is_explained() -> None:
    retriever: Any = RSERetriever
    with pytest.raises(ValueError, match=r"from_documents.*from_existing_index.*docstore="):
        retriever(vectorstore=InMemoryVectorStore(Angles()))
    with pytest.raises(ValueError, match="did you mean docstore"):
        retriever(vectorstore=InMemoryVectorStore(Angles()), doc_store=InMemoryStore())


# Candidates from any store or retriever


@fakes.both_ways
def test_a_store_without_scores_goes_by_rank(way: Way) -> None:
    retriever = make_retriever(
        {"a": lines(90, 0, 60, 0, 90)}, vectorstore=Scoreless(Angles()), decay_rate=2.0
    )
    chunks = chunks_in(way.invoke(retriever, QUERY, irrelevant_chunk_penalty=0.2))
    assert chunks["a", 1]["score"] is None
    assert chunks["a", 2]["relevance"] == pytest.approx(0.8 * math.exp(-2 / 2), abs=1e-4)


@pytest.mark.parametrize("name", ["relevance_score", "score"])
@fakes.both_ways
def test_a_wrapped_retriever(way: Way, name: str) -> None:
    source = make_retriever({"a": lines(90, 0, 55, 20, 90)})
    assert source.vectorstore is not None
    found = []
    for document, score in source.vectorstore.similarity_search_with_score(QUERY, k=5):
        metadata = {**document.metadata, name: score}
        found.append(document.model_copy(update={"metadata": metadata}))
    retriever = wrap(source, found)
    passages = way.invoke(retriever, QUERY)
    if name == "score":  # maybe a distance: ranks alone, all candidates at 0.8
        assert ranges(passages) == [("a", 0, 5)]
    else:
        assert passages == way.invoke(source, QUERY)
        assert ranges(passages) == [("a", 1, 4)]
    assert ranges(way.invoke(retriever, QUERY, fetch_k=1)) == [("a", 1, 2)]


# Rerankers


class Reranker(BaseDocumentCompressor):
    """Puts documents in the order of their names, and drops those named "x"."""

    scores: list[float]

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        del query, callbacks
        named = [document for document in documents if not document.page_content.startswith("x")]
        kept = sorted(named, key=lambda document: document.page_content)
        # Copies without an id, as real compressors return them.
        return [
            Document(document.page_content, metadata={**document.metadata, "relevance_score": s})
            for document, s in zip(kept, self.scores, strict=False)
        ]


@fakes.both_ways
def test_a_reranker_decides_the_order_and_what_it_drops_may_fill_a_gap(way: Way) -> None:
    texts = {"a": "b 0\nx 0\na 40\n", "c": "x 0\n"}
    retriever = make_retriever(texts, reranker=Reranker(scores=[0.9, 0.7]), passage_cost=2.0)
    (passage,) = way.invoke(retriever, QUERY, irrelevant_chunk_penalty=0.1)
    chunks = passage.metadata["rse"]["chunks"]
    assert ranges([passage]) == [("a", 0, 3)]
    assert [chunk.get("rank") for chunk in chunks] == [1, None, 0]
    assert [chunk.get("score") for chunk in chunks] == [0.7, None, 0.9]
    assert chunks[1]["filled"] is True


# The docstore


def test_two_reads_however_many_passages() -> None:
    store = CountingStore()
    texts = {f"d{n}": lines(*[0, 90, 90, 90, 90, 90] * 20, name=f"n{n}-") for n in range(9)}
    retriever = make_retriever(texts, docstore=store)
    store.reads = 0
    assert len(ask(retriever)) > 50
    assert store.reads == 2


def lose(retriever: RSERetriever, doc_id: str, *chunks: int) -> None:
    """Delete chunks behind the retriever's back."""
    key = document_key(doc_id)
    (manifest,) = retriever.docstore.mget([manifest_key(key)])
    assert manifest is not None
    version = manifest.metadata["current"][0]
    retriever.docstore.mdelete([chunk_key(key, version, chunk) for chunk in chunks])


def test_a_document_with_a_lost_chunk_is_left_out_with_a_warning() -> None:
    retriever = make_retriever({"a": lines(0, 0, 95), "b": lines(1, name="b")})
    lose(retriever, "a", 1)
    with pytest.warns(UserWarning, match=r"'a' are corrupt: add them again.*chunk 1 of") as caught:
        passages = ask(retriever)
    assert len(caught) == 1
    assert ranges(passages) == [("b", 0, 1)]


@pytest.mark.parametrize("times", [1, 99])
@fakes.both_ways
def test_a_document_replaced_while_it_is_read(way: Way, times: int) -> None:
    store = CountingStore()
    retriever = make_retriever(
        {"a": lines(0, 0, name="v"), "b": lines(9, name="b")}, docstore=store
    )
    replaced = 0

    def replace(reads: int) -> None:
        nonlocal replaced
        if reads % 2 == 0 and replaced < times:
            replaced += 1
            store.before_read = lambda _: None
            text = lines(*[0] * (replaced + 2), name=f"w{replaced}-")
            retriever.add_documents([Document(text, metadata={"source": "a"})])
            store.reads, store.before_read = 0, replace

    store.reads, store.before_read = 0, replace
    if times == 1:
        first, second = way.invoke(retriever, QUERY)
        assert first.page_content == lines(0, 0, 0, name="w1-")
    else:
        with pytest.warns(UserWarning, match="'a' were replaced"):
            (second,) = way.invoke(retriever, QUERY)
    assert second.page_content == lines(9, name="b")


def test_errors_say_during_which_step_they_came_up() -> None:
    class Failing(InMemoryVectorStore):
        def similarity_search_with_score(self, *_: Any, **__: Any) -> Any:
            raise ConnectionError("no route")

    retriever = RSERetriever(vectorstore=Failing(Angles()), docstore=InMemoryStore())
    with pytest.raises(ConnectionError, match="no route") as raised:
        retriever.invoke(QUERY)
    assert "searching Failing" in "".join(raised.value.__notes__)


# In LangChain


class Runs(BaseCallbackHandler):
    def __init__(self) -> None:
        self.starts: list[tuple[str, Any, Any]] = []

    def on_retriever_start(
        self, serialized: Any, query: str, *, run_id: Any, parent_run_id: Any = None, **kw: Any
    ) -> None:
        del serialized, query
        self.starts.append((kw.get("name", ""), run_id, parent_run_id))


@fakes.both_ways
def test_children_are_traced(way: Way) -> None:
    runs = Runs()
    retriever = RSERetriever(base_retriever=FixedRetriever(documents=[]), docstore=InMemoryStore())
    way.invoke(retriever, QUERY, {"callbacks": [runs]})
    (parent, child) = runs.starts
    assert (parent[0], child[0]) == ("RSERetriever", "FixedRetriever")
    assert child[2] == parent[1]
