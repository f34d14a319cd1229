"""The solver of the page chooses what Python's does, ties included."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.query.reading import fit
from langchain_rse.query.scoring import ScoredChunks, give_credit
from langchain_rse.query.selecting import select, single_chunk_fallback

SOLVER = (files("langchain_rse.explaining") / "report" / "solver.js").read_text(encoding="utf-8")


class Case(NamedTuple):
    columns: dict[str, list[Any]]
    settings: dict[str, Any]


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.add_script_tag(content=SOLVER)
    yield page
    page.close()


# Often the same few numbers, so that chunks, segments and whole documents tie.
RELEVANCE = st.sampled_from([0.0, 0.0, 0.25, 0.5, 0.5, 0.8, 1.0]) | st.floats(0, 1)
LENGTHS = st.sampled_from([100, 100, 250]) | st.integers(1, 3_000)
SHARES = st.sampled_from([0.0, 0.15, 0.4, 0.5, 1.0]) | st.floats(0, 1)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    columns: dict[str, list[Any]] = {
        name: []
        for name in (
            *("relevance", "lengths", "documentLengths", "documents", "found", "alone"),
            *("uncredited", "starts"),
        )
    }
    for document in range(draw(st.integers(1, 4))):
        windows = draw(st.lists(st.integers(1, 25), min_size=1, max_size=3))
        lengths = draw(st.lists(LENGTHS, min_size=sum(windows), max_size=sum(windows)))
        further = draw(st.sampled_from([0, 0, 5_000])) + (100 if len(windows) > 1 else 0)
        places = list(itertools.accumulate(windows, initial=len(columns["lengths"])))
        columns["starts"] += places[:-1]
        for length in lengths:
            relevance = draw(RELEVANCE)
            columns["relevance"].append(relevance)
            columns["lengths"].append(length)
            columns["documentLengths"].append(sum(lengths) + further)
            columns["documents"].append(document)
            columns["found"].append(relevance > 0 or draw(st.booleans()))
            columns["alone"].append(windows == [1] and not further)
            columns["uncredited"].append(False)
    total = sum(columns["lengths"])
    settings = {
        "irrelevant_chunk_penalty": draw(SHARES),
        "neighbor_weight": draw(SHARES),
        "neighbor_radius": draw(st.integers(0, 4)),
        "segment_cost": draw(SHARES | st.floats(0, 5)),
        "budget": draw(st.none() | st.integers(0, total + 100)),
    }
    return Case(columns, settings)


def by_python(case: Case) -> list[tuple[int, int]]:
    """The segments that the steps of a query choose."""
    columns = case.columns
    config_settings = dict(case.settings)
    limit = config_settings.pop("budget")
    settings = QuerySettings(config=RSEConfig(**config_settings), max_context_length=limit)
    budget = np.inf if limit is None else limit
    relevance = np.array(columns["relevance"])
    starts = columns["starts"]
    layouts = []
    for number in range(max(columns["documents"]) + 1):
        first = columns["documents"].index(number)
        chunk_count = 1 if columns["alone"][first] else 2  # what counts is whether it is 1
        manifest = SimpleNamespace(
            key=str(number), current=SimpleNamespace(chunks=chunk_count), length=0
        )
        layouts.append(SimpleNamespace(manifest=manifest))
    chunks = [(layouts[number], 0) for number in columns["documents"]]
    windows = []
    for start, end in itertools.pairwise([*starts, relevance.size]):
        windows.append((chunks[start][0], range(end - start)))
    credited_rows = give_credit(relevance[None], cast(Any, windows), settings.config)
    candidates = [column for column, found in enumerate(columns["found"]) if found]
    best_first = sorted(candidates, key=lambda column: (-relevance[column], column))
    scored = ScoredChunks(
        chunks=cast(Any, chunks),
        window_starts=np.array(starts, np.intp),
        candidates=cast(Any, dict.fromkeys(candidates)),
        by_query=[{column: float(relevance[column]) for column in best_first}],
        relevance=relevance,
        credited=credited_rows.max(axis=0),
        credited_rows=credited_rows,
        lengths=np.array(columns["lengths"], np.int64),
        document_lengths=np.array(columns["documentLengths"], np.int64),
    )
    selection = select(scored, settings, budget)
    lengths = [int(scored.lengths[start:end].sum()) for start, end in selection.steps]
    totals = [0, *itertools.accumulate(lengths)]
    chosen = selection.segments_after(fit(len(lengths), budget, totals.__getitem__))
    chosen = chosen or single_chunk_fallback(scored, selection, settings, budget)[:1]
    return sorted((start, end) for start, end, _ in chosen)


def by_page(page: Page, case: Case) -> list[tuple[int, int]]:
    call = "([columns, settings]) => chooseSegments(columns, settings)"
    segments = page.evaluate(call, list(case))["segments"]
    return sorted((segment["start"], segment["end"]) for segment in segments)


@given(case=cases())
def test_the_page_chooses_the_same_segments(page: Page, case: Case) -> None:
    assert by_page(page, case) == by_python(case)


def test_seeded_cases_of_the_size_of_a_query(page: Page) -> None:
    random = np.random.default_rng(7)
    chosen = 0
    for _ in range(200):
        sizes = random.integers(1, 30, random.integers(1, 20))
        starts = np.cumsum([0, *sizes[:-1]])
        count = int(sizes.sum())
        relevance = np.where(random.random(count) < 0.4, random.random(count) ** 3, 0.0)
        lengths = random.integers(200, 900, count)
        columns = {
            "relevance": relevance.tolist(),
            "lengths": lengths.tolist(),
            "documentLengths": np.repeat(np.add.reduceat(lengths, starts), sizes).tolist(),
            "documents": np.repeat(np.arange(sizes.size), sizes).tolist(),
            "found": (relevance > 0).tolist(),
            "alone": np.repeat(sizes == 1, sizes).tolist(),
            "uncredited": [False] * count,
            "starts": starts.tolist(),
        }
        settings = {
            "irrelevant_chunk_penalty": float(random.random()),
            "neighbor_weight": float(random.random()),
            "neighbor_radius": 2,
            "segment_cost": float(random.random()),
            "budget": int(random.integers(0, 20_000)),
        }
        expected = by_python(Case(columns, settings))
        chosen += len(expected)
        assert by_page(page, Case(columns, settings)) == expected
    assert chosen > 200
