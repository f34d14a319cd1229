"""Filters hold for whole passages: access rights are one use of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import Field

from langchain_rse import ExistingIndex, RSERetriever
from langchain_rse.config import PRESETS, RSEConfig
from langchain_rse.stores.conditions import fields_of, matches
from langchain_rse.stores.vectorstores.in_memory import InMemoryAdapter
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, Way, ask, chunks_in, lines, make_retriever, wrap

way = fakes.way

# Fills every gap and reaches for every neighbor.
ALL_TEXT = RSEConfig(irrelevant_chunk_penalty=0.01, passage_cost=5.0, neighbor_weight=1.0)
PAGES = 9


class Filtering(InMemoryVectorStore):
    """Takes filters as functions or as dicts, which it may apply in a way of its own."""

    def passes(self, document: Document, condition: Any) -> bool:
        return matches(condition, document.metadata)

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        condition = kwargs.get("filter") or kwargs.get("where")
        if condition is not None and not callable(condition):
            wanted = condition

            def condition(document: Document) -> bool:
                return self.passes(document, wanted)

        return super().similarity_search_with_score(query, k, filter=condition)

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return self.similarity_search_with_score(query, k, **kwargs)

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        found = self.similarity_search_with_score(query, k, **kwargs)
        return [document for document, _ in found]


class Deaf(Filtering):
    """Lets everything through, as stores do with what they do not understand."""

    def passes(self, document: Document, condition: Any) -> bool:
        del document, condition
        return True


def make(store: type[Filtering] = Filtering, pages: int = PAGES, **fields: Any) -> RSERetriever:
    """Two documents, of which each page is a chunk, and every third page is secret."""
    retriever = make_retriever({}, vectorstore=store(fakes.Angles()), config=ALL_TEXT)
    for name in "ab":
        retriever.add_documents(
            [
                Document(
                    f"{name}{page} {page}",
                    metadata={
                        "source": name,
                        "year": 2024,
                        "page": page,
                        "secret": page % 3 == 2,
                        "groups": ["staff"],
                        "reviewers": [str(page)],
                        "owner": None,
                    },
                )
                for page in range(pages)
            ],
            ids=[name] * pages,
        )
    return retriever.model_copy(update=fields)


def pages_in(passages: Iterable[Document]) -> set[tuple[str, int]]:
    """The pages of which a passage has text, whatever its metadata say."""
    text = "\n".join(passage.page_content for passage in passages)
    return {
        (word[0], int(word[1:])) for word in text.split() if word[0] in "ab" and word[1:].isdigit()
    }


def is_filled(passages: Iterable[Document]) -> bool:
    """True if there are chunks in passages that the search did not find."""
    return any(chunk.get("filled") for chunk in chunks_in([*passages]).values())


# What a filter says


METADATA = {"year": 2024, "group": "all", "public": True, "price": 2.5, "tags": ["a", "b"]}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"year": 2024.0}, True),
        ({"year": "2024"}, False),
        ({"public": 1}, False),
        ({"year": {"$gte": 2024, "$lt": 2025}}, True),
        ({"year": {"$gt": 2024}}, False),
        ({"year": {"$lte": "2024"}}, False),
        # A store may let through what lacks a field; here, it is not known to be allowed.
        ({"owner": {"$ne": "ann"}}, False),
        ({"tags": {"$contains": "a"}}, True),
        ({"tags": {"$contains": "c"}}, False),
        ({"tags": {"$not_contains": "a"}}, False),
        ({"tags": {"$in": ["c", "b"]}}, True),
        ({"tags": {"$ne": "b"}}, False),
        ({"tags": {"$gt": "a"}}, False),
        ({"group": {"$contains": "all"}}, False),  # no list
        ({"$or": [{"year": 2023}, {"price": {"$gt": 2}}]}, True),
    ],
    ids=str,
)
def test_what_passes(condition: dict[str, Any], *, expected: bool) -> None:
    assert matches(condition, METADATA) == expected
    if expected:
        assert matches(condition, METADATA, is_lenient=True)


VALUES = st.sampled_from([2, 3, "a", "b", True])  # in no notation the same
BY_BRUTE_FORCE: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, other: type(value) is type(other) and value == other,
    "$ne": lambda value, other: not BY_BRUTE_FORCE["$eq"](value, other),
    "$in": lambda value, others: any(BY_BRUTE_FORCE["$eq"](value, each) for each in others),
    "$nin": lambda value, others: not BY_BRUTE_FORCE["$in"](value, others),
}
COMPARISONS = st.one_of(
    VALUES,
    st.lists(VALUES, max_size=2),
    *(st.builds(dict, **{name: VALUES}) for name in ("$eq", "$ne")),
    *(st.builds(dict, **{name: st.lists(VALUES, max_size=2)}) for name in ("$in", "$nin")),
)
CONDITIONS = st.recursive(
    st.dictionaries(st.sampled_from("xyz"), COMPARISONS, min_size=1, max_size=2),
    lambda inner: st.builds(
        lambda name, parts: {name: parts}, st.sampled_from(["$and", "$or"]), st.lists(inner)
    ),
    max_leaves=4,
)


def passes_by_brute_force(condition: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    passed = []
    for name, value in condition.items():
        if name in {"$and", "$or"}:
            parts = [passes_by_brute_force(part, metadata) for part in value]
            passed.append(all(parts) if name == "$and" else any(parts))
            continue
        operators = value if isinstance(value, dict) else {"$eq": value}
        if isinstance(value, list):
            operators = {"$in": value}
        for operator, operand in operators.items():
            known = name in metadata
            passed.append(known and BY_BRUTE_FORCE[operator](metadata[name], operand))
    return all(passed)


METADATA_OF_CHUNKS = st.dictionaries(st.sampled_from("xyz"), VALUES)


@given(CONDITIONS, METADATA_OF_CHUNKS)
def test_conditions_are_read_as_written(
    condition: dict[str, Any], metadata: dict[str, Any]
) -> None:
    passes = passes_by_brute_force(condition, metadata)
    assert matches(condition, metadata) == passes
    assert fields_of(condition) is not None
    if passes:
        assert matches(condition, metadata, is_lenient=True)


OTHER: list[tuple[Any, Any]] = [
    ("x", "y"),
    (None, "x"),
    (True, False),
    (True, 1),
    ("3", 3),
    (["x"], "y"),
    ("z", ["x", "y"]),
    (1.1, 1),
    (["x", "y"], {"$ne": "y"}),
    (["x"], {"$contains": "y"}),
    (3, {"$gt": 3}),
]


@pytest.mark.parametrize(("found", "wanted"), OTHER, ids=str)
def test_other_values_do_not_pass(found: Any, wanted: Any) -> None:
    assert not matches({"tag": wanted}, {"tag": found}, is_lenient=True)
    either = {"$or": [{"tag": wanted}, {"year": 1}]}
    assert matches(either, {"tag": found, "year": 1}, is_lenient=True)


NOT_UNDERSTOOD: list[Any] = [
    *("year = 2024", len, True, ["owner"]),
    {"$not": {"source": "b"}},
    {"source": {"$like": "a%"}},
    {"$and": "source"},
    # The document has a field of that name, but it stands for an operator.
    {"term": {"metadata.page": 3}},
    {"source": {"page": 3}},
    {"metadata.source": "a"},  # a path
    {"page": {"$in": 3}},
]


# Which chunks may fill gaps


@pytest.mark.parametrize("preset", [None, *PRESETS])
@pytest.mark.parametrize(
    "condition",
    [
        {"secret": False},
        {"$or": [{"source": "nobody"}, {"$and": [{"secret": False}]}]},
        lambda document: not document.metadata["secret"],
    ],
    ids=lambda value: "function" if callable(value) else str(value),
)
def test_no_passage_has_what_a_filter_excludes(condition: Any, preset: str | None) -> None:
    retriever = make()
    if preset is not None:
        retriever.config = PRESETS[preset]
    if callable(condition):  # what it does is not known, which a warning would say
        retriever.candidates_only = True
    found = pages_in(ask(retriever, filter=condition))
    assert found
    assert not any(page % 3 == 2 for _, page in found)


@given(st.sets(st.integers(0, PAGES - 1)), st.sampled_from([0.0, 0.2]))
def test_any_set_of_pages_holds(allowed: set[int], penalty: float) -> None:
    found = ask(make(), filter={"page": {"$in": sorted(allowed)}}, irrelevant_chunk_penalty=penalty)
    assert {page for _, page in pages_in(found)} <= allowed


ABOUT_DOCUMENTS: list[dict[str, Any]] = [
    {},
    *({name: {"source": "a"}} for name in ("filter", "any_name")),
    {"filter": {"$and": [{"year": {"$gte": 2024}}, {"doc_id": {"$in": ["a", "b"]}}]}},
    {"filter": {"groups": {"$contains": "staff"}}},
    {"filter": None},
]


@pytest.mark.parametrize("search_kwargs", ABOUT_DOCUMENTS, ids=str)
def test_gaps_are_filled_if_a_filter_holds_for_whole_documents(
    search_kwargs: dict[str, Any],
) -> None:
    retriever = make(Deaf if "doc_id" in str(search_kwargs) else Filtering, fetch_k=2)
    retriever.delete(["b"])
    assert is_filled(ask(retriever, search_kwargs=search_kwargs))
    assert not is_filled(ask(retriever, search_kwargs=search_kwargs, candidates_only=True))


@pytest.mark.parametrize(
    "search_kwargs",
    [
        *({"filter": condition} for condition in NOT_UNDERSTOOD if condition is not len),
        *({name: "a = 1"} for name in ("expr", "where", "namespace")),
        {"only_public": True},
        {"where_document": {"$contains": "text"}},
    ],
    ids=str,
)
def test_what_is_not_understood_leaves_candidates_only_and_says_so(
    search_kwargs: dict[str, Any],
) -> None:
    retriever = make(Deaf, fetch_k=3, search_kwargs=search_kwargs)
    (name,) = search_kwargs
    with pytest.warns(UserWarning, match=f"search argument {name}=.*candidates_only") as caught:
        found = retriever.invoke(QUERY)
    assert [warning.filename for warning in caught] == [__file__]
    assert not is_filled(found)
    assert ask(retriever, candidates_only=True) == found
    # Who says that nothing is filtered is believed.
    assert is_filled(ask(retriever, candidates_only=False))


# A filter that a store does not apply


@pytest.mark.parametrize(
    "condition",
    [
        {"source": "b"},
        {"groups": {"$contains": "board"}},
        {"$or": [{"groups": {"$ne": "staff"}}, {"reviewers": {"$contains": "ann"}}]},
        # Of a page, not of the document
        {"reviewers": {"$ne": "0"}},
        {"$and": [{"year": 2024}, {"reviewers": {"$not_contains": "1"}}]},
        {"owner": "ann"},
    ],
    ids=str,
)
@pytest.mark.parametrize("takes_lists", [True, False])
@pytest.mark.parametrize("kind", ["store", "inside"])
def test_a_filter_that_did_not_hold_is_an_error(
    kind: str, condition: Any, monkeypatch: pytest.MonkeyPatch, *, takes_lists: bool
) -> None:
    """Also if the vector store has no lists: the docstore has them."""
    monkeypatch.setattr(InMemoryAdapter, "takes_lists", takes_lists)
    retriever = make(Deaf, pages=4)
    retriever.delete(["b"])
    arguments = {"filter": condition}
    store = retriever.vectorstore
    assert store is not None
    if kind == "inside":
        inner = store.as_retriever(search_kwargs={"k": 50, **arguments})
        retriever, arguments = wrap(retriever, inner), {}
    with pytest.raises(ValueError, match="excludes"):
        ask(retriever, **arguments)


class Partial(Filtering):
    """Applies the part of a filter that names some fields."""

    known: frozenset[str] = frozenset()

    def passes(self, document: Document, condition: Any) -> bool:
        applied = {name: value for name, value in condition.items() if name in self.known}
        return matches(applied, document.metadata)


@pytest.mark.filterwarnings("ignore:Partial found nothing")
@given(st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2)), st.data())
def test_what_a_filter_excludes_never_comes_back(filter_: dict[str, int], data: Any) -> None:
    """From a store that filters by some of the fields only."""
    store = Partial(fakes.Angles())
    store.known = frozenset(data.draw(st.sets(st.sampled_from("xyz"))))
    retriever = make_retriever({}, vectorstore=store)
    tags = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2))
    documents = []
    for number in range(3):
        metadata = {"source": str(number), **data.draw(tags)}
        documents.append(Document(f"{number} 0\n", metadata=metadata))
    retriever.add_documents(documents)
    found = store.similarity_search(QUERY, 50, filter=filter_)
    if all(matches(filter_, chunk.metadata) for chunk in found):
        assert len(ask(retriever, filter=filter_)) == len(found)
    else:
        with pytest.raises(ValueError, match="excludes"):
            ask(retriever, filter=filter_)


def test_an_adopted_store_has_its_own_fields() -> None:
    """Its values are compared, not what they are taken for."""
    store = Deaf(fakes.Angles())
    metadata = {"doc_id": "theirs", "source": "a", "number": 0, "start_index": 3, "tags": ["x"]}
    store.add_documents([Document("a 0", metadata=metadata)])
    index = ExistingIndex(doc_id_key="source", chunk_index_key="number", chunk_overlap=0)
    retriever = RSERetriever.from_existing_index(store, InMemoryStore(), index)
    condition: dict[str, Any]
    for condition in ({"doc_id": "theirs"}, {"start_index": {"$ne": 7}}, {"tags": "x"}):
        (found,) = ask(retriever, filter=condition)
        assert found.metadata["doc_id"] == "a"
    for condition in ({"doc_id": "a"}, {"start_index": 0}, {"tags": {"$ne": "x"}}):
        with pytest.raises(ValueError, match="excludes"):
            ask(retriever, filter=condition)


# Wrapped retrievers


class Plain(BaseRetriever):
    """Takes nothing but the query, as BM25Retriever."""

    documents: list[Document] = Field(default_factory=list)
    failing: bool = False

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        del query, run_manager
        if self.failing:
            raise ConnectionError
        return self.documents


class All(BaseDocumentCompressor):
    """Keeps all Documents."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        del query, callbacks
        return list(documents)


