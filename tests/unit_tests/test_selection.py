from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse import PRESETS, RSEConfig
from langchain_rse.segmentation import Segment
from langchain_rse.selection import (
    DocumentCandidates,
    Selected,
    Window,
    find_windows,
    relevance_of,
    select_segments,
)
from tests.unit_tests.oracles import best_by_brute_force, greedy_by_brute_force


def _close_to(start: int, end: int, value: float) -> Any:
    return (start, end, pytest.approx(value))


class Dense(NamedTuple):
    """A whole document: relevance of every chunk to every query, and every chunk's length."""

    relevance: list[list[float]]
    lengths: list[int]

    @property
    def candidates(self) -> list[int]:
        return [i for i, column in enumerate(zip(*self.relevance, strict=True)) if any(column)]

    def sparse(self, config: RSEConfig) -> DocumentCandidates:
        """What a retriever knows of it: the candidates, and the lengths around them."""
        chunks = np.array(self.candidates, dtype=np.intp)
        windows = [
            Window(window.start, min(window.end, len(self.lengths)))
            for window in find_windows(self.candidates, config)
        ]
        return DocumentCandidates(
            chunks=chunks,
            relevance=np.array(self.relevance)[:, chunks],
            windows=windows,
            lengths=np.array(
                [n for w in windows for n in self.lengths[w.start : w.end]], dtype=int
            ),
        )

    def values(self, config: RSEConfig) -> list[list[float]]:
        """What every chunk is worth, from the formulas."""
        table = []
        for row in self.relevance:
            values = []
            for chunk, (relevance, length) in enumerate(zip(row, self.lengths, strict=True)):
                weight = 1.0
                if config.length_weighting == "linear":
                    weight = length / config.reference_length
                if config.length_weighting == "published" and chunk in self.candidates:
                    weight = max(length / config.reference_length, 1.0)
                values.append(weight * (relevance - config.irrelevant_chunk_penalty))
            table.append(values)
        return table


@st.composite
def dense_documents(draw: st.DrawFn, queries: int) -> list[Dense]:
    """Up to three documents with few candidates each; everything adds up exactly."""
    documents = []
    for _ in range(draw(st.integers(0, 3))):
        size = draw(st.integers(1, 30))
        relevance = [[0.0] * size for _ in range(queries)]
        for chunk in draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=8)):
            relevance[draw(st.integers(0, queries - 1))][chunk] = draw(st.integers(1, 8)) / 8
        lengths = draw(st.lists(st.integers(1, 12), min_size=size, max_size=size))
        documents.append(Dense(relevance, lengths))
    return documents


def configs(penalty: st.SearchStrategy[float], **fixed: Any) -> st.SearchStrategy[RSEConfig]:
    fields: dict[str, Any] = {
        "irrelevant_chunk_penalty": penalty,
        "length_weighting": st.sampled_from(["none", "linear", "published"]),
        "reference_length": st.just(4.0),
        "max_length": st.integers(1, 12),
        "overall_max_length": st.integers(1, 20),
        "overall_max_length_extension": st.integers(0, 5),
        "minimum_value": st.sampled_from([-1.0, 0.0, 0.25, 0.5, 2.0]),
    }
    fields.update({name: st.just(value) for name, value in fixed.items()})
    return st.builds(RSEConfig, **fields)


PENALTIES = st.sampled_from([0.125, 0.25, 0.5])


def _select(documents: list[Dense], config: RSEConfig) -> list[Selected]:
    return select_segments([document.sparse(config) for document in documents], config)


def _positions(chosen: list[Selected]) -> list[tuple[int, Segment]]:
    return [(selected.document, selected.segment) for selected in chosen]


