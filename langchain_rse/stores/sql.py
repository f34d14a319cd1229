"""SQLDocStore: a docstore in a table of a SQL database."""

import contextlib
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from langchain_core.documents import Document
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateTable
from typing_extensions import override

from langchain_rse._messages import warn
from langchain_rse._sync import batches
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.compare_and_set import Change, ComparesAndSets
from langchain_rse.stores.databases import (
    DAMAGED,
    asks_to_repeat,
    explanation_of,
    is_memory,
    make_rows,
    make_table,
    parse_url,
    prepare_engine,
    use_wal,
    write_rows,
)
from langchain_rse.stores.fulltext import check_lexical
from langchain_rse.stores.fulltext_sqlite import forget_damaged, is_indexed
from langchain_rse.stores.indexes import (
    find_index_problems,
    lexical_index,
    rebuild_indexes,
    refusal_of_index,
)
from langchain_rse.stores.json import decode_documents, is_record

T = TypeVar("T")

# SQLite and PostgreSQL limit the parameters of a statement.
_KEYS_PER_STATEMENT = 500
_KEYS_PER_PAGE = 1000
# How often a transaction is tried if the database asks to repeat it, and the longest pause, in
# seconds, after the first attempt; each further one may be twice as long.
_ATTEMPTS = 8
_FIRST_PAUSE = 0.02
# PostgreSQL truncates names at 63; names of the full-text index are up to 15 longer than this.
_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")


@contextlib.contextmanager
def _explained(store: object) -> Iterator[None]:
    """Add to errors of the database which store they are of and, if known, what to do."""
    try:
        yield
    except DBAPIError as error:
        error.add_detail(f"{store!r} {explanation_of(error)}".rstrip())
        raise
    except UnicodeDecodeError as error:  # Python cannot read SQLite's message
        raise CorruptRecordError(f"{store!r} {DAMAGED}") from error


