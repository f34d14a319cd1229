"""What an index that exists already is like, and what came up when it was adopted."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

__all__ = ["Adoption", "AdoptionError", "ExistingIndex", "Gap"]

# So many gaps, and problems, are named in a warning.
_NAMED = 3


class AdoptionError(ValueError):
    """Chunks of a vector store that cannot be put together to a document."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExistingIndex:
    """What the metadata of an index says of its chunks, and what their texts are like.

    Chunks are put in order by page, then by index or start, then, if allowed, as the store
    lists them.

    Attributes:
        doc_id_key: The metadata field that names a chunk's document: a string or number.
        chunk_index_key: The field with the chunk's number in the document, or in the page if
            there is ``page_key``. It may begin anywhere; a number that is left out is a gap.
        start_index_key: The field with the chunk's first character in the document, or in
            the page if there is ``page_key`` (LangChain's ``add_start_index=True``). Shows
            overlap and gaps exactly.
        page_key: The field with the page's number.
        in_store_order: Whether chunks that these do not put in order stand in the order in
            which the store lists them: the one in which they were added.
        chunk_overlap: The most characters that neighboring chunks have in common, 0 for none.
            None finds out by the texts. Without ``start_index_key`` only.
        separator: What is put between neighboring chunks that were stripped of the white
            space between them. Without ``start_index_key`` only, which tells its length.
        texts: A store of the documents' whole texts by their ids, such as the docstore of a
            ``ParentDocumentRetriever`` if ``doc_id_key`` is its id. Chunks of documents that are
            there need no order: their places are found in the text, which comes back as it is.
        on_error: What to do with documents that cannot be put together: ``"raise"`` an error,
            or ``"skip"`` them and report them; queries then pass over their chunks.

    Raises:
        ValueError: If a field is out of its range, or nothing gives an order.
    """

    doc_id_key: str
    chunk_index_key: str | None = None
    start_index_key: str | None = None
    page_key: str | None = None
    in_store_order: bool = False
    chunk_overlap: int | None = None
    separator: str = "\n"
    texts: BaseStore[str, Document] | None = None
    on_error: Literal["raise", "skip"] = "raise"

    def __post_init__(self) -> None:
        for name in ("doc_id_key", "chunk_index_key", "start_index_key", "page_key"):
            key = getattr(self, name)
            if key == "" or not isinstance(key, str if name == "doc_id_key" else (str, type(None))):
                raise ValueError(f"{name} must be the name of a metadata field; got {key!r}")
        overlap: Any = self.chunk_overlap
        if overlap is not None and (type(overlap) is not int or overlap < 0):
            raise ValueError(
                "chunk_overlap must be a whole number of at least 0, or None to find out; got "
                f"{self.chunk_overlap!r}"
            )
        if not isinstance(self.separator, str):
            raise ValueError(f"separator must be a string; got {self.separator!r}")  # noqa: TRY004
        if self.on_error not in get_args(Literal["raise", "skip"]):
            raise ValueError(f"on_error must be 'raise' or 'skip'; got {self.on_error!r}")
        if not (self.has_order or self.texts):
            raise ValueError(
                "nothing says in which order the chunks stand: give chunk_index_key, "
                "start_index_key or page_key; in_store_order=True if the chunks of a document were "
                "added in the order of its text; or texts, a store of the documents' whole texts"
            )
        if not isinstance(self.texts, (BaseStore, type(None))):
            raise ValueError(  # noqa: TRY004
                f"texts must be a LangChain store of Documents; got {type(self.texts).__name__}"
            )

    @property
    def has_order(self) -> bool:
        """Whether anything but whole texts says in which order chunks stand."""
        keys = (self.page_key, self.chunk_index_key, self.start_index_key)
        return self.in_store_order or any(key is not None for key in keys)


@dataclasses.dataclass(frozen=True)
class Gap:
    """A place where text is missing that the store never had, or lost.

    Attributes:
        doc_id: The document.
        after: Id of the vector before the gap; None at the beginning of the document.
        before: Id of the vector after it.
        length: Characters that are missing; None if that is not known.
    """

    doc_id: str
    after: str | None
    before: str
    length: int | None


@dataclasses.dataclass
class Adoption:
    """What was adopted, and what came up.

    Attributes:
        documents: Documents that were put together, unchanged ones included.
        unchanged: Of these, those that the docstore had already.
        chunks: Their chunks.
        vectors: The vectors that stand for these: as many, and duplicates and contained ones.
        overlaps: Neighbors whose common text was taken out of one of them.
        overlap_characters: Characters that were taken out.
        separators: Neighbors between which white space was put that the store does not have.
        duplicates: Vectors of chunks that came more than once.
        contained: Vectors of chunks that lie wholly inside another chunk, or are empty.
        filled: Places whose text is in no vector, but in ``texts``: they are returned beside
            relevant chunks, but never found.
        own: Vectors that `RSEIndexer` had written: passed over.
        gaps: Where text is missing. No segment lies across such a place.
        problems: What was left out, and why; only with ``on_error="skip"``.
    """

    documents: int = 0
    unchanged: int = 0
    chunks: int = 0
    vectors: int = 0
    overlaps: int = 0
    overlap_characters: int = 0
    separators: int = 0
    duplicates: int = 0
    contained: int = 0
    filled: int = 0
    own: int = 0
    gaps: list[Gap] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)

    def add(self, other: Adoption) -> None:
        """Count another report's in."""
        for one in dataclasses.fields(self):
            mine, others = getattr(self, one.name), getattr(other, one.name)
            if isinstance(mine, list):
                mine += others
            else:
                setattr(self, one.name, mine + others)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return dataclasses.asdict(self)

    def warning(self) -> str | None:
        """What a user has to know who does not look at the report; None if nothing."""
        if not (self.gaps or self.problems):
            return None
        some = [
            f"text is missing in document {gap.doc_id!r} "
            + (f"after chunk {gap.after!r}" if gap.after else f"before chunk {gap.before!r}")
            + ("" if gap.length is None else f" ({gap.length} characters)")
            for gap in self.gaps[:_NAMED]
        ]
        some += self.problems[:_NAMED]
        more = len(self.gaps) + len(self.problems) - len(some)
        return (
            f"the index was adopted with {len(self.gaps)} gap(s), which no segment crosses, and "
            f"{len(self.problems)} problem(s), whose chunks are passed over: {'; '.join(some)}"
            + (f"; and {more} more: RSEIndexer.adopt returns all of them" if more else "")
        )

    def __str__(self) -> str:
        lines = [
            f"{self.documents} documents of {self.chunks} chunks, from {self.vectors} vectors"
            + (f"; {self.unchanged} of them were known" if self.unchanged else "")
        ]
        counts = [
            (self.overlaps, f"overlaps taken out ({self.overlap_characters} characters)"),
            (self.separators, "places where white space was put back, as the store has none"),
            (self.duplicates, "duplicates"),
            (self.contained, "chunks wholly inside another, or empty"),
            (self.filled, "places whose text is in no vector: returned beside others only"),
            (self.own, "vectors that were written by RSE itself"),
            (len(self.gaps), "gaps, which no segment crosses"),
            (len(self.problems), "problems: what they name was left out"),
        ]
        lines += [f"{count} {what}" for count, what in counts if count]
        return "\n".join(lines)
