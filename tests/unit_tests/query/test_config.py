"""The config, its presets, and what they refuse."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import BaseDocumentCompressor
from pydantic import SecretStr

from langchain_rse import PRESETS, RSEConfig
from langchain_rse.config import BestSegment, Greedy, QuerySettings, resolve_settings
from langchain_rse.query.ranking import config_for_reranker
from langchain_rse.rerankers import CohereReranker

PUBLISHED = [name for name in PRESETS if name.startswith("dsrag")] + ["walkthrough", "kadane"]
NUMBERS = [
    name for name in RSEConfig.model_fields if name not in ("solver", "calibration", "rank_fusion")
]


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", [math.nan, math.inf, True, "1", [1], -1.5])
def test_a_bad_number_is_refused_by_name(field: str, value: Any) -> None:
    if field == "minimum_value" and value == -1.5:
        return
    for make in (RSEConfig, RSEConfig().replace):
        with pytest.raises(ValueError, match=rf"(?s){field}\n"):
            make(**{field: value})


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("solver", "greedy", '"exact", or Greedy(...) or BestSegment(...)'),
        ("solver", {"name": "best"}, '"exact", or Greedy(...) or BestSegment(...)'),
        ("rank_fusion", "max", "'decay' or 'mean'"),
        ("calibration", "softmax", "one of identity, minmax, sigmoid, rank, cohere, voyage"),
        ("calibration", "beta(0, 1)", "positive a and b"),
        ("irrelevant_chunk_penalty", 7, "less than or equal to 1"),
        ("neighbor_credit", 1.01, "less than or equal to 1"),
        ("decay_rate", 0, "greater than 0"),
        ("penalty", 0.3, "Extra inputs are not permitted"),
    ],
)
def test_a_bad_value_says_what_is_allowed(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(ValueError, match=rf"(?s){field}\n.*{re.escape(allowed)}"):
        RSEConfig(**{field: value})


def test_good_values() -> None:
    config = RSEConfig(
        irrelevant_chunk_penalty=1,
        calibration=np.tanh,
        decay_rate=np.float32(0.5),
        top_k_for_document_selection=None,
    )
    assert (config.irrelevant_chunk_penalty, config.decay_rate) == (1.0, 0.5)
    assert config.calibration is np.tanh


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_length": 0}, "max_length\n.*greater than or equal to 1"),
        ({"max_length": None}, "max_length\n.*valid integer"),
        ({"length_weighting": "all"}, "length_weighting\n.*'none' or 'published'"),
        ({"reference_length": 0}, "reference_length\n.*greater than 0"),
        ({"minimum_value": 0.5}, "minimum_value\n.*Extra inputs are not permitted"),
    ],
)
@pytest.mark.parametrize("solver", [Greedy, BestSegment])
def test_a_published_solver_checks_its_parameters(
    solver: Any, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"(?s){message}"):
        solver(**fields)


# What is not given is inherited; None is a value


# As people call them, who need not give the types that pydantic makes of their arguments.
make_settings: Any = QuerySettings


def test_none_is_a_value() -> None:
    for config in (RSEConfig(), "find_all"):
        settings = make_settings(config=config, top_k_for_document_selection=None)
        assert settings.merged_config().top_k_for_document_selection is None
    with pytest.raises(ValueError, match=r"(?s)neighbor_credit\n.*valid number"):
        make_settings(neighbor_credit=None)


@pytest.mark.parametrize("name", list(PRESETS))
def test_any_preset_can_be_left_for_the_exact_solver(name: str) -> None:
    settings = make_settings(config=name, solver="exact")
    assert settings.merged_config().solver == "exact"
    assert resolve_settings(settings, {"rse_config": name}).config == PRESETS[name]
    left = resolve_settings(settings, {"rse_config": name, "solver": "exact"})
    assert left.config == PRESETS[name].replace(solver="exact")


def test_what_a_call_takes_the_constructor_takes() -> None:
    arguments = {"rse_config": "precision", "filter": {"year": 2024}}
    in_constructor = make_settings(**arguments, search_kwargs={"timeout": 3})
    assert in_constructor.config == PRESETS["precision"]
    assert in_constructor.search_kwargs == {"filter": {"year": 2024}, "timeout": 3}
    in_call = resolve_settings(make_settings(search_kwargs={"timeout": 3}), arguments)
    assert in_call == in_constructor
    with pytest.raises(ValueError, match="rse_config is another name of config"):
        make_settings(rse_config="precision", config="balanced")


def test_an_argument_of_a_call_replaces_one_field_of_the_retrievers() -> None:
    settings = QuerySettings(config=PRESETS["precision"], segment_cost=0.3)
    config = resolve_settings(settings, {"neighbor_credit": 0.1}).config
    assert config == PRESETS["precision"].replace(segment_cost=0.3, neighbor_credit=0.1)
    # The whole config of a call replaces what the retriever has beside its own.
    assert resolve_settings(settings, {"rse_config": RSEConfig()}).config == RSEConfig()


def test_a_config_is_a_value() -> None:
    config = RSEConfig(decay_rate=30)
    assert config == RSEConfig(decay_rate=30.0) != config.replace(decay_rate=31)
    assert len({config, RSEConfig(decay_rate=30.0), config.replace(decay_rate=31)}) == 2
    with pytest.raises(ValueError, match="frozen"):
        setattr(config, "decay_rate", 3.0)  # noqa: B010
    assert RSEConfig(**json.loads(config.model_dump_json())) == config


def test_presets_by_name() -> None:
    assert RSEConfig() == PRESETS["balanced"] == RSEConfig.of("balanced")
    assert RSEConfig.of(config := RSEConfig(segment_cost=2)) is config
    with pytest.raises(ValueError, match=r"dsrag-balanced.*got 'balance'"):
        RSEConfig.of("balance")
    presets: Any = PRESETS
    with pytest.raises(TypeError):
        presets["balanced"] = RSEConfig()


def test_our_presets_differ_in_the_penalty() -> None:
    penalties = [PRESETS[n].irrelevant_chunk_penalty for n in ("precision", "balanced", "find_all")]
    assert penalties == sorted(penalties, reverse=True)


# max_length, overall_max_length, minimum_value, penalty, decay_rate, top_k
DSRAG = {
    "dsrag-balanced": (15, 30, 0.5, 0.18, 30, 10),
    "dsrag-precision": (15, 30, 0.7, 0.2, 30, 10),
    "dsrag-find_all": (40, 200, 0.4, 0.18, 200, 200),
    "walkthrough": (20, 30, 0.7, 0.2, 30, 1),
}


@pytest.mark.parametrize("name", list(DSRAG))
def test_published_presets_have_the_published_parameters(name: str) -> None:
    config = PRESETS[name]
    solver = config.solver
    assert isinstance(solver, Greedy)
    assert DSRAG[name] == (
        solver.max_length,
        solver.overall_max_length,
        config.minimum_value,
        config.irrelevant_chunk_penalty,
        config.decay_rate,
        config.top_k_for_document_selection,
    )
    assert solver.length_weighting == ("none" if name == "walkthrough" else "published")
    assert solver.overall_max_length_extension == (0 if name == "dsrag-find_all" else 5)


def test_the_kadane_preset() -> None:
    config = PRESETS["kadane"]
    assert config.solver == BestSegment(max_length=15, length_weighting="none")
    assert config.rank_fusion == "mean"
    assert config.irrelevant_chunk_penalty == 0.3


class Reranker(BaseDocumentCompressor):
    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        raise NotImplementedError


class CohereRerank(Reranker):
    """Known by its name."""


class MyCohere(CohereRerank):
    """Known by its base class."""


class SimilarityBasedRelevanceFilter(Reranker):
    """Its scores are similarities."""


@pytest.mark.parametrize(
    ("calibration", "reranker", "used"),
    [
        ("auto", None, "minmax"),
        ("sigmoid", None, "sigmoid"),
        ("auto", Reranker(), "minmax"),
        ("sigmoid", Reranker(), "sigmoid"),
        (np.tanh, Reranker(), np.tanh),
        ("rank", CohereRerank(), "rank"),
        ("auto", CohereRerank(), "cohere"),
        ("auto", MyCohere(), "cohere"),
        ("auto", CohereReranker(model="m", cohere_api_key=SecretStr("key")), "cohere"),
        ("auto", SimilarityBasedRelevanceFilter(), "identity"),
    ],
    ids=str,
)
def test_who_scores_decides_the_calibration_and_nothing_else(
    calibration: Any, reranker: Any, used: Any
) -> None:
    config = RSEConfig(calibration=calibration)
    assert config_for_reranker(config, reranker) == config.replace(calibration=used)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_presets_are_the_same_for_all_scores(name: str) -> None:
    for reranker in (None, CohereRerank()):
        config = config_for_reranker(PRESETS[name], reranker)
        assert config.replace(calibration="auto") == PRESETS[name]


# Files


@pytest.mark.parametrize("preset", PRESETS)
def test_a_config_comes_back_from_a_file(tmp_path: Path, preset: str) -> None:
    config = PRESETS[preset].replace(decay_rate=7, calibration="beta(0.4, 2)")
    for path in (tmp_path / "config.json", str(tmp_path / "other.json")):
        config.to_file(path)
        assert RSEConfig.from_file(path) == config
        assert set(json.loads(Path(path).read_bytes())) == set(RSEConfig.model_fields)


def test_a_file_may_have_some_fields(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"segment_cost": 0.3}', encoding="utf-8")
    assert RSEConfig.from_file(tmp_path / "config.json") == RSEConfig(segment_cost=0.3)


def test_a_share_of_lexical_search_is_not_lost_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    RSEConfig(segment_cost=0.3).to_file(path, hybrid=0.2)
    with pytest.warns(
        UserWarning, match=r"config.json .* RSERetriever\(..., hybrid=0.2\)"
    ) as caught:
        assert RSEConfig.from_file(path) == RSEConfig(segment_cost=0.3)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a JSON object of settings"),
        (b"[1]", "not a JSON object of settings"),
        (b"\xff", "not a JSON object of settings"),
        (b'{"decay_rate": -1}', "decay_rate"),
        (b'{"decay_rate": NaN}', "decay_rate"),
        (b'{"hybrid": 2}', "hybrid"),
        (b'{"penalty": 0.3}', "penalty"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=rf"(?s)config\.json is .*{message}"):
        RSEConfig.from_file(tmp_path / "config.json")
    with pytest.raises(FileNotFoundError):
        RSEConfig.from_file(tmp_path / "none.json")


def test_a_function_cannot_be_kept_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="calibration=<ufunc 'tanh'>"):
        RSEConfig(calibration=np.tanh).to_file(tmp_path / "config.json")
    assert not (tmp_path / "config.json").exists()
