"""`evaluate`: measures a retriever on many questions, by how much evidence it returns."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import RetrieverLike
from langchain_core.runnables import Runnable

from langchain_rse._messages import check_type, progress_bar
from langchain_rse._sync import Steps, as_async, call, during, run
from langchain_rse.access import DocumentAccess
from langchain_rse.evaluation.questions import Question, access_of, find_evidence
from langchain_rse.evaluation.reports import Report
from langchain_rse.query.searching import check_documents
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import DOC_ID, END_INDEX, START_INDEX

_NUMBERS = (int, float, np.integer)


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
        TypeError: If ``retriever`` is no retriever, or returns anything but Documents, or one of
            ``questions`` is no `Question`.
        Exception: Any error of the retriever, with the question's number as a note.
    """
    allowed = "a retriever, such as vectorstore.as_retriever(search_kwargs={'k': 50})"
    check_type("retriever", retriever, Runnable, allowed)
    ascending = check_budgets(budgets)
    located = find_evidence(questions, retriever, sources)
    if not located:
        raise ValueError("there are no questions")
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


# Measuring


def check_budgets(budgets: Iterable[int] | int) -> tuple[int, ...]:
    """Return the budgets, each once, in ascending order."""
    listed: tuple[Any, ...] = () if isinstance(budgets, int) else tuple(budgets)
    if not listed or not all(isinstance(each, _NUMBERS) and each >= 1 for each in listed):
        raise ValueError(
            "budgets must be a list of numbers of characters, each at least 1, for example "
            f"[1000]; got {listed or budgets}"
        )
    return tuple(sorted(set(listed)))


class Slice(NamedTuple):
    """A range of characters of a document's text."""

    doc_id: str
    start: int
    end: int  # the character after the last one

    def is_in(self, other: Self) -> bool:
        """Return True if another slice contains this one."""
        is_within = other.start <= self.start and self.end <= other.end
        return self.doc_id == other.doc_id and is_within


