"""Wrapped retrievers: filters hold or raise, and few candidates do not go unnoticed."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MergerRetriever,
    MultiQueryRetriever,
)
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import Field

from langchain_rse import ExistingIndex, RSERetriever
from langchain_rse.errors import CandidateError
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, FixedRetriever, Way, lines, make_retriever, ranges

way = fakes.way


class Plain(BaseRetriever):
    """Takes nothing but the query, as BM25Retriever."""

    documents: list[Document] = Field(default_factory=list)

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        del query, run_manager
        return self.documents


class Asking(Plain):
    """Only its async method takes more, which LangChain does not look at."""

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: Any, **_: Any
    ) -> list[Document]:
        return self._get_relevant_documents(query, run_manager=run_manager)


class InLanguage(BaseRetriever):
    """Takes one argument by its name."""

    documents: list[Document]

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, lang: str | None = None
    ) -> list[Document]:
        del query, run_manager
        return [d for d in self.documents if lang in (None, d.metadata["lang"])]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: Any, lang: str | None = None
    ) -> list[Document]:
        return self._get_relevant_documents(query, run_manager=run_manager, lang=lang)


class All(BaseDocumentCompressor):
    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        del query, callbacks
        return list(documents)


def chunks_of(source: RSERetriever) -> list[Document]:
    return list(source.chunks())


def wrapped(source: RSERetriever, base: Any, **kwargs: Any) -> RSERetriever:
    return RSERetriever(
        base_retriever=base,
        docstore=source.docstore,
        **{"config": fakes.PLAIN, "candidates_only": False, **kwargs},
    )


def owned(**owners: str) -> RSERetriever:
    """An index of documents of one chunk each, with their owners."""
    source = make_retriever({})
    source.add_documents(
        [
            Document(f"{name} {number}\n", metadata={"source": name, "owner": owner, "n": number})
            for number, (name, owner) in enumerate(owners.items())
        ]
    )
    return source


# Arguments that are not taken


REFUSED = [{"filter": {"a": 1}}, {"filter": {"a": {"$gt": 1}}}, {"filter": len}, {"where": "a = 1"}]


@pytest.mark.parametrize("search_kwargs", REFUSED, ids=str)
@pytest.mark.parametrize("kind", [Plain, Asking])
def test_an_argument_that_would_be_dropped_is_an_error(
    way: Way, kind: type[Plain], search_kwargs: dict[str, Any]
) -> None:
    (name,) = search_kwargs
    said = rf"{kind.__name__} takes no search argument '{name}'.*candidates_only=True.*vectorstore"
    retriever = RSERetriever(base_retriever=kind(), docstore=InMemoryStore())
    with pytest.raises(ValueError, match=said):
        RSERetriever(base_retriever=kind(), docstore=InMemoryStore(), search_kwargs=search_kwargs)
    with pytest.raises(ValueError, match=said):
        way.invoke(retriever, QUERY, search_kwargs=search_kwargs)
    if name == "filter":
        with pytest.raises(ValueError, match=said):
            way.invoke(retriever, QUERY, **search_kwargs)


def test_what_excludes_nothing_is_no_error(way: Way) -> None:
    retriever = RSERetriever(
        base_retriever=Plain(), docstore=InMemoryStore(), search_kwargs={"filter": None}
    )
    assert way.invoke(retriever, QUERY) == []
    assert way.invoke(retriever, QUERY, filter={}) == []


def test_a_retriever_that_takes_some_names(way: Way) -> None:
    source = make_retriever({})
    source.add_documents(
        [Document(f"{lang} 0\n", metadata={"source": lang, "lang": lang}) for lang in ("en", "de")]
    )
    retriever = wrapped(source, InLanguage(documents=chunks_of(source)))
    found = way.invoke(retriever, QUERY, search_kwargs={"lang": "de"}, candidates_only=True)
    assert ranges(found) == [("de", 0, 1)]
    with pytest.raises(ValueError, match="InLanguage takes no search argument 'filter'"):
        way.invoke(retriever, QUERY, filter={"lang": "de"})


@pytest.mark.parametrize(
    ("around", "refusing"),
    [
        (lambda inner: EnsembleRetriever(retrievers=[inner], weights=[1.0]), "EnsembleRetriever"),
        (lambda inner: MergerRetriever(retrievers=[inner]), "MergerRetriever"),
        (
            lambda inner: MultiQueryRetriever.from_llm(
                inner, FakeListChatModel(responses=["a question"])
            ),
            "MultiQueryRetriever",
        ),
        # It passes on what it is given.
        (
            lambda inner: ContextualCompressionRetriever(
                base_compressor=All(), base_retriever=inner
            ),
            "Plain",
        ),
    ],
    ids=["ensemble", "merger", "multi query", "compression"],
)
def test_retrievers_around_others(way: Way, around: Any, refusing: str) -> None:
    retriever = RSERetriever(base_retriever=around(Plain()), docstore=InMemoryStore())
    with pytest.raises(ValueError, match=f"{refusing} takes no search argument 'filter'"):
        way.invoke(retriever, QUERY, filter=len)


def test_compression_over_a_store_passes_filters_on(way: Way) -> None:
    source = owned(a="x", b="y")
    base = ContextualCompressionRetriever(
        base_compressor=All(), base_retriever=by_vectors(source, search_kwargs={"k": 50})
    )
    found = way.invoke(
        wrapped(source, base),
        QUERY,
        filter=lambda document: document.metadata["owner"] == "y",
        candidates_only=True,
    )
    assert ranges(found) == [("b", 0, 1)]


# Filters that did not hold


@pytest.mark.parametrize(
    "filter_",
    [
        {"owner": "x"},
        {"owner": {"$eq": "x"}},
        {"owner": ["x", "z"]},
        {"$and": [{"owner": "x"}, {"n": {"$gt": 0}}]},
        {"owner": "x", "n": {"$gte": 0}},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["retriever", "runnable", "store"])
def test_a_filter_that_did_not_hold_is_an_error(way: Way, kind: str, filter_: Any) -> None:
    class Deaf(InMemoryVectorStore):
        def similarity_search_with_score(self, query: str, k: int = 4, **_: Any) -> Any:
            return super().similarity_search_with_score(query, k)

        async def asimilarity_search_with_score(self, query: str, k: int = 4, **_: Any) -> Any:
            return self.similarity_search_with_score(query, k)

    source = owned(a="x", b="secret")
    chunks = chunks_of(source)
    if kind == "store":
        assert isinstance(source.vectorstore, InMemoryVectorStore)
        deaf = Deaf(fakes.Angles())
        deaf.store = source.vectorstore.store
        retriever = source.model_copy(update={"vectorstore": deaf})
        name = "Deaf"
    elif kind == "retriever":
        retriever = wrapped(source, FixedRetriever(documents=chunks))
        name = "FixedRetriever"
    else:
        retriever = wrapped(source, RunnableLambda(lambda _, **__: chunks))
        name = "RunnableLambda"
    with pytest.raises(ValueError, match=rf"{name} returned .* owner='secret' instead of 'x'.*'b "):
        way.invoke(retriever, QUERY, filter=filter_)


@pytest.mark.parametrize(
    "filter_",
    [
        len,
        "owner = 'x'",
        ["owner"],
        {"n": {"$gt": 5}},
        {"owner": {"$in": ["x"]}},
        {"$or": [{"owner": "x"}]},
        {"$not": {"owner": "x"}},
        {"owner": None},
        {"owner": {"name": "x"}},
        {"by.name": "x"},
        {"owner NOT": "x"},
        {3: "x"},
        {"$and": "owner"},
    ],
    ids=["function", *map(str, range(12))],
)
def test_what_a_filter_means_otherwise_is_for_the_retriever_to_know(way: Way, filter_: Any) -> None:
    source = owned(a="secret")
    base = FixedRetriever(documents=chunks_of(source))
    retriever = wrapped(source, base, candidates_only=True)
    assert ranges(way.invoke(retriever, QUERY, filter=filter_)) == [("a", 0, 1)]
    assert base.asked == [{"filter": filter_}]


KEPT: list[tuple[Any, Any]] = [
    *itertools.product(("3", 3, 3.0), ("3", 3, 3.0)),
    (True, True),
    ("true", True),
    (1, True),
    (["x", "y"], "y"),
    ("y", ["x", "y"]),
    (0.1 + 1e-9, 0.1),
]
OTHER: list[tuple[Any, Any]] = [
    (3, 4),
    ("x", "y"),
    (None, "x"),
    (None, "None"),
    (True, False),
    (["x"], "y"),
    ([], "y"),
    ("x", []),
    ("z", ["x", "y"]),
    ("x", 3),
    (1.1, 1),
]


@pytest.mark.parametrize(("found", "wanted"), KEPT, ids=str)
def test_values_may_come_back_as_a_store_keeps_them(way: Way, found: Any, wanted: Any) -> None:
    assert ranges(filtered(way, {"tag": found}, wanted)) == [("a", 0, 1)]


@pytest.mark.parametrize(("found", "wanted"), OTHER, ids=str)
def test_other_values_do_not_pass(way: Way, found: Any, wanted: Any) -> None:
    with pytest.raises(ValueError, match="returned what the filter excludes: tag="):
        filtered(way, {"tag": found}, wanted)


def test_a_missing_field_does_not_pass(way: Way) -> None:
    with pytest.raises(ValueError, match="tag=None instead of 'x'"):
        filtered(way, {}, "x")


def filtered(way: Way, metadata: Mapping[str, Any], wanted: Any) -> list[Document]:
    source = owned(a="x")
    (chunk,) = chunks_of(source)
    chunk.metadata |= metadata
    base = FixedRetriever(documents=[chunk])
    found: list[Document] = way.invoke(wrapped(source, base), QUERY, filter={"tag": wanted})
    return found


def test_a_field_of_an_adopted_store_may_have_a_name_of_ours(way: Way) -> None:
    """Its values are compared, not what they are taken for."""
    store = InMemoryVectorStore(fakes.Angles())
    chunk = {"doc_id": "theirs", "source": "a", "number": 0}
    store.add_documents([Document("a 0", metadata=chunk)])
    retriever = RSERetriever.from_existing_index(
        store, InMemoryStore(), ExistingIndex(doc_id_key="source", chunk_index_key="number")
    )
    other = wrapped(retriever, FixedRetriever(documents=store.similarity_search(QUERY)))
    (found,) = way.invoke(other, QUERY, filter={"doc_id": "theirs"})
    assert found.metadata["doc_id"] == "a"


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)), st.data())
def test_what_the_filter_excludes_never_comes_back(filter_: dict[str, int], data: Any) -> None:
    """From a retriever that filters by some of the fields only."""
    source = make_retriever({})
    tags = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2))
    source.add_documents(
        [
            Document(f"{number} 0\n", metadata={"source": str(number), **data.draw(tags)})
            for number in range(3)
        ]
    )
    known = data.draw(st.sets(st.sampled_from("abc")))

    def matches(document: Document, names: Any) -> bool:
        return all(document.metadata.get(n) == v for n, v in filter_.items() if n in names)

    some = [chunk for chunk in chunks_of(source) if matches(chunk, known)]
    retriever = wrapped(source, FixedRetriever(documents=some))
    if all(matches(chunk, "abc") for chunk in some):
        assert len(retriever.invoke(QUERY, filter=filter_)) == len(some)
    else:
        with pytest.raises(ValueError, match="the filter excludes"):
            retriever.invoke(QUERY, filter=filter_)


# Filters inside of wrapped retrievers, which nobody tells RSERetriever of


def paged() -> RSERetriever:
    """A document of ten lines, each a page of its own; every other page is secret."""
    source = make_retriever({})
    source.add_documents(
        [
            Document(f"line {page}", metadata={"source": "a", "page": page, "year": 2024})
            for page in range(10)
        ]
    )
    return source


def is_one_page(segment: Document) -> bool:
    return bool(segment.metadata["page_start"] == segment.metadata["page_end"])


def even(document: Document) -> bool:
    return bool(document.metadata["page"] % 2 == 0)


class Filtering(InMemoryVectorStore):
    """Takes filters as dicts of the values that fields have, or may have."""

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        wanted = kwargs.get("filter") or {}

        def passes(found: Document) -> bool:
            return all(
                found.metadata.get(name) in (value if isinstance(value, list) else [value])
                for name, value in wanted.items()
            )

        return super().similarity_search(query, k, filter=passes)

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return self.similarity_search(query, k, **kwargs)


AROUND: dict[str, Any] = {
    "alone": lambda inner: inner,
    "bound": lambda inner: inner.with_config(tags=["x"]),
    "retried": lambda inner: inner.with_retry(),
    "ensemble": lambda inner: EnsembleRetriever(retrievers=[inner, inner], weights=[0.5, 0.5]),
    "merger": lambda inner: MergerRetriever(retrievers=[inner]),
    "multi query": lambda inner: MultiQueryRetriever.from_llm(
        inner, FakeListChatModel(responses=[QUERY] * 9)
    ),
    "compression": lambda inner: ContextualCompressionRetriever(
        base_compressor=FlashrankRerank(), base_retriever=inner
    ),
    "pipeline in an ensemble": lambda inner: EnsembleRetriever(
        retrievers=[
            ContextualCompressionRetriever(
                base_compressor=DocumentCompressorPipeline(transformers=[FlashrankRerank()]),
                base_retriever=inner,
            )
        ],
        weights=[1.0],
    ),
}


@pytest.mark.parametrize("around", AROUND)
def test_a_filter_inside_holds_for_whole_segments(way: Way, around: str) -> None:
    source = paged()
    store = Filtering(fakes.Angles())
    store.store = source.vectorstore.store  # type: ignore[union-attr]
    config = fakes.PLAIN.replace(
        neighbor_credit=1.0, neighbor_radius=2, irrelevant_chunk_penalty=0.01
    )

    def pages(k: int = 20, **arguments: Any) -> set[tuple[int, int]]:
        inner = store.as_retriever(search_kwargs={"k": k, **arguments})
        retriever = RSERetriever(
            base_retriever=AROUND[around](inner),
            docstore=source.docstore,
            config=config,
            fetch_k=k,
        )
        found = way.invoke(retriever, QUERY)
        return {(s.metadata["page_start"], s.metadata["page_end"]) for s in found}

    assert pages(filter={"page": [0, 2, 4, 6]}) == {(n, n) for n in (0, 2, 4, 6)}
    # What holds for the whole document excludes none of its chunks.
    ((start, end),) = pages(k=2)
    assert end - start > 1
    assert pages(k=2, filter={"year": 2024}) == {(start, end)}


def test_a_filter_inside_cannot_be_told_away(way: Way) -> None:
    source = paged()
    base = by_vectors(source, search_kwargs={"k": 20, "filter": even})
    config = fakes.PLAIN.replace(segment_cost=5.0, irrelevant_chunk_penalty=0.01)
    retriever = wrapped(source, base, candidates_only=False, config=config)
    with pytest.warns(UserWarning, match="^the search argument filter=.* is not a dict"):
        found = way.invoke(retriever, QUERY)
    assert {segment.metadata["page_start"] for segment in found} == {0, 2, 4, 6, 8}
    assert all(map(is_one_page, found))


@pytest.mark.parametrize("given", [{"year": 2024}, None, {}])
def test_a_filter_inside_is_not_replaced(way: Way, given: Any) -> None:
    """LangChain would search with the filter of the call alone."""
    source = paged()
    inner = by_vectors(source, search_kwargs={"k": 20, "filter": even})
    compression = ContextualCompressionRetriever(
        base_compressor=FlashrankRerank(), base_retriever=inner
    )
    for base in (inner, inner.with_config(tags=["a"]), compression):
        retriever = wrapped(source, base, candidates_only=True)
        assert way.invoke(retriever, QUERY, search_kwargs={"filter": even})
        with pytest.raises(ValueError, match="would replace that of the wrapped retriever"):
            way.invoke(retriever, QUERY, search_kwargs={"filter": given})


class FlashrankRerank(All):
    """Known by the name of its class."""


class SelfQueryRetriever(Plain):
    """Filters, as a language model says."""


class Rights(All):
    """Drops what the user may not see."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        del query, callbacks
        return [document for document in documents if even(document)]


