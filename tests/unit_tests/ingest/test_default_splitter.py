# ruff: noqa: RUF001 - sentences in other scripts
"""What a user of the default text splitter relies on; its tables are in test_tables.py."""

from __future__ import annotations

import random
import re
import textwrap
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
    *("Herons fish at dawn. ", "J. Smith, e.g. this", "“No.” ", "3.5", "他走了。", "「好吗？」"),
    *("यह है। ", "هل؟ ", "word", "\n\n", "\r\n", "\n", "  ", "a,b,c\n"),
    *("| a | b |\n|---|---|\n", "a  b\n", "c  4\n", "<table><tr>\n", "</table>", "| 1 | 2 |\n"),
    *('"x\ny",2,3\n', "\x00", "\ud800", "." * 30, "e\u0301"),
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=9), max_size=60).map("".join)


def chunks_of(text: str, size: int) -> list[str]:
    spans = find_spans(text, default_text_splitter(size))
    return [text[span.start : span.end].strip() for span in spans]


@pytest.mark.parametrize(
    ("text", "size", "chunks"),
    [
        ("It was J. Smith who did it. Or not.", 29, ["It was J. Smith who did it.", "Or not."]),
        ("“Is it?” “It is.” I left (at last).", 21, ["“Is it?” “It is.”", "I left (at last)."]),
        ("Up! Or down? Neither one… Then", 14, ["Up! Or down?", "Neither one…", "Then"]),
        ("他来了。他走了！「好吗？」完了。", 9, ["他来了。他走了！", "「好吗？」完了。"]),
        ("यह एक घर है। वह एक पेड़ है।", 16, ["यह एक घर है।", "वह एक पेड़ है।"]),
        ("ភាសាខ្មែរ។ខ្ញុំ។", 12, ["ភាសាខ្មែរ។", "ខ្ញុំ។"]),
        ("One.\n\nTwo.\nThree.", 12, ["One.", "Two.\nThree."]),
        ("One.\n\n\nTwo.\n\nThree.", 12, ["One.", "Two.\n\nThree."]),
        ("a = 1\n\n\ndef f():\n    b\n\n    c", 22, ["a = 1", "def f():\n    b\n\n    c"]),
        ("word " * 5, 10, ["word word", "word word", "word"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("word\tword\tword", 10, ["word\tword", "word"]),
        ("ภาษา\u200bไทย\u200bดี", 9, ["ภาษา\u200bไทย\u200b", "ดี"]),
        ("one\u2003two\xa0three", 8, ["one\u2003two", "three"]),
        ("他来，他走、他说；他笑", 6, ["他来，他走、", "他说；他笑"]),
        ("e\u0301" * 5, 5, ["e\u0301" * 2, "e\u0301" * 2, "e\u0301"]),
        ("\U0001f1e9\U0001f1ea" * 3, 5, ["\U0001f1e9\U0001f1ea" * 2, "\U0001f1e9\U0001f1ea"]),
    ],
)
def test_chunks_end_where_sentences_do(text: str, size: int, chunks: list[str]) -> None:
    assert chunks_of(text, size) == chunks


PROSE = {
    "English": "The heron waits in the reeds until a fish comes near. Then it strikes, and "
    "swallows what it has caught at once. Nobody who has seen it will ever forget the speed of "
    "its neck. ",
    "German": "Der Reiher wartet im Schilf, bis ein Fisch in die Nähe kommt. Dann stößt er zu und "
    "schluckt die Beute sofort. Am 18. März begann die Brut an den Seen im Norden des Landes. ",
    "Russian": "Цапля ждёт в камышах, пока рыба не подплывёт ближе. Затем она бьёт клювом и сразу "
    "глотает добычу. Кто это видел, тот никогда не забудет скорость её движения. ",
}


@pytest.mark.parametrize("language", PROSE)
@pytest.mark.parametrize("width", [55, 72, 95])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\n   "], ids=repr)
def test_in_text_with_hard_line_breaks_chunks_end_with_sentences(
    language: str, width: int, line_end: str
) -> None:
    text = line_end.join(textwrap.wrap(PROSE[language] * 20, width))
    chunks = chunks_of(text, 400)
    assert len(chunks) > 5
    starts = [" ".join(chunk.split())[:20] for chunk in chunks]
    sentences = re.split(r"(?<=\w{2}\.) ", PROSE[language])
    assert all(any(each.startswith(start) for each in sentences) for start in starts)


@pytest.mark.parametrize("page_end", ["\n\n", "\n\n\n\n", "\n\n   ", "\n\n\f\n"], ids=repr)
def test_a_page_that_ends_in_mid_sentence_ends_no_paragraph(page_end: str) -> None:
    lines = textwrap.wrap(PROSE["English"] * 20, 72)
    pages = ["\n".join(lines[start : start + 8]) for start in range(0, len(lines), 8)]
    assert sum(page[0].islower() for page in pages) > 3
    starts = [chunk[:3] for chunk in chunks_of(page_end.join(pages), 400)]
    assert set(starts) <= {"The", "Nob"}


def test_broken_lines_beside_a_figure_are_not_cut() -> None:
    figure = ["| @@: ::: #"] * 50
    text = "\n".join([*figure, *textwrap.wrap(PROSE["English"] * 4, 60), *figure])
    assert {chunk[:3] for chunk in chunks_of(text, 300)} <= {"| @", "The", "Nob"}


def test_chunks_of_code_are_indented() -> None:
    lines = ["class Heron:", "    def wait(self):", "        fish()", "", "    def strike(self):"]
    text = "\n".join([*lines, "        neck()", "\t", "\tdone = True"])
    spans = find_spans(text, default_text_splitter(50))
    assert [text[span.start : span.end] for span in spans][1:] == [
        "    def strike(self):\n        neck()\n\t\n",
        "\tdone = True",
    ]


def test_a_paragraph_ends_with_a_short_line() -> None:
    paragraph = "\n".join(textwrap.wrap(PROSE["English"].strip(), 70))
    assert len(paragraph.splitlines()[-1]) < 45
    assert chunks_of("\n".join([paragraph] * 6), 400) == ["\n".join([paragraph] * 2)] * 3


@pytest.mark.parametrize(
    ("introduction", "line"),
    [
        ("\nv0.4.7 (Jan 22, 2016)", "Improved: the heron waits in the reeds until a fish comes"),
        ("<piet> where does it wait?", "<oona> in the reeds, until a fish comes"),
        ("Q: Which bird is it?", "A: It is a heron, which waits in the reeds."),
        ("Do herons eat carps?", "Yes. They eat eels and frogs, too"),
        ("Lake Herons Eggs", "Saaler Bodden in the north 412 31"),
    ],
)
def test_no_chunk_ends_with_a_line_that_introduces_the_next(introduction: str, line: str) -> None:
    entry = "\n".join([introduction, *[line] * 9])
    for size in range(200, 320, 4):
        endings = [chunk.splitlines()[-1] for chunk in chunks_of("\n".join([entry] * 9), size)]
        assert introduction.strip() not in endings


@pytest.mark.parametrize("title", ["Where is it?", "**Hours**", "Guten Tag,", "As Oona said:"])
def test_no_chunk_ends_with_what_introduces_a_paragraph(title: str) -> None:
    for size in range(240, 400, 4):
        chunks = chunks_of(f"{title}\n\n{PROSE['English']}\n\n" * 9, size)
        assert not any(chunk.endswith(title) for chunk in chunks)


LINES = {
    "a log": "2024-03-01 12:00:00 INFO the server has started on port 8080 and waits",
    "code": "    total = sum(weight * value for weight, value in pairs(weights))",
    "imports": "from herons.signals import request_finished as request_finished",
    "settings": "herons.waiting_time_in_minutes = the_default_of_all_the_herons",
    "a list": "- the heron waits in the reeds until a fish comes near the bank",
    "columns": "  lake_of_herons      Integer    number of herons that wait at the lake",
    "questions": "3.1 Why does the gray heron wait so long in the reeds of that lake?",
    "names": "Ardea cinerea, the gray heron, lives at lakes and rivers of Europe",
    "addresses": "https://example.org/herons/of/the/lakes/and/rivers/in/the/north.html",
}


@pytest.mark.parametrize("kind", LINES)
def test_lines_that_nobody_broke_are_not_cut(kind: str) -> None:
    line = LINES[kind]
    for chunk in chunks_of("\n".join([line] * 60), 500):
        assert {each.strip() for each in chunk.splitlines()} == {line.strip()}


@pytest.mark.parametrize(
    "record",
    [
        '  {\n    "bird": "heron",\n    "lake": "Saaler Bodden"\n  },\n',
        f"From: Oona\nTo: Piet\nDate: 3 May 2024\n\nDear Piet,\n\n{PROSE['English']}\n\nOona\n\n",
        f"-----Original Message-----\nVon: Oona\nAn: Piet\nBetreff: Reiher\n\n{PROSE['German']}\n",
    ],
)
def test_records_and_mails_are_whole(record: str) -> None:
    for chunk in chunks_of(record * 40, 2 * len(record) - 9):
        assert chunk == record.strip()


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
