"""No unit test opens a socket, whatever runs beside it."""

from pathlib import Path

import pytest

UNIT_TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:  # of all folders
        if UNIT_TESTS in item.path.parents:
            item.add_marker("disable_socket")
