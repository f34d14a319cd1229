"""The evaluator for LangSmith, called as LangSmith calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumpd

from langchain_rse.evaluation import Evidence, Question, Report, evaluate, evidence_evaluator
from tests.unit_tests import fakes
from tests.unit_tests.evaluation.helpers import text_at

TEXT = "Herons fish at dawn. Nobody knows why.  Cranes dance."
EVIDENCE = {"doc_id": "a", "start": 10, "end": 30}


def scores(
    outputs: Any, evidence: Any = (EVIDENCE,), answer: Any = None, **settings: Any
) -> dict[str, float]:
    """The scores by key, of an example whose input has another key than ours."""
    evaluator = evidence_evaluator(**settings)
    reference = {"evidence": evidence and list(evidence), "answer": answer}
    result = evaluator(inputs={"input": "Why?"}, outputs=outputs, reference_outputs=reference)  # type: ignore[call-arg]
    assert result.keys() == {"results"}
    assert all(score.keys() == {"key", "score"} for score in result["results"])
    return {score["key"]: score["score"] for score in result["results"]}


def both(recall: float, whole: float) -> dict[str, float]:
    return {"evidence_recall": recall, "whole_evidence": whole}


def both_of(report: Report) -> dict[str, float]:
    figures = report.figures
    return both(float(figures["recall"][0, 0]), float(figures["whole"][0, 0]))


def question_with(evidence: Sequence[Mapping[str, Any]], question: str = "Why?") -> Question:
    return Question(question, [Evidence(**part) for part in evidence])


@pytest.mark.parametrize(
    "output",
    [
        lambda document: {"documents": [document]},
        lambda document: {"output": [document]},  # of a target that returns a list
        lambda document: [document],
        lambda document: (document,),
        lambda document: {"documents": [document.model_dump()]},
        lambda document: {"documents": [dumpd(document)]},
    ],
    ids=["key", "list", "bare list", "tuple", "dicts", "dumped"],
)
def test_documents_are_read_in_all_forms(output: Any) -> None:
    assert scores(output(text_at(10, 20))) == both(0.5, 0.0)
    assert scores(output(text_at(5, 40))) == both(1.0, 1.0)


def test_documents_may_have_other_keys() -> None:
    document = Document("x" * 10, metadata={"source": "a", "offset": 10})
    keys = {"documents_key": "context", "doc_id_key": "source", "start_index_key": "offset"}
    assert scores({"context": [document]}, **keys) == both(0.5, 0.0)


def test_nothing_and_something_for_a_question_without_an_answer() -> None:
    assert scores({"documents": []}, evidence=[]) == {"refused": 1}
    assert scores({"documents": [Document("")]}, evidence=[]) == {"refused": 1}
    assert scores({"documents": [text_at(0, 9)]}, evidence=[]) == {"refused": 0}
    assert scores({"documents": []}) == both(0.0, 0.0)


def test_a_budget_cuts_the_last_document() -> None:
    documents = [text_at(10, 20), text_at(20, 40)]
    assert scores({"documents": documents}) == both(1.0, 1.0)
    assert scores({"documents": documents}, budget=15) == both(15 / 20, 0.0)
    with pytest.raises(ValueError, match="budget must be at least 1; got 0"):
        evidence_evaluator(budget=0)


def test_quotations_are_found_in_sources() -> None:
    quoted = [{"doc_id": "a", "text": "fish at\ndawn"}, {"doc_id": "a", "text": "Cranes dance"}]
    documents = [Document("Herons fish at dawn.", metadata={"doc_id": "a", "start_index": 0})]
    recall = len("fish at dawn") / len("fish at dawn" + "Cranes dance")
    assert scores({"documents": documents}, quoted, sources={"a": TEXT}) == both(recall, 0.5)
    located_by_text = [Document("Herons fish at dawn.")]
    assert scores({"documents": located_by_text}, quoted, sources={"a": TEXT}) == both(recall, 0.5)


def test_quotations_are_found_in_the_index_of_a_retriever() -> None:
    line = "c1 60\n"
    text = fakes.lines(3, 60, 80)
    retriever = fakes.make_retriever({"a": text, "b": text})
    answer = retriever.invoke(fakes.QUERY)
    assert answer
    for doc_id in ("a", "b"):  # the same text: either counts
        quoted = [{"doc_id": doc_id, "text": line}]
        report = evaluate(retriever, [question_with(quoted, fakes.QUERY)], [10_000])
        assert scores({"documents": answer}, quoted, retriever=retriever) == both_of(report)
    others = [Document(line, metadata={"doc_id": "b", "start_index": text.index(line)})]
    quoted = [{"doc_id": "a", "text": line}]
    assert scores({"documents": others}, quoted, retriever=retriever) == both(1.0, 1.0)


@pytest.mark.parametrize(
    ("outputs", "evidence", "answer", "message"),
    [
        ({"documents": []}, None, None, "the example with the inputs .*'Why\\?'"),
        ({"documents": []}, None, "Rain.", "has an answer but no evidence"),
        (
            {"documents": []},
            [{"doc_id": "a", "text": "Herons"}],
            None,
            "quoted evidence needs sources",
        ),
        ({}, [EVIDENCE], None, "the target must return a list of Documents"),
        ({"documents": ["Herons"]}, [EVIDENCE], None, "dicts with page_content and metadata"),
        ({"documents": [Document("a")]}, [EVIDENCE], None, "cannot be located in its source"),
    ],
)
def test_what_cannot_be_measured_is_an_error(
    outputs: Any, evidence: Any, answer: Any, message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        scores(outputs, evidence, answer)
