"""RSECompressor: the segments of an RSERetriever, behind any retriever and in any pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
)
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import BaseDocumentCompressor, BaseDocumentTransformer, Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.stores import InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import ValidationError

from langchain_rse import (
    CandidateError,
    ExistingIndex,
    MissingRecordError,
    RSECompressor,
    RSERetriever,
    SQLDocStore,
    StoreMismatchError,
)
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, Way, lines, make_retriever, ranges

way = fakes.way
TEXTS = {"a": lines(0, 30, 90, 20, 85, 89, name="a"), "b": lines(88, 10, name="b")}


def by_vectors(source: RSERetriever, **search_kwargs: Any) -> Any:
    assert source.vectorstore is not None
    return source.vectorstore.as_retriever(search_kwargs={"k": 200, **search_kwargs})


def compressor(source: RSERetriever, **kwargs: Any) -> RSECompressor:
    return RSECompressor(
        docstore=source.docstore, **{"config": fakes.PLAIN, "candidates_only": False, **kwargs}
    )


def around(base: Any, *transformers: Any) -> ContextualCompressionRetriever:
    (one, *more) = transformers
    pipeline = DocumentCompressorPipeline(transformers=list(transformers))
    return ContextualCompressionRetriever(
        base_compressor=pipeline if more else one, base_retriever=base
    )


def compress(way: Way, one: RSECompressor, documents: Sequence[Document], **kwargs: Any) -> Any:
    return way.call(one.compress_documents, one.acompress_documents, documents, QUERY, **kwargs)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"k": 1},
    {"config": "balanced"},
    {"config": "dsrag-balanced", "max_context_length": None},
    {"irrelevant_chunk_penalty": 0.1, "segment_cost": 3.0},
    {"max_context_length": 20, "allow_trim": True},
    {"order": "relevance", "max_per_document": 1},
    {"queries": ["query 0", "query 90"], "combine_queries": "turns"},
    {"candidates_only": True, "fetch_k": 3},
]


@pytest.mark.parametrize("arguments", SETTINGS, ids=str)
def test_the_segments_are_those_of_a_retriever_around_it(
    way: Way, arguments: dict[str, Any]
) -> None:
    source = make_retriever(TEXTS)
    base = by_vectors(source)
    kwargs: dict[str, Any] = {"config": fakes.PLAIN, "candidates_only": False, **arguments}
    retriever = RSERetriever(base_retriever=base, docstore=source.docstore, **kwargs)
    if "queries" in arguments:  # a compressor sees the Documents of one search
        found = base.invoke(QUERY)
        retriever.base_retriever = fakes.FixedRetriever(documents=found)
    expected = way.invoke(retriever, QUERY)
    assert expected
    assert way.invoke(around(base, compressor(source, **arguments)), QUERY) == expected


@given(
    angles=st.lists(st.lists(st.integers(0, 90), min_size=1, max_size=8), min_size=1, max_size=3),
    k=st.integers(1, 30).filter(lambda k: k != 4),
    penalty=st.floats(0.0, 1.0),
)
@settings(max_examples=40, deadline=None)
def test_the_segments_are_the_same_for_any_texts(
    angles: list[list[int]], k: int, penalty: float
) -> None:
    texts = {f"d{n}": lines(*some, name=f"d{n}-") for n, some in enumerate(angles)}
    source = make_retriever(texts)
    base = fakes.FixedRetriever(documents=by_vectors(source, k=k).invoke(QUERY))
    kwargs: dict[str, Any] = {"irrelevant_chunk_penalty": penalty, "candidates_only": False}
    retriever = RSERetriever(base_retriever=base, docstore=source.docstore, **kwargs)
    if len(base.documents) != 4:
        one = RSECompressor(docstore=source.docstore, **kwargs)
        assert one.compress_documents(base.documents, QUERY) == retriever.invoke(QUERY)


class Reversed(BaseDocumentCompressor):
    """Ranks the other way round, with scores."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        del query, callbacks
        scores = [1 - n / len(documents) for n in range(len(documents))]
        return [
            document.model_copy(update={"metadata": {**document.metadata, "relevance_score": s}})
            for document, s in zip(reversed(documents), scores, strict=True)
        ]


