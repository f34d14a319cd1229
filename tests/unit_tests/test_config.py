from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from langchain_rse import PRESETS, RSEConfig
from langchain_rse.config import ByScores

FINITE_FROM_0 = "a finite number of at least 0"
FINITE_ABOVE_0 = "a finite number above 0"
OR_NONE = " or None"
FINITE = "a finite number"
SHARE = "a finite number from 0 to 1"
NOT_NUMBERS: list[Any] = [
    math.nan, math.inf, -math.inf, True, "1", b"1", "", None, [1.0], 1j, 10**400,
]  # fmt: skip
NOT_OPTIONAL: list[Any] = [value for value in NOT_NUMBERS if value is not None]
NOT_WHOLE: list[Any] = [1.0, 2.5, math.nan, math.inf, True, False, "3", b"3", [3]]


def _each(field: str, allowed: str, values: Iterable[Any]) -> list[tuple[str, Any, str]]:
    return [(field, value, allowed) for value in values]


BAD: list[tuple[str, Any, str]] = [
    *_each("solver", "one of 'exact', 'greedy', 'best'", ("Greedy", "", None, 1, [])),
    *_each("rank_fusion", "one of 'decay', 'mean'", ("max", "Decay", None, True, {})),
    *_each("length_weighting", "one of 'none', 'linear', 'published'", ("log", None, False, 1.0)),
    *_each(
        "calibration",
        "one of auto, identity, minmax, sigmoid, rank, cohere, voyage",
        ("softmax", "beta(0, 1)", None, 1, []),
    ),
    *_each("irrelevant_chunk_penalty", FINITE_FROM_0, (*NOT_NUMBERS, -0.1, -5e-324, -1)),
    *(
        bad
        for name in ("lexical_credit", "min_relevance", "neighbor_credit", "border_cost")
        for bad in _each(name, SHARE, (*NOT_NUMBERS, -5e-324, -1, 1.0000001, 2))
    ),
    *_each("neighbor_radius", "a whole number of at least 0 or None", (*NOT_WHOLE, -1)),
    *_each("segment_cost", FINITE_FROM_0 + OR_NONE, (*NOT_OPTIONAL, -0.1, -5e-324)),
    *_each("decay_rate", FINITE_ABOVE_0 + OR_NONE, (*NOT_OPTIONAL, 0, 0.0, -30)),
    *_each("contrast", FINITE_ABOVE_0 + OR_NONE, (*NOT_OPTIONAL, 0, 0.0, -1)),
    *_each("reference_length", FINITE_ABOVE_0, (*NOT_NUMBERS, 0, -0.0, -700)),
    *_each("minimum_value", FINITE, NOT_NUMBERS),
    *_each("max_length", "a whole number of at least 1 or None", (*NOT_WHOLE, 0, -1)),
    *_each("overall_max_length", "a whole number of at least 1", (*NOT_WHOLE, None, 0, -30)),
    *_each("overall_max_length_extension", "a whole number of at least 0", (*NOT_WHOLE, None, -1)),
    *_each(
        "top_k_for_document_selection", "a whole number of at least 1 or None", (*NOT_WHOLE, 0, -1)
    ),
]


def _short(value: Any) -> str:
    return repr(value)[:20]


@pytest.mark.parametrize(("field", "value", "allowed"), BAD, ids=_short)
def test_a_bad_value_is_refused_by_name(field: str, value: Any, allowed: str) -> None:
    message = f"^{re.escape(f'{field} must be {allowed}')}.*{re.escape(f'; got {value!r}')}$"
    arguments: dict[str, Any] = {field: value}

    with pytest.raises(ValueError, match=message):
        RSEConfig(**arguments)
    with pytest.raises(ValueError, match=message):
        RSEConfig().replace(**arguments)


def test_every_field_is_checked() -> None:
    assert {field for field, _, _ in BAD} == {field.name for field in dataclasses.fields(RSEConfig)}


@pytest.mark.parametrize(
    ("field", "value", "stored"),
    [
        ("irrelevant_chunk_penalty", 0, 0.0),
        ("irrelevant_chunk_penalty", np.float32(0.5), 0.5),
        ("lexical_credit", 1, 1.0),
        ("min_relevance", np.float32(0.5), 0.5),
        ("neighbor_credit", 0, 0.0),
        ("neighbor_radius", np.int64(0), 0),
        ("segment_cost", 3, 3.0),
        ("contrast", 2, 2.0),
        *((name, None, None) for name in ByScores._fields),
        ("max_length", None, None),
        ("decay_rate", 1e-9, 1e-9),
        ("reference_length", Fraction(1, 2), 0.5),
        ("minimum_value", -3, -3.0),
        ("max_length", 1, 1),
        ("max_length", np.int64(7), 7),
        ("overall_max_length", 1, 1),
        ("overall_max_length_extension", 0, 0),
        ("top_k_for_document_selection", 1, 1),
        ("top_k_for_document_selection", None, None),
        ("calibration", "beta(0.5, 2)", "beta(0.5, 2)"),
        ("calibration", np.tanh, np.tanh),
    ],
)
def test_good_values_become_plain_ones(field: str, value: Any, stored: Any) -> None:
    arguments: dict[str, Any] = {field: value}

    kept = getattr(RSEConfig(**arguments), field)

    assert kept == stored
    assert type(kept) is type(stored)


