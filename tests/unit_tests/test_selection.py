from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse import PRESETS, RSEConfig
from langchain_rse.scoring import lexical_scores, neighbor_credit
from langchain_rse.segmentation import Segment, solve_exact
from langchain_rse.selection import (
    DocumentCandidates,
    Selected,
    Selection,
    Window,
    find_windows,
    relevance_of,
    select_segments,
)
from tests.unit_tests.oracles import best_by_brute_force, greedy_by_brute_force


def _close_to(start: int, end: int, value: float) -> Any:
    return (start, end, pytest.approx(value))


class Dense(NamedTuple):
    """A whole document: relevance of every chunk to every query, every chunk's length, sections."""

    relevance: list[list[float]]
    lengths: list[int]
    borders: Sequence[int] = ()

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
            borders=self.borders,
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
def dense_documents(
    draw: st.DrawFn, queries: int, longest: int = 30, shortest_chunk: int = 1
) -> list[Dense]:
    """Up to three documents with few candidates each; everything adds up exactly."""
    documents = []
    for _ in range(draw(st.integers(0, 3))):
        size = draw(st.integers(1, longest))
        relevance = [[0.0] * size for _ in range(queries)]
        for chunk in draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=8)):
            relevance[draw(st.integers(0, queries - 1))][chunk] = draw(st.integers(1, 8)) / 8
        lengths = draw(st.lists(st.integers(shortest_chunk, 12), min_size=size, max_size=size))
        inner = draw(st.just([]) | st.lists(st.integers(1, size - 1)) if size > 1 else st.just([]))
        documents.append(Dense(relevance, lengths, [0, *inner, size] if inner else []))
    return documents


def configs(penalty: st.SearchStrategy[float], **fixed: Any) -> st.SearchStrategy[RSEConfig]:
    fields: dict[str, Any] = {
        "solver": st.just("greedy"),
        "irrelevant_chunk_penalty": penalty,
        "length_weighting": st.sampled_from(["none", "linear", "published"]),
        "reference_length": st.just(4.0),
        "max_length": st.integers(1, 12),
        "overall_max_length": st.integers(1, 20),
        "overall_max_length_extension": st.integers(0, 5),
        "minimum_value": st.sampled_from([-1.0, 0.0, 0.25, 0.5, 2.0]),
    }
    fields.update({name: st.just(value) for name, value in fixed.items()})
    return st.builds(PRESETS["dsrag-balanced"].replace, **fields)


PENALTIES = st.sampled_from([0.125, 0.25, 0.5])


def _select(documents: list[Dense], config: RSEConfig) -> list[Selected]:
    return _everything(select_segments([one.sparse(config) for one in documents], config))


def _longest(config: RSEConfig) -> int:
    assert config.max_length is not None
    return config.max_length


def _everything(selection: Selection) -> list[Selected]:
    return selection.segments(len(selection.steps))


def chunks_of(document: DocumentCandidates) -> list[int]:
    return [chunk for window in document.windows for chunk in range(*window)]


def _positions(chosen: list[Selected]) -> list[tuple[int, Segment]]:
    return [(selected.document, selected.segment) for selected in chosen]


