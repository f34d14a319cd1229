"""`evaluate`: asks a retriever many questions and measures what it returns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, InstanceOf, PositiveInt

from langchain_rse._progress import Advance, progress_bar
from langchain_rse._sync import Steps, arun, call, compute, concurrently, during, run
from langchain_rse.evaluation.measuring import METRICS, Locator, measure
from langchain_rse.evaluation.questions import Question, locate_evidence
from langchain_rse.evaluation.reports import Report
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.reading import Layout, read_layouts, read_text
from langchain_rse.stores.records import DOC_ID, START_INDEX, document_key


def name_of(retriever: object, given: str | None) -> str:
    """The name of a retriever in tables: the given one, its own or its class."""
    return given or getattr(retriever, "name", None) or type(retriever).__name__


class Task(BaseModel):
    """What `evaluate` and `tune` are both given."""

    model_config = ConfigDict(extra="forbid", title="arguments")

    retriever: Any
    questions: Annotated[tuple[InstanceOf[Question], ...], Field(min_length=1)]
    budgets: Annotated[
        tuple[PositiveInt, ...],
        Field(min_length=1),
        AfterValidator(lambda budgets: tuple(sorted(set(budgets)))),
    ]
    show_progress: bool
    arguments: dict[str, Any]

    def find_evidence(self, sources: Mapping[str, str] | None) -> Steps[None]:
        """Find quotations, and check that all evidence is in ``sources`` or the index."""
        evidence = [part for question in self.questions for part in question.evidence]
        quoted = {part.doc_id for part in evidence if part.is_quoted}
        if without := [n for n, one in enumerate(self.questions, 1) if not one.evidence]:
            raise ValueError(f"question {without[0]} has no evidence to measure by")
        if sources is not None:
            place, texts = "sources", sources
            lengths = {doc_id: len(text) for doc_id, text in sources.items()}
        elif isinstance(self.retriever, RSERetriever):
            place, texts = "the index", {}
            docstore = self.retriever.docstore
            keys = {(document_key(part.doc_id), ""): () for part in evidence}
            layouts = (yield from read_layouts(docstore, keys)).values()
            manifests = [layout.manifest for layout in layouts if isinstance(layout, Layout)]
            current = {manifest.doc_id: manifest for manifest in manifests if manifest.current}
            lengths = {doc_id: manifest.length for doc_id, manifest in current.items()}
            for doc_id in quoted & current.keys():
                stored = yield from read_text(docstore, current[doc_id])
                if stored is None:  # adopted, or damaged
                    raise ValueError(
                        f"{doc_id!r} is quoted, but its text is not kept: give sources"
                    )
                texts[doc_id] = stored.text
        elif quoted:
            raise ValueError(
                "evidence is quoted: give sources, the documents' texts by id, to look it up, or "
                "the questions of an RSERetriever's report, report.questions"
            )
        else:
            return
        self.questions = yield from compute(locate_evidence, self.questions, texts, place)
        for number, question in enumerate(self.questions, 1):
            for part in question.evidence:
                length = lengths.get(part.doc_id)
                if length is None or length < part.end:
                    found = "nothing" if length is None else f"only {length} characters"
                    raise ValueError(
                        f"question {number} has evidence from {part.start} to {part.end} of "
                        f"document {part.doc_id!r}; found in {place}: {found}"
                    )

    def figures(
        self, question: Question, answers: Sequence[Sequence[Document]], locator: Locator
    ) -> list[list[float]]:
        """The figures of what was returned for each budget."""
        return [
            measure(question.evidence, documents, budget, locator)
            for documents, budget in zip(answers, self.budgets, strict=True)
        ]


class _Evaluation(Task):
    """The arguments of `evaluate`, and what it does with them."""

    sources: Mapping[str, str] | None
    name: str | None
    doc_id_key: str
    start_index_key: str
    max_concurrency: PositiveInt = 1

    def steps(self) -> Steps[Report]:
        """Check the evidence, ask all questions, and report."""
        yield from self.find_evidence(self.sources)
        with progress_bar(
            len(self.questions), unit="questions", title="Evaluating", show=self.show_progress
        ) as advance:
            figures = yield from concurrently(
                [self._answer(number, advance) for number in range(len(self.questions))],
                self.max_concurrency,
            )
        return Report(
            name=name_of(self.retriever, self.name),
            budgets=self.budgets,
            questions=self.questions,
            figures=dict(zip(METRICS, np.moveaxis(np.array(figures), -1, 0), strict=True)),
        )

    def _answer(self, number: int, advance: Advance) -> Steps[list[list[float]]]:
        """The figures of a question for each budget."""
        question = self.questions[number]
        rse = isinstance(self.retriever, RSERetriever)
        keys = (DOC_ID, START_INDEX) if rse else (self.doc_id_key, self.start_index_key)
        with during(f"evaluating question {number + 1}"):
            answers = yield from self._ask(question.question)
            locator = Locator(self.sources or {}, *keys)
            figures = yield from compute(self.figures, question, answers, locator)
        advance(1)
        return figures

    def _ask(self, query: str) -> Steps[list[list[Document]]]:
        """What the retriever returns for each budget; only an RSERetriever is told of it."""
        invoke, ainvoke = self.retriever.invoke, self.retriever.ainvoke
        if not isinstance(self.retriever, RSERetriever):
            documents = yield from call(invoke, ainvoke, query, **self.arguments)
            return [documents] * len(self.budgets)
        answers = []
        for budget in self.budgets:
            limits = {"max_context_length": budget, "length_function": len}
            answers.append((yield from call(invoke, ainvoke, query, **self.arguments, **limits)))
        return answers


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
    r"""Measure how much of the evidence a retriever returns within budgets of text.

    An `RSERetriever` is invoked once per question and budget, with ``max_context_length`` set to
    the budget. Any other retriever, a chain around one included, is invoked once per question: its
    Documents count in their order until the budget is spent, and the last one is cut.

    A Document is located in its source by its metadata. If these lack the document's id or the
    text's position, or ``sources`` has other text there, the text is searched in ``sources``: as it
    is, then with any white space between its words.

    Args:
        retriever: Any retriever that returns Documents, best first.
        questions: The questions with their evidence, at least one.
        budgets: Characters that may be returned, each at least 1.
        sources: Texts of documents by id. If given, all evidence must lie in them; if
            not, an RSERetriever's evidence must lie in the documents of its index. Quotations
            are looked up there, and have their place in the report's ``questions``.
        name: The name of the retriever in tables; by default its own or its class.
        doc_id_key: The metadata key of a document's id; an RSERetriever has its own.
        start_index_key: The metadata key of a text's first character in the document; likewise.
        show_progress: Show a progress bar; needs tqdm.
        **arguments: Passed to each call, as in ``retriever.invoke(query, **arguments)``.

    Raises:
        ValueError: If an argument is out of its range, a question has no evidence, evidence is
            not in its document, a quotation is there twice, or a Document cannot be located.
        TypeError: If the retriever returns something else than Documents.
        Exception: Whatever the retriever raises, with the question's number as a note.

    Example:
        .. code-block:: python

            questions = load_questions("questions.jsonl")
            segments = evaluate(rse_retriever, questions)
            chunks = evaluate(vectorstore.as_retriever(search_kwargs={"k": 50}), questions)
            print(segments, segments.compare(chunks), sep="\n\n")
    """
    return run(_Evaluation(**locals()).steps())  # all arguments, by their names


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
    return await arun(_Evaluation(**locals()).steps())  # all arguments, by their names
