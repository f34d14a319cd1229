# ruff: noqa: RUF001 - sentences in other scripts
"""What a user of the default text splitter relies on; its tables are in test_tables.py."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.indexer import default_text_splitter
from langchain_rse.ingest.splitting import find_spans
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way

way = fakes.way

PIECES = [
    "Herons fish at dawn. ",
    "J. Smith, e.g. this",
    "“No.” ",
    "3.5",
    "他走了。",
    "「好吗？」",
    "यह है। ",
    "هل؟ ",
    "word",
    "\n\n",
    "\r\n",
    "\n",
    "  ",
    "a,b,c\n",
    "| a | b |\n|---|---|\n",
    "a  b\n",
    "c  4\n",
    "<table><tr>\n",
    "</table>",
    "| 1 | 2 |\n",
    '"x\ny",2,3\n',
    "\x00",
    "\ud800",
    "." * 30,
    "e\u0301",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=9), max_size=60).map("".join)


def chunks_of(text: str, size: int) -> list[str]:
    spans = find_spans(text, default_text_splitter(size))
    return [text[span.start : span.end].strip() for span in spans]


@pytest.mark.parametrize(
    ("text", "size", "chunks"),
    [
        (
            "It was J. Smith who wrote it. Nobody else did so.",
            32,
            ["It was J. Smith who wrote it.", "Nobody else did so."],
        ),
        (
            "“Is it so?” “It is.” He left (at last). So did I.",
            21,
            [
                "“Is it so?” “It is.”",
                "He left (at last).",
                "So did I.",
            ],
        ),
        ("Up! Or down? Neither one… Then", 14, ["Up! Or down?", "Neither one…", "Then"]),
        ("他来了。他走了！「好吗？」完了。", 9, ["他来了。他走了！", "「好吗？」完了。"]),
        ("यह एक घर है। वह एक पेड़ है।", 16, ["यह एक घर है।", "वह एक पेड़ है।"]),
        ("ភាសាខ្មែរ។ខ្ញុំ។", 12, ["ភាសាខ្មែរ។", "ខ្ញុំ។"]),
        ("One.\n\nTwo.\nThree.", 12, ["One.", "Two.\nThree."]),
        ("word " * 5, 10, ["word word", "word word", "word"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
    ],
)
def test_chunks_end_where_sentences_do(text: str, size: int, chunks: list[str]) -> None:
    assert chunks_of(text, size) == chunks


@given(TEXTS, st.integers(1, 60))
@example("e.g.  \n  .  x", 3)
@example("\n\n\n\na" * 5, 4)
def test_spans_tile_any_text_and_chunks_have_at_most_the_size(text: str, size: int) -> None:
    splitter = default_text_splitter(size)
    spans = find_spans(text, splitter)
    assert "".join(text[span.start : span.end] for span in spans) == text
    for span, following in pairwise(spans):
        assert span.end == following.start
    for span in spans:
        chunk = text[span.start : span.end].strip()
        # Rows of tables may be chunks of up to twice the size.
        is_row = any(mark in chunk for mark in (",", "|", "  ", "<tr>"))
        assert len(chunk) <= (2 * size if is_row else size)
        assert chunk or not text.strip()
    assert splitter.split_text(text) == [chunk for chunk in chunks_of(text, size) if chunk]


@fakes.both_ways
def test_passages_begin_and_end_with_sentences(way: Way) -> None:
    chance = random.Random(3)  # noqa: S311 - only has to be the same again
    words = ["herons", "fish", "nest", "dawn", "lake", "reed", "wing", "pond", "song", "river"]
    sentences = []
    for number in range(80):
        body = " ".join(chance.choices(words, k=12))
        sentences.append(f"Sentence {number} by J. Doe says: {body}.")
    text = " ".join(sentences)
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        max_context_length=2_000,
    )
    way.add(retriever, [Document(text, metadata={"source": "herons.txt"})])
    passages = way.invoke(retriever, sentences[37])
    assert passages
    for passage in passages:
        assert passage.page_content in text
        assert passage.page_content.startswith("Sentence ")
        assert passage.page_content.rstrip().endswith(".")
        assert not passage.page_content.rstrip().endswith("J.")
