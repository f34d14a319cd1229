"""Full-text search of the chunks in a SQL docstore.

Triggers in the database update the index, so a chunk and its words change in one transaction. Any
word of a query may match; operators have no effect. `langchain_rse.text.words` defines words: in
scripts without spaces, a word is a pair of neighboring characters.
"""

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import sqlalchemy as sa
from langchain_core.documents import Document
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from langchain_rse._messages import warn
from langchain_rse._sync import batches
from langchain_rse.errors import CorruptRecordError, FullTextError
from langchain_rse.stores.conditions import fields_of, matches
from langchain_rse.stores.databases import first_line, is_unsearchable
from langchain_rse.stores.json import decode_document
from langchain_rse.stores.records import DOC_ID, Manifest, chunk_document, manifest_key
from langchain_rse.text.quoting import UNENCODABLE

# Words of a query that are used, at most. Longer queries are passages; more words hardly matter.
MOST_WORDS = 256
_LONGEST_QUERY = 20_000  # characters
_CHUNKS_AT_ONCE = 500  # chunks to read


def check_lexical(docstore: object) -> Any:  # noqa: ANN401 - a docstore with `lexical_search`
    """Return the docstore if it has a full-text index; otherwise raise a FullTextError."""
    if getattr(docstore, "lexical", False):
        return docstore
    raise FullTextError(
        "needs a docstore with a full-text index: SQLDocStore(..., lexical=True) on SQLite or "
        f"PostgreSQL, which also indexes chunks already in its table; got {docstore!r}"
    )


def check_filter(condition: object) -> Mapping[str, Any]:
    """Return a filter if lexical search supports it; otherwise raise a ValueError."""
    if condition is None:
        return {}
    if isinstance(condition, Mapping) and fields_of(condition) is not None:
        return condition
    raise ValueError(
        "lexical search needs filter to be a dict of metadata fields and values; got "
        f"{condition!r:.200}. With other filters, set hybrid=0"
    )


class LexicalIndex:
    """The full-text index of a table of chunks; ``settings`` define how text is split into words.

    Only validated names are inserted into statements; all other values are parameters.
    """

    # SQL, with placeholders for the table's name and the settings in braces.
    _creation: ClassVar[tuple[str, ...]]
    _removal: ClassVar[tuple[str, ...]]
    # Returns the settings if the index exists and triggers update it.
    _settings_query: ClassVar[str]
    _lock: ClassVar[str]  # begins a transaction that excludes other writers
    # Chunks ranked per query, at most. If more match, the most common words are dropped.
    _most_ranked: ClassVar[int]
    # Each word of :query with the number of chunks that contain it, counted up to :most.
    _count: ClassVar[str]
    # Key and score of the :limit chunks that match :query best.
    _search: ClassVar[str]
    _within: ClassVar[str]  # true for keys from :prefix to :end, so for keys with this prefix
    _or: ClassVar[str]  # the operator between the words of :query
    # Each returns the key of a mismatch between index and table, if there is one.
    _problems: ClassVar[tuple[str, ...]]

    def __init__(self, table: str, settings: str) -> None:
        self._table = table
        self._settings = settings

    def create(self, connection: Connection) -> None:
        """Create the index if it is missing, including existing chunks, in one transaction."""
        if self._exists(connection):  # looking first keeps a read-only database usable
            return
        self.lock(connection)
        if not self._exists(connection):  # another process may have been faster
            self.remove(connection)  # a user may have dropped a part of it
            self.build(connection)

    def build(self, connection: Connection) -> None:
        """Build the index from the records, in a transaction that holds the lock."""
        for statement in self._creation:
            connection.exec_driver_sql(self._sql(statement))

    def lock(self, connection: Connection) -> None:
        """Begin a transaction that excludes other writers."""
        connection.exec_driver_sql(self._sql(self._lock))

    def fits(self, connection: Connection) -> bool:
        """True if the index matches the chunks in the table."""
        try:
            return self._check(connection)
        except DBAPIError as error:
            if is_unsearchable(error):
                return False
            raise

    def _check(self, connection: Connection) -> bool:
        """Like `fits`, but raise errors of a damaged index."""
        return all(self._ask(connection, query) is None for query in self._problems)

    def remove(self, connection: Connection) -> None:
        """Remove the index and its triggers, in a transaction that holds the lock."""
        for statement in self._removal:
            connection.exec_driver_sql(self._sql(statement))

    def search(
        self,
        connection: Connection,
        read_values: Callable[[Connection, Iterable[str]], Mapping[str, str]],
        query: str,
        k: int,
        *,
        condition: object,
        prefix: str,
    ) -> list[tuple[Document, float]]:
        """Find chunks; see `SQLDocStore.lexical_search`. ``read_values`` reads records by key."""
        if k < 1:
            raise ValueError(f"k must be at least 1; got {k!r}")
        checked = check_filter(condition)
        # In byte order, U+FFFF sorts after all characters of keys.
        within = {"prefix": prefix, "end": f"{prefix}\uffff"}
        pages = self._rank(connection, query, k, within)
        chunks = _passing_chunks(partial(read_values, connection), checked, pages)
        try:
            return list(itertools.islice(chunks, k))
        except DBAPIError as error:
            if not is_unsearchable(error):
                raise
            raise FullTextError(
                f"the full-text index of table {self._table!r} is damaged or missing "
                f"({first_line(error)}). Rebuild it with check(repair=True) or langchain-rse check "
                "--repair"
            ) from error

    def _rank(
        self, connection: Connection, query: str, k: int, within: Mapping[str, str]
    ) -> Iterator[Sequence[Any]]:
        """Yield keys and scores of matching chunks, best first: ``k``, then pages of others."""
        words = self._choose_words(connection, query, within)
        parameters = {"query": self._or.join(words), "words": json.dumps(words), **within}
        statement = sa.text(self._sql(self._search))
        start, end = 0, k
        while words:
            rows = connection.execute(statement, {**parameters, "limit": end}).all()
            yield rows[start:]
            if len(rows) < end:
                return
            start, end = end, 16 * end  # the rows were stale, or excluded by the filter

    def _exists(self, connection: Connection) -> bool:
        """True if the index exists.

        Raises:
            ValueError: If it was built with other settings.
        """
        settings = self._ask(connection, self._settings_query)
        if settings is None:
            return False
        if settings != self._settings:
            raise ValueError(
                f"the full-text index of table {self._table!r} was built with {settings}, but this "
                f"store uses {self._settings}. Use the same, or call drop_lexical_index() once"
            )
        return True

    def _ask(self, connection: Connection, query: str) -> Any:  # noqa: ANN401
        """Return the first value of a query's result; None if it is empty."""
        return connection.exec_driver_sql(self._sql(query)).scalar()

    def _choose_words(
        self, connection: Connection, query: str, within: Mapping[str, str]
    ) -> dict[str, int]:
        """Choose words of a query, rarest first, with the number of chunks that contain each."""
        text = self._terms(UNENCODABLE.sub(" ", query[:_LONGEST_QUERY]))
        parameters = {"query": text, "most": self._most_ranked + 1, **within}
        rows = connection.execute(sa.text(self._sql(self._count)), parameters)
        counts = sorted((count, term) for term, count in rows)
        words: dict[str, int] = {}
        ranked_chunks = 0
        for count, term in counts:
            if words and ranked_chunks + count > self._most_ranked:
                break
            if count:
                words[term] = count
                ranked_chunks += count
        return words

    def _terms(self, query: str) -> str:
        """Convert a query to the form that `_count` expects."""
        return query

    def _sql(self, statement: str) -> str:
        within = self._within.format(table=self._table)
        names = {"table": self._table, "settings": self._settings, "within": within}
        return statement.format(**names, words=MOST_WORDS, **self._characters())

    def _characters(self) -> Mapping[str, str]:
        """Return characters in the SQL, by their names in braces."""
        return {}


