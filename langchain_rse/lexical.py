"""Full-text search of the chunks in a SQL docstore.

The database keeps the index itself, by triggers: a chunk and its words are written, replaced
and deleted in one transaction, whoever writes. A query is data: it means its words, any of
which may match.
"""

# Only names that were checked are put into statements, all else is a parameter.
# ruff: noqa: S608

from __future__ import annotations

import json
import math
import numbers
import re
import sqlite3
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import sqlalchemy as sa
from langchain_core.documents import Document
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from typing_extensions import override

from langchain_rse.schema import DOC_ID, UNENCODABLE, Manifest, simple_metadata

__all__ = [
    "LexicalIndex",
    "LexicalStore",
    "Match",
    "Word",
    "check_filter",
    "check_lexical",
    "fits",
    "index_for",
    "may_fit",
]

# Chunks that may be ranked for a query. Where its words are in more, the most common ones are
# left out: they say least, and reading all their chunks would take most of the time.
_MOST_RANKED = 2_000
# Where there are fewer chunks, PostgreSQL counts them; else it estimates.
_MANY = 10_000
# More words than this say nothing more; the longest queries are passages made up by models.
_MOST_WORDS = 256
# PostgreSQL cuts longer names, so that two could become one.
_LONGEST_NAME = 40
# Of a query, and of a chunk where PostgreSQL, which has a limit, reads it; in characters.
_LONGEST_QUERY = 20_000
_LONGEST_TEXT = 200_000
_FTS = "fts5"
_QUOTE, _TWO_QUOTES = "'", "''"
_WORD = re.compile(r"[^\W_]+")
# Runs of Chinese characters and kana, which stand without spaces.
_UNSPACED = re.compile("([\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+)")
_CONFIGURATION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


@runtime_checkable
class LexicalStore(Protocol):
    """A docstore that finds chunks by their words.

    Sync retrievers call it from a thread of its own, while the vector store is searched.
    """

    def lexical_search(
        self,
        query: str,
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as vector stores name it
    ) -> list[tuple[Document, float]]:
        """Find the chunks that match the words of a query best; see `SQLDocStore`."""

    async def alexical_search(
        self,
        query: str,
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as vector stores name it
    ) -> list[tuple[Document, float]]:
        """Like `lexical_search`, async."""


def check_lexical(docstore: object) -> LexicalStore:
    """Return the docstore if it finds chunks by their words.

    Raises:
        ValueError: If it does not; the message says what to do.
    """
    if isinstance(docstore, LexicalStore) and getattr(docstore, "lexical", True):
        return docstore
    raise ValueError(
        "needs a docstore with a full-text index: SQLDocStore(..., lexical=True), which indexes "
        f"chunks that are there as well; got {docstore!r}"
    )


# ---------------------------------------------------------------------------------------
# Filters


def check_filter(condition: object) -> Mapping[str, Any]:
    """Return a filter that is understood here: fields of the metadata and what they equal.

    Raises:
        ValueError: If it is anything else: to leave it out would let chunks through.
    """
    if condition is None:
        return {}
    if not isinstance(condition, Mapping):
        raise ValueError(  # noqa: TRY004 - of the value of an argument that takes many types
            "filter must be a dict from fields of the metadata to the values they equal, for "
            f"lexical search; got {condition!r}. Use hybrid=0 with other filters"
        )
    for name, value in condition.items():
        plain = isinstance(value, (str, bool, numbers.Real))
        if not isinstance(name, str) or name.startswith("$") or not plain:
            raise ValueError(
                "filter may hold fields of the metadata and the strings, numbers or booleans "
                f"that they equal, for lexical search; got {name!r}: {value!r}. Use hybrid=0 "
                "with other filters"
            )
    return condition


