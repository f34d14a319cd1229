"""The default text splitter, whose chunks end where paragraphs, lines, sentences or rows do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from langchain_text_splitters import RecursiveCharacterTextSplitter, TextSplitter
from typing_extensions import override

from langchain_rse.ingest.splitting import Span
from langchain_rse.ingest.tables import Table, find_tables
from langchain_rse.stores.records import with_table_header

_CHUNK_SIZE = 800

# A full stop after a single capital letter, as in "J. Smith", or before a small letter, as in
# "e.g. this", ends no sentence.
_NO_INITIAL = r"(?<!\b[A-ZÀ-ÞΑ-ΩА-ЯЁ])"
_NO_SMALL_LETTER = r"(?![a-zß-ÿα-ωа-яё])"
_CLOSING = r"\"'”\u2019»)\]"  # marks that may follow the end of a sentence
# The full stops of Arabic script (\u06d4) and Armenian (\u0589) as well.
_SENTENCE_END = rf"{_NO_INITIAL}[.?!…؟\u06d4\u0589][{_CLOSING}]*\s+(?!\s){_NO_SMALL_LETTER}"
# In scripts that put no space after a sentence: Chinese and Japanese (\uff01 is !, \uff1f is ?),
# Hindi, Khmer, Burmese, Amharic, Tibetan and others.
_SENTENCE_END_WITHOUT_SPACE = rf"[。\uff01\uff1f｡।॥។៕။።།][{_CLOSING}」』\uff09]*\s*"
_SEPARATORS = (
    r"\n\n",
    r"\n",
    f"(?:{_SENTENCE_END}|{_SENTENCE_END_WITHOUT_SPACE})",
    " ",
    "",
)
_SENTENCE_OR_LINE_END = re.compile(rf"\n|{_SENTENCE_END}|{_SENTENCE_END_WITHOUT_SPACE}")
# A row that is longer than this many chunks is cut as text.
_LONGEST_ROW = 2
# A header row that is longer than this share of a chunk is not put in front of other rows.
_LONGEST_HEADER = 0.5


def default_text_splitter(chunk_size: int = _CHUNK_SIZE) -> DefaultTextSplitter:
    """Return the splitter that is used when none is given.

    It cuts at empty lines, else at ends of lines, of sentences in most scripts, or of words. A
    table that is longer than a chunk is cut between its rows, and each chunk of it is embedded
    with the table's header row in front.

    Args:
        chunk_size: The most characters of a chunk; by default 800. A longer row of a table is a
            chunk of its own, up to twice as many.
    """
    return DefaultTextSplitter(chunk_size)


def split_sentences(text: str) -> list[str]:
    """Split a text at ends of lines and of sentences, without outer white space."""
    sentences = (sentence.strip() for sentence in _SENTENCE_OR_LINE_END.split(text))
    return [sentence for sentence in sentences if sentence]


class DefaultTextSplitter(TextSplitter):
    """Made by `default_text_splitter`, which says what it does."""

    def __init__(self, chunk_size: int) -> None:
        super().__init__(chunk_size=chunk_size, chunk_overlap=0)
        self._size = chunk_size
        # Without a separator, or white space, that is lost, its chunks follow one another.
        self._prose_splitter = RecursiveCharacterTextSplitter(
            list(_SEPARATORS),
            is_separator_regex=True,
            keep_separator="end",
            strip_whitespace=False,
            chunk_size=chunk_size,
            chunk_overlap=0,
        )

    @override
    def split_text(self, text: str) -> list[str]:
        """Split a text into chunks, without header rows in front and outer white space."""
        chunks = (text[span.start : span.end].strip() for span in self.split_spans(text))
        return [chunk for chunk in chunks if chunk]

    def split_spans(self, text: str) -> list[Span]:
        """Split a text into spans that tile it, see `langchain_rse.ingest.splitting.Splitter`."""
        # Where chunks start, with the header row that each is embedded with.
        starts: list[tuple[int, str]] = []
        end = 0
        for table in find_tables(text):
            table_start, table_end = table.rows[0], table.rows[-1]
            if table_end - table_start > self._size:
                starts += [(start, "") for start in self._cut_prose(text, end, table_start)]
                starts += self._cut_table(text, table)
                end = table_end
        starts += [(start, "") for start in self._cut_prose(text, end, len(text))]
        if not text:
            return []
        # White space before the first chunk belongs to it.
        starts[:1] = [(0, starts[0][1] if starts else "")]
        spans: list[Span] = []
        for (start, header), (stop, _) in pairwise([*starts, (len(text), "")]):
            embedded_text = with_table_header(header, text[start:stop].strip())
            spans.append(Span(start, stop, embedded_text, table_header=header))
        return spans

    def _cut_prose(self, text: str, start: int, end: int) -> Iterator[int]:
        """Where the chunks of a stretch of prose start; white space belongs to the chunk before."""
        for chunk in self._prose_splitter.split_text(text[start:end]):
            if not chunk.isspace():
                yield start + len(chunk) - len(chunk.lstrip())
            start += len(chunk)

    def _cut_table(self, text: str, table: Table) -> Iterator[tuple[int, str]]:
        """Where the chunks of a table start, and the header row that each is embedded with."""
        header = table.header
        if len(header) > _LONGEST_HEADER * self._size:
            header = ""
        room_below_header = self._size - len(with_table_header(header, ""))
        chunk_start = table.rows[0]
        yield chunk_start, ""
        room = self._size  # for rows in the chunk; the first has the header row among them
        for row_start, row_end in pairwise(table.rows):
            if row_end - chunk_start <= room:
                continue
            cuts = [row_start]
            if row_end - row_start > _LONGEST_ROW * self._size:
                cuts = list(self._cut_prose(text, row_start, row_end))
            for cut in cuts:
                if cut > chunk_start:
                    chunk_start = cut
                    yield cut, header
            room = room_below_header
