"""Find: where a pattern occurs in all documents that may be read; and documents by name."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from langchain_core.documents import Document
from rapidfuzz import process

from langchain_rse._sync import batches, in_thread, pause, run
from langchain_rse.access import DocumentAccess
from langchain_rse.errors import MissingRecordError
from langchain_rse.stores.compare_and_set import DocStore, Record, list_keys, read_records
from langchain_rse.stores.conditions import fields_of
from langchain_rse.stores.document_names import find_document, names_of
from langchain_rse.stores.layouts import manifests_at
from langchain_rse.stores.namespaces import refuse_namespaces
from langchain_rse.stores.records import (
    END_INDEX,
    NAMESPACES,
    START_INDEX,
    Manifest,
    manifest_key,
    spans_key,
)
from langchain_rse.text.outlines import Section, outline
from langchain_rse.text.patterns import Pattern, fold
from langchain_rse.text.quoting import first_few
from langchain_rse.text.ranges import format_range

_MOST_CACHED = 100_000_000  # characters
_BATCH = 500
# The most matching documents whose manifests are read again in each call.
_MOST_CHECKED = 1_000
_AROUND = 300  # the most characters of its lines on each side of a match
_MOST_TITLES = 5  # in a message
_SPANS = spans_key("", "", 0)[1:]  # the end of a key that each version with text has


class Match(NamedTuple):
    """A place where a pattern occurs.

    ``access.passage(match.manifest, *match.around, match.version)`` reads the lines around it, or
    raises a MissingRecordError if the document was replaced, or its adopted index changed.
    """

    manifest: Manifest  # of its document
    start: int  # its first character in the document's text
    end: int  # the character after its last one
    line: int  # the number of its first line, from 1; lines that are not stored do not count
    around: tuple[int, int]  # the characters of its lines; of long lines, those near it

    @property
    def doc_id(self) -> str:
        """The id of its document."""
        return self.manifest.doc_id

    @property
    def version(self) -> str:
        """The version of the document that has these characters."""
        return self.manifest.current.name if self.manifest.current else ""


class MatchPage(NamedTuple):
    """Some of the matches, in the order of their documents' ids, then of the text."""

    total: int  # of all pages
    documents: int  # with a match, on all pages
    matches: Sequence[Match]


