"""The settings: what they are, what they refuse, and what a call changes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSERetriever
from langchain_rse.config import (
    PRESETS,
    BestSegment,
    Greedy,
    QuerySettings,
    RSEConfig,
    read_settings,
)
from langchain_rse.errors import MissingRecordError
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, lines, make_retriever, ranges

way = fakes.way


# RSEConfig


@pytest.mark.parametrize(
    ("make", "field", "value"),
    [
        (RSEConfig, "solver", "greedy"),
        (RSEConfig, "rank_fusion", "max"),
        (RSEConfig, "calibration", "softmax"),
        (RSEConfig, "irrelevant_chunk_penalty", 7),
        (RSEConfig, "neighbor_weight", 1.01),
        (RSEConfig, "decay_rate", 0),
        (Greedy, "max_length", 0),
        (Greedy, "minimum_value", math.nan),
        (BestSegment, "length_weighting", "all"),
    ],
)
def test_a_bad_value_is_refused_by_name(make: Any, field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{field} must be .*; got '?{re.escape(str(value))}"):
        make(**{field: value})


@pytest.mark.parametrize(
    ("make", "field", "message"),
    [
        (RSEConfig, "decay", r"'decay': did you mean decay_rate\?"),
        (RSEConfig, "hybrid", r"allowed: calibration, "),
        (Greedy, "maximum_length", r"did you mean max_length"),
        (QuerySettings, "decay_rate", r"pass RSEConfig\(decay_rate=...\) as config"),
        (QuerySettings, "lambda_mult", r"base_retriever=vectorstore.as_retriever"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(make: Any, field: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**{field: 3})


# Presets


def test_presets_by_name() -> None:
    assert RSEConfig() == PRESETS["balanced"] == RSEConfig.of("balanced")
    assert RSEConfig.of(config := RSEConfig(passage_cost=2)) is config
    assert str(PRESETS).startswith("balanced: RSEConfig()\nprecision: RSEConfig(irr")
    for name, config in PRESETS.items():
        retriever = make_retriever({}, config=name)
        assert retriever.config == config
        assert retriever.penalty == config.irrelevant_chunk_penalty
    with pytest.raises(TypeError, match=r"^config \(in a call: rse_config\) .*dsrag-balanced"):
        RSEConfig.of({})
    with pytest.raises(KeyError, match="no preset 'fast': use balanced, precision, find_all"):
        PRESETS["fast"]
    with pytest.raises(TypeError):
        PRESETS["fast"] = config  # type: ignore[index]
    with pytest.raises(ValueError, match=r"got 'balance'; did you mean 'balanced'\?$"):
        RSEConfig.of("balance")


# max_length, overall_max_length, minimum_value, extension; penalty, decay_rate, top_k
DSRAG: dict[str, tuple[float, ...]] = {
    "dsrag-balanced": (15, 30, 0.5, 5, 0.18, 30, 10),
    "dsrag-precision": (15, 30, 0.7, 5, 0.2, 30, 10),
    "dsrag-find_all": (40, 200, 0.4, 0, 0.18, 200, 200),
    "walkthrough": (20, 30, 0.7, 5, 0.2, 30, 1),
}


@pytest.mark.parametrize("name", list(DSRAG))
def test_published_presets_have_the_published_parameters(name: str) -> None:
    config = PRESETS[name]
    solver = config.solver
    assert isinstance(solver, Greedy)
    assert DSRAG[name] == (
        solver.max_length,
        solver.overall_max_length,
        solver.minimum_value,
        solver.overall_max_length_extension,
        config.irrelevant_chunk_penalty,
        config.decay_rate,
        config.top_k_for_document_selection,
    )
    assert solver.length_weighting == ("none" if name == "walkthrough" else "published")


# Files


@pytest.mark.parametrize("preset", PRESETS)
def test_a_config_comes_back_from_a_file(tmp_path: Path, preset: str) -> None:
    config = PRESETS[preset].replace(decay_rate=7, calibration="voyage")
    path = tmp_path / "config.json"
    config.to_file(path)
    assert read_settings(str(path)) == {"config": config, "hybrid": "auto"}
    assert set(json.loads(path.read_bytes())) == set(RSEConfig.model_fields)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[1]", b"\xff", b'{"decay_rate": -1}', b'{"decay_rate": NaN}', b'{"hybrid": 2}'),
        *(b'{"penalty": 0.3}', b'{"score_credit": 1}'),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json is "):
        read_settings(tmp_path / "config.json")
    with pytest.raises(FileNotFoundError):
        read_settings(tmp_path / "none.json")


# The retriever


class Encoder(BaseCrossEncoder):
    """A model, which is no compressor."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        raise NotImplementedError


