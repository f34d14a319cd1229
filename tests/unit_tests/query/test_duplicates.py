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


def test_the_same_text_comes_once() -> None:
    retriever = make_retriever({"./a": TEXT, "/folder/a": TEXT, "b": lines(20, name="other")})
    once = ask(retriever, QUERY)
    assert [segment.page_content for segment in once] == ["c0 0\nc1 10\n", "other0 20\n"]
    assert [chunk["rank"] for s in once for chunk in s.metadata["rse"]["chunks"]] == [0, 1, 2]
    twice = ask(retriever, QUERY, duplicates="keep")
    assert [s.page_content for s in twice] == ["c0 0\nc1 10\n"] * 2 + ["other0 20\n"]


def test_the_budget_goes_to_other_texts() -> None:
    retriever = make_retriever({"a": "a 0\n", "copy": "a 0\n", "b": "b 20\n"}, max_context_length=9)
    assert {s.page_content for s in ask(retriever, QUERY)} == {"a 0\n", "b 20\n"}
    kept = ask(retriever, QUERY, duplicates="keep")
    assert [s.page_content for s in kept] == ["a 0\n", "a 0\n"]


def test_it_can_be_set_at_construction() -> None:
    retriever = make_retriever({"a": TEXT, "b": TEXT}, duplicates="keep")
    assert len(retriever.invoke(QUERY)) == 2
    with pytest.raises(ValueError, match=r"(?s)duplicates.*'drop', 'drop_near' or 'keep'"):
        make_retriever({}, duplicates="once")


def chunks_by_source(source: RSERetriever) -> dict[str, list[Document]]:
    chunks: dict[str, list[Document]] = {}
    for chunk in source.chunks():
        chunks.setdefault(chunk.metadata["doc_id"], []).append(chunk)
    return chunks


def test_the_document_with_the_best_candidate_counts() -> None:
    source = make_retriever({"a": TEXT, "b": TEXT})
    chunks = chunks_by_source(source)
    found = [chunks["b"][1], *chunks["a"], chunks["b"][0]]
    retriever = RSERetriever(
        base_retriever=FixedRetriever(documents=found),
        candidates_only=False,
        docstore=source.docstore,
        config=fakes.EVERYTHING.replace(lexical_weight=0.0),
    )
    (segment,) = ask(retriever, QUERY)
    assert segment.metadata["source"] == "b"
    ranks = {c["index"]: c["rank"] for c in segment.metadata["rse"]["chunks"] if "rank" in c}
    assert ranks == {0: 1, 1: 0}


def test_an_old_version_is_no_reason_to_drop_a_text() -> None:
    source = make_retriever({"a": TEXT})
    old = list(source.chunks())
    source.add_documents([Document("a new text 0\n", metadata={"source": "a"})], ids=["a"])
    source.add_documents([Document(TEXT, metadata={"source": "b"})])
    retriever = RSERetriever(
        base_retriever=FixedRetriever(documents=[*old, *chunks_by_source(source)["b"]]),
        candidates_only=False,
        docstore=source.docstore,
        config=fakes.EVERYTHING,
    )
    assert [s.metadata["source"] for s in ask(retriever, QUERY)] == ["b"]


def test_only_what_passes_the_filter_counts() -> None:
    retriever = make_retriever({"secret": TEXT, "public": TEXT})

    def public(document: Document) -> bool:
        return bool(document.metadata["source"] == "public")

    segments = ask(retriever, QUERY, filter=public, candidates_only=True)
    assert ranges(segments) == [("public", 0, 2)]


def test_other_headers_make_no_other_text() -> None:
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
    assert len(ask(retriever, QUERY)) == 1
    assert len(ask(retriever, QUERY, duplicates="keep")) == 2


@pytest.mark.parametrize("hybrid", [0.0, 0.5, 1.0])
def test_words_find_one_of_them(hybrid: float) -> None:
    retriever = make_retriever(
        {"a": TEXT, "b": TEXT},
        docstore=SQLDocStore("sqlite://", lexical=True),
        hybrid=hybrid,
        config=fakes.EVERYTHING,
    )
    assert len(ask(retriever, "c1 10")) == 1


def test_further_documents_take_the_place_of_copies() -> None:
    texts = {f"copy {number}": TEXT for number in range(5)}
    retriever = make_retriever(
        {**texts, "b": lines(20, name="other")}, top_k_for_document_selection=4
    )
    assert [s.page_content for s in ask(retriever, QUERY)] == [
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
    # Without words, the best candidate is the first.
    config = preset.replace(lexical_weight=0.0, top_k_for_document_selection=None)
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


# Nearly the same


WORDS = "the buyer shall pay the price within thirty days of the date on which the invoice is due"


def report(*paragraphs: str) -> str:
    return "".join(f"{paragraph}\n" for paragraph in paragraphs)


def in_words(texts: dict[str, str], **kwargs: Any) -> RSERetriever:
    """A retriever by words, of which each line is a chunk."""
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        text_splitter=fakes.Lines(),
        **{"config": fakes.EVERYTHING, **kwargs},
    )
    retriever.add_documents([Document(text) for text in texts.values()], ids=texts)
    return retriever


