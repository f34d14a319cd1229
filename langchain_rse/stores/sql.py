"""SQLDocStore: a docstore in a table of a SQL database."""

import contextlib
import itertools
import random
import re
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from langchain_core.documents import Document
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable
from typing_extensions import override

from langchain_rse._messages import warn
from langchain_rse._sync import batches
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.compare_and_set import Change, ComparesAndSets
from langchain_rse.stores.databases import (
    DAMAGED,
    cannot_create_index,
    first_line,
    is_memory,
    make_engine,
    make_table,
    must_repeat,
    parse_url,
    use_wal,
)
from langchain_rse.stores.fulltext import check_lexical
from langchain_rse.stores.fulltext_postgres import PostgresIndex
from langchain_rse.stores.fulltext_sqlite import SQLiteIndex, add_words_function, forget_damaged
from langchain_rse.stores.json import decode_documents, encode_document, is_record
from langchain_rse.text.quoting import first_few

T = TypeVar("T")

# SQLite and PostgreSQL limit the number of parameters per statement.
_KEYS_PER_STATEMENT = 500
_ROWS_PER_STATEMENT = 499  # SQLite takes at least 999 parameters
# Attempts for a transaction that the database asks to repeat, and the longest pause in seconds
# after the first attempt. The limit doubles with each attempt.
_ATTEMPTS = 8
_FIRST_PAUSE = 0.02
# PostgreSQL truncates names to 63 characters; the full-text index adds up to 15.
_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")


@contextlib.contextmanager
def _explained(store: object) -> Iterator[None]:
    """Add the store's name to database errors, and advice if the database is damaged."""
    try:
        yield
    except DBAPIError as error:
        advice = f" {DAMAGED}" if "malformed" in str(error.orig) else ""
        error.add_detail(f"{store!r}{advice}")
        raise


def _make_rows(pairs: Iterable[tuple[str, Document]]) -> list[tuple[str, str]]:
    """Make the rows of records; the last record wins if a key is given twice."""
    # Writers that lock keys in the same order cannot deadlock.
    records = sorted(dict(pairs).items(), key=lambda pair: pair[0])
    return [(key, encode_document(document, key)) for key, document in records]


