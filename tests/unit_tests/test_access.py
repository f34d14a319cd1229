"""Whole documents: whoever reads or lists them gets those that the search's filters let through."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.errors import MissingRecordError
from langchain_rse.finding import Pattern, find
from langchain_rse.tools import create_rse_tools
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way, lines, make_retriever

way = fakes.way

PUBLIC, FINANCE = lines(0, 10, name="public"), lines(20, 30, name="finance")


def make(**fields: Any) -> RSERetriever:
    retriever = make_retriever({}, **fields)
    writer = make_retriever({}) if "base_retriever" in fields else retriever
    writer.add_documents(
        [
            Document(PUBLIC, id="public", metadata={"group": "all", "year": 2024}),
            Document(FINANCE, id="finance", metadata={"group": "finance", "year": 2023}),
            Document("page 0\n", metadata={"doc_id": "mixed", "group": "all", "page": 0}),
            Document("page 1\n", metadata={"doc_id": "mixed", "group": "finance", "page": 1}),
        ]
    )
    return retriever


def listed(way: Way, retriever: RSERetriever) -> list[str]:
    documents = way.call(retriever.documents, retriever.adocuments)
    return [document.doc_id for document in documents]


def read(way: Way, retriever: RSERetriever, doc_id: str) -> str:
    text: str = way.call(lambda: retriever.text(doc_id), lambda: retriever.atext(doc_id))
    return text


@fakes.both_ways
def test_without_a_filter_everything_is_read(way: Way) -> None:
    retriever = make()
    assert listed(way, retriever) == ["finance", "mixed", "public"]
    (_, _, public) = way.call(retriever.documents, retriever.adocuments)
    assert (public.length, public.metadata["year"]) == (len(PUBLIC), 2024)
    assert read(way, retriever, "finance") == FINANCE
    assert len(list(retriever.indexer.chunks())) == 6
    with pytest.raises(MissingRecordError, match="there is no document 'b'"):
        read(way, retriever, "b")


@fakes.both_ways
def test_a_filter_of_the_search_holds_for_whole_documents(way: Way) -> None:
    retriever = make(search_kwargs={"filter": {"group": "all"}})
    assert listed(way, retriever) == ["public"]  # of "mixed", some is not for all
    assert read(way, retriever, "public") == PUBLIC
    for hidden in ("finance", "mixed"):
        with pytest.raises(MissingRecordError, match=r"excludes it; documents\(\) lists public$"):
            read(way, retriever, hidden)


@fakes.both_ways
def test_around_a_passage(way: Way) -> None:
    retriever = make_retriever({"a": lines(0, 90, 90, 0, 90)})
    passage = retriever.invoke("q 0", k=1)[0]
    start, end = passage.metadata["start_index"], passage.metadata["end_index"]
    text = retriever.text("a")

    def around(passage: Document, length: int) -> Document:
        found: Document = way.call(
            lambda: retriever.around(passage, length), lambda: retriever.aaround(passage, length)
        )
        return found

    assert around(passage, 0).page_content == passage.page_content
    for length in (1, 4, 10_000):
        longer = around(passage, length)
        first, last = max(start - length, 0), min(end + length, len(text))
        assert longer.page_content == text[first:last]
        assert (longer.metadata["start_index"], longer.metadata["end_index"]) == (first, last)
    with pytest.raises(ValueError, match="length must be at least 0; got -1"):
        around(passage, -1)
    with pytest.raises(ValueError, match="passage must be a Document returned by this retriever"):
        around(Document("text"), 3)
    hidden = retriever.model_copy(update={"search_kwargs": {"filter": {"group": "none"}}})
    with pytest.raises(MissingRecordError, match="or the filter excludes it"):
        hidden.around(passage, 3)
    retriever.add_documents([Document(lines(5), id="a")])
    with pytest.raises(MissingRecordError, match="the document was replaced"):
        around(passage, 3)


NOT_UNDERSTOOD: dict[str, dict[str, Any]] = {
    "function": {"filter": lambda document: document.metadata["group"] == "all"},
    "not": {"filter": {"$not": {"group": "finance"}}},
    "where": {"where": "group = 'all'"},
    "partition": {"namespace": "all"},
}


@pytest.mark.parametrize("name", NOT_UNDERSTOOD)
def test_a_filter_that_is_not_understood_is_refused(way: Way, name: str) -> None:
    retriever = make().model_copy(update={"search_kwargs": NOT_UNDERSTOOD[name]})
    for ask in (
        lambda: listed(way, retriever),
        lambda: read(way, retriever, "public"),
    ):
        with pytest.raises(ValueError, match="cannot be applied to a whole document"):
            ask()


def test_a_retriever_that_may_filter_is_refused(way: Way) -> None:
    class Rights(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            raise NotImplementedError

    docstore = make().docstore
    retriever = RSERetriever(base_retriever=Rights(), docstore=docstore)
    with pytest.raises(ValueError, match="Rights may exclude documents"):
        listed(way, retriever)
    retriever = RSERetriever(base_retriever=Rights(), docstore=docstore, candidates_only=False)
    assert listed(way, retriever) == ["finance", "mixed", "public"]


# Beside a busy writer


class BusyStore(InMemoryStore):
    """A docstore in which a document is replaced whenever a chunk of it is about to be read."""

    replace: Callable[[], object] | None = None
    left = 3

    def mget(self, keys: Sequence[str]) -> list[Any]:
        is_chunk = any(key[-1].isdecimal() and key.count("/") == 2 for key in keys)
        if is_chunk and self.replace is not None and self.left:
            self.left -= 1
            replace, self.replace = self.replace, None  # the writer reads, too
            replace()
            self.replace = replace
        return super().mget(keys)


def test_a_document_that_is_replaced_meanwhile_is_read_again() -> None:
    docstore = BusyStore()
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=docstore,
        text_splitter=fakes.Lines(),
    )
    versions = itertools.count()

    def replace() -> None:
        text = f"# Heading\nharbor {next(versions)}\n"
        retriever.add_documents([Document(text, id="d")])

    replace()
    docstore.replace = replace
    assert retriever.text("d") == "# Heading\nharbor 3\n"
    docstore.left = 3
    page = find(retriever.document_access(), Pattern("harbor"))
    assert [match.doc_id for match in page.matches] == ["d"]
    docstore.left = 3
    [outline] = [tool for tool in create_rse_tools(retriever) if tool.name == "outline"]
    assert "Heading (0–19)" in outline.invoke({"document": "d"})
