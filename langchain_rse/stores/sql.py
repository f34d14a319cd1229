"""SQLDocStore: a docstore in a table of a SQL database."""

import contextlib
import re
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.runnables import run_in_executor
from langchain_core.utils.iter import batch_iterate
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateTable
from typing_extensions import override

from langchain_rse._sync import Steps, call
from langchain_rse.stores.changing import Change, ComparesAndSets
from langchain_rse.stores.databases import (
    AsyncEngines,
    explained,
    is_async,
    is_memory,
    parse_url,
    prepare_engine,
)
from langchain_rse.stores.fulltext import check_lexical, lexical_index
from langchain_rse.stores.json import decode_document, encode_document, is_record

T = TypeVar("T")

# SQLite and PostgreSQL limit the parameters of a statement.
_KEYS_PER_STATEMENT = 500
_KEYS_PER_PAGE = 1000
# PostgreSQL truncates names at 63; names of the full-text index are up to 15 longer than this.
_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")


class SQLDocStore(ComparesAndSets):
    """A docstore in a table of a SQL database, through SQLAlchemy Core.

    On SQLite it needs no server. The database is put into WAL mode: several threads and processes
    can read while one writes. Other databases need their driver, for example
    ``postgresql+psycopg://user:password@host/database``; async methods use psycopg's async
    connections if ``SQLAlchemy[asyncio]`` is installed, else threads.

    The table is made when it is first needed. A store can be used before and after ``os.fork``,
    which copies a store in memory. Pickled and deep copies hold the URL with its password and open
    their own connections to the same table; a store in memory cannot be pickled or copied so.

    Args:
        url: A SQLAlchemy database URL, for example ``"sqlite:///folder/chunks.db"``;
            ``"sqlite://"`` keeps the store in memory.
        table_name: Name of the table: letters, digits and underscores, at most 40.
        lexical: True to keep a full-text index of the chunks, for `lexical_search`, on SQLite and
            PostgreSQL. It is made when the store is first used, and then kept by the database.
        tokenizer: On SQLite: a tokenizer of FTS5, such as ``"porter unicode61"`` for English
            without endings, or ``"trigram"`` for Chinese and Japanese, which finds any sequence
            of three characters and nothing shorter.
        language: On PostgreSQL: a text search configuration, such as ``"english"``.
        timeout: Seconds to wait for a lock of SQLite.
        engine_kwargs: More arguments for ``sqlalchemy.create_engine``, such as ``pool_size``.

    Raises:
        ImportError: If the database's driver is not installed.
        ValueError: If the URL, the table's name, the tokenizer or the language cannot be used;
            when first used, also if the full-text index was built with another of them.

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
        lexical: bool = False,
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
        self._sqlite = backend == "sqlite"
        self._memory = self._sqlite and is_memory(self._url)
        self._timeout = timeout
        # Errors of SQLAlchemy would quote documents.
        self._engine_kwargs = {"hide_parameters": True, **(engine_kwargs or {})}
        if self._sqlite:
            connect_args = {"timeout": timeout, **self._engine_kwargs.get("connect_args", {})}
            self._engine_kwargs["connect_args"] = connect_args
            if self._memory:  # one connection, which threads use in turn
                connect_args["check_same_thread"] = False
                self._engine_kwargs["poolclass"] = StaticPool
        else:  # the server may have been restarted
            self._engine_kwargs.setdefault("pool_pre_ping", True)
        self.lexical = lexical
        self._settings = {"tokenizer": tokenizer, "language": language}
        self._index: Any = None
        if lexical:
            self._index = lexical_index(backend, table_name, **self._settings)
        self._table = _table(table_name)
        key = self._table.c.key
        is_wanted: sa.ColumnElement[bool] = key.in_(sa.bindparam("keys", expanding=True))
        if backend == "postgresql":  # which plans a statement with one parameter once
            is_wanted = key == sa.any_(sa.bindparam("keys", type_=sa.ARRAY(key.type)))
        self._select = sa.select(self._table).where(is_wanted)
        self._engine = self._make_engine()
        # A store that is dropped leaves no open connection.
        weakref.finalize(self, self._engine.dispose)
        self._is_async = is_async(self._url)
        self._async_engines = AsyncEngines(self._make_async_engine)
        self._ready = False
        # Held while the table is made, and by each use of the one connection to memory.
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        # The query part of a server's URL may hold a password as well.
        url = self._url if self._sqlite else self._url.set(query={})
        return f"SQLDocStore({url.render_as_string(hide_password=True)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._memory:
            raise TypeError(
                "a SQLDocStore in memory cannot be pickled or copied: its records are in one "
                "connection of this process. Use a file: SQLDocStore('sqlite:///chunks.db')"
            )
        arguments: dict[str, Any] = {
            "table_name": self._table.name,
            "lexical": self.lexical,
            "timeout": self._timeout,
            "engine_kwargs": self._engine_kwargs,
            **self._settings,
        }
        return partial(type(self), self._url, **arguments), ()

    @override
    def _steps(self, method: str, items: Sequence[Any]) -> Steps[Any]:
        """Do the work of the method in one transaction."""
        works: dict[str, Callable[..., Any]] = {
            "mget": self._get,
            "mset": self._set,
            "mdelete": self._delete,
            "compare_and_set": self._change,
        }
        given = _rows(items) if method == "mset" else items
        return call(partial(self._run, works[method]), partial(self._arun, works[method]), given)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with the prefix, in the order of their bytes, page by page."""
        page = self._run(self._page, prefix or "", None)
        while page:
            yield from page
            page = self._run(self._page, prefix or "", page[-1])

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """Like `yield_keys`, async."""
        page = await self._arun(self._page, prefix or "", None)
        while page:
            for key in page:
                yield key
            page = await self._arun(self._page, prefix or "", page[-1])

    def lexical_search(
        self,
        query: str,
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as vector stores name it
        prefix: str = "",
    ) -> list[tuple[Document, float]]:
        """Find the chunks of current versions that match the words of a query best.

        Any word may match; rare words count more. At most about 2,000 chunks are ranked: if more
        have one of the words, the most common words are left out.

        Args:
            query: The query; operators and quotes in it have no effect.
            k: The most chunks to return, at least 1.
            filter: Metadata fields of the chunk or its document, with the strings, numbers or
                booleans that they must equal. All must hold.
            prefix: Only chunks whose keys begin with this are found: those of one namespace.

        Returns:
            The chunks, with metadata as in the vector store, and their scores above 0, best first.

        Raises:
            ValueError: If the store was made without ``lexical=True``, ``k`` is below 1, or
                the filter is of another form.
        """
        check_lexical(self)
        return self._run(self._index.search, query, k, filter, prefix)

    async def alexical_search(
        self,
        query: str,
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as vector stores name it
        prefix: str = "",
    ) -> list[tuple[Document, float]]:
        """Like `lexical_search`, async."""
        check_lexical(self)
        return await self._arun(self._index.search, query, k, filter, prefix)

    def drop_lexical_index(self) -> None:
        """Remove the table's full-text index, also one built with another tokenizer or language.

        Needs ``lexical=True``; the store makes a new index when it is next used.
        """
        check_lexical(self)
        with explained(self), self._lock:
            self._make_table()
            with self._engine.begin() as connection:
                self._index.drop(connection)
            self._ready = False

    def close(self) -> None:
        """Close the pooled connections. The store opens new ones when it is used again."""
        self._engine.dispose()

    async def aclose(self) -> None:
        """Close the pooled connections, including those of this event loop."""
        await self._async_engines.aclose()
        self.close()

    def _get(self, connection: Connection, keys: Sequence[str]) -> list[Document | None]:
        values = self._values(connection, keys)
        return [decode_document(values[key], key) if key in values else None for key in keys]

    def _values(
        self, connection: Connection, keys: Iterable[str], *, lock: bool = False
    ) -> dict[str, str]:
        """Read the records of those keys that exist."""
        # Rows are locked in the same order by all callers, to avoid deadlocks.
        query = self._select.order_by(self._table.c.key).with_for_update() if lock else self._select
        values: dict[str, str] = {}
        for some in batch_iterate(_KEYS_PER_STATEMENT, dict.fromkeys(keys)):
            rows = connection.execute(query, {"keys": some})
            values.update((name, record) for name, record in rows)
        return values

    def _change(self, connection: Connection, changes: Sequence[Change]) -> list[bool]:
        if self._sqlite:  # no other connection writes between reading and writing
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        values = self._values(connection, sorted(key for key, _, _ in changes), lock=True)
        made: dict[str, int] = {}  # of a key given twice, the first counts
        for number, (key, expected, _) in enumerate(changes):
            if key not in made and is_record(values.get(key), expected, key):
                made[key] = number
        new = [(key, changes[number][2]) for key, number in made.items()]
        added = _rows((key, record) for key, record in new if record and key not in values)
        if added and connection.dialect.name == "postgresql":  # missing rows were not locked
            insert = postgresql.insert(self._table).on_conflict_do_nothing()
            there = connection.execute(insert.returning(self._table.c.key), added).scalars().all()
            for key in {row["key"] for row in added}.difference(there):
                del made[key]
            new = [(key, record) for key, record in new if key in values]
        self._set(connection, _rows((key, record) for key, record in new if record))
        self._delete(connection, [key for key, record in new if not record and key in values])
        return [made.get(key) == number for number, (key, _, _) in enumerate(changes)]

    def _set(self, connection: Connection, rows: list[dict[str, str]]) -> None:
        if connection.dialect.name in {"sqlite", "postgresql"}:
            statement: sa.Executable = sa.text(
                f'INSERT INTO "{self._table.name}" (key, value) VALUES (:key, :value) '  # noqa: S608
                "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
            )
        else:
            self._delete(connection, [row["key"] for row in rows])
            statement = sa.insert(self._table)
        if rows:
            connection.execute(statement, rows)

    def _delete(self, connection: Connection, keys: Sequence[str]) -> None:
        key = self._table.c.key
        for some in batch_iterate(_KEYS_PER_STATEMENT, sorted(keys)):
            which = sa.select(key).where(key.in_(some)).order_by(key).with_for_update()
            postgres = connection.dialect.name == "postgresql"
            connection.execute(sa.delete(self._table).where(key.in_(which if postgres else some)))

    def _page(self, connection: Connection, prefix: str, after: str | None) -> list[str]:
        """Read the next keys with a prefix; none if there are no more."""
        key = self._table.c.key
        start = key >= prefix if after is None else key > after
        query = sa.select(key).where(start).order_by(key).limit(_KEYS_PER_PAGE)
        # In the order of bytes, keys with the same prefix are consecutive.
        return [name for name in connection.execute(query).scalars() if name.startswith(prefix)]

    def _run(self, work: Callable[..., T], *args: object) -> T:
        """Do work in a transaction."""
        with explained(self):
            self._prepare()
            with (
                self._lock if self._memory else contextlib.nullcontext(),
                self._engine.connect() as connection,
            ):
                return self._transact(connection, work, *args)

    async def _arun(self, work: Callable[..., T], *args: object) -> T:
        """Do work in a transaction, through the async driver or in a thread."""
        if not self._is_async:
            return await run_in_executor(None, self._run, work, *args)
        with explained(self):
            engine = await self._async_engines.get()
            if not self._ready:
                await run_in_executor(None, self._prepare)
            async with engine.connect() as connection:
                return await connection.run_sync(self._transact, work, *args)  # type: ignore[no-any-return]

    def _transact(self, connection: Connection, work: Callable[..., T], *args: object) -> T:
        # On PostgreSQL, a transaction would take three round trips for a read instead of one.
        if work == self._get and connection.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        with connection.begin():
            return work(connection, *args)

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

    def _make_async_engine(self) -> Any:  # noqa: ANN401 - AsyncEngine, imported only if it works
        from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415

        engine = create_async_engine(self._url, **self._engine_kwargs)
        prepare_engine(engine.sync_engine)
        return engine

    def _prepare(self) -> None:
        """Make the table and its full-text index if they are missing."""
        if self._ready:
            return
        with self._lock:
            self._make_table()
            if self._index is not None:
                with self._engine.begin() as connection:
                    self._index.create(connection)
            self._ready = True

    def _make_table(self) -> None:
        is_file = self._sqlite and not self._memory
        if is_file and not self._url.query.get("uri"):
            Path(str(self._url.database)).parent.mkdir(parents=True, exist_ok=True)
        # Looking first keeps a read-only database usable.
        if sa.inspect(self._engine).has_table(self._table.name):
            return
        if is_file:
            self._use_wal()
        try:
            with self._engine.begin() as connection:
                connection.execute(CreateTable(self._table, if_not_exists=True))
        except DBAPIError:
            # PostgreSQL may fail if two processes make the table at the same time.
            if not sa.inspect(self._engine).has_table(self._table.name):
                raise

    def _use_wal(self) -> None:
        """Switch the file to WAL mode for good; retries, as SQLite does not wait for this lock."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                with self._engine.connect() as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                    return
            except OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def _table(name: str) -> sa.Table:
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


def _rows(pairs: Iterable[tuple[str, Document]]) -> list[dict[str, str]]:
    # If a key is given twice, the last one counts. Writers that use the same order of keys cannot
    # deadlock.
    return [
        {"key": key, "value": encode_document(document, key)}
        for key, document in sorted(dict(pairs).items(), key=lambda pair: str(pair[0]))
    ]
