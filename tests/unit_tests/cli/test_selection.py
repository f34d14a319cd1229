"""Filters and settings as they are given on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from langchain_rse import PRESETS, RSEConfig
from langchain_rse.cli.selection import filter_of, settings


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("page=3", 3),
        ("share=0.5", 0.5),
        ("draft=true", True),
        ("by=Ann", "Ann"),
        ("by=Ann=Bob", "Ann=Bob"),
        ("code=007", "007"),
        ('code="7"', "7"),
        ("by=", ""),
        ("x=null", "null"),
        ("x=[1]", "[1]"),
    ],
)
def test_values_of_a_filter(condition: str, value: object) -> None:
    name = condition.partition("=")[0]
    chroma_filter = filter_of([condition], str)
    assert chroma_filter == {name: value}
    assert type(chroma_filter[name]) is type(value)


def test_several_filters_must_all_hold() -> None:
    assert filter_of([], str) is None
    assert filter_of(["page=3", "by=Ann"], str) == {"$and": [{"page": 3}, {"by": "Ann"}]}


@pytest.mark.parametrize("text", ["p.csv", '"p.csv"', "7", "true"])
def test_a_source_is_looked_up(text: str) -> None:
    chroma_filter = filter_of([f"source={text}"], lambda name: f"/data/{name}")
    assert chroma_filter == {"source": "/data/" + text.strip('"')}


@pytest.mark.parametrize("condition", ["page", "=3", ""])
def test_conditions_that_are_no_filter(condition: str) -> None:
    with pytest.raises(typer.BadParameter, match="NAME=VALUE"):
        filter_of([condition], str)


def test_presets_and_options() -> None:
    assert settings(None, None, None, None) == {"config": RSEConfig()}
    assert settings(None, "precision", 0.1, 0.2) == {
        "config": PRESETS["precision"],
        "irrelevant_chunk_penalty": 0.1,
        "hybrid": 0.2,
    }
    with pytest.raises(typer.BadParameter, match="balanced, precision, find_all"):
        settings(None, "exact", None, None)


@pytest.mark.parametrize("floor", ["nan", "inf", "x", ""])
def test_floors_that_are_no_number(floor: str) -> None:
    with pytest.raises(typer.BadParameter, match="neither a number nor none"):
        settings(None, None, None, None, floor)


@pytest.mark.parametrize("preset", PRESETS)
def test_saved_settings_come_back(tmp_path: Path, preset: str) -> None:
    path = tmp_path / "tuned.json"
    PRESETS[preset].replace(decay_rate=7.0).to_file(path, hybrid=0.2)
    fields = settings(path, None, None, None)
    assert fields == {"config": PRESETS[preset].replace(decay_rate=7.0), "hybrid": 0.2}
    # Options count more.
    assert settings(path, None, 0.9, 0.0) == {
        **fields,
        "irrelevant_chunk_penalty": 0.9,
        "hybrid": 0.0,
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "tuned.json is not a JSON object of settings"),
        ("[1]", "tuned.json is not a JSON object of settings"),
        (b"\xff\xfe", "tuned.json is not a JSON object of settings"),
        (json.dumps({"penalty": 1}), "penalty"),
        (json.dumps({"decay_rate": -1}), "decay_rate"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "tuned.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError, match=message):
        settings(path, None, None, None)


def test_a_file_and_a_preset_contradict(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one of them"):
        settings(tmp_path / "tuned.json", "precision", None, None)
