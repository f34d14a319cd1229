"""Documents by the names that people use, and the names that they are shown by."""

from __future__ import annotations

import unicodedata

import pytest

from langchain_rse.stores.document_names import find_document
from langchain_rse.stores.records import Manifest
from langchain_rse.text.names import short_names

IDS = ["/docs/report-2023.pdf", "/docs/old/notes.md", "/docs/new/notes.md", "notes"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/docs/old/../report-2023.pdf", "/docs/report-2023.pdf"),
        ("report-2023.pdf", "/docs/report-2023.pdf"),
        ("report-2023", "/docs/report-2023.pdf"),
        ("old/notes.md", "/docs/old/notes.md"),
        ("notes", "notes"),
    ],
)
def test_documents_are_found_by_id_path_and_name(name: str, expected: str) -> None:
    assert find_document(name, [*map(Manifest, IDS)]) == expected


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
@pytest.mark.parametrize("name", ["/docs/Größe.md", "Größe.md", "Größe", "docs/Größe.md"])
def test_either_unicode_form_of_a_name(form: str, asked: str, name: str) -> None:
    doc_id = unicodedata.normalize(form, "/docs/Größe.md")
    manifest = Manifest(doc_id)
    assert find_document(unicodedata.normalize(asked, name), [manifest]) == doc_id


def test_names_are_the_shortest_that_tell_documents_apart() -> None:
    names = {"1": "/docs/a.md", "2": "/docs/old/b.md", "3": "/docs/new/b.md", "4": "b.md"}
    names |= {"5": "Title", "6": "Title", "7": "/docs/taken.md"}
    short = ["a.md", "old/b.md", "new/b.md", "b.md", "5", "6", "docs/taken.md"]
    assert short_names(names, taken={"taken.md"}) == dict(zip(names, short, strict=True))
