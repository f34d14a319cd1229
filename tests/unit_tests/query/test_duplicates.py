"""One text under several ids: the budget is not spent on it twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import PRESETS, DocumentHeaders, RSERetriever, SQLDocStore
from langchain_rse.config import RSEConfig
from tests.unit_tests import fakes
from tests.unit_tests.fakes import PLAIN, QUERY, FixedRetriever, Way, lines, make_retriever, ranges

way = fakes.way

TEXT = lines(0, 10, 90)


def test_the_same_text_comes_once(way: Way) -> None:
    retriever = make_retriever({"./a": TEXT, "/folder/a": TEXT, "b": lines(20, name="other")})
    once = way.invoke(retriever, QUERY)
    assert [segment.page_content for segment in once] == ["c0 0\nc1 10\n", "other0 20\n"]
    assert [chunk["rank"] for s in once for chunk in s.metadata["rse"]["chunks"]] == [0, 1, 2]
    twice = way.invoke(retriever, QUERY, duplicates="keep")
    assert [s.page_content for s in twice] == ["c0 0\nc1 10\n"] * 2 + ["other0 20\n"]


def test_the_budget_goes_to_other_texts(way: Way) -> None:
    retriever = make_retriever({"a": "a 0\n", "copy": "a 0\n", "b": "b 20\n"}, max_context_length=9)
    assert {s.page_content for s in way.invoke(retriever, QUERY)} == {"a 0\n", "b 20\n"}
    kept = way.invoke(retriever, QUERY, duplicates="keep")
    assert [s.page_content for s in kept] == ["a 0\n", "a 0\n"]


def test_it_can_be_set_at_construction() -> None:
    retriever = make_retriever({"a": TEXT, "b": TEXT}, duplicates="keep")
    assert len(retriever.invoke(QUERY)) == 2
    with pytest.raises(ValueError, match=r"(?s)duplicates.*'drop' or 'keep'"):
        make_retriever({}, duplicates="once")


def chunks_by_source(source: RSERetriever) -> dict[str, list[Document]]:
    chunks: dict[str, list[Document]] = {}
    for chunk in source.chunks():
        chunks.setdefault(chunk.metadata["doc_id"], []).append(chunk)
    return chunks


def test_the_document_with_the_best_candidate_counts(way: Way) -> None:
    source = make_retriever({"a": TEXT, "b": TEXT})
    chunks = chunks_by_source(source)
    found = [chunks["b"][1], *chunks["a"], chunks["b"][0]]
    retriever = RSERetriever(
        base_retriever=FixedRetriever(documents=found),
        candidates_only=False,
        docstore=source.docstore,
        config=fakes.EVERYTHING,
    )
    (segment,) = way.invoke(retriever, QUERY)
    assert segment.metadata["source"] == "b"
    ranks = {c["index"]: c["rank"] for c in segment.metadata["rse"]["chunks"] if "rank" in c}
    assert ranks == {0: 1, 1: 0}


def test_an_old_version_is_no_reason_to_drop_a_text(way: Way) -> None:
    source = make_retriever({"a": TEXT})
    old = list(source.chunks())
    source.add_documents([Document("a new text 0\n", metadata={"source": "a"})])
    source.add_documents([Document(TEXT, metadata={"source": "b"})])
    retriever = RSERetriever(
        base_retriever=FixedRetriever(documents=[*old, *chunks_by_source(source)["b"]]),
        candidates_only=False,
        docstore=source.docstore,
        config=fakes.EVERYTHING,
    )
    assert [s.metadata["source"] for s in way.invoke(retriever, QUERY)] == ["b"]


def test_only_what_passes_the_filter_counts(way: Way) -> None:
    retriever = make_retriever({"secret": TEXT, "public": TEXT})

    def public(document: Document) -> bool:
        return bool(document.metadata["source"] == "public")

    assert ranges(way.invoke(retriever, QUERY, filter=public)) == [("public", 0, 2)]


def test_other_headers_make_no_other_text(way: Way) -> None:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.Angles()),
        docstore=InMemoryStore(),
        text_splitter=fakes.Lines(),
        headers=DocumentHeaders(),
        config=PLAIN,
    )
    way.add(
        retriever,
        [
            Document(TEXT, metadata={"doc_id": name, "title": f"Title {name}"})
            for name in ("a", "b")
        ],
    )
    assert len(way.invoke(retriever, QUERY)) == 1
    assert len(way.invoke(retriever, QUERY, duplicates="keep")) == 2


@pytest.mark.parametrize("hybrid", [0.0, 0.5, 1.0])
def test_words_find_one_of_them(way: Way, hybrid: float) -> None:
    retriever = make_retriever(
        {"a": TEXT, "b": TEXT},
        docstore=SQLDocStore("sqlite://", lexical=True),
        hybrid=hybrid,
        config=fakes.EVERYTHING,
    )
    assert len(way.invoke(retriever, "c1 10")) == 1


def test_further_documents_take_the_place_of_copies(way: Way) -> None:
    texts = {f"copy {number}": TEXT for number in range(5)}
    retriever = make_retriever(
        {**texts, "b": lines(20, name="other")}, top_k_for_document_selection=4
    )
    assert [s.page_content for s in way.invoke(retriever, QUERY)] == [
        "c0 0\nc1 10\n",
        "other0 20\n",
    ]


@given(
    texts=st.lists(
        st.lists(st.integers(0, 90), min_size=1, max_size=5).map(tuple),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    copies=st.lists(st.integers(0, 3), max_size=4),
    preset=st.sampled_from(
        [PLAIN, fakes.EVERYTHING, PRESETS["dsrag-balanced"], PRESETS["kadane"], PRESETS["balanced"]]
    ),
    budget=st.sampled_from([None, 10, 30]),
    data=st.data(),
)
def test_copies_make_no_difference(
    texts: list[tuple[int, ...]], copies: list[int], preset: RSEConfig, budget: Any, data: Any
) -> None:
    """Whatever else there is, and in whatever order the candidates come."""
    config = preset.replace(top_k_for_document_selection=None)
    names = {f"d{number}": lines(*angles) for number, angles in enumerate(texts)}
    more = {
        f"copy {n} of {number}": names[f"d{number}"]
        for n, number in enumerate(copies)
        if number < len(texts)
    }
    source = make_retriever({**names, **more})
    chunks = chunks_by_source(source)
    found = data.draw(st.permutations([chunk for name in chunks for chunk in chunks[name]]))
    # The best candidate decides which one of those with the same text counts.
    first: dict[str, str] = {}
    for chunk in found:
        name = chunk.metadata["doc_id"]
        first.setdefault({**names, **more}[name], name)
    alone = [chunk for chunk in found if chunk.metadata["doc_id"] in first.values()]

    def answer(candidates: list[Document], **kwargs: Any) -> list[Document]:
        retriever = RSERetriever(
            base_retriever=FixedRetriever(documents=candidates),
            candidates_only=False,
            docstore=source.docstore,
            config=config,
            max_context_length=budget,
        )
        return retriever.invoke(QUERY, **kwargs)

    assert answer(found) == answer(alone, duplicates="keep")