UNKNOWN: dict[str, Any] = {
    "SelfQueryRetriever": lambda source: SelfQueryRetriever(
        documents=[chunk for chunk in chunks_of(source) if even(chunk)]
    ),
    "RunnableLambda": lambda source: RunnableLambda(
        lambda _: [chunk for chunk in chunks_of(source) if even(chunk)]
    ),
    "Rights": lambda source: ContextualCompressionRetriever(
        base_compressor=DocumentCompressorPipeline(transformers=[Rights()]),
        base_retriever=by_vectors(source, search_kwargs={"k": 20}),
    ),
    "Plain": lambda source: EnsembleRetriever(
        retrievers=[Plain(documents=[chunk for chunk in chunks_of(source) if even(chunk)])],
        weights=[1.0],
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_around_what_may_filter_segments_hold_candidates_only(way: Way, name: str) -> None:
    source = paged()
    retriever = RSERetriever(
        base_retriever=UNKNOWN[name](source),
        docstore=source.docstore,
        config=fakes.PLAIN.replace(segment_cost=5.0, irrelevant_chunk_penalty=0.01),
    )
    named = "DocumentCompressorPipeline" if name == "Rights" else name
    with pytest.warns(
        UserWarning, match=f"^{named} may leave .* candidates_only=False if"
    ) as caught:
        found = way.invoke(retriever, QUERY)
    assert len(caught) == 1
    assert found
    assert all(s.metadata["page_start"] % 2 == 0 and is_one_page(s) for s in found)
    assert way.invoke(retriever, QUERY, candidates_only=True) == found
    (whole,) = way.invoke(retriever, QUERY, candidates_only=False)
    assert "line 1" in whole.page_content


@pytest.mark.parametrize("told", [None, True, False])
@pytest.mark.parametrize("rights", [True, False])
def test_what_a_reranker_drops_stays_out_unless_it_is_for_relevance(
    way: Way, *, told: bool | None, rights: bool
) -> None:
    class Reranker(Rights):
        """Its name says that it ranks."""

    retriever = paged().model_copy(
        update={
            "reranker": Rights() if rights else Reranker(),
            "candidates_only": told,
            "config": fakes.PLAIN.replace(segment_cost=5.0, irrelevant_chunk_penalty=0.01),
        }
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = way.invoke(retriever, QUERY, calibration="rank")
    apart = told or (told is None and rights)
    assert all(map(is_one_page, found)) == apart
    said = [str(one.message) for one in caught]
    assert len(said) == (told is None and rights)
    assert all(one.startswith("Rights may leave chunks out") for one in said)


def test_a_reranker_that_drops_nothing_is_not_asked_why(way: Way) -> None:
    retriever = paged().model_copy(update={"reranker": All()})
    assert way.invoke(retriever, QUERY, calibration="rank")


# Few candidates


class Limited(Plain):
    """As BM25Retriever: it returns its k best."""

    k: int = 4

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return super()._get_relevant_documents(query, run_manager=run_manager)[: self.k]


class TopN(Plain):
    top_n: int = 3

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return super()._get_relevant_documents(query, run_manager=run_manager)[: self.top_n]


@pytest.fixture
def long() -> RSERetriever:
    return make_retriever({"a": lines(*range(0, 60, 3))})


def by_vectors(source: RSERetriever, **kwargs: Any) -> BaseRetriever:
    assert source.vectorstore is not None
    return source.vectorstore.as_retriever(**kwargs)


OF_STORE = r"VectorStoreRetriever returns only its search_kwargs k=4 .*search_kwargs=\{'k': 200\}"
OF_WORDS = "Limited returns only its k=4 candidates: set k=200"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (by_vectors, OF_STORE),
        (lambda source: by_vectors(source, search_type="mmr"), OF_STORE),
        (lambda source: Limited(documents=chunks_of(source)), OF_WORDS),
        (lambda source: TopN(documents=chunks_of(source)), "only its top_n=3 .*set top_n=200"),
        (
            lambda source: EnsembleRetriever(
                retrievers=[by_vectors(source), Limited(documents=chunks_of(source))],
                weights=[0.5, 0.5],
                id_key="chunk_id",
            ),
            f"{OF_STORE}.*{OF_WORDS}",
        ),
        (
            lambda source: MergerRetriever(
                retrievers=[by_vectors(source), by_vectors(source, search_type="mmr")]
            ),
            rf"^{OF_STORE}\)\. Segments are made of these 8 ",
        ),
        (
            lambda source: ContextualCompressionRetriever(
                base_compressor=All(), base_retriever=by_vectors(source)
            ),
            OF_STORE,
        ),
        (
            lambda source: MultiQueryRetriever.from_llm(
                by_vectors(source), FakeListChatModel(responses=[QUERY] * 3)
            ),
            OF_STORE,
        ),
    ],
    ids=["store", "mmr", "words", "top_n", "ensemble", "merger", "compression", "multi query"],
)
def test_few_candidates_are_warned_of(way: Way, long: RSERetriever, make: Any, said: str) -> None:
    retriever = wrapped(long, make(long))
    with pytest.warns(UserWarning, match=rf"(?s){said}") as caught:
        assert way.invoke(retriever, QUERY)
    assert len(caught) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda source: by_vectors(source, search_kwargs={"k": 12}),
        lambda source: Limited(documents=chunks_of(source), k=12),
        # It finds less than it may return.
        lambda source: Limited(documents=chunks_of(source)[:3]),
        lambda source: FixedRetriever(documents=chunks_of(source)[:2]),
        lambda source: RunnableLambda(lambda _: chunks_of(source)[:4]),
        lambda source: EnsembleRetriever(
            retrievers=[
                Limited(documents=chunks_of(source)),
                by_vectors(source, search_kwargs={"k": 12}),
            ],
            weights=[0.5, 0.5],
            id_key="chunk_id",
        ),
    ],
    ids=["larger", "larger k", "fewer", "none", "runnable", "one is larger"],
)
def test_what_was_set_on_purpose_is_not_warned_of(way: Way, long: RSERetriever, make: Any) -> None:
    assert way.invoke(wrapped(long, make(long)), QUERY)


