"""Adds documents in batches, for `add_documents` and `sync`.

Assigns ids, splits the texts, adds headers, and hands the documents to the `Writer`.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import NoneType
from typing import Any, NamedTuple, TypeVar

from langchain_core.documents import Document

from langchain_rse._messages import Advance, check_type, progress_bar, shown, warn
from langchain_rse._sync import during, run
from langchain_rse.errors import MetadataError, SplittingError
from langchain_rse.ingest.source_documents import (
    HeaderMaker,
    SourceDocument,
    described,
    dropped,
    is_whole_number,
    make_document,
    sure_overlap,
    with_name,
)
from langchain_rse.ingest.splitting import Span, Splitter, find_spans
from langchain_rse.ingest.writing import ExpectedVersions, Writer
from langchain_rse.stores.compare_and_set import namespace_of
from langchain_rse.stores.layouts import read_manifests, read_parts
from langchain_rse.stores.records import (
    DOC_ID,
    PASSAGE,
    START_INDEX,
    VERSION,
    DocumentVersion,
    Manifest,
    Rule,
    Version,
    digest,
    document_key,
)
from langchain_rse.text.quoting import UNENCODABLE, counted, first_few

S = TypeVar("S")
T = TypeVar("T")

# Documents named in a warning and in an error, at most.
_NAMED = 3
_REFUSED_NAMED = 50

# Size of a batch in characters; each part counts for at least 1,000.
_CHARACTERS_AHEAD = 1_000_000
_LEAST_CHARACTERS = 1_000

# Fields in which loaders number table rows and JSON records, with the word used in ids. Each row
# or record is a separate document.
_NUMBERED = {"row": "row", "seq_num": "record"}

# Length of the digest in the ids of separate documents of one source, in hexadecimal digits.
_DIGITS = 12

_EXCERPT = 40

_DOCUMENTS = "documents must be a list of Documents, such as loader.load() or [document]"
_ADD_WHOLE = (
    "add whole documents: retriever.add_documents(docs). The retriever splits them itself, with "
    "RSERetriever(..., text_splitter=splitter)"
)


@dataclass
class AddOperation:
    """One call that adds documents, with the settings of `RSEIndexer`."""

    writer: Writer
    splitter: Splitter
    headers: HeaderMaker | None
    separator: str
    rules: Mapping[str, Rule]
    append: bool = False  # add new parts to the end of stored documents
    # True if each is a separate document, False if those with the same id are parts of one
    # document. None: True for table rows and JSON records only.
    separate: bool | None = None
    force: bool = False  # write and embed unchanged documents as well
    # The digests of each document's parts, by document id, in order of appearance.
    _digests: dict[str, set[str]] = field(default_factory=dict)
    # Documents and parts given twice, as a warning names them.
    _repeated: list[str] = field(default_factory=list)
    # Documents without text.
    _blank: list[str] = field(default_factory=list)
    # Texts with which a document begins as the one before ends.
    _overlaps: set[str] = field(default_factory=set)
    # Reasons why documents were not stored: their id or metadata is unsupported.
    _refused: list[str] = field(default_factory=list)

    def add(
        self,
        documents: Iterable[Document],
        ids: Iterable[str] | None,
        *,
        show_progress: bool,
    ) -> list[str]:
        """Add documents; return their ids without duplicates, in order of appearance."""
        for name in ("append", "separate", "force"):
            check_type(name, getattr(self, name), (bool, NoneType), "True or False")
        if self.append and self.separate:
            raise ValueError(
                "append=True and separate=True exclude each other: append=True adds parts to "
                "stored documents, separate=True makes every part a document. Set one of them"
            )
        given: object = documents
        if isinstance(given, (str, Document)) or not isinstance(given, Iterable):
            raise TypeError(f"{_DOCUMENTS}; got {shown(documents)}")
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        has_model = hasattr(self.headers, "llm")
        with (
            progress_bar(None, unit="chunks", title="Indexing", show=show_progress) as advance,
            progress_bar(
                None, unit="answers", title="Headers", show=show_progress and has_model
            ) as answered,
        ):
            self.writer.vectors = replace(self.writer.vectors, advance=advance)
            for sources in self._batches(documents, ids):
                self._add_batch(sources, answered)
        if self._repeated:
            warn(
                f"{counted(len(self._repeated), 'document')} had the same text as an earlier one: "
                f"stored only once ({first_few(self._repeated, _NAMED)}). To keep each, set ids= "
                "or metadata['doc_id']"
            )
        if self._blank:
            warn(
                f"{len(self._blank)} document(s) have no text ({first_few(self._blank, _NAMED)}). "
                "They are listed, but no query can find them. A scanned PDF needs OCR first"
            )
        count = sum(map(len, self._digests.values()))
        # Measured: up to 0.3 % of whole documents, pages, rows and lines; chunks mostly above 10 %.
        if len(self._overlaps) >= max(5, count / 10) and not self.separate:
            warn(
                f"{len(self._overlaps)} of {count} documents begin with the words that end the one "
                f"before, as chunks do ({min(self._overlaps)!r}). Instead, {_ADD_WHOLE}. For an "
                "index that other code has filled, use from_existing_index. If each is a document, "
                "set separate=True"
            )
        if self._refused:
            raise MetadataError(
                f"{counted(len(self._refused), 'document')} not added, because id or metadata "
                "cannot be stored. All others were added. "
                f"{first_few(self._refused, _REFUSED_NAMED)}"
            )
        return list(self._digests)

    def _batches(
        self, documents: Iterable[Document], ids: Iterable[str] | None
    ) -> Iterator[list[SourceDocument]]:
        """Yield batches of documents with their parts; each is cleared before the next is read.

        In a list, the parts of a document may be anywhere; an iterator is read in order, and must
        yield them one after the other.
        """
        parts: Iterable[SourceDocument] = _identify(documents, ids, separate=self.separate)
        if isinstance(documents, Sequence):
            groups: dict[str, list[SourceDocument]] = {}
            for part in parts:
                groups.setdefault(part.doc_id, []).append(part)
            parts = itertools.chain.from_iterable(groups.values())
        batch: list[SourceDocument] = []
        room = _CHARACTERS_AHEAD
        for source in self._join_parts(parts):
            batch.append(source)
            for document in source.parts:
                room -= max(len(document.page_content), _LEAST_CHARACTERS)
            if room <= 0:
                yield batch
                batch.clear()
                room = _CHARACTERS_AHEAD
        yield batch

    def _join_parts(self, parts: Iterable[SourceDocument]) -> Iterator[SourceDocument]:
        """Join consecutive parts with the same id; pass over parts given twice."""
        last: SourceDocument | None = None
        for part in parts:
            is_new = part.doc_id not in self._digests
            if self._is_repeated(part):
                continue
            if last is not None:
                overlap = sure_overlap(last.parts[-1].page_content, part.parts[0].page_content)
                if overlap:
                    self._overlaps.add(overlap[:_EXCERPT])
            if last is not None and last.doc_id == part.doc_id:
                last.parts += part.parts
                continue
            if not is_new:
                raise ValueError(
                    f"the parts of document {part.doc_id!r} are not consecutive. Group the parts "
                    "by document id, or pass a list. Earlier documents may already be stored"
                )
            if last is not None:
                yield last
            last = part
        if last is not None:
            yield last

    def _is_repeated(self, source: SourceDocument) -> bool:
        """True if a part was given before, or a document without an id that has the same text."""
        [part] = source.parts
        digests = self._digests.setdefault(source.doc_id, set())
        has_equal_text = source.id_origin == "text" and bool(digests)
        try:
            fields = described(part, "")
        except (MetadataError, TypeError):
            fields = f"refused later: {id(part)}"
        part_digest = digest(fields, part.page_content)
        is_repeated = has_equal_text or (part_digest in digests and not self.append)
        digests.add(part_digest)
        if is_repeated:
            excerpt = part.page_content[:_EXCERPT]
            self._repeated.append(repr(excerpt if has_equal_text else source.doc_id))
        return is_repeated

    def _add_batch(self, batch: Sequence[SourceDocument], answered: Advance) -> None:
        """Add documents."""
        expected: ExpectedVersions | None = None
        if self.append:
            batch, expected = _read_stored_parts(self.writer, batch, self.rules)
        documents = self._convert_each(self._split, batch)
        if self.headers is not None and documents:
            documents = run(self.headers.make(documents, self.writer.docstore, answered))
        name = partial(with_name, namespace=namespace_of(self.writer.docstore))
        versions = self._convert_each(name, documents)
        if versions:
            self.writer.write(versions, expected, force=self.force)

    def _split(self, source: SourceDocument) -> DocumentVersion:
        """Join the parts of a document, and split the text."""
        # An id that some stores cannot keep is refused: ids are never altered.
        refused = UNENCODABLE.search(source.doc_id)
        if refused:
            raise MetadataError(
                f"document id {source.doc_id!r} contains {refused.group()!r}, a character that "
                "some stores cannot keep. Set another id with ids= or metadata['doc_id']"
            )
        _check_one_document(source, append=self.append)
        text = self.separator.join(part.page_content for part in source.parts)
        spans: list[Span] = []
        if text and not text.isspace():
            try:
                with during(f"splitting document {source.doc_id!r}"):
                    spans = find_spans(text, self.splitter)
            except SplittingError as error:
                raise SplittingError(f"document {source.doc_id!r}: {error}") from error
        else:
            self._blank.append(repr(source.doc_id))
        return make_document(source, text, spans, separator=self.separator, rules=self.rules)

    def _convert_each(self, convert: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Convert items; record and exclude items whose id or metadata cannot be stored."""
        converted: list[T] = []
        for item in items:
            try:
                converted.append(convert(item))
            except MetadataError as error:
                self._refused.append(str(error))
        return converted