def _greedy_on_whole_documents(
    documents: list[Dense], config: RSEConfig, queries: int
) -> list[tuple[int, Segment]]:
    tables = [document.values(config) for document in documents]
    starts = np.cumsum([0, *(len(document.lengths) for document in documents)]).tolist()
    found = greedy_by_brute_force(
        [[value for table in tables for value in table[query]] for query in range(queries)],
        max_length=config.max_length,
        overall_max_length=config.overall_max_length
        + config.overall_max_length_extension * (queries - 1),
        minimum_value=config.minimum_value,
        boundaries=starts,
    )
    placed = []
    for segment in found:
        document = max(i for i in range(len(documents)) if starts[i] <= segment.start)
        shift = starts[document]
        placed.append(
            (document, Segment(segment.start - shift, segment.end - shift, segment.value))
        )
    return placed


@given(st.data(), st.integers(1, 3), configs(PENALTIES))
def test_greedy_equals_solving_whole_documents(
    data: st.DataObject, queries: int, config: RSEConfig
) -> None:
    documents = data.draw(dense_documents(queries))

    chosen = _select(documents, config)

    assert _positions(chosen) == _greedy_on_whole_documents(documents, config, queries)
    for document, segment, values in chosen:
        table = np.array(documents[document].values(config))[:, segment.start : segment.end]
        assert values.tolist() == table.max(axis=0).tolist()


@given(st.data(), configs(st.just(0.0)))
def test_without_a_penalty_every_segment_holds_a_candidate(
    data: st.DataObject, config: RSEConfig
) -> None:
    documents = data.draw(dense_documents(2))

    for document, segment, values in _select(documents, config):
        inside = range(segment.start, segment.end)
        assert set(inside) & set(documents[document].candidates)
        assert 0 <= segment.start < segment.end <= len(documents[document].lengths)
        assert len(values) == len(inside)


@given(st.data(), configs(st.just(0.0), minimum_value=0.125))
def test_without_a_penalty_greedy_equals_solving_whole_documents(
    data: st.DataObject, config: RSEConfig
) -> None:
    documents = data.draw(dense_documents(1))

    chosen = _select(documents, config)

    assert _positions(chosen) == _greedy_on_whole_documents(documents, config, 1)


@given(st.data(), st.integers(1, 2), configs(PENALTIES, solver="best"))
def test_best_takes_the_best_segment_of_each_document(
    data: st.DataObject, queries: int, config: RSEConfig
) -> None:
    documents = data.draw(dense_documents(queries))

    chosen = _select(documents, config)

    expected: dict[int, float] = {}
    for number, document in enumerate(documents):
        found = [
            best_by_brute_force(row, max_length=config.max_length)
            for row in document.values(config)
        ]
        worth = max((segment.value for segment in found if segment), default=0.0)
        if worth > 0 and worth >= config.minimum_value:
            expected[number] = worth
            if queries == 1:
                assert (number, found[0]) in _positions(chosen)
    assert {number: segment.value for number, segment, _ in chosen} == expected
    assert len(chosen) == len(expected)
    assert [segment.value for _, segment, _ in chosen] == sorted(expected.values(), reverse=True)
    for number, segment, _ in chosen:
        inside = slice(segment.start, segment.end)
        sums = [sum(row[inside]) for row in documents[number].values(config)]
        assert segment.value in sums
        assert segment.end - segment.start <= config.max_length


@given(
    st.sets(st.integers(0, 200), min_size=1, max_size=12),
    configs(st.sampled_from([0.0, 0.18])),
)
def test_windows_hold_all_segments_that_can_be(candidates: set[int], config: RSEConfig) -> None:
    chunks = sorted(candidates)

    windows = find_windows(chunks, config)

    for before, after in itertools.pairwise(windows):
        assert before.end <= after.start
    for window in windows:
        assert 0 <= window.start < window.end
    for first in chunks:
        for last in chunks:
            if first <= last < first + config.max_length:
                assert any(w.start <= first and last < w.end for w in windows)
        if config.irrelevant_chunk_penalty == 0:
            # Chunks that cost nothing may stand at either end.
            lowest = max(first - config.max_length + 1, 0)
            assert any(w.start <= lowest and first + config.max_length <= w.end for w in windows)


