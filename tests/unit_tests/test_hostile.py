"""What strangers send takes time in proportion to its size: such tests would not end otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse._asking import quote
from langchain_rse.cli.webpages import read_html
from langchain_rse.ingest.alignment import align
from langchain_rse.ingest.default_splitter import default_text_splitter
from langchain_rse.ingest.splitting import find_spans
from langchain_rse.text.words import MAX_QUERY_LENGTH
from langchain_rse.tools import create_rse_tool, verify_quotes
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

LENGTH = 150_000


class Given:
    """A splitter that returns the chunks that it was made with."""

    def __init__(self, chunks: list[str]) -> None:
        self.chunks = chunks

    def split_text(self, _: str) -> list[str]:
        return self.chunks


def find_chunks(text: str) -> object:
    return find_spans(text, Given([text[start : start + 500] for start in range(0, LENGTH, 500)]))


def check_quotations(text: str) -> object:
    return verify_quotes(text, [Document("The whale swam past the harbor.")])


@pytest.mark.parametrize(
    ("read", "pattern"),
    [
        (find_chunks, "-"),
        (lambda text: find_spans(text, default_text_splitter()), "``` a\n"),
        (read_html, "<div>"),
        (lambda text: read_html(text[: LENGTH // 5]), "<table><tr><td>a"),
        (lambda text: read_html(text[: LENGTH // 5]), "<ol><li>a<blockquote>b"),
        (check_quotations, ".'a"),
        (lambda text: quote("text", text), "<text"),
    ],
)
def test_a_long_text_is_read_to_its_end(read: Callable[[str], object], pattern: str) -> None:
    read((pattern * LENGTH)[:LENGTH])


def test_the_last_place_of_a_long_chunk_in_text_that_nearly_repeats_it() -> None:
    # str.rfind takes the product of both lengths: hours.
    chunk = "ab" + "a" * 300_000
    text = chunk + "a" * 600_000
    placement = align(text, [chunk, "a" * 600_000])
    assert not isinstance(placement, int)
    assert placement.spans[0] == (0, len(chunk))


def test_unknown_text_that_fits_in_many_ways_but_not_to_the_end() -> None:
    text = "a\u2603" * 20_000
    unknown = " [UNK] ".join("a" * 100)
    placement = align(text, [f"{unknown} z"])
    assert placement == 0  # the chunk is nowhere


# Queries


class AllAlike(fakes.BagOfWords):
    """Finds the same chunks for each query, so that only words tell queries apart."""

    def embed_query(self, text: str) -> list[float]:
        del text
        return super().embed_query("the 1")


def make_retriever(**fields: Any) -> RSERetriever:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(AllAlike()),
        docstore=SQLDocStore("sqlite://", lexical=True),
        **fields,
    )
    texts = ["The whale swam past the harbor.", "Costs rose by 12% in 2018.", "Nothing else."]
    documents = [
        Document(f"{text} {number}", metadata={"title": f"report {number}"})
        for number, text in enumerate(texts * 5)
    ]
    retriever.add_documents(documents, ids=[str(number) for number in range(len(documents))])
    return retriever


def long_query(length: int) -> str:
    """Different words, since repeated ones cost less."""
    return " ".join(f"w{number}" for number in range(length // 3))[:length]


def test_only_words_at_the_beginning_of_a_long_query_count(way: Way) -> None:
    # With all of its words, such a query took gigabytes, and an event loop did nothing else.
    retriever = make_retriever(hybrid=0.5)
    rest = long_query(1_000_000)
    answers = []
    for beginning in ("whale harbor ", "costs rose "):
        expected = way.invoke(retriever, beginning + rest[: MAX_QUERY_LENGTH - len(beginning)])
        query = (beginning + rest[: MAX_QUERY_LENGTH - len(beginning)] + " nothing else " + rest)[
            :1_000_000
        ]
        with pytest.warns(UserWarning, match=r"1,000,000 characters, but keyword"):
            passages = way.invoke(retriever, query)
        assert passages == expected
        answers.append([passage.metadata["rse"] for passage in passages])
    first, second = answers
    assert first != second  # these words count


def test_the_vector_store_and_the_wrapped_retriever_get_all_of_a_long_query() -> None:
    asked: list[str] = []
    retriever = make_retriever()

    class Wrapped(fakes.FixedRetriever):
        def _get_relevant_documents(
            self, query: str, *, run_manager: Any, **kwargs: Any
        ) -> list[Document]:
            asked.append(query)
            return super()._get_relevant_documents(query, run_manager=run_manager, **kwargs)

    wrapping = RSERetriever(base_retriever=Wrapped(documents=[]), docstore=retriever.docstore)
    query = long_query(MAX_QUERY_LENGTH + 100)
    with pytest.warns(UserWarning, match="The vector store and the reranker get all of it"):
        wrapping.invoke(query)
    assert asked == [query]


def test_tools_refuse_a_long_query() -> None:
    tool = create_rse_tool(make_retriever())
    call = {"name": tool.name, "args": {"query": "a " * 5_001}, "id": "1", "type": "tool_call"}
    message = tool.invoke(call)
    assert message.status == "error"
    assert re.search(r"query.*10000 characters", str(message.content), re.DOTALL)
    assert len(str(message.content)) < 1_000