def test_unknown_fields_are_refused() -> None:
    arguments: dict[str, Any] = {"penalty": 0.1}

    with pytest.raises(TypeError, match="penalty"):
        RSEConfig(**arguments)
    with pytest.raises(TypeError, match="penalty"):
        RSEConfig().replace(**arguments)


def test_fields_are_given_by_name() -> None:
    positional: list[Any] = ["greedy"]

    with pytest.raises(TypeError, match="positional"):
        RSEConfig(*positional)


def test_replace_returns_a_changed_copy() -> None:
    config = RSEConfig(max_length=3, minimum_value=0.5)

    changed = config.replace(max_length=4, minimum_value=0.2)

    assert (config.max_length, config.minimum_value) == (3, 0.5)
    assert changed == RSEConfig(max_length=4, minimum_value=0.2)
    assert config.replace() == config


@pytest.mark.parametrize("field", ["max_length", "something_else"])
def test_a_config_cannot_be_changed(field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(RSEConfig(), field, 3)


def test_equal_configs_have_equal_hashes() -> None:
    configs = {RSEConfig(decay_rate=30), RSEConfig(decay_rate=30.0), RSEConfig(decay_rate=31)}

    assert len(configs) == 2
    assert len(set(PRESETS.values())) == len(PRESETS)


def test_the_default_is_the_balanced_preset() -> None:
    assert RSEConfig() == PRESETS["balanced"]


def test_our_presets_differ_in_what_text_has_to_be_worth() -> None:
    precision, balanced, find_all = (
        PRESETS[name] for name in ("precision", "balanced", "find_all")
    )

    assert {config.solver for config in (precision, balanced, find_all)} == {"exact"}
    assert (
        precision.irrelevant_chunk_penalty
        > balanced.irrelevant_chunk_penalty
        > find_all.irrelevant_chunk_penalty
    )


OF_SIMILARITIES = ByScores(decay_rate=20, contrast=1, neighbor_radius=2, segment_cost=0.15)
OF_RERANKERS = ByScores(decay_rate=100, contrast=3, neighbor_radius=3, segment_cost=0.7)


@pytest.mark.parametrize(
    ("calibration", "reranker", "expected"),
    [
        ("auto", None, OF_SIMILARITIES),
        ("identity", None, OF_SIMILARITIES),
        ("sigmoid", None, OF_SIMILARITIES),
        ("auto", "SomeReranker", OF_SIMILARITIES),
        ("minmax", "CohereRerank", OF_SIMILARITIES),
        ("rank", "CohereRerank", OF_SIMILARITIES),
        ("identity", "SimilarityBasedRelevanceFilter", OF_SIMILARITIES),
        ("auto", "SimilarityBasedRelevanceFilter", OF_SIMILARITIES),
        ("auto", "CohereRerank", OF_RERANKERS),
        ("auto", "VoyageAIRerank", OF_RERANKERS),
        ("identity", "SomeReranker", OF_RERANKERS),
        ("sigmoid", "SomeReranker", OF_RERANKERS),
        ("beta(0.4, 0.4)", "SomeReranker", OF_RERANKERS),
        (np.tanh, "SomeReranker", OF_RERANKERS),
    ],
)
def test_what_the_scores_are_decides_what_is_none(
    calibration: Any, reranker: str | None, expected: ByScores
) -> None:
    config = RSEConfig(calibration=calibration)

    assert config.by_scores(reranker) == expected
    assert config.for_scores(reranker) == config.replace(**expected._asdict())
    # What is given stays, and what was decided is not decided again.
    given = config.replace(contrast=1.5, neighbor_radius=0)
    assert given.by_scores(reranker) == expected._replace(contrast=1.5, neighbor_radius=0)
    assert config.for_scores("CohereRerank").for_scores(None) == config.for_scores("CohereRerank")


@pytest.mark.parametrize(
    "name", [name for name in PRESETS if name.startswith("dsrag")] + ["walkthrough", "kadane"]
)
def test_published_presets_are_the_same_for_all_scores(name: str) -> None:
    for reranker in (None, "CohereRerank"):
        assert PRESETS[name].for_scores(reranker) == PRESETS[name]
    assert PRESETS[name].contrast == 1


@pytest.mark.parametrize("solver", ["greedy", "best"])
def test_only_the_exact_solver_takes_segments_of_any_length(solver: Any) -> None:
    message = rf"^max_length must .* with solver='{solver}'; got None, which only 'exact' takes$"

    with pytest.raises(ValueError, match=message):
        RSEConfig(solver=solver)
    with pytest.raises(ValueError, match=message):
        RSEConfig().replace(solver=solver)
    exact = RSEConfig(solver=solver, max_length=3).replace(solver="exact", max_length=None)
    assert exact.max_length is None


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_is_found_by_name(name: str) -> None:
    assert RSEConfig.of(name) is PRESETS[name]


def test_a_config_is_its_own() -> None:
    config = RSEConfig(max_length=3)

    assert RSEConfig.of(config) is config


@pytest.mark.parametrize("name", ["", "dsrag", "Kadane", None, 3, {"max_length": 3}, ["kadane"]])
def test_an_unknown_preset_is_refused_with_those_there_are(name: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got {name!r}")) as error:
        RSEConfig.of(name)

    assert all(preset in str(error.value) for preset in PRESETS)


def test_the_presets_cannot_be_changed() -> None:
    presets: Any = PRESETS

    with pytest.raises(TypeError):
        presets["dsrag-balanced"] = RSEConfig(max_length=1)
