"""Collects the warnings of one call that adds documents; each is issued once, with counts."""

from dataclasses import dataclass, field

from langchain_rse._messages import warn
from langchain_rse.errors import MetadataError
from langchain_rse.ingest.chunk_detector import ChunkDetector
from langchain_rse.ingest.rejoining import ADD_WHOLE
from langchain_rse.ingest.splitting import Splitter, warn_of_contained
from langchain_rse.text.quoting import first_few

# Documents named in a warning and in an error, at most.
_NAMED = 3
_REFUSED_NAMED = 50


@dataclass
class AddWarnings:
    """Documents to warn about, as the warnings name them.

    Attributes:
        out_of_order: Documents whose parts are out of order, with the first jumps.
        rejoined: Documents that were added as chunks and joined again.
        repeated: Documents given twice with the same text and metadata.
        blank: Documents without text.
        unrelated: Documents that replaced a text with the same ``source`` but no common sentence.
        refused: Reasons why documents were not stored: their id or metadata is unsupported.
        contained: Number of chunks dropped because they lie inside another chunk.
        loose: Detects chunks among the documents without an id.
    """

    out_of_order: list[str] = field(default_factory=list)
    rejoined: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)
    unrelated: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    contained: int = 0
    loose: ChunkDetector = field(default_factory=ChunkDetector)

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
        if self.rejoined:
            warn(
                f"{_count_of(self.rejoined)} ({first_few(self.rejoined, _NAMED)}) were added as "
                f"chunks and joined again by start_index. Instead, {ADD_WHOLE}"
            )
        if self.out_of_order:
            warn(
                f"the parts of {_count_of(self.out_of_order)} are out of order: "
                f"{first_few(self.out_of_order, _NAMED)}. They were joined in the given order, so "
                "passages may span the jumps. Add each part once, in order and not split; if the "
                "parts belong to different files, give each file its own id (ids= or "
                "metadata['doc_id'])"
            )
        if self.unrelated:
            warn(
                f"{_count_of(self.unrelated)} ({first_few(self.unrelated, _NAMED)}) replaced a "
                "document with the same source and no sentence in common. If these are different "
                "documents, add all of them again with separate=True, ids= or metadata['doc_id']. "
                "If they are new versions, ignore this warning, or silence it with ids= or "
                "metadata['doc_id']"
            )
        look_like_chunks = self.loose.warning()
        if look_like_chunks:
            warn(look_like_chunks)
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
