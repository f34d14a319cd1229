"""Collects the warnings of one call that adds documents; each is issued once, with counts."""

from dataclasses import dataclass, field

from langchain_rse._messages import warn
from langchain_rse.errors import MetadataError
from langchain_rse.ingest.splitting import Splitter, warn_of_contained
from langchain_rse.text.quoting import first_few

# Documents named in a warning and in an error, at most.
_NAMED = 3
_REFUSED_NAMED = 50


@dataclass
class AddWarnings:
    """Documents to warn about, as the warnings name them.

    Attributes:
        repeated: Documents given twice with the same text and metadata.
        blank: Documents without text.
        refused: Reasons why documents were not stored: their id or metadata is unsupported.
        contained: Number of chunks dropped because they lie inside another chunk.
    """

    repeated: list[str] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    contained: int = 0

    def warn(self, splitter: Splitter) -> None:
        """Issue each warning once for all documents; ``splitter`` made the chunks."""
        if self.repeated:
            warn(
                f"{_count_of(self.repeated)} had the same text as an earlier one and were stored "
                f"only once ({first_few(self.repeated, _NAMED)}). To keep each, set ids= or "
                "metadata['doc_id']"
            )
        if self.blank:
            warn(
                f"{_count_of(self.blank)} have no text ({first_few(self.blank, _NAMED)}). They "
                "are listed, but no query can find them. A scanned PDF needs OCR first"
            )
        warn_of_contained(self.contained, splitter)

    def raise_refused(self) -> None:
        """Raise one error for all documents that cannot be stored."""
        if self.refused:
            raise MetadataError(
                f"{len(self.refused)} document(s) were not added, because their id or metadata "
                "cannot be stored. All others were added. "
                f"{first_few(self.refused, _REFUSED_NAMED)}"
            )


def _count_of(documents: list[str]) -> str:
    return f"{len(documents)} document(s)"
