"""`evidence_evaluator` in LangSmith's own ``evaluate``, without an account and without uploads."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langsmith import Client, aevaluate, evaluate
from langsmith.schemas import Example, LangSmithInfo

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.evaluation import evidence_evaluator
from tests.integration_tests.stores import open_chroma

pytestmark = pytest.mark.filterwarnings(r"ignore:'upload_\w+' parameter is in beta")

HERONS = "Herons fish at dawn, before others wake."
CRANES = "Cranes dance in spring, when they look for a mate."
ASKED: dict[str, list[dict[str, Any]]] = {
    "When do herons fish?": [{"doc_id": "herons", "text": "fish at dawn"}],
    "When do cranes dance?": [{"doc_id": "cranes", "start": 0, "end": len(CRANES)}],
    "Who won the cup?": [],
}


class Offline(Client):
    """Uploads nothing: LangChain traces the calls of a target even without uploads of results."""

    def create_run(self, *_: Any, **__: Any) -> None:
        pass

    def update_run(self, *_: Any, **__: Any) -> None:
        pass


CLIENT = Offline(api_key="none", info=LangSmithInfo(), auto_batch_tracing=False)


@pytest.fixture
def retriever(tmp_path: Path) -> RSERetriever:
    retriever = RSERetriever(
        vectorstore=open_chroma(tmp_path, WordLlamaEmbeddings()),
        docstore=SQLDocStore(f"sqlite:///{tmp_path}/chunks.db"),
    )
    retriever.add_documents([Document(HERONS, id="herons"), Document(CRANES, id="cranes")])
    return retriever


def examples() -> list[Example]:
    return [
        Example(id=uuid.uuid4(), inputs={"input": question}, outputs={"evidence": evidence})
        for question, evidence in ASKED.items()
    ]


def scores_of(row: Any) -> dict[str, Any]:
    return {result.key: result.score for result in row["evaluation_results"]["results"]}


def check(rows: list[Any], refused: int) -> None:
    by_question = {row["example"].inputs["input"]: scores_of(row) for row in rows}
    found = {"evidence_recall": 1.0, "whole_evidence": 1.0}
    assert by_question == {
        "When do herons fish?": found,
        "When do cranes dance?": found,
        "Who won the cup?": {"refused": refused},
    }


async def test_documents_of_a_function_and_of_a_chain(retriever: RSERetriever) -> None:
    evaluator = evidence_evaluator(retriever)
    settings: dict[str, Any] = {
        "evaluators": [evaluator],
        "client": CLIENT,
        "upload_results": False,
    }

    def retrieve(inputs: dict[str, Any]) -> dict[str, Any]:
        return {"documents": retriever.invoke(inputs["input"])}

    check(list(evaluate(retrieve, data=examples(), **settings)), refused=0)
    chain = RunnableLambda(lambda inputs: inputs["input"]) | retriever  # returns a list
    check(list(evaluate(chain, data=examples(), **settings)), refused=0)

    async def retrieve_or_refuse(inputs: dict[str, Any]) -> dict[str, Any]:
        if "cup" in inputs["input"]:
            return {"documents": []}
        found = await retriever.ainvoke(inputs["input"])
        return {"documents": [document.model_dump() for document in found]}

    results = await aevaluate(retrieve_or_refuse, data=examples(), **settings)
    check([row async for row in results], refused=1)
