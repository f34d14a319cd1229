"""Asking a retriever many questions and measuring what it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike

from langchain_rse._progress import Advance, progress_bar
from langchain_rse._steps import Steps, arun, call, compute, concurrently, during, run
from langchain_rse.evaluation.places import METRICS, Placer, measure
from langchain_rse.evaluation.questions import Question, whole_number
from langchain_rse.evaluation.reports import Report
from langchain_rse.reading import VersionKey, read_layouts
from langchain_rse.retrievers import RSERetriever
from langchain_rse.schema import DOC_ID, START_INDEX, document_key
from langchain_rse.selection import Window

__all__ = ["Evaluation", "aevaluate", "evaluate"]

# Of an RSERetriever, these follow from the budget.
_SET_BY_BUDGET = frozenset({"max_context_length", "length_function", "order"})


@dataclass
class Evaluation:
    """What `evaluate` and `aevaluate` have in common: all but the waiting."""

    retriever: RetrieverLike
    questions: tuple[Question, ...]
    budgets: tuple[int, ...]
    sources: Mapping[str, str] | None
    name: str | None
    doc_id_key: str
    start_index_key: str
    max_concurrency: int
    resamples: int
    seed: int
    show_progress: bool
    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.questions = tuple(self.questions)
        if not self.questions:
            raise ValueError("there are no questions to evaluate")
        for question in self.questions:
            if not isinstance(question, Question):
                raise TypeError(
                    f"questions must be of type Question; got {question!r}. load_questions reads "
                    "them from a file"
                )
        given: Any = self.budgets
        budgets = given if isinstance(given, Iterable) else [given]
        self.budgets = tuple(sorted(whole_number("a budget", budget, 1) for budget in budgets))
        if not self.budgets or len(set(self.budgets)) < len(self.budgets):
            raise ValueError(f"budgets must be at least one, and all different; got {given!r}")
        for name, least in (("max_concurrency", 1), ("resamples", 1), ("seed", 0)):
            whole_number(name, getattr(self, name), least)
        self.name = self.name or getattr(self.retriever, "name", None)
        if isinstance(self.retriever, RSERetriever):
            self.doc_id_key, self.start_index_key = DOC_ID, START_INDEX
            for name in _SET_BY_BUDGET & self.settings.keys():
                raise ValueError(f"{name} follows from budgets; got {self.settings[name]!r}")
        self.placer = Placer(self.sources, self.doc_id_key, self.start_index_key)

    def check_evidence(self) -> Steps[None]:
        """Check that the evidence is in the documents, as far as their lengths are known."""
        lengths: dict[str, int]
        if self.sources is not None:
            where = "sources"
            lengths = {doc_id: len(text) for doc_id, text in self.sources.items()}
        elif isinstance(self.retriever, RSERetriever):
            where = "the index"
            wanted = {part.doc_id for question in self.questions for part in question.evidence}
            windows: dict[VersionKey, list[Window]] = {
                (document_key(doc_id), ""): [] for doc_id in sorted(wanted)
            }
            layouts = yield from read_layouts(self.retriever.docstore, windows)
            lengths = {
                layout.manifest.doc_id: layout.manifest.length
                for layout in layouts.values()
                if layout is not None and layout.manifest.current is not None
            }
        else:
            return
        for number, question in enumerate(self.questions, 1):
            for part in question.evidence:
                length = lengths.get(part.doc_id)
                if length is None or part.end > length:
                    wrong = (
                        f"the document is not in {where}"
                        if length is None
                        else f"its text in {where} has only {length} characters"
                    )
                    raise ValueError(
                        f"question {number} has evidence from {part.start} to {part.end} of "
                        f"document {part.doc_id!r}, but {wrong}"
                    )

    def answer(self, index: int) -> Steps[list[list[float]]]:
        """The figures of a question, for each budget."""
        question = self.questions[index]
        with during(f"evaluating question {index + 1}"):
            answers: list[list[Document]]
            if isinstance(self.retriever, RSERetriever):
                same = {**self.settings, "length_function": len, "order": "relevance"}
                answers = yield from self.retriever.answers(
                    question.question,
                    [{**same, "max_context_length": budget} for budget in self.budgets],
                )
            else:
                asked = self.retriever
                documents = yield from call(
                    asked.invoke, asked.ainvoke, question.question, **self.settings
                )
                answers = [documents] * len(self.budgets)
            figures = yield from compute(self._figures, question, answers)
        return figures

    def _figures(self, question: Question, answers: list[list[Document]]) -> list[list[float]]:
        return [
            measure(question.evidence, self.placer.pieces(documents, budget), budget)
            for documents, budget in zip(answers, self.budgets, strict=True)
        ]

    def report(self, answers: Sequence[list[list[float]]]) -> Report:
        """The report on all answers."""
        figures = np.array(answers, dtype=np.float64)
        figures.setflags(write=False)
        return Report(
            name=self.name or type(self.retriever).__name__,
            budgets=self.budgets,
            questions=self.questions,
            figures={metric: figures[:, :, place] for place, metric in enumerate(METRICS)},
            resamples=self.resamples,
            seed=self.seed,
        )

    def steps(self, limit: int) -> Steps[Report]:
        """The whole evaluation, asking at most ``limit`` questions at once."""
        yield from self.check_evidence()
        with progress_bar(
            len(self.questions), unit="questions", title="Evaluating", show=self.show_progress
        ) as advance:
            answers = yield from concurrently(
                [self._answered(index, advance) for index in range(len(self.questions))], limit
            )
        return self.report(answers)

    def _answered(self, index: int, advance: Advance) -> Steps[list[list[float]]]:
        figures = yield from self.answer(index)
        advance(1)
        return figures


def evaluate(
    retriever: RetrieverLike,
    questions: Iterable[Question],
    budgets: Iterable[int] = (4_000, 8_000, 16_000),
    *,
    sources: Mapping[str, str] | None = None,
    name: str | None = None,
    doc_id_key: str = DOC_ID,
    start_index_key: str = START_INDEX,
    max_concurrency: int = 8,
    resamples: int = 1_000,
    seed: int = 0,
    show_progress: bool = False,
    **settings: Any,  # noqa: ANN401 - the retriever's own
) -> Report:
    r"""Measure how much of the evidence a retriever returns within budgets of text.

    For each question and budget, Documents are taken in the order given until the budget
    is spent; the last one is cut. See `Report` for what is measured.

    An `RSERetriever` is asked anew for each budget, with ``max_context_length`` set to it,
    in characters, and the best segments first. Any other retriever, a chain around an
    RSERetriever included, is asked once a question.

    A Document is placed in its source by its metadata. Where they lack the document's id
    or the place in it, or ``sources`` has another text at that place, its text is looked
    for in ``sources``: as it is, else with runs of white space counted alike. Where a text
    is there several times, the first counts. Documents without text are passed over.

    Args:
        retriever: Any retriever that returns Documents, best first.
        questions: The questions with their evidence, at least one.
        budgets: Characters that may be returned, each at least 1, all different.
        sources: Texts of documents by id. If given, all evidence must lie in them; if
            not, an RSERetriever's evidence must lie in the documents of its index.
        name: The name of the retriever in tables; by default its own or its class.
        doc_id_key: The metadata key of a document's id; RSERetriever has its own.
        start_index_key: The metadata key of a text's first character in the document;
            RSERetriever has its own.
        max_concurrency: Questions that `aevaluate` asks at once, at least 1; `evaluate`
            asks one after the other.
        resamples: Resamples of the questions for intervals, at least 1.
        seed: Seed of the resamples, at least 0: the same seed gives the same intervals.
        show_progress: Show a progress bar; needs tqdm.
        **settings: Given to each call, as in ``retriever.invoke(query, **settings)``.
            Retrievers that take no arguments ignore them.

    Returns:
        The figures, for all questions and budgets.

    Raises:
        ValueError: If an argument is out of its range, evidence is not in its document, a
            Document cannot be placed, or a setting follows from the budget
            (``max_context_length``, ``length_function``, ``order`` of an RSERetriever).
        TypeError: If questions are no `Question` or the retriever returns no Documents.
        ImportError: If ``show_progress`` is set without tqdm.
        Exception: Whatever the retriever raises, with the question's number as a note.

    Example:
        .. code-block:: python

            questions = load_questions("questions.jsonl")
            passages = evaluate(rse_retriever, questions)
            chunks = evaluate(vectorstore.as_retriever(search_kwargs={"k": 50}), questions)
            print(passages, passages.compare(chunks), sep="\n\n")
    """
    return run(Evaluation(**locals()).steps(limit=1))  # all arguments, by their names


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
    resamples: int = 1_000,
    seed: int = 0,
    show_progress: bool = False,
    **settings: Any,  # noqa: ANN401 - the retriever's own
) -> Report:
    """Like `evaluate`, async; several questions are asked at once."""
    evaluation = Evaluation(**locals())  # all arguments, by their names
    return await arun(evaluation.steps(limit=max_concurrency))
