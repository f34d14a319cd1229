"""How many examples property tests try, which tree tests import, and which open no socket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The programs that tests start import this source tree too, whichever one is installed.
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])

# Without a deadline and the check for slow generation: both measure the machine, not the code.
# `make test` tries the same few examples each time, `make nightly` (CI's run by night) others.
settings.register_profile(
    "change",
    deadline=None,
    derandomize=True,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "nightly", settings.get_profile("change"), derandomize=False, max_examples=200
)
# For tests/matrix.py: other versions of packages, the same algorithms.
settings.register_profile("few", settings.get_profile("change"), max_examples=5)
settings.load_profile("change")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    unit_tests = Path(__file__).with_name("unit_tests")
    for item in items:
        if unit_tests in item.path.parents:
            item.add_marker("disable_socket")