def test_as_few_as_asked_for_are_not_warned_of(way: Way, long: RSERetriever) -> None:
    assert way.invoke(wrapped(long, by_vectors(long), fetch_k=4), QUERY)


# Candidates that do not say which chunk they are


def test_a_retriever_over_chunks_of_ones_own(way: Way, long: RSERetriever) -> None:
    """The documents are added already: the retriever has to be made from their chunks."""
    own_chunks = FixedRetriever(documents=[Document("c0 0", metadata={"source": "a"})])
    with pytest.raises(CandidateError, match=r"candidate 0 .*doc_id=None") as raised:
        way.invoke(wrapped(long, own_chunks), QUERY)
    message = str(raised.value)
    assert "BM25Retriever.from_documents(list(RSEIndexer(vectorstore, docstore).chunks()))" in (
        message
    )
    assert "or write it with" not in message
    same_chunks = FixedRetriever(documents=list(long.chunks()))
    assert way.invoke(wrapped(long, same_chunks), QUERY)


# Segments as candidates and as documents


def test_a_segment_is_no_candidate(way: Way, long: RSERetriever) -> None:
    said = "candidate 0 .* is a segment, not a chunk. Wrap the retriever that returns chunks"
    for on_missing in ("raise", "split"):
        with pytest.raises(CandidateError, match=said):
            way.invoke(wrapped(long, long, on_missing=on_missing), QUERY)
    stored = InMemoryVectorStore(fakes.Angles())
    stored.add_documents(
        [Document(f"{s.page_content} 0", metadata=s.metadata) for s in long.invoke(QUERY)]
    )
    with pytest.raises(CandidateError, match=said):
        way.invoke(RSERetriever(vectorstore=stored, docstore=long.docstore), QUERY)


