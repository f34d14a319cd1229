"""Full-text search of the chunks in a SQL docstore.

The database updates the index by triggers: a chunk and its words are written, replaced and
deleted in one transaction, by any writer. Any word of a query may match; operators in it have no
effect.
"""

# Only checked names are put into statements, all other values are parameters.
# ruff: noqa: S608

import json
import numbers
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import sqlalchemy as sa
from langchain_core.documents import Document
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from typing_extensions import override

from langchain_rse._messages import warn
from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.databases import is_damage
from langchain_rse.stores.json import decode_document, is_readable
from langchain_rse.stores.metadata import UNENCODABLE
from langchain_rse.stores.records import (
    CHUNK_ID,
    LOCATION_FIELDS,
    Manifest,
    chunk_document,
    manifest_key,
)

# Chunks that are ranked for a query. If more have one of its words, the most common are left out.
_MOST_RANKED = 2_000
# The words used of a query; longer ones are passages, whose further words hardly matter.
_MOST_WORDS = 256
_LONGEST_QUERY = 20_000  # characters
_WORD = re.compile(r"[^\W_]+")
# For FTS5's tokenizer "trigram": Chinese characters and kana are written without spaces, so each
# sequence of three is a term; any other word is a term as a whole.
_UNSPACED = "\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TRIGRAM_OR_WORD = re.compile(rf"(?=([{_UNSPACED}]{{3}}))|([^\W_{_UNSPACED}]+)")
_CONFIGURATION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


def check_lexical(docstore: object) -> Any:  # noqa: ANN401 - a docstore with `lexical_search`
    """Return the docstore if it has a full-text index, else raise a ValueError."""
    if getattr(docstore, "lexical", False):
        return docstore
    raise ValueError(
        "needs a docstore with a full-text index: SQLDocStore(..., lexical=True), which also "
        f"indexes the chunks already in its table; got {docstore!r}"
    )


def check_filter(condition: object) -> Mapping[str, Any]:
    """Return a filter if lexical search can apply it, else raise a ValueError."""
    if condition is None:
        return {}
    if isinstance(condition, Mapping) and all(map(_is_equality, condition.items())):
        return condition
    raise ValueError(
        "filter must be a dict from metadata fields to the strings, numbers or booleans that "
        f"they equal, for lexical search; got {condition!r}. Use hybrid=0 with other filters"
    )


def _is_equality(item: tuple[object, object]) -> bool:
    """True if an item of a filter is a field and the value that it must equal."""
    name, value = item
    if not isinstance(name, str) or name.startswith("$"):
        return False
    return isinstance(value, (str, numbers.Real))


