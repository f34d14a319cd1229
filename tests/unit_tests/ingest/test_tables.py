"""What a user relies on if documents have tables, and the default text splitter splits them."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.indexer import default_text_splitter
from langchain_rse.ingest.splitting import Span, find_spans
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way

way = fakes.way

NAMES = ["plant", "city", "revenue", "staff"]
PROSE = "The plants of the company are described in this report. " * 12


def row(number: int) -> list[str]:
    return [f"Delta-{number}", f"Town{number}", str(1000 + 7 * number), str(20 + number)]


def rows(count: int) -> list[list[str]]:
    return [NAMES, *(row(number) for number in range(count))]


def markdown(count: int) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in rows(count)]
    return "\n".join([lines[0], "| --- | :-- | --: | --- |", *lines[1:]]) + "\n"


def separated(separator: str, count: int, line_end: str = "\n") -> str:
    return "".join(f"{separator.join(cells)}{line_end}" for cells in rows(count))


FORMS = {
    "Markdown": markdown(60),
    "Markdown without outer pipes": "plant | city\n--- | ---\n"
    + "".join(f"Delta-{number} | Town\n" for number in range(99)),
    "a database's": " plant | city\n-------+------\n"
    + "".join(f" Delta-{number} | Town\n" for number in range(99)),
    "tabs": separated("\t", 60),
    "semicolons": separated(";", 60),
    "commas": separated(",", 60),
    "commas and carriage returns": separated(",", 60, "\r\n"),
    "years": ",2021,2022\n" + "".join(f"Delta-{number},{number},7\n" for number in range(99)),
    "cells left out at the end": "plant,city,opened,closed\n"
    + "".join(f"Delta-{number},Town,{number}{',2' * (number % 2)}\n" for number in range(99)),
    "comments on some rows": "plant\tcity\tcode\tcomment\n"
    + "".join(f"Delta-{n}\tTown\tD1\nDelta-{n}\tTown\tD2\tclosed\n" for n in range(49)),
    "one full row": "a;b;c;d;e\n1;2;3;4;5\n" + "".join(f"Delta-{n};2;3\n" for n in range(99)),
    "HTML": "<table><tr><th>plant</th><th>city</th></tr>\n"
    + "".join(f"<tr><td>Delta-{number}</td><td>Town</td></tr>\n" for number in range(60))
    + "</table>\n",
}


def header_of(text: str) -> str:
    """The first line of a table, with the line under it."""
    first, second, *_ = text.splitlines()
    return f"{first}\n{second}" if set(second) <= set("|-:+ ") else first


def rows_of(text: str) -> list[str]:
    """The rows below the header, with their line ends."""
    return text[len(header_of(text)) :].lstrip("\r\n").splitlines(keepends=True)


def spans_of(text: str, size: int = 800) -> list[Span]:
    return find_spans(text, default_text_splitter(size))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", ["", f"{PROSE}\n\n"], ids=str)
def test_rows_are_not_cut_and_further_chunks_have_the_header_row(form: str, before: str) -> None:
    table = FORMS[form]
    text = f"{before}\n{table}\n{PROSE}" if before.strip() else f"{before}{table}\n{PROSE}"
    header = header_of(table)
    spans = spans_of(text)
    assert "".join(text[span.start : span.end] for span in spans) == text
    headed = [span for span in spans if span.table_header]
    assert headed
    whole_rows = {line.strip() for line in rows_of(table)}
    for span in headed:
        chunk = text[span.start : span.end].strip()
        assert span.table_header == header
        assert span.embedded_text == f"{header}\n{chunk}"
        assert len(span.embedded_text) <= 800
        assert {line.strip() for line in chunk.splitlines()} <= whole_rows
    for span in spans:
        if span not in headed:
            assert span.embedded_text == text[span.start : span.end].strip()
            assert len(span.embedded_text) <= 800
    seen = [line.strip() for span in spans for line in text[span.start : span.end].splitlines()]
    for line in whole_rows:
        assert line in seen


TABLES_OF_PROSE = {
    "prose with a comma in each line": "A heron, a bird\nA carp, a fish\nAn oak, a tree\n" * 30,
    "indented code": "    name: str | None = None,\n    size: int | None = None,\n" * 30,
    "columns of spaces": "Net sales      100    200\nCost of sales   50     60\n" * 30,
    "amounts": "Net sales 1,000\nCost of sales 2,000\nTax 3,000\n" * 30,
    "numbers without names": "1,2,3\n4,5,6\n" * 99,
    "dates and texts without names": "2021-03-04,Delta,Boston\n2021-03-05,Epsilon,Rome\n" * 30,
    "two spaces after each sentence": "The heron is a bird.  It lives at the lake\n" * 60,
    "HTML without names": f"<table>\n{'<tr><td>a</td><td>b</td></tr>' * 99}</table>\n",
    "a log": "2021-03-04 12:00:01,123 INFO started\n2021-03-04 12:00:02,5 INFO ended\n" * 30,
    "two rows": "name,city\nDelta,Boston\n\n" * 60,
}


@pytest.mark.parametrize("kind", TABLES_OF_PROSE)
def test_what_has_no_row_of_names_gets_none(kind: str) -> None:
    spans = spans_of(TABLES_OF_PROSE[kind])
    assert len(spans) > 1
    assert not any(span.table_header for span in spans)


CELLS = "<tr><th scope='row'>Delta</th><td>Boston</td></tr>" * 60 + "</table>"
HEADERS = {
    "rows of <thead>": ("<table><thead><tr><td>p</td></tr>\n<tr><td>a</td></tr></thead>", CELLS),
    "rows of <th>": ("<TABLE>\n<TR><TH>p</TH><TH>c</TH></TR>\n<tr><th>a</th></tr>", CELLS),
    "rows of Markdown": ("|plant|city|\n|name|place|\n|---|---|", "| Delta | Town |\n" * 90),
    "rows of a database": (" plant | city\n name | place\n-------+------", " Delta | Town\n" * 90),
    "none: names of rows": ("", f"<table>{CELLS}"),
    "none: only header cells": ("", f"<table>{'<tr><th>a</th><th>b</th></tr>' * 90}</table>\n"),
    "none: an empty row of Markdown": ("", "|  |  |\n|---|---|\n" + "| Delta | Boston |\n" * 90),
    "none: a line of prose with a pipe": ("| plant | city |\n|---|---|", "| Delta | Rome |\n" * 90),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_all_header_rows_are_repeated_and_nothing_else(kind: str) -> None:
    header, body = HEADERS[kind]
    before = "Either a | b or c:\n" if "prose" in kind else "Plants:\n\n"
    spans = spans_of(f"{before}{header}\n{body}")
    _, *further = [span for span in spans if "Delta" in span.embedded_text or "<th>a" in body]
    assert {span.table_header for span in further} == {header}


def test_a_long_row_is_a_chunk_and_a_very_long_one_is_cut_as_text() -> None:
    word = "fjord "
    long_row = f"Delta-1,{word * 200}\n"
    very_long_row = f"Delta-2,{word * 400}\n"
    text = f"plant,remarks\nDelta-0,none\n{long_row}{very_long_row}Delta-3,none\n"
    chunks = [text[span.start : span.end] for span in spans_of(text)]
    assert chunks[:2] == ["plant,remarks\nDelta-0,none\n", long_row]
    assert "".join(chunks[2:]) == f"{very_long_row}Delta-3,none\n"
    assert len(chunks) > 3
    assert all(len(chunk.strip()) <= 800 for chunk in chunks[2:])
    assert {span.table_header for span in spans_of(text)[1:]} == {"plant,remarks"}


@pytest.mark.parametrize("words", [*range(0, 60, 6)])
def test_rows_of_a_table_that_fits_a_chunk_keep_the_header_row(words: int) -> None:
    table = markdown(20)
    text = f"{PROSE}\n\n{'Plants ' * words}are these:\n\n{table}\n{PROSE}"
    first_row, last_row = text.index("| Delta-0 "), text.index("| Delta-19 ")
    for span in spans_of(text):
        if first_row <= span.start <= last_row:
            assert span.table_header


class Index:
    """A table in both stores."""

    def __init__(self, text: str, *, way: Way | None = None, **settings: Any) -> None:
        self.text = text
        self.docstore: Any = settings.pop("docstore", None) or InMemoryStore()
        self.vectorstore = InMemoryVectorStore(fakes.CountingModel())
        self.indexer = RSEIndexer(self.vectorstore, self.docstore, **settings)
        document = Document(text, metadata={"source": "plants.md"})
        if way is None:
            self.indexer.add_documents([document])
        else:
            way.add(self.indexer, [document])

    def retriever(self, **settings: Any) -> RSERetriever:
        return RSERetriever(vectorstore=self.vectorstore, docstore=self.docstore, **settings)

    def embedded(self) -> set[str]:
        return {found.page_content for found in self.vectorstore.similarity_search("x", k=999)}


@fakes.both_ways
@pytest.mark.parametrize("form", ["Markdown", "commas"])
def test_a_passage_that_begins_inside_a_table_is_shown_with_the_header_row(
    way: Way, form: str
) -> None:
    table = FORMS[form]
    index = Index(f"{PROSE}\n\n{table}\n{PROSE}", way=way)
    query = "Delta-47 Town47"
    settings = {"k": 1, "max_context_length": 1_000}
    (plain,) = way.invoke(index.retriever(), query, **settings)
    (shown,) = way.invoke(index.retriever(), query, **settings, include_header=True)
    assert "Delta-47" in plain.page_content
    start, end = plain.metadata["start_index"], plain.metadata["end_index"]
    assert plain.page_content == index.text[start:end]
    assert shown.page_content == f"{header_of(table)}\n{plain.page_content}"
    assert shown.metadata == plain.metadata
    assert "table_header" not in str(plain.metadata)


@fakes.both_ways
@pytest.mark.parametrize("measure", fakes.LENGTHS)
def test_the_budget_counts_the_header_row(way: Way, measure: str) -> None:
    length = fakes.LENGTHS[measure]
    index = Index(f"{PROSE}\n\n{FORMS['Markdown']}\n{PROSE}\n\n{FORMS['commas']}")
    retriever = index.retriever(include_header=True, length_function=length)
    for share in (0.2, 0.3, 0.5, 0.8):
        limit = share * length(index.text)
        passages = way.invoke(retriever, "Delta-47 Town47", max_context_length=limit)
        assert sum(length(passage.page_content) for passage in passages) <= limit
        for passage in passages:
            start, end = passage.metadata["start_index"], passage.metadata["end_index"]
            assert passage.page_content.endswith(index.text[start:end])


def test_words_of_the_header_row_are_found_by_lexical_search() -> None:
    index = Index(FORMS["Markdown"], docstore=SQLDocStore("sqlite://", lexical=True))
    retriever = index.retriever(hybrid=0.5, max_context_length=1_000, k=1)
    (passage,) = retriever.invoke("revenue Delta-47", include_header=True)
    assert "Delta-47" in passage.page_content
    candidates = index.docstore.lexical_search("revenue", k=99)
    assert len(candidates) == sum("| revenue |" in text for text in index.embedded())