@pytest.mark.parametrize("search_kwargs", [{"filter": {"a": 1}}, {"odd": True}], ids=str)
def test_an_argument_that_may_be_dropped_is_an_error(search_kwargs: dict[str, Any]) -> None:
    (name,) = search_kwargs
    said = rf"base_retriever takes no {name}, .* pass vectorstore"
    fields: dict[str, Any] = {"base_retriever": Plain(), "docstore": InMemoryStore()}
    with pytest.raises(ValueError, match=said):
        RSERetriever(**fields, search_kwargs=search_kwargs)
    with pytest.raises(ValueError, match=said):
        ask(RSERetriever(**fields), search_kwargs=search_kwargs)
    assert ask(RSERetriever(**fields), filter={}) == []  # it excludes nothing
    retriever = make_retriever({"a.txt": lines(1)})
    assert ask(retriever, filter={}) == ask(retriever) != []


AROUND: dict[str, Any] = {
    "alone": lambda inner: inner,
    "retried": lambda inner: inner.with_retry(),
    "fallback": lambda inner: inner.with_fallbacks([inner]),
    "ensemble": lambda inner: EnsembleRetriever(retrievers=[inner, inner], weights=[0.5, 0.5]),
    "multi query": lambda inner: MultiQueryRetriever.from_llm(
        inner, FakeListChatModel(responses=[QUERY] * 9)
    ),
    "compression": lambda inner: ContextualCompressionRetriever(
        base_compressor=All(), base_retriever=inner
    ),
}


