"""`evaluate`: asks a retriever many questions and measures what it returns."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, InstanceOf, PositiveInt

from langchain_rse._progress import Advance, progress_bar
from langchain_rse._sync import Steps, arun, call, compute, concurrently, during, run
from langchain_rse.evaluation.questions import Question, locate_evidence
from langchain_rse.evaluation.reports import Report
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.changing import DocStore
from langchain_rse.stores.reading import Layout, read_layouts
from langchain_rse.stores.records import DOC_ID, END_INDEX, START_INDEX, document_key
from langchain_rse.stores.whole_documents import read_text

METRICS = ("recall", "precision", "iou", "segments", "characters")

Slice = tuple[str, int, int]
"""A range of characters: the document's id, the first one and the one after the last."""


def name_of(retriever: object, given: str | None) -> str:
    """The name of a retriever in tables: the given one, its own or its class."""
    return given or getattr(retriever, "name", None) or type(retriever).__name__


class Task(BaseModel):
    """The arguments that `evaluate` and `tune` share, and the steps that both take."""

    model_config = ConfigDict(extra="forbid", title="arguments")

    retriever: Any
    questions: Annotated[tuple[InstanceOf[Question], ...], Field(min_length=1)]
    budgets: Annotated[
        tuple[PositiveInt, ...],
        Field(min_length=1),
        AfterValidator(lambda budgets: tuple(sorted(set(budgets)))),
    ]
    sources: Mapping[str, str] | None = None
    doc_id_key: str = DOC_ID
    start_index_key: str = START_INDEX
    show_progress: bool
    arguments: dict[str, Any]
    texts: dict[str, str] = {}  # digests of the texts of documents, for an RSERetriever

    def find_evidence(self) -> Steps[None]:
        """Find quotations, and check that all evidence is in ``sources`` or the index."""
        if without := [n for n, one in enumerate(self.questions, 1) if not one.evidence]:
            raise ValueError(f"question {without[0]} has no evidence to measure by")
        evidence = [part for question in self.questions for part in question.evidence]
        quoted = {part.doc_id for part in evidence if part.is_quoted}
        place, texts = "sources", dict(self.sources or {})
        lengths = {doc_id: len(text) for doc_id, text in texts.items()}
        if self.sources is None and isinstance(self.retriever, RSERetriever):
            place, docstore = "the index", self.retriever.docstore
            keys = {(document_key(part.doc_id), ""): () for part in evidence}
            for layout in (yield from read_layouts(docstore, keys)).values():
                if not isinstance(layout, Layout) or not layout.version:
                    continue
                manifest = layout.manifest
                lengths[manifest.doc_id] = manifest.length
                if manifest.doc_id in quoted:
                    stored = yield from read_text(docstore, manifest)
                    if stored is None:  # adopted, or damaged
                        raise ValueError(
                            f"{manifest.doc_id!r} is quoted, but its text is not kept: give sources"
                        )
                    texts[manifest.doc_id] = stored.text
        elif self.sources is None:
            if quoted:
                raise ValueError(
                    "evidence is quoted: give sources, the documents' texts by id, to look it up, "
                    "or the questions of an RSERetriever's report, report.questions"
                )
            return
        self.questions = yield from compute(locate_evidence, self.questions, texts, lengths, place)

    def find_copies(
        self, docstore: DocStore, question: Question, answers: Sequence[Sequence[Document]]
    ) -> Steps[None]:
        """Read the digests of texts: of documents with equal text, an RSERetriever returns one."""
        ids = {one.metadata[DOC_ID] for answer in answers for one in answer}
        ids |= {part.doc_id for part in question.evidence}
        keys = {(document_key(one), ""): () for one in ids - self.texts.keys()}
        layouts = (yield from read_layouts(docstore, keys)).values()
        found = [one.manifest for one in layouts if isinstance(one, Layout)]
        self.texts |= {one.doc_id: one.text_digest or one.doc_id for one in found}

    def measure(
        self, question: Question, answers: Sequence[Sequence[Document]]
    ) -> list[list[float]]:
        """Compute the `METRICS` of the returned Documents for each budget."""
        return [self._measure(question, *one) for one in zip(answers, self.budgets, strict=True)]

    def _measure(
        self, question: Question, documents: Iterable[Document], budget: int
    ) -> list[float]:
        spent, returned = 0, []
        for document in documents:
            if spent == budget:
                break
            if not isinstance(document, Document):
                raise TypeError(f"a retriever must return Documents; got {document!r:.80}")
            if length := min(len(document.page_content), budget - spent):
                returned.append(self._slice(*self._locate(document, length)))
                spent += length
        wanted = [self._slice(part.doc_id, part.start, part.end) for part in question.evidence]
        union, size = _size([*wanted, *returned]), _size(wanted)
        common = size + _size(returned) - union
        precision = common / spent if spent else 0.0
        return [common / size, precision, common / union, float(len(returned)), float(spent)]

    def _slice(self, doc_id: str, start: int, end: int) -> Slice:
        """Make a slice by its text, so that slices of copies are the same."""
        return self.texts.get(doc_id, doc_id), start, end

    def _locate(self, document: Document, length: int) -> Slice:
        """Locate the first characters of a Document in its source, by metadata or by text."""
        text, sources = document.page_content, self.sources or {}
        doc_id = document.metadata.get(self.doc_id_key)
        start = _position(document.metadata.get(self.start_index_key))
        if isinstance(doc_id, str) and start is not None:
            end = _position(document.metadata.get(END_INDEX))
            above = max(len(text) - (end - start), 0) if end else 0  # characters of a header
            source = sources.get(doc_id)
            # The metadata may count from the start of a page: then the text decides.
            if source is None or source.startswith(text[above:], start):
                return doc_id, start, start + max(length - above, 0)
        parts = (text, text[:length])
        as_it_is = [re.escape(part) for part in parts]
        by_words = [r"\s+".join(map(re.escape, part.split())) for part in parts]
        named = [doc_id] if isinstance(doc_id, str) else list(sources)
        for whole, cut in (as_it_is, by_words):
            for name in named:
                source = sources.get(name, "")
                if whole and (match := re.search(whole, source)):
                    part = re.compile(cut).match(source, match.start())
                    return name, match.start(), part.end() if part else match.end()
        raise ValueError(
            f"a Document cannot be located in its source: {text[:80]!r} has "
            f"{self.doc_id_key}={doc_id!r}, {self.start_index_key}="
            f"{document.metadata.get(self.start_index_key)!r} in its metadata and is not in the "
            f"{len(sources)} given sources. Keep both in the metadata (add_start_index=True), "
            "name them with doc_id_key and start_index_key, or give sources, texts by document id"
        )


