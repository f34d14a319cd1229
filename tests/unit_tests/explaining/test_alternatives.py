"""The report's sliders show the answers of the retriever for the same settings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse import RSEConfig, RSERetriever
from tests.unit_tests.explaining.test_report import Page
from tests.unit_tests.fakes import PLAIN, QUERY, make_retriever

# Often the same few, so that chunks, passages and whole documents tie.
ANGLES = st.sampled_from([0, 0, 20, 45, 60, 75, 85, 120]) | st.integers(0, 90)
WORDS = st.sampled_from([5, 5, 50]) | st.integers(1, 120)
CHUNKS = st.lists(st.tuples(ANGLES, WORDS), min_size=1, max_size=12)


def places_of(retriever: RSERetriever, **arguments: Any) -> list[tuple[Any, ...]]:
    """The passages of an answer, in its order."""
    places = []
    for passage in retriever.invoke(QUERY, **arguments):
        described = passage.metadata["rse"]
        value = pytest.approx(passage.metadata["relevance_score"], rel=5e-3, abs=1e-9)
        place = passage.metadata["doc_id"], described["chunk_start"], described["chunk_end"], value
        places.append(place)
    return places


@given(
    st.lists(CHUNKS, min_size=1, max_size=4),
    st.sampled_from([PLAIN, RSEConfig(), RSEConfig(passage_cost=0.6, neighbor_weight=0.0)]),
    st.fixed_dictionaries(
        {
            "max_context_length": st.sampled_from([None, 40, 300, 1_000]),
            "irrelevant_chunk_penalty": st.sampled_from([0.0, 0.3, 0.37]),
            "fetch_k": st.sampled_from([3, 40]),
            "k": st.sampled_from([None, None, 1, 2]),
            "order": st.sampled_from(["document", "relevance"]),
            "queries": st.sampled_from([None, None, [QUERY, "other 60"]]),
        }
    ),
    st.data(),
)
def test_an_answer_is_the_retrievers(
    documents: list[list[tuple[int, int]]],
    config: RSEConfig,
    arguments: dict[str, Any],
    data: st.DataObject,
) -> None:
    texts = {}
    for number, chunks in enumerate(documents):
        lines = [f"{number}.{n} {'w ' * words}{angle}" for n, (angle, words) in enumerate(chunks)]
        texts[f"d{number}"] = "".join(f"{line}\n" for line in lines)
    retriever = make_retriever(texts, config=config)
    trace = retriever.explain(QUERY, **arguments)
    page = Page(trace.to_html()).data
    alternatives = page["alternatives"]
    penalties, budgets = alternatives["penalties"], alternatives["budgets"]
    assert trace.settings.penalty in penalties
    assert trace.settings.max_context_length in budgets
    columns = []
    for document in page["documents"]:
        for chunk in document["chunks"]:
            if not chunk.get("unseen"):
                columns.append((document["name"], chunk["index"]))
    for _ in range(6):
        row = data.draw(st.integers(0, len(penalties) - 1))
        column = data.draw(st.integers(0, len(budgets) - 1))
        budget = budgets[column]
        changes = {
            "irrelevant_chunk_penalty": penalties[row],
            "max_context_length": None if budget is None else int(budget),
        }
        answer = []
        for start, end, value, _ in alternatives["answers"][alternatives["rows"][row][column]]:
            answer.append((*columns[start], columns[end - 1][1] + 1, value))
        expected = places_of(retriever, **{**arguments, **changes})
        read = {chunk.key[0::2] for passage in trace.passages for chunk in passage.chunks}
        if answer or not expected or expected[0][:2] in read:
            assert answer == expected
        else:  # the beginning of a chunk that the query has not read
            assert budget < 1_000