class Shouting(BaseDocumentTransformer):
    def transform_documents(self, documents: Any, **_: Any) -> Any:
        return [Document(d.page_content.upper(), metadata=d.metadata) for d in documents]


def test_behind_a_reranker_and_before_what_works_on_passages(way: Way) -> None:
    source = make_retriever({"a": lines(0, 90, 90, 90, 89)})
    one = compressor(source, irrelevant_chunk_penalty=0.85)
    retriever = around(by_vectors(source), Reversed(), one, Shouting())
    (segment,) = way.invoke(retriever, "query 89")
    # The last in the order of the vectors is the first here, with a score of 1.
    assert segment.page_content == "C0 0\n"
    (chunk,) = segment.metadata["rse"]["chunks"]
    assert (chunk["rank"], chunk["score"]) == (0, 1.0)


def test_in_front_of_retrievers_that_unite(way: Way) -> None:
    source = make_retriever(TEXTS)
    model = FakeListChatModel(responses=["q 0\nq 85"] * 4)
    multi = MultiQueryRetriever.from_llm(by_vectors(source), model)
    found = way.invoke(around(multi, compressor(source)), QUERY)
    assert {s.metadata["doc_id"] for s in found} == {"a", "b"}
    one = around(by_vectors(source, k=3), compressor(source))
    both = EnsembleRetriever(retrievers=[one, one], weights=[0.5, 0.5], id_key="chunk_id")
    assert len(found := way.invoke(one, QUERY)) > 1
    assert ranges(way.invoke(both, QUERY)) == ranges(found)


def test_segments_can_be_compressed_further(way: Way) -> None:
    source = make_retriever(TEXTS)
    retriever = around(source, Shouting(), Reversed())
    segments = way.invoke(source, QUERY, k=2)
    found = way.invoke(retriever, QUERY, k=2)  # a call's arguments reach the inner retriever
    assert [s.page_content for s in found] == [s.page_content.upper() for s in segments[::-1]]