# Appending


def _read_stored_parts(
    writer: Writer, sources: Sequence[SourceDocument], rules: Mapping[str, Rule]
) -> tuple[list[SourceDocument], dict[str, Version | None]]:
    """Put the stored parts of documents before the new ones.

    Returns the documents, and the stored version of each by document id.
    """
    manifests = writer.records.manifests(document_key(source.doc_id) for source in sources)
    extended: list[SourceDocument] = []
    versions: dict[str, Version | None] = {}
    for source, manifest in zip(sources, manifests, strict=True):
        if source.id_origin == "text":
            raise ValueError(
                "append=True: the document that begins "
                f"{source.parts[0].page_content[:_EXCERPT]!r} has no id, so the document to extend "
                "is unknown. Set ids= or metadata['doc_id']"
            )
        whole = source
        # A row has no parts: it replaces the stored row.
        if not source.is_separate and manifest is not None and manifest.current is not None:
            whole = _with_stored_parts(writer, source, manifest, rules)
        extended.append(whole)
        versions[source.doc_id] = manifest.current if manifest is not None else None
    return extended, versions


def _with_stored_parts(
    writer: Writer, source: SourceDocument, manifest: Manifest, rules: Mapping[str, Rule]
) -> SourceDocument:
    stored = read_parts(writer.docstore, manifest)
    if stored is None:
        raise ValueError(
            f"append=True: the docstore does not have the full text of document "
            f"{source.doc_id!r}, which is normal for adopted documents. Add the whole document "
            "without append=True"
        )
    fields = dropped(rules)

    def content(part: Document) -> tuple[str, str]:
        return part.page_content, described(part, source.doc_id, fields)

    last_stored = stored[-len(source.parts) :]
    if list(map(content, last_stored)) == list(map(content, source.parts)):
        end = source.parts[-1].page_content
        raise ValueError(
            f"append=True: document {source.doc_id!r} already ends with these parts "
            f"({end[:_EXCERPT]!r}). Pass only new parts, or drop append=True and pass the whole "
            "document"
        )
    return replace(source, parts=[*stored, *source.parts], stored=len(stored))


