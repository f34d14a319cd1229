"""SQLDocStore: a docstore in a table of a SQL database."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.runnables import run_in_executor
from langchain_core.stores import BaseStore
from langchain_core.utils.iter import batch_iterate
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool, StaticPool
from sqlalchemy.schema import CreateTable

from langchain_rse.stores.fulltext import LexicalIndex, lexical_index
from langchain_rse.stores.json import decode_document, encode_document

T = TypeVar("T")

# SQLite and PostgreSQL limit the parameters of a statement.
_KEYS_PER_STATEMENT = 500
_KEYS_PER_PAGE = 1000
# PostgreSQL cuts names longer than 63 off; those of the full-text index are up to 15 longer.
_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")


class SQLDocStore(BaseStore[str, Document]):
    """A docstore in a table of a SQL database, through SQLAlchemy Core.

    On SQLite it needs no server: ``SQLDocStore("sqlite:///chunks.db")``. The database is
    put into WAL mode, so that several threads and processes can read while one writes, and
    waits up to ``timeout`` seconds for a lock. Other databases need their driver, for
    example ``postgresql+psycopg://user:password@host/database``.

    The async methods use the database's own async driver if it is installed (aiosqlite
    on SQLite, psycopg on PostgreSQL, and ``SQLAlchemy[asyncio]``), else a thread.

    The table is made when it is first needed. Its values are JSON.

    Args:
        url: A SQLAlchemy database URL, for example ``"sqlite:///folder/chunks.db"``;
            ``"sqlite://"`` keeps the store in memory.
        table_name: Name of the table: letters, digits and underscores, at most 40.
        lexical: Whether to keep a full-text index of the chunks, for `lexical_search`, on SQLite
            and PostgreSQL. It is made when the store is first used, of the chunks already in the
            table too. From then on the database keeps it, whoever writes.
        tokenizer: On SQLite: a tokenizer of FTS5, such as ``"porter unicode61"`` for English
            without endings, or ``"trigram"`` for Chinese and Japanese, which finds any three
            characters in a row and nothing shorter.
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
        self._url = _parsed(url)
        if not _TABLE_NAME.fullmatch(table_name):
            raise ValueError(
                "table_name must be letters, digits and underscores, at most 40, and begin with "
                f"no digit; got {table_name!r}"
            )
        backend = self._url.get_backend_name()
        self._sqlite = backend == "sqlite"
        self._memory = self._sqlite and _is_memory(self._url)
        self._timeout = timeout
        self._engine_kwargs = dict(engine_kwargs or {})
        if self._sqlite:
            connect_args = {"timeout": timeout, **self._engine_kwargs.get("connect_args", {})}
            self._engine_kwargs["connect_args"] = connect_args
            if self._memory:  # one connection, which all threads take turns at
                connect_args["check_same_thread"] = False
                self._engine_kwargs["poolclass"] = StaticPool
        self.lexical = lexical
        self._index: LexicalIndex | None = None
        if lexical:
            self._index = lexical_index(backend, table_name, tokenizer=tokenizer, language=language)
        self._table = _table(table_name)
        self._engine = self._make_engine()
        # A store that is dropped leaves no open connection.
        weakref.finalize(self, self._engine.dispose)
        # In memory, a second driver would see a second database.
        self._async_url = None if self._memory else _find_async_url(self._url)
        self._async_engines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = (
            weakref.WeakKeyDictionary()
        )
        self._ready = False
        # Held while the table is made, and by each use of the one connection to memory.
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"SQLDocStore({self._url.render_as_string(hide_password=True)!r})"

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get the Documents of the keys, None for keys that are missing.

        Raises:
            CorruptRecordError: If a record cannot be read.
        """
        return self._run(self._get, keys)

    async def amget(self, keys: Sequence[str]) -> list[Document | None]:
        """Like `mget`, async."""
        return await self._arun(self._get, keys)

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Write Documents in one transaction, in place of those with the same keys.

        Raises:
            TypeError: If metadata has a value that cannot be kept.
        """
        self._run(self._set, _rows(key_value_pairs))

    async def amset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Like `mset`, async."""
        await self._arun(self._set, _rows(key_value_pairs))

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete the keys in one transaction; missing ones are passed over."""
        self._run(self._delete, keys)

    async def amdelete(self, keys: Sequence[str]) -> None:
        """Like `mdelete`, async."""
        await self._arun(self._delete, keys)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with the prefix, in the order of their bytes.

        Keys are read a page at a time; nothing is locked in between.
        """
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
    ) -> list[tuple[Document, float]]:
        """Find the chunks that match the words of a query best.

        The query means its words, any of which may match; rare ones count more. At most about
        2,000 chunks are ranked: if more have one of the words, the most common words are left
        out. Only chunks of documents' current versions are found.

        Args:
            query: The query; operators and quotes in it mean nothing.
            k: At most this many chunks, at least 1.
            filter: Fields of the metadata, of the chunk or its document, and the strings,
                numbers or booleans that they equal, all of them.

        Returns:
            The chunks, with metadata as in the vector store, and their scores, above 0, best
            first.

        Raises:
            ValueError: If the store was made without ``lexical=True``, ``k`` is below 1, or
                the filter is anything else.
            CorruptRecordError: If a record cannot be read.
        """
        return self._run(self._lexical_index().search, query, k, filter)

    async def alexical_search(
        self,
        query: str,
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as vector stores name it
    ) -> list[tuple[Document, float]]:
        """Like `lexical_search`, async."""
        return await self._arun(self._lexical_index().search, query, k, filter)

    def drop_lexical_index(self) -> None:
        """Remove the table's full-text index, made with whatever tokenizer or language.

        A store with ``lexical=True`` makes a new one when it is next used.

        Raises:
            ValueError: If the store was made without ``lexical=True``.
        """
        index = self._lexical_index()
        with self._explained(), self._lock:
            self._make_table()
            with self._engine.begin() as connection:
                index.drop(connection)
            self._ready = False

    def close(self) -> None:
        """Close the pooled connections. The store opens new ones when it is used again."""
        self._engine.dispose()

    async def aclose(self) -> None:
        """Close the pooled connections, those of this event loop included."""
        engine = self._async_engines.pop(asyncio.get_running_loop(), None)
        if engine is not None:
            await engine.dispose()
        self.close()

    def _get(self, connection: Connection, keys: Sequence[str]) -> list[Document | None]:
        values: dict[str, str] = {}
        for some in batch_iterate(_KEYS_PER_STATEMENT, dict.fromkeys(keys)):
            query = sa.select(self._table).where(self._table.c.key.in_(some))
            values.update((key, value) for key, value in connection.execute(query))
        return [decode_document(values[key], key) if key in values else None for key in keys]

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
        for some in batch_iterate(_KEYS_PER_STATEMENT, keys):
            connection.execute(sa.delete(self._table).where(self._table.c.key.in_(some)))

    def _page(self, connection: Connection, prefix: str, after: str | None) -> list[str]:
        """The next keys with a prefix; none if there are no more."""
        key = self._table.c.key
        start = key >= prefix if after is None else key > after
        query = sa.select(key).where(start).order_by(key).limit(_KEYS_PER_PAGE)
        # In the order of bytes, keys with the same prefix stand together.
        return [name for name in connection.execute(query).scalars() if name.startswith(prefix)]

    def _lexical_index(self) -> LexicalIndex:
        if self._index is None:
            raise ValueError(
                f"{self!r} keeps no full-text index; make it with SQLDocStore(..., lexical=True)"
            )
        return self._index

    def _run(self, work: Callable[..., T], *args: object) -> T:
        """Do work in a transaction."""
        with self._explained():
            self._prepare()
            with (
                self._lock if self._memory else contextlib.nullcontext(),
                self._engine.begin() as connection,
            ):
                return work(connection, *args)

    async def _arun(self, work: Callable[..., T], *args: object) -> T:
        """Do work in a transaction, through the async driver if there is one."""
        engine = self._async_engine()
        if engine is None:
            return await run_in_executor(None, self._run, work, *args)
        with self._explained():
            if not self._ready:
                await run_in_executor(None, self._prepare)
            async with engine.begin() as connection:
                return await connection.run_sync(work, *args)  # type: ignore[no-any-return]

    def _make_engine(self) -> Engine:
        try:
            engine = sa.create_engine(self._url, **self._engine_kwargs)
        except ModuleNotFoundError as error:
            raise ImportError(
                f"{self._url.drivername} needs the package {error.name!r}. For PostgreSQL: "
                "pip install 'langchain-rse[postgres]', and a URL postgresql+psycopg://..."
            ) from error
        if self._sqlite:
            sa.event.listen(engine, "connect", _tune_sqlite)
        return engine

    def _async_engine(self) -> Any:  # noqa: ANN401 - AsyncEngine, imported only if it works
        """The async engine of the running event loop: connections cannot change loops."""
        if self._async_url is None:
            return None
        loop = asyncio.get_running_loop()
        if loop not in self._async_engines:
            from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415

            # Opening a file is cheap, and nothing is left to close with the loop.
            pool = {"poolclass": NullPool} if self._sqlite else {}
            engine = create_async_engine(self._async_url, **{**self._engine_kwargs, **pool})
            if self._sqlite:
                sa.event.listen(engine.sync_engine, "connect", _tune_sqlite)
            self._async_engines[loop] = engine
        return self._async_engines[loop]

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
            # PostgreSQL may refuse if two processes make it at once.
            if not sa.inspect(self._engine).has_table(self._table.name):
                raise

    def _use_wal(self) -> None:
        """Switch the file to WAL mode, which it keeps; SQLite does not wait for this lock."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                with self._engine.connect() as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            except OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what to do about the errors that users meet."""
        try:
            yield
        except OperationalError as error:
            reason = str(error.orig)
            if "readonly" in reason or "read-only" in reason:
                what = "written to" if self._ready else "opened (its table or index is missing)"
                raise PermissionError(
                    f"{self!r} cannot be {what}: the database is read-only. Make it writable"
                ) from error
            if "unable to open database file" in reason:
                raise FileNotFoundError(
                    f"{self!r} cannot be opened: check that the file exists and that you may read "
                    "it. In a folder that nobody may write to, use "
                    "'sqlite:///file:PATH?mode=ro&immutable=1&uri=true'"
                ) from error
            raise


