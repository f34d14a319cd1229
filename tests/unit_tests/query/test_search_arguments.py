"""Filters hold for whole segments: access rights are one use of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import PRESETS, ExistingIndex, RSEConfig, RSERetriever
from langchain_rse.evaluation import Evidence, Question, tune
from langchain_rse.query.search_arguments import HARMLESS, PARTITIONS
from langchain_rse.stores.vectorstores.in_memory import InMemoryAdapter
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way

way = fakes.way

# Fills every gap and reaches for every neighbor.
GREEDY_FOR_TEXT = RSEConfig(
    irrelevant_chunk_penalty=0.01, segment_cost=5.0, neighbor_credit=1.0, neighbor_radius=3
)


def matches(filter_: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """A filter in the manner of Chroma and others."""
    return all(
        all(matches(part, metadata) for part in value)
        if name == "$and"
        else any(matches(part, metadata) for part in value)
        if name == "$or"
        else metadata.get(name) in value["$in"]
        if isinstance(value, Mapping)
        else metadata.get(name) == value
        for name, value in filter_.items()
    )


class FilteringStore(InMemoryVectorStore):
    """A store that takes filters as mappings, under more than one name."""

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        wanted = kwargs.get("filter") or kwargs.get("where") or {}
        by = wanted if callable(wanted) else lambda found: matches(wanted, found.metadata)
        return super().similarity_search_with_score(query, k, filter=by)

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return self.similarity_search_with_score(query, k, **kwargs)


def pages_of(name: str, count: int) -> list[Document]:
    """Pages of one chunk each, some of them secret."""
    return [
        Document(
            f"text of {name}, page number {page}",
            metadata={"source": name, "year": 2024, "page": page, "secret": page % 3 == 2},
        )
        for page in range(count)
    ]


def make(**kwargs: Any) -> RSERetriever:
    retriever = RSERetriever(
        docstore=InMemoryStore(),
        text_splitter=RecursiveCharacterTextSplitter(chunk_size=30, chunk_overlap=0),
        **{
            "vectorstore": FilteringStore(fakes.BagOfWords()),
            "config": GREEDY_FOR_TEXT,
            **kwargs,
        },
    )
    retriever.add_documents([*pages_of("a", 9), *pages_of("b", 9)])
    return retriever


def everything_read(way: Way, retriever: RSERetriever, **kwargs: Any) -> str:
    return "\n".join(
        segment.page_content for segment in way.invoke(retriever, "text page number", **kwargs)
    )


def pages_in(text: str) -> set[tuple[str, int]]:
    return {
        (document.metadata["source"], document.metadata["page"])
        for document in (*pages_of("a", 9), *pages_of("b", 9))
        if document.page_content in text
    }


PUBLIC = {(name, page) for name in "ab" for page in range(9) if page % 3 != 2}


@pytest.mark.parametrize("preset", [None, *PRESETS])
@pytest.mark.parametrize(
    "filter_",
    [
        {"secret": False},
        {"secret": {"$in": [False]}},
        {"$and": [{"year": 2024}, {"secret": False}]},
        {"$or": [{"source": "nobody"}, {"$and": [{"secret": False}]}]},
        lambda document: not document.metadata["secret"],
    ],
)
def test_no_segment_holds_what_the_filter_excludes(
    way: Way, filter_: Any, preset: str | None
) -> None:
    retriever = make(**({"config": preset} if preset else {}))
    # What a function does is not known, which a warning would say.
    if callable(filter_):
        retriever.candidates_only = True
    text = everything_read(way, retriever, filter=filter_)
    assert text
    assert pages_in(text) <= PUBLIC
    for secret in (2, 5, 8):
        assert f"number {secret}" not in text
    as_where = everything_read(way, retriever, search_kwargs={"where": filter_})
    if not callable(filter_):
        assert as_where == text


ABOUT_DOCUMENTS: list[dict[str, Any]] = [
    *({name: {"source": "a"}} for name in ("filter", "where", "pre_filter", "any_other_name")),
    {"filter": {"$and": [{"year": {"$gte": 2024}}, {"doc_id": {"$in": ["a", "b"]}}]}},
    {"filter": {"$not": {"source": {"$nin": ["b"]}}}},
    *({name: None} for name in ("filter", "where", "any_other_name")),
    *({name: {}} for name in ("filter", "where", "any_other_name")),
    *({name: 3} for name in sorted(HARMLESS - {"score_threshold"})),
    {"score_threshold": 0},
    *({name: "a place"} for name in sorted(PARTITIONS)),
]
ABOUT_CHUNKS: list[dict[str, Any]] = [
    {"filter": {"page": 1}},
    {"filter": {"year": 2024, "page": 1}},
    {"filter": {"$and": [{"source": "a"}, {"page": {"$lt": 9}}]}},
    # Under other names that stores use.
    *({name: {"page": 1}} for name in ("metadata", "meta_filter", "predicates", "conditions")),
]
NOT_UNDERSTOOD: list[dict[str, Any]] = [
    *({"filter": given} for given in ("year = 2024", 3, True, len, {3: "a"})),
    {"filter": [{"year": 2024}, {"source": "a"}]},
    {"where_document": {"$contains": "text"}},
    # The document has a field of that name, but it stands for an operator.
    {"filter": {"term": {"metadata.page": 3}}},
    {"filter": {"term": [{"page": 3}]}},
    {"filter": {"source": {"page": 3}}},
    {"filter": {"source": {"$in": {"page": [3]}}}},
    # Under the names that stores use, and one that nobody knows.
    *({name: "year = 2024"} for name in ("expr", "where", "where_str", "search_filter", "odd")),
    {"namespace": "a place", "odd": 1},
    {"only_public": True},
    {"prefilter": True},
]


@pytest.mark.parametrize("search_kwargs", ABOUT_DOCUMENTS, ids=str)
def test_gaps_are_filled_unless_an_argument_may_be_about_chunks(
    way: Way, search_kwargs: dict[str, Any]
) -> None:
    assert filled(way, search_kwargs)
    assert not filled(way, search_kwargs, candidates_only=True)


@pytest.mark.parametrize("search_kwargs", ABOUT_CHUNKS, ids=str)
def test_an_argument_may_be_a_filter_unless_it_is_known_to_be_none(
    way: Way, search_kwargs: dict[str, Any]
) -> None:
    assert not filled(way, search_kwargs)
    assert not filled(way, search_kwargs, candidates_only=False)


@pytest.mark.parametrize("search_kwargs", NOT_UNDERSTOOD, ids=str)
def test_a_filter_that_is_not_understood_leaves_candidates_only_and_says_so(
    way: Way, search_kwargs: dict[str, Any]
) -> None:
    message = "^the search argument .* is not a dict of fields and values.*candidates_only=True"
    for kwargs in ({}, {"candidates_only": False}):
        with pytest.warns(UserWarning, match=message):
            assert not filled(way, search_kwargs, **kwargs)
    assert not filled(way, search_kwargs, candidates_only=True)


@pytest.mark.parametrize(
    "filter_", [None, {}, {"source": "a"}, {"year": 2024}, {"doc_id": {"$in": ["a", "b"]}}]
)
def test_gaps_are_filled_where_the_filter_is_about_whole_documents(way: Way, filter_: Any) -> None:
    retriever = make(fetch_k=3)
    (first, *_) = way.invoke(retriever, "text page number", filter=filter_, order="relevance")
    assert any(chunk.get("filled") for chunk in first.metadata["rse"]["chunks"])


def filled(way: Way, search_kwargs: dict[str, Any], **kwargs: Any) -> bool:
    """Whether a segment holds chunks that were not found, whatever the store was told."""

    class Deaf(InMemoryVectorStore):
        """Knows no filters but those by page alone, or it would be noticed."""

        def similarity_search_with_score(
            self, query: str, k: int = 4, **kwargs: Any
        ) -> list[tuple[Document, float]]:
            told = kwargs.get("filter")
            page = told.get("page") if isinstance(told, dict) else None
            return super().similarity_search_with_score(
                query, k, filter=page and (lambda found: found.metadata["page"] == page)
            )

        async def asimilarity_search_with_score(self, *args: Any, **kwargs: Any) -> Any:
            return self.similarity_search_with_score(*args, **kwargs)

        def similarity_search_with_relevance_scores(
            self, query: str, k: int = 4, **_: Any
        ) -> list[tuple[Document, float]]:
            return super().similarity_search_with_score(query, k)

        async def asimilarity_search_with_relevance_scores(
            self, query: str, k: int = 4, **_: Any
        ) -> list[tuple[Document, float]]:
            return self.similarity_search_with_relevance_scores(query, k)

    retriever = RSERetriever(
        vectorstore=Deaf(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        text_splitter=RecursiveCharacterTextSplitter(chunk_size=30, chunk_overlap=0),
        config=GREEDY_FOR_TEXT,
        fetch_k=3,
        search_kwargs=search_kwargs,
        **kwargs,
    )
    pages = pages_of("a", 9)
    for page in pages:
        page.metadata["term"] = "autumn"
    retriever.add_documents(pages)
    segments = way.invoke(retriever, "text page number")
    assert segments
    return any(chunk.get("filled") for s in segments for chunk in s.metadata["rse"]["chunks"])


def test_a_filter_of_the_store_alone_can_be_announced(way: Way) -> None:
    class Public(BaseRetriever):
        store: InMemoryVectorStore

        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return self.store.similarity_search(
                query, k=200, filter=lambda found: not found.metadata["secret"]
            )

    filled = make()
    assert isinstance(filled.vectorstore, InMemoryVectorStore)
    retriever = RSERetriever(
        base_retriever=Public(store=InMemoryVectorStore(fakes.BagOfWords())),
        docstore=filled.docstore,
        config=GREEDY_FOR_TEXT,
    )
    assert isinstance(retriever.base_retriever, Public)
    retriever.base_retriever.store.store = filled.vectorstore.store
    assert not pages_in(everything_read(way, retriever, candidates_only=False)) <= PUBLIC
    assert pages_in(everything_read(way, retriever, candidates_only=True)) == PUBLIC
    with pytest.warns(UserWarning, match="^Public may leave chunks out.*candidates_only=False"):
        assert pages_in(everything_read(way, retriever)) == PUBLIC


# Fields that the vector store has otherwise than the documents, or not at all


OF_POSITIONS: list[Any] = [
    {"start_index": {"$lte": 0}},
    {"end_index": {"$gt": 0}},
    {"$or": [{"year": 2024}, {"chunk_index": {"$lt": 5}}]},
    {"metadata.chunk_id": {"$ne": "x"}},
    {"rse_version": {"$ne": "x"}},
]


@pytest.mark.parametrize("filter_", OF_POSITIONS, ids=str)
@pytest.mark.parametrize("inside", [False, True])
def test_where_a_chunk_is_stored_is_not_what_documents_say(
    way: Way, filter_: dict[str, Any], *, inside: bool
) -> None:
    retriever = make_blind()
    names = {name.rpartition(".")[2] for name in filter_ if name != "$or"} or {"chunk_index"}
    (name,) = names
    said = f"the filter names {name}, .*Index that under another name"
    with pytest.raises(ValueError, match=said):
        ask_blind(way, retriever, filter_, inside=inside)


@pytest.mark.parametrize(
    "filter_",
    [
        {"groups": {"$nin": ["board"]}},
        {"$not": {"groups": "board"}},
        {"$and": [{"year": 2024}, {"groups": {"$ne": "board"}}]},
        {"reviewers": {"$ne": "ann"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("inside", [False, True])
def test_rights_that_no_vector_store_has_do_not_let_everything_through(
    way: Way, filter_: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *, inside: bool
) -> None:
    """Of the whole document, or of a page: lists are in the docstore only."""
    monkeypatch.setattr(InMemoryAdapter, "takes_lists", False)
    name = "reviewers" if "reviewers" in filter_ else "groups"
    said = rf"the filter names {name}, but .*\['.*it does not work.*one boolean for each value"
    with pytest.raises(ValueError, match=said):
        ask_blind(way, make_blind(), filter_, inside=inside)


@pytest.mark.parametrize(
    "filter_",
    [
        {"groups": {"$contains": "board"}},
        {"groups": {"$not_contains": "staff"}},
        {"groups": {"$ne": "staff"}},
        {"metadata.groups": {"$nin": ["staff"]}},
        {"groups": {"$like": "st%"}},
        {"$not": {"groups": "board"}},
        {"$and": [{"year": 2024}, {"groups": {"$ne": "staff"}}]},
        {"$or": [{"groups": {"$ne": "staff"}}, {"reviewers": {"$contains": "ann"}}]},
    ],
    ids=str,
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_store_that_does_not_look_into_lists_lets_nothing_through(
    way: Way, filter_: dict[str, Any], *, inside: bool
) -> None:
    """Each comparison is false for the lists that are stored, or not known for lists."""
    with pytest.raises(ValueError, match=r"not all operators look into lists.*Chroma"):
        ask_blind(way, make_blind(), filter_, inside=inside)


@pytest.mark.parametrize("name", ["empty", "mixed"])
def test_a_list_that_no_store_takes_cannot_be_filtered_by(way: Way, name: str) -> None:
    retriever = make(vectorstore=Blind(fakes.BagOfWords()))
    metadata = {"empty": [], "mixed": ["a", 1]}
    retriever.add_documents([Document("text page number", id="c", metadata=metadata)])
    with pytest.raises(ValueError, match="and lists of one type of these, not"):
        ask_blind(way, retriever, {name: {"$not_contains": "x"}}, inside=False)


def test_segments_are_filled_where_a_list_is_of_the_whole_document(way: Way) -> None:
    pages = pages_of("a", 6)
    for page in pages:
        page.metadata |= {"groups": ["staff", "board"], "tags": [str(page.metadata["page"])]}

    def looks_into(filter: Any) -> Any:  # noqa: A002 - the store's name for it
        ((name, comparison),) = filter.items()
        return lambda document: comparison["$contains"] in document.metadata.get(name, [])

    class Lists(InMemoryVectorStore):
        def similarity_search_with_score(
            self, query: str, k: int = 4, **kwargs: Any
        ) -> list[tuple[Document, float]]:
            return super().similarity_search_with_score(query, k, filter=looks_into(**kwargs))

        async def asimilarity_search_with_score(
            self, query: str, k: int = 4, **kwargs: Any
        ) -> list[tuple[Document, float]]:
            return self.similarity_search_with_score(query, k, **kwargs)

    def search(condition: dict[str, Any]) -> set[tuple[str, int]]:
        return pages_in(everything_read(way, retriever, filter=condition, fetch_k=2))

    retriever = make(vectorstore=Lists(fakes.BagOfWords()))
    retriever.add_documents(pages)
    # Two candidates, and all that is between and beside them.
    assert search({"groups": {"$contains": "board"}}) == {("a", page) for page in range(6)}
    assert search({"tags": {"$contains": "4"}}) == {("a", 4)}
    assert search({"groups": {"$contains": "guests"}}) == set()


@pytest.mark.parametrize(
    "filter_",
    [
        {"groups": {"$nin": ["board"]}},  # the list is stored, and this holds for it
        {"groups": {"$contains": "staff"}},
        {"groups": "staff"},
        {"$or": [{"groups": {"$contains": "board"}}, {"year": 2024}]},
        {"owner": {"$ne": "ann"}},  # None in the document
        {"unknown": {"$ne": "x"}},
        {"source": {"$in": ["groups", "start_index", "a"]}},
        {"year": {"$ne": 2023}},
    ],
    ids=str,
)
def test_other_fields_are_as_the_documents_say(way: Way, filter_: dict[str, Any]) -> None:
    assert ask_blind(way, make_blind(), filter_, inside=False)


def test_an_adopted_store_has_its_own_positions(way: Way) -> None:
    store = Blind(fakes.BagOfWords())
    store.add_documents(
        [
            Document(f"text {n}", metadata={"source": "a", "start_index": 10 * n, "tags": ["x"]})
            for n in range(3)
        ]
    )
    index = ExistingIndex(doc_id_key="source", in_store_order=True)
    retriever = RSERetriever.from_existing_index(store, InMemoryStore(), index)
    found = way.invoke(retriever, "text", filter={"start_index": {"$ne": 7}, "tags": {"$ne": 8}})
    assert found


class Blind(InMemoryVectorStore):
    """Lets through what lacks a field, as Chroma's ``$ne``; and all of these filters at that."""

    def similarity_search_with_score(
        self, query: str, k: int = 4, **_: Any
    ) -> list[tuple[Document, float]]:
        return super().similarity_search_with_score(query, k)

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **_: Any
    ) -> list[tuple[Document, float]]:
        return self.similarity_search_with_score(query, k)

    def similarity_search(self, query: str, k: int = 4, **_: Any) -> list[Document]:
        return super().similarity_search(query, k)

    async def asimilarity_search(self, query: str, k: int = 4, **_: Any) -> list[Document]:
        return self.similarity_search(query, k)


