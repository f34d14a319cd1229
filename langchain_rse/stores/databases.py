"""Database helpers of SQLDocStore: URLs, connections, forks, and explanations of errors."""

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import sqlalchemy as sa
from langchain_core.documents import Document
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.json import encode_document
from langchain_rse.text.words import with_pairs

_EXPLANATIONS = {
    "database is locked": "stayed locked by another program for all of its timeout",
    "malformed": (
        "is damaged: check(repair=True) or langchain-rse check --repair rebuilds its indexes; if "
        "it cannot, restore a backup, or write what can be read into a new file with the command "
        "'.recover' of the program sqlite3"
    ),
    "readonly database": "is read-only: cannot be written to, not even to make its table or index",
    "unable to open database file": (
        "cannot be opened; if it is read-only, use 'sqlite:///file:...?immutable=1&uri=true'"
    ),
}
"""What to say of a database, by words in SQLite's messages."""
# Words of SQLite's messages on a damaged table or index.
WORDS_FUNCTION = "langchain_rse_words"
"""The SQL function, on SQLite, that makes the words of a text as a full-text index splits them."""

_DEADLOCK = "40P01"  # PostgreSQL's code
_DAMAGE = ("malformed", "vtable constructor failed", "invalid fts5 file format")


def is_deadlock(error: DBAPIError) -> bool:
    """True if the database ended a transaction, as several waited for each other in a circle."""
    return getattr(error.orig, "sqlstate", None) == _DEADLOCK


def parse_url(url: str | URL) -> URL:
    """Read a URL; a ValueError that says what is wrong if it cannot be used."""
    try:
        parsed = make_url(url)
        has_no_sync_form = parsed.get_dialect().is_async
    except (sa.exc.ArgumentError, ValueError) as error:
        # Other errors quote the URL, which may hold a password.
        reason = f": {error}" if isinstance(error, sa.exc.NoSuchModuleError) else ""
        raise ValueError(
            f"url must be a SQLAlchemy URL such as 'sqlite:///chunks.db'{reason}"
        ) from None
    if has_no_sync_form:
        raise ValueError(
            f"url names {parsed.drivername!r}, which has no sync form; use 'sqlite:///...' or "
            "'postgresql+psycopg://...': async calls find their driver"
        )
    return parsed


def is_async(url: URL) -> bool:
    """True if the database has an async driver: psycopg, which needs greenlet."""
    # For SQLite, which is no server, aiosqlite is slower than a thread.
    return url.get_driver_name() == "psycopg" and find_spec("greenlet") is not None


def is_memory(url: URL) -> bool:
    """True if a URL of SQLite keeps the database in memory."""
    return not url.database or ":memory:" in url.database or url.query.get("mode") == "memory"


@contextlib.contextmanager
def explained(store: object) -> Iterator[None]:
    """Add to errors of the database which store they are of and, if known, what to do."""
    try:
        yield
    except DBAPIError as error:
        detail = repr(store)
        for words, explanation in _EXPLANATIONS.items():
            if words in str(error.orig):
                detail = f"{store!r} {explanation}"
        error.add_detail(detail)
        raise
    except UnicodeDecodeError as error:  # Python cannot read SQLite's message
        raise CorruptRecordError(f"{store!r} {_EXPLANATIONS['malformed']}") from error


def make_table(name: str) -> sa.Table:
    """Describe a table of records by their keys."""
    # Keys are compared by their bytes, so that keys with the same prefix are consecutive.
    key = (
        sa.String(512)
        .with_variant(sa.String(512, collation="C"), "postgresql")
        .with_variant(sa.String(512, collation="utf8mb4_bin"), "mysql", "mariadb")
    )
    value = sa.Text().with_variant(sa.Text(1 << 30), "mysql", "mariadb")
    return sa.Table(
        name,
        sa.MetaData(),
        sa.Column("key", key, primary_key=True),
        sa.Column("value", value, nullable=False),
    )


def make_rows(pairs: Iterable[tuple[str, Document]]) -> list[dict[str, str]]:
    """Make the rows of records; of a key that is given twice, the last one counts."""
    # Writers that use the same order of keys cannot deadlock.
    records = sorted(dict(pairs).items(), key=lambda pair: pair[0])
    return [{"key": key, "value": encode_document(document, key)} for key, document in records]


def is_damage(error: DBAPIError) -> bool:
    """True if SQLite says that a table or an index is damaged."""
    reason = str(error.orig)
    return any(words in reason for words in _DAMAGE)


def prepare_engine(engine: Engine) -> None:
    """Set up the connections of an engine, also for processes that fork."""
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _tune_sqlite)
    if not isinstance(engine.pool, StaticPool):
        _engines.add(engine)


def _tune_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401
    # Damaged text that is not UTF-8 is read anyway; its checksum then fails.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    # The triggers of a full-text index call it, whoever writes.
    connection.create_function(WORDS_FUNCTION, 1, _words_of_bytes, deterministic=True)
    cursor = connection.cursor()
    # Commits survive a power cut. This is SQLite's default, which a build may change.
    cursor.execute("PRAGMA synchronous=FULL")
    # 32 MB: lexical search reads pages all over the file again and again.
    cursor.execute("PRAGMA cache_size=-32000")
    cursor.close()


def _words_of_bytes(text: bytes) -> str:
    # As bytes, since SQLite hands on lone surrogates, which Python does not decode.
    return with_pairs(text.decode(errors="replace"))


# Async engines


@dataclass
class _LoopEngine:
    """The engine of one event loop."""

    engine: Any  # AsyncEngine
    keeper: AsyncGenerator[Any, None]  # closes the engine when it is closed
    connections: weakref.WeakSet[Any]  # those of the driver that are open


class AsyncEngines:
    """Keeps an engine for each event loop until the loop ends, as connections belong to a loop."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._engines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopEngine] = (
            weakref.WeakKeyDictionary()
        )

    async def get(self) -> Any:  # noqa: ANN401 - AsyncEngine
        """The engine of the running event loop, made if there is none."""
        loop = asyncio.get_running_loop()
        if loop in self._engines:
            return self._engines[loop].engine
        keeper = self._keep()
        engine = await anext(keeper)
        connections = weakref.WeakSet[Any]()

        def remember(connection: Any, _record: object) -> None:  # noqa: ANN401
            connections.add(connection.driver_connection)

        sa.event.listen(engine.sync_engine, "connect", remember)
        with self._lock:
            self._close_ended()
            self._engines[loop] = _LoopEngine(engine, keeper, connections)
        return engine

    async def aclose(self) -> None:
        """Close the engine of the running event loop, if there is one."""
        own = self._engines.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await own.keeper.aclose()

    def _close_ended(self) -> None:
        """Close the connections of event loops that have ended without closing them."""
        for loop in list(self._engines):
            if loop.is_closed():
                ended = self._engines.pop(loop)
                for connection in list(ended.connections):
                    connection.pgconn.finish()  # without its loop, nothing can be awaited

    async def _keep(self) -> AsyncGenerator[Any, None]:
        """Yield a new engine, and close it when the generator is closed."""
        engine = self._make()
        try:
            yield engine
        finally:  # event loops close generators when they end
            await engine.dispose()


# Forks

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def _before_fork() -> None:
    # SQLite would take its locks for those of the new process as well.
    for engine in list(_engines):
        if engine.dialect.name == "sqlite":
            engine.dispose()


def _after_fork() -> None:
    # Connections to servers stay open for the process that made them.
    for engine in list(_engines):
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
