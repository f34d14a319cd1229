"""Odd characters in each kind of docstore: what is read is the source, at the same positions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.finding import Pattern, find
from langchain_rse.stores.embedded import open_stores
from tests.integration_tests.postgres_pair import Pair
from tests.unit_tests import fakes

ODD = {
    "high surrogate": "\ud83d",
    "low surrogate": "\ude00",
    "pair of surrogates": "\ud83d\ude00",
    "surrogates in the wrong order": "\ude00\ud83d",
    "surrogate before a character": "\ud83d\U0001f600",
    "NUL": "\0",
    "several NUL": "a\0\0b\0",
    "byte order mark": "\ufeff",
    "swapped byte order mark": "\ufffe",
    "last character": "\U0010ffff",
    "replacement character": "\ufffd",
    "right to left": "\u200f\u05e9\u05dc\u05dd\u200e",
    "override of direction": "\u202eabc\u202c",
    "isolate of direction": "\u2066abc\u2069",
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "next line": "a\x85b",
    "carriage returns": "a\r\r\nb\rc",
    "vertical tab and form feed": "a\vb\fc",
    "separators of records": "a\x1cb\x1dc\x1ed",
    "family": "👩\u200d👩\u200d👧",
    "flag and skin": "🇩🇪👍🏽",
    "combining marks": "e\u0301 \u00e9 Z" + "\u0310" * 30,
    "letters that grow": "İ ß ﬁ ŉ ﷺ",
    "escapes": '\\ud83d \\u0000 \\\\ \\" %00 &#0; \x1b[2J',
    "soft hyphen and spaces": "so\u00adft \u00a0\u200b\u2060\u3000 end",
    "no spaces": "日本語の文章" * 5,
}


@pytest.fixture(params=["SQLite and Chroma", "bytes and memory", "PostgreSQL"])
def retriever(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RSERetriever]:
    with ExitStack() as stack:
        if request.param == "PostgreSQL":
            pair = Pair.create(request.getfixturevalue("postgres_url"))
            indexer = stack.enter_context(pair.opened(lexical=True))
            vectorstore, docstore = indexer.vectorstore, indexer.docstore
        elif request.param == "bytes and memory":
            vectorstore = InMemoryVectorStore(fakes.BagOfWords())
            docstore = InMemoryByteStore()
        else:
            vectorstore, docstore, close = open_stores(fakes.BagOfWords(), tmp_path)
            stack.callback(close)
        yield RSERetriever(
            vectorstore=vectorstore,
            docstore=docstore,
            text_splitter=fakes.Lines(),
            config=fakes.EVERYTHING,
            max_context_length=10_000,
        )


def test_slices_and_matches_are_the_sources(retriever: RSERetriever) -> None:
    texts: dict[str, str] = {}
    for name, odd in ODD.items():
        lines = [f"line{number} {odd} harbor {odd}\n" for number in range(4)]
        texts[name] = "".join(lines)
    retriever.add_documents([Document(text, id=name) for name, text in texts.items()])
    assert retriever.indexer.check().ok

    passages = retriever.invoke("harbor line2", k=len(texts))
    assert {passage.metadata["doc_id"] for passage in passages} == texts.keys()
    access = retriever.document_access()
    for name, text in texts.items():
        assert retriever.text(name) == text
        manifest = access.manifest(name)
        for start in range(0, len(text), 3):
            end = min(start + 7, len(text))
            passage = access.passage(manifest, start, end)
            assert passage.page_content == text[start:end]
    for passage in passages:
        metadata = passage.metadata
        source = texts[metadata["doc_id"]]
        start, end = metadata["start_index"], metadata["end_index"]
        assert passage.page_content == source[start:end], metadata["doc_id"]

    matches = find(access, Pattern("harbor"), limit=1_000).matches
    assert len(matches) == 4 * len(texts)
    for match in matches:
        assert texts[match.doc_id][match.start : match.end] == "harbor"
    for name, odd in ODD.items():
        if "surrogate" in name:  # matches as U+FFFD
            continue
        found = [match for match in find(access, Pattern(odd)).matches if match.doc_id == name]
        assert len(found) == 8, name
        for match in found:
            assert texts[name][match.start : match.end] == odd
