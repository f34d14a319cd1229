"""Full-text search on SQLite."""

# Only validated names are inserted into statements; all other values are parameters.
# ruff: noqa: S608

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from typing_extensions import override

from langchain_rse.stores.fulltext import MOST_WORDS, LexicalIndex
from langchain_rse.stores.json import is_record, parse_json
from langchain_rse.stores.records import DOC_ID, HEADER, TABLE_HEADER
from langchain_rse.text.quoting import encodable
from langchain_rse.text.words import find_words, with_pairs

# The SQL function that extracts the words of a chunk's record.
_WORDS_FUNCTION = "langchain_rse_chunk_words"

# FTS5 token characters: letters, numbers, private characters and combining marks (vowel signs).
_CATEGORIES = " categories 'L* N* Co M*'"


# Such as version 2.3.10: its parts alone are in many texts.
_DOTTED_NUMBER = re.compile(r"\b\w{0,9}\d(?:\.\d+){1,9}")


class SQLiteIndex(LexicalIndex):
    """An FTS5 table, ranked by BM25. The texts are only in the table of chunks.

    To remove a chunk, FTS5 needs the exact text that was added. A different text, from a damaged
    record, breaks the whole index. So call `forget_damaged` before records are replaced or removed.
    """

    _is_chunk = "key GLOB '?*/?*/[0-9]*' AND key NOT GLOB '*/*/*[^0-9]*'"
    _is_new_chunk = _is_chunk.replace("key", "new.key")
    # The index does not keep texts, so it needs the words to remove.
    _remove = (
        'INSERT INTO "{table}_lexical"("{table}_lexical", rowid, text) '
        """SELECT 'delete', id, text FROM "{table}_lexical_texts" WHERE key = old.key;"""
    )
    _creation = (
        """CREATE VIRTUAL TABLE "{table}_lexical" USING fts5(text,
            content='{table}_lexical_texts', content_rowid='id', {settings})""",
        # Row ids of the chunk table may change, so the index numbers the keys itself. Numbers are
        # never reused, because the number of a forgotten chunk keeps its words.
        """CREATE TABLE "{table}_lexical_keys" (id INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL UNIQUE)""",
        f"""CREATE VIEW "{{table}}_lexical_texts" AS
            SELECT id, key, {_WORDS_FUNCTION}(CAST(value AS BLOB)) AS text
            FROM "{{table}}_lexical_keys" JOIN "{{table}}" USING (key)""",
        f"""INSERT INTO "{{table}}_lexical_keys"(key)
            SELECT key FROM "{{table}}" WHERE {_is_chunk}""",
        """INSERT INTO "{table}_lexical"(rowid, text)
            SELECT id, text FROM "{table}_lexical_texts" ORDER BY id""",
        """INSERT INTO "{table}_lexical"("{table}_lexical") VALUES ('optimize')""",
        f"""CREATE TRIGGER "{{table}}_lexical_insert" AFTER INSERT ON "{{table}}"
            WHEN {_is_new_chunk} BEGIN
            DELETE FROM "{{table}}_lexical_keys" WHERE key = new.key;
            INSERT INTO "{{table}}_lexical_keys"(key) VALUES (new.key);
            INSERT INTO "{{table}}_lexical"(rowid, text)
            VALUES (last_insert_rowid(), {_WORDS_FUNCTION}(CAST(new.value AS BLOB))); END""",
        f"""CREATE TRIGGER "{{table}}_lexical_update" BEFORE UPDATE ON "{{table}}" BEGIN
            {_remove} END""",
        f"""CREATE TRIGGER "{{table}}_lexical_updated" AFTER UPDATE ON "{{table}}"
            WHEN {_is_new_chunk} BEGIN
            INSERT INTO "{{table}}_lexical_keys"(key) SELECT new.key WHERE NOT EXISTS
                (SELECT 1 FROM "{{table}}_lexical_keys" WHERE key = new.key);
            INSERT INTO "{{table}}_lexical"(rowid, text)
            SELECT id, text FROM "{{table}}_lexical_texts" WHERE key = new.key; END""",
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
        "WHERE type = 'table' AND name = '{table}_lexical' AND EXISTS "
        "(SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name = '{table}_lexical_insert')"
    )
    _most_ranked = 5_000
    _lock = "BEGIN IMMEDIATE"  # Python's driver begins none before CREATE
    _count = """SELECT value, (SELECT count(*) FROM (
            SELECT 1 FROM "{table}_lexical" WHERE "{table}_lexical" MATCH value AND {within}
            LIMIT :most))
        FROM json_each(:query)"""
    _search = """SELECT key, score
        FROM (SELECT rowid AS id, -rank AS score FROM "{table}_lexical"
            WHERE "{table}_lexical" MATCH :query AND {within} ORDER BY +rank LIMIT :limit)
        JOIN "{table}_lexical_keys" USING (id)
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
    # FTS5's integrity check compares the index with the texts of the chunks.
    _integrity_check = (
        """INSERT INTO "{table}_lexical"("{table}_lexical", rank) VALUES ('integrity-check', 1)"""
    )

    # FTS5 refuses to open, and therefore to drop, a table with a damaged version or structure.
    # These statements restore the values of an empty table.
    _opening = (
        """REPLACE INTO "{table}_lexical_config" VALUES ('version', 4)""",
        """REPLACE INTO "{table}_lexical_data" VALUES (10, x'00000000000000')""",
    )

    def __init__(self, table: str, tokenizer: str) -> None:
        if "unicode61" in tokenizer and "categories" not in tokenizer:
            tokenizer += _CATEGORIES
        literal = tokenizer.replace("'", "''")
        super().__init__(table, f"tokenize='{literal}'")

    @override
    def _check(self, connection: Connection) -> bool:
        if not super()._check(connection):
            return False
        try:
            connection.exec_driver_sql(self._sql(self._integrity_check))
        except DBAPIError as error:
            if "readonly" not in str(error.orig):  # SQLite treats the check as a write
                raise
        return True

    @override
    def remove(self, connection: Connection) -> None:
        if _has_table(connection, f"{self._table}_lexical_config"):
            for statement in self._opening:
                connection.exec_driver_sql(self._sql(statement))
        super().remove(connection)

    @override
    def _terms(self, query: str) -> str:
        # Quotes prevent words from acting as operators.
        phrases = [" ".join(find_words(number)) for number in _DOTTED_NUMBER.findall(query)]
        terms = [f'"{term}"' for term in dict.fromkeys([*phrases, *find_words(query)])]
        return json.dumps(terms[:MOST_WORDS])


def add_words_function(connection: Any, _record: object) -> None:  # noqa: ANN401
    """Add the function that the triggers of an index call on every write to a connection."""
    connection.create_function(_WORDS_FUNCTION, 1, _words_of_record, deterministic=True)


def _words_of_record(record: bytes | None) -> str | None:
    """Return the words of a chunk: its document id, headers and text; None without a record.

    The record is bytes, because damaged text may not be UTF-8.
    """
    try:
        fields = parse_json((record or b"").decode(errors="replace"))
        metadata = fields.get("metadata", {})
        names = [metadata.get(DOC_ID), metadata.get(HEADER), metadata.get(TABLE_HEADER)]
        texts = [*names, fields["page_content"]]
    except (ValueError, RecursionError, LookupError, AttributeError, TypeError):  # not a chunk's
        return None
    words = " ".join(text for text in texts if isinstance(text, str))
    return with_pairs(encodable(words))


def forget_damaged(
    connection: Connection, table: str, read: Callable[[], Mapping[str, str]]
) -> None:
    """Make a table's full-text index forget damaged records; call before changing records.

    The triggers then do not try to remove the words of damaged records, which needs the original
    text. The orphaned words match nothing, and `LexicalIndex.fits` is False until the index is
    rebuilt. The index may be one that another store made.

    Args:
        connection: A transaction on SQLite.
        table: The name of the table.
        read: Reads the records to change, by key.
    """
    keys = f"{table}_lexical_keys"
    if not _has_table(connection, keys):
        return
    damaged_keys = [{"key": key} for key, record in read().items() if is_record(record, None, key)]
    if damaged_keys:
        connection.execute(sa.text(f'DELETE FROM "{keys}" WHERE key = :key'), damaged_keys)


def _has_table(connection: Connection, name: str) -> bool:
    query = sa.text("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name")
    return connection.execute(query, {"name": name}).first() is not None
