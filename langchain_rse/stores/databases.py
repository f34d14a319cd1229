"""Database helpers of SQLDocStore: URLs, tables, connections and errors."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import StaticPool

DAMAGED = (
    "is damaged: rebuild its full-text index with check(repair=True) or langchain-rse check "
    "--repair. If that fails, restore a backup, or recover the readable data into a new file with "
    "the '.recover' command of the sqlite3 program"
)
"""Explanation for a database whose errors contain "malformed"."""

# Words in SQLite's messages about a damaged table or index.
_DAMAGE = ("malformed", "vtable constructor failed", "invalid fts5 file format")
_TIMEOUT = 30.0  # seconds to wait for a SQLite lock
_NO_FTS5 = "no such module: fts5"
# PostgreSQL error codes.
_UNSEARCHABLE_CODES = {"XX001", "XX002", "42P01", "42501"}  # damaged, no table, no permission
_FORBIDDEN_CODES = {"42501", "25006"}  # no permission, read-only
_REPEAT_CODES = {"40P01", "40001"}  # deadlock, serialization failure


def must_repeat(error: DBAPIError) -> bool:
    """True if PostgreSQL ended a transaction because of a concurrent one and asks to repeat it."""
    return _code_of(error) in _REPEAT_CODES


def _code_of(error: DBAPIError) -> Any:  # noqa: ANN401
    """Return PostgreSQL's code of an error; None on SQLite."""
    return getattr(error.orig, "sqlstate", None)


def parse_url(url: str | URL) -> URL:
    """Parse a URL; raise a ValueError if it cannot be used."""
    try:
        parsed = make_url(url)
        is_async = parsed.get_dialect().is_async
    except (sa.exc.ArgumentError, ValueError):
        # Without the reason, which quotes the URL: it may contain a password.
        raise ValueError(
            "url must be a SQLAlchemy URL: for a file, 'sqlite:///chunks.db'; for a server, "
            "'postgresql+psycopg://user:password@host/database'"
        ) from None
    if is_async or parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise ValueError(
            "url must name SQLite or PostgreSQL and a synchronous driver, such as 'sqlite:///...' "
            f"or 'postgresql+psycopg://...'; got {parsed.drivername!r}. For other databases, pass "
            "docstore= a LangChain byte store"
        )
    return parsed


def is_memory(url: URL) -> bool:
    """True if a SQLite URL names a database in memory."""
    return not url.database or ":memory:" in url.database or url.query.get("mode") == "memory"


def make_table(name: str) -> sa.Table:
    """Describe a table of records by key."""
    # Keys sort by their bytes, so that keys with the same prefix are consecutive.
    key = sa.String(512).with_variant(sa.String(512, collation="C"), "postgresql")
    return sa.Table(
        name,
        sa.MetaData(),
        sa.Column("key", key, primary_key=True),
        sa.Column("value", sa.Text(), nullable=False),
    )


def first_line(error: DBAPIError) -> str:
    """Return the first line of the database's message."""
    return str(error.orig).partition("\n")[0]


def is_unsearchable(error: DBAPIError) -> bool:
    """True if an index cannot be searched: damaged, missing, or without permission."""
    is_known = _code_of(error) in _UNSEARCHABLE_CODES
    return is_known or _mentions(error, *_DAMAGE, "no such table", _NO_FTS5)


def cannot_create_index(error: DBAPIError) -> bool:
    """True if this user may not create an index, or the database does not support one."""
    is_known = _code_of(error) in _FORBIDDEN_CODES
    return is_known or _mentions(error, "readonly database", _NO_FTS5)


def _mentions(error: DBAPIError, *words: str) -> bool:
    """True if the database's message contains one of the words."""
    reason = str(error.orig)
    return any(each in reason for each in words)


def make_engine(url: URL, engine_kwargs: Mapping[str, Any]) -> Engine:
    """Make the engine of a database; ``engine_kwargs`` are the user's."""
    kwargs = {"hide_parameters": True, **engine_kwargs}  # keep documents out of errors
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url, **{"pool_pre_ping": True, **kwargs})  # survives restarts
    kwargs["connect_args"] = {"timeout": _TIMEOUT, **kwargs.get("connect_args", {})}
    if is_memory(url):  # a single connection, which threads share
        kwargs["connect_args"]["check_same_thread"] = False
        kwargs["poolclass"] = StaticPool
    engine = sa.create_engine(url, **kwargs)
    sa.event.listen(engine, "connect", _tune_sqlite)
    return engine


def use_wal(engine: Engine) -> None:
    """Switch a SQLite file to WAL mode; retry, because SQLite does not wait for this lock."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                return
        except OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _tune_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401
    # Damaged text that is not UTF-8 is still read; its checksum then fails.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    cursor = connection.cursor()
    # Commits survive a power cut. This is SQLite's default, which a build may change.
    cursor.execute("PRAGMA synchronous=FULL")
    # 32 MB, because lexical search repeatedly reads pages all over the file.
    cursor.execute("PRAGMA cache_size=-32000")
    cursor.close()
