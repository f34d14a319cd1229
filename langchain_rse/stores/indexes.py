"""Makes the full-text index of a docstore's table, and checks and rebuilds all its indexes."""

# Only checked names are put into statements, all other values are parameters.
# ruff: noqa: S608

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from langchain_rse.errors import CorruptRecordError, FullTextError
from langchain_rse.stores.databases import first_line, is_refusal
from langchain_rse.stores.fulltext import LexicalIndex
from langchain_rse.stores.fulltext_postgres import PostgresIndex
from langchain_rse.stores.fulltext_sqlite import SQLiteIndex
from langchain_rse.stores.json import is_readable
from langchain_rse.text.quoting import first_few


def lexical_index(
    backend: str, table: str, *, lexical: bool | None, tokenizer: str, language: str
) -> LexicalIndex | None:
    """The full-text index of a table, by the arguments of `SQLDocStore`; None for no index.

    Raises:
        ValueError: If ``lexical=True`` and the database has no full-text search.
    """
    if lexical is False:
        return None
    if backend == "sqlite":
        return SQLiteIndex(table, tokenizer)
    if backend == "postgresql":
        return PostgresIndex(table, language)
    if lexical:
        raise ValueError(f"lexical=True works on SQLite and PostgreSQL; url names {backend!r}")
    return None


def refusal_of_index(
    engine: Engine, store: str, index: LexicalIndex, *, required: bool
) -> str | None:
    """Create a full-text index if it is missing.

    Args:
        engine: The engine of its database.
        store: The name of the docstore in messages.
        index: The index.
        required: Whether the docstore must have it.

    Returns:
        Why this user cannot have the index, and what to do; None if it is there.

    Raises:
        FullTextError: If it is ``required`` and this user cannot have it.
    """
    try:
        with engine.begin() as connection:
            index.create(connection)
    except DBAPIError as error:
        if not is_refusal(error):
            raise
        with engine.connect() as connection:
            remedy = index.remedy(connection)
        reason = f"{store} cannot be searched by words, as it has no full-text index and this user "
        reason += f"cannot create one ({first_line(error)}). {remedy}"
        if required:
            raise FullTextError(reason) from error
        return f"{reason}. To do without and be told no more, open it with lexical=False"
    return None


def find_index_problems(
    connection: Connection, table: str, index: LexicalIndex | None
) -> list[str]:
    """What is wrong with the indexes of a table, the full-text index included; empty if nothing."""
    problems: list[str] = []
    if connection.dialect.name == "sqlite":
        problems += _check_table(connection, table)
    if index is not None and not index.fits(connection):
        problems.append(f"the full-text index of table {table!r} does not fit its records")
    return problems


def rebuild_indexes(connection: Connection, table: str, index: LexicalIndex | None) -> None:
    """Build all indexes of a table again; a CorruptRecordError if the table itself is damaged."""
    is_sqlite = connection.dialect.name == "sqlite"
    if index is not None:
        index.lock(connection)
        index.remove(connection)  # first, as changing records fails while it is damaged
    elif is_sqlite:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    if is_sqlite:
        _mend_table(connection, table)
    if index is not None:
        index.build(connection)


def _check_table(connection: Connection, table: str) -> list[str]:
    """SQLite's own check of a table and the index of its keys; empty if nothing is wrong."""
    rows = connection.exec_driver_sql(f'PRAGMA integrity_check("{table}")').scalars()
    return [f"table {table!r}: {message}" for message in rows if message != "ok"]


def _mend_table(connection: Connection, table: str) -> None:
    """Build the index of a table's keys anew, in a transaction that excludes other writers.

    A key stands in the table and in the index. Where they differ, one of them is damaged, and the
    checksum of the record says which: it includes the key.

    Raises:
        CorruptRecordError: If the table itself is damaged, so that rows of it may be lost.
    """
    undamaged_keys = _keys_only_in_index(connection, table)
    connection.exec_driver_sql(f'REINDEX "{table}"')
    for row, key in undamaged_keys.items():
        statement = sa.text(f'UPDATE "{table}" SET key = :key WHERE rowid = :row')
        connection.execute(statement, {"key": key, "row": row})
    problems = _check_table(connection, table)
    if problems:
        raise CorruptRecordError(
            f"the SQLite file is damaged in more than single records ({first_few(problems)}). "
            "Nothing was repaired, as records that can still be read could be lost. Restore a "
            "backup; or write what can be read into a new file with the command '.recover' of the "
            "program sqlite3, and check that one"
        )


def _keys_only_in_index(connection: Connection, table: str) -> dict[int, str]:
    """The keys of those rows whose key is damaged in the table but not in the index."""
    rows = connection.exec_driver_sql(
        f'SELECT indexed.rowid, indexed.key, stored.value FROM "{table}" AS indexed '
        f'INDEXED BY "sqlite_autoindex_{table}_1" JOIN "{table}" AS stored NOT INDEXED '
        "ON stored.rowid = indexed.rowid WHERE stored.key IS NOT indexed.key"
    )
    return {row: key for row, key, value in rows if is_readable(value, str(key))}