def fits(metadata: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    """Whether a chunk's metadata has all that a filter says; True is not 1."""
    return all(
        name in metadata
        and isinstance(metadata[name], bool) == isinstance(value, bool)
        and bool(metadata[name] == value)
        for name, value in condition.items()
    )


def may_fit(manifest: Manifest, condition: Mapping[str, Any]) -> bool:
    """Whether chunks of a document can fit: what their document has, they have."""
    shared = {**simple_metadata(manifest.metadata), DOC_ID: manifest.doc_id}
    return fits(shared, {name: value for name, value in condition.items() if name in shared})


# ---------------------------------------------------------------------------------------
# Indexes


class Word(NamedTuple):
    """A word of a query.

    Attributes:
        term: The word, as the index is asked for it.
        weight: How much it says: its inverse document frequency.
    """

    term: str
    weight: float


class Match(NamedTuple):
    """A chunk that has words of a query.

    Attributes:
        key: Its key.
        value: Its record.
        score: How well it matches.
    """

    key: str
    value: str | bytes
    score: float


class LexicalIndex(ABC):
    """The full-text index of a table of chunks.

    Args:
        table: Name of the table that has the columns ``key`` and ``value``: letters, digits
            and underscores.
        settings: How words are read, for messages and to tell indexes apart.
    """

    def __init__(self, table: str, settings: str) -> None:
        if len(table) > _LONGEST_NAME:
            raise ValueError(
                f"table_name may have at most {_LONGEST_NAME} characters with lexical=True; "
                f"got {table!r}"
            )
        self.table = table
        self.settings = settings
        self._name = f"{table}_lexical"

    def words(self, connection: Connection, query: str) -> list[Word]:
        """The words of a query that occur, rarest first, as far as they are looked at."""
        terms = self._terms(connection, UNENCODABLE.sub(" ", query[:_LONGEST_QUERY]))[:_MOST_WORDS]
        if not terms:
            return []
        chunks, frequencies = self._frequencies(connection, terms)
        room = _MOST_RANKED
        words: list[Word] = []
        # By the term where frequencies are equal: always the same words.
        for having, term in sorted(zip(frequencies, terms, strict=True)):
            room -= having
            if room < 0 and words:
                break
            if having:
                odds = (max(chunks - having, 0) + 0.5) / (having + 0.5)
                words.append(Word(term, math.log1p(odds)))
        return words

    def best(self, connection: Connection, words: Sequence[Word], limit: int) -> list[Match]:
        """The chunks that match best, best first; scores are positive."""
        statement, parameters = self._search(words)
        rows = connection.execute(sa.text(statement), {**parameters, "most": limit}).all()
        return [Match(key, value, float(score)) for key, value, score in rows]

    def check(self, connection: Connection) -> bool:
        """Whether the index is there.

        Raises:
            ValueError: If it is there, but reads words in another way.
        """
        found = self._settings_found(connection)
        if found is not None and found != self.settings:
            raise ValueError(
                f"the full-text index of table {self.table!r} was built with {found}; this store "
                f"says {self.settings}. Use the same, or call drop_lexical_index() on the store "
                "once, and the index is built anew"
            )
        return found is not None

    def create(self, connection: Connection) -> None:
        """Make the index, of the chunks that are there as well, in one transaction."""
        self._lock(connection)
        if self.check(connection):  # another process made it meanwhile
            return
        try:
            for statement in self._creation():
                connection.exec_driver_sql(statement)
        except DBAPIError as error:
            self._explain(error)
            raise

    def drop(self, connection: Connection) -> None:
        """Remove the index and all that belongs to it, in one transaction."""
        self._lock(connection)
        for statement in self._removal():
            connection.exec_driver_sql(statement)

    @abstractmethod
    def _settings_found(self, connection: Connection) -> str | None:
        """The settings of the index that is there, if one is."""

    @abstractmethod
    def _lock(self, connection: Connection) -> None:
        """Begin a transaction, during which nobody else writes."""

    @abstractmethod
    def _creation(self) -> Iterable[str]:
        """The statements that make the index and fill it."""

    @abstractmethod
    def _removal(self) -> Iterable[str]:
        """The statements that remove it."""

    @abstractmethod
    def _explain(self, error: DBAPIError) -> None:
        """Raise an error that says more, if one is known."""

    @abstractmethod
    def _terms(self, connection: Connection, query: str) -> list[str]:
        """The words of a query, each once."""

    @abstractmethod
    def _frequencies(self, connection: Connection, terms: Sequence[str]) -> tuple[int, list[int]]:
        """The number of chunks, and of those that have each term, as far as it matters."""

    @abstractmethod
    def _search(self, words: Sequence[Word]) -> tuple[str, dict[str, Any]]:
        """The statement that finds the ``most`` best matches, and its parameters."""


class SQLiteIndex(LexicalIndex):
    """FTS5, ranked by its BM25. The texts stand in the table of chunks only.

    Args:
        table: Name of the table.
        tokenizer: What stands after ``tokenize=`` in the documentation of FTS5.
    """

    def __init__(self, table: str, tokenizer: str) -> None:
        if not tokenizer.strip() or "\0" in tokenizer:
            raise ValueError(
                "tokenizer must be one of SQLite's FTS5, such as 'unicode61' or "
                f"'porter unicode61'; got {tokenizer!r}"
            )
        super().__init__(table, f"tokenizer={tokenizer!r}")
        self._fts = f'"{self._name}"'
        self._keys = f'"{self._name}_keys"'
        self._trigrams = tokenizer.split(maxsplit=1)[0].lower() == "trigram"
        literal = tokenizer.replace("'", "''")
        self._definition = (
            f"CREATE VIRTUAL TABLE {self._fts} USING {_FTS}(text, content='', tokenize='{literal}')"
        )

    @override
    def _settings_found(self, connection: Connection) -> str | None:
        query = sa.text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name")
        sql = connection.execute(query, {"name": self._name}).scalar()
        if sql is None or sql == self._definition:
            return None if sql is None else self.settings
        literal = str(sql).partition("tokenize='")[2].rpartition("'")[0]
        return f"tokenizer={literal.replace(_TWO_QUOTES, _QUOTE)!r}"

    @override
    def _lock(self, connection: Connection) -> None:
        # The driver begins no transaction by itself before such statements.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    @override
    def _creation(self) -> Iterable[str]:
        table, fts, keys = f'"{self.table}"', self._fts, self._keys

        def is_chunk(key: str) -> str:
            return f"{key} GLOB '?*/?*/[0-9]*' AND {key} NOT GLOB '*/*/*[^0-9]*'"

        def text(value: str) -> str:
            # SQLite's texts end at NUL, so it becomes a space; an escaped backslash is none of
            # what follows. A record that cannot be read has no words, and can be deleted.
            readable = f"typeof({value}) = 'text' AND json_valid({value})"
            json = rf"replace(replace({value}, '\\', '\\ '), '\u0000', ' ')"
            # Questions name the document and chunks do not, so its id is read as words too, and
            # so is a chunk's header.
            parts = " || ' ' || ".join(
                f"coalesce(json_extract({json}, '$.{field}'), '')"
                for field in ("metadata.doc_id", "metadata.header", "page_content")
            )
            return f"CASE WHEN {readable} THEN {parts} END"

        # Without texts of its own, the index has to be told what to forget.
        forget = (
            f"INSERT INTO {fts}({fts}, rowid, text) "
            f"SELECT 'delete', id, {text('old.value')} FROM {keys} WHERE key = old.key;"
        )
        learn = (
            f"INSERT INTO {fts}(rowid, text) "
            f"SELECT id, {text('new.value')} FROM {keys} WHERE key = new.key;"
        )
        triggers = {
            "insert": ("new.key", f"INSERT INTO {keys}(key) VALUES (new.key); {learn}"),
            "update": (
                "old.key",
                f"{forget} UPDATE {keys} SET key = new.key WHERE key = old.key; {learn}",
            ),
            "delete": ("old.key", f"{forget} DELETE FROM {keys} WHERE key = old.key;"),
        }
        yield self._definition
        # The row ids of the chunks' own table may change.
        yield f"CREATE TABLE {keys} (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE)"
        yield f"INSERT INTO {keys}(key) SELECT key FROM {table} WHERE {is_chunk('key')}"
        yield (
            f"INSERT INTO {fts}(rowid, text) "
            f"SELECT id, {text('value')} FROM {keys} JOIN {table} USING (key) ORDER BY id"
        )
        # One piece is read faster than many; what is written later is merged bit by bit.
        yield f"INSERT INTO {fts}({fts}) VALUES ('optimize')"
        for event, (key, actions) in triggers.items():
            yield (
                f'CREATE TRIGGER "{self._name}_{event}" AFTER {event.upper()} ON {table} '
                f"WHEN {is_chunk(key)} BEGIN {actions} END"
            )

    @override
    def _removal(self) -> Iterable[str]:
        for event in ("insert", "update", "delete"):
            yield f'DROP TRIGGER IF EXISTS "{self._name}_{event}"'
        yield f"DROP TABLE IF EXISTS {self._fts}"
        yield f"DROP TABLE IF EXISTS {self._keys}"

    @override
    def _explain(self, error: DBAPIError) -> None:
        reason = str(error.orig)
        if "no such module" in reason:
            raise RuntimeError(
                f"lexical=True needs SQLite with its extension FTS5, which this Python's SQLite "
                f"{sqlite3.sqlite_version} was built without: use another build of Python, "
                "PostgreSQL, or lexical=False"
            ) from error
        if "tokenize" in reason:
            raise ValueError(
                f"SQLite's FTS5 does not take {self.settings} ({reason}); use one that it has, "
                "such as 'unicode61' or 'porter unicode61'"
            ) from error

    @override
    def _terms(self, connection: Connection, query: str) -> list[str]:
        words = _WORD.findall(unicodedata.normalize("NFC", query).lower())
        if self._trigrams:
            words = [piece for word in words for piece in _pieces(word)]
        return list(dict.fromkeys(words))

    @override
    def _frequencies(self, connection: Connection, terms: Sequence[str]) -> tuple[int, list[int]]:
        chunks = connection.execute(sa.text(f"SELECT count(*) FROM {self._keys}")).scalar_one()
        having = sa.text(
            f"SELECT (SELECT count(*) FROM (SELECT 1 FROM {self._fts} "
            f"WHERE {self._fts} MATCH value LIMIT {_MOST_RANKED + 1})) "
            "FROM json_each(:queries) ORDER BY key"
        )
        queries = json.dumps([f'"{term}"' for term in terms])
        return chunks, list(connection.execute(having, {"queries": queries}).scalars())

    @override
    def _search(self, words: Sequence[Word]) -> tuple[str, dict[str, Any]]:
        # In quotes, a word is no operator; it consists of letters and digits only.
        query = " OR ".join(f'"{word.term}"' for word in words)
        # As bytes: what is no UTF-8 would be an error that does not say where.
        statement = (
            "SELECT key, CAST(value AS BLOB), score FROM (SELECT rowid AS id, -rank AS score "
            f"FROM {self._fts} WHERE {self._fts} MATCH :query ORDER BY rank LIMIT :most) "
            f'JOIN {self._keys} USING (id) JOIN "{self.table}" USING (key) '
            "ORDER BY score DESC, id"
        )
        return statement, {"query": query}


def _pieces(word: str) -> Iterator[str]:
    """What to look for with FTS5's tokenizer ``trigram``, which finds parts of words.

    A word as it is; of a clause without spaces, every three characters, since hardly any text
    has the whole clause.
    """
    for number, run in enumerate(_UNSPACED.split(word)):
        if number % 2 and len(run) > 3:  # noqa: PLR2004 - a trigram's
            yield from map("".join, zip(run, run[1:], run[2:], strict=False))
        elif run:
            yield run


class PostgresIndex(LexicalIndex):
    """A table of ``tsvector`` with a GIN index.

    What PostgreSQL ranks by knows nothing of how rare a word is, so words are ranked one by
    one and weighed.

    Args:
        table: Name of the table.
        language: A text search configuration.
    """

    def __init__(self, table: str, language: str) -> None:
        if not _CONFIGURATION.fullmatch(language):
            raise ValueError(
                "language must be the name of a text search configuration of PostgreSQL, such "
                f"as 'simple' or 'english'; got {language!r}"
            )
        super().__init__(table, f"language={language!r}")
        self._language = language
        self._side = f'"{self._name}"'

    @override
    def _settings_found(self, connection: Connection) -> str | None:
        found = sa.text("SELECT obj_description(to_regclass(:name), 'pg_class')")
        settings: str | None = connection.execute(found, {"name": self._side}).scalar()
        return settings

    @override
    def _lock(self, connection: Connection) -> None:
        connection.exec_driver_sql(f'LOCK TABLE "{self.table}" IN SHARE ROW EXCLUSIVE MODE')

    @override
    def _creation(self) -> Iterable[str]:
        table, side = f'"{self.table}"', self._side
        words, update = f'"{self._name}_words"', f'"{self._name}_update"'
        is_chunk = "~ '^[^/]+/[^/]+/[0-9]+$'"
        yield (
            f'CREATE TABLE {side} (key varchar(512) COLLATE "C" PRIMARY KEY '
            f"REFERENCES {table} ON DELETE CASCADE, words tsvector NOT NULL)"
        )
        comment = self.settings.replace("'", "''")
        yield f"COMMENT ON TABLE {side} IS '{comment}'"
        # Of the escapes in JSON, PostgreSQL takes neither NUL nor lone surrogates: they become
        # spaces; an escaped backslash and a pair of surrogates are left as they are. A record
        # that cannot be read has no words.
        high, low = "[dD][89abAB][0-9a-fA-F]{2}", "[dD][c-fC-F][0-9a-fA-F]{2}"
        yield (
            f"CREATE FUNCTION {words}(language regconfig, value text) RETURNS tsvector "
            "LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN "
            r"IF position('\u' in value) > 0 THEN value := regexp_replace(value, "
            rf"'(\\\\|\\u{high}\\u{low})|\\u(0000|{high}|{low})', '\1 ', 'g'); END IF; "
            "RETURN to_tsvector(language, "
            # A name such as "ACME_2023_10-K.pdf" is read as its words.
            r"coalesce(translate(value::json #>> '{metadata,doc_id}', '_-./\', '     '), '') "
            "|| ' ' || coalesce(value::json #>> '{metadata,header}', '') "
            f"|| ' ' || coalesce(left(value::json ->> 'page_content', {_LONGEST_TEXT}), '')); "
            "EXCEPTION WHEN data_exception THEN RETURN ''::tsvector; END $$"
        )
        yield (
            f"CREATE FUNCTION {update}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"INSERT INTO {side} VALUES (NEW.key, {words}('{self._language}', NEW.value)) "
            "ON CONFLICT (key) DO UPDATE SET words = excluded.words; RETURN NULL; END $$"
        )
        yield (
            f"INSERT INTO {side} SELECT key, {words}('{self._language}', value) "
            f"FROM {table} WHERE key {is_chunk}"
        )
        yield f'CREATE INDEX "{self._name}_gin" ON {side} USING gin (words)'
        yield f"ANALYZE {side}"
        yield (
            f"CREATE TRIGGER {update} AFTER INSERT OR UPDATE ON {table} FOR EACH ROW "
            f"WHEN (NEW.key {is_chunk}) EXECUTE FUNCTION {update}()"
        )

    @override
    def _removal(self) -> Iterable[str]:
        yield f'DROP TRIGGER IF EXISTS "{self._name}_update" ON "{self.table}"'
        yield f'DROP FUNCTION IF EXISTS "{self._name}_update", "{self._name}_words"'
        yield f"DROP TABLE IF EXISTS {self._side}"

    @override
    def _explain(self, error: DBAPIError) -> None:
        if "text search configuration" in str(error.orig):
            raise ValueError(
                f"PostgreSQL has no text search configuration {self._language!r}; SELECT cfgname "
                "FROM pg_ts_config lists those there are"
            ) from error

    @override
    def _terms(self, connection: Connection, query: str) -> list[str]:
        words = sa.text(
            "SELECT lexeme FROM unnest(to_tsvector(CAST(:language AS regconfig), :query)) "
            "ORDER BY positions[1], lexeme"
        )
        parameters = {"language": self._language, "query": query}
        return list(connection.execute(words, parameters).scalars())

    @override
    def _frequencies(self, connection: Connection, terms: Sequence[str]) -> tuple[int, list[int]]:
        large, shares = self._statistics(connection, terms)
        count = sa.text(f"SELECT count(*) FROM {self._side}")
        chunks = large or connection.execute(count).scalar_one()
        having = sa.text(
            f"SELECT (SELECT count(*) FROM (SELECT 1 FROM {self._side} "
            f"WHERE words @@ CAST(term AS tsquery) LIMIT {_MOST_RANKED + 1}) AS found) "
            "FROM unnest(CAST(:terms AS text[])) WITH ORDINALITY AS terms(term, place) "
            "ORDER BY place"
        )
        others = [term for term in terms if term not in shares]
        parameters = {"terms": [_tsquery(term) for term in others]}
        counted = dict(zip(others, connection.execute(having, parameters).scalars(), strict=True))
        return chunks, [
            counted[term] if term in counted else round(shares[term] * chunks) for term in terms
        ]

    def _statistics(
        self, connection: Connection, terms: Sequence[str]
    ) -> tuple[int, dict[str, float]]:
        """What PostgreSQL keeps for its own plans: see its catalog ``pg_stats``.

        To count all chunks of common words would take longer than all else.

        Returns:
            About how many chunks there are, 0 if few, and the share of them that has a term,
            of the most common terms of many chunks.
        """
        known = sa.text(
            "SELECT CAST(reltuples AS bigint), term, share FROM pg_class "
            "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "LEFT JOIN (pg_stats CROSS JOIN LATERAL unnest(CAST(CAST(most_common_elems AS text) "
            "AS text[]), most_common_elem_freqs) AS common(term, share)) ON schemaname = nspname "
            "AND tablename = relname AND attname = 'words' AND term = ANY(:terms) "
            "WHERE pg_class.oid = to_regclass(:name) AND reltuples >= :many"
        )
        parameters = {"terms": list(terms), "name": self._side, "many": _MANY}
        rows = connection.execute(known, parameters).all()
        shares = {term: float(share) for _, term, share in rows if term is not None}
        return (int(rows[0][0]) if rows else 0), shares

    @override
    def _search(self, words: Sequence[Word]) -> tuple[str, dict[str, Any]]:
        parameters: dict[str, Any] = {"query": " | ".join(_tsquery(word.term) for word in words)}
        for place, word in enumerate(words):
            parameters |= {f"term{place}": _tsquery(word.term), f"weight{place}": word.weight}
        # 1: longer texts count less, by the logarithm of their length.
        score = " + ".join(
            f":weight{place} * ts_rank(words, CAST(:term{place} AS tsquery), 1)"
            for place in range(len(words))
        )
        statement = (
            f"SELECT key, value, score FROM (SELECT key, {score} AS score FROM {self._side} "
            "WHERE words @@ CAST(:query AS tsquery) ORDER BY score DESC, key LIMIT :most) AS best "
            f'JOIN "{self.table}" USING (key) ORDER BY score DESC, key'
        )
        return statement, parameters


def _tsquery(lexeme: str) -> str:
    """A lexeme in the language of queries: in quotes, nothing in it is an operator."""
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def index_for(backend: str, table: str, *, tokenizer: str, language: str) -> LexicalIndex:
    """The index of a table in a database of that kind.

    Raises:
        ValueError: If there is none for it, or a setting cannot be used.
    """
    if backend == "sqlite":
        return SQLiteIndex(table, tokenizer)
    if backend == "postgresql":
        return PostgresIndex(table, language)
    raise ValueError(f"lexical=True works on SQLite and PostgreSQL; url names {backend!r}")