class SQLDocStore(ComparesAndSets):
    """A docstore in a table of a SQL database, through SQLAlchemy Core.

    On SQLite it needs no server. The database is put into WAL mode: several threads and processes
    can read while one writes. Other databases need their driver, for example
    ``postgresql+psycopg://user:password@host/database``. Async methods use threads.

    The table is made when it is first needed. A store can be used before and after ``os.fork``,
    which copies a store in memory. Pickled and deep copies hold the URL with its password and open
    their own connections to the same table; a store in memory cannot be pickled or copied so.

    Args:
        url: A SQLAlchemy database URL, for example ``"sqlite:///folder/chunks.db"``;
            ``"sqlite://"`` keeps the store in memory.
        table_name: Name of the table: letters, digits and underscores, at most 40.
        lexical: Whether to have a full-text index of the chunks, for `lexical_search`. It is made
            when the store is first used, and then kept up to date by the database. None: on SQLite
            and PostgreSQL, unless this user may not create it, which a warning says. True: an
            error if there can be none. False: the store neither makes an index nor searches one.
        tokenizer: On SQLite: a tokenizer of FTS5, such as ``"porter unicode61"`` for English
            without endings.
        language: On PostgreSQL: a text search configuration, such as ``"english"``.
        timeout: Seconds to wait for a lock of SQLite.
        engine_kwargs: More arguments for ``sqlalchemy.create_engine``, such as ``pool_size``.

    Raises:
        ImportError: If the database's driver is not installed.
        ValueError: If the URL, the table's name, the tokenizer or the language cannot be used;
            when first used, also if the full-text index was built with another of them.
        FullTextError: When first used, if ``lexical=True`` and this user cannot create the index.

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
        lexical: bool | None = None,
        tokenizer: str = "unicode61",
        language: str = "simple",
        timeout: float = 30.0,
        engine_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self._url = parse_url(url)
        if not _TABLE_NAME.fullmatch(table_name):
            raise ValueError(
                "table_name must be letters, digits and underscores, at most 40, and begin with "
                f"no digit; got {table_name!r}"
            )
        backend = self._url.get_backend_name()
        self._is_sqlite = backend == "sqlite"
        self._is_postgres = backend == "postgresql"
        self._is_memory = self._is_sqlite and is_memory(self._url)
        self._timeout = timeout
        self._engine_kwargs = self._complete_engine_kwargs(engine_kwargs or {})
        self._lexical = lexical
        self._word_settings = {"tokenizer": tokenizer, "language": language}
        self._index: Any = lexical_index(
            backend, table_name, lexical=lexical, **self._word_settings
        )
        self._table = make_table(table_name)
        self._select = self._make_select()
        self._engine = self._make_engine()
        # A store that is dropped leaves no open connection.
        weakref.finalize(self, self._engine.dispose)
        self._is_ready = False
        # Held while the table is made, and by each use of the one connection to memory.
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        # The query part may hold a password or a key as well.
        url = self._url.set(query={})
        return f"SQLDocStore({url.render_as_string(hide_password=True)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._is_memory:
            raise TypeError(
                "a SQLDocStore in memory cannot be pickled or copied: its records are in one "
                "connection of this process. Use a file: SQLDocStore('sqlite:///chunks.db')"
            )
        arguments: dict[str, Any] = {
            "table_name": self._table.name,
            "lexical": self._lexical,
            "timeout": self._timeout,
            "engine_kwargs": self._engine_kwargs,
            **self._word_settings,
        }
        return partial(type(self), self._url, **arguments), ()

    @property
    def lexical(self) -> bool:
        """True if the store has a full-text index, or will create one when it is first used."""
        return self._index is not None

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with the prefix, in the order of their bytes, page by page."""
        page = self._run(self._read_page_of_keys, prefix or "", None)
        while page:
            yield from page
            page = self._run(self._read_page_of_keys, prefix or "", page[-1])

    def lexical_search(
        self,
        query: str,
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as vector stores name it
        prefix: str = "",
    ) -> list[tuple[Document, float]]:
        """Find the chunks of current versions that match the words of a query best.

        Any word may match; rare words count more. At most about 5,000 chunks are ranked on SQLite,
        2,000 on PostgreSQL: if more have one of the words, the most common words are left out.

        Args:
            query: The query; operators and quotes in it have no effect.
            k: The most chunks to return, at least 1.
            filter: Metadata fields of the chunk or its document, with the strings, numbers or
                booleans that they must equal. All must hold.
            prefix: Only chunks whose keys begin with this are found: those of one namespace.

        Returns:
            The chunks, with metadata as in the vector store, and their scores above 0, best first.

        Raises:
            FullTextError: If the store has no full-text index, or it is damaged.
            ValueError: If ``k`` is below 1, or the filter is of another form.
        """
        check_lexical(self)
        return self._run(self._search, query, k, filter, prefix)

    def drop_lexical_index(self) -> None:
        """Remove the table's full-text index, also one built with another tokenizer or language.

        The store makes a new index when it is next used, unless it is opened with
        ``lexical=False`` from then on.
        """
        check_lexical(self)
        with _explained(self), self._lock:
            self._create_table()
            with self._engine.begin() as connection:
                self._index.lock(connection)
                self._index.remove(connection)
            self._is_ready = False

    def index_problems(self) -> list[str]:
        """Check the table's full-text index and, on SQLite, all that SQLite keeps of the table.

        SQLite compares the full-text index with all texts, and other writers wait meanwhile. On
        PostgreSQL, the chunks in the index are counted, and 1,000 of them are compared.

        Returns:
            What is wrong, in words; empty if nothing is.
        """
        return self._run(find_index_problems, self._table.name, self._index)

    def rebuild_indexes(self) -> None:
        """Build the table's indexes anew from its records, in one transaction.

        Raises:
            CorruptRecordError: If more of a SQLite file is damaged than records and indexes.
                Nothing is changed then.
        """
        self._run(rebuild_indexes, self._table.name, self._index)

    def close(self) -> None:
        """Close the pooled connections. The store opens new ones when it is used again."""
        self._engine.dispose()

    # Each of the next methods does its work in one transaction.

    @override
    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        values = self._run(self._read_values, keys)
        return decode_documents([values.get(key) for key in keys], keys)

    @override
    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        self._run(self._set, make_rows(key_value_pairs))

    @override
    def mdelete(self, keys: Sequence[str]) -> None:
        self._run(self._delete, keys)

    @override
    def compare_and_set(self, changes: Sequence[Change]) -> list[bool]:
        return self._run(self._change, changes)

    # The work in a transaction

    def _read_values(
        self, connection: Connection, keys: Iterable[str], *, lock: bool = False
    ) -> dict[str, str]:
        """Read the records of those keys that exist."""
        query = self._select
        if lock:  # all callers lock rows in the same order, to avoid deadlocks
            query = query.order_by(self._table.c.key).with_for_update()
        values: dict[str, str] = {}
        for batch in batches(dict.fromkeys(keys), _KEYS_PER_STATEMENT):
            rows = connection.execute(query, {"keys": batch})
            values.update((key, value) for key, value in rows)
        return values

    def _set(self, connection: Connection, rows: list[dict[str, str]]) -> None:
        self._begin_change(connection, [row["key"] for row in rows])
        self._write_rows(connection, rows)

    def _delete(self, connection: Connection, keys: Sequence[str]) -> None:
        self._begin_change(connection, keys)
        self._delete_rows(connection, keys)

    def _begin_change(self, connection: Connection, keys: Iterable[str]) -> None:
        """Before records are replaced or removed, keep damaged ones from the full-text index."""
        if self._is_sqlite and is_indexed(connection, self._table.name):
            # No other connection writes between reading and writing.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            forget_damaged(connection, self._table.name, self._read_values(connection, keys))

    def _write_rows(self, connection: Connection, rows: list[dict[str, str]]) -> None:
        if not rows:
            return
        if self._is_sqlite or self._is_postgres:
            write_rows(connection, self._table.name, rows)
        else:
            self._delete_rows(connection, [row["key"] for row in rows])
            connection.execute(sa.insert(self._table), rows)

    def _delete_rows(self, connection: Connection, keys: Sequence[str]) -> None:
        key = self._table.c.key
        for batch in batches(sorted(keys), _KEYS_PER_STATEMENT):
            condition = key.in_(batch)
            if self._is_postgres:  # which locks the rows in this order
                condition = key.in_(sa.select(key).where(condition).order_by(key).with_for_update())
            connection.execute(sa.delete(self._table).where(condition))

    def _change(self, connection: Connection, changes: Sequence[Change]) -> list[bool]:
        """Make each change whose record is as expected; of a key given twice, the first counts."""
        if self._is_sqlite:  # no other connection writes between reading and writing
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        values = self._read_values(connection, sorted(key for key, _, _ in changes), lock=True)
        accepted: dict[str, Change] = {}
        for change in changes:
            key, expected, _ = change
            if key not in accepted and is_record(values.get(key), expected, key):
                accepted[key] = change
        new_records: list[tuple[str, Document]] = []
        removed_keys: list[str] = []
        for key, _, new in accepted.values():
            if new is not None:
                new_records.append((key, new))
            elif key in values:
                removed_keys.append(key)
        if self._is_sqlite and is_indexed(connection, self._table.name):
            forget_damaged(connection, self._table.name, values)
        for key in self._write_changed_rows(connection, make_rows(new_records), values):
            del accepted[key]
        self._delete_rows(connection, removed_keys)
        return [accepted.get(change[0]) is change for change in changes]

    def _write_changed_rows(
        self, connection: Connection, rows: list[dict[str, str]], values: Mapping[str, str]
    ) -> set[str]:
        """Write rows, given the values before; return the keys that another call has added."""
        if not self._is_postgres:
            self._write_rows(connection, rows)
            return set()
        self._write_rows(connection, [row for row in rows if row["key"] in values])
        # PostgreSQL does not lock rows that were missing.
        added = [row for row in rows if row["key"] not in values]
        if not added:
            return set()
        insert = postgresql.insert(self._table).on_conflict_do_nothing()
        result = connection.execute(insert.returning(self._table.c.key), added)
        return {row["key"] for row in added}.difference(result.scalars())

    def _read_page_of_keys(
        self, connection: Connection, prefix: str, after: str | None
    ) -> list[str]:
        """Read the next keys with a prefix; none if there are no more."""
        key = self._table.c.key
        is_next = key >= prefix if after is None else key > after
        query = sa.select(key).where(is_next).order_by(key).limit(_KEYS_PER_PAGE)
        # In the order of bytes, keys with the same prefix are consecutive.
        names = connection.execute(query).scalars().all()  # faster than row by row
        # A damaged key may be no text.
        return [name for name in names if isinstance(name, str) and name.startswith(prefix)]

    def _search(self, connection: Connection, *args: Any) -> list[tuple[Document, float]]:  # noqa: ANN401
        check_lexical(self)  # again, as the index may be refused when the store is first used
        found: list[tuple[Document, float]] = self._index.search(connection, *args)
        return found

    # Transactions

    def _run(self, work: Callable[..., T], *args: object) -> T:
        """Do work in a transaction, again if the database asks for it."""
        with _explained(self):
            for attempt in range(_ATTEMPTS - 1):
                started = time.monotonic()
                try:
                    return self._transact(work, *args)
                except DBAPIError as error:
                    has_waited = time.monotonic() - started >= self._timeout
                    if not asks_to_repeat(error, has_waited=has_waited):
                        raise
                # Random, so that two calls do not disturb each other again.
                time.sleep(random.uniform(0, _FIRST_PAUSE * 2**attempt))  # noqa: S311
            return self._transact(work, *args)

    def _transact(self, work: Callable[..., T], *args: object) -> T:
        if not self._is_ready:
            self._prepare()
        with (
            self._lock if self._is_memory else contextlib.nullcontext(),
            self._engine.connect() as connection,
        ):
            # On PostgreSQL, a transaction would take three round trips for a read instead of one.
            if self._is_postgres and work == self._read_values:
                connection.execution_options(isolation_level="AUTOCOMMIT")
            with connection.begin():
                return work(connection, *args)

    # The database

    def _complete_engine_kwargs(self, engine_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Add what the database needs to the user's arguments for ``create_engine``."""
        completed = {"hide_parameters": True, **engine_kwargs}  # errors would quote documents
        if not self._is_sqlite:
            completed.setdefault("pool_pre_ping", True)  # the server may have been restarted
            return completed
        connect_args = {"timeout": self._timeout, **completed.get("connect_args", {})}
        if self._is_memory:  # one connection, which threads use in turn
            connect_args["check_same_thread"] = False
            completed["poolclass"] = StaticPool
        completed["connect_args"] = connect_args
        return completed

    def _make_select(self) -> sa.Select[Any]:
        """Make the query for the records of ``keys``."""
        key = self._table.c.key
        if self._is_postgres:  # plans a statement with one parameter once
            keys = sa.bindparam("keys", type_=sa.ARRAY(key.type))
            return sa.select(self._table).where(key == sa.any_(keys))
        return sa.select(self._table).where(key.in_(sa.bindparam("keys", expanding=True)))

    def _make_engine(self) -> Engine:
        try:
            engine = sa.create_engine(self._url, **self._engine_kwargs)
        except ModuleNotFoundError as error:
            raise ImportError(
                f"{self._url.drivername} needs the package {error.name!r}. For PostgreSQL: "
                "pip install 'langchain-rse[postgres]', and a URL postgresql+psycopg://..."
            ) from error
        prepare_engine(engine)
        return engine

    def _prepare(self) -> None:
        """Create the table and its full-text index if they are missing."""
        refusal = None
        with self._lock:
            if self._is_ready:  # by another thread
                return
            self._create_table()
            if self._index is not None:
                required = self._lexical is True
                refusal = refusal_of_index(self._engine, repr(self), self._index, required=required)
            if refusal is not None:
                self._index = None
            self._is_ready = True
        if refusal is not None:
            warn(refusal)

    def _create_table(self) -> None:
        is_file = self._is_sqlite and not self._is_memory
        if is_file and not self._url.query.get("uri"):
            Path(str(self._url.database)).parent.mkdir(parents=True, exist_ok=True)
        # Looking first keeps a read-only database usable.
        if sa.inspect(self._engine).has_table(self._table.name):
            return
        if is_file:
            use_wal(self._engine, self._timeout)
        try:
            with self._engine.begin() as connection:
                connection.execute(CreateTable(self._table, if_not_exists=True))
        except DBAPIError:
            # PostgreSQL may fail if two processes create the table at the same time.
            if not sa.inspect(self._engine).has_table(self._table.name):
                raise