class LexicalIndex:
    """The full-text index of a table of chunks; the settings say how text is split into words."""

    # SQL, with the table's name and the settings in braces.
    _creation: ClassVar[tuple[str, ...]]
    _removal: ClassVar[tuple[str, ...]]
    _settings_query: ClassVar[str]
    _lock: ClassVar[str]  # begins a transaction that excludes other writers
    # Each word of :query, and the number of chunks that have it, counted up to :most.
    _count: ClassVar[str]
    # The :limit chunks that match :query best: key, record, score, the document's manifest.
    _search: ClassVar[str]
    _within: ClassVar[str]  # true for chunks whose keys begin with :prefix, all before :end
    _or: ClassVar[str]  # the operator between the words of :query
    # Queries for a key of each problem: a row if there is one.
    _problems: ClassVar[tuple[str, ...]]

    def __init__(self, table: str, settings: str) -> None:
        self._table = table
        self._settings = settings

    def create(self, connection: Connection) -> None:
        """Create the index if it is missing, with the chunks of the table, in one transaction."""
        if self._is_there(connection):  # looking first keeps a read-only database usable
            return
        self.lock(connection)
        if self._is_there(connection):  # another process made it meanwhile
            return
        self.build(connection)

    def build(self, connection: Connection) -> None:
        """Build the index from the records, in a transaction that has its lock."""
        try:
            for statement in self._creation:
                connection.exec_driver_sql(self._sql(statement))
        except DBAPIError as error:
            reason = str(error.orig)
            if "tokenize" in reason or "text search configuration" in reason:
                raise ValueError(
                    f"the database does not know {self._settings} ({reason}). SQLite knows "
                    "'unicode61' and 'porter unicode61'; for PostgreSQL, see its pg_ts_config"
                ) from error
            raise

    def drop(self, connection: Connection) -> None:
        """Remove the index and its triggers, in one transaction."""
        self.lock(connection)
        self.remove(connection)

    def lock(self, connection: Connection) -> None:
        """Begin a transaction that excludes other writers."""
        connection.exec_driver_sql(self._sql(self._lock))

    def fits(self, connection: Connection) -> bool:
        """True if the index has the words of the chunks that the table has now."""
        for query in self._problems:
            if connection.exec_driver_sql(self._sql(query)).first() is not None:
                return False
        return True

    def remove(self, connection: Connection) -> None:
        """Remove the index and its triggers, in a transaction that has its lock."""
        for statement in self._removal:
            connection.exec_driver_sql(self._sql(statement))

    def search(
        self, connection: Connection, query: str, k: int, condition: object, prefix: str
    ) -> list[tuple[Document, float]]:
        """Find chunks; see `SQLDocStore.lexical_search`."""
        if k < 1:
            raise ValueError(f"k must be at least 1; got {k!r}")
        reader = _MatchReader(check_filter(condition))
        # U+FFFF sorts after all characters of keys in the order of bytes.
        within = {"prefix": prefix, "end": f"{prefix}\uffff"}
        words = self._choose_words(connection, query, within)
        if not words:
            return []
        parameters = {"query": self._or.join(words), "words": json.dumps(words), **within}
        statement = sa.text(self._sql(self._search))
        limit = k
        while True:
            rows = connection.execute(statement, {**parameters, "limit": limit}).all()
            chunks = reader.read(rows)
            if len(chunks) >= k or len(rows) < limit:
                return chunks[:k]
            limit *= 16  # the other rows were old versions, or excluded by the filter

    def _is_there(self, connection: Connection) -> bool:
        """True if the index exists; a ValueError if it was built with other settings."""
        settings = connection.exec_driver_sql(self._sql(self._settings_query)).scalar()
        if settings is not None and settings != self._settings:
            raise ValueError(
                f"the full-text index of table {self._table!r} was built with {settings}; this "
                f"store says {self._settings}. Use the same, or call drop_lexical_index() once"
            )
        return settings is not None

    def _choose_words(
        self, connection: Connection, query: str, within: Mapping[str, str]
    ) -> dict[str, int]:
        """Choose the words of a query to search for, rarest first, with their numbers of chunks."""
        text = self._terms(UNENCODABLE.sub(" ", query[:_LONGEST_QUERY]))
        parameters = {"query": text, "most": _MOST_RANKED + 1, **within}
        rows = connection.execute(sa.text(self._sql(self._count)), parameters)
        counts = sorted((count, term) for term, count in rows)
        words: dict[str, int] = {}
        ranked_chunks = 0
        for count, term in counts:
            if words and ranked_chunks + count > _MOST_RANKED:
                break
            if count:
                words[term] = count
                ranked_chunks += count
        return words

    def _terms(self, query: str) -> str:
        """Convert a query to the form that `_count` takes."""
        return query

    def _sql(self, statement: str) -> str:
        within = self._within.format(table=self._table)
        names = {"table": self._table, "settings": self._settings, "within": within}
        return statement.format(**names, words=_MOST_WORDS)


