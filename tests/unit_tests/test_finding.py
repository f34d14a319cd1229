"""Patterns in all documents: what a search of each document's whole text finds, page by page."""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import BaseStore, InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import TextSplitter

from langchain_rse import ExistingIndex, RSERetriever, SQLDocStore, finding
from langchain_rse._sync import in_thread
from langchain_rse.finding import MatchPage, Pattern, find, read_section
from langchain_rse.stores.conditions import matches
from langchain_rse.tools import create_rse_tools
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way, make_retriever

way = fakes.way

DOCSTORES: dict[str, Callable[[], BaseStore[str, Any]]] = {
    "sqlite": lambda: SQLDocStore("sqlite://"),
    "bytes": InMemoryByteStore,
}
TEXTS = st.text(alphabet="abAB  \n\t\u2003éÉß\u0301\ud800", min_size=1, max_size=30)
EXPRESSIONS = st.sampled_from(["a+", "[ab]\\s", "^b", ".$", "é|ab", "a*", "(?-i:A).", "\\n\\n"])
LITERALS = TEXTS.map(lambda text: text[:3]).filter(lambda text: not text.isspace())
CUT = st.integers(2, 9)


class Cuts(TextSplitter):
    """Cuts after so many characters, also inside words."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def split_text(self, text: str) -> list[str]:
        return [text[at : at + self.size] for at in range(0, len(text), self.size)]


def expected(
    retriever: RSERetriever, pattern: Pattern, filters: Sequence[dict[str, Any]]
) -> Iterator[tuple[str, int, int, int, tuple[int, int]]]:
    """All matches, by the whole texts of the documents that may be read."""
    for document in retriever.documents():
        metadata = {**document.metadata, "doc_id": document.doc_id}
        if not all(matches(condition, metadata) for condition in filters):
            continue
        text = retriever.text(document.doc_id)
        if text.isspace():  # it has no passages
            continue
        for start, end in pattern.find(text):
            first = text.rfind("\n", 0, start) + 1
            last = text.find("\n", end)
            lines = (first, len(text) if last < 0 else last)
            yield document.doc_id, start, end, text.count("\n", 0, start) + 1, lines


def check(retriever: RSERetriever, data: st.DataObject) -> None:
    """Compare a page of the matches of a random pattern, and read the passages of its matches."""
    regex = data.draw(st.booleans())
    pattern = Pattern(data.draw(EXPRESSIONS if regex else LITERALS), regex=regex)
    filters = data.draw(st.sampled_from([[], [{"group": 1}], [{"doc_id": {"$ne": "0"}}]]))
    offset, limit = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 6) | st.just(1_000))
    access = retriever.document_access()
    page = find(access, pattern, filters=filters, offset=offset, limit=limit)
    everything = list(expected(retriever, pattern, filters))
    assert page.total == len(everything)
    assert page.documents == len({doc_id for doc_id, *_ in everything})
    found = [(each.doc_id, each.start, each.end, each.line, each.around) for each in page.matches]
    assert found == everything[offset : offset + limit]
    for match in page.matches[:3]:
        passage = access.passage(match.manifest, *match.around)
        text = passage.page_content
        assert text == retriever.text(match.doc_id)[slice(*match.around)]
        start = match.start - match.around[0]
        inside = text[start : start + match.end - match.start]
        assert len(inside) == match.end - match.start
        assert passage.metadata["start_index"] == match.around[0]


@given(data=st.data())
def test_a_page_equals_that_of_the_whole_texts(data: st.DataObject) -> None:
    """Two namespaces or none in one pair of stores, that change between calls."""
    docstore = DOCSTORES[data.draw(st.sampled_from(sorted(DOCSTORES)))]()
    vectorstore = InMemoryVectorStore(fakes.BagOfWords())
    retrievers = []
    for namespace in data.draw(st.sampled_from([[""], ["one", "two"]])):
        retriever = RSERetriever(
            vectorstore=vectorstore,
            docstore=docstore,
            namespace=namespace,
            text_splitter=Cuts(data.draw(CUT)),
            search_kwargs=data.draw(st.sampled_from([{}, {"filter": {"group": {"$gte": 1}}}])),
        )
        retrievers.append(retriever)
    for _ in range(data.draw(st.integers(1, 4))):
        retriever = data.draw(st.sampled_from(retrievers))
        writer = retriever.indexer
        texts = data.draw(st.dictionaries(st.sampled_from("0123"), TEXTS, max_size=3))
        documents = [
            Document(text, id=name, metadata={"group": data.draw(st.integers(0, 2))})
            for name, text in texts.items()
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some documents have no text
            writer.add_documents(documents)
        stored = [each.doc_id for each in retriever.documents()]
        if stored and data.draw(st.booleans()):
            writer.delete([data.draw(st.sampled_from(stored))])
        for each in retrievers:
            check(each, data)


def ids(page: MatchPage) -> list[str]:
    return [match.doc_id for match in page.matches]


@fakes.both_ways
def test_what_may_not_be_read_is_not_found(way: Way) -> None:
    retriever = make_retriever({})

    def found(text: str, **arguments: Any) -> list[str]:
        afind = functools.partial(in_thread, find)
        return ids(way.call(find, afind, retriever.document_access(), Pattern(text), **arguments))

    retriever.add_documents(
        [Document(f"word {n} 0\n", id=f"{n}", metadata={"group": n % 2}) for n in range(4)]
    )
    assert found("WORD") == ["0", "1", "2", "3"]
    assert found("word", filters=[{"group": 1}]) == ["1", "3"]
    retriever = retriever.model_copy(update={"search_kwargs": {"filter": {"group": 0}}})
    assert found("word") == ["0", "2"]
    assert found("word", filters=[{"group": 1}]) == []
    retriever.add_documents([Document("other 0\n", id="2", metadata={"group": 0})])
    assert (found("word"), found("other")) == (["0"], ["2"])
    retriever = retriever.model_copy(update={"search_kwargs": {"filter": lambda _: True}})
    with pytest.raises(ValueError, match="cannot be applied to a whole document"):
        found("word")


def test_a_version_that_is_not_current_is_not_found() -> None:
    writes = fakes.Writes()
    for call in itertools.count():
        watched = fakes.WatchedDocStore(InMemoryByteStore(), writes)
        writes.fail_at(None)
        retriever = make_retriever({"a": "old 0\n", "b": "old 1\n"}, docstore=watched)
        writes.fail_at(call)
        try:
            retriever.add_documents([Document("new 0\n", id="a")])
        except fakes.CrashError:
            has_failed = True
        else:
            has_failed = False
        for word in ("old", "new"):
            names = [each.doc_id for each in retriever.documents()]
            holders = [name for name in names if word in retriever.text(name)]
            assert ids(find(retriever.document_access(), Pattern(word))) == holders
        if not has_failed:
            break
    assert call > 3


def test_unreadable_documents_are_excluded_with_a_warning() -> None:
    docstore = InMemoryByteStore()
    retriever = make_retriever({"a": "word 0\n", "b": "word 1\nword 2\n"}, docstore=docstore)
    access = retriever.document_access()
    by_id = {each.doc_id: each for each in access.manifests()}
    b = by_id["b"]
    assert b.current is not None
    key = f"{b.key}/{b.current.name}/0"
    docstore.store[key] = b"{}"
    page = find(access, Pattern("word"))
    assert [(each.doc_id, each.start) for each in page.matches] == [("a", 0), ("b", 7)]
    docstore.mdelete([key])
    assert find(access, Pattern("word")).total == 2
    docstore.store[f"manifest/{b.key}"] = b"{}"
    with pytest.warns(UserWarning, match="excluded 1 document of the docstore"):
        assert ids(find(access, Pattern("word"))) == ["a"]


def test_matches_never_cross_a_gap() -> None:
    chunks = [(0, "one word\n"), (9, "two\nwo"), (60, "rd and\nword")]
    vectorstore = InMemoryVectorStore(fakes.BagOfWords())
    vectorstore.add_documents(
        [Document(text, metadata={"source": "a", "start_index": at}) for at, text in chunks]
    )
    retriever = RSERetriever(vectorstore=vectorstore, docstore=InMemoryByteStore())
    retriever.indexer.adopt(ExistingIndex(doc_id_key="source", start_index_key="start_index"))
    page = find(retriever.document_access(), Pattern("word"))
    found = [(match.start, match.line, match.around) for match in page.matches]
    assert found == [(4, 1, (0, 8)), (67, 4, (67, 71))]
    access = retriever.document_access()
    passages = [access.passage(each.manifest, *each.around) for each in page.matches]
    assert [passage.page_content for passage in passages] == ["one word", "word"]


async def test_a_call_ends_after_its_caller_was_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_BATCH", 1)
    retriever = make_retriever({f"{number}": f"word {number}\n" for number in range(50)})
    counted = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Slow(Pattern):
        calls = 0

        def find(self, text: str) -> Iterator[tuple[int, int]]:
            Slow.calls += 1
            loop.call_soon_threadsafe(counted.set)
            return super().find(text)

    access = retriever.document_access()
    task = asyncio.create_task(in_thread(find, access, Slow("word")))
    await counted.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert Slow.calls < 10
    assert (await in_thread(find, access, Pattern("word"))).total == 50


def test_matches_that_each_read_all_of_a_text_end_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a whole, they would take time by the square of its length."""
    monkeypatch.setattr(finding, "_MOST_SECONDS", 0.05)
    texts = {"a": "plain words " * 8_000 + "0\n", "b": "needle 1\n"}
    tools = {tool.name: tool for tool in create_rse_tools(make_retriever(texts))}
    threads = threading.active_count()

    async def ask(pattern: str) -> Any:
        arguments = {"pattern": pattern, "regex": True}
        call = {"name": "find", "args": arguments, "id": "1", "type": "tool_call"}
        return await tools["find"].ainvoke(call)

    for number in range(12):
        expression = rf"[{chr(97 + number % 26)}\w](?:(?s:.*)\x{{{number + 1000:x}}})?"
        answer = asyncio.run(ask(expression))
        assert answer.status == "error"
        assert "finding the pattern takes more than" in answer.content
    for _ in range(100):  # a thread ends soon after its answer
        if threading.active_count() > threads:
            time.sleep(0.01)
    assert threading.active_count() <= threads
    started = time.monotonic()
    assert asyncio.run(ask("needle")).status == "success"
    assert time.monotonic() - started < 1


OUTLINED = """# Guide

Text.

## Set up

How to set up.

## Set  up on Windows

More.

# Usage

## Errors

One.

# Reference

## Errors

Two.
"""


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("guide", OUTLINED[: OUTLINED.index("# Usage")]),
        (" SET\nUP ", "## Set up\n\nHow to set up.\n\n"),
        ("windows", "## Set  up on Windows\n\nMore.\n\n"),
        ("refer", "# Reference\n\n## Errors\n\nTwo.\n"),
    ],
)
def test_a_section_is_found_by_its_title(title: str, text: str) -> None:
    retriever = RSERetriever.from_documents([Document(OUTLINED, id="a")], fakes.BagOfWords())
    access = retriever.document_access()
    section = read_section(access, access.manifest("a"), title)
    assert OUTLINED[section.start : section.end] == text
    assert access.passage(access.manifest("a"), section.start, section.end).page_content == text
