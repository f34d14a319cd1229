"""Joins parts of a document that are chunks of one text; refuses parts of different files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from langchain_core.documents import Document

from langchain_rse.errors import SplittingError
from langchain_rse.ingest.joining import EXCERPT, STRIPPED, ChunkToJoin, join_by_start
from langchain_rse.ingest.overlap import chunk_overlap
from langchain_rse.ingest.source_documents import SourceDocument, numbered
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import PASSAGE, START_INDEX, VERSION, WRITTEN, Rule

ADD_WHOLE = (
    "add whole documents: retriever.add_documents(docs). The retriever splits them itself, with "
    "RSERetriever(..., text_splitter=splitter)"
)


# Chunks of documents with an id


@dataclass(frozen=True)
class _Part:
    """A part of a document, with its position according to its metadata."""

    document: Document
    start: int | None  # its start_index; -1 if its splitter could not tell; None without one
    is_stored: bool  # True if it is already stored, and new parts follow

    @property
    def text(self) -> str:
        return self.document.page_content

    @property
    def description(self) -> str:
        """The part's name in messages."""
        page = ""
        if "page" in self.document.metadata:
            page = f" of page {self.document.metadata['page']}"
        place = f"a chunk{page}" if self.start is None else f"{START_INDEX}={self.start}{page}"
        return f"{place} ({self.text[:EXCERPT]!r}...)"


def rejoin(source: SourceDocument, *, append: bool) -> SourceDocument:
    """Join parts that are chunks of one text, by their ``start_index``.

    Neighboring parts with the same metadata belong to one text, such as a page.

    Raises:
        SplittingError: If the position of a chunk is unknown, or chunks contradict each other.
    """
    if source.id_origin == "text":
        return source
    joined: list[Document] = []
    for parts in _pages(source):
        try:
            text = _join(source, parts, append=append)
        except SplittingError as error:
            raise SplittingError(
                f"document {source.doc_id!r}: its parts are chunks that cannot be joined: {error}. "
                f"Instead, {ADD_WHOLE}. Or set add_start_index=True in the splitter that makes the "
                "chunks. If the parts are not chunks, give them different metadata, such as page; "
                "if they are different files, give each its own id (ids= or metadata['doc_id'])"
            ) from None
        if text is None:
            joined += [part.document for part in parts]
        else:
            joined.append(Document(text, metadata=parts[0].document.metadata))
    return replace(source, parts=joined)


def described(part: Document, doc_id: str) -> str:
    """Encode a part's metadata without its position, to compare it with other parts."""
    names = sorted(set(part.metadata) - WRITTEN, key=str)
    fields = {name: part.metadata[name] for name in names}
    return encode_json(fields, f"metadata of document {doc_id!r}")


def begins_later(part: Document) -> bool:
    """True if a part's ``start_index`` shows that text comes before it."""
    start = part.metadata.get(START_INDEX)
    return type(start) is int and start > 0


def _pages(source: SourceDocument) -> list[list[_Part]]:
    """Group neighboring parts with the same metadata: the parts of one text, such as a page."""
    pages: list[list[_Part]] = []
    description_before = None
    for number, document in enumerate(source.parts):
        is_stored = number < source.stored
        start: int | None = 0
        if not is_stored:
            start = _start_index(source, document)
        description = described(document, source.doc_id)
        if description != description_before:
            pages.append([])
            description_before = description
        pages[-1].append(_Part(document, start, is_stored))
    return pages


def _start_index(source: SourceDocument, document: Document) -> int | None:
    """Return the ``start_index`` of a part; None if missing or of another text."""
    metadata = document.metadata
    is_vector = VERSION in metadata
    is_passage = PASSAGE in metadata and START_INDEX in metadata
    if is_vector or is_passage:
        if source.id_origin == "ids":
            return None
        raise ValueError(
            f"document {source.doc_id!r} would be replaced by a retrieved fragment of itself, "
            f"which begins {document.page_content[:EXCERPT]!r}. To add the document, {ADD_WHOLE}. "
            "To store the fragment as a separate document, give it an id: "
            "add_documents([...], ids=[...])"
        )
    start = metadata.get(START_INDEX)
    return start if type(start) is int else None


