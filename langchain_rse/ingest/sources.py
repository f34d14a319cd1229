"""Reads the documents of a call, assigns their ids, joins their parts, and refuses chunks."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from langchain_core.documents import Document

from langchain_rse.errors import MetadataError
from langchain_rse.ingest.source_documents import SourceDocument, is_whole_number
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import DOC_ID, PASSAGE, START_INDEX, VERSION, WRITTEN, digest

# Size of a batch in characters; each part counts for at least 1,000.
_CHARACTERS_AHEAD = 1_000_000
_LEAST_CHARACTERS = 1_000

# Fields in which loaders number table rows and JSON records, with the word used in ids. Each row
# or record is a separate document.
_NUMBERED = {"row": "row", "seq_num": "record"}

# Length of the digest in the ids of separate documents of one source, in hexadecimal digits.
_DIGITS = 12

_EXCERPT = 40

_ADD_WHOLE = (
    "add whole documents: retriever.add_documents(docs). The retriever splits them itself, with "
    "RSERetriever(..., text_splitter=splitter)"
)


class Reader:
    """Reads documents with all their parts.

    In a list, the parts of a document may be anywhere; an iterator is read in order, and must yield
    them one after the other.

    Attributes:
        digests: The digests of each document's parts, by document id, in order of appearance.
        repeated: Documents and parts given twice, as a warning names them.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        ids: Iterable[str] | None,
        *,
        separate: bool | None,
        append: bool,
    ) -> None:
        """Prepare reading.

        Args:
            documents: The documents of the call.
            ids: One id for each of them, or None.
            separate: True if each is a separate document, False if those with the same id are parts
                of one document. None: True for table rows and JSON records only.
            append: True to keep repeated parts, which extend a stored document.
        """
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        self.digests: dict[str, set[str]] = {}
        self.repeated: list[str] = []
        self._append = append
        self._parts = _identify(documents, ids, separate=separate)
        if isinstance(documents, Sequence):
            self._parts = _grouped(self._parts)

    def batches(self) -> Iterator[list[SourceDocument]]:
        """Yield batches of documents; each is cleared before the next one is read."""
        batch: list[SourceDocument] = []
        room = _CHARACTERS_AHEAD
        for source in self._documents():
            batch.append(source)
            for part in source.parts:
                room -= max(len(part.page_content), _LEAST_CHARACTERS)
            if room <= 0:
                yield batch
                batch.clear()
                room = _CHARACTERS_AHEAD
        yield batch

    def _documents(self) -> Iterator[SourceDocument]:
        """Join consecutive parts with the same id; pass over parts given twice."""
        last: SourceDocument | None = None
        for part in self._parts:
            is_new = part.doc_id not in self.digests
            if self._is_repeated(part):
                continue
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
        digests = self.digests.setdefault(source.doc_id, set())
        has_equal_text = source.id_origin == "text" and bool(digests)
        part_digest = _digest(part)
        is_repeated = has_equal_text or (part_digest in digests and not self._append)
        digests.add(part_digest)
        if is_repeated:
            excerpt = part.page_content[:_EXCERPT]
            self.repeated.append(repr(excerpt if has_equal_text else source.doc_id))
        return is_repeated


def _digest(part: Document) -> str:
    """Compute a digest of a part's text and metadata, to recognize repeated parts."""
    try:
        fields = described(part, "")
    except (MetadataError, TypeError):
        fields = f"refused later: {id(part)}"
    return digest(fields, part.page_content)


def _identify(
    documents: Iterable[Document], ids: Iterable[str] | None, *, separate: bool | None
) -> Iterator[SourceDocument]:
    """Assign each document its id."""
    if ids is None:
        for document in documents:
            yield identified(document, separate=separate)
        return
    for document, given in itertools.zip_longest(documents, ids):
        if document is None or not isinstance(given, str) or not given:
            raise ValueError(
                "ids must contain one id for each document, a non-empty string; got the id "
                f"{given!r} for the document {document!r:.200}"
            )
        yield identified(document, given, separate=separate)


def _grouped(parts: Iterable[SourceDocument]) -> Iterator[SourceDocument]:
    """Read all parts and group them by document id."""
    groups: dict[str, list[SourceDocument]] = {}
    for part in parts:
        groups.setdefault(part.doc_id, []).append(part)
    yield from itertools.chain.from_iterable(groups.values())


def identified(
    document: Document, given: str | None = None, *, separate: bool | None = None
) -> SourceDocument:
    """Assign a document its id: ``given``, or from its metadata, or a digest of its text.

    For ``separate``, see `Reader`.
    """
    if not isinstance(document, Document):
        raise TypeError(
            f"documents must be a list of Documents, or use from_texts; got {document!r:.200}"
        )
    check_whole(document)
    for name in (given, document.metadata.get(DOC_ID), document.id):
        if name is not None and name != "":
            return SourceDocument(str(name), [document], "given", is_separate=separate is True)
    source = document.metadata.get("source")
    text_id = digest(document.page_content)
    if source is None or source == "":
        return SourceDocument(text_id, [document], "text", is_separate=separate is True)
    row = _row(document)
    is_separate = separate if separate is not None else row is not None
    if not is_separate:
        return SourceDocument(str(source), [document], "source")
    if row is not None:
        return SourceDocument(f"{source}, {row}", [document], "source", is_separate=True)
    # A digest, because a running number would be reused by the next call.
    entry_id = f"{source}, {text_id[:_DIGITS]}"
    return SourceDocument(entry_id, [document], "text", is_separate=True)


def _row(document: Document) -> str | None:
    """Return ``"row 17"`` or ``"record 17"`` for a table row or JSON record; None for others."""
    for field, word in _NUMBERED.items():
        number = document.metadata.get(field)
        if is_whole_number(number):
            return f"{word} {number}"
    return None


# What is refused


def check_whole(document: Document) -> None:
    """Refuse a document that is a chunk or a retrieved passage, as its metadata shows."""
    for field in (START_INDEX, VERSION, PASSAGE):
        value = document.metadata.get(field, 0)
        is_start = field == START_INDEX and not is_whole_number(value)
        if value == 0 or is_start:
            continue
        raise ValueError(
            f"the document that begins {document.page_content[:_EXCERPT]!r} has "
            f"{field}={value!r:.40} in its metadata, so it is a chunk of another document. "
            f"Instead, {_ADD_WHOLE}. To store it as a document of its own, remove {field!r} from "
            "its metadata"
        )


def check_one_document(source: SourceDocument, *, append: bool) -> None:
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


def described(part: Document, doc_id: str, dropped: Iterable[str] = ()) -> str:
    """Encode a part's metadata, except position and dropped fields, to compare it with others."""
    names = sorted(set(part.metadata).difference(WRITTEN, dropped), key=str)
    fields = {name: part.metadata[name] for name in names}
    return encode_json(fields, f"metadata of document {doc_id!r}")
