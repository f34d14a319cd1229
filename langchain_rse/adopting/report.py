"""The report on an adopted index: counts, gaps and problems."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from langchain_rse._messages import first_few


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
    """What was adopted.

    Attributes:
        documents: Documents of the index that are in the docstore now.
        chunks: Their chunks.
        vectors: Their vectors: more than chunks where some have the same text and place, or stand
            for nothing, being empty or wholly inside another chunk.
        gaps: Places where text is missing. No segment crosses them.
        problems: What was left out, and why; with ``on_error="skip"`` only.
    """

    documents: int = 0
    chunks: int = 0
    vectors: int = 0
    gaps: list[Gap] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def warning(self) -> str | None:
        """A message that names the first gaps and problems; None without any."""
        if not (self.gaps or self.problems):
            return None
        return (
            f"the index was adopted with {len(self.gaps)} gap(s), which no segment crosses, and "
            f"{len(self.problems)} problem(s), whose chunks are passed over: "
            f"{first_few([*map(str, self.gaps), *self.problems])}. RSEIndexer.adopt returns a "
            "report that names all of them"
        )
