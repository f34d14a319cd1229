"""Reads the documents of a call in batches, assigns their ids, and refuses chunks."""

import itertools
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence

from langchain_core.documents import Document

from langchain_rse._sync import call, run
from langchain_rse.ingest.source_documents import IdOrigin, SourceDocument, is_whole_number
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import DOC_ID, PASSAGE, START_INDEX, VERSION, WRITTEN, digest

# Size of a batch in characters; each document counts for at least 1,000.
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
    """Reads documents in batches: a sequence is grouped by id, an iterator is read in order.

    Attributes:
        separate: True if each LangChain Document is a separate document, False if Documents with
            the same id are parts of one document. None: True for table rows and JSON records only.
        is_at_end: True after the last batch was read.
    """

    def __init__(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        ids: Iterable[str] | None,
        *,
        separate: bool | None,
    ) -> None:
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of ids, not one string; use [{ids!r}]")
        self.separate = separate
        self.is_at_end = False
        self._ids = None if ids is None else iter(ids)
        self._sources: Iterator[SourceDocument]
        if isinstance(documents, AsyncIterable):
            self._sources = self._read(_awaited(documents))
        elif isinstance(documents, Sequence):
            self._sources = self._read_grouped(documents)
        else:
            self._sources = self._read(documents)

    def next_batch(self) -> list[SourceDocument]:
        """Read the next batch."""
        batch: list[SourceDocument] = []
        room = _CHARACTERS_AHEAD
        for source in self._sources:
            batch.append(source)
            room -= max(len(source.parts[0].page_content), _LEAST_CHARACTERS)
            if room <= 0:
                return batch
        self.is_at_end = True
        return batch

    def _read_grouped(self, documents: Sequence[Document]) -> Iterator[SourceDocument]:
        """Read all documents and group them by id."""
        groups: dict[str, list[SourceDocument]] = {}
        for document in documents:
            source = self._identified(document)
            groups.setdefault(source.doc_id, []).append(source)
        self._check_all_ids_used()
        yield from itertools.chain.from_iterable(groups.values())

    def _read(self, documents: Iterable[Document]) -> Iterator[SourceDocument]:
        for document in documents:
            yield self._identified(document)
        self._check_all_ids_used()

    def _identified(self, document: Document) -> SourceDocument:
        if self._ids is None:
            return identified(document, separate=self.separate)
        given = next(self._ids, None)
        if not isinstance(given, str) or not given:
            raise ValueError(
                f"ids must contain one id for each document, a non-empty string; got {given!r}"
            )
        return identified(document, given, separate=self.separate)

    def _check_all_ids_used(self) -> None:
        if self._ids is None:
            return
        for _ in self._ids:
            raise ValueError(
                "ids must contain one id for each document; got more ids than documents"
            )


def _awaited(documents: AsyncIterable[Document]) -> Iterator[Document]:
    """Await the documents of an async iterator on the event loop of the caller."""
    iterator = aiter(documents)

    async def next_document() -> Document | None:
        return await anext(iterator, None)

    while (document := run(call(_refuse_async, next_document))) is not None:
        yield document


def _refuse_async() -> Document | None:
    raise TypeError("documents is an async iterator. Use aadd_documents")


def identified(
    document: Document, given: str | None = None, *, separate: bool | None = None
) -> SourceDocument:
    """Assign a document its id: ``given``, or from its metadata, or a digest of its text.

    For ``separate``, see `Reader`.
    """
    if not isinstance(document, Document):
        raise TypeError(f"documents must be a list of Documents; it contains {document!r:.200}")
    check_whole(document)
    names: list[tuple[object, IdOrigin]] = [
        (given, "ids"),
        (document.metadata.get(DOC_ID), "metadata"),
        (document.id, "metadata"),
    ]
    for name, origin in names:
        if name is not None and name != "":
            return SourceDocument(str(name), [document], origin, is_separate=separate is True)
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
    metadata = document.metadata
    start = metadata.get(START_INDEX)
    if is_whole_number(start) and start != 0:
        field, value = START_INDEX, repr(start)
    elif VERSION in metadata:
        field, value = VERSION, repr(metadata[VERSION])
    elif PASSAGE in metadata:
        field, value = PASSAGE, "{...}"
    else:
        return
    raise ValueError(
        f"the document that begins {document.page_content[:_EXCERPT]!r} has {field}={value} in its "
        f"metadata, so it is a chunk of another document. Instead, {_ADD_WHOLE}. To store it as a "
        f"document of its own, remove {field!r} from its metadata"
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
        problem = "this id stands for a single row or record"
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


def described(part: Document, doc_id: str) -> str:
    """Encode a part's metadata without its position, to compare it with other parts."""
    names = sorted(set(part.metadata) - WRITTEN, key=str)
    fields = {name: part.metadata[name] for name in names}
    return encode_json(fields, f"metadata of document {doc_id!r}")