@dataclass(frozen=True)
class Meter:
    """Measures answers within budgets; locates their Documents in the sources."""

    sources: Mapping[str, str]  # texts by document id
    access: DocumentAccess | None = None  # to the index of an RSERetriever
    doc_id_key: str = DOC_ID
    digests: dict[str, str] = field(default_factory=dict)
    """Digests of texts by document id. Of several documents with the same text, an RSERetriever
    returns one, so slices are compared by digest; without a digest, by document id."""

    def measure(
        self, question: Question, answer: Iterable[Document], budget: int
    ) -> dict[str, float]:
        """Compute the metrics of an answer within a budget; `Report` defines them."""
        parts = [Slice(part.doc_id, part.start, part.end) for part in question.evidence]
        evidence = [self._by_digest(part) for part in parts]
        located: list[Slice] = []
        spent = 0
        for document in answer:
            if spent == budget:
                break
            length = min(len(document.page_content), budget - spent)
            if length:
                located.append(self._locate(document, length))
                spent += length
        returned = [self._by_digest(position) for position in located]
        passages = [self._by_digest(passage) for passage in _join(located, self.sources)]
        whole = 0
        for part in parts:
            visible_part = self._by_digest(self._visible(part))
            whole += any(visible_part.is_in(passage) for passage in passages)
        evidence_size = _count_characters(evidence)
        union_size = _count_characters([*evidence, *returned])
        common_size = evidence_size + _count_characters(returned) - union_size
        return {
            "recall": common_size / evidence_size,
            "whole": whole / len(evidence),
            "precision": common_size / spent if spent else 0.0,
            "iou": common_size / union_size,
            "passages": float(len(returned)),
            "characters": float(spent),
        }

    def _by_digest(self, position: Slice) -> Slice:
        """Replace the document's id by the digest of its text."""
        doc_id = position.doc_id
        if self.access is not None and doc_id not in self.digests:
            manifest = self.access.manifests_of([doc_id]).get(doc_id)
            self.digests[doc_id] = manifest.text_digest or doc_id if manifest else doc_id
        return position._replace(doc_id=self.digests.get(doc_id, doc_id))

    def _locate(self, document: Document, length: int) -> Slice:
        """Locate the first ``length`` characters of a Document, by its metadata or by its text."""
        position = self._locate_by_metadata(document, length)
        position = position or self._locate_by_text(document, length)
        if position is None:
            raise ValueError(
                f"a Document cannot be located in its source: {document.page_content[:80]!r} has "
                f"{self.doc_id_key}={document.metadata.get(self.doc_id_key)!r} and "
                f"{START_INDEX}={document.metadata.get(START_INDEX)!r} in its metadata, and does "
                f"not occur in the {len(self.sources)} given sources. Add both fields to the "
                "metadata (add_start_index=True, doc_id_key), or pass sources, texts by document id"
            )
        return position

    def _visible(self, position: Slice) -> Slice:
        """Return a slice without white space at its ends, which splitters strip from chunks.

        Without the text in ``sources``, the slice is unchanged.
        """
        text = self.sources.get(position.doc_id, "")[position.start : position.end]
        if not text.strip():
            return position
        start = position.start + len(text) - len(text.lstrip())
        return position._replace(start=start, end=start + len(text.strip()))

    def _locate_by_metadata(self, document: Document, length: int) -> Slice | None:
        text = document.page_content
        doc_id = document.metadata.get(self.doc_id_key)
        start = _read_position(document.metadata.get(START_INDEX))
        end = _read_position(document.metadata.get(END_INDEX))
        if not isinstance(doc_id, str) or start is None:
            return None
        header_length = 0
        if end:
            start, header_length = self._below_header(text, Slice(doc_id, start, end))
        # Positions may count from the start of a page. Then the text is searched for instead.
        if doc_id in self.sources:
            source = self.sources[doc_id]
            if not source.startswith(text[header_length:], start):
                return None
        return Slice(doc_id, start, start + max(length - header_length, 0))

    def _below_header(self, text: str, position: Slice) -> tuple[int, int]:
        """Return the start of a text in its document, and the length of the headers above it.

        Chunks in vector stores may lack the white space at their ends; ``sources`` have it.
        """
        source = self.sources.get(position.doc_id, "")
        for part in (position, self._visible(position)):
            part_text = source[part.start : part.end]
            if part_text and text.endswith(part_text):
                return part.start, len(text) - len(part_text)
        return position.start, max(len(text) - (position.end - position.start), 0)

    def _locate_by_text(self, document: Document, length: int) -> Slice | None:
        """Search for the text in its source, or in all sources; first unchanged, then by words."""
        text = document.page_content
        doc_id = document.metadata.get(self.doc_id_key)
        sources = self.sources
        if isinstance(doc_id, str):
            sources = {doc_id: self.sources.get(doc_id, "")}
        for source_id, source in sources.items():
            start = source.find(text)
            if start >= 0:
                return Slice(source_id, start, start + length)
        if not text.strip():
            return None
        # The group is the part of the match within the length.
        pattern = re.compile(f"(?=({_words_pattern(text[:length])})){_words_pattern(text)}")
        for source_id, source in sources.items():
            match = pattern.search(source)
            if match:
                return Slice(source_id, *match.span(1))
        return None


def _join(slices: Iterable[Slice], sources: Mapping[str, str]) -> list[Slice]:
    """Join slices that touch, or that only white space in ``sources`` separates."""
    joined: list[Slice] = []
    for position in sorted(slices):
        last = joined[-1] if joined else position
        between = sources.get(last.doc_id, "")[last.end : position.start]
        is_next = position.start <= last.end or between.isspace()
        if joined and position.doc_id == last.doc_id and is_next:
            joined[-1] = last._replace(end=max(last.end, position.end))
        else:
            joined.append(position)
    return joined


def _read_position(value: object) -> int | None:
    """Read a position in metadata, a float in some stores; None for any other value."""
    if isinstance(value, _NUMBERS) and value >= 0:
        return int(value)
    return None


def _words_pattern(text: str) -> str:
    """Make a pattern of a text's words with any white space between them."""
    return r"\s+".join(re.escape(word) for word in text.split())


def _count_characters(slices: Iterable[Slice]) -> int:
    """Count the characters in the union of slices."""
    return sum(position.end - position.start for position in _join(slices, {}))
