"""Titles of texts and of their sources, and the names that people see."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.text.names import first_heading, shown_name, title_of_source


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("reports/3M_2018_10K.pdf", "3M 2018 10K"),
        ("C:\\files\\grey_heron.txt", "grey heron"),
        (Path("birds") / "grey_heron.txt", "grey heron"),
        ("https://host.org/birds/grey%20heron.html?x=1#y", "grey heron"),
        ("https://host.org/birds/index.html", ""),
        ("https://host.org", ""),
        ("0123456789abcdef0123456789abcdef", ""),
        ("v1.2", "v1.2"),
        ("/", ""),
        ("", ""),
        (None, ""),
        (7, ""),
    ],
)
def test_the_title_of_a_source(source: object, title: str) -> None:
    assert title_of_source(source) == title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n\n  ## Birds and eggs ##\ntext", "Birds and eggs"),
        ("\ufeff# Birds\r\n\r\ntext", "Birds"),
        ("text\n\n# Birds #\r\n", "Birds"),
        ("# 1\n\n# Birds", "Birds"),
        ("---\nBirds of the lake\nThey nest.", "Birds of the lake"),
        (f"{'word ' * 40}\nshort", ""),
        ("1 2 3\n4 5", ""),
        (f"{'word ' * 1000}\n# Birds", ""),
        ("", ""),
        # Code, comments and fields are no titles.
        ("```sh\n# install it\nmake\n```\n\nHerons", "Herons"),
        ("Herons\n\n```sh\n# install it\nmake", "Herons"),
        ("```sh\n# install it\nmake", ""),
        ("Herons\n======\n\n.. code-block:: sh\n\n   # install it\n\ntext", "Herons"),
        ("---\ntitle: 'Herons: a book'\nauthor: Ann\n---\n\n# Birds", "Herons: a book"),
        ('\ufeff---\r\nTitle: "Herons"\r\n---\r\ntext', "Herons"),
        ('+++\ntitle = "Herons"\n+++\ntext', "Herons"),
        ("---\nauthor: Ann\n# a comment\n---\nHerons\n", "Herons"),
        ("---\nHerons\n---\nThey nest.", "Herons"),
        ("<!--\n# Copyright\n-->\n\n# Herons", "Herons"),
        ("<!-- Copyright -->\nHerons\n", "Herons"),
        ("<!-- # never closed\n# Herons", ""),
        ("\ufeffHerons\nnest.", "Herons"),
        ('<h1 align="center">Herons &amp; <i>storks</i></h1>\n\nNests', "Herons & storks"),
        ('<p align="center">\n<img src="a.png">\n</p>\nHerons', "Herons"),
    ],
)
def test_the_first_heading(text: str, title: str) -> None:
    assert first_heading(text) == title


@given(st.text(max_size=60))
def test_any_source_and_any_text_have_a_title_of_one_line(text: str) -> None:
    for title in (title_of_source(text), title_of_source(f"https://{text}"), first_heading(text)):
        assert title == " ".join(title.split())


@pytest.mark.parametrize(
    ("doc_id", "source", "name"),
    [
        ("birds.md", "birds.md", "birds.md"),
        ("7f3a", "birds.md", "birds.md"),
        ("birds.csv, row 3", "birds.csv", "birds.csv, row 3"),
        ("7f3a", None, "7f3a"),
    ],
)
def test_the_name_that_people_see(doc_id: str, source: str | None, name: str) -> None:
    assert shown_name(doc_id, source) == name