def test_nothing_in_nothing_out(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    one = compressor(make_retriever(TEXTS))
    with caplog.at_level("INFO", logger="langchain_rse"):
        assert compress(way, one, []) == []
    assert "RetrieverBeforeCompressor found nothing" in caplog.text
    source = make_retriever(TEXTS)
    base = fakes.FixedRetriever(documents=list(source.chunks()))
    assert way.invoke(around(base, compressor(source)), "  ") == []


# What it cannot know


def test_without_candidates_only_segments_hold_what_was_found_and_say_so(way: Way) -> None:
    source = make_retriever({"a": lines(0, 90, 10)})
    documents = by_vectors(source, k=2).invoke(QUERY)
    generous: dict[str, Any] = {"irrelevant_chunk_penalty": 0.1, "segment_cost": 3.0}
    filled = compress(way, compressor(source, **generous), documents)
    assert ranges(filled) == [("a", 0, 3)]
    with pytest.warns(UserWarning, match=r"RetrieverBeforeCompressor may.*candidates_only=False"):
        found = compress(way, compressor(source, candidates_only=None, **generous), documents)
    assert ranges(found) == [("a", 0, 1), ("a", 2, 3)]


def test_a_filter_that_the_retriever_had_holds_for_whole_segments(way: Way) -> None:
    source = make_retriever({})
    parts = [Document(f"c{n} {n}\n", metadata={"lang": "de" if n == 1 else "en"}) for n in range(3)]
    source.add_documents(parts, ids=["a"] * 3)
    documents = [chunk for chunk in source.chunks() if chunk.metadata["lang"] == "en"]
    told = compressor(source, search_kwargs={"filter": {"lang": "en"}}, config=fakes.EVERYTHING)
    assert ranges(compress(way, told, documents)) == [("a", 0, 1), ("a", 2, 3)]
    with pytest.raises(ValueError, match="returned what the filter excludes: lang='de'"):
        compress(way, told, list(source.chunks()))


def test_as_few_as_langchains_default_are_a_warning(way: Way) -> None:
    source = make_retriever(TEXTS)
    documents = by_vectors(source).invoke(QUERY)
    with pytest.warns(UserWarning, match=r"given 4 Documents.*'k': 200"):
        compress(way, compressor(source), documents[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compress(way, compressor(source), documents[:3])
        compress(way, compressor(source, fetch_k=4), documents[:4])


# Bad input


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"fetch_k": 0}, "fetch_k"),
        ({"penalty": 0.2}, "penalty"),
        ({"docstore": "a.db"}, "docstore must be a LangChain BaseStore"),
        ({"hybrid": 0.5}, "hybrid=0.5 needs vectorstore"),
        ({"config": "no"}, "config"),
    ],
)
def test_bad_fields_are_errors_at_construction(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        RSECompressor(**{"docstore": InMemoryStore(), **fields})


def test_chunks_of_others_and_segments_are_refused(way: Way) -> None:
    source = make_retriever(TEXTS)
    one = compressor(source)
    with pytest.raises(CandidateError, match="doc_id=None"):
        compress(way, one, [Document("x")])
    with pytest.raises(CandidateError, match="is a segment, not a chunk"):
        way.invoke(around(source, one), QUERY)
    with pytest.raises(MissingRecordError, match="no documents"):
        compress(way, compressor(make_retriever({})), list(source.chunks()))


def test_documents_that_are_given_stay_as_they_were(way: Way) -> None:
    source = make_retriever(TEXTS)
    documents = list(source.chunks())
    before = [document.model_copy(deep=True) for document in documents]
    assert compress(way, compressor(source), documents)
    assert documents == before


# Stores


def test_a_byte_store_and_a_namespace(way: Way) -> None:
    docstore = InMemoryByteStore()
    store = InMemoryVectorStore(fakes.Angles())
    named = make_retriever(TEXTS, vectorstore=store, docstore=docstore, namespace="x")
    one = RSECompressor(docstore=docstore, namespace="x", config=fakes.PLAIN, candidates_only=False)
    assert ranges(compress(way, one, list(named.chunks())))
    other = RSECompressor(docstore=docstore, config=fakes.PLAIN, candidates_only=False)
    with pytest.raises(StoreMismatchError, match="namespace"):
        compress(way, other, list(named.chunks()))


def test_chunks_of_an_adopted_index(way: Way) -> None:
    store, docstore = InMemoryVectorStore(fakes.Angles()), SQLDocStore("sqlite://")
    chunks = [Document(f"c{n} {n}", metadata={"source": "a", "n": n}) for n in range(5)]
    store.add_documents(chunks)
    RSERetriever.from_existing_index(
        store, docstore, ExistingIndex(doc_id_key="source", chunk_index_key="n")
    )
    base = store.as_retriever(search_kwargs={"k": 50})
    one = RSECompressor(docstore=docstore, candidates_only=False)
    expected = way.invoke(RSERetriever(base_retriever=base, docstore=docstore), QUERY)
    assert expected
    assert way.invoke(around(base, one), QUERY) == expected


def test_a_document_that_was_replaced_since_it_was_found_is_left_out(way: Way) -> None:
    source = make_retriever(TEXTS)
    documents = by_vectors(source).invoke(QUERY)
    source.add_documents([Document(lines(0, name="new"))], ids=["a"])
    assert {name for name, _, _ in ranges(compress(way, compressor(source), documents))} == {"b"}


# Callbacks


class Chains(BaseCallbackHandler):
    def __init__(self) -> None:
        self.parents: dict[str, str | None] = {}

    def on_chain_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **kw: Any) -> None:
        del run_id
        self.parents[kw.get("name") or ""] = parent_run_id and str(parent_run_id)

    def on_retriever_start(self, *_: Any, run_id: Any, **kw: Any) -> None:
        self.parents.setdefault(f"retriever {kw.get('name')}", str(run_id))


def test_callbacks_reach_what_makes_queries(way: Way) -> None:
    source = make_retriever(TEXTS)
    make: Callable[[str], list[str]] = lambda _: [QUERY]  # noqa: E731
    asking: Runnable[str, list[str]] = RunnableLambda(make, name="asking")
    runs = Chains()
    retriever = around(by_vectors(source), compressor(source, query_generator=asking))
    assert way.invoke(retriever, QUERY, {"callbacks": [runs]})
    outer = runs.parents["retriever ContextualCompressionRetriever"]
    assert runs.parents["asking"] == outer