class SQLDocStore(ComparesAndSets):
    """A docstore in a table of a SQL database, built on SQLAlchemy Core.

    SQLite needs no server. The store switches a SQLite file to WAL mode, so several threads and
    processes can read while one writes. PostgreSQL needs a driver:
    ``postgresql+psycopg://user:password@host/database``. Async methods use threads.

    The table is created on first use. If a process forks, open the store after the fork. A store
    cannot be pickled or copied; open another one with the same URL.

    Args:
        url: A SQLAlchemy URL of SQLite or PostgreSQL, for example ``"sqlite:///folder/chunks.db"``;
            ``"sqlite://"`` keeps the store in memory.
        table_name: Name of the table: at most 40 letters, digits and underscores.
        lexical: Whether to keep a full-text index of the chunks, for `lexical_search`. It is
            created on first use and updated by database triggers; if this user may not create it,
            a warning says so. False: neither create nor search an index.
        tokenizer: FTS5 tokenizer on SQLite, such as ``"porter unicode61"`` for English stemming.
        language: Text search configuration on PostgreSQL, such as ``"english"``.
        engine_kwargs: More arguments for ``sqlalchemy.create_engine``, such as ``pool_size``, or
            ``connect_args={"timeout": 60}`` for the seconds to wait for a SQLite lock (default 30).

    Raises:
        ModuleNotFoundError: If the database driver is not installed.
        ValueError: If the URL, table name, tokenizer or language is invalid. On first use: if the
            full-text index was built with another tokenizer or language.

    Example:
        >>> store = SQLDocStore("sqlite://")
        >>> store.mset([("a", Document(page_content="text"))])
        >>> store.mget(["a", "b"])
        [Document(metadata={}, page_content='text'), None]
    """

    def __init__(
        self,
        url: str | URL,
        *,
        table_name: str = "langchain_rse",
        lexical: bool = True,
        tokenizer: str = "unicode61",
        language: str = "simple",
        engine_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self._url = parse_url(url)
        if not _TABLE_NAME.fullmatch(table_name):
            raise ValueError(
                "table_name must be 1 to 40 letters, digits and underscores, and not begin with a "
                f"digit; got {table_name!r}"
            )
        self._is_sqlite = self._url.get_backend_name() == "sqlite"  # otherwise PostgreSQL
        self._is_memory = self._is_sqlite and is_memory(self._url)
        self._index: Any = None
        if lexical and self._is_sqlite:
            self._index = SQLiteIndex(table_name, tokenizer)
        elif lexical:
            self._index = PostgresIndex(table_name, language)
        self._table = make_table(table_name)
        key = self._table.c.key
        # One parameter: PostgreSQL uses the plan again, and SQLite reads twice as fast.
        if self._is_sqlite:
            keys = sa.func.json_each(sa.bindparam("keys", type_=sa.JSON)).table_valued("value")
            is_wanted: sa.ColumnElement[bool] = key.in_(sa.select(keys.c.value))
        else:
            is_wanted = key == sa.any_(sa.bindparam("keys", type_=sa.ARRAY(key.type)))
        self._select = sa.select(self._table).where(is_wanted)
        self._engine = make_engine(self._url, engine_kwargs or {})
        if self._is_sqlite:
            sa.event.listen(self._engine, "connect", add_words_function)
        # Close all connections when the store is garbage-collected.
        weakref.finalize(self, self._engine.dispose)
        self._is_ready = False
        # Held while the table is created, and during each use of the single in-memory connection.
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        # The query part of the URL may contain a password or a key.
        url = self._url.set(query={})
        return f"SQLDocStore({url.render_as_string(hide_password=True)!r})"

    @property
    def lexical(self) -> bool:
        """True if the store has a full-text index or will create one on first use."""
        return self._index is not None

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with a prefix, in byte order."""
        yield from self._run(self._read_keys, prefix or "")

    def lexical_search(
        self,
        query: str,
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as vector stores name it
        prefix: str = "",
    ) -> list[tuple[Document, float]]:
        """Find the chunks of current versions that best match the words of a query.

        Any word may match; rare words count more. At most about 5,000 chunks are ranked on SQLite,
        2,000 on PostgreSQL. If more chunks match, the most common words are ignored.

        Args:
            query: The query. Operators and quotes have no effect.
            k: Maximum number of chunks to return, at least 1.
            filter: Metadata fields of the chunk or its document, and the values that they must
                have: a dict such as ``{"year": {"$gte": 2023}}``.
            prefix: Prefix of the chunks' keys, to search a single namespace.

        Returns:
            The chunks, with metadata as in the vector store, and their scores above 0; best first.

        Raises:
            FullTextError: If the store has no full-text index, or the index is damaged.
            ValueError: If ``k`` is below 1, or the filter is not supported.
        """
        check_lexical(self)  # before a connection is made
        return self._run(self._search, query, k, filter, prefix)

    def drop_lexical_index(self) -> None:
        """Remove the table's full-text index, whatever tokenizer or language it was built with.

        The next use creates a new index. To prevent that, open the store with ``lexical=False``.
        """
        check_lexical(self)
        with _explained(self), self._lock:
            self._create_table()
            with self._engine.begin() as connection:
                self._index.lock(connection)
                self._index.remove(connection)
            self._is_ready = False

    def index_problems(self) -> list[str]:
        """Check the table's full-text index and, on SQLite, the table itself.

        On SQLite, the full-text index is compared with all texts, and other writers wait. On
        PostgreSQL, every chunk must be in the index, and a sample of 1,000 is compared.

        Returns:
            Descriptions of the problems; empty if there are no problems.
        """
        return self._run(self._find_index_problems)

    def rebuild_indexes(self) -> None:
        """Rebuild the table's full-text index from its records, in one transaction.

        Raises:
            CorruptRecordError: If a SQLite file is damaged beyond single records and this index.
                The file is not changed then.
        """
        self._run(self._rebuild_indexes)

    def close(self) -> None:
        """Close the pooled connections. Later use of the store opens new ones."""
        self._engine.dispose()

    # Each of the following methods runs in one transaction.

    @override
    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        values = self._run(self._read_values, keys)
        return decode_documents([values.get(key) for key in keys], keys)

    @override
    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        self._run(self._write, _make_rows(key_value_pairs), [])

    @override
    def mdelete(self, keys: Sequence[str]) -> None:
        self._run(self._write, [], keys)

    @override
    def compare_and_set(self, changes: Sequence[Change]) -> list[bool]:
        return self._run(self._change, changes)

    # Work inside a transaction

    def _read_values(
        self, connection: Connection, keys: Iterable[str], *, lock: bool = False
    ) -> dict[str, str]:
        """Read the records of keys that exist."""
        query = self._select
        if lock:  # lock rows in the same order in all callers, to avoid deadlocks
            query = query.order_by(self._table.c.key).with_for_update()
        values: dict[str, str] = {}
        for batch in batches(dict.fromkeys(keys), _KEYS_PER_STATEMENT):
            rows = connection.execute(query, {"keys": batch}).all()  # faster than row by row
            values.update(map(tuple, rows))
        return values

    def _write(
        self, connection: Connection, rows: list[tuple[str, str]], removed_keys: Sequence[str]
    ) -> None:
        self._begin_write(connection, [*(key for key, _ in rows), *removed_keys])
        self._change_rows(connection, rows, removed_keys)

    def _begin_write(self, connection: Connection, keys: Iterable[str]) -> None:
        """Prepare to replace or remove records: exclude damaged ones from the full-text index."""
        if not self._is_sqlite:
            return
        # Excludes other writers from the beginning; SQLite refuses a lock that is wanted later.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        read = partial(self._read_values, connection, keys)
        forget_damaged(connection, self._table.name, read)

    def _change_rows(
        self,
        connection: Connection,
        rows: Iterable[tuple[str, str]],
        removed_keys: Iterable[str],
    ) -> None:
        """Insert or replace rows, and remove others."""
        row = "(?, ?)" if self._is_sqlite else "(%s, %s)"
        # Many rows per statement, because FTS5 writes its words to disk after each statement.
        for batch in batches(rows, _ROWS_PER_STATEMENT):
            placeholders = ", ".join([row] * len(batch))
            statement = (
                f'INSERT INTO "{self._table.name}" (key, value) '  # noqa: S608 - a checked name
                f"VALUES {placeholders} ON CONFLICT (key) DO UPDATE SET value = excluded.value"
            )
            parameters = itertools.chain.from_iterable(batch)
            connection.exec_driver_sql(statement, tuple(parameters))
        key = self._table.c.key
        for keys in batches(sorted(removed_keys), _KEYS_PER_STATEMENT):
            connection.execute(sa.delete(self._table).where(key.in_(keys)))

    def _change(self, connection: Connection, changes: Sequence[Change]) -> list[bool]:
        """Make each change whose record is as expected; the first change of a key wins."""
        keys = sorted(key for key, _, _ in changes)
        self._begin_write(connection, keys)
        if not self._is_sqlite:  # PostgreSQL cannot lock missing rows, so one change at a time
            lock = zlib.crc32(self._table.name.encode())
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))
        values = self._read_values(connection, keys, lock=True)
        accepted: dict[str, Document | None] = {}
        made: list[bool] = []
        for key, expected, new in changes:
            is_made = key not in accepted and is_record(values.get(key), expected, key)
            made.append(is_made)
            if is_made:
                accepted[key] = new
        removed_keys = [key for key, new in accepted.items() if new is None]
        new_records = [(key, new) for key, new in accepted.items() if new is not None]
        self._change_rows(connection, _make_rows(new_records), removed_keys)
        return made

    def _read_keys(self, connection: Connection, prefix: str) -> list[str]:
        key = self._table.c.key
        # In byte order, keys with the same prefix are consecutive.
        query = sa.select(key).where(key >= prefix, key < f"{prefix}\U0010ffff").order_by(key)
        keys = connection.execute(query).scalars()
        return list(dict.fromkeys(keys))  # a damaged index returns keys again

    def _find_index_problems(self, connection: Connection) -> list[str]:
        problems = self._find_table_problems(connection)
        if self._index is not None and not self._index.fits(connection):
            name = self._table.name
            problems.append(f"the full-text index of table {name!r} does not match its records")
        return problems

    def _find_table_problems(self, connection: Connection) -> list[str]:
        """Run SQLite's check of the table and its key index."""
        if not self._is_sqlite:
            return []
        name = self._table.name
        rows = connection.exec_driver_sql(f'PRAGMA integrity_check("{name}")').scalars()
        return [f"table {name!r}: {message}" for message in rows if message != "ok"]

    def _rebuild_indexes(self, connection: Connection) -> None:
        problems = self._find_table_problems(connection)
        if problems:
            raise CorruptRecordError(
                f"the SQLite file is damaged ({first_few(problems)}). Nothing was repaired, "
                "because a repair could lose readable records. Restore a backup, or recover the "
                "readable data into a new file with the '.recover' command of the sqlite3 program "
                "and check that file"
            )
        if self._index is not None:
            self._index.lock(connection)
            self._index.remove(connection)
            self._index.build(connection)

    def _search(
        self, connection: Connection, query: str, k: int, condition: object, prefix: str
    ) -> list[tuple[Document, float]]:
        check_lexical(self)  # first use may find that the index cannot be created
        found: list[tuple[Document, float]] = self._index.search(
            connection, self._read_values, query, k, condition=condition, prefix=prefix
        )
        return found

    # Transactions

    def _run(self, work: Callable[..., T], *args: object) -> T:
        """Run work in a transaction; repeat it if the database asks for that."""
        with _explained(self):
            for attempt in range(_ATTEMPTS - 1):
                try:
                    return self._transact(work, *args)
                except DBAPIError as error:
                    if not must_repeat(error):
                        raise
                # Random, so that two calls do not collide again.
                time.sleep(random.uniform(0, _FIRST_PAUSE * 2**attempt))  # noqa: S311
            return self._transact(work, *args)

    def _transact(self, work: Callable[..., T], *args: object) -> T:
        if not self._is_ready:
            self._prepare()
        with (
            self._lock if self._is_memory else contextlib.nullcontext(),
            self._engine.connect() as connection,
        ):
            # On PostgreSQL, a read in a transaction would take three round trips instead of one.
            if not self._is_sqlite and work == self._read_values:
                connection.execution_options(isolation_level="AUTOCOMMIT")
            with connection.begin():
                return work(connection, *args)

    # The database

    def _prepare(self) -> None:
        """Create the table and its full-text index if they are missing."""
        with self._lock:
            if self._is_ready:  # by another thread
                return
            self._create_table()
            try:
                if self._index is not None:
                    with self._engine.begin() as connection:
                        self._index.create(connection)
            except DBAPIError as error:
                if not cannot_create_index(error):
                    raise
                self._index = None
                warn(
                    f"{self!r} does not support keyword search: it has no full-text index that "
                    f"this user may read, and this user cannot create one ({first_line(error)}). "
                    "Open the database once with write access, as the owner of the table; on "
                    "PostgreSQL, also grant this user SELECT on the table of the index, whose "
                    "name ends with _lexical. To silence this warning, open the store with "
                    "lexical=False"
                )
            self._is_ready = True

    def _create_table(self) -> None:
        is_file = self._is_sqlite and not self._is_memory
        if is_file and not self._url.query.get("uri"):
            Path(str(self._url.database)).parent.mkdir(parents=True, exist_ok=True)
        # Check first, so that a read-only database stays usable.
        if sa.inspect(self._engine).has_table(self._table.name):
            return
        if is_file:
            use_wal(self._engine)
        try:
            with self._engine.begin() as connection:
                connection.execute(CreateTable(self._table, if_not_exists=True))
        except DBAPIError:
            # PostgreSQL may fail if two processes create the table at once.
            if not sa.inspect(self._engine).has_table(self._table.name):
                raise
