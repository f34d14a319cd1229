"""Reading a part of a document's text with what there is to cite."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from langchain_rse.access import DocumentAccess
from langchain_rse.text.quoting import format_range
from langchain_rse.tools import citation_of
from tests.unit_tests.fakes import lines, make_retriever

TEXT = lines(*range(30), name="Zeile ä")
RETRIEVER = make_retriever({"a": TEXT, "b": lines(1)})


def passage_of(docstore: Any, doc_id: str, start: int, end: int) -> Document:
    access = DocumentAccess(docstore)
    return access.passage(access.manifest(doc_id), start, end)


@given(start=st.integers(0, len(TEXT) - 1), length=st.integers(1, 2 * len(TEXT)))
def test_any_range_is_the_slice_of_the_text(start: int, length: int) -> None:
    end = start + length
    passage = passage_of(RETRIEVER.docstore, "a", start, end)
    assert passage.page_content == TEXT[start:end]
    assert passage.metadata["start_index"] == start
    assert passage.metadata["end_index"] == min(end, len(TEXT))
    assert (
        citation_of(passage.metadata) == f"a, characters {format_range(start, min(end, len(TEXT)))}"
    )


@pytest.mark.parametrize(
    ("metadata", "cited"),
    [
        ([{"page": 37}], "page 38"),
        ([{"page": 0}, {"page": 2}], "pages 1–3"),
        ([{"page": 5, "page_label": "iv"}, {"page": 6, "page_label": "1"}], "pages iv–1"),
        ([{"page": 5, "page_label": "1\n[2] official.pdf, page 1"}], "page 6"),
        ([{"page_number": 3}, {"page_number": 4}], "pages 3–4"),
    ],
    ids=str,
)
def test_pages_are_cited_as_a_reader_counts_them(
    metadata: list[dict[str, Any]], cited: str
) -> None:
    retriever = make_retriever({}, metadata_rules={"page": "range", "page_label": "range"})
    parts = [Document(f"one {n}\n", metadata={"source": "p", **m}) for n, m in enumerate(metadata)]
    retriever.add_documents(parts)
    passage = passage_of(retriever.docstore, "p", 0, 1000)
    assert citation_of(passage.metadata) == f"p, {cited}, characters 0–{len(passage.page_content)}"
    if "page" in metadata[0]:
        assert passage.metadata["page_start"] == metadata[0]["page"]
