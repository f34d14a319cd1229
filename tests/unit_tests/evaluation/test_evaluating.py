"""Asking retrievers: any retriever once per question, an RSERetriever for each budget."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.tracers.context import collect_runs
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter
from pydantic import Field

from langchain_rse import RSERetriever
from langchain_rse.evaluation import Evidence, Question, Report, aevaluate, evaluate
from tests.unit_tests import fakes
from tests.unit_tests.evaluation.helpers import Canned, ask_for, canned, text_at
from tests.unit_tests.fakes import EVERYTHING, BagOfWords, Way, text_of

way = fakes.way

NO_ANSWER = Question("Who?", [])
EMPTY = Document("")
SOURCES = {"a": "One two three.\n\nFour five six.", "b": "Nothing here."}


def ask(way: Way, retriever: Any, *args: Any, **kwargs: Any) -> Report:
    return way.call(evaluate, aevaluate, retriever, *args, **kwargs)


@fakes.both_ways
def test_a_retriever_is_asked_once_for_all_budgets(way: Way) -> None:
    retriever = canned(text_at(0, 10), text_at(10, 20))
    report = ask(way, retriever, iter([ask_for((0, 20))]), iter([20, 5, 10, 10]), k=3)
    assert report.budgets == (5, 10, 20)
    assert report.figures["recall"].tolist() == [[0.25, 0.5, 1.0]]
    assert report.figures["passages"].tolist() == [[1, 1, 2]]
    assert retriever.asked == [("Why?", {"k": 3})]


# Questions without an answer


@fakes.both_ways
def test_questions_without_an_answer_are_counted_apart(way: Way) -> None:
    documents = {"Why?": [text_at(0, 5)], "Who?": [], "When?": [text_at(0, 5)], "Where?": [EMPTY]}
    others = [Question("When?", []), Question("Where?", [])]
    retriever = Canned(documents=documents)
    report = ask(way, retriever, [NO_ANSWER, ask_for((0, 10)), *others], [5, 10])
    assert report.questions == (NO_ANSWER, ask_for((0, 10)), *others)
    assert report.refusals.tolist() == [[True, True], [False, False], [True, True]]
    expected = evaluate(retriever, [ask_for((0, 10))], [5, 10])
    for metric, figures in expected.figures.items():
        assert report.figures[metric].tolist() == figures.tolist()


@fakes.both_ways
def test_an_rse_retriever_may_refuse_within_some_budgets_only(way: Way) -> None:
    retriever = indexed()
    questions = [ask_for((0, 20), question="first paragraph"), Question("second paragraph", [])]
    report = ask(way, retriever, questions, [1, 400])
    assert report.refusals.tolist() == [[True, False]]
    # With a relevance that nothing has.
    report = ask(way, retriever, questions, [1, 400], irrelevant_chunk_penalty=1)
    assert report.refusals.tolist() == [[True, True]]
    assert report.mean("recall").tolist() == [0, 0]


# Quotations


def quoting(text: str, doc_id: str = "a") -> Question:
    return Question("first paragraph", [Evidence(doc_id, text=text)])


def test_quoted_evidence_is_located_in_the_sources() -> None:
    found = Document(SOURCES["a"][8:], metadata={"doc_id": "a", "start_index": 8})
    retriever = Canned(documents={"first paragraph": [found]})
    report = evaluate(retriever, [quoting("three. Four")], sources=SOURCES)
    assert report.figures["recall"][0, 0] == 1
    assert report.questions == (Question("first paragraph", [Evidence("a", 8, 20, "three. Four")]),)
    # There it is known, so that no sources are needed.
    again = evaluate(retriever, report.questions)
    assert again.compare(report).difference.tolist() == [0, 0, 0]


@fakes.both_ways
def test_quoted_evidence_is_located_in_the_index(way: Way) -> None:
    retriever = indexed()
    quotation = "paragraph 07 of the text first paragraph 08"
    report = ask(
        way, retriever, [quoting(quotation), quoting(quotation.replace("first", "second"), "b")]
    )
    first, second = (question.evidence[0] for question in report.questions)
    assert TEXT[first.start : first.end] == quotation.replace("text first", "text\n\nfirst")
    assert second.doc_id == "b"
    assert second.start > first.start


# An RSERetriever


class Doubled(RSERetriever):
    """Returns each passage twice; ``asked`` has the arguments of each call."""

    asked: list[dict[str, Any]] = Field(default_factory=list)

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, **kwargs: Any
    ) -> list[Document]:
        self.asked.append(kwargs)
        return 2 * super()._get_relevant_documents(query, run_manager=run_manager, **kwargs)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: Any, **kwargs: Any
    ) -> list[Document]:
        return self._get_relevant_documents(query, run_manager=run_manager.get_sync(), **kwargs)


TEXT = text_of("first", 20)


def indexed(kind: type[RSERetriever] = RSERetriever, **fields: Any) -> Any:
    retriever = kind(
        vectorstore=InMemoryVectorStore(BagOfWords()),
        docstore=InMemoryStore(),
        text_splitter=CharacterTextSplitter(chunk_size=30, chunk_overlap=0),
        config=EVERYTHING,
        **fields,
    )
    retriever.add_documents([Document(TEXT), Document(text_of("second", 20))], ids=["a", "b"])
    return retriever


def test_an_rse_retriever_is_invoked_for_each_budget_as_a_user_does(way: Way) -> None:
    retriever = indexed(Doubled)
    question = ask_for((0, len(TEXT)), question="first paragraph")
    # Its own metadata keys are known, whatever those of other retrievers are.
    with collect_runs() as runs:
        report = ask(way, retriever, [question], [400, 100], doc_id_key="source", fetch_k=7)
    assert [arguments["max_context_length"] for arguments in retriever.asked] == [100, 400]
    assert all(arguments["fetch_k"] == 7 for arguments in retriever.asked)
    assert [run.name for run in runs.traced_runs] == ["Doubled"] * 2
    assert report.figures["passages"].min() >= 2


def test_evidence_counts_in_each_document_that_has_its_text() -> None:
    """Of documents with one text, queries return one."""
    retriever = indexed()
    retriever.add_documents([Document(TEXT)], ids=["copy"])
    for doc_id in ("a", "copy"):
        question = ask_for((0, 20), question="first paragraph", doc_id=doc_id)
        assert evaluate(retriever, [question], [10_000]).mean("recall").tolist() == [1.0]


def test_an_rse_retriever_is_measured_by_what_it_returns() -> None:
    retriever = indexed(length_function=fakes.words, max_context_length=3)
    question = ask_for((0, len(TEXT)), question="first paragraph")
    report = evaluate(retriever, [question], [400])
    passages = retriever.invoke(question.question, max_context_length=400, length_function=len)
    length = sum(len(d.page_content) for d in passages if d.metadata["doc_id"] == "a")
    assert report.figures["recall"][0, 0] == length / len(TEXT) > 0
    assert report.figures["passages"][0, 0] == len(passages)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        (Evidence("c", 0, 9), "question 2: there is no document 'c'.*(are|it has) a"),
        (Evidence("a", 0, 9_999), rf"document 'a', which has {len(TEXT)} char"),
    ],
)
def test_evidence_must_be_in_the_index_or_the_sources(evidence: Evidence, message: str) -> None:
    questions = [ask_for((0, 1)), Question("Why?", [evidence])]
    retriever = indexed(Doubled)
    with pytest.raises(ValueError, match=message):
        evaluate(retriever, questions)
    with pytest.raises(ValueError, match=message):
        evaluate(retriever, questions, sources={"a": TEXT})
    assert retriever.asked == []
