"""`evaluate`: measures a retriever on many questions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike
from langchain_core.runnables import Runnable

from langchain_rse._messages import check_type, progress_bar
from langchain_rse._sync import Steps, as_async, call, during, run
from langchain_rse.evaluation.evidence import access_of, find_evidence
from langchain_rse.evaluation.measuring import Meter, check_budgets
from langchain_rse.evaluation.questions import Question
from langchain_rse.evaluation.reports import Report
from langchain_rse.query.searching import check_documents
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import DOC_ID


def evaluate(
    retriever: RetrieverLike,
    questions: Iterable[Question],
    budgets: Iterable[int] = (4_000, 8_000, 16_000),
    *,
    sources: Mapping[str, str] | None = None,
    name: str | None = None,
    doc_id_key: str = DOC_ID,
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - arguments of the retriever
) -> Report:
    """Measure how much of the evidence a retriever returns within budgets of text.

    Example:
        ```python
        questions = [Question("Why is snow white?", [Evidence("snow.txt", text="scatters all")])]
        # A penalty of 0 fills the budget, as top-k chunks do.
        passages = evaluate(retriever, questions, name="passages", irrelevant_chunk_penalty=0)
        print(passages)

        top_k = retriever.vectorstore.as_retriever(search_kwargs={"k": 50})
        print(passages.compare(evaluate(top_k, passages.questions, name="top-k")))
        ```

    Six metrics, see `Report`: ``recall`` and ``whole`` (the share of the evidence that is returned,
    and of its parts that one passage contains), ``precision`` and ``iou`` (how much of the returned
    text is evidence), ``passages`` and ``characters`` (how much is returned).

    An `RSERetriever` is invoked once per question and budget, with ``max_context_length`` set to
    the budget. Any other retriever, including a chain that contains one, is invoked once per
    question: its Documents count in order until the budget is spent, and the last one is cut.

    Documents are located in their sources by metadata. If that fails, their text is searched for in
    ``sources``: first unchanged, then with any white space between words.

    Questions that the documents do not answer, ``Question("Why?", evidence=[])``, are reported
    separately, with the share of them for which nothing was returned, see `Report`.

    Args:
        retriever: Any retriever that returns Documents, best first.
        questions: The questions, each with its `Evidence`, such as `load_questions` reads. At least
            one must have evidence.
        budgets: The budgets in characters, each at least 1.
        sources: The texts of documents by id. They must contain all evidence and all quotations. By
            default, for an RSERetriever, its index.
        name: The name of the retriever in tables. By default ``retriever.name``, or its class.
        doc_id_key: The metadata key of a document's id. Not used for an RSERetriever.
        show_progress: Show a progress bar; needs tqdm.
        **arguments: Passed to each call, as in ``retriever.invoke(query, **arguments)``.

    Returns:
        The report: print it for a table of means; `Report.compare` gives the difference from
        another report, `Report.mean` and `Report.interval` the figures.

    Raises:
        ValueError: If an argument is out of its range, no question has evidence, evidence is not in
            its document, a quotation occurs twice, or a Document cannot be located.
        TypeError: If ``retriever`` is no retriever, or returns anything but Documents.
        Exception: Any error of the retriever, with the question's number as a note.
    """
    allowed = "a retriever, such as vectorstore.as_retriever(search_kwargs={'k': 50})"
    check_type("retriever", retriever, Runnable, allowed)
    ascending = check_budgets(budgets)
    located = find_evidence(questions, retriever, sources)
    if all(question.is_unanswerable for question in located):
        raise ValueError(f"at least one question must have evidence; none of {len(located)} has")
    if isinstance(retriever, RSERetriever):
        doc_id_key = DOC_ID  # its Documents always have it
        if "max_context_length" in arguments:
            raise ValueError("evaluate takes budgets=[...] instead of max_context_length")
    meter = Meter(sources or {}, access_of(retriever), doc_id_key)
    measured: list[list[dict[str, float]]] = []  # by question, then by budget
    refusals: list[list[bool]] = []
    with progress_bar(
        len(located), unit="questions", title="Evaluating", show=show_progress
    ) as advance:
        for number, question in enumerate(located, 1):
            with during(f"evaluating question {number}"):
                answers = run(_ask(retriever, question.question, ascending, arguments))
                if question.is_unanswerable:
                    texts = ["".join(each.page_content for each in answer) for answer in answers]
                    refusals.append([not text for text in texts])
                else:
                    pairs = zip(answers, ascending, strict=True)
                    measured.append([meter.measure(question, *pair) for pair in pairs])
            advance(1)
    figures = {}
    for metric in measured[0][0]:
        figures[metric] = np.array([[each[metric] for each in answers] for answers in measured])
    return Report(
        name=name or getattr(retriever, "name", None) or type(retriever).__name__,
        budgets=ascending,
        questions=located,
        figures=figures,
        refusals=np.array(refusals, dtype=np.bool_).reshape(len(refusals), len(ascending)),
    )


aevaluate = as_async(evaluate)
"""Like `evaluate`, async."""


def _ask(
    retriever: RetrieverLike, query: str, budgets: Sequence[int], arguments: Mapping[str, Any]
) -> Steps[Sequence[list[Document]]]:
    """Return the answer for each budget; only an RSERetriever gets the budget as an argument."""
    invoke, ainvoke = retriever.invoke, retriever.ainvoke
    if not isinstance(retriever, RSERetriever):
        returned = yield from call(invoke, ainvoke, query, **arguments)
        return [check_documents(returned, "a retriever")] * len(budgets)
    answers = []
    for budget in budgets:
        limits: dict[str, Any] = {"max_context_length": budget, "length_function": len}
        answer = yield from call(invoke, ainvoke, query, **limits, **arguments)
        answers.append(answer)
    return answers
