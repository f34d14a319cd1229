"""ExistingIndex, a user's description of an index, and Adoption, the report of adopting it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

from langchain_core.documents import Document
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, model_validator
from typing_extensions import Self

from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.text.quoting import counted, first_few

_Key = Annotated[str, Field(min_length=1)]


class ExistingIndex(BaseModel):
    """Describes an index that was built without this package.

    Either `doc_id_key` or `doc_id` names the documents. One of the other fields has to give the
    order of a document's chunks.

    Attributes:
        doc_id_key: The metadata field that names a chunk's document: a string or number.
        doc_id: The name of the one document that all chunks are of, if no field names it, as in
            ``Chroma.from_texts(splitter.split_text(text))``.
        chunk_index_key: The field with the chunk's number in the document, or in the page if
            `page_key` is given. Numbering may begin anywhere; a missing number is a gap. Not used
            if `start_index_key` is given.
        start_index_key: The field with the chunk's first character in the document, or in the
            page if `page_key` is given (LangChain's ``add_start_index=True``).
        page_key: The field with the page's number.
        in_store_order: True if chunks without another position were added in the order of the text.
        chunk_overlap: The most characters that neighboring chunks share, as the splitter was given
            it; 0 for none. Needed without `start_index_key` and `texts`.
        separator: The text to put between neighboring chunks that neither overlap nor have white
            space there, because the splitter stripped it. Not used with `start_index_key`.
        texts: The documents' whole texts by their ids: a dict of Documents, or a store, such as
            the docstore of a ``ParentDocumentRetriever`` if `doc_id_key` is its id. Chunks are then
            found by their text, and need no positions.
        on_error: ``"raise"`` an error for a document whose chunks cannot be joined, or ``"skip"``
            it: it is reported, and queries ignore its chunks.

    Raises:
        ValueError: If a field is out of its range, nothing gives an order, or not exactly one of
            `doc_id_key` and `doc_id` is given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    doc_id_key: _Key | None = None
    doc_id: _Key | None = None
    chunk_index_key: _Key | None = None
    start_index_key: _Key | None = None
    page_key: _Key | None = None
    in_store_order: bool = False
    chunk_overlap: NonNegativeInt | None = None
    separator: str = "\n"
    texts: DocStore | Mapping[str, Document] | None = None
    on_error: Literal["raise", "skip"] = "raise"

    @model_validator(mode="after")
    def _check_documents(self) -> Self:
        if (self.doc_id_key is None) == (self.doc_id is None):
            raise ValueError(
                "give exactly one of doc_id_key, the metadata field that names a chunk's document, "
                "and doc_id, the name of the one document that all chunks are of; got "
                f"doc_id_key={self.doc_id_key!r}, doc_id={self.doc_id!r}"
            )
        return self

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        keys = (self.page_key, self.chunk_index_key, self.start_index_key)
        if not any(keys) and not self.in_store_order and self.texts is None:
            raise ValueError(
                "nothing gives the order of the chunks: set chunk_index_key, start_index_key, "
                "page_key, in_store_order=True or texts, the documents' whole texts"
            )
        return self

    def __str__(self) -> str:
        """What names the documents and gives the order: "source, page, start_index"."""
        parts = [self.doc_id_key or f"document {self.doc_id!r}"]
        position_key = self.start_index_key or self.chunk_index_key
        parts += [key for key in (self.page_key, position_key) if key is not None]
        if self.texts is not None:
            parts.append("whole texts")
        elif position_key is None and self.in_store_order:
            parts.append("in the order of the store")
        return ", ".join(parts)


class Gap(NamedTuple):
    """A place in a document where text is missing from the vector store."""

    doc_id: str
    after: str | None  # id of the vector before the gap; None at the beginning of the document
    before: str  # id of the vector after it
    length: int | None  # number of missing characters; None if unknown

    def __str__(self) -> str:
        missing = "text" if self.length is None else f"{self.length} characters"
        return f"document {self.doc_id!r}: {missing} missing before chunk {self.before!r}"


@dataclass
class Adoption:
    """The report of what was adopted from an existing index; ``str()`` of it is a summary.

    Attributes:
        index: How the chunks were read: the given `ExistingIndex`, or the one recognized by the
            metadata of the chunks.
        documents: Number of the index's documents that are in the docstore now.
        chunks: Number of their chunks.
        vectors: Number of their vectors. There are more vectors than chunks if some have the same
            text and place, are empty, or lie wholly inside another chunk.
        gaps: Places where text is missing. No segment crosses them.
        problems: What was excluded, and why; with ``on_error="skip"`` only.
    """

    index: ExistingIndex | None = None
    documents: int = 0
    chunks: int = 0
    vectors: int = 0
    gaps: list[Gap] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """A summary, such as "source, page, start_index: 1,204 chunks of 31 documents"."""
        counts = f"{counted(self.chunks, 'chunk')} of {counted(self.documents, 'document')}"
        return f"{self.index}: {counts}" if self.index is not None else counts

    def warning(self) -> str | None:
        """A message that names the first gaps and problems; None without any."""
        if not (self.gaps or self.problems):
            return None
        return (
            f"the index was adopted with {len(self.gaps)} gap(s), which no segment crosses, and "
            f"{len(self.problems)} problem(s), whose chunks queries ignore: "
            f"{first_few([*map(str, self.gaps), *self.problems])}. RSEIndexer.adopt returns a "
            "report that names all of them"
        )
