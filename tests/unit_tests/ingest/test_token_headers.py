"""Chunks that are split by tokens fit in with their headers, sync and async."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSEIndexer
from langchain_rse.headers import DocumentHeaders, LMBasedHeaders
from langchain_rse.ingest.tokens import TokenSplitter
from langchain_rse.stores.records import digest
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way
from tests.unit_tests.ingest.test_splitting import TEXTS
from tests.unit_tests.ingest.test_tokens import KINDS, Kind, encodable, kinds

way = fakes.way

PIECES = KINDS["word pieces"]
TEXT = "one two three here. " * 40


class Index:
    """A store of vectors, and what was split into it."""

    def __init__(
        self, splitter: TokenSplitter, headers: DocumentHeaders | None = None, **settings: Any
    ) -> None:
        self.vectorstore = InMemoryVectorStore(fakes.BagOfWords())
        self.indexer = RSEIndexer(
            self.vectorstore, InMemoryStore(), text_splitter=splitter, headers=headers, **settings
        )

    def embedded(self, doc_id: str) -> list[str]:
        return [str(vector["text"]) for vector in self._vectors(doc_id)]

    def spans(self, doc_id: str) -> list[tuple[int, int]]:
        return [
            (vector["metadata"]["start_index"], vector["metadata"]["end_index"])
            for vector in self._vectors(doc_id)
        ]

    def _vectors(self, doc_id: str) -> list[dict[str, Any]]:
        found = [v for v in self.vectorstore.store.values() if v["metadata"]["doc_id"] == doc_id]
        return sorted(found, key=lambda vector: int(vector["metadata"]["chunk_index"]))


def document(text: str, doc_id: str = "d", **metadata: Any) -> Document:
    return Document(text, metadata={"doc_id": doc_id, **metadata})


def check(index: Index, kind: Kind, most: int, text: str) -> None:
    """Nothing that is embedded is too long, and the chunks tile the text."""
    embedded = index.embedded("d")
    assert max(kind.count(text) for text in embedded) <= most
    spans = index.spans("d")
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(text)
    for (start, end), shown in zip(spans, embedded, strict=True):
        assert end > start
        assert shown.endswith(encodable(text[start:end]).replace("\0", "\ufffd"))


@kinds
@settings(max_examples=20)
@given(
    parts=st.lists(st.tuples(TEXTS, st.sampled_from(["", "Nests", "Food " * 9])), min_size=1),
    title=TEXTS,
    room=st.integers(20, 60),
    overlap=st.integers(0, 6),
    reserve=st.integers(0, 4),
)
def test_no_embedded_text_is_longer_than_the_model_reads(  # noqa: PLR0917
    kind: Kind,
    parts: Sequence[tuple[str, str]],
    title: str,
    room: int,
    overlap: int,
    reserve: int,
) -> None:
    most = room + kind.special
    splitter = kind.make(tokens_per_chunk=most + reserve, chunk_overlap=overlap, reserve=reserve)
    index = Index(splitter, DocumentHeaders(), document_separator="\n")
    documents = [document(text, title=title, section=section) for text, section in parts]
    text = "\n".join(text for text, _ in parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers that are cut
        index.indexer.add_documents(documents)
        ids = set(index.vectorstore.store)
        index.indexer.add_documents(documents)
    assert set(index.vectorstore.store) == ids
    if text.strip():
        check(index, kind, most, text)


@kinds
def test_chunks_are_filled_with_their_headers(way: Way, kind: Kind) -> None:
    most = 80 + kind.special
    index = Index(kind.make(tokens_per_chunk=most), DocumentHeaders())
    way.add(index.indexer, [document(TEXT, title="Herons of the lake")])
    check(index, kind, most, TEXT)
    lengths = [kind.count(text) for text in index.embedded("d")]
    assert min(lengths[:-1]) > most - 25  # a sentence
    assert all(text.startswith("Herons of the lake\n\n") for text in index.embedded("d"))


def test_where_there_is_room_chunks_are_what_they_are_without_headers(way: Way) -> None:
    documents = [
        document("one two three " * 15, "short", title="one two"),
        document(TEXT, "titled", title="one two three"),
    ]
    splitter = PIECES.make(tokens_per_chunk=62)
    with_headers = Index(splitter, DocumentHeaders(template="{title}"))
    way.add(with_headers.indexer, documents)
    without = Index(splitter)
    way.add(without.indexer, documents)
    assert with_headers.spans("short") == without.spans("short")
    assert with_headers.spans("titled") != without.spans("titled")


def test_the_longest_section_counts(way: Way) -> None:
    index = Index(PIECES.make(tokens_per_chunk=42), DocumentHeaders(), document_separator="")
    long = "one two three here another sentence"
    parts = [document(TEXT, title="one", section=name) for name in ("two", long, "two")]
    way.add(index.indexer, parts)
    check(index, PIECES, 42, TEXT * 3)
    assert any(text.startswith(f"one\n{long}\n\n") for text in index.embedded("d"))


def test_a_header_of_more_than_half_a_chunk_is_cut_with_one_warning(way: Way) -> None:
    index = Index(PIECES.make(tokens_per_chunk=22, chunk_overlap=4), DocumentHeaders())
    documents = [document(TEXT, title="one two three here " * 5), document(TEXT, "e", title="one")]
    with pytest.warns(UserWarning, match=r"headers of 1 document\(s\) \('d'\) have more") as caught:
        way.add(index.indexer, documents)
    assert len(caught) == 1
    check(index, PIECES, 22, TEXT)
    headers = {text.partition("\n\n")[0] for text in index.embedded("d")}
    assert headers == {"one two three here one two three here"}  # 8 of 22 - 2 - 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = set(index.vectorstore.store)
        way.add(index.indexer, documents)
    assert set(index.vectorstore.store) == before


def test_a_header_that_has_no_beginning_so_short_is_left_out(way: Way) -> None:
    index = Index(KINDS["tiktoken"].make(tokens_per_chunk=6), DocumentHeaders())
    with pytest.warns(UserWarning, match="were cut"):
        way.add(index.indexer, [document("abcdefghi", title="😀")])
    assert index.embedded("d") == ["abcdef", "ghi"]


class Asked:
    """A model that answers with one line, and what it was asked."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.model = RunnableLambda(self.answer)

    def answer(self, messages: Any) -> str:
        shown = str(messages[-1].content)
        self.shown.append(shown)
        return f"Answer {digest(shown)[:4]}"


def test_a_model_is_asked_once_however_often_a_document_is_split(way: Way) -> None:
    asked = Asked()
    headers = LMBasedHeaders(llm=asked.model)
    splitter = PIECES.make(tokens_per_chunk=100)
    index = Index(splitter, headers, document_separator="")
    text = "one two three here. " * 3
    parts = [document(text, title="T", section=f"S{number}") for number in range(12)]
    way.add(index.indexer, parts)
    check(index, PIECES, 100, text * 12)
    assert len(index.spans("d")) > len(splitter.split_spans(text * 12))
    assert len(asked.shown) == 1
    assert all("\nAnswer " in text for text in index.embedded("d"))
    ids, before = set(index.vectorstore.store), len(asked.shown)
    way.add(index.indexer, parts)
    assert set(index.vectorstore.store) == ids
    assert len(asked.shown) == before