class _MatchReader:
    """Makes chunks of the rows that match a query; keeps the manifests that it has read."""

    def __init__(self, condition: Mapping[str, Any]) -> None:
        self._condition = condition
        self._manifests: dict[str, Manifest | None] = {}

    def read(self, rows: Iterable[Any]) -> list[tuple[Document, float]]:
        """Make the chunks of current versions that pass the filter, with their scores."""
        chunks: list[tuple[Document, float]] = []
        for key, record, score, manifest_record in rows:
            try:
                chunk = self._chunk(key, record, manifest_record)
            except CorruptRecordError as error:
                warn(f"lexical search leaves out a record: {error}")
                continue
            if chunk is not None:
                chunks.append((chunk, score))
        return chunks

    def _chunk(self, key: str, record: str, manifest_record: str | None) -> Document | None:
        parts = key.split("/")
        if len(parts) != 3:  # noqa: PLR2004 - see _is_chunk
            raise CorruptRecordError(
                f"the docstore's indexes name the record {key!r}, which is no chunk; "
                "check(repair=True) builds them again"
            )
        document, version, _ = parts
        if document not in self._manifests:
            self._manifests[document] = None  # if it cannot be read
            self._manifests[document] = self._manifest(document, manifest_record)
        manifest = self._manifests[document]
        if manifest is None or manifest.current is None or manifest.current.name != version:
            return None
        chunk = chunk_document(decode_document(record, key), key, manifest)
        return chunk if _passes(chunk.metadata, self._condition) else None

    def _manifest(self, document: str, record: str | None) -> Manifest | None:
        """Read a document's manifest; None without one, or if the filter excludes all chunks."""
        if record is None:
            return None
        key = manifest_key(document)
        manifest = Manifest.from_document(decode_document(record, key), key)
        is_adopted = manifest.current is not None and manifest.current.adopted
        if is_adopted and self._condition.keys() & {*LOCATION_FIELDS, CHUNK_ID}:
            return None  # the vector store has other values in these fields
        return manifest