def test_an_ensemble_of_segments(way: Way) -> None:
    """Equal texts are told apart by ``chunk_id``, and what both find comes once."""
    source = make_retriever({"a": "x 0\ny 90\n", "b": "x 0\nz 90\n"})
    segments = way.invoke(source, QUERY)
    assert [s.metadata["chunk_id"] for s in segments] == [s.id for s in segments]
    assert [s.page_content for s in segments] == ["x 0\n"] * 2
    both = EnsembleRetriever(retrievers=[source, source], weights=[0.5, 0.5], id_key="chunk_id")
    assert ranges(way.invoke(both, QUERY)) == ranges(segments)


def test_what_was_retrieved_can_be_added(way: Way, long: RSERetriever) -> None:
    (segment,) = way.invoke(long, QUERY, k=1)
    (chunk,) = itertools.islice(long.chunks(), 1)
    other = make_retriever({})
    ids = way.add(other, [segment, chunk], ids=["segment", "chunk"])
    found = {s.metadata["doc_id"]: s for s in way.invoke(other, QUERY)}
    assert list(ids) == ["segment", "chunk"]
    assert found.keys() == {"segment", "chunk"}
    for name, given_ in (("segment", segment), ("chunk", chunk)):
        assert found[name].page_content == given_.page_content
        assert found[name].metadata["chunk_id"] == found[name].id != given_.id