def _parsed(url: str | URL) -> URL:
    try:
        parsed = make_url(url)
        is_async = parsed.get_dialect().is_async
    except sa.exc.ArgumentError as error:
        raise ValueError(
            f"url must be a SQLAlchemy URL such as 'sqlite:///chunks.db': {error}"
        ) from error
    if is_async:
        raise ValueError(
            f"url names {parsed.drivername!r}, which has no sync form; use 'sqlite:///...' or "
            "'postgresql+psycopg://...': async calls find their driver"
        )
    return parsed


def _find_async_url(url: URL) -> URL | None:
    """The URL of the same database through an async driver, if there is one."""
    backend = url.get_backend_name()
    driver = "aiosqlite" if backend == "sqlite" else url.get_driver_name()
    if driver in {"aiosqlite", "psycopg"} and all(map(find_spec, ("greenlet", driver))):
        return url.set(drivername=f"{backend}+{driver}")
    return None


def _table(name: str) -> sa.Table:
    # Keys are compared by their bytes, so that those with the same prefix stand together.
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


def _is_memory(url: URL) -> bool:
    return not url.database or ":memory:" in url.database or url.query.get("mode") == "memory"


def _tune_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401
    cursor = connection.cursor()
    # In WAL mode this is safe against crashes of the process, and far faster than FULL.
    cursor.execute("PRAGMA synchronous=NORMAL")
    # 32 MB: lexical search reads pages all over the file again and again.
    cursor.execute("PRAGMA cache_size=-32000")
    cursor.close()


def _rows(pairs: Sequence[tuple[str, Document]]) -> list[dict[str, str]]:
    # A key given twice: the last one counts.
    return [
        {"key": key, "value": encode_document(document)} for key, document in dict(pairs).items()
    ]
