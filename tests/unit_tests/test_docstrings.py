"""Examples in docstrings say what is true, and the reference has all public names."""

import doctest
import importlib
import re
from inspect import getdoc, signature
from pathlib import Path

import pytest

import langchain_rse
from langchain_rse import RSERetriever
from langchain_rse.config import QuerySettings, RSEConfig

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", ["engine.exact", "engine.published", "stores.sql"])
def test_examples_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"langchain_rse.{name}"))
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize("model", [QuerySettings, RSEConfig, RSERetriever])
def test_help_describes_all_settings_in_their_order(model: type) -> None:
    described = re.findall("^    ([a-z_]+): ", getdoc(model) or "", re.MULTILINE)
    of_langchain = ["tags", "metadata", "name"] if model is RSERetriever else []
    assert [*described, *of_langchain] == [*signature(model).parameters]


def test_the_reference_has_what_exists() -> None:
    paths = []
    for page in REFERENCE.glob("*.md"):
        paths += re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    names = set()
    for path in paths:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path
        names.add(name)
    assert set(langchain_rse.__all__) <= names
