"""Decides which parts of a document are chunks of one text, and joins them again.

Also refuses parts of two files that have the same name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from langchain_core.documents import Document

from langchain_rse.errors import SplittingError
from langchain_rse.ingest.documents import SourceDocument, numbered
from langchain_rse.ingest.joining import (
    EXCERPT,
    STRIPPED,
    ChunkToJoin,
    find_starts,
    join_by_overlap,
    join_by_start,
)
from langchain_rse.ingest.overlap import sure_overlap
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

    def as_chunk(self) -> ChunkToJoin:
        """Describe the part as a chunk of the text of its neighbors."""
        page = ""
        if "page" in self.document.metadata:
            page = f" of page {self.document.metadata['page']}"
        description = f"{START_INDEX}={self.start}{page}, which begins {self.text[:EXCERPT]!r}"
        start = self.start
        if start is not None and start < 0:
            start = None
        return ChunkToJoin(self.text, start, description)


def rejoin(source: SourceDocument, *, append: bool) -> SourceDocument:
    """Join those parts of a document that are chunks of one text.

    Neighbors with the same metadata are of one text, such as a page. Their ``start_index`` says
    where they lie in it; without that, the overlap of a part with the next one does.
    """
    if source.id_origin == "text":
        return source
    pages = _pages(source)
    has_overlap = any(_has_overlap(parts) for parts in pages)
    joined: list[Document] = []
    for parts in pages:
        text = _join(source, parts, has_overlap=has_overlap, append=append)
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


def _has_overlap(parts: Sequence[_Part]) -> bool:
    """Return True if a new part surely overlaps the one before it."""
    for before, after in pairwise(parts):
        if not after.is_stored and sure_overlap(before.text, after.text):
            return True
    return False


def _join(
    source: SourceDocument, parts: Sequence[_Part], *, has_overlap: bool, append: bool
) -> str | None:
    """Join neighboring parts with the same metadata; None if they are not chunks of one text.

    With ``has_overlap``, some parts of the document overlap: then all of them are chunks.
    """
    chunks = [part.as_chunk() for part in parts]
    new_starts = [part.start for part in parts if not part.is_stored and part.start is not None]
    has_later_start = max(new_starts, default=0) > 0
    has_unknown_start = min(new_starts, default=0) < 0
    continues_stored = parts[0].is_stored and bool(new_starts)
    try:
        if has_later_start or continues_stored:
            return _join_by_start(source, chunks, append=append)
        if has_overlap and not parts[-1].is_stored:
            return join_by_overlap(chunks).text
    except SplittingError as error:
        raise _cannot_join(source, str(error)) from None
    if has_unknown_start and not has_overlap and len(parts) > 1:
        last = chunks[-1].description
        raise _cannot_join(source, f"the splitter could not tell where they lie ({last})")
    return None


def _cannot_join(source: SourceDocument, problem: str) -> SplittingError:
    return SplittingError(
        f"document {source.doc_id!r}: its parts are chunks that cannot be put together: {problem}. "
        f"Instead, {WHOLE}; or give each file an id of its own (ids= or metadata['doc_id'])"
    )


def _join_by_start(source: SourceDocument, chunks: Sequence[ChunkToJoin], *, append: bool) -> str:
    """Join chunks by their ``start_index`` into a text that has its beginning."""
    if source.id_origin == "ids" and not append:
        # A fragment that was given an id is a document of its own.
        return join_by_start(chunks).text
    starts = find_starts(chunks)
    beginning = min(starts)
    if beginning > STRIPPED:
        first = chunks[starts.index(beginning)]
        raise ValueError(
            f"document {source.doc_id!r}: its beginning is missing: the first chunk has "
            f"{first.description}. If it is stored, add to it: add_documents(docs, append=True). "
            f"Otherwise {WHOLE}"
        )
    # White space may have been stripped from the beginning as well.
    start_of_text = ChunkToJoin("", 0, "the start of the text")
    return join_by_start([start_of_text, *chunks]).text


# Files of one name


def check_one_file(source: SourceDocument, rules: Mapping[str, Rule]) -> None:
    """Refuse parts of two files with one ``source``: equal metadata, or falling page numbers."""
    new_parts = source.parts[source.stored :]
    if source.id_origin != "source" or len(new_parts) < 2:  # noqa: PLR2004
        return
    problem = _falling_number(new_parts, rules)
    if problem is None:
        descriptions = {described(part, source.doc_id) for part in new_parts}
        if source.is_separate:
            problem = "it is one row or record"
        elif len(descriptions) < len(new_parts):
            problem = "two of them have the same metadata"
    if problem is not None:
        raise ValueError(
            f"several documents have the source {source.doc_id!r}, which makes them parts of one, "
            f"but {problem}. Give different files ids of their own: ids= or metadata['doc_id']; "
            f"parts of one file in order, each with metadata['page']. If each is a document, such "
            f"as a message or an entry: add_documents(docs, separate=True). If they are chunks, "
            f"{WHOLE}"
        )


def _falling_number(parts: Sequence[Document], rules: Mapping[str, Rule]) -> str | None:
    """Name the first number, such as that of a page, that is smaller than the one before it."""
    for name, numbers in numbered([part.metadata for part in parts], rules):
        for before, after in pairwise(numbers):
            if after < before:
                return f"{name} {after} comes after {before}"
    return None
