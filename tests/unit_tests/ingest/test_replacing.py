"""Warnings for documents that replace another one with the same source by mistake."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

TWEETS = ("Herons fish at dawn.", "Margins rose by two points!", "明日は雨です。")


@pytest.fixture
def retriever() -> RSERetriever:
    return RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()), docstore=InMemoryByteStore()
    )


def tweet(text: str, source: str = "tweet") -> Document:
    return Document(text, metadata={"source": source})


@fakes.both_ways
def test_a_replacement_that_shares_nothing(way: Way, retriever: RSERetriever) -> None:
    way.add(retriever, [tweet(TWEETS[0]), tweet(TWEETS[0], "other")])
    said = r"1 document.*\('tweet'\).*no sentence in common.*separate=True.*new versions.*ids="
    for text in TWEETS[1:]:
        with pytest.warns(UserWarning, match=said) as warned:
            way.add(retriever, [tweet(text), tweet(TWEETS[0], "other")])
        assert [warning.filename for warning in warned] == [fakes.__file__]
    assert retriever.text("tweet") == TWEETS[-1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Herons fish at dawn. Otters sleep.", "Foxes hunt. herons  fish at dawn!"),
        ("Herons fish\nat dawn. Otters sleep.", "Herons fish at dawn. Foxes hunt."),
        ("- herons\n- otters", "- foxes\r\n- otters\r\n- owls"),
        ("Herons fish at dawn in all rivers", "Herons fish at dawn in all lakes"),
        ("雨です。晴れです。", "雪です。雨です。"),
        (" \n", "Herons fish at dawn."),
        ("Herons fish at dawn.", ""),
    ],
    ids=[
        "sentence",
        "broken line",
        "list",
        "same beginning",
        "no spaces",
        "from nothing",
        "to nothing",
    ],
)
@pytest.mark.filterwarnings("ignore:.*have no text")
def test_a_new_version_is_not_warned_of(
    way: Way, retriever: RSERetriever, before: str, after: str
) -> None:
    way.add(retriever, [tweet(before)])
    way.add(retriever, [tweet(after)])
    assert [document.length for document in retriever.documents()] == [len(after)]


def test_ids_that_were_given_are_meant(way: Way, retriever: RSERetriever) -> None:
    for text in TWEETS:
        way.add(retriever, [tweet(text)], ids=["tweet"])
        way.add(retriever, [Document(text, metadata={"doc_id": "b", "source": "tweet"})])
    assert len(retriever.documents()) == 2


def test_a_row_may_change_as_a_whole(way: Way, retriever: RSERetriever) -> None:
    for text in TWEETS:
        way.add(retriever, [Document(text, metadata={"source": "p.csv", "row": 3})])
    assert retriever.text("p.csv, row 3") == TWEETS[-1]
