"""A corpus of random words with questions, and a retriever that counts its searches."""

from __future__ import annotations

from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter

from langchain_rse import RSEConfig, RSERetriever
from langchain_rse.evaluation import Evidence, Question
from tests.unit_tests import fakes
from tests.unit_tests.fakes import BagOfWords


class Searched(InMemoryVectorStore):
    """``searches`` has the query of each search."""

    def __init__(self) -> None:
        super().__init__(BagOfWords())
        self.searches: list[str] = []

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        self.searches.append(query)
        return super().similarity_search_with_score(query, k, **kwargs)

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        self.searches.append(query)
        return await super().asimilarity_search_with_score(query, k, **kwargs)


def some_words(rng: np.random.Generator) -> str:
    return " ".join(f"word{number:03}" for number in rng.integers(0, 60, 4))


class SyntheticCorpus:
    """Documents "d0", "d1" ... of one paragraph a chunk, and questions on runs of them.

    Every second paragraph of a question's evidence has the question's words. In a corpus of
    noise the evidence is anywhere, and no paragraph has them. ``settings`` may have fields of
    `RSEConfig`.
    """

    def __init__(
        self,
        *,
        questions: int = 5,
        documents: int = 2,
        paragraphs: int = 20,
        seed: int = 0,
        noise: bool = False,
        **settings: Any,
    ) -> None:
        rng = np.random.default_rng(seed)
        texts = [[some_words(rng) for _ in range(paragraphs)] for _ in range(documents)]
        positions = []
        for number in range(questions):
            document = int(rng.integers(documents))
            start = int(rng.integers(paragraphs - 5))
            end = start + int(rng.integers(1, 6))
            positions.append((document, start, end))
            if not noise:
                for paragraph in range(start, end, 2):
                    texts[document][paragraph] += f" topic{number} asked{number}"
        self.questions = []
        for number, (document, start, end) in enumerate(positions):
            characters_before = len("".join(f"{text}\n\n" for text in texts[document][:start]))
            length = len("\n\n".join(texts[document][start:end]))
            question = some_words(rng)
            if not noise:
                question = f"topic{number} asked{number} {question.split()[0]}?"
            evidence = Evidence(f"d{document}", characters_before, characters_before + length)
            self.questions.append(Question(question, [evidence]))
        config = RSEConfig.of(settings.pop("config", "balanced"))
        config = config.replace(**fakes._config_fields(settings))
        self.store = Searched()
        self.retriever = RSERetriever(
            vectorstore=self.store,
            docstore=InMemoryStore(),
            text_splitter=CharacterTextSplitter(chunk_size=50, chunk_overlap=0),
            **{"fetch_k": 20, **settings, "config": config},
        )
        self.retriever.add_documents(
            [Document("\n\n".join(text)) for text in texts],
            ids=[f"d{number}" for number in range(documents)],
        )
