"""How much comes back: within the budget, in any unit, and never the same text twice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSERetriever
from langchain_rse.config import PRESETS, RSEConfig
from langchain_rse.stores.records import chunk_key, document_key
from tests.unit_tests import fakes
from tests.unit_tests.fakes import PLAIN, ask, lines, make_retriever, ranges
from tests.unit_tests.test_retriever import GREEDY
from tests.unit_tests.writes import without_writes

TEXTS = {"a": lines(0, 10, 85, 20, name="a"), "b": lines(30, 90, 5, 100, name="bb")}
CONFIGS = {"exact": PLAIN, "greedy": GREEDY, "balanced": PRESETS["balanced"]}


def total(passages: Sequence[Document], length_function: Callable[[str], float] = len) -> float:
    return sum(length_function(passage.page_content) for passage in passages)


@pytest.mark.parametrize("config", CONFIGS)
def test_the_budget_is_filled_up_to_the_first_chunk_that_does_not_fit(config: str) -> None:
    retriever = make_retriever(TEXTS, config=CONFIGS[config])
    found: list[Document] = []
    for budget in range(1, 60):
        before, found = found, ask(retriever, max_context_length=budget)
        if found != before:  # a character less would not have been enough
            assert total(found) == budget
    assert found == ask(retriever, max_context_length=None)


def test_the_budget_by_hand() -> None:
    retriever = make_retriever(TEXTS, order="relevance")

    def asked(budget: float, **arguments: Any) -> list[tuple[str, int, int]]:
        return ranges(ask(retriever, max_context_length=budget, **arguments))

    # The chunks by relevance: "a0 0", then "bb2 5", "a1 10", "a3 20" and "bb0 30".
    assert asked(1) == []
    assert asked(4) == asked(5) == [("a", 0, 1)]
    assert asked(11) == [("b", 2, 3), ("a", 0, 1)]
    assert asked(17) == [("a", 0, 2), ("b", 2, 3)]
    assert asked(17, k=1) == [("a", 0, 2)]
    assert asked(17, k=5) == asked(17)
    assert asked(23) == [("a", 0, 2), ("b", 2, 3), ("a", 3, 4)]
    assert asked(30) == [("a", 0, 2), ("b", 2, 3), ("a", 3, 4), ("b", 0, 1)]
    assert asked(1000) == asked(30)
    in_words = ask(retriever, max_context_length=4, length_function=fakes.words)
    assert total(in_words, fakes.words) == 4


@pytest.mark.parametrize("unit", fakes.LENGTHS)
@pytest.mark.parametrize("config", CONFIGS)
def test_the_budget_in_any_unit(unit: str, config: str) -> None:
    measure = fakes.LENGTHS[unit]
    store = fakes.WatchedDocStore(InMemoryByteStore(), fakes.Writes())
    retriever = make_retriever(
        TEXTS, config=CONFIGS[config], length_function=measure, docstore=store
    )
    everything = ask(retriever, max_context_length=None)
    whole = total(everything, measure)
    for budget in range(1, math.ceil(whole)):
        store.reads.clear()
        found = ask(retriever, max_context_length=budget)
        assert total(found, measure) <= budget
        assert len(store.reads) <= 3
    if unit in ("characters", "bytes", "words"):  # of others, it depends on what is joined
        assert ask(retriever, max_context_length=whole) == everything


CLAUSE = "The price is ten dollars. It falls due in May, J. Smith agrees. The fee is 0"
CHINESE = "\u4ef7\u683c\u662f\u5341\u5143\u3002\u4e94\u6708\u5230\u671f 0"


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(
    ("clause", "budget", "expected"),
    [
        (CLAUSE, 75, "The price is ten dollars. It falls due in May, J. Smith agrees."),
        (CLAUSE, 62, "The price is ten dollars. It falls due in May, J. Smith"),  # ends with a word
        (CLAUSE, 30, "The price is ten dollars."),
        (CLAUSE, 13, "The price is"),
        (CLAUSE, 2, None),
        (CHINESE, 9, CHINESE[:6]),
        (CLAUSE + " " * 50, len(CLAUSE), CLAUSE),  # white space at its end needs no room
    ],
)
def test_the_best_chunk_is_cut_if_it_is_longer_than_the_budget(
    config: str, clause: str, budget: int, expected: str | None
) -> None:
    text = f"T 60\n{clause}\nT 70\n"
    retriever = make_retriever({"a": text}, config=CONFIGS[config])
    found = ask(retriever, max_context_length=budget)
    if expected is None:
        assert found == []  # rather than the short titles around it
        return
    [passage] = found
    assert passage.page_content == expected
    start, end = passage.metadata["start_index"], passage.metadata["end_index"]
    assert text[start:end] == expected
    in_words = ask(retriever, max_context_length=1, length_function=fakes.words)
    assert total(in_words, fakes.words) == 1
    assert text[5:].startswith(in_words[0].page_content)


@pytest.mark.parametrize("length", [None, -1, math.nan, "3" * 200])
def test_a_length_function_has_to_return_lengths(length: Any) -> None:
    retriever = make_retriever(TEXTS, length_function=lambda _: length)
    with pytest.raises(ValueError, match=r"must return a finite number >= 0; got .{2,40} for a"):
        ask(retriever)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("budget", [5, 18, 24, None])
def test_only_what_is_returned_is_read(config: str, budget: int | None) -> None:
    store = fakes.WatchedDocStore(InMemoryByteStore(), fakes.Writes())
    retriever = make_retriever(TEXTS, config=CONFIGS[config], docstore=store)
    store.reads.clear()
    passages = ask(retriever, max_context_length=budget)
    assert len(store.reads) <= 2
    texts = itertools.chain.from_iterable(store.reads[1:])
    assert {without_writes(key) for key in texts if not key.startswith("manifest/")} == {
        chunk_key(document_key(doc_id), passage.metadata["rse"]["version"], index)
        for passage, (doc_id, start, end) in zip(passages, ranges(passages), strict=True)
        for index in range(start, end)
    }


# For any text, splitter and history


class Letters(Embeddings):
    """Counts some letters: enough for a ranking."""

    def embed_query(self, text: str) -> list[float]:
        return [1.0, *(float(text.count(letter)) for letter in "abg0")]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


WORDS = ["alpha ", "beta. ", "gamma!\n", "\n\n", "é😀. ", "。", "אב ", "\t", "a", "0 g"]


@pytest.mark.filterwarnings("ignore:.*(have no text|has no documents)")
@given(
    history=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=60).map("".join),
        ),
        min_size=1,
        max_size=5,
    ),
    splitter=st.builds(
        RecursiveCharacterTextSplitter,
        chunk_size=st.integers(5, 60),
        chunk_overlap=st.integers(0, 4),
        keep_separator=st.booleans(),
    ),
    unit=st.sampled_from(list(fakes.LENGTHS)),
    config=st.builds(
        lambda preset, penalty: fakes.with_minimum(PRESETS[preset]).replace(
            irrelevant_chunk_penalty=penalty
        ),
        st.sampled_from(list(PRESETS)),
        st.sampled_from([0.0, 0.1, 0.3]),
    ),
    arguments=st.fixed_dictionaries(
        {
            "max_context_length": st.integers(1, 80) | st.none(),
            "k": st.sampled_from([None, 1, 2]),
            "order": st.sampled_from(["document", "relevance"]),
            "fetch_k": st.integers(1, 12),
            "queries": st.sampled_from([None, ["beta", "gamma"], ["0 g", "alpha", "é"]]),
        }
    ),
)
def test_slices_of_the_last_text_within_the_budget(
    *,
    history: list[tuple[str, str]],
    splitter: RecursiveCharacterTextSplitter,
    unit: str,
    config: RSEConfig,
    arguments: dict[str, Any],
) -> None:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(Letters()),
        docstore=InMemoryByteStore(),
        text_splitter=splitter,
        config=config,
        length_function=fakes.LENGTHS[unit],
    )
    for doc_id, text in history:
        retriever.add_documents([Document(text)], ids=[doc_id])
    texts = dict(history)
    passages = retriever.invoke("beta gamma", **arguments)
    taken: set[tuple[str, int]] = set()
    for passage in passages:
        metadata = passage.metadata
        place = range(metadata["start_index"], metadata["end_index"])
        assert passage.page_content == texts[metadata["doc_id"]][place.start : place.stop] != ""
        places = {(metadata["doc_id"], index) for index in place}
        assert not places & taken
        taken |= places
        # What is said of its chunks covers it, and nothing but its ends.
        chunks = metadata["rse"]["chunks"]
        start, end = metadata["rse"]["chunk_start"], metadata["rse"]["chunk_end"]
        assert [chunk["index"] for chunk in chunks] == list(range(start, end))
        assert len(place) > sum(chunk["length"] for chunk in chunks[1:-1])
        assert len(place) <= sum(chunk["length"] for chunk in chunks)
        assert metadata["relevance_score"] >= -1e-9
    if arguments["max_context_length"] is not None:
        assert total(passages, fakes.LENGTHS[unit]) <= arguments["max_context_length"]
    assert len(passages) <= (arguments["k"] or len(passages))
    assert len({passage.id for passage in passages}) == len(passages)
    if arguments["order"] == "relevance":
        worth = [passage.metadata["relevance_score"] for passage in passages]
        assert worth == sorted(worth, reverse=True)
