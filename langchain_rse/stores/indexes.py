"""Creates, checks and rebuilds the full-text index of a docstore's table."""

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from langchain_rse._messages import warn
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.databases import cannot_create_index, first_line
from langchain_rse.stores.fulltext import LexicalIndex
from langchain_rse.text.quoting import first_few


def create_index(engine: Engine, store: str, index: LexicalIndex) -> bool:
    """Create a full-text index if it is missing; warn if this user may not.

    Args:
        engine: The database engine.
        store: Name of the docstore for messages.
        index: The index.

    Returns:
        True if the index exists.
    """
    try:
        with engine.begin() as connection:
            index.create(connection)
    except DBAPIError as error:
        if not cannot_create_index(error):
            raise
        warn(
            f"{store} does not support keyword search: it has no full-text index that this user "
            f"may read, and this user cannot create one ({first_line(error)}). Open the database "
            "once with write access, as the owner of the table; on PostgreSQL, also grant this "
            "user SELECT on the table of the index, whose name ends with _lexical. To silence this "
            "warning, open the store with lexical=False"
        )
        return False
    return True


def find_index_problems(
    connection: Connection, table: str, index: LexicalIndex | None
) -> list[str]:
    """Return the problems with a table's indexes, full-text index included."""
    problems: list[str] = []
    if connection.dialect.name == "sqlite":
        problems += _check_table(connection, table)
    if index is not None and not index.fits(connection):
        problems.append(f"the full-text index of table {table!r} does not match its records")
    return problems


def rebuild_indexes(connection: Connection, table: str, index: LexicalIndex | None) -> None:
    """Rebuild a table's full-text index; raise a CorruptRecordError if the table is damaged."""
    if connection.dialect.name == "sqlite":
        problems = _check_table(connection, table)
        if problems:
            raise CorruptRecordError(
                f"the SQLite file is damaged ({first_few(problems)}). Nothing was repaired, "
                "because a repair could lose readable records. Restore a backup, or recover the "
                "readable data into a new file with the '.recover' command of the sqlite3 program "
                "and check that file"
            )
    if index is not None:
        index.lock(connection)
        index.remove(connection)
        index.build(connection)


def _check_table(connection: Connection, table: str) -> list[str]:
    """Run SQLite's check of a table and its key index; return the problems."""
    rows = connection.exec_driver_sql(f'PRAGMA integrity_check("{table}")').scalars()
    return [f"table {table!r}: {message}" for message in rows if message != "ok"]
