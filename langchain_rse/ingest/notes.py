"""Collects the warnings of a call that adds documents; each is given once, with counts."""

from dataclasses import dataclass, field

from langchain_rse._messages import warn
from langchain_rse.errors import MetadataError
from langchain_rse.ingest.loose_chunks import ChunkDetector
from langchain_rse.ingest.rejoining import WHOLE
from langchain_rse.ingest.splitting import Splitter, warn_of_contained
from langchain_rse.text.quoting import first_few

# Documents named in a warning, and in an error.
_NAMED = 3
_REFUSED_NAMED = 50


@dataclass
class AddWarnings:
    """Documents to warn of, each as the warning names it.

    Attributes:
        out_of_order: Documents whose parts are not in order, each with what is wrong.
        rejoined: Documents whose parts were chunks of one text, which were joined.
        repeated: Documents that were given again with the same text and metadata.
        blank: Documents without text.
        unrelated: Documents that share nothing with what they replaced under their ``source``.
        refused: Why documents were left out: their id or metadata cannot be stored.
        contained: Number of chunks that were dropped because they lie inside another chunk.
        loose: The documents without an id, which may be chunks of one text.
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
        """Give each warning once for all documents; ``splitter`` has made the chunks."""
        if self.repeated:
            warn(
                f"{_count_of(self.repeated)} were given again with the same text, and were added "
                f"once ({first_few(self.repeated, _NAMED)}); give ids= or metadata['doc_id'] to "
                "keep each"
            )
        if self.blank:
            warn(
                f"{_count_of(self.blank)} have no text ({first_few(self.blank, _NAMED)}): they "
                "are listed, but no query can find them. A scanned PDF needs OCR first"
            )
        if self.rejoined:
            warn(
                f"{_count_of(self.rejoined)} ({first_few(self.rejoined, _NAMED)}) were given as "
                "chunks, and were put together again by start_index. Instead, "
                f"{WHOLE}"
            )
        if self.out_of_order:
            warn(
                f"the parts of {_count_of(self.out_of_order)} are not in order: "
                f"{first_few(self.out_of_order, _NAMED)}. They were joined as they came, and "
                "segments reach across such places. Add each part once, in order and unsplit; "
                "give different files ids of their own (ids= or metadata['doc_id'])"
            )
        if self.unrelated:
            warn(
                f"{_count_of(self.unrelated)} replaced what was stored under the same source "
                f"({first_few(self.unrelated, _NAMED)}), with which they have no sentence in "
                "common. If these are different documents, add all of them again with "
                "separate=True, or with ids= or metadata['doc_id']. If they are new versions, "
                "nothing is to be done; ids= or metadata['doc_id'] silences this warning"
            )
        look_like_chunks = self.loose.warning()
        if look_like_chunks:
            warn(look_like_chunks)
        warn_of_contained(self.contained, splitter)

    def raise_refused(self) -> None:
        """Raise one error for all documents that were left out."""
        if self.refused:
            raise MetadataError(
                f"{len(self.refused)} document(s) were not added, as their id or metadata cannot "
                "be kept; all others are added. "
                f"{first_few(self.refused, _REFUSED_NAMED)}"
            )


def _count_of(documents: list[str]) -> str:
    return f"{len(documents)} document(s)"
