"""Options: their names and defaults, and the settings and filters made from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from langchain_rse import PRESETS
from langchain_rse.cli.answers import filter_of, settings, split
from langchain_rse.cli.app import app

COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
PAGE = Path(__file__).parents[3] / "docs" / "command-line.md"


def options_of(command: str) -> set[str]:
    return {name for parameter in COMMANDS[command].params for name in parameter.opts}


def test_the_page_has_all_commands_and_only_options_that_there_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (config,) = (option for option in COMMANDS["query"].params if option.name == "config")
    assert all(name in config.help for name in PRESETS)
    in_table: set[str] = set()
    for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE):
        in_table.update(re.findall(r"`([\w-]+)", row))
    assert in_table == set(COMMANDS)
    known = {"--version", "--help"}
    known |= {"--install-completion", "--show-completion"}
    for command in COMMANDS:
        known |= options_of(command)
    for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", page):
        assert option in known, option


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("page=3", 3),
        ("share=0.5", 0.5),
        ("draft=true", True),
        ("by=Ann=Bob", "Ann=Bob"),
        ("code=007", "007"),
        ('code="7"', "7"),
        ("by=", ""),
        ("source=p.csv", "/data/p.csv"),
        ("source=7", "/data/7"),
    ],
)
def test_values_of_a_filter(condition: str, value: object) -> None:
    name = condition.partition("=")[0]
    filters = filter_of([split(condition)], lambda source: f"/data/{source}")["filter"]
    assert filters == {name: value}
    assert type(filters[name]) is type(value)


def test_several_filters_must_all_hold() -> None:
    assert filter_of([], str) == {}
    both = {"$and": [{"page": 3}, {"by": "Ann"}]}
    assert filter_of([("page", "3"), ("by", "Ann")], str) == {"filter": both}
    for condition in ("page", "=3", ""):
        with pytest.raises(typer.BadParameter, match="NAME=VALUE"):
            split(condition)


def test_any_setting_can_be_set() -> None:
    assignments = ["hybrid=0.5", "order=relevance", "score_floor=none", 'queries=["a", "b"]']
    fields = settings(None, map(split, assignments), k=3, irrelevant_chunk_penalty=None)
    expected = {"k": 3, "hybrid": 0.5, "order": "relevance", "score_floor": None}
    assert fields == {**expected, "queries": ["a", "b"]}


def test_options_replace_saved_settings(tmp_path: Path) -> None:
    assert settings(None, None) == {}
    assert settings("precision", None, irrelevant_chunk_penalty=0.1) == {
        "config": "precision",
        "irrelevant_chunk_penalty": 0.1,
    }
    path = tmp_path / "tuned.json"
    for preset in PRESETS.values():
        preset.replace(decay_rate=7.0).to_file(path, hybrid=0.2)
        fields = settings(str(path), None)
        assert fields == {"config": preset.replace(decay_rate=7.0), "hybrid": 0.2}
        assert settings(str(path), [("hybrid", "0")], irrelevant_chunk_penalty=0.9) == {
            **fields,
            "irrelevant_chunk_penalty": 0.9,
            "hybrid": 0.0,
        }
