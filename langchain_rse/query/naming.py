"""Finds the documents that a query names, among those of its candidates."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_rse.query.candidates import Candidate
from langchain_rse.text import names
from langchain_rse.text.names import Named
from langchain_rse.text.titles import title_of_source


def named_documents(query: str, candidates: Sequence[Candidate]) -> Named:
    """Find the documents that a query names, see `langchain_rse.text.names`."""
    numbers: dict[str, int] = {}  # of documents, by their keys
    document_names = []
    for candidate in candidates:
        if candidate.key not in numbers:
            numbers[candidate.key] = len(numbers)
            document_names.append(name_of(candidate))
    return names.named_documents(
        query,
        names=document_names,
        owners=[numbers[candidate.key] for candidate in candidates],
        texts=[candidate.document.page_content for candidate in candidates],
    )


def name_of(candidate: Candidate) -> str:
    """The title of a candidate's document, else the name of its file."""
    metadata = candidate.document.metadata
    return str(metadata.get("title") or title_of_source(metadata.get("source")))
