"""Finds parts of a document that are chunks of one text, and joins them again.

Also refuses parts of two files that have the same name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from langchain_core.documents import Document

from langchain_rse.errors import SplittingError
from langchain_rse.ingest.joining import EXCERPT, STRIPPED, ChunkToJoin, join_by_start
from langchain_rse.ingest.overlap import chunk_overlap
from langchain_rse.ingest.source_documents import SourceDocument, numbered
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import SEGMENT, START_INDEX, VERSION, WRITTEN, Rule

WHOLE = (
    "pass whole documents, not split before: retriever.add_documents(docs). The retriever splits "
    "them: RSERetriever(..., text_splitter=splitter)"
)


# Chunks of documents with an id


@dataclass(frozen=True)
class _Part:
    """A part of a document, and what its metadata says of its place."""

    document: Document
    start: int | None  # its start_index, -1 if its splitter found none; None without one
    is_stored: bool  # it is the beginning of a document that is added to

    @property
    def text(self) -> str:
        return self.document.page_content

    @property
    def description(self) -> str:
        """Names the part in messages."""
        page = ""
        if "page" in self.document.metadata:
            page = f" of page {self.document.metadata['page']}"
        place = f"the one{page}" if self.start is None else f"{START_INDEX}={self.start}{page}"
        return f"{place}, which begins {self.text[:EXCERPT]!r}"


def rejoin(source: SourceDocument, *, append: bool) -> SourceDocument:
    """Join the parts of a document that are chunks of one text, by their ``start_index``.

    Neighbors with the same metadata are of one text, such as a page.

    Raises:
        SplittingError: If the place of a chunk is unknown, or chunks contradict each other.
    """
    if source.id_origin == "text":
        return source
    joined: list[Document] = []
    for parts in _pages(source):
        try:
            text = _join(source, parts, append=append)
        except SplittingError as error:
            raise SplittingError(
                f"document {source.doc_id!r}: its parts are chunks that cannot be put together: "
                f"{error}. Instead, {WHOLE}; or pass chunks that a splitter with "
                "add_start_index=True made. If they are not chunks, tell them apart by their "
                "metadata, such as page; or give each file an id of its own (ids= or "
                "metadata['doc_id'])"
            ) from None
        if text is None:
            joined += [part.document for part in parts]
        else:
            joined.append(Document(text, metadata=parts[0].document.metadata))
    return replace(source, parts=joined)


def described(part: Document, doc_id: str) -> str:
    """Describe a part by its metadata without its place, to tell it from others of its document."""
    names = sorted(set(part.metadata) - WRITTEN, key=str)
    fields = {name: part.metadata[name] for name in names}
    return encode_json(fields, f"metadata of document {doc_id!r}")


def begins_later(part: Document) -> bool:
    """Return True if the ``start_index`` of a part says that text is before it."""
    start = part.metadata.get(START_INDEX)
    return type(start) is int and start > 0


def _pages(source: SourceDocument) -> list[list[_Part]]:
    """Group neighboring parts with the same metadata: those of one text, such as a page."""
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
    """Return the ``start_index`` of a part; None if it says nothing of the document's text."""
    metadata = document.metadata
    is_vector = VERSION in metadata
    is_segment = SEGMENT in metadata and START_INDEX in metadata
    if is_vector or is_segment:
        if source.id_origin == "ids":
            return None
        raise ValueError(
            f"document {source.doc_id!r} would be replaced by a retrieved fragment of it "
            f"(it begins {document.page_content[:EXCERPT]!r}). To add the document, {WHOLE}. "
            "To make the fragment a document of its own, give it an id: "
            "add_documents([...], ids=[...])"
        )
    start = metadata.get(START_INDEX)
    return start if type(start) is int else None


def _join(source: SourceDocument, parts: Sequence[_Part], *, append: bool) -> str | None:
    """Join neighboring parts with the same metadata; None if they are not chunks of one text."""
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
    return SplittingError(f"the place of one is unknown ({part.description})")


def _check_no_overlap(parts: Sequence[_Part]) -> None:
    """Refuse parts that overlap: they are chunks, and nothing says where they lie."""
    for before, after in pairwise(parts):
        if after.is_stored:
            continue
        shared = chunk_overlap(before.text, after.text)
        if shared:
            raise SplittingError(
                f"{before.description} ends with the {shared} characters that begin "
                f"{after.description}, but nothing says where they lie"
            )


def _join_by_start(source: SourceDocument, parts: Sequence[_Part], *, append: bool) -> str:
    """Join chunks by their ``start_index`` into a text that has its beginning."""
    chunks: list[ChunkToJoin] = []
    for part in parts:
        if part.start is None:
            raise _unknown_place(parts)
        chunks.append(ChunkToJoin(part.text, part.start, part.description))
    if source.id_origin == "ids" and not append:
        # A fragment that was given an id is a document of its own.
        return join_by_start(chunks).text
    first = min(chunks, key=lambda chunk: chunk.start)
    if first.start > STRIPPED:
        raise ValueError(
            f"document {source.doc_id!r}: its beginning is missing: the first chunk has "
            f"{first.description}. If it is stored, add to it: add_documents(docs, append=True). "
            f"Otherwise {WHOLE}"
        )
    # White space may have been stripped from the beginning as well.
    start_of_text = ChunkToJoin("", 0, "the start of the text")
    return join_by_start([start_of_text, *chunks]).text


# Files of one name


def check_one_file(source: SourceDocument, rules: Mapping[str, Rule], *, append: bool) -> None:
    """Refuse parts that may be of two files: nothing tells them apart, or page numbers fall.

    With ``append``, parts with an id that was given follow one another.
    """
    new_parts = source.parts[source.stored :]
    is_meant = append and source.id_origin != "source"
    if source.id_origin == "text" or is_meant or len(new_parts) < 2:  # noqa: PLR2004
        return
    problem = _falling_number(new_parts, rules)
    if problem is None:
        descriptions = {described(part, source.doc_id) for part in new_parts}
        # With an id that was given, two sections may have the same heading.
        most = len(new_parts) - 1 if source.id_origin == "source" else 1
        if source.is_separate:
            problem = "it is one row or record"
        elif len(descriptions) <= most:
            problem = "two of them have the same metadata"
    if problem is not None:
        name = "source" if source.id_origin == "source" else "id"
        raise ValueError(
            f"several documents have the {name} {source.doc_id!r}, which makes them parts of one, "
            f"but {problem}. Give different files ids of their own: ids= or metadata['doc_id']; "
            f"parts of one file in order, each with metadata['page']. If each is a document, such "
            f"as a message or an entry: add_documents(docs, separate=True). If they are chunks, "
            f"{WHOLE}"
        )


def _falling_number(parts: Sequence[Document], rules: Mapping[str, Rule]) -> str | None:
    """Name the first number, such as a page, that is smaller than its predecessor."""
    for name, numbers in numbered([part.metadata for part in parts], rules):
        for before, after in pairwise(numbers):
            if after < before:
                return f"{name} {after} comes after {before}"
    return None