def _greedy_on_whole_documents(
    documents: list[Dense], config: RSEConfig, queries: int
) -> list[tuple[int, Segment]]:
    tables = [document.values(config) for document in documents]
    starts = np.cumsum([0, *(len(document.lengths) for document in documents)]).tolist()
    found = greedy_by_brute_force(
        [[value for table in tables for value in table[query]] for query in range(queries)],
        max_length=_longest(config),
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
        assert segment.end - segment.start <= _longest(config)


EXACT = st.builds(
    RSEConfig,
    irrelevant_chunk_penalty=st.sampled_from([0.0, 0.1, 0.3, 0.6]),
    neighbor_credit=st.sampled_from([0.0, 0.5, 1.0]),
    neighbor_radius=st.integers(0, 3),
    segment_cost=st.sampled_from([0.0, 0.1, 1.0]),
    border_cost=st.sampled_from([0.0, 0.5, 1.0]),
    minimum_value=st.sampled_from([-1.0, 0.0, 0.5]),
)


def _exact_on_whole_documents(
    documents: list[Dense], config: RSEConfig
) -> list[tuple[int, int, int, float]]:
    """All segments of the solution, and a table of what chunks are worth."""
    if not documents:
        return []
    credited = [
        neighbor_credit(
            np.array(document.relevance),
            credit=config.neighbor_credit,
            radius=config.by_scores().neighbor_radius,
        ).max(axis=0)
        for document in documents
    ]
    relevance = np.concatenate(credited)
    lengths = np.concatenate([document.lengths for document in documents])
    starts = np.cumsum([0, *(len(document.lengths) for document in documents)])
    edges = [
        (chunk in document.borders, chunk + 1 in document.borders)
        for document in documents
        for chunk in range(len(document.lengths))
    ]
    placed = []
    for start, end, value in solve_exact(
        relevance,
        penalty=config.irrelevant_chunk_penalty,
        weights=lengths / lengths[relevance > 0].mean(),
        segment_cost=config.by_scores().segment_cost,
        max_length=config.max_length,
        boundaries=starts.tolist(),
        edge_costs=np.where(edges, config.border_cost, 1.0) if any(map(any, edges)) else None,
    ):
        document = int(np.searchsorted(starts, start, side="right")) - 1
        placed.append((document, start - int(starts[document]), end - int(starts[document]), value))
    return placed


ROUNDING = 1e-9
# Gaps of more than 16 chunks are not bridged: with such lengths, that is never worth it.
FAR_APART: dict[str, Any] = {"longest": 80, "shortest_chunk": 4}


@given(st.data(), st.integers(1, 3), EXACT)
def test_exact_equals_solving_whole_documents(
    data: st.DataObject, queries: int, config: RSEConfig
) -> None:
    documents = data.draw(dense_documents(queries, **FAR_APART))

    chosen = _select(documents, config)

    expected: list[Any] = [
        (document, start, end, pytest.approx(value))
        for document, start, end, value in _exact_on_whole_documents(documents, config)
        if value >= config.minimum_value
    ]
    assert sorted((one.document, *one.segment) for one in chosen) == sorted(
        expected, key=lambda segment: segment[:2]
    )
    values = [one.segment.value for one in chosen]
    assert values == sorted(values, reverse=True)
    for document, segment, of_chunks in chosen:
        assert len(of_chunks) == segment.end - segment.start
        edges = [end in documents[document].borders for end in segment[:2]]
        share = sum(config.border_cost if at_border else 1 for at_border in edges) / 2
        cost = config.irrelevant_chunk_penalty * config.by_scores().segment_cost * share
        assert sum(of_chunks) - cost == pytest.approx(segment.value)


@given(st.data(), EXACT, st.integers(1, 4))
def test_exact_keeps_to_the_longest_segment(
    data: st.DataObject, config: RSEConfig, longest: int
) -> None:
    config = config.replace(max_length=longest, minimum_value=-1.0)
    documents = data.draw(dense_documents(1, **FAR_APART))

    chosen = _select(documents, config)

    assert all(one.segment.end - one.segment.start <= longest for one in chosen)
    # Where segments touch, the cuts between them may lie elsewhere for the same worth; what is
    # worth 0 but for rounding may be left out.
    assert {
        (one.document, chunk)
        for one in chosen
        for chunk in range(one.segment.start, one.segment.end)
        if one.segment.value > ROUNDING
    } == {
        (document, chunk)
        for document, start, end, value in _exact_on_whole_documents(documents, config)
        for chunk in range(start, end)
        if value > ROUNDING
    }


@given(st.data(), st.sampled_from(list(PRESETS)))
def test_steps_add_up_to_the_segments(data: st.DataObject, preset: str) -> None:
    config = PRESETS[preset].replace(minimum_value=0.0)
    documents = data.draw(dense_documents(1))

    selection = select_segments([document.sparse(config) for document in documents], config)

    assert selection.segments(0) == []
    chunks = [
        (document, chunk) for document, start, end in selection.steps for chunk in range(start, end)
    ]
    assert len(chunks) == len(set(chunks))
    assert set(chunks) == {
        (one.document, chunk)
        for one in _everything(selection)
        for chunk in range(one.segment.start, one.segment.end)
    }


@given(st.data(), st.sampled_from(list(PRESETS)), st.integers(0, 4000), st.sampled_from([0.0, 0.5]))
def test_a_budget_takes_the_best_steps_of_all(
    data: st.DataObject, preset: str, budget: int, minimum_value: float
) -> None:
    config = PRESETS[preset].replace(minimum_value=minimum_value)
    documents = [document.sparse(config) for document in data.draw(dense_documents(1))]
    everything = select_segments(documents, config).steps
    steps = select_segments(documents, config, budget=budget).steps

    assert everything[: len(steps)] == steps
    texts = [dict(zip(chunks_of(d), d.lengths.tolist(), strict=True)) for d in documents]
    size = sum(texts[step.document][i] for step in steps for i in range(step.start, step.end))
    assert size > budget or steps == everything


@given(st.data(), st.floats(0, 1), st.floats(0.01, 3))
def test_no_number_of_steps_makes_a_segment_worth_too_little(
    data: st.DataObject, penalty: float, minimum_value: float
) -> None:
    config = RSEConfig(irrelevant_chunk_penalty=penalty, minimum_value=minimum_value)
    documents = [document.sparse(config) for document in data.draw(dense_documents(1))]
    selection = select_segments(documents, config)

    for count in range(len(selection.steps) + 1):
        segments = selection.segments(count)
        assert all(one.segment.value >= minimum_value for one in segments)
        taken = sum(one.segment.end - one.segment.start for one in segments)
        assert taken == sum(step.end - step.start for step in selection.steps[:count])
    of_all = select_segments(documents, config.replace(minimum_value=0.0))
    worth_it = [one for one in _everything(of_all) if one.segment.value >= minimum_value]
    assert _positions(_everything(selection)) == _positions(worth_it)


def test_credit_ends_with_the_document_and_with_its_radius() -> None:
    config = RSEConfig(
        irrelevant_chunk_penalty=0.0, neighbor_credit=0.5, neighbor_radius=2, segment_cost=0.0
    )
    far = [0.0] * 30
    documents = [Dense([[0.2, 0.0, 1.0]], [9] * 3), Dense([[0.2, *far, 1.0, 0.0]], [9] * 33)]

    chosen = _select(documents, config)

    # 0.2 gets a quarter of the 1.0 two chunks on: 1 - 0.8 * 0.75.
    assert {(d, segment.start): values.tolist() for d, segment, values in chosen} == {
        (0, 0): pytest.approx([0.4, 1 - 0.9 * 0.5, 1.0]),
        (1, 0): pytest.approx([0.2, 0.1, 0.05]),
        (1, 29): pytest.approx([0.25, 0.5, 1.0, 0.5]),
    }


def test_several_queries_share_one_exact_solution() -> None:
    config = RSEConfig(
        irrelevant_chunk_penalty=0.3, neighbor_credit=0.0, neighbor_radius=0, segment_cost=0.5
    )
    document = Dense([[0.9, 0.0, 0.0, 0.2], [0.0, 0.6, 0.0, 0.2]], [9] * 4)

    (selected,) = _select([document], config)

    assert selected.segment == _close_to(0, 2, 0.6 + 0.3 - 0.5 * 0.3)
    assert selected.values == pytest.approx([0.6, 0.3])


WORDS: dict[str, Any] = {"query": "red fox", "texts": ["a dog", "some cat", "the red fox"]}


def test_words_of_the_query_count_as_a_second_witness() -> None:
    scores = [0.50, 0.49, 0.48]
    config = RSEConfig(calibration="identity", decay_rate=10, lexical_credit=0.75)
    plain = [score * math.exp(-rank / 10) for rank, score in enumerate(scores)]

    with_words = relevance_of(scores, config, **WORDS)

    # The third is the first by words; the others are worth nothing by them.
    assert with_words == pytest.approx([plain[0], plain[1], 1 - (1 - plain[2]) * 0.25])
    assert with_words.argmax() == 2
    enough = relevance_of(scores, config.replace(lexical_credit=1.0), **WORDS)
    assert enough == pytest.approx([plain[0], plain[1], 1])


def test_the_credit_of_words_fades_with_their_rank() -> None:
    texts = ["red", "red fox", "red red", "dog"]
    config = RSEConfig(calibration="identity", decay_rate=2, lexical_credit=0.5)

    by_words = relevance_of([0.0] * 4, config, query="red fox", texts=texts)

    scores = lexical_scores("red fox", texts)
    assert by_words[1] == 0.5
    assert 0 < scores[0] < scores[2] < scores[1]
    assert by_words[2] == pytest.approx(0.5 * math.exp(-1 / 2) * scores[2] / scores[1])
    assert by_words[0] == pytest.approx(0.5 * math.exp(-2 / 2) * scores[0] / scores[1])
    assert by_words[3] == 0


@pytest.mark.parametrize(
    ("changes", "arguments"),
    [
        ({"lexical_credit": 0.0}, WORDS),
        ({}, {**WORDS, "reranker": "SomeReranker"}),
        ({}, {**WORDS, "query": "nothing of this"}),
        ({}, {**WORDS, "texts": []}),
        ({}, {}),
    ],
)
def test_words_are_left_out(changes: dict[str, Any], arguments: dict[str, Any]) -> None:
    scores = [0.5, 0.49, 0.48]
    config = RSEConfig(
        calibration="identity", decay_rate=10, contrast=1, lexical_credit=0.25
    ).replace(**changes)

    relevance = relevance_of(scores, config, **arguments)

    assert relevance.tolist() == relevance_of(scores, config.replace(lexical_credit=0.0)).tolist()


def test_candidates_below_the_least_relevance_count_as_not_found() -> None:
    config = RSEConfig(
        calibration="identity", decay_rate=2.0, min_relevance=0.5, lexical_credit=0.2
    )

    relevance = relevance_of([0.9, 0.5, 0.49], config, **WORDS)

    # Neither the rank nor the words change who is below.
    assert relevance == pytest.approx([0.9, 0.5 * math.exp(-1 / 2), 0.0])
    assert _select([Dense([relevance.tolist()], [9, 9, 9])], config)
    assert relevance_of([0.4, 0.3, 0.2], config, **WORDS).tolist() == [0, 0, 0]


@given(
    st.sets(st.integers(0, 200), min_size=1, max_size=12),
    configs(st.sampled_from([0.0, 0.18])),
)
def test_windows_hold_all_segments_that_can_be(candidates: set[int], config: RSEConfig) -> None:
    chunks = sorted(candidates)
    longest = _longest(config)

    windows = find_windows(chunks, config)

    for before, after in itertools.pairwise(windows):
        assert before.end <= after.start
    for window in windows:
        assert 0 <= window.start < window.end
    for first in chunks:
        for last in chunks:
            if first <= last < first + longest:
                assert any(w.start <= first and last < w.end for w in windows)
        if config.irrelevant_chunk_penalty == 0:
            # Chunks that cost nothing may stand at either end.
            lowest = max(first - longest + 1, 0)
            assert any(w.start <= lowest and first + longest <= w.end for w in windows)


def test_windows_of_the_exact_solver_reach_as_far_as_credit() -> None:
    config = RSEConfig(neighbor_radius=2)

    assert find_windows([3, 24], config) == [Window(1, 27)]
    assert find_windows([3, 25], config) == [Window(1, 6), Window(23, 28)]
    assert find_windows([0], config) == [Window(0, 3)]


def test_windows_leave_out_what_no_segment_reaches() -> None:
    chunks = [3, 5, 1000, 1014, 1029]
    config = PRESETS["dsrag-balanced"]

    assert find_windows(chunks, config) == [Window(3, 6), Window(1000, 1015), Window(1029, 1030)]
    assert find_windows([], config) == []


def test_no_documents_give_no_segments() -> None:
    for config in PRESETS.values():
        assert _everything(select_segments([], config)) == []


def test_earlier_documents_win_ties() -> None:
    config = PRESETS["dsrag-balanced"].replace(overall_max_length=1, length_weighting="none")
    documents = [Dense([[0.0, 1.0]], [9, 9]), Dense([[1.0, 0.0]], [9, 9])]

    assert _positions(_select(documents, config)) == [(0, _close_to(1, 2, 0.82))]


def test_published_value_of_a_chunk_by_hand() -> None:
    scores = [0.99, 0.9, 0.6]  # best first: chunks 4, 5 and 7
    lengths = [650, 800, 700, 800, 1400, 350, 900, 1050]
    config = PRESETS["dsrag-balanced"].replace(calibration="identity")
    relevance = relevance_of(scores, config)
    windows = find_windows([4, 5, 7], config)

    (selected,) = _everything(
        select_segments(
            [
                DocumentCandidates(
                    np.array([4, 5, 7]), relevance[None], windows, np.array(lengths[4:8])
                )
            ],
            config,
        )
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
