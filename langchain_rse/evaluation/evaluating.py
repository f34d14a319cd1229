"""`evaluate`: asks a retriever many questions and measures what it returns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike
from pydantic import BaseModel, ConfigDict, Field, InstanceOf, PositiveInt

from langchain_rse._progress import Advance, progress_bar
from langchain_rse._sync import Steps, call, compute, concurrently, during, in_thread, run
from langchain_rse.evaluation.evidence import find_evidence
from langchain_rse.evaluation.measuring import Budgets, Figures, Locator, Meter, is_empty
from langchain_rse.evaluation.questions import Question
from langchain_rse.evaluation.reports import Report
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import DOC_ID, START_INDEX


class _Arguments(BaseModel):
    """The arguments of `evaluate`, checked."""

    model_config = ConfigDict(title="arguments")

    retriever: Any
    questions: Annotated[tuple[InstanceOf[Question], ...], Field(min_length=1)]
    budgets: Budgets
    sources: Mapping[str, str] | None
    name: str | None
    doc_id_key: str
    start_index_key: str
    max_concurrency: PositiveInt
    show_progress: bool
    invoke_arguments: dict[str, Any]


def evaluate(
    retriever: RetrieverLike,
    questions: Iterable[Question],
    budgets: Iterable[int] = (4_000, 8_000, 16_000),
    *,
    sources: Mapping[str, str] | None = None,
    name: str | None = None,
    doc_id_key: str = DOC_ID,
    start_index_key: str = START_INDEX,
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - the retriever's own
) -> Report:
    """Measure how much of the evidence a retriever returns within budgets of text.

    An `RSERetriever` is invoked once per question and budget, with ``max_context_length`` set to
    the budget. Any other retriever, including a chain around one, is invoked once per question: its
    Documents count in their order until the budget is spent, and the last one is cut.

    A Document is located in its source by its metadata, else by its text in ``sources``: first
    unchanged, then with any white space between its words.

    Questions without an answer in the documents, ``Question("Why?", evidence=[])``, are counted
    apart: for how many of them nothing was returned, see `Report`.

    Args:
        retriever: Any retriever that returns Documents, best first.
        questions: The questions with their evidence, at least one that has some.
        budgets: The numbers of characters that may be returned, each at least 1.
        sources: Texts of documents by id, which must contain all evidence; quotations are found
            there. By default, for an RSERetriever, its index.
        name: The name of the retriever in tables; by default its own or its class.
        doc_id_key: The metadata key of a document's id. Not used for an RSERetriever.
        start_index_key: The metadata key of a text's first character in the document; likewise.
        show_progress: Show a progress bar; needs tqdm.
        **arguments: Passed to each call, as in ``retriever.invoke(query, **arguments)``.

    Raises:
        ValueError: If an argument is out of its range, a question has an answer but no evidence,
            none has evidence, evidence is not in its document, a quotation occurs twice, or a
            Document cannot be located.
        TypeError: If the retriever returns anything but Documents.
        Exception: Any error of the retriever, with the question's number as a note.
    """
    checked = _Arguments.model_validate(
        {
            "retriever": retriever,
            "questions": questions,
            "budgets": budgets,
            "sources": sources,
            "name": name,
            "doc_id_key": doc_id_key,
            "start_index_key": start_index_key,
            "max_concurrency": 1,
            "show_progress": show_progress,
            "invoke_arguments": arguments,
        }
    )
    return _evaluate(checked)


async def aevaluate(
    retriever: RetrieverLike,
    questions: Iterable[Question],
    budgets: Iterable[int] = (4_000, 8_000, 16_000),
    *,
    sources: Mapping[str, str] | None = None,
    name: str | None = None,
    doc_id_key: str = DOC_ID,
    start_index_key: str = START_INDEX,
    max_concurrency: int = 8,
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - the retriever's own
) -> Report:
    """Like `evaluate`, async, with up to ``max_concurrency`` questions at once."""
    checked = _Arguments.model_validate(
        {
            "retriever": retriever,
            "questions": questions,
            "budgets": budgets,
            "sources": sources,
            "name": name,
            "doc_id_key": doc_id_key,
            "start_index_key": start_index_key,
            "max_concurrency": max_concurrency,
            "show_progress": show_progress,
            "invoke_arguments": arguments,
        }
    )
    return await in_thread(_evaluate, checked)


def _evaluate(arguments: _Arguments) -> Report:
    """Check the evidence, ask all questions, and report."""
    retriever = arguments.retriever
    questions = find_evidence(arguments.questions, retriever, arguments.sources)
    locator = Locator(arguments.sources or {}, arguments.doc_id_key, arguments.start_index_key)
    if isinstance(retriever, RSERetriever):  # its Documents have fixed keys
        locator = Locator(arguments.sources or {})
    meter = Meter(arguments.budgets, locator)
    numbered = list(enumerate(questions, 1))
    answerable = [each for each in numbered if not each[1].is_unanswerable]
    unanswerable = [each for each in numbered if each[1].is_unanswerable]
    if not answerable:
        raise ValueError("at least one question must have evidence to measure by")
    with progress_bar(
        len(questions), unit="questions", title="Evaluating", show=arguments.show_progress
    ) as advance:
        measuring = [
            _evaluate_question(number, question, arguments, meter, advance)
            for number, question in answerable
        ]
        figures = run(concurrently(measuring, arguments.max_concurrency))
        asking = [
            _ask_unanswerable(number, question, arguments, advance)
            for number, question in unanswerable
        ]
        refusals = run(concurrently(asking, arguments.max_concurrency))
    by_metric = np.moveaxis(np.array(figures), -1, 0)  # from (questions, budgets, metrics)
    return Report(
        name=arguments.name or getattr(retriever, "name", None) or type(retriever).__name__,
        budgets=arguments.budgets,
        questions=questions,
        figures=dict(zip(Figures._fields, by_metric, strict=True)),
        refusals=np.array(refusals, dtype=bool).reshape(len(refusals), len(arguments.budgets)),
    )


def _evaluate_question(
    number: int, question: Question, arguments: _Arguments, meter: Meter, advance: Advance
) -> Steps[list[Figures]]:
    """Measure the answers to a question, one for each budget."""
    retriever = arguments.retriever
    with during(f"evaluating question {number}"):
        answers = yield from _ask(question.question, arguments)
        if isinstance(retriever, RSERetriever):
            yield from compute(meter.read_digests, retriever.docstore, question, answers)
        figures = yield from compute(meter.measure, question, answers)
    advance(1)
    return figures


def _ask_unanswerable(
    number: int, question: Question, arguments: _Arguments, advance: Advance
) -> Steps[list[bool]]:
    """Ask a question without an answer; True for each budget within which nothing was returned."""
    with during(f"evaluating question {number}"):
        answers = yield from _ask(question.question, arguments)
        refusals = [is_empty(answer) for answer in answers]
    advance(1)
    return refusals


def _ask(query: str, arguments: _Arguments) -> Steps[Sequence[list[Document]]]:
    """Return the answer for each budget; only an RSERetriever is told the budget."""
    invoke = arguments.retriever.invoke
    ainvoke = arguments.retriever.ainvoke
    if not isinstance(arguments.retriever, RSERetriever):
        answer = yield from call(invoke, ainvoke, query, **arguments.invoke_arguments)
        return [answer] * len(arguments.budgets)
    answers = []
    for budget in arguments.budgets:
        answer = yield from call(
            invoke,
            ainvoke,
            query,
            max_context_length=budget,
            length_function=len,
            **arguments.invoke_arguments,
        )
        answers.append(answer)
    return answers
