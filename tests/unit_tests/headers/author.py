"""A model that writes headers, and stores to look at them in."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import SimpleChatModel
from langchain_core.messages import BaseMessage
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from pydantic import Field

from langchain_rse import RSERetriever
from langchain_rse.headers import DocumentHeaders
from tests.unit_tests import fakes
from tests.unit_tests.writes import vectors_without_writes

TITLE = "Herons of the lake"
SUMMARY = "This document is about herons."
HERONS = (
    "Herons nest in trees near the lake.\n\n"
    "They build their nests of many twigs.\n\n"
    "They eat fish, which they spear.\n\n"
    "They eat frogs and voles as well."
)
SPLITTER = RecursiveCharacterTextSplitter(chunk_size=40, chunk_overlap=0)


class Author(SimpleChatModel):
    """Describes a document.

    Attributes:
        requests: What it was asked.
        instead: Fields of its answer with other values; an error is raised.
    """

    requests: list[str] = Field(default_factory=list)
    instead: dict[str, Any] = Field(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "author"

    def _call(self, messages: list[BaseMessage], *_: Any, **__: Any) -> str:
        self.requests.append(str(messages[1].text))
        for value in self.instead.values():
            if isinstance(value, Exception):
                raise value
        return json.dumps({"title": TITLE, "summary": SUMMARY, **self.instead})


class Index:
    """Two stores, and what is in them."""

    def __init__(self, docstore: Any = None, way: fakes.Way | None = None) -> None:
        self.way = way or fakes.Way(None)
        self.vectorstore = InMemoryVectorStore(fakes.BagOfWords())
        self.docstore = InMemoryByteStore() if docstore is None else docstore

    def retriever(self, headers: DocumentHeaders | None = None, **fields: Any) -> RSERetriever:
        return RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            text_splitter=SPLITTER,
            headers=headers,
            **{"config": fakes.EVERYTHING, **fields},
        )

    def add(self, headers: DocumentHeaders | None, *documents: Document) -> None:
        self.way.add(self.retriever(headers), documents)

    def embedded(self) -> list[str]:
        """The embedded texts, in the order of the documents' ids and chunks."""
        vectors = sorted(
            self.vectorstore.store.values(),
            key=lambda vector: (vector["metadata"]["doc_id"], vector["metadata"]["chunk_index"]),
        )
        return [str(vector["text"]) for vector in vectors]

    def headers(self) -> list[str]:
        """The headers in front of the embedded texts."""
        return [text.rpartition("\n\n")[0] for text in self.embedded()]

    def ids(self) -> set[str]:
        return set(self.vectorstore.store)

    def vectors(self) -> dict[str, Any]:
        return vectors_without_writes(self.vectorstore.store)

    def all_keys(self) -> list[str]:
        return fakes.keys_of(self.docstore)


def herons(**metadata: Any) -> Document:
    return Document(HERONS, metadata={"doc_id": "herons", **metadata})
