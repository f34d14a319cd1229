"""The default text splitter, whose chunks end where sections, paragraphs or sentences do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from langchain_text_splitters import TextSplitter
from typing_extensions import override

from langchain_rse.ingest.cutting import Outline, chunk_starts, outline_of
from langchain_rse.ingest.splitting import Span
from langchain_rse.ingest.tables import Table, find_tables
from langchain_rse.stores.records import with_table_header

_CHUNK_SIZE = 800

# A row that is longer than this many chunks is cut as text.
_LONGEST_ROW = 2
# A header row that is longer than this share of a chunk is not put in front of other rows.
_LONGEST_HEADER = 0.5


def default_text_splitter(chunk_size: int = _CHUNK_SIZE) -> DefaultTextSplitter:
    """Return the splitter that is used when none is given.

    It cuts before headings, else at empty lines, at ends of lines, of sentences in most scripts,
    or of words. Short sections share a chunk. A heading is in the chunk of the text below it, and
    so are the term of a definition and a line that introduces a list, code or a table. A fenced
    block of code that fits a chunk is not cut. A table that is longer than a chunk is cut between
    its rows, and each chunk of it is embedded with the table's header row in front.

    Args:
        chunk_size: The most characters of a chunk; by default 800. A longer row of a table is a
            chunk of its own, up to twice as many.
    """
    return DefaultTextSplitter(chunk_size)


class DefaultTextSplitter(TextSplitter):
    """Made by `default_text_splitter`, which says what it does."""

    def __init__(self, chunk_size: int) -> None:
        super().__init__(chunk_size=chunk_size, chunk_overlap=0)
        self._size = chunk_size

    @override
    def split_text(self, text: str) -> list[str]:
        """Split a text into chunks, without header rows in front and outer white space."""
        chunks = (text[span.start : span.end].strip() for span in self.split_spans(text))
        return [chunk for chunk in chunks if chunk]

    def split_spans(self, text: str) -> list[Span]:
        """Split a text into spans that tile it, see `langchain_rse.ingest.splitting.Splitter`."""
        if not text:
            return []
        outline = outline_of(text, self._size)
        # Where chunks start, with the header row that each is embedded with.
        starts: list[tuple[int, str]] = []
        end = 0
        for table in find_tables(text, outline.fences):
            table_start, table_end = table.rows[0], table.rows[-1]
            if table_end - table_start > self._size:
                # The last row of one table may be a line that stays with the next.
                first = max(end, self._start_with_introduction(table, outline))
                starts += [(start, "") for start in self._cut_prose(text, end, first, outline)]
                starts += self._cut_table(text, table, first, outline)
                end = table_end
        starts += [(start, "") for start in self._cut_prose(text, end, len(text), outline)]
        # White space before the first chunk belongs to it.
        starts[:1] = [(0, starts[0][1] if starts else "")]
        spans: list[Span] = []
        for (start, header), (stop, _) in pairwise([*starts, (len(text), "")]):
            embedded_text = with_table_header(header, text[start:stop].strip())
            spans.append(Span(start, stop, embedded_text, table_header=header))
        return spans

    def _cut_prose(self, text: str, start: int, end: int, outline: Outline) -> Iterator[int]:
        """Where the chunks of a stretch of prose start."""
        return chunk_starts(text, start, end, self._size, outline)

    def _start_with_introduction(self, table: Table, outline: Outline) -> int:
        """Where the first chunk of a table starts: at what introduces it, if there is anything."""
        table_start, first_row_end = table.rows[:2]
        introduction_start = outline.start_uncut(table_start)
        if first_row_end - introduction_start > _LONGEST_ROW * self._size:
            return table_start
        return introduction_start

    def _cut_table(
        self, text: str, table: Table, first: int, outline: Outline
    ) -> Iterator[tuple[int, str]]:
        """Where the chunks of a table start, and the header row that each is embedded with.

        The first of them starts at ``first``, with what introduces the table.
        """
        header = table.header
        if len(header) > _LONGEST_HEADER * self._size:
            header = ""
        room_below_header = self._size - len(with_table_header(header, ""))
        chunk_start = first
        yield chunk_start, ""
        room = self._size  # for rows in the chunk; the first has the header row among them
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