def _position(value: object) -> int | None:
    """Read a position in metadata, which some stores keep as a float; None if there is none."""
    return int(value) if isinstance(value, int | float | np.integer) and value >= 0 else None


def _size(slices: Iterable[Slice]) -> int:
    """Count the characters in the union of slices."""
    size, document, counted = 0, "", 0
    for doc_id, start, end in sorted(slices):
        if doc_id != document:
            document, counted = doc_id, 0
        size += max(end - max(start, counted), 0)
        counted = max(end, counted)
    return size


class _Evaluation(Task):
    """The arguments of `evaluate`, and its steps."""

    name: str | None
    max_concurrency: PositiveInt = 1

    def steps(self) -> Steps[Report]:
        """Check the evidence, ask all questions, and report."""
        if isinstance(self.retriever, RSERetriever):  # its Documents have fixed keys
            self.doc_id_key, self.start_index_key = DOC_ID, START_INDEX
        yield from self.find_evidence()
        count = len(self.questions)
        with progress_bar(
            count, unit="questions", title="Evaluating", show=self.show_progress
        ) as advance:
            tasks = [self._answer(number, advance) for number in range(count)]
            figures = yield from concurrently(tasks, self.max_concurrency)
        by_metric = dict(zip(METRICS, np.moveaxis(np.array(figures), -1, 0), strict=True))
        name = name_of(self.retriever, self.name)
        return Report(name, self.budgets, self.questions, by_metric)

    def _answer(self, number: int, advance: Advance) -> Steps[list[list[float]]]:
        """Measure a question for each budget; only an RSERetriever is given the budgets."""
        question, limits = self.questions[number], [dict[str, Any]()]
        if isinstance(self.retriever, RSERetriever):
            limits = [{"max_context_length": most, "length_function": len} for most in self.budgets]
        invoke, ainvoke, answers = self.retriever.invoke, self.retriever.ainvoke, []
        with during(f"evaluating question {number + 1}"):
            for limit in limits:
                found = call(invoke, ainvoke, question.question, **self.arguments, **limit)
                answers.append((yield from found))
            answers *= len(self.budgets) // len(limits)
            if isinstance(self.retriever, RSERetriever):
                yield from self.find_copies(self.retriever.docstore, question, answers)
            figures = yield from compute(self.measure, question, answers)
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
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - the retriever's own
) -> Report:
    """Measure how much of the evidence a retriever returns within budgets of text.

    An `RSERetriever` is invoked once per question and budget, with ``max_context_length`` set to
    the budget. Any other retriever, including a chain around one, is invoked once per question: its
    Documents count in their order until the budget is spent, and the last one is cut.

    A Document is located in its source by its metadata, else by its text in ``sources``: first
    unchanged, then with any white space between its words.

    Args:
        retriever: Any retriever that returns Documents, best first.
        questions: The questions with their evidence, at least one.
        budgets: The numbers of characters that may be returned, each at least 1.
        sources: Texts of documents by id, which must contain all evidence; quotations are found
            there. By default, for an RSERetriever, its index.
        name: The name of the retriever in tables; by default its own or its class.
        doc_id_key: The metadata key of a document's id. Not used for an RSERetriever.
        start_index_key: The metadata key of a text's first character in the document; likewise.
        show_progress: Show a progress bar; needs tqdm.
        **arguments: Passed to each call, as in ``retriever.invoke(query, **arguments)``.

    Raises:
        ValueError: If an argument is out of its range, a question has no evidence, evidence is
            not in its document, a quotation occurs twice, or a Document cannot be located.
        TypeError: If the retriever returns anything but Documents.
        Exception: Any error of the retriever, with the question's number as a note.
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
