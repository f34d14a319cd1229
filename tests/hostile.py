"""Texts that a stranger may send to make a program slow: each repeats a short text.

What reads them must take time in proportion to their length. A pattern that is tried at every
character, and reads to the end of the text each time, would take hours for a megabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from langchain_core.documents import Document

from langchain_rse._asking import quote
from langchain_rse.cli.webpages import read_html
from langchain_rse.errors import SplittingError
from langchain_rse.ingest.default_splitter import default_text_splitter
from langchain_rse.ingest.rejoining import rejoin
from langchain_rse.ingest.replacing import is_unrelated
from langchain_rse.ingest.source_documents import SourceDocument
from langchain_rse.ingest.splitting import find_spans
from langchain_rse.stores.records import Chunk, DocumentVersion, Version
from langchain_rse.stores.whole_documents import StoredText
from langchain_rse.text.highlighting import query_words
from langchain_rse.text.names import title_of_source
from langchain_rse.text.titles import first_heading
from langchain_rse.tools import verify_quotes
from langchain_rse.tools.quotations import find_quotations

Call = Callable[[], object]

MARKUP = {
    "nested tags": "<div>",
    "tags without an end": "<div",
    "closing tags": "</div>",
    "paragraphs without an end": "<p>one two ",
    "comments without an end": "<!--",
    "bad comments": "<!-- --!x",
    "scripts without an end": "<script>",
    "styles without an end": "<style>",
    "titles without an end": "<title>",
    "ampersands": "&",
    "entities without an end": "&amp",
    "entities of digits": "&#12",
    "attributes without an end": '<a href="',
    "many attributes": " a=b",
    "opening brackets": "<",
    "CDATA": "<![CDATA[",
    "starts of closing tags": "</",
    "headings": "<h1>a</h1>",
    "tags and white space": "<p> \n ",
}
SPACES = {
    "spaces": " ",
    "line breaks": "\n",
    "zero width": "\u200b",
}
REPETITIONS = {
    "one letter": "a",
    "one word": "a ",
    "lines of one letter": "a\n",
    "digits": "1",
    "points": ".",
    "sentences": "Aa. ",
    "hyphens": "-",
    "accents": "a\u0301",
    "ligatures": "\ufdfa",
    "replacement characters": "\ufffd",
    "unknown tokens": "[UNK] ",
    "emoji": "\U0001f600",
    "headings of Markdown": "# a\n",
    "headings of hashes": "# # ",
    "lines of hashes": "#\n",
    "headings of levels": "# a\n## b\n",
    "headings and fences": "# a\n```\n",
    "underlined headings": "aaa\n===\n\n",
    "numbered headings": "1.1 A\n\n",
    "rows": "|a|b|\n",
    "fences": "```\n",
    "fences without an end": "``` a\n",
    "backticks": "`",
    "brackets": "[",
    "citations without an end": "[1, ",
    "zeros": "\0",
}
QUOTATIONS = {
    "quotation marks": '"',
    "quotation marks and letters": '"a',
    "quotations of a word": '"a b c" ',
    "apostrophes": "'",
    "apostrophes after points": ".'a",
    "apostrophes in words": "a'b ",
    "opening quotation marks": "\u201c",
    "opening quotation marks and words": "\u201ca b c ",
    "mixed quotation marks": "\u201ca\u201eb\u00abc\u2039d\u300ce\u300ef\u300ag",
    "single opening marks": " \u2018a",
    "q without an end": "<q>",
    "q ends with spaces": "<q>a</q ",
    "blockquote without an end": "<blockquote>",
    "q in blockquote": "<q><blockquote>",
    "quot and words": "&quot;a b c ",
    "block quotes": "> a\n",
    "block quotes in block quotes": ">",
    "lists in lists": "- ",
    "lines before block quotes": "\n  ",
    "attributions": "> a\n> -- b\n",
    "ellipses and letters": '"a b c ... d e f" ',
    "ellipses in brackets": "[...",
    "numbers and points": "1.2 ",
    "signs": "-1 ",
}

PATTERNS = {**MARKUP, **SPACES, **REPETITIONS, **QUOTATIONS}
"""The text that each hostile text repeats, by what it is."""


def repeated(pattern: str, length: int) -> str:
    """Repeat a pattern up to a length."""
    return (pattern * (length // len(pattern) + 1))[:length]


def hostile_texts(length: int) -> Iterator[tuple[str, str]]:
    """All hostile texts of a length, each after what it is; also those that end unexpectedly."""
    for name, pattern in PATTERNS.items():
        yield name, repeated(pattern, length - 1) + pattern[0]
    yield "letters, then another", "a" * (length - 1) + "b"
    yield "points, then a letter", "." * (length - 1) + "a"
    yield "hashes, then a letter", "# " + "#" * (length - 3) + "a"
    yield "a long heading", "# " + "a " * (length // 2 - 1)
    yield "a long fence", "```\n" + "a = 1\n\n" * (length // 7 - 2) + "```\n# b"
    yield "a long fence without an end", "```\n" + "# a\n\n" * (length // 5 - 1)
    marks = int((2 * length) ** 0.5) - 2
    yield "shorter and shorter fences", "".join("`" * count + "\n" for count in range(marks, 2, -1))
    yield "entity of many digits", f"&#{'9' * (length - 3)};"
    yield "tag of spaces", f"</script{' ' * (length - 9)}x"
    yield "one bracket before it", "<" + "a" * (length - 1)
    yield "different words", " ".join(f"w{number}" for number in range(length // 6))[:length]
    yield "different tags", "".join(f"<t{number}>" for number in range(length // 8))[:length]


class Given:
    """Returns the chunks that it was made with, so that none of its own time is measured."""

    def __init__(self, chunks: list[str]) -> None:
        self.chunks = chunks

    def split_text(self, _: str) -> list[str]:
        return self.chunks


def _find_spans(text: str, chunks: list[str]) -> Call:
    splitter = Given(chunks)

    def find() -> None:
        with suppress(SplittingError):  # no splitter may return such chunks of such a text
            find_spans(text, splitter)

    return find


def _cut(text: str) -> list[str]:
    return [text[start : start + 500] for start in range(0, len(text), 400)]


def _split_as_it_is(text: str) -> Call:
    return _find_spans(text, _cut(text))


def _split_by_words(text: str) -> Call:
    return _find_spans(text, _cut(" ".join(text.lower().split())))


def _split_without_tags(text: str) -> Call:
    return _find_spans(text, _cut(read_html(text).text))


def _split_and_miss(text: str) -> Call:
    return _find_spans(text, [*_cut(text), "not in the text"])


def _split_by_default(text: str) -> Call:
    return lambda: find_spans(text, default_text_splitter())


def _read_file(text: str) -> Call:
    return lambda: read_html(text)


def _check_answer(text: str) -> Call:
    return lambda: list(find_quotations(text))


def _check_passage(text: str) -> Call:
    answer = f"“the whale swam past” and “{text[:2_000]} x” and “{text[-300:]}”"
    return lambda: verify_quotes(answer, [Document(text)])


def _replace(text: str) -> Call:
    old = StoredText(f"another {text}", [Document("")])
    new = DocumentVersion(
        doc_id="a",
        version=Version("", 1),
        length=len(text),
        metadata={},
        chunks=[Chunk(0, len(text), text, text)],
    )
    return lambda: is_unrelated(new, old)


def _join_chunks(text: str) -> Call:
    chunks = [Document(chunk, metadata={"source": "a"}) for chunk in _cut(text)]

    def join() -> None:
        with suppress(SplittingError):  # their text repeats itself
            rejoin(SourceDocument("a", chunks, "source"), append=False)

    return join


def _make_headers(text: str) -> Call:
    def make() -> None:
        for start in range(0, len(text), 4_000):
            first_heading(text[start : start + 4_000])
        title_of_source(text)
        title_of_source(f"https://{text}")

    return make


def _quote(text: str) -> Call:
    return lambda: quote("text", text)


def _highlight(text: str) -> Call:
    def highlight() -> None:
        for words in (query_words([text]), query_words(["The whale swam a1 ab"])):
            if words is not None:
                words.split("The whale swam past the old harbor. " * 500)
                words.split(text)

    return highlight


READERS: dict[str, Callable[[str], Call]] = {
    "chunks as they are": _split_as_it_is,
    "chunks with other white space": _split_by_words,
    "chunks without tags": _split_without_tags,
    "chunks, one of them missing": _split_and_miss,
    "a text that is split by default": _split_by_default,
    "an HTML file": _read_file,
    "an answer with quotations": _check_answer,
    "a passage that is quoted": _check_passage,
    "a document that is replaced": _replace,
    "chunks that are joined": _join_chunks,
    "titles and sections": _make_headers,
    "a text in a prompt": _quote,
    "words to highlight": _highlight,
}
"""What reads text of strangers: each makes a call that reads a text."""
