"""Full-text search on PostgreSQL."""

# Only validated names are inserted into statements; all other values are parameters.
# ruff: noqa: S608

import re
from collections.abc import Mapping
from functools import cache

from sqlalchemy.engine import Connection
from typing_extensions import override

from langchain_rse.stores.fulltext import LexicalIndex
from langchain_rse.text.words import HAN, INVISIBLE, UNSPACED, letter_forms, with_pairs

_CONFIGURATION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


def _for_postgres(characters: str) -> str:
    """Convert a character class from Python's regular expressions to PostgreSQL's."""
    return re.sub("[^-]", lambda match: f"\\U{ord(match[0]):08x}", characters)


@cache
def _characters() -> Mapping[str, str]:
    """Return characters in the SQL; to find them takes longer than to import a module."""
    forms = letter_forms()
    return {
        "unspaced": _for_postgres(UNSPACED),
        "invisible": _for_postgres(INVISIBLE),
        "signs": r"(?<![\w.+#])([a-z])",
        "han": _for_postgres(HAN),
        # Marks without a letter come last: PostgreSQL removes them.
        "forms": "".join(sorted(forms, key=forms.__getitem__, reverse=True)),
        "letters": "".join(sorted(forms.values(), reverse=True)),
    }


class PostgresIndex(LexicalIndex):
    """A table of ``tsvector`` with a GIN index."""

    _is_chunk = "~ '^[^/]+/[^/]+/[0-9]+$'"
    _creation = (
        """CREATE TABLE "{table}_lexical" (key varchar(512) COLLATE "C" PRIMARY KEY
            REFERENCES "{table}" ON DELETE CASCADE, words tsvector NOT NULL)""",
        """COMMENT ON TABLE "{table}_lexical" IS $${settings}$$""",
        # A chunk's words come from its document's id, its headers and its text. PostgreSQL supports
        # neither NUL nor lone surrogates: they become spaces. "_", "-", ".", "/" and "\" separate
        # words in an id. A tsvector holds 1 MB: of more words, only the first are
        # searched. A record that is not JSON has no words.
        # Scripts without spaces give pairs of characters: pairs from even positions of each run,
        # and, after removing its first character, pairs from odd positions.
        r"""CREATE FUNCTION "{table}_lexical_words"(language regconfig, value text)
            RETURNS tsvector LANGUAGE plpgsql IMMUTABLE AS $$
            DECLARE words text; runs text; singles text; BEGIN
            value := regexp_replace(value, '(\\\\)|\\u(0000|d[89a-f]..)', '\1 ', 'g');
            words :=
                coalesce(translate(value::json #>> '{{metadata,doc_id}}', '_-./\', '     '), '')
                || ' ' || coalesce(value::json #>> '{{metadata,header}}', '')
                || ' ' || coalesce(value::json #>> '{{metadata,table_header}}', '')
                || ' ' || coalesce(left(value::json ->> 'page_content', 200000), '');
            words := regexp_replace(words, '{signs}\+\+(?![\w+#])', '\1pp', 'gi');
            words := regexp_replace(words, '{signs}#(?![\w+#])', '\1sharp', 'gi');
            words := regexp_replace(words, '(?<![\w.+#])\.net\M', 'dotnet', 'gi');
            IF getdatabaseencoding() = 'UTF8' THEN
                words := regexp_replace(words, '[{invisible}]+', '', 'g');
                words := replace(lower(normalize(words, NFKC)), U&'\00DF', 'ss');
                words := translate(words, '{forms}', '{letters}');
                IF words ~ '[{unspaced}]' THEN
                    singles := regexp_replace(words, '[^{han}]+', ' ', 'g');
                    singles := regexp_replace(singles, '([{han}])', '\1 ', 'g');
                    runs := regexp_replace(words, '[^{unspaced}]+', ' ', 'g');
                    runs := regexp_replace(runs, '(^| )[{unspaced}]', ' ', 'g');
                    words := regexp_replace(
                        words || ' ' || runs, '([{unspaced}])([{unspaced}])', ' \1\2 ', 'g');
                    words := words || ' ' || singles;
                END IF;
            END IF;
            RETURN to_tsvector(language, words);
            EXCEPTION
                WHEN data_exception THEN RETURN '';
                WHEN program_limit_exceeded THEN
                    RETURN to_tsvector(language, coalesce(left(words, 100000), ''));
            END $$""",
        # The trigger runs with its owner's rights, so that other writers need no extra rights.
        # Temporary tables are searched last, so that a writer cannot shadow tables.
        """SELECT set_config(
            'search_path', current_setting('search_path') || ', pg_temp', true)""",
        """CREATE FUNCTION "{table}_lexical_update"() RETURNS trigger LANGUAGE plpgsql
            SECURITY DEFINER SET search_path FROM CURRENT AS $$ BEGIN
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
    _settings_query = """SELECT obj_description(to_regclass('"{table}_lexical"'), 'pg_class')
        WHERE EXISTS (SELECT 1 FROM pg_trigger
            WHERE tgrelid = to_regclass('"{table}"') AND tgname = '{table}_lexical_update')"""
    _lock = 'LOCK TABLE "{table}" IN SHARE ROW EXCLUSIVE MODE'
    _most_ranked = 2_000
    # Quotes prevent words from acting as operators.
    _count = r"""SELECT CAST(term AS text), (SELECT count(*) FROM (
            SELECT 1 FROM "{table}_lexical" WHERE words @@ term AND {within} LIMIT :most) AS chunks)
        FROM (SELECT CAST('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || ''''
                AS tsquery) AS term
            FROM unnest(to_tsvector('{settings}', :query))
            ORDER BY positions[1], lexeme LIMIT {words}) AS terms"""
    # ts_rank ignores how rare a word is, so each word is ranked separately and weighted by BM25's
    # inverse document frequency. Option 1 divides the rank by 1 + log(length of the text).
    _search = """WITH weighted AS MATERIALIZED (
            SELECT CAST(word.key AS tsquery) AS term, ln(1 + (greatest(
                total - CAST(word.value AS float), 0) + 0.5) / (CAST(word.value AS float) + 0.5)
            ) AS weight
            FROM json_each_text(CAST(:words AS json)) AS word,
                (SELECT count(*) AS total FROM "{table}_lexical" WHERE {within}) AS chunks)
        SELECT key, (SELECT sum(weight * ts_rank(words, term, 1)) FROM weighted) AS score
        FROM "{table}_lexical" WHERE words @@ CAST(:query AS tsquery) AND {within}
        ORDER BY score DESC, key LIMIT :limit"""
    _within = "(CAST(:prefix AS text) = '' OR (key >= :prefix AND key < :end))"
    _or = " | "
    _problems = (
        f"""SELECT key FROM "{{table}}" LEFT JOIN "{{table}}_lexical" USING (key)
            WHERE key {_is_chunk} AND words IS NULL LIMIT 1""",
        # A sample, because checking all words of a large table takes minutes.
        """SELECT key FROM (SELECT key, value, words FROM "{table}"
                JOIN "{table}_lexical" USING (key) ORDER BY random() LIMIT 1000) AS sample
            WHERE words <> "{table}_lexical_words"('{settings}', value) LIMIT 1""",
    )

    def __init__(self, table: str, language: str) -> None:
        if not _CONFIGURATION.fullmatch(language):
            raise ValueError(
                "language must be the name of a PostgreSQL text search configuration, such as "
                f"'simple' or 'english'; got {language!r}"
            )
        super().__init__(table, language)

    @override
    def create(self, connection: Connection) -> None:
        super().create(connection)
        # Fails if another user made the index and this user may not read it.
        connection.exec_driver_sql(self._sql('SELECT FROM "{table}_lexical" LIMIT 1'))

    @override
    def _terms(self, query: str) -> str:
        return with_pairs(query, is_query=True)

    @override
    def _characters(self) -> Mapping[str, str]:
        return _characters()
