"""A retriever with fixed answers, and questions to ask it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from langchain_rse.evaluation import Evidence, Question


def text_at(start: int, end: int, doc_id: str = "a") -> Document:
    """A Document with characters ``[start, end)`` of a source."""
    return Document("x" * (end - start), metadata={"doc_id": doc_id, "start_index": start})


def ask_for(*evidence: tuple[int, int], doc_id: str = "a", question: str = "Why?") -> Question:
    """A question with evidence in one document."""
    return Question(question, [Evidence(doc_id, start, end) for start, end in evidence])


class Canned(BaseRetriever):
    """Returns the same Documents for a question; ``asked`` has the arguments of each call."""

    documents: Mapping[str, list[Document]]
    asked: list[tuple[str, dict[str, Any]]] = Field(default_factory=list)

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, **kwargs: Any
    ) -> list[Document]:
        del run_manager
        self.asked.append((query, kwargs))
        return self.documents[query]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: Any, **kwargs: Any
    ) -> list[Document]:
        return self._get_relevant_documents(query, run_manager=run_manager, **kwargs)


def canned(*documents: Document) -> Canned:
    """A retriever that returns these Documents for the question of `ask_for`."""
    return Canned(documents={"Why?": list(documents)})