@pytest.mark.parametrize("around", AROUND)
def test_a_filter_inside_holds_for_whole_passages(around: str) -> None:
    source = make()
    assert source.vectorstore is not None

    def pages(k: int = 50, **arguments: Any) -> set[tuple[str, int]]:
        inner = source.vectorstore.as_retriever(search_kwargs={"k": k, **arguments})  # type: ignore[union-attr]
        retriever = RSERetriever(
            base_retriever=AROUND[around](inner),
            docstore=source.docstore,
            config=ALL_TEXT,
            fetch_k=k,
        )
        return pages_in(ask(retriever))

    assert not any(page % 3 == 2 for _, page in pages(filter={"secret": False}))
    # What holds for the whole document excludes none of its chunks.
    assert pages(k=2) >= {("a", 1)}
    assert len(pages(k=2, filter={"source": "a"})) > 2


def even(document: Document) -> bool:
    return bool(document.metadata["page"] % 2 == 0)


class Own(Plain):
    """Of a class that nobody knows."""


UNKNOWN: dict[str, Any] = {
    "RunnableLambda": lambda found: RunnableLambda(lambda _: found),
    "Own": lambda found: Own(documents=found),
    "Own as a fallback": lambda found: Plain(failing=True).with_fallbacks([Own(documents=found)]),
    "RunnableSequence": lambda found: Own(documents=found) | RunnableLambda(list),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_around_what_may_filter_passages_have_candidates_only(name: str) -> None:
    source = make()
    found = [chunk for chunk in source.indexer.chunks() if even(chunk)]
    retriever = RSERetriever(
        base_retriever=UNKNOWN[name](found), docstore=source.docstore, config=ALL_TEXT
    )
    expected = {(source_, page) for source_ in "ab" for page in range(0, PAGES, 2)}
    with pytest.warns(
        UserWarning, match=f"{name.split(maxsplit=1)[0]}.*candidates_only=False"
    ) as caught:
        passages = retriever.invoke(QUERY)
    assert len(caught) == 1
    assert pages_in(passages) == expected
    assert ask(retriever, candidates_only=True) == passages
    assert pages_in(ask(retriever, candidates_only=False)) > expected


@fakes.both_ways
@pytest.mark.parametrize("condition", ["year == 2023", {"year": {"$regex": "2.*"}}], ids=str)
def test_a_filter_that_a_store_in_memory_cannot_use_is_explained(way: Way, condition: Any) -> None:
    retriever = make_retriever({"a": lines(0, 90)})
    allowed = r"filter must be a function of a Document, or a dict .* with \$eq, .* and \$or; got "
    with pytest.raises(ValueError, match=f"^{allowed}{re.escape(repr(condition))}$"):
        way.invoke(retriever, QUERY, filter=condition)