# Syncing


class SyncResult(NamedTuple):
    """The result of ``sync``."""

    added: list[str]
    """Ids of the new documents, in order of appearance."""
    changed: list[str]
    """Ids of the documents that were written again, in order of appearance: text, metadata or
    settings have changed, vectors were missing, or ``force`` is set."""
    unchanged: list[str]
    """Ids of the given documents that were stored already, in order of appearance."""
    deleted: list[str]
    """Ids of the documents that were deleted."""

    def __repr__(self) -> str:
        counts = [f"{len(ids):,} {change}" for change, ids in self._asdict().items()]
        return f"<SyncResult: {', '.join(counts)}>"


def sync_documents(
    adding: AddOperation,
    documents: Iterable[Document],
    ids: Iterable[str] | None,
    *,
    may_delete: Callable[[Manifest], bool],
    show_progress: bool,
) -> SyncResult:
    """Add documents, then delete all other stored documents that ``may_delete`` allows.

    If adding fails, no document is deleted.
    """
    # Read first, so that documents added by concurrent calls are kept.
    manifests = read_manifests(adding.writer.docstore)
    stored_ids = [manifest.doc_id for manifest in manifests if may_delete(manifest)]
    before = {manifest.doc_id for manifest in manifests if manifest.current}

    given_ids = adding.add(documents, ids, show_progress=show_progress)
    if stored_ids and not given_ids:
        raise ValueError(
            "documents is empty, so sync would delete all "
            f"{counted(len(stored_ids), 'document')}. Check the path that you load from. To delete "
            "all documents on purpose, call delete with their ids"
        )
    gone = set(stored_ids).difference(given_ids)
    deleted = adding.writer.delete(sorted(gone))
    result = SyncResult([], [], [], deleted)
    for doc_id in given_ids:
        if doc_id in adding.writer.unchanged:
            result.unchanged.append(doc_id)
        else:
            (result.changed if doc_id in before else result.added).append(doc_id)
    return result


