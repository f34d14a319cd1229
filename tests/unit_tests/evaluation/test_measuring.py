"""How much of the evidence returned text has, and where returned text is in its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from langchain_rse.evaluation import Evidence, Question, evaluate
from tests.unit_tests.evaluation.helpers import ask_for, canned, text_at


def figures(
    documents: Sequence[Document], question: Question, budget: int = 100, **kwargs: Any
) -> dict[str, float]:
    """The figures of one question for one budget."""
    report = evaluate(canned(*documents), [question], [budget], **kwargs)
    return {metric: float(report.figures[metric][0, 0]) for metric in report.figures}


def test_a_budget_cuts_the_last_text() -> None:
    # The evidence is 10 to 30. The first text has 10 to 20, and of the second 24 to 30 fit.
    assert figures([text_at(10, 20), text_at(24, 44)], ask_for((10, 30)), 16) == {
        "recall": 16 / 20,
        "whole": 0.0,
        "precision": 1.0,
        "iou": 16 / 20,
        "passages": 2,
        "characters": 16,
    }


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ([(0, 12)], 0.5),
        ([(0, 30)], 1.0),
        ([(0, 15), (15, 30)], 1.0),
        ([(15, 30), (0, 15)], 1.0),
        ([(0, 15), (16, 30)], 0.5),
        ([(0, 14), (18, 30)], 0.5),
        ([(21, 29)], 0.0),
    ],
)
def test_whole_evidence_is_in_one_passage(returned: list[tuple[int, int]], expected: float) -> None:
    question = ask_for((2, 12), (10, 20))
    assert figures([text_at(*ends) for ends in returned], question)["whole"] == expected


def test_white_space_between_chunks_divides_no_passage() -> None:
    source = "One two.   Three four."
    question = ask_for((4, 16), doc_id="a")
    chunks = [
        Document(source[start:end], metadata={"doc_id": "a", "start_index": start})
        for start, end in ((0, 8), (11, 22))
    ]
    assert figures(chunks, question, sources={"a": source})["whole"] == 1.0
    assert figures(chunks, question)["whole"] == 0.0
    with_space = ask_for((4, 11), doc_id="a")
    assert figures(chunks[:1], with_space, sources={"a": source})["whole"] == 1.0


slices = st.tuples(st.sampled_from("ab"), st.integers(0, 20), st.integers(1, 10))


@given(
    evidence=st.lists(slices, min_size=1, max_size=4),
    texts=st.lists(slices, max_size=6),
    budget=st.integers(1, 50),
)
def test_the_figures_are_those_of_sets_of_characters(
    evidence: list[tuple[str, int, int]], texts: list[tuple[str, int, int]], budget: int
) -> None:
    expected = {(doc, start + i) for doc, start, length in evidence for i in range(length)}
    returned = [
        (number, (doc, start + i))
        for number, (doc, start, length) in enumerate(texts)
        for i in range(length)
    ][:budget]
    returned_once = {character for _, character in returned}
    question = Question(
        "Why?", [Evidence(doc, start, start + length) for doc, start, length in evidence]
    )
    documents = [text_at(start, start + length, doc) for doc, start, length in texts]
    parts = [{(doc, start + i) for i in range(length)} for doc, start, length in evidence]
    whole = [part for part in parts if part <= returned_once]
    assert figures(documents, question, budget) == {
        "recall": len(expected & returned_once) / len(expected),
        "whole": len(whole) / len(parts),
        "precision": len(expected & returned_once) / len(returned) if returned else 0,
        "iou": len(expected & returned_once) / len(expected | returned_once),
        "passages": len({number for number, _ in returned}),
        "characters": len(returned),
    }


# Where returned text is in its source

SOURCES = {
    "a": "One two three.\n\nFour five six.",
    "b": "Nothing here.  Four five six. And\tmore\n of it",
}


def test_a_header_is_paid_for_but_not_part_of_the_source() -> None:
    metadata = {"doc_id": "a", "start_index": 4, "end_index": 13}
    document = Document("Numbers\n\ntwo three", metadata=metadata)
    question = ask_for((4, 13))
    for sources in (None, SOURCES):
        result = figures([document], question, sources=sources)
        assert (result["recall"], result["precision"]) == (1, 9 / 18)
        assert figures([document], question, 12, sources=sources)["recall"] == 3 / 9


@pytest.mark.parametrize(
    ("metadata", "sources", "message"),
    [
        ({}, None, "doc_id=None and start_index=None .* not occur in the 0 given sources"),
        ({"doc_id": "a", "start_index": 2}, SOURCES, r"doc_id='a' and start_index=2 "),
        ({"doc_id": "c"}, SOURCES, "doc_id='c'"),
    ],
)
def test_a_document_that_cannot_be_located_is_an_error(
    metadata: dict[str, Any], sources: dict[str, str] | None, message: str
) -> None:
    for text in ("unknown " * 50, "\n\n\n"):
        document = Document(text, metadata=metadata)
        with pytest.raises(ValueError, match=message):
            figures([document], ask_for((0, 5)), sources=sources)
