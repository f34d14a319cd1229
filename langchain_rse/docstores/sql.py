"""SQLDocStore: a docstore in a table of a SQL database."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.runnables import run_in_executor
from langchain_core.stores import BaseStore
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool, StaticPool
from sqlalchemy.schema import CreateTable

from langchain_rse.docstores.encoding import corrupt, decode_document, encode_document
from langchain_rse.lexical import LexicalIndex, Match, check_filter, fits, index_for, may_fit
from langchain_rse.schema import (
    FIRST,
    HEADER,
    PLACE,
    ChunkPlace,
    Manifest,
    chunk_metadata,
    manifest_key,
    simple_metadata,
    with_header,
)

__all__ = ["SQLDocStore"]

A = TypeVar("A")
T = TypeVar("T")

_KEYS_PER_STATEMENT = 500
_ROWS_PER_STATEMENT = 1000
_KEYS_PER_PAGE = 1000
_PAGE_SIZE = 16384
# Where a filter left chunks out, so many times as many are looked at.
_MORE = 16
_LAST_CHARACTER = 0x10FFFF
_SQL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _LexicalSearch(NamedTuple):
    """The arguments of a lexical search, checked."""

    query: str
    k: int
    filter: Mapping[str, Any]


@functools.lru_cache(maxsize=1024)  # a query asks for dozens, the next one for the same
def _read_manifest(value: str, key: str) -> Manifest:
    """Read a manifest's record, which nobody changes."""
    return Manifest.from_document(decode_document(value, key), key)


class _Current(NamedTuple):
    """The version of a document that queries see, and the metadata that all its chunks have."""

    version: str
    metadata: Mapping[str, Any]

    @classmethod
    def of(cls, manifest: Manifest) -> _Current | None:
        """None if queries see none."""
        version = manifest.current
        return version and cls(version.name, manifest.metadata)


class _Upsert(NamedTuple):
    """What writes rows, or replaces those that are there.

    Attributes:
        text: The statement, as the driver takes it.
        by_place: Whether it takes the key and the value in this order; else by their names.
    """

    text: str
    by_place: bool

    @classmethod
    def of(cls, statement: sa.Insert, dialect: sa.Dialect) -> _Upsert:
        """As a dialect writes it."""
        compiled = statement.compile(dialect=dialect)
        return cls(str(compiled), by_place=compiled.positiontup == ["key", "value"])