class Finder:
    """Finds patterns in the documents of a docstore.

    Keep one for all calls: texts are read once, and kept in memory up to 100 million characters.
    A version of a document never changes, so the keys of the docstore tell which texts are new.

    Documents that are only white space are not searched, and matches do not cross gaps of adopted
    documents. If more than 1,000 documents match, documents that are just being deleted may count.

    Args:
        get_access: Gives access to the documents, such as `RSERetriever.document_access`.
    """

    def __init__(self, get_access: Callable[[], DocumentAccess]) -> None:
        self._get_access = get_access
        self._lock = threading.Lock()
        self._docstore: DocStore | None = None
        self._texts: dict[str, _Text] = {}  # by names of versions: "{document}/{version}"
        self._manifests: dict[str, Manifest] = {}  # of these versions, when they were current
        self._named: list[Manifest] = []  # the documents of `_names`
        self._names: dict[str, list[str]] = {}

    def find(
        self,
        pattern: Pattern,
        *,
        filters: Sequence[Mapping[str, Any]] = (),
        offset: int = 0,
        limit: int = 50,
    ) -> MatchPage:
        """Find a pattern in all documents that pass the filters of the access and of this call.

        Raises:
            ValueError: If a filter cannot be applied to a document as a whole, or ``offset`` or
                ``limit`` is negative.
        """
        if offset < 0 or limit < 0:
            raise ValueError(f"offset and limit must be at least 0; got {offset} and {limit}")
        for condition in filters:
            if fields_of(condition) is None:
                raise ValueError(
                    f"filter must be a dict of fields and values; got {condition!r:.200}"
                )
        access = self._get_access()
        access = replace(access, filters=[*access.filters, *filters])
        with self._lock:
            keys, names = self._list(access.docstore)
            texts, others = self._load(access.docstore, keys, names)
        counts: dict[str, int] = {}  # by names of versions
        for batch in batches(
            itertools.chain(texts.items(), _read(access.docstore, others)), _BATCH
        ):
            # A call in a thread ends here if its caller was cancelled. It waits for the event loop,
            # so it may not hold the lock.
            run(pause(0))
            for name, text in batch:
                count = sum(pattern.count(part) for _, part in text.runs)
                if count:
                    counts[name] = count
        manifests = self._current_manifests(access, list(counts), names)

        matches: list[Match] = []
        first = 0  # the number of a document's first match
        for name in sorted(manifests, key=lambda name: manifests[name].doc_id):
            end = first + counts[name]
            if first < offset + limit and offset < end:
                text = texts.get(name) or dict(_read(access.docstore, {name: others[name]}))[name]
                found = _find(pattern, text, manifests[name])
                matches += itertools.islice(found, max(offset - first, 0), offset + limit - first)
            first = end
        return MatchPage(first, len(manifests), matches)

    async def afind(
        self,
        pattern: Pattern,
        *,
        filters: Sequence[Mapping[str, Any]] = (),
        offset: int = 0,
        limit: int = 50,
    ) -> MatchPage:
        """Like `find`, async."""
        return await in_thread(self.find, pattern, filters=filters, offset=offset, limit=limit)

    def manifests(self) -> list[Manifest]:
        """The manifests of all documents that may be read, ordered by id; each is read once."""
        access = self._get_access()
        with self._lock:
            keys, names = self._list(access.docstore)
        known = self._known_manifests(names, names)
        keys_known = {manifest_key(_document_of(name)) for name in known}
        prefix = manifest_key("")
        unknown = [key for key in keys if key.startswith(prefix) and key not in keys_known]
        read = [each for each in manifests_at(access.docstore, unknown) if each.current is not None]
        self._remember(read)
        readable = [each for each in [*known.values(), *read] if access.may_read(each)]
        return sorted(readable, key=lambda manifest: manifest.doc_id)

    def document(self, name: str) -> Manifest:
        """The manifest of a document by its id; else by its source or the name of its file."""
        access = self._get_access()
        with suppress(MissingRecordError):
            return access.manifest(name)
        manifests = self.manifests()
        with self._lock:
            if manifests != self._named:
                self._named, self._names = manifests, names_of(manifests)
            names = self._names
        return access.manifest(find_document(name, names))

    def _list(self, docstore: DocStore) -> tuple[list[str], set[str]]:
        """List all keys and the names of versions with text, and forget other versions."""
        keys = list_keys(docstore, "")
        refuse_namespaces(NAMESPACES in keys)
        names = {key[: -len(_SPANS)] for key in keys if key.endswith(_SPANS)}
        if docstore is not self._docstore:
            self._docstore, self._texts, self._manifests = docstore, {}, {}
        for name in self._texts.keys() - names:
            del self._texts[name]
        for name in self._manifests.keys() - names:
            del self._manifests[name]
        return keys, names

    def _load(
        self, docstore: DocStore, keys: Sequence[str], names: AbstractSet[str]
    ) -> tuple[dict[str, _Text], dict[str, list[str]]]:
        """The texts that are kept, and the keys of the chunks of all others, by versions."""
        missing: dict[str, list[str]] = {name: [] for name in sorted(names - self._texts.keys())}
        for key in keys if missing else ():
            name, _, number = key.rpartition("/")
            if name in missing and number.isdecimal():
                missing[name].append(key)
        room = _MOST_CACHED - sum(text.length for text in self._texts.values())
        for name, text in _read(docstore, missing):
            room -= text.length
            if room < 0:
                break
            if not text.is_damaged:  # else it may be repaired
                self._texts[name] = text
        others = {name: missing[name] for name in missing.keys() - self._texts.keys()}
        return dict(self._texts), others

    def _current_manifests(
        self, access: DocumentAccess, names: Sequence[str], stored: AbstractSet[str]
    ) -> dict[str, Manifest]:
        """The manifests of those versions that are current and may be read, by their names.

        ``stored`` has the names of all versions.
        """
        known = self._known_manifests(names, stored) if len(names) > _MOST_CHECKED else {}
        unknown = dict.fromkeys(_document_of(name) for name in names if name not in known)
        known |= self._remember(manifests_at(access.docstore, list(map(manifest_key, unknown))))
        return {
            name: known[name] for name in names if name in known and access.may_read(known[name])
        }

    def _known_manifests(
        self, names: Iterable[str], stored: AbstractSet[str]
    ) -> dict[str, Manifest]:
        """The manifests that were read before, of documents with one version, by its name."""
        versions = Counter(map(_document_of, stored))
        with self._lock:
            return {
                name: self._manifests[name]
                for name in names
                if name in self._manifests and versions[_document_of(name)] == 1
            }

    def _remember(self, manifests: Iterable[Manifest]) -> dict[str, Manifest]:
        """Keep manifests, and return them by the names of their current versions."""
        by_name = {
            f"{manifest.key}/{manifest.current.name}": manifest
            for manifest in manifests
            if manifest.current is not None
        }
        with self._lock:
            self._manifests |= by_name
        return by_name