def _passing_chunks(
    read_values: Callable[[Iterable[str]], Mapping[str, str]],
    condition: Mapping[str, Any],
    pages: Iterable[Sequence[tuple[str, float]]],
) -> Iterator[tuple[Document, float]]:
    """Yield the chunks of current versions that pass a filter, given keys and scores of matches."""
    # By the first parts of keys; None if no chunk of the document can pass.
    manifests: dict[str, Manifest | None] = {}
    for page in pages:
        for batch in batches(page, _CHUNKS_AT_ONCE):
            unread = {_document_of(key) for key, _ in batch}.difference(manifests)
            manifests |= _read_manifests(read_values, condition, unread)
            current: dict[str, Manifest] = {}
            for key, _ in batch:
                manifest = manifests[_document_of(key)]
                if manifest is not None and f"/{manifest.version}/" in key:
                    current[key] = manifest
            records = read_values(current)
            for key, score in batch:
                if key not in records:
                    continue
                try:
                    chunk = chunk_document(decode_document(records[key], key), key, current[key])
                except CorruptRecordError as error:
                    _warn_of_corrupt(error)
                    continue
                if matches(condition, chunk.metadata):
                    yield chunk, score


def _read_manifests(
    read_values: Callable[[Iterable[str]], Mapping[str, str]],
    condition: Mapping[str, Any],
    documents: Collection[str],
) -> dict[str, Manifest | None]:
    """Read manifests, given the first parts of keys; None if no chunk of the document can pass.

    Their metadata is as in the vector store.
    """
    keys: dict[str, str] = {}
    for document in documents:
        namespace, dash, key = document.rpartition("-")
        keys[document] = f"{namespace}{dash}{manifest_key(key)}"
    records = read_values(keys.values())
    fields = fields_of(condition) or set()
    manifests: dict[str, Manifest | None] = dict.fromkeys(documents)
    for document, key in keys.items():
        if key not in records:
            continue
        try:
            manifest = Manifest.from_document(decode_document(records[key], key), key)
        except CorruptRecordError as error:
            _warn_of_corrupt(error)
            continue
        shared = {**manifest.metadata, DOC_ID: manifest.doc_id}
        may_pass = not fields <= shared.keys() or matches(condition, shared)
        if may_pass and manifest.current is not None:
            manifests[document] = manifest.as_in_vector_store()
    return manifests


def _document_of(key: str) -> str:
    return key.partition("/")[0]


def _warn_of_corrupt(error: CorruptRecordError) -> None:
    warn(f"lexical search excludes a corrupt record: {error}")
