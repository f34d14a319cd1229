"""The default text splitter: chunks end at sections, paragraphs or sentences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from langchain_text_splitters import TextSplitter
from typing_extensions import override

from langchain_rse.ingest.cutting import Outline, chunk_starts, outline_of, start_of_lead
from langchain_rse.ingest.splitting import Span
from langchain_rse.ingest.tables import Table, find_tables
from langchain_rse.stores.records import with_table_header

_CHUNK_SIZE = 800

# In chunks: a longer table row is cut like prose.
_LONGEST_ROW = 2
# As a share of a chunk: a longer header row is not repeated in front of other rows.
_LONGEST_HEADER = 0.5


def default_text_splitter(chunk_size: int = _CHUNK_SIZE) -> DefaultTextSplitter:
    """Create the splitter that the retriever uses by default.

    It cuts before headings, or else at empty lines, line ends, sentence ends (in most scripts) or
    white space. Where lines are broken at a width, sentence ends come before line ends. Short
    sections share a chunk. A heading stays with the text below it, as does the term of a definition
    or a line that introduces a list, code or a table. A fenced code block that fits a chunk is not
    cut. A table longer than a chunk is cut between rows, and each of its chunks is embedded with
    the table's header rows in front.

    Args:
        chunk_size: Maximum number of characters in a chunk; 800 by default. A table row may be
            longer: up to twice this size, it is not cut.
    """
    return DefaultTextSplitter(chunk_size)


class DefaultTextSplitter(TextSplitter):
    """The splitter of `default_text_splitter`; see there."""

    def __init__(self, chunk_size: int) -> None:
        super().__init__(chunk_size=chunk_size, chunk_overlap=0)
        self._size = chunk_size

    def __repr__(self) -> str:
        return f"{type(self).__name__}(chunk_size={self._size})"

    @override
    def split_text(self, text: str) -> list[str]:
        """Split a text into chunks, stripped of white space, without repeated header rows."""
        chunks = (text[span.start : span.end].strip() for span in self.split_spans(text))
        return [chunk for chunk in chunks if chunk]

    def split_spans(self, text: str) -> list[Span]:
        """Split a text into spans that tile it; see `langchain_rse.ingest.splitting.Splitter`."""
        if not text:
            return []
        outline = outline_of(text, self._size)
        # The start of each chunk, with the header row that is embedded in front of it.
        starts: list[tuple[int, str]] = []
        end = 0
        for table in find_tables(text, outline.fences):
            table_start, table_end = table.rows[0], table.rows[-1]
            if table_end - table_start > self._size:
                # The last row of one table may introduce the next table.
                first = max(end, self._start_with_introduction(text, table, outline))
                starts += [(start, "") for start in self._cut_prose(text, end, first, outline)]
                starts += self._cut_table(text, table, first, outline)
                end = table_end
        starts += [(start, "") for start in self._cut_prose(text, end, len(text), outline)]
        # The first chunk includes white space at the beginning.
        starts[:1] = [(0, starts[0][1] if starts else "")]
        spans: list[Span] = []
        for (start, header), (stop, _) in pairwise([*starts, (len(text), "")]):
            embedded_text = with_table_header(header, text[start:stop].strip())
            spans.append(Span(start, stop, embedded_text, table_header=header))
        return spans

    def _cut_prose(self, text: str, start: int, end: int, outline: Outline) -> Iterator[int]:
        """Yield the start of each chunk of a range of prose."""
        return chunk_starts(text, start, end, self._size, outline)

    def _start_with_introduction(self, text: str, table: Table, outline: Outline) -> int:
        """Return the start of a table's first chunk, which includes a line that introduces it."""
        table_start, first_row_end = table.rows[:2]
        introduction_start = outline.start_uncut(start_of_lead(text, table_start))
        if first_row_end - introduction_start > _LONGEST_ROW * self._size:
            return table_start
        return introduction_start

    def _cut_table(
        self, text: str, table: Table, first: int, outline: Outline
    ) -> Iterator[tuple[int, str]]:
        """Yield the start of each chunk of a table, with the header row embedded in front of it.

        The first chunk starts at ``first``, which includes the table's introduction.
        """
        header = table.header
        if len(header) > _LONGEST_HEADER * self._size:
            header = ""
        room_below_header = self._size - len(with_table_header(header, ""))
        chunk_start = first
        yield chunk_start, ""
        room = self._size  # for rows; the first chunk contains the header row itself
        for row_start, row_end in pairwise(table.rows):
            if row_end - chunk_start <= room:
                continue
            cuts = [row_start]
            if row_end - row_start > _LONGEST_ROW * self._size:
                cuts = list(self._cut_prose(text, row_start, row_end, outline))
            for cut in cuts:
                is_introduced = cut == table.rows[0]
                if cut > chunk_start and not is_introduced:
                    chunk_start = cut
                    yield cut, header
            room = room_below_header
