"""A model that judges chunks, and documents, for tests of the relevance filters."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import SimpleChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from pydantic import Field

from langchain_rse.filters import LMBasedRelevanceFilter

QUERY = "Where do herons nest?"
YES: dict[str, Any] = {"explanation": "It says where.", "is_relevant": True}
NO: dict[str, Any] = {"explanation": "It is about cars.", "is_relevant": False}


def answer_of(*judgments: dict[str, Any]) -> str:
    """What a model answers that has no structured output."""
    return json.dumps({"judgments": judgments})


class Judge(SimpleChatModel):
    """Judges chunks relevant that have a heron in them.

    Attributes:
        requests: The last message of each call.
    """

    requests: list[str] = Field(default_factory=list)

    def _call(self, messages: list[BaseMessage], *_: Any, **__: Any) -> str:
        request = str(messages[-1].text)
        self.requests.append(request)
        chunks = re.findall(r'(?s)<chunk number="\d+">\n(.*?)\n</chunk>', request)
        return answer_of(*(YES if "heron" in chunk else NO for chunk in chunks))

    @property
    def _llm_type(self) -> str:
        return "judge"


def documents_of(*texts: str, **metadata: Any) -> list[Document]:
    return [
        Document(text, id=f"id {number}", metadata={"page": number, **metadata})
        for number, text in enumerate(texts)
    ]


def texts_of(documents: Sequence[Document]) -> list[str]:
    return [document.page_content for document in documents]


def judged(
    llm: Runnable[Any, Any], *texts: str, on_failure_keep_all: bool = False, **settings: Any
) -> list[Document]:
    """What a filter by a model keeps; by default nothing, if the model fails."""
    relevance = LMBasedRelevanceFilter(llm=llm, on_failure_keep_all=on_failure_keep_all, **settings)
    return list(relevance.compress_documents(documents_of(*texts), QUERY))


def failure_of(llm: Runnable[Any, Any], *texts: str, **settings: Any) -> str:
    """Why a model did not judge some texts."""
    kept = judged(llm, *texts, on_failure_keep_all=True, **settings)
    (reason,) = {str(document.metadata["relevance_failure"]) for document in kept}
    return reason


def chunks_of(passages: Sequence[Document]) -> list[dict[str, Any]]:
    """What passages of an RSERetriever say of their chunks."""
    chunks = []
    for passage in passages:
        chunks += passage.metadata["rse"]["chunks"]
    return chunks