def read_section(access: DocumentAccess, manifest: Manifest, title: str) -> Section:
    """Find the section of a document by its title, or by a part that no other title has.

    Case and white space do not count.

    Raises:
        MissingRecordError: If there is no such section, or text of the document is not stored.
        ValueError: If several sections have this title, or this part of a title.
    """
    text = access.passage(manifest, 0, manifest.length).page_content
    wanted = _comparable(title)
    titled = [(_comparable(each.title), each) for each in outline(text)]
    found = [section for name, section in titled if name == wanted]
    if not found and wanted:
        found = [section for name, section in titled if wanted in name]
    if len(found) == 1:
        return found[0]
    shown = f"{manifest.doc_id!r:.200} has"
    if found:
        raise ValueError(f"{shown} several sections {title!r:.200}: {_listed(found)}")
    near = process.extract(wanted, [name for name, _ in titled], limit=_MOST_TITLES)
    nearest = [titled[number][1] for _, _, number in near]
    hint = f"; the nearest are {_listed(nearest)}" if nearest else ", and no headings"
    raise MissingRecordError(f"{shown} no section {title!r:.200}{hint}")


def _comparable(title: str) -> str:
    return fold(" ".join(title.split()))


def _listed(sections: Sequence[Section]) -> str:
    """The titles of sections, with their characters: titles may be the same."""
    return first_few(
        [f"{each.title!r} (characters {format_range(each.start, each.end)})" for each in sections],
        _MOST_TITLES,
    )


def _document_of(name: str) -> str:
    """The key of the document that a version is of."""
    return name.partition("/")[0]


def _read(docstore: DocStore, chunks: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, _Text]]:
    """Read the texts of versions, given the keys of their chunks."""
    for name, group in itertools.groupby(_read_chunks(docstore, chunks), lambda chunk: chunk[0]):
        yield name, _join(record for _, record in group)


def _read_chunks(
    docstore: DocStore, chunks: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, Record]]:
    """Read chunks in the order of their numbers, each with the name of its version."""
    keys = (
        (name, key)
        for name in chunks
        for key in sorted(chunks[name], key=lambda key: (len(key), key))
    )
    for batch in batches(keys, _BATCH):
        records = read_records(docstore, [key for _, key in batch])
        for name, key in batch:
            yield name, records[key]


class _Text(NamedTuple):
    """The stored text of a version."""

    # Texts without gaps, each with the number of its first character in the document.
    runs: Sequence[tuple[int, str]]
    is_damaged: bool  # True if a chunk is missing or cannot be used

    @property
    def length(self) -> int:
        """The number of characters that are stored."""
        return sum(len(text) for _, text in self.runs)


def _join(records: Iterable[Record]) -> _Text:
    """Join the chunks of a version, given in the order of the text."""
    runs: list[tuple[int, list[str]]] = []
    last_end = -1
    is_damaged = False
    for record in records:
        fields = record.metadata if isinstance(record, Document) else {}
        start, end = fields.get(START_INDEX), fields.get(END_INDEX)
        if (
            not isinstance(record, Document)
            or not isinstance(start, int)
            or start < last_end
            or end != start + len(record.page_content)
        ):
            is_damaged = True
            continue
        if start > last_end:
            runs.append((start, []))
        runs[-1][1].append(record.page_content)
        last_end = end
    return _Text([(start, "".join(parts)) for start, parts in runs], is_damaged)


def _find(pattern: Pattern, text: _Text, manifest: Manifest) -> Iterator[Match]:
    """Find the matches in a text, in its order."""
    line = 1
    for first, part in text.runs:
        counted = 0  # the characters whose line ends are counted
        for start, end in pattern.find(part):
            line += part.count("\n", counted, start)
            counted = start
            lowest, highest = max(start - _AROUND, 0), end + _AROUND
            line_end = part.find("\n", end, highest)
            around = (
                first + max(part.rfind("\n", lowest, start) + 1, lowest),
                first + (min(highest, len(part)) if line_end < 0 else line_end),
            )
            yield Match(manifest, first + start, first + end, line, around)
        line += part.count("\n", counted)