# Candidates that nothing is known of


def test_chunks_of_others_are_left_out_and_counted(way: Way) -> None:
    source = make_retriever({"a": lines(0, 10)})
    assert source.vectorstore is not None
    source.vectorstore.add_documents(
        [Document("theirs 0", metadata={"source": "theirs"}), Document("more 1")]
    )
    with pytest.raises(CandidateError, match="on_missing='split' leaves"):
        way.invoke(source, QUERY)
    with pytest.warns(
        UserWarning, match=r"(?s)^2 of 4 candidates are left out.*adopt it again.*doc_id=None"
    ) as caught:
        (segment,) = way.invoke(source, QUERY, on_missing="split")
    assert len(caught) == 1
    assert ranges([segment]) == [("a", 0, 2)]
    assert [chunk["rank"] for chunk in segment.metadata["rse"]["chunks"]] == [0, 1]


def test_an_adopted_index_that_has_grown(way: Way) -> None:
    store, docstore = InMemoryVectorStore(fakes.Angles()), InMemoryStore()
    index = ExistingIndex(doc_id_key="source", chunk_index_key="number")
    store.add_documents([Document("a 0", metadata={"source": "a", "number": 0})])
    RSERetriever.from_existing_index(store, docstore, index)
    store.add_documents([Document("b 1", metadata={"source": "b", "number": 0})])
    retriever = RSERetriever(
        vectorstore=store, docstore=docstore, on_missing="split", config=fakes.EVERYTHING
    )
    with pytest.warns(UserWarning, match="1 of 2 candidates are left out"):
        assert ranges(way.invoke(retriever, QUERY)) == [("a", 0, 1)]
    RSERetriever.from_existing_index(store, docstore, index)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sorted(ranges(way.invoke(retriever, QUERY))) == [("a", 0, 1), ("b", 0, 1)]