def places(segments: list[Document]) -> set[tuple[str, int]]:
    return {
        (segment.metadata["doc_id"], chunk["index"])
        for segment in segments
        for chunk in segment.metadata["rse"]["chunks"]
    }


def test_nearly_the_same_text_comes_once_if_asked_for() -> None:
    texts = {
        "a": report(f"{WORDS} and so on", "apples are red"),
        # One word more at its end, other signs and letters: 16 of 17 rows of five words.
        "b": report(f"{WORDS.upper()}, AND SO FORTH ...", "pears are green"),
    }
    retriever = in_words(texts)
    query = f"{WORDS} and so on"
    assert len(places(ask(retriever, query))) == 4
    found = ask(retriever, query, duplicates="drop_near")
    assert places(found) == {("a", 0), ("a", 1), ("b", 1)}
    ranks = {chunk["rank"] for s in found for chunk in s.metadata["rse"]["chunks"]}
    assert ranks == {0, 1, 2}
    # By default too, though its neighbor would give it credit.
    balanced = in_words(texts, config="balanced", duplicates="drop_near")
    assert ("b", 0) not in places(ask(balanced, f"{query} apples are red pears"))
    between = in_words({"a": texts["a"], "b": report("green pears", WORDS, "pears are green")})
    found = ask(between, f"{query} pears", duplicates="drop_near", segment_cost=3.0)
    assert {("b", 0), ("b", 1), ("b", 2)} <= places(found)
    # The better candidate decides, whichever document was added first.
    found = ask(retriever, f"{WORDS} and so forth", duplicates="drop_near")
    assert ("b", 0) in places(found)
    assert ("a", 0) not in places(found)


def test_of_two_copies_of_a_passage_one_comes_back_whole() -> None:
    lines = [" ".join(f"word{line}{number}" for number in range(30)) for line in range(4)]
    # The documents take turns in having the better chunk: the query has a word that only one has.
    texts = {
        "a": report(f"{lines[0]} red", lines[1], f"{lines[2]} red", lines[3]),
        "b": report(lines[0], f"{lines[1]} red", lines[2], f"{lines[3]} red"),
    }
    retriever = in_words(texts, duplicates="drop_near")
    (segment,) = ask(retriever, " ".join([*lines, "red red red"]))
    assert segment.page_content in texts.values()


def test_a_part_of_a_better_text_is_a_copy_and_more_than_it_is_none() -> None:
    long, short = f"{WORDS} {' '.join(f'more{n}' for n in range(20))}", WORDS
    retriever = in_words({"a": report(long), "b": report(short)}, duplicates="drop_near")
    assert places(ask(retriever, long)) == {("a", 0)}
    assert places(ask(retriever, short)) == {("a", 0), ("b", 0)}


def test_what_a_document_says_twice_stays() -> None:
    retriever = in_words({"a": report(WORDS, "apples are red", f"{WORDS} ")})
    assert len(places(ask(retriever, WORDS, duplicates="drop_near"))) == 3


def test_headers_make_no_copies_and_no_difference() -> None:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        text_splitter=fakes.Lines(),
        headers=DocumentHeaders(),
        config=fakes.EVERYTHING,
        duplicates="drop_near",
    )
    long = "the annual report of a company that makes pumps and seals in many countries"
    texts = {
        f"{long} since 1970": report("apples"),
        f"{long} since 1980": report("pears"),
        "a": report(WORDS),
        f"{long} since 1990": report(f"{WORDS} sharp"),
    }
    retriever.add_documents([Document(t, metadata={"doc_id": n, "title": n}) for n, t in texts.items()])
    assert len(ask(retriever, "apples pears")) == 3
    assert len(ask(retriever, "apples pears", duplicates="drop")) == 4


def test_an_old_version_is_no_reason_to_drop_what_is_nearly_the_same() -> None:
    source = in_words({"a": report(WORDS)})
    old = list(source.chunks())
    source.add_documents([Document("a new text\n")], ids=["a"])
    source.add_documents([Document(report(f"{WORDS} sharp"))], ids=["b"])
    retriever = RSERetriever(
        base_retriever=FixedRetriever(documents=[*old, *chunks_by_source(source)["b"]]),
        candidates_only=False,
        docstore=source.docstore,
        config=fakes.EVERYTHING,
        duplicates="drop_near",
    )
    assert places(ask(retriever, WORDS)) == {("b", 0)}


@given(
    st.lists(
        st.lists(st.sampled_from([WORDS, f"{WORDS} sharp", "apples are red", "x", "..."])),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([fakes.EVERYTHING, PRESETS["dsrag-balanced"], PRESETS["balanced"]]),
)
def test_nothing_is_lost_that_is_not_in_a_better_candidate(
    texts: list[list[str]], config: RSEConfig
) -> None:
    retriever = in_words(
        {str(n): report(*lines) for n, lines in enumerate(texts) if lines},
        config=config.replace(top_k_for_document_selection=None),
    )
    every = retriever.invoke(WORDS, duplicates="drop")
    fewer = retriever.invoke(WORDS, duplicates="drop_near")
    assert bool(every) == bool(fewer)
    if config is fakes.EVERYTHING:
        kept = [s.page_content.replace(" sharp", "") for s in fewer]
        for segment in every:
            for line in segment.page_content.replace(" sharp", "").splitlines():
                assert any(line in text for text in kept)