WRONG_TYPES: list[tuple[str, Any]] = [
    *(("fetch_k", value) for value in (True, None)),
    *(("k", "3"), ("max_context_length", 10**400), ("queries", "q 0"), ("queries", [7])),
    *(("query_generator", lambda query: [query]), ("length_function", "len")),
    *(("candidates_only", "yes please"), ("search_kwargs", "k"), ("reranker", Encoder())),
]
WRONG_VALUES: list[tuple[str, Any]] = [
    *(("max_context_length", value) for value in (-1, 0, math.nan)),
    *(("irrelevant_chunk_penalty", 7), ("fetch_k", 0), ("hybrid", 1.1), ("hybrid", math.nan)),
    *(("score_floor", "high"), ("queries", []), ("order", "best"), ("duplicates", "drop_near")),
    *(("search_kwargs", value) for value in ({"k": 5}, {"search_type": "mmr"})),
]


@pytest.mark.parametrize(("name", "value"), WRONG_TYPES + WRONG_VALUES, ids=lambda it: str(it)[:20])
def test_a_bad_value_is_refused_wherever_it_is_given(name: str, value: Any) -> None:
    retriever = make_retriever({})
    error_class = TypeError if (name, value) in WRONG_TYPES else ValueError
    of_run = retriever.configurable_fields(**{name: ConfigurableField(id="x")})
    ways: list[Callable[[], Any]] = [
        lambda: make_retriever({}, **{name: value}),
        lambda: retriever.invoke(QUERY, **{name: value}),
        lambda: setattr(retriever, name, value),
        lambda: of_run.invoke(QUERY, {"configurable": {"x": value}}),
    ]
    for give in ways:
        with pytest.raises(error_class, match=rf"^{name}\W") as caught:
            give()
        assert type(caught.value) is error_class
        assert "\n" not in str(caught.value)


def make_stores() -> dict[str, Any]:
    return {"vectorstore": InMemoryVectorStore(fakes.Angles()), "docstore": InMemoryStore()}


def test_bad_stores_and_splitters() -> None:
    good = make_stores()
    wrong: dict[str, Any] = {
        "vectorstore": InMemoryVectorStore,
        "base_retriever": "a retriever",
        "docstore": {},
        "text_splitter": RecursiveCharacterTextSplitter,  # not an instance
        "metadata_rules": {"page": "middle"},
    }
    for name, value in wrong.items():
        with pytest.raises((ValueError, TypeError), match=f"^{name}.* must be .*; got"):
            RSERetriever(**{**good, name: value})
    with pytest.raises(ValueError, match="neither"):
        RSERetriever(docstore=InMemoryStore())
    with pytest.raises(ValueError, match="both"):
        RSERetriever(**good, base_retriever=fakes.FixedRetriever(documents=[]))


def test_a_field_can_be_set() -> None:
    retriever = make_retriever({"a": lines(0, 90, 0)})
    assert len(retriever.invoke(QUERY)) == 2
    retriever.k = 1
    assert len(retriever.invoke(QUERY)) == 1
    retriever.docstore = InMemoryStore()
    with pytest.raises(MissingRecordError, match="no documents"):
        retriever.invoke(QUERY)
    retriever.vectorstore = InMemoryVectorStore(fakes.Angles())
    with pytest.warns(UserWarning, match="no documents"):
        assert retriever.invoke(QUERY) == []
    retriever.indexer.add_documents([Document(lines(0))], ids=["b"])
    assert ranges(retriever.invoke(QUERY)) == [("b", 0, 1)]
    with pytest.raises(ValueError, match="exactly one"):
        retriever.vectorstore = None


# Calls


def test_a_call_changes_what_it_gives() -> None:
    texts = {"a": lines(0, 90, 90, 5), "b": lines(20)}
    arguments: dict[str, Any] = {
        "rse_config": fakes.PLAIN.replace(irrelevant_chunk_penalty=0.1, passage_cost=3.0),
        "k": 1,
    }
    retriever = make_retriever(texts)
    expected = retriever.invoke(QUERY, **arguments)
    assert ranges(expected) == [("a", 0, 4)]
    assert len(retriever.invoke(QUERY)) == 3  # nothing stuck
    assert retriever.bind(**arguments).invoke(QUERY) == expected
    built = make_retriever(texts, config=arguments["rse_config"], k=1)
    assert built.invoke(QUERY) == expected
    # None is a value.
    assert len(built.invoke(QUERY, rse_config=fakes.PLAIN, k=None)) == 3


def test_one_call_has_one_config() -> None:
    both: dict[str, Any] = {"config": "precision", "rse_config": "find_all"}
    stores = make_stores()
    for make in (partial(RSERetriever, **stores), QuerySettings):
        with pytest.raises(ValueError, match="pass only one of config and rse_config"):
            make(**both)
    assert RSERetriever(**stores, rse_config="find_all").config == PRESETS["find_all"]