# Documents as given


def _identify(
    documents: Iterable[Document], ids: Iterable[str] | None, *, separate: bool | None
) -> Iterator[SourceDocument]:
    """Assign each document its id; refuse chunks and retrieved passages."""
    pairs: Iterable[tuple[Any, str | None]]
    if ids is None:
        pairs = zip(documents, itertools.repeat(None))
    else:
        pairs = itertools.zip_longest(documents, ids)
    for number, (document, given) in enumerate(pairs, 1):
        is_id = isinstance(given, str) and given != ""
        if ids is not None and (document is None or not is_id):
            raise ValueError(
                "ids must contain one id for each document, a non-empty string; got the id "
                f"{shown(given)} for document {number}"
            )
        if not isinstance(document, Document):
            given_type = type(documents).__name__
            raise TypeError(f"{_DOCUMENTS}; got {given_type} with {shown(document)}")
        for name in (START_INDEX, VERSION, PASSAGE):
            value = document.metadata.get(name, 0)
            is_start = name == START_INDEX and not is_whole_number(value)
            if value != 0 and not is_start:
                raise ValueError(
                    f"the document that begins {document.page_content[:_EXCERPT]!r} has "
                    f"{name}={value!r:.40} in its metadata, so it is a chunk of another document. "
                    f"Instead, {_ADD_WHOLE}. To store it as a document of its own, remove "
                    f"{name!r} from its metadata"
                )
        yield _identified(document, given, separate=separate)


def _identified(document: Document, given: str | None, *, separate: bool | None) -> SourceDocument:
    """Assign a document its id: ``given``, or from its metadata, or a digest of its text.

    For ``separate``, see `AddOperation`.
    """
    for doc_id in (given, document.metadata.get(DOC_ID), document.id):
        if doc_id is not None and doc_id != "":
            return SourceDocument(str(doc_id), [document], "given", is_separate=separate is True)
    source = document.metadata.get("source")
    has_source = source is not None and source != ""
    row = ""
    for name, word in _NUMBERED.items():
        number = document.metadata.get(name)
        if is_whole_number(number) and not row:
            row = f"{word} {number}"
    is_separate = separate if separate is not None else bool(row)
    if has_source and not is_separate:
        return SourceDocument(str(source), [document], "source")
    if has_source and row:
        return SourceDocument(f"{source}, {row}", [document], "source", is_separate=True)
    text_id = digest(document.page_content)
    if has_source:
        # A digest, because a running number would be reused by the next call.
        entry_id = f"{source}, {text_id[:_DIGITS]}"
        return SourceDocument(entry_id, [document], "text", is_separate=True)
    return SourceDocument(text_id, [document], "text", is_separate=separate is True)


def _check_one_document(source: SourceDocument, *, append: bool) -> None:
    """Refuse parts that nothing distinguishes: chunks, or documents with the same name.

    With ``append``, parts with a given id are trusted to belong together.
    """
    new_parts = source.parts[source.stored :]
    is_trusted = append and source.id_origin != "source"
    if source.id_origin == "text" or is_trusted or len(new_parts) == 1:
        return
    descriptions = {described(part, source.doc_id) for part in new_parts}
    # With a given id, two sections may have the same heading.
    most = len(new_parts) - 1 if source.id_origin == "source" else 1
    if source.is_separate:
        problem = "separate=True is set, or this id stands for a single row or record"
    elif len(descriptions) <= most:
        problem = "two of them have the same metadata"
    else:
        return
    name = "source" if source.id_origin == "source" else "id"
    raise ValueError(
        f"several documents have the {name} {source.doc_id!r}, so they count as parts of one "
        f"document, but {problem}. If they are chunks, {_ADD_WHOLE}. If they are different files, "
        "give each its own id: ids= or metadata['doc_id']. If they are parts of one file, pass "
        "them in order, each with metadata['page']. If each is a document, such as a message or "
        "an entry: add_documents(docs, separate=True)"
    )
