"""LangChain's standard suites: the retriever on Chroma and SQLite, and the embeddings."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import EmbeddingsIntegrationTests, RetrieversIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings
from tests.integration_tests.stores import open_chroma

_TEXTS = {
    "cats": "Cats sleep most of the day. A cat purrs when it is content.",
    "dogs": "Dogs bark at strangers. A dog needs a walk every day.",
    "birds": "Birds build nests in spring. Most birds can fly.",
    "fish": "Fish breathe with gills. A fish cannot live on land.",
    "horses": "Horses eat grass and oats. A horse can sleep standing up.",
    "stocks": "Shares fell on Monday after the central bank raised its rates.",
    "bridges": "The bridge is closed for repairs until the end of the year.",
}


class TestRSERetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _stores(self, tmp_path: Path) -> None:
        self.vectorstore = open_chroma(tmp_path, WordLlamaEmbeddings())
        self.docstore = SQLDocStore(f"sqlite:///{tmp_path}/chunks.db")
        RSEIndexer(self.vectorstore, self.docstore).add_documents(
            [Document(text, metadata={"source": name}) for name, text in _TEXTS.items()]
        )

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return RSERetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"vectorstore": self.vectorstore, "docstore": self.docstore}

    @property
    def retriever_query_example(self) -> str:
        return "How do cats, dogs, birds and fish spend the day?"


class WithWordLlama:
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return WordLlamaEmbeddings


class TestEmbeddingsUnit(WithWordLlama, EmbeddingsUnitTests):
    pass


class TestEmbeddings(WithWordLlama, EmbeddingsIntegrationTests):
    pass