def test_windows_leave_out_what_no_segment_reaches() -> None:
    chunks = [3, 5, 1000, 1014, 1029]
    config = RSEConfig(max_length=15)

    assert find_windows(chunks, config) == [Window(3, 6), Window(1000, 1015), Window(1029, 1030)]
    assert find_windows([], config) == []


def test_no_documents_give_no_segments() -> None:
    assert select_segments([], RSEConfig()) == []
    assert select_segments([], PRESETS["kadane"]) == []


def test_earlier_documents_win_ties() -> None:
    config = RSEConfig(overall_max_length=1, length_weighting="none")
    documents = [Dense([[0.0, 1.0]], [9, 9]), Dense([[1.0, 0.0]], [9, 9])]

    assert _positions(_select(documents, config)) == [(0, _close_to(1, 2, 0.82))]


def test_published_value_of_a_chunk_by_hand() -> None:
    scores = [0.99, 0.9, 0.6]  # best first: chunks 4, 5 and 7
    lengths = [650, 800, 700, 800, 1400, 350, 900, 1050]
    config = PRESETS["dsrag-balanced"].replace(calibration="identity")
    relevance = relevance_of(scores, config)
    windows = find_windows([4, 5, 7], config)

    (selected,) = select_segments(
        [DocumentCandidates(np.array([4, 5, 7]), relevance[None], windows, np.array(lengths[4:8]))],
        config,
    )

    expected = [
        (math.exp(-0 / 30) * 0.99 - 0.18) * 1400 / 700,
        (math.exp(-1 / 30) * 0.90 - 0.18) * 700 / 700,
        -0.18,
        (math.exp(-2 / 30) * 0.60 - 0.18) * 1050 / 700,
    ]
    assert windows == [Window(4, 8)]
    assert selected.values == pytest.approx(expected)
    assert selected.segment == _close_to(4, 8, sum(expected))


def _published(**limits: Any) -> dict[str, Any]:
    return {"solver": "greedy", "calibration": "auto", "rank_fusion": "decay", **limits}


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "dsrag-balanced",
            _published(
                max_length=15,
                overall_max_length=30,
                minimum_value=0.5,
                irrelevant_chunk_penalty=0.18,
                overall_max_length_extension=5,
                decay_rate=30,
                top_k_for_document_selection=10,
                length_weighting="published",
                reference_length=700,
            ),
        ),
        (
            "dsrag-precision",
            _published(
                max_length=15,
                overall_max_length=30,
                minimum_value=0.7,
                irrelevant_chunk_penalty=0.2,
                overall_max_length_extension=5,
                decay_rate=30,
                top_k_for_document_selection=10,
                length_weighting="published",
                reference_length=700,
            ),
        ),
        (
            "dsrag-find_all",
            _published(
                max_length=40,
                overall_max_length=200,
                minimum_value=0.4,
                irrelevant_chunk_penalty=0.18,
                overall_max_length_extension=0,
                decay_rate=200,
                top_k_for_document_selection=200,
                length_weighting="published",
                reference_length=700,
            ),
        ),
        (
            "walkthrough",
            _published(
                max_length=20,
                overall_max_length=30,
                minimum_value=0.7,
                irrelevant_chunk_penalty=0.2,
                decay_rate=30,
                top_k_for_document_selection=1,
                length_weighting="none",
            ),
        ),
        (
            "kadane",
            {
                "solver": "best",
                "irrelevant_chunk_penalty": 0.3,
                "rank_fusion": "mean",
                "max_length": 15,
                "length_weighting": "none",
            },
        ),
    ],
)
def test_presets_have_the_published_parameters(name: str, fields: dict[str, Any]) -> None:
    preset = PRESETS[name]

    assert {field: getattr(preset, field) for field in fields} == fields
