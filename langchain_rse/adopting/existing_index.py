"""Defines ExistingIndex, the description of an index, and Adoption, the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, Self

from langchain_core.documents import Document
from pydantic import ConfigDict, Field, NonNegativeInt, model_validator

from langchain_rse._messages import Checked
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.text.quoting import counted, first_few, shortened

_Key = Annotated[str, Field(min_length=1)]

# One pair in this many that shares text makes a stated overlap of 0 doubtful. Measured with texts,
# code and logs: 4 % to 99 % of pairs with an overlap, at most 0.8 % without.
_OVERLAPPING = 50


class ExistingIndex(Checked):
    """Describes an index that was built without this package.

    Set at least one field that gives the order of a document's chunks: `chunk_index_key`,
    `start_index_key`, `page_key`, `in_store_order` or `texts`.

    Attributes:
        doc_id_key: Metadata field with the name of a chunk's document, a string or integer. By
            default, the first usual name that all chunks have, such as ``source``.
        doc_id: Name of the document, if all chunks belong to one document and no field names it,
            as in ``Chroma.from_texts(splitter.split_text(text))``.
        chunk_index_key: Metadata field with the chunk's number in the document, or in the page if
            `page_key` is set. Numbering may begin anywhere; a missing number is a gap. Ignored if
            `start_index_key` is set.
        start_index_key: Metadata field with the position of the chunk's first character in the
            document, or in the page if `page_key` is set (LangChain's ``add_start_index=True``).
            Without the text, what is missing between two chunks cannot be known: up to 32
            characters count as indentation that the splitter stripped, more are a gap.
        page_key: Metadata field with the page number.
        in_store_order: True if chunks without another position were added in text order.
        chunk_overlap: Maximum number of characters that neighboring chunks share: the splitter's
            ``chunk_overlap``, 0 for none. Required without `start_index_key` and `texts`.
        separator: Text to insert between neighboring chunks that neither overlap nor have white
            space between them, because the splitter stripped it. Ignored with `start_index_key`.
        texts: The documents that the index was made from: a list, such as ``loader.load()``, in
            which the pages of a document are joined by their `doc_id_key`; or their whole texts by
            document id, in a dict of strings or Documents, or in a store such as the docstore of a
            ``ParentDocumentRetriever`` if `doc_id_key` is its id. Chunks are then located by their
            text and need no positions.
        on_error: What to do with a document whose chunks cannot be joined: ``"raise"`` an error,
            or ``"skip"`` the document. Skipped documents are reported, and queries ignore them.

    Raises:
        ValueError: If a field is out of range, no field gives an order, or both `doc_id_key` and
            `doc_id` are set.
    """

    model_config = ConfigDict(frozen=True)

    doc_id_key: _Key | None = None
    doc_id: _Key | None = None
    chunk_index_key: _Key | None = None
    start_index_key: _Key | None = None
    page_key: _Key | None = None
    in_store_order: bool = False
    chunk_overlap: NonNegativeInt | None = None
    separator: str = "\n"
    texts: DocStore | Mapping[str, Document | str] | Sequence[Document] | None = Field(
        default=None, repr=False
    )
    on_error: Literal["raise", "skip"] = "raise"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.doc_id_key is not None and self.doc_id is not None:
            raise ValueError(
                "set only one of doc_id_key (the metadata field that names a chunk's document) "
                "and doc_id (the name of the document, if all chunks belong to one); got "
                f"doc_id_key={self.doc_id_key!r}, doc_id={self.doc_id!r}"
            )
        keys = (self.page_key, self.chunk_index_key, self.start_index_key)
        if not any(keys) and not self.in_store_order and self.texts is None:
            raise ValueError(
                "the order of the chunks is unknown: set texts (the documents that the index was "
                "made from), start_index_key, chunk_index_key, page_key or in_store_order=True"
            )
        return self


class Gap(NamedTuple):
    """A place in a document where the vector store has no text.

    Attributes:
        doc_id: The id of the document.
        after: The id of the vector before the gap; None at the beginning of the document.
        before: The id of the vector after the gap.
        length: The number of missing characters; None if unknown.
    """

    doc_id: str
    after: str | None
    before: str
    length: int | None

    def __str__(self) -> str:
        missing = "text" if self.length is None else f"{self.length} characters"
        return f"document {self.doc_id!r}: {missing} missing before chunk {self.before!r}"


@dataclass
class Adoption:
    """The report of adopting an existing index; it prints as a summary.

    Attributes:
        index: The `ExistingIndex` used: the given one, or the one recognized from the chunks'
            metadata.
        documents: Number of adopted documents.
        chunks: Number of their chunks.
        vectors: Number of their vectors. It exceeds `chunks` if vectors repeat a chunk, are empty,
            or are fully contained in another chunk.
        gaps: Places where text is missing. No passage crosses them.
        problems: Excluded documents and chunks, with reasons; only with ``on_error="skip"``.
        copied: Ids of documents that were in the index several times, without positions.
        overlaps: Numbers of characters that neighboring chunks share, with ``chunk_overlap=0``.
    """

    index: ExistingIndex
    documents: int = 0
    chunks: int = 0
    vectors: int = 0
    gaps: list[Gap] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    overlaps: list[int] = field(default_factory=list)

    def __repr__(self) -> str:
        """Return a summary: the index, and "1,204 chunks of 31 documents"."""
        counts = f"{counted(self.chunks, 'chunk')} of {counted(self.documents, 'document')}"
        return f"{self.index!r}: {counts}"

    def warning(self) -> str | None:
        """Return a message with the first gaps and problems; None without any."""
        sentences: list[str] = []
        if self.problems:
            left_out = [shortened(problem, 100) for problem in self.problems]
            sentences.append(
                f"{counted(len(left_out), 'problem')}, whose documents or chunks will not be "
                f"found ({counted(self.documents, 'document')} adopted): "
                f"{first_few(left_out)}"
            )
        if self.gaps:
            gaps = first_few(map(str, self.gaps))
            sentences.append(f"{counted(len(self.gaps), 'gap')}, which no passage crosses: {gaps}")
        # Fewer may be repetitions in the text.
        if len(self.overlaps) * _OVERLAPPING > self.chunks:
            sentences.append(
                f"neighboring chunks share up to {max(self.overlaps)} characters, which passages "
                "repeat: set chunk_overlap to what the splitter was given, instead of 0"
            )
        if not sentences:
            return None
        return ". ".join([*sentences, "RSEIndexer.adopt returns the full list"])
