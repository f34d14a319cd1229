"""Database helpers of SQLDocStore: URLs, connections, forks, and explanations of errors."""

import json
import os
import time
import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any

import orjson
import sqlalchemy as sa
from langchain_core.documents import Document
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import StaticPool

from langchain_rse._sync import batches
from langchain_rse.stores.file_errors import DISK_FULL, TOO_MANY_FILES, can_open_files
from langchain_rse.stores.json import encode_document
from langchain_rse.stores.records import DOC_ID, HEADER, TABLE_HEADER
from langchain_rse.text.quoting import encodable
from langchain_rse.text.words import with_pairs

DAMAGED = (
    "is damaged: check(repair=True) or langchain-rse check --repair rebuilds its indexes; if it "
    "cannot, restore a backup, or write what can be read into a new file with the command "
    "'.recover' of the program sqlite3"
)
"""What to say of a damaged database."""
# What to say of a database, by words in its messages.
_EXPLANATIONS = {
    "database is locked": "stayed locked by another program for all of its timeout",
    "malformed": DAMAGED,
    "readonly database": "is read-only: cannot be written to, not even to make its table or index",
    "unable to open database file": (
        "cannot be opened; if it is read-only, use 'sqlite:///file:...?immutable=1&uri=true'"
    ),
    "disk is full": DISK_FULL,
    "No space left on device": DISK_FULL,
    "Too many open files": TOO_MANY_FILES,
}
WORDS_FUNCTION = "langchain_rse_chunk_words"
"""The SQL function, on SQLite, that makes the text of a chunk's record for a full-text index."""

# Words of SQLite's messages on a damaged table or index.
_DAMAGE = ("malformed", "vtable constructor failed", "invalid fts5 file format")
_ROWS_PER_STATEMENT = 499  # SQLite takes at least 999 parameters
_NO_FTS5 = "no such module: fts5"
# PostgreSQL's codes.
_DAMAGE_CODES = {"XX001", "XX002"}
_REPEAT_CODES = {"40P01", "40001"}  # a deadlock, and no serial order of the transactions
_DISK_FULL_CODE = "53100"
_NO_TABLE = "42P01"
_NO_RIGHT = "42501"
_READ_ONLY = "25006"
_MYSQL_DEADLOCK = 1213


def asks_to_repeat(error: DBAPIError, *, has_waited: bool) -> bool:
    """True if a transaction failed only because of others, and may succeed if it is repeated.

    ``has_waited`` says whether SQLite has waited for its timeout; it does not if a lock could never
    be got by waiting.
    """
    mysql_code = getattr(error.orig, "args", ())[:1]
    if _code_of(error) in _REPEAT_CODES or mysql_code == (_MYSQL_DEADLOCK,):
        return True
    return _says(error, "database is locked") and not has_waited


def explanation_of(error: DBAPIError) -> str:
    """What the error says of the database, and what to do; empty if there is nothing to add."""
    if _code_of(error) == _DISK_FULL_CODE:
        return DISK_FULL
    if _says(error, "unable to open database file") and not can_open_files():
        return TOO_MANY_FILES  # SQLite does not say so
    explanations = (_EXPLANATIONS[words] for words in _EXPLANATIONS if _says(error, words))
    return next(explanations, "")


def _code_of(error: DBAPIError) -> Any:  # noqa: ANN401
    """PostgreSQL's code of an error; None for other databases."""
    return getattr(error.orig, "sqlstate", None)


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
            "'postgresql+psycopg://...': async methods call it in threads"
        )
    return parsed


def is_memory(url: URL) -> bool:
    """True if a URL of SQLite keeps the database in memory."""
    return not url.database or ":memory:" in url.database or url.query.get("mode") == "memory"


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


def write_rows(connection: Connection, table: str, rows: list[dict[str, str]]) -> None:
    """Write the rows of records to a table of SQLite or PostgreSQL, over those of the same keys."""
    statement = f'INSERT INTO "{table}" (key, value) VALUES %s '  # noqa: S608 - a checked name
    statement += "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    if connection.dialect.name != "sqlite":
        connection.execute(sa.text(statement % "(:key, :value)"), rows)
        return
    # Many rows in a statement, as FTS5 writes its words to disk after each.
    for batch in batches(rows, _ROWS_PER_STATEMENT):
        parameters: list[str] = []
        for row in batch:
            parameters += [row["key"], row["value"]]
        values = ", ".join(["(?, ?)"] * len(batch))
        connection.exec_driver_sql(statement % values, tuple(parameters))


def first_line(error: DBAPIError) -> str:
    """The first line of the database's own message."""
    return str(error.orig).partition("\n")[0]


def is_unsearchable(error: DBAPIError) -> bool:
    """True if an index cannot be searched: it is damaged, missing, or closed to this user."""
    is_known = _code_of(error) in {*_DAMAGE_CODES, _NO_TABLE, _NO_RIGHT}
    return is_known or _says(error, *_DAMAGE, "no such table", _NO_FTS5)


def is_refusal(error: DBAPIError) -> bool:
    """True if the database lets this user create no index, or cannot have one."""
    is_known = _code_of(error) in {_NO_RIGHT, _READ_ONLY}
    return is_known or _says(error, "readonly database", _NO_FTS5)


def _says(error: DBAPIError, *words: str) -> bool:
    """True if some of the words stand in the database's own message."""
    reason = str(error.orig)
    return any(each in reason for each in words)


def prepare_engine(engine: Engine) -> None:
    """Set up the connections of an engine, also for processes that fork."""
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _tune_sqlite)
    if not isinstance(engine.pool, StaticPool):
        _engines.add(engine)


def use_wal(engine: Engine, timeout: float) -> None:
    """Switch a file of SQLite to WAL mode for good; retries, as SQLite waits not for this lock."""
    deadline = time.monotonic() + timeout
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
    # Damaged text that is not UTF-8 is read anyway; its checksum then fails.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    # The triggers of a full-text index call it, whoever writes.
    connection.create_function(WORDS_FUNCTION, 1, _words_of_record, deterministic=True)
    cursor = connection.cursor()
    # Commits survive a power cut. This is SQLite's default, which a build may change.
    cursor.execute("PRAGMA synchronous=FULL")
    # 32 MB: lexical search reads pages all over the file again and again.
    cursor.execute("PRAGMA cache_size=-32000")
    cursor.close()


def _words_of_record(record: bytes | None) -> str | None:
    """The words of a chunk: its document's id, its headers and its text; None without a record.

    The record comes as bytes: damaged text may not be UTF-8.
    """
    fields = _fields_of_record(record or b"")
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    names = (metadata.get(DOC_ID), metadata.get(HEADER), metadata.get(TABLE_HEADER))
    texts = [text for text in (*names, fields.get("page_content")) if isinstance(text, str)]
    return with_pairs(encodable(" ".join(texts))) if texts else None


def _fields_of_record(record: bytes) -> dict[str, Any]:
    """The fields of a record, however damaged; empty if it is no JSON."""
    try:
        fields = orjson.loads(record)
    except orjson.JSONDecodeError:
        try:  # lone surrogates, and damaged text
            fields = json.loads(record.decode(errors="replace"))
        except (ValueError, RecursionError):
            return {}
    return fields if isinstance(fields, dict) else {}


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