def make_blind() -> RSERetriever:
    retriever = make(vectorstore=Blind(fakes.BagOfWords()))
    pages = pages_of("a", 4)
    for number, page in enumerate(pages):
        page.metadata |= {"groups": ["staff"], "owner": None, "reviewers": [str(number)]}
        page.metadata |= {"end_index": 3}
    retriever.add_documents(pages)
    retriever.delete(["b"])
    return retriever


def ask_blind(way: Way, retriever: RSERetriever, filter_: Any, *, inside: bool) -> list[Document]:
    if not inside:
        found: list[Document] = way.invoke(retriever, "text page number", filter=filter_)
        return found
    assert retriever.vectorstore is not None
    base = retriever.vectorstore.as_retriever(search_kwargs={"k": 50, "filter": filter_})
    wrapped = RSERetriever(base_retriever=base, docstore=retriever.docstore)
    found = way.invoke(wrapped, "text page number")
    return list(found)


@given(st.sets(st.integers(0, 8)), st.sampled_from([0.0, 0.2]))
def test_any_set_of_pages_holds(allowed: set[int], penalty: float) -> None:
    retriever = make()
    text = everything_read(
        Way(None),
        retriever,
        filter={"page": {"$in": sorted(allowed)}},
        irrelevant_chunk_penalty=penalty,
    )
    assert pages_in(text) <= {(name, page) for name in "ab" for page in allowed}


def test_tuning_holds_to_the_filter() -> None:
    retriever = make()
    questions = [Question("text page number", [Evidence(name, 0, 5)]) for name in ("a", "b")]
    public = {"secret": False}
    tuning = tune(retriever, questions, [10_000], trials=2, metric="iou", filter=public)
    everything = tune(retriever, questions, [10_000], trials=2, metric="iou")
    # Less text around the same evidence.
    assert tuning.start > everything.start
