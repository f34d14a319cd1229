"""The source of the report: its content, and text that must not run."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever, RSETrace
from langchain_rse.headers import DocumentHeaders
from tests.unit_tests.fakes import BagOfWords, make_retriever

HOSTILE = "</script><script>hacked()</script><img src=x onerror=hacked()>{{ 7 * 7 }}&amp;"
TEXTS = {
    "rent.txt": "Rent is due each month.\nIt is paid late.\nLate rent costs a fee.\nBirds sing.",
    "pets.txt": "Dogs bark.\nCats purr.\nDogs and cats pay no rent.",
}


class Page(HTMLParser):
    """The tags of a page with their attributes, and the text inside each tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self.current = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside.setdefault(tag, []).append("")
        self.current = tag

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - named so by the base
        self.current = ""

    def handle_data(self, data: str) -> None:
        if self.current:
            self.inside[self.current][-1] += data

    @property
    def data(self) -> Any:
        _, data, _ = self.inside["script"]
        return json.loads(data)


def text_of(chunk: Mapping[str, Any]) -> str:
    """The text of a chunk in the page's data."""
    return "".join(chunk.get("text", []))


def retriever_of(texts: Mapping[str, str], **settings: Any) -> RSERetriever:
    return make_retriever(
        dict(texts), vectorstore=InMemoryVectorStore(BagOfWords()), config="balanced", **settings
    )


@pytest.fixture(scope="module")
def trace() -> RSETrace:
    return retriever_of(TEXTS).explain("late rent", irrelevant_chunk_penalty=0.2)


def test_a_page_loads_nothing(trace: RSETrace) -> None:
    page = Page(trace.to_html())
    for tag, attributes in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "base"}
        assert "src" not in attributes
        assert "style" not in attributes  # the policy would not let it through
        assert not [name for name in attributes if name.startswith("on")]
    policy = next(a["content"] or "" for _, a in page.tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    start, _, script = page.inside["script"]
    (style,) = page.inside["style"]
    digests = [
        base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        for code in (style, start, script)
    ]
    assert "style-src 'sha256-{}'; script-src 'sha256-{}' 'sha256-{}'".format(*digests) in policy


def test_text_is_not_obeyed() -> None:
    texts = {HOSTILE: f"Late rent {HOSTILE}\nrent", "b.txt": "late"}
    trace = retriever_of(texts).explain(f"rent \u2028 {HOSTILE}", irrelevant_chunk_penalty=0.0)
    harmless = retriever_of(TEXTS).explain("late rent").to_html()
    half = dataclasses.replace(trace, query=f"{trace.query}\ud800")  # half of a character
    text = half.to_html()
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in Page(harmless).tags} | {"q"}
    assert len(page.inside["script"]) == 3
    assert "{{ 7 * 7 }}" in text
    assert "\ud800" not in text
    assert "\u2028" not in page.inside["script"][1]
    assert page.data["documents"][0]["name"] == HOSTILE
    assert text_of(page.data["documents"][0]["chunks"][0]) == f"Late rent {HOSTILE}"


def test_a_page_has_the_answer_without_scripts(trace: RSETrace) -> None:
    shown = re.sub(r"<script.*?</script>", "", trace.to_html(), flags=re.DOTALL)
    assert trace.returned
    for passage in trace.returned:
        assert passage.text in shown


def test_the_texts_of_chunks_are_those_of_the_source(trace: RSETrace) -> None:
    data = Page(trace.to_html()).data
    for document in data["documents"]:
        lines = TEXTS[document["name"]].split("\n")
        for chunk in document["chunks"]:
            assert text_of(chunk) in {"", lines[chunk["index"]]}
    rent = next(entry for entry in data["documents"] if entry["name"] == "rent.txt")
    late = next(chunk for chunk in rent["chunks"] if chunk["index"] == 2)
    assert late["text"] == ["", "Late", " ", "rent", " costs a fee."]


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        ({"config": "dsrag-balanced"}, "the solver is greedy"),
        ({"length_function": lambda text: len(text.split())}, "is not in characters"),
        ({"include_header": True, "headers": DocumentHeaders()}, ""),
        ({"max_context_length": 12}, ""),
        ({"score_floor": 2.0}, "nothing was close enough"),
        ({"queries": ["rent", "dogs"], "k": 1, "order": "relevance"}, ""),
    ],
)
def test_where_answers_are_not_known_exactly_there_are_no_sliders(
    arguments: dict[str, Any], note: str
) -> None:
    retriever = make_retriever(
        TEXTS, vectorstore=InMemoryVectorStore(BagOfWords()), **{"config": "balanced", **arguments}
    )
    page = Page(retriever.explain("rent").to_html())
    text = " ".join(page.inside["p"])
    assert note in text
    for has_sliders in ("form" in page.inside, "alternatives" in page.data):
        assert has_sliders == ("No sliders:" not in text) == (not note)