def _passes(metadata: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    """True if metadata has all values of a filter; True does not equal 1."""
    for name, value in condition.items():
        if name not in metadata or isinstance(metadata[name], bool) != isinstance(value, bool):
            return False
        if metadata[name] != value:
            return False
    return True


class SQLiteIndex(LexicalIndex):
    """An FTS5 table, ranked by BM25. Only the table of chunks has the texts.

    FTS5 removes the words of a chunk by the text that it is given. If this is not the text that was
    added, because the record is damaged, the whole index is broken. So
    `forget_damaged` has to be called before records are replaced or removed.
    """

    _is_chunk = "key GLOB '?*/?*/[0-9]*' AND key NOT GLOB '*/*/*[^0-9]*'"
    # SQLite's texts end at NUL, so NUL becomes a space; an escaped backslash and "u0000" is no NUL.
    _json = r"replace(replace(value, '\\', '\\ '), '\u0000', ' ')"
    _add_key = (
        'INSERT INTO "{table}_lexical_keys"(key) '
        f'SELECT key FROM "{{table}}" WHERE key = new.key AND {_is_chunk} '
        'AND NOT EXISTS (SELECT 1 FROM "{table}_lexical_keys" WHERE key = new.key);'
    )
    _add = (
        'INSERT INTO "{table}_lexical"(rowid, text) '
        'SELECT id, text FROM "{table}_lexical_texts" WHERE key = new.key;'
    )
    # The index keeps no texts, so it must be given the words to remove.
    _remove = (
        'INSERT INTO "{table}_lexical"("{table}_lexical", rowid, text) '
        """SELECT 'delete', id, text FROM "{table}_lexical_texts" WHERE key = old.key;"""
    )
    _creation = (
        """CREATE VIRTUAL TABLE "{table}_lexical" USING fts5(text,
            content='{table}_lexical_texts', content_rowid='id', {settings})""",
        # Row numbers of the chunks' own table may change, so the index numbers the keys itself. No
        # number is used twice: that of a forgotten chunk keeps its words.
        """CREATE TABLE "{table}_lexical_keys" (id INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL UNIQUE)""",
        # The words of a chunk are those of its document's id, its headers and its text. A record
        # that is not JSON has none, and can be deleted.
        f"""CREATE VIEW "{{table}}_lexical_texts" AS
            SELECT id, key, CASE WHEN typeof(value) = 'text' AND json_valid(value) THEN
                coalesce(json_extract({_json}, '$.metadata.doc_id'), '') || ' ' ||
                coalesce(json_extract({_json}, '$.metadata.header'), '') || ' ' ||
                coalesce(json_extract({_json}, '$.metadata.table_header'), '') || ' ' ||
                coalesce(json_extract({_json}, '$.page_content'), '') END AS text
            FROM "{{table}}_lexical_keys" JOIN "{{table}}" USING (key)""",
        f"""INSERT INTO "{{table}}_lexical_keys"(key)
            SELECT key FROM "{{table}}" WHERE {_is_chunk}""",
        """INSERT INTO "{table}_lexical"(rowid, text)
            SELECT id, text FROM "{table}_lexical_texts" ORDER BY id""",
        """INSERT INTO "{table}_lexical"("{table}_lexical") VALUES ('optimize')""",
        f"""CREATE TRIGGER "{{table}}_lexical_insert" AFTER INSERT ON "{{table}}" BEGIN
            DELETE FROM "{{table}}_lexical_keys" WHERE key = new.key;
            {_add_key} {_add} END""",
        f"""CREATE TRIGGER "{{table}}_lexical_update" BEFORE UPDATE ON "{{table}}" BEGIN
            {_remove} END""",
        f"""CREATE TRIGGER "{{table}}_lexical_updated" AFTER UPDATE ON "{{table}}" BEGIN
            {_add_key} {_add} END""",
        f"""CREATE TRIGGER "{{table}}_lexical_delete" BEFORE DELETE ON "{{table}}" BEGIN
            {_remove} DELETE FROM "{{table}}_lexical_keys" WHERE key = old.key; END""",
    )
    _removal = (
        'DROP TRIGGER IF EXISTS "{table}_lexical_insert"',
        'DROP TRIGGER IF EXISTS "{table}_lexical_update"',
        'DROP TRIGGER IF EXISTS "{table}_lexical_updated"',
        'DROP TRIGGER IF EXISTS "{table}_lexical_delete"',
        'DROP VIEW IF EXISTS "{table}_lexical_texts"',
        'DROP TABLE IF EXISTS "{table}_lexical"',
        'DROP TABLE IF EXISTS "{table}_lexical_keys"',
    )
    _settings_query = (
        "SELECT rtrim(substr(sql, instr(sql, 'tokenize=')), ')') FROM sqlite_master "
        "WHERE type = 'table' AND name = '{table}_lexical'"
    )
    _lock = "BEGIN IMMEDIATE"  # Python's driver begins none before CREATE
    _count = """SELECT value, (SELECT count(*) FROM (
            SELECT 1 FROM "{table}_lexical" WHERE "{table}_lexical" MATCH value AND {within}
            LIMIT :most))
        FROM json_each(:query)"""
    _search = """SELECT chunk.key, chunk.value, score, manifest.value
        FROM (SELECT rowid AS id, -rank AS score FROM "{table}_lexical"
            WHERE "{table}_lexical" MATCH :query AND {within} ORDER BY +rank LIMIT :limit)
        JOIN "{table}_lexical_keys" USING (id)
        JOIN "{table}" AS chunk USING (key)
        LEFT JOIN "{table}" AS manifest
            ON manifest.key = 'manifest/' || substr(chunk.key, 1, instr(chunk.key, '/') - 1)
        ORDER BY score DESC, id"""
    _within = """(:prefix = '' OR EXISTS (SELECT 1 FROM "{table}_lexical_keys"
        WHERE id = "{table}_lexical".rowid AND key >= :prefix AND key < :end))"""
    _or = " OR "
    _problems = (
        f"""SELECT key FROM "{{table}}" WHERE {_is_chunk}
            AND key NOT IN (SELECT key FROM "{{table}}_lexical_keys") LIMIT 1""",
        """SELECT key FROM "{table}_lexical_keys"
            WHERE key NOT IN (SELECT key FROM "{table}") LIMIT 1""",
    )
    # FTS5's own check, which compares the index with the texts of the chunks.
    _integrity_check = (
        """INSERT INTO "{table}_lexical"("{table}_lexical", rank) VALUES ('integrity-check', 1)"""
    )

    def __init__(self, table: str, tokenizer: str) -> None:
        literal = tokenizer.replace("'", "''")
        super().__init__(table, f"tokenize='{literal}'")
        self._trigrams = tokenizer.strip().lower().startswith("trigram")

    @override
    def fits(self, connection: Connection) -> bool:
        try:
            connection.exec_driver_sql(self._sql(self._integrity_check))
        except DBAPIError as error:
            if is_damage(error):
                return False
            if "readonly" not in str(error.orig):  # the check counts as writing
                raise
        return super().fits(connection)

    @override
    def remove(self, connection: Connection) -> None:
        if is_indexed(connection, self._table):
            # FTS5 does not open, and so does not remove, a table whose version is damaged.
            connection.exec_driver_sql(
                self._sql("""REPLACE INTO "{table}_lexical_config" VALUES ('version', 4)""")
            )
        super().remove(connection)

    @override
    def _terms(self, query: str) -> str:
        text = unicodedata.normalize("NFC", query).lower()
        if self._trigrams:
            words = [trigram or word for trigram, word in _TRIGRAM_OR_WORD.findall(text)]
        else:
            words = _WORD.findall(text)
        # In quotes, a word is no operator.
        return json.dumps([f'"{word}"' for word in dict.fromkeys(words)][:_MOST_WORDS])


class PostgresIndex(LexicalIndex):
    """A table of ``tsvector`` with a GIN index."""

    _is_chunk = "~ '^[^/]+/[^/]+/[0-9]+$'"
    _creation = (
        """CREATE TABLE "{table}_lexical" (key varchar(512) COLLATE "C" PRIMARY KEY
            REFERENCES "{table}" ON DELETE CASCADE, words tsvector NOT NULL)""",
        """COMMENT ON TABLE "{table}_lexical" IS $${settings}$$""",
        # The words of a chunk are those of its document's id, its headers and its text. PostgreSQL
        # takes neither NUL nor lone surrogates: they become spaces. "_", "-", ".", "/" and "\" in
        # an id separate words. A tsvector holds 1 MB. A record that is not JSON has no words.
        r"""CREATE FUNCTION "{table}_lexical_words"(language regconfig, value text)
            RETURNS tsvector LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
            value := regexp_replace(value, '(\\\\)|\\u(0000|d[89a-f]..)', '\1 ', 'g');
            RETURN to_tsvector(language,
                coalesce(translate(value::json #>> '{{metadata,doc_id}}', '_-./\', '     '), '')
                || ' ' || coalesce(value::json #>> '{{metadata,header}}', '')
                || ' ' || coalesce(value::json #>> '{{metadata,table_header}}', '')
                || ' ' || coalesce(left(value::json ->> 'page_content', 200000), ''));
            EXCEPTION WHEN data_exception THEN RETURN ''; END $$""",
        """CREATE FUNCTION "{table}_lexical_update"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO "{table}_lexical"
            VALUES (NEW.key, "{table}_lexical_words"('{settings}', NEW.value))
            ON CONFLICT (key) DO UPDATE SET words = excluded.words; RETURN NULL; END $$""",
        f"""INSERT INTO "{{table}}_lexical" SELECT key, "{{table}}_lexical_words"('{{settings}}',
            value) FROM "{{table}}" WHERE key {_is_chunk}""",
        'CREATE INDEX "{table}_lexical_gin" ON "{table}_lexical" USING gin (words)',
        'ANALYZE "{table}_lexical"',
        f"""CREATE TRIGGER "{{table}}_lexical_update" AFTER INSERT OR UPDATE ON "{{table}}"
            FOR EACH ROW WHEN (NEW.key {_is_chunk})
            EXECUTE FUNCTION "{{table}}_lexical_update"()""",
    )
    _removal = (
        'DROP TRIGGER IF EXISTS "{table}_lexical_update" ON "{table}"',
        'DROP FUNCTION IF EXISTS "{table}_lexical_update", "{table}_lexical_words"',
        'DROP TABLE IF EXISTS "{table}_lexical"',
    )
    _settings_query = """SELECT obj_description(to_regclass('"{table}_lexical"'), 'pg_class')"""
    _lock = 'LOCK TABLE "{table}" IN SHARE ROW EXCLUSIVE MODE'
    # In quotes, nothing in a word is an operator.
    _count = r"""SELECT CAST(term AS text), (SELECT count(*) FROM (
            SELECT 1 FROM "{table}_lexical" WHERE words @@ term AND {within} LIMIT :most) AS chunks)
        FROM (SELECT CAST('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || ''''
                AS tsquery) AS term
            FROM unnest(to_tsvector('{settings}', :query))
            ORDER BY positions[1], lexeme LIMIT {words}) AS terms"""
    # ts_rank ignores how rare a word is, so each word is ranked by itself and weighted by BM25's
    # inverse document frequency. 1: divided by 1 + the logarithm of the text's length.
    _search = """WITH weighted AS MATERIALIZED (
            SELECT CAST(word.key AS tsquery) AS term, ln(1 + (greatest(
                total - CAST(word.value AS float), 0) + 0.5) / (CAST(word.value AS float) + 0.5)
            ) AS weight
            FROM json_each_text(CAST(:words AS json)) AS word,
                (SELECT count(*) AS total FROM "{table}_lexical" WHERE {within}) AS chunks)
        SELECT chunk.key, chunk.value, score, manifest.value FROM (
            SELECT key, (SELECT sum(weight * ts_rank(words, term, 1)) FROM weighted) AS score
            FROM "{table}_lexical" WHERE words @@ CAST(:query AS tsquery) AND {within}
            ORDER BY score DESC, key LIMIT :limit) AS best
        JOIN "{table}" AS chunk USING (key)
        LEFT JOIN "{table}" AS manifest
            ON manifest.key = 'manifest/' || split_part(chunk.key, '/', 1)
        ORDER BY score DESC, chunk.key"""
    _within = "(CAST(:prefix AS text) = '' OR (key >= :prefix AND key < :end))"
    _or = " | "
    _problems = (
        f"""SELECT key FROM "{{table}}" LEFT JOIN "{{table}}_lexical" USING (key)
            WHERE key {_is_chunk} AND words IS NULL LIMIT 1""",
        # A sample, as all words of a large table take minutes.
        """SELECT key FROM (SELECT key, value, words FROM "{table}"
                JOIN "{table}_lexical" USING (key) ORDER BY random() LIMIT 1000) AS sample
            WHERE words <> "{table}_lexical_words"('{settings}', value) LIMIT 1""",
    )

    def __init__(self, table: str, language: str) -> None:
        if not _CONFIGURATION.fullmatch(language):
            raise ValueError(
                "language must be the name of a text search configuration of PostgreSQL, such "
                f"as 'simple' or 'english'; got {language!r}"
            )
        super().__init__(table, language)


def forget_damaged(connection: Connection, table: str, records: Mapping[str, Any]) -> None:
    """On SQLite, before records are replaced or removed, forget the numbers of damaged ones.

    So the triggers do not remove their words, which only the undamaged text can. These words find
    nothing from then on, and `fits` is false until the index is built again.
    """
    damaged_keys = [key for key, record in records.items() if not is_readable(record, key)]
    if damaged_keys:
        statement = sa.text(f'DELETE FROM "{table}_lexical_keys" WHERE key = :key')
        connection.execute(statement, [{"key": key} for key in damaged_keys])


def is_indexed(connection: Connection, table: str) -> bool:
    """True if a table of SQLite has a full-text index, made by any store."""
    query = sa.text("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name")
    return connection.execute(query, {"name": f"{table}_lexical_keys"}).first() is not None


def lexical_index(backend: str, table: str, *, tokenizer: str, language: str) -> LexicalIndex:
    """Make the full-text index of a table for a kind of database."""
    if backend == "sqlite":
        return SQLiteIndex(table, tokenizer)
    if backend == "postgresql":
        return PostgresIndex(table, language)
    raise ValueError(f"lexical=True works on SQLite and PostgreSQL; url names {backend!r}")