def _join(source: SourceDocument, parts: Sequence[_Part], *, append: bool) -> str | None:
    """Join neighboring parts with the same metadata; None if they are not chunks."""
    new_parts = [part for part in parts if not part.is_stored]
    starts = [part.start for part in new_parts if part.start is not None]
    if min(starts, default=0) < 0:
        raise _unknown_place(parts)
    continues_stored = parts[0].is_stored and bool(starts)
    if max(starts, default=0) > 0 or continues_stored:
        return _join_by_start(source, parts, append=append)
    _check_no_overlap(parts)
    return None


def _unknown_place(parts: Sequence[_Part]) -> SplittingError:
    for part in parts:
        if part.start is None or part.start < 0:
            break
    return SplittingError(f"the position of a chunk is unknown: {part.description}")


def _check_no_overlap(parts: Sequence[_Part]) -> None:
    """Refuse parts that overlap: they are chunks without positions."""
    for before, after in pairwise(parts):
        if after.is_stored:
            continue
        shared = chunk_overlap(before.text, after.text)
        if shared:
            raise SplittingError(
                f"two chunks overlap by {shared} characters, but their positions are unknown: "
                f"{before.description} and {after.description}"
            )


def _join_by_start(source: SourceDocument, parts: Sequence[_Part], *, append: bool) -> str:
    """Join chunks by their ``start_index``; the beginning of the text must be there."""
    chunks: list[ChunkToJoin] = []
    for part in parts:
        if part.start is None:
            raise _unknown_place(parts)
        chunks.append(ChunkToJoin(part.text, part.start, part.description))
    if source.id_origin == "ids" and not append:
        # A fragment with a given id is a separate document.
        return join_by_start(chunks).text
    first = min(chunks, key=lambda chunk: chunk.start)
    if first.start > STRIPPED:
        raise ValueError(
            f"document {source.doc_id!r}: its beginning is missing: the first chunk has "
            f"{first.description}. If the beginning is stored, append to it: "
            f"add_documents(docs, append=True). Otherwise {ADD_WHOLE}"
        )
    # White space may also have been stripped from the beginning.
    start_of_text = ChunkToJoin("", 0, "the start of the text")
    return join_by_start([start_of_text, *chunks]).text


# Files with the same name


def check_one_file(source: SourceDocument, rules: Mapping[str, Rule], *, append: bool) -> None:
    """Refuse parts that may be of different files: equal metadata, or falling page numbers.

    With ``append``, parts with a given id are trusted to belong together.
    """
    new_parts = source.parts[source.stored :]
    is_trusted = append and source.id_origin != "source"
    if source.id_origin == "text" or is_trusted or len(new_parts) < 2:  # noqa: PLR2004
        return
    problem = _falling_number(new_parts, rules)
    if problem is None:
        descriptions = {described(part, source.doc_id) for part in new_parts}
        # With a given id, two sections may have the same heading.
        most = len(new_parts) - 1 if source.id_origin == "source" else 1
        if source.is_separate:
            problem = "this id stands for a single row or record"
        elif len(descriptions) <= most:
            problem = "two of them have the same metadata"
    if problem is not None:
        name = "source" if source.id_origin == "source" else "id"
        raise ValueError(
            f"several documents have the {name} {source.doc_id!r}, so they count as parts of one "
            f"document, but {problem}. If they are different files, give each its own id: ids= or "
            "metadata['doc_id']. If they are parts of one file, pass them in order, each with "
            "metadata['page']. If each is a document, such as a message or an entry: "
            f"add_documents(docs, separate=True). If they are chunks, {ADD_WHOLE}"
        )


def _falling_number(parts: Sequence[Document], rules: Mapping[str, Rule]) -> str | None:
    """Describe the first number, such as a page, that is smaller than its predecessor."""
    for name, numbers in numbered([part.metadata for part in parts], rules):
        for before, after in pairwise(numbers):
            if after < before:
                return f"{name} {after} comes after {before}"
    return None