class SQLDocStore(BaseStore[str, Document]):
    """A docstore in a table of a SQL database, through SQLAlchemy Core.

    On SQLite it needs no server: ``SQLDocStore("sqlite:///chunks.db")``. The database is
    put into WAL mode, so that several threads and processes can read while one writes, and
    waits up to ``timeout`` seconds for a lock. Other databases need their driver, for
    example ``postgresql+psycopg://user:password@host/database``.

    The async methods use the database's own async driver where it is installed (aiosqlite
    on SQLite, psycopg on PostgreSQL, and ``SQLAlchemy[asyncio]``), else a thread.

    The table is made when it is first needed. Values are JSON; see `encode_document`.

    Args:
        url: A SQLAlchemy database URL, for example ``"sqlite:///folder/chunks.db"``;
            ``"sqlite://"`` keeps the store in memory.
        table_name: Name of the table: letters, digits and underscores.
        lexical: Whether to keep a full-text index of the chunks, for `lexical_search`. The
            index of a table is made, of the chunks that are there as well, when the store is
            first used; others wait for that when they write. From then on the database keeps
            it, whoever writes. On SQLite and PostgreSQL.
        tokenizer: On SQLite: a tokenizer of FTS5, such as ``"porter unicode61"`` for English
            without endings, or ``"trigram"`` for Chinese and Japanese, which finds any three
            characters in a row and nothing shorter.
        language: On PostgreSQL: a text search configuration, such as ``"english"``. Those it
            comes with do not find words in Chinese or Japanese clauses; extensions do.
        timeout: Seconds to wait for a lock of SQLite, above 0.
        engine_kwargs: More arguments for ``sqlalchemy.create_engine``, such as
            ``pool_size``.

    Raises:
        ValueError: If the URL, the table's name, the tokenizer, the language or the timeout
            is not usable; when first used, also if the table's full-text index was built
            with another tokenizer or language.
        RuntimeError: When first used, if SQLite was built without FTS5.

    Attributes:
        lexical: Whether `lexical_search` can be used.

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
        try:
            self._url = make_url(url)
        except sa.exc.ArgumentError as error:
            shown = "one with a password" if "@" in str(url) else repr(url)
            raise ValueError(
                f"url must be a SQLAlchemy URL such as 'sqlite:///chunks.db'; got {shown}"
            ) from error
        if not _SQL_NAME.fullmatch(table_name):
            raise ValueError(
                f"table_name must be letters, digits and underscores; got {table_name!r}"
            )
        if not timeout > 0:
            raise ValueError(f"timeout must be above 0 seconds; got {timeout!r}")
        self._timeout = timeout
        self._engine_kwargs = dict(engine_kwargs or {})
        self._sqlite = self._url.get_backend_name() == "sqlite"
        self.lexical = lexical
        self._index: LexicalIndex | None = None
        if lexical:
            self._index = index_for(
                self._url.get_backend_name(), table_name, tokenizer=tokenizer, language=language
            )
        if self._sqlite:
            connect_args = self._engine_kwargs.get("connect_args", {})
            self._engine_kwargs["connect_args"] = {"timeout": timeout, **connect_args}
        self._memory = self._sqlite and _is_memory(self._url)
        self._engine = self._make_engine()
        # A store that is dropped leaves no open connection behind.
        weakref.finalize(self, self._engine.dispose)
        self._async_engines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = (
            weakref.WeakKeyDictionary()
        )
        self._async_url = self._find_async_url()
        self._upserts: dict[str, _Upsert | None] = {}  # by driver
        self._ready = False
        # Guards the making of the table and, in memory, the one connection.
        self._lock = threading.RLock()
        # Keys are compared by their bytes, so that a prefix is a range of the index.
        key_type = (
            sa.String(512)
            .with_variant(sa.String(512, collation="C"), "postgresql")
            .with_variant(sa.String(512, collation="utf8mb4_bin"), "mysql", "mariadb")
        )
        value_type = sa.Text().with_variant(sa.Text(1 << 30), "mysql", "mariadb")
        self._table = sa.Table(
            table_name,
            sa.MetaData(),
            sa.Column("key", key_type, primary_key=True),
            sa.Column("value", value_type, nullable=False),
        )
        self._select = sa.select(self._table.c.key, self._table.c.value).where(
            self._table.c.key.in_(sa.bindparam("keys", expanding=True))
        )
        self._delete = sa.delete(self._table).where(
            self._table.c.key.in_(sa.bindparam("keys", expanding=True))
        )

    def __repr__(self) -> str:
        return f"SQLDocStore({self._url.render_as_string(hide_password=True)!r})"

    # The store's methods

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get the Documents of the keys, None where there is none.

        Raises:
            CorruptRecordError: If a record cannot be read.
        """
        return self._run(self._get, keys)

    async def amget(self, keys: Sequence[str]) -> list[Document | None]:
        """Get the Documents of the keys, None where there is none.

        Raises:
            CorruptRecordError: If a record cannot be read.
        """
        return await self._arun(self._get, keys)

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Write Documents in one transaction; those that are there are replaced.

        Raises:
            TypeError: If metadata has a value that cannot be kept.
        """
        rows = self._new_rows(key_value_pairs)
        self._run(self._set, rows, write=True)

    async def amset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        """Write Documents in one transaction; those that are there are replaced.

        Raises:
            TypeError: If metadata has a value that cannot be kept.
        """
        rows = self._new_rows(key_value_pairs)
        await self._arun(self._set, rows, write=True)

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete the keys that are there, in one transaction."""
        self._run(self._remove, keys, write=True)

    async def amdelete(self, keys: Sequence[str]) -> None:
        """Delete the keys that are there, in one transaction."""
        await self._arun(self._remove, keys, write=True)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with the prefix, in the order of their bytes.

        Keys are read a page at a time; nothing is locked in between.
        """
        page: list[str] = []
        while True:
            page = self._run(self._keys, (prefix or "", page[-1] if page else None))
            yield from page
            if len(page) < _KEYS_PER_PAGE:
                return

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """Yield the keys that begin with the prefix, in the order of their bytes."""
        page: list[str] = []
        while True:
            page = await self._arun(self._keys, (prefix or "", page[-1] if page else None))
            for key in page:
                yield key
            if len(page) < _KEYS_PER_PAGE:
                return

    def lexical_search(
        self,
        query: str,
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as vector stores name it
    ) -> list[tuple[Document, float]]:
        """Find the chunks that match the words of a query best.

        The query means its words, any of which may match; rare ones count more. At most about
        2,000 chunks are ranked: where the words are in more, the most common ones are left out
        (PostgreSQL's own statistics say which these are). Only chunks of documents' current
        versions are found.

        Args:
            query: The query; operators and quotes in it mean nothing.
            k: At most this many chunks, at least 1.
            filter: Fields of the metadata, of the chunk or its document, and the strings,
                numbers or booleans that they equal, all of them.

        Returns:
            The chunks, with metadata as in the vector store, and their scores, above 0, best
            first; none if the query has no word or none of its words occurs.

        Raises:
            ValueError: If the store was made without ``lexical=True``, ``k`` is below 1, or
                the filter is anything else.
            CorruptRecordError: If a record cannot be read.
        """
        return self._run(self._search, self._search_argument(query, k, filter))

    async def alexical_search(
        self,
        query: str,
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as vector stores name it
    ) -> list[tuple[Document, float]]:
        """Like `lexical_search`, async."""
        return await self._arun(self._search, self._search_argument(query, k, filter))

    def drop_lexical_index(self) -> None:
        """Remove the table's full-text index, made with whatever tokenizer or language.

        A store with ``lexical=True`` makes a new one when it is next used.

        Raises:
            ValueError: If the store was made without ``lexical=True``.
        """
        index = self._lexical_index()
        with self._explained(write=True), self._lock:
            self._make_table(with_index=False)
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

    # What they do on a connection, sync or the sync face of an async one

    def _get(self, connection: Connection, keys: Sequence[str]) -> list[Document | None]:
        values = self._values(connection, keys)
        # Each place gets a Document of its own, so that nobody changes another's.
        return [decode_document(values[key], key) if key in values else None for key in keys]

    def _values(self, connection: Connection, keys: Sequence[str]) -> dict[str, str]:
        values: dict[str, str] = {}
        for some in _slices(list(dict.fromkeys(keys)), _KEYS_PER_STATEMENT):
            try:
                values.update(self._rows_of(connection, some))
            except OperationalError as error:
                if "decode to UTF-8" not in str(error.orig):
                    raise
                values.update(self._rows_one_by_one(connection, some))
        return values

    def _rows_of(self, connection: Connection, keys: Sequence[str]) -> dict[str, str]:
        rows = connection.execute(self._select, {"keys": keys}).all()
        return {key: value for key, value in rows}  # noqa: C416 - dict() has no type for rows

    def _rows_one_by_one(self, connection: Connection, keys: Sequence[str]) -> dict[str, str]:
        """Name the record that SQLite cannot decode: of several, it does not say which."""
        values: dict[str, str] = {}
        for key in keys:
            try:
                values.update(self._rows_of(connection, [key]))
            except OperationalError as error:
                raise corrupt(key, error) from error
        return values

    def _set(self, connection: Connection, rows: Sequence[tuple[str, str]]) -> None:
        upsert = self._upsert(connection.dialect)
        for some in _slices(rows, _ROWS_PER_STATEMENT):
            if upsert is not None and upsert.by_place:
                # By the driver: SQLAlchemy takes as long to look at the rows as SQLite to write.
                connection.exec_driver_sql(upsert.text, list(some))
                continue
            named = [{"key": key, "value": value} for key, value in some]
            if upsert is not None:
                connection.exec_driver_sql(upsert.text, named)
            else:
                connection.execute(self._delete, {"keys": [key for key, _ in some]})
                connection.execute(sa.insert(self._table), named)

    def _upsert(self, dialect: sa.Dialect) -> _Upsert | None:
        """How a driver is told to write rows; None if its database cannot replace them."""
        if dialect.driver not in self._upserts:  # making it takes as long as some hundred rows
            statement = self._upsert_statement(dialect.name)
            self._upserts[dialect.driver] = (
                None if statement is None else _Upsert.of(statement, dialect)
            )
        return self._upserts[dialect.driver]

    def _upsert_statement(self, name: str) -> sa.Insert | None:
        if name in {"mysql", "mariadb"}:
            from sqlalchemy.dialects import mysql  # noqa: PLC0415

            insert = mysql.insert(self._table)
            replacing: sa.Insert = insert.on_duplicate_key_update(value=insert.inserted.value)
            return replacing
        if name in {"sqlite", "postgresql"}:
            from sqlalchemy.dialects import postgresql, sqlite  # noqa: PLC0415

            statement = (sqlite if name == "sqlite" else postgresql).insert(self._table)
            upsert: sa.Insert = statement.on_conflict_do_update(
                index_elements=[self._table.c.key], set_={"value": statement.excluded.value}
            )
            return upsert
        return None

    def _remove(self, connection: Connection, keys: Sequence[str]) -> None:
        for some in _slices(keys, _KEYS_PER_STATEMENT):
            connection.execute(self._delete, {"keys": some})

    def _keys(self, connection: Connection, where: tuple[str, str | None]) -> list[str]:
        prefix, after = where
        key = self._table.c.key
        query = sa.select(key).order_by(key).limit(_KEYS_PER_PAGE)
        if prefix:
            query = query.where(key >= prefix)
            end = _after_prefix(prefix)
            if end is not None:
                query = query.where(key < end)
        if after is not None:
            query = query.where(key > after)
        return list(connection.execute(query).scalars())

    def _lexical_index(self) -> LexicalIndex:
        if self._index is None:
            raise ValueError(
                f"{self!r} keeps no full-text index; make it with SQLDocStore(..., lexical=True)"
            )
        return self._index

    def _search_argument(self, query: str, k: int, condition: object) -> _LexicalSearch:
        self._lexical_index()
        if k < 1:
            raise ValueError(f"k must be at least 1; got {k!r}")
        return _LexicalSearch(query, k, check_filter(condition))

    def _search(
        self, connection: Connection, search: _LexicalSearch
    ) -> list[tuple[Document, float]]:
        index = self._lexical_index()
        words = index.words(connection, search.query)
        if not words:
            return []
        judged: dict[str, Document | None] = {}
        documents: dict[str, _Current | None] = {}
        limit = search.k
        while True:
            ranked = index.best(connection, words, limit)
            new = [match for match in ranked if match.key not in judged]
            judged |= self._judge(connection, new, search.filter, documents)
            found = [
                (chunk, match.score) for match in ranked if (chunk := judged[match.key]) is not None
            ]
            if len(found) >= search.k or len(ranked) < limit:
                return found[: search.k]
            limit *= _MORE  # what was left out made room

    def _judge(
        self,
        connection: Connection,
        matches: Sequence[Match],
        condition: Mapping[str, Any],
        documents: dict[str, _Current | None],
    ) -> dict[str, Document | None]:
        """The chunks of current versions that the filter lets through, None for the others.

        Documents that are new are looked up; None if no chunk of them can pass.
        """
        places = [(match, ChunkPlace.of(match.key)) for match in matches]
        new = list(
            dict.fromkeys(p.document for _, p in places if p and p.document not in documents)
        )
        names = [manifest_key(document) for document in new]
        records = self._values(connection, names)
        for document, name in zip(new, names, strict=True):
            manifest = _read_manifest(records[name], name) if name in records else None
            passes = manifest is not None and may_fit(manifest, condition)
            documents[document] = _Current.of(manifest) if manifest and passes else None
        judged: dict[str, Document | None] = {}
        for match, place in places:
            current = documents[place.document] if place else None
            judged[match.key] = None
            if current is not None and place is not None and current.version == place.version:
                chunk = decode_document(match.value, match.key)
                record = chunk.metadata
                simple = simple_metadata({**current.metadata, **record.get(FIRST, {})})
                lies = {name: record[name] for name in PLACE if name in record}
                metadata = chunk_metadata(simple, lies, current.version)
                if fits(metadata, condition):
                    text = with_header(record.get(HEADER, ""), chunk.page_content)
                    judged[match.key] = Document(page_content=text, metadata=metadata)
        return judged

    @staticmethod
    def _new_rows(pairs: Sequence[tuple[str, Document]]) -> list[tuple[str, str]]:
        # A key given twice: the last one counts.
        return [(key, encode_document(document)) for key, document in dict(pairs).items()]

    # Connections

    def _run(self, work: Callable[[Connection, A], T], argument: A, *, write: bool = False) -> T:
        with self._explained(write=write):
            if not self._ready:
                self._make_table()
            with (
                self._lock if self._memory else contextlib.nullcontext(),
                self._engine.begin() if write else self._engine.connect() as connection,
            ):
                return work(connection, argument)

    async def _arun(
        self,
        work: Callable[[Connection, A], T],
        argument: A,
        *,
        write: bool = False,
    ) -> T:
        engine = self._async_engine()
        if engine is None:
            return await run_in_executor(None, self._run, work, argument, write=write)
        if not self._ready:
            await run_in_executor(None, self._run, lambda *_: None, None)
        with self._explained(write=write):
            async with engine.begin() if write else engine.connect() as connection:
                return cast("T", await connection.run_sync(work, argument))

    def _make_engine(self) -> Engine:
        kwargs = dict(self._engine_kwargs)
        url = self._url
        try:
            is_async = url.get_dialect().is_async
        except sa.exc.ArgumentError as error:  # no such dialect or driver
            raise ValueError(f"url names {url.drivername!r}: {error}") from error
        if is_async:
            raise ValueError(
                f"url names {url.drivername!r}, which has no sync form; use 'sqlite:///...' or "
                "'postgresql+psycopg://...': async calls find their driver"
            )
        if self._memory:  # one connection, which all threads take turns at
            kwargs["connect_args"] = {**kwargs["connect_args"], "check_same_thread": False}
            kwargs["poolclass"] = StaticPool
        try:
            engine = sa.create_engine(url, **kwargs)
        except ModuleNotFoundError as error:
            raise ImportError(
                f"{url.drivername} needs the package {error.name!r}. For PostgreSQL: "
                "pip install 'langchain-rse[postgres]', and a URL postgresql+psycopg://..."
            ) from error
        if self._sqlite:
            sa.event.listen(engine, "connect", _tune_sqlite)
        return engine

    def _find_async_url(self) -> URL | None:
        """The URL of the same database through an async driver, if there is one."""
        if self._memory:  # a second driver would see a second database
            return None
        try:
            import greenlet  # noqa: F401, PLC0415

            if self._sqlite:
                import aiosqlite  # noqa: F401, PLC0415

                return self._url.set(drivername="sqlite+aiosqlite")
        except ImportError:
            return None
        # psycopg serves both under one name.
        return self._url if self._url.get_driver_name() == "psycopg" else None

    def _async_engine(self) -> Any:  # noqa: ANN401 - AsyncEngine, imported only where it works
        """The async engine of the running event loop: connections cannot change loops."""
        if self._async_url is None:
            return None
        loop = asyncio.get_running_loop()
        engine = self._async_engines.get(loop)
        if engine is None:
            from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415

            kwargs = dict(self._engine_kwargs)
            if self._sqlite:
                # Opening a file is cheap, and nothing is left to close with the loop.
                kwargs["poolclass"] = NullPool
            engine = create_async_engine(self._async_url, **kwargs)
            if self._sqlite:
                sa.event.listen(engine.sync_engine, "connect", _tune_sqlite)
            self._async_engines[loop] = engine
        return engine

    def _make_table(self, *, with_index: bool = True) -> None:
        with self._lock:
            if self._ready:
                return
            if self._sqlite and not self._memory and not self._url.query.get("uri"):
                Path(str(self._url.database)).parent.mkdir(parents=True, exist_ok=True)
            # Looking first keeps a read-only database usable.
            if not sa.inspect(self._engine).has_table(self._table.name):
                if self._sqlite and not self._memory:
                    self._use_wal()
                try:
                    with self._engine.begin() as connection:
                        connection.execute(CreateTable(self._table, if_not_exists=True))
                except DBAPIError:
                    # PostgreSQL may refuse when two processes make it at once.
                    if not sa.inspect(self._engine).has_table(self._table.name):
                        raise
            if not with_index:
                return
            if self._index is not None:
                with self._engine.connect() as connection:
                    there = self._index.check(connection)
                if not there:
                    with self._engine.begin() as connection:
                        self._index.create(connection)
            self._ready = True

    def _use_wal(self) -> None:
        """Switch the file to WAL mode, which it keeps; SQLite does not wait for this lock."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                with self._engine.connect() as connection:
                    # Of a new file only. Rows of 1 KB are written in half the time that pages of
                    # 4 KB take, and read in the same.
                    connection.exec_driver_sql(f"PRAGMA page_size={_PAGE_SIZE}")
                    connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            except OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    @contextlib.contextmanager
    def _explained(self, *, write: bool) -> Iterator[None]:
        """Say what to do about the errors that users meet."""
        try:
            yield
        except OperationalError as error:
            reason = str(error.orig)
            if "readonly" in reason or "read-only" in reason:
                what = "written to" if write else "opened (its table is missing)"
                raise PermissionError(
                    f"{self!r} cannot be {what}: the database is read-only. Make the file and "
                    "its folder writable, or use a copy"
                ) from error
            if "unable to open database file" in reason:
                raise FileNotFoundError(
                    f"{self!r} cannot be opened: check that the file and its folder exist and that "
                    "you may read them. To read a database from a folder that nobody may write "
                    "to, use 'sqlite:///file:PATH?mode=ro&immutable=1&uri=true'"
                ) from error
            raise


def _is_memory(url: URL) -> bool:
    return not url.database or ":memory:" in url.database or url.query.get("mode") == "memory"


def _tune_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401
    cursor = connection.cursor()
    # In WAL mode this is safe against crashes of the process, and far faster than FULL.
    cursor.execute("PRAGMA synchronous=NORMAL")
    # KiB; lexical search reads pages all over the file again and again, more than fit in 2 MB.
    cursor.execute("PRAGMA cache_size=-32000")
    # The log grows to 32 MB, not 4, before it is written back: that waits for the disk.
    cursor.execute("PRAGMA wal_autocheckpoint=2000")
    cursor.close()


def _slices(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def _after_prefix(prefix: str) -> str | None:
    """The first string after all that begin with the prefix; None if there is none."""
    for index in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[index])
        if code < _LAST_CHARACTER:
            code += 1
            if 0xD800 <= code <= 0xDFFF:  # surrogates are no characters  # noqa: PLR2004
                code = 0xE000
            return prefix[:index] + chr(code)
    return None
