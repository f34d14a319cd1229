"""Examples in docstrings that need nothing else say what is true."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["engine.exact", "engine.published", "stores.sql"])
def test_examples_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"langchain_rse.{name}"))
    assert found.attempted
    assert not found.failed
