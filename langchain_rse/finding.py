"""Finds patterns in all documents that may be read; documents and sections by their names.

Literals and regular expressions ignore case, and are found in time proportional to the text.
"""

import itertools
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from langchain_core.documents import Document

from langchain_rse._messages import load
from langchain_rse._sync import batches, pause, run
from langchain_rse.access import READ_ATTEMPTS, DocumentAccess
from langchain_rse.errors import MissingRecordError
from langchain_rse.stores.compare_and_set import Record, read_records
from langchain_rse.stores.layouts import chunk_keys
from langchain_rse.stores.records import START_INDEX, Manifest
from langchain_rse.text.headings import Section, outline
from langchain_rse.text.quoting import first_few, format_range
from langchain_rse.text.spellings import SpelledExpression, usual_spelling

MOST_OF_PATTERN = 1_000
"""The most characters of a pattern."""

# The most instructions of a compiled expression: in the worst case, each reads each character.
_MOST_INSTRUCTIONS = 4_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_BATCH = 500  # chunks that are read at once
_AROUND = 300  # the most characters of its lines on each side of a match
_MOST_TITLES = 5  # in a message
# One match takes time in proportion to the text, but many matches may each read all of it.
_MOST_SECONDS = 5.0


class Pattern:
    r"""A literal or a regular expression to find in texts.

    White space in a literal matches any run of white space, so phrases are found across line ends.
    Ligatures, wide and decomposed letters, soft hyphens, and the forms of quotation marks and
    dashes make no difference to a literal.

    Args:
        text: The literal, or the expression in RE2's syntax: ``^`` and ``$`` match at line ends,
            and ``\w``, ``\d``, ``\s`` and ``\b`` know ASCII only.
        regex: Whether ``text`` is a regular expression.

    Raises:
        ValueError: If ``text`` is blank or too long, or is no expression that RE2 can use.
        ImportError: For an expression, if google-re2 is not installed.
    """

    def __init__(self, text: str, *, regex: bool = False) -> None:
        if not text or (not regex and text.isspace()):
            raise ValueError("a pattern needs at least one character that is not white space")
        if len(text) > MOST_OF_PATTERN:
            raise ValueError(
                f"a pattern has at most {MOST_OF_PATTERN:,} characters; got {len(text):,}"
            )
        text = _without_surrogates(text)
        words = usual_spelling(text).split()
        self._expression: Any
        if regex:
            self._expression = _compile(text)
        elif words:
            # Only at the beginning of a run, so that long runs are not tried from each character.
            before = r"(?<!\s)\s+" if text[0].isspace() else ""
            after = r"\s+" if text[-1].isspace() else ""
            phrase = before + r"\s+".join(map(re.escape, words)) + after
            self._expression = SpelledExpression(phrase)
        else:  # only characters that spellings leave out, such as a byte order mark
            self._expression = re.compile(re.escape(text))

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Find the matches in a text: first character and the one after the last, without overlaps.

        Empty matches do not count. A lone surrogate in the text matches as U+FFFD.
        """
        text = _without_surrogates(text)
        if isinstance(self._expression, SpelledExpression):
            return self._expression.finditer(text)
        return (match.span() for match in self._expression.finditer(text) if match[0])


def _without_surrogates(text: str) -> str:
    try:
        text.encode()  # ten times faster than the expression
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def _compile(expression: str) -> Any:  # noqa: ANN401 - of a package without types
    re2 = load("re2", "regex", "regex=True")
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = False
    try:
        compiled = re2.compile(f"(?m){expression}", options)
    except re2.error as error:
        [problem] = error.args
        reason = problem.decode(errors="replace") if isinstance(problem, bytes) else problem
        reason = reason.replace("(?m)", "", 1)
        raise ValueError(f"the regular expression {expression!r} is wrong: {reason}") from error
    if compiled.programsize > _MOST_INSTRUCTIONS:
        raise ValueError(
            f"the regular expression {expression!r:.100} is too large: repeat less in it"
        )
    return compiled


class Match(NamedTuple):
    """A place where a pattern occurs.

    ``access.passage(match.manifest, *match.around)`` reads the lines around it, or raises a
    MissingRecordError if the document was replaced, or its adopted index changed.
    """

    manifest: Manifest  # of its document
    start: int  # its first character in the document's text
    end: int  # the character after its last one
    line: int  # the number of its first line, from 1; lines that are not stored do not count
    around: tuple[int, int]  # the characters of its lines; of long lines, those near it

    @property
    def doc_id(self) -> str:
        """The id of its document."""
        return self.manifest.doc_id


class MatchPage(NamedTuple):
    """Some of the matches, in the order of their documents' ids, then of the text."""

    total: int  # of all pages
    documents: int  # with a match, on all pages
    matches: Sequence[Match]


def find(
    access: DocumentAccess,
    pattern: Pattern,
    *,
    filters: Sequence[Mapping[str, Any]] = (),
    offset: int = 0,
    limit: int = 50,
) -> MatchPage:
    """Find a pattern in all documents that pass the filters of the access and of this call.

    Documents that are only white space are not searched, and matches do not cross gaps of adopted
    documents. In a thread, the search ends early if its caller was cancelled.

    Args:
        access: Reads the documents.
        pattern: The pattern.
        filters: Filters of this call: dicts of fields and values.
        offset: The number of matches to skip, at least 0.
        limit: The most matches to return.

    Raises:
        ValueError: If the matches take too long, not counting the time to read the documents.
    """
    access = replace(access, filters=[*access.filters, *filters])
    matches: list[Match] = []
    total = 0
    documents = 0
    seconds = 0.0
    for manifest, runs in _read_texts(access):
        total_before = total
        started = time.monotonic()
        line = 1
        for first, text in runs.items():
            counted = 0  # the characters whose line ends are counted
            for start, end in pattern.find(text):
                line += text.count("\n", counted, start)
                counted = start
                if offset <= total < offset + limit:
                    around = _lines_around(first, text, start, end)
                    matches.append(Match(manifest, first + start, first + end, line, around))
                total += 1
                if seconds + time.monotonic() - started > _MOST_SECONDS:
                    raise ValueError(
                        f"finding the pattern takes more than {_MOST_SECONDS:g} seconds: use a "
                        "simpler expression, without .* over several lines"
                    )
            line += text.count("\n", counted)
        seconds += time.monotonic() - started
        documents += total > total_before
    return MatchPage(total, documents, matches)


def read_section(access: DocumentAccess, manifest: Manifest, title: str) -> Section:
    """Find the section of a document by its title, or by a part that no other title has.

    Case and white space do not count.

    Raises:
        MissingRecordError: If there is no such section, or text of the document is not stored.
        ValueError: If several sections have this title, or this part of a title.
    """
    text = access.passage(manifest, 0, manifest.length).page_content
    wanted = _comparable(title)
    sections = outline(text)
    found = [each for each in sections if _comparable(each.title) == wanted]
    if not found and wanted:
        found = [each for each in sections if wanted in _comparable(each.title)]
    if len(found) == 1:
        return found[0]
    shown = f"{manifest.doc_id!r} has"
    if found:
        raise ValueError(f"{shown} several sections {title!r:.200}: {_listed(found)}")
    hint = f"; it has {_listed(sections)}" if sections else ", and no headings"
    raise MissingRecordError(f"{shown} no section {title!r:.200}{hint}")


def _comparable(title: str) -> str:
    return usual_spelling(" ".join(title.split()))


def _listed(sections: Sequence[Section]) -> str:
    """The titles of sections, with their characters: titles may be the same."""
    return first_few(
        [f"{each.title!r} (characters {format_range(each.start, each.end)})" for each in sections],
        _MOST_TITLES,
    )


def _read_texts(access: DocumentAccess) -> Iterator[tuple[Manifest, Mapping[int, str]]]:
    """Read the texts of all documents that may be read, ordered by id; see `_join`."""
    chunks = _read_chunks(access, access.manifests())
    for _, group in itertools.groupby(chunks, key=lambda chunk: chunk[0].key):
        read = list(group)
        manifest = read[0][0]
        records = [record for _, record in read]
        for _ in range(READ_ATTEMPTS):
            if None not in records:
                break
            # The document was replaced since its manifest was read, or is damaged, or has gaps.
            latest = access.manifests_of([manifest.doc_id]).get(manifest.doc_id)
            if latest is None:
                records = []
            elif latest.current != manifest.current:
                manifest = latest
                records = [record for _, record in _read_chunks(access, [latest])]
            else:
                break
        yield manifest, _join(records)


def _read_chunks(
    access: DocumentAccess, manifests: Iterable[Manifest]
) -> Iterator[tuple[Manifest, Record]]:
    """Read the chunks of documents in the order of the text, in batches."""
    for batch in batches(chunk_keys(manifests), _BATCH):
        run(pause(0))  # a call in a thread ends here if its caller was cancelled
        records = read_records(access.docstore, [key for key, _ in batch])
        for key, manifest in batch:
            yield manifest, records[key]


def _join(records: Iterable[Record]) -> Mapping[int, str]:
    """Join the chunks of a document, without those that are missing or damaged.

    Returns its runs of text without gaps, by the position of their first character.
    """
    texts_of: dict[int, list[str]] = {}  # of chunks, by the first character of their run
    run_start = end = -1
    for record in records:
        if not isinstance(record, Document):
            continue
        start = record.metadata[START_INDEX]
        if start != end:
            run_start = start
        texts_of.setdefault(run_start, []).append(record.page_content)
        end = start + len(record.page_content)
    return {start: "".join(texts) for start, texts in texts_of.items()}


def _lines_around(first: int, text: str, start: int, end: int) -> tuple[int, int]:
    """Return the characters of the lines of a match; of long lines, those near it."""
    lowest = max(start - _AROUND, 0)
    highest = min(end + _AROUND, len(text))
    line_start = max(text.rfind("\n", lowest, start) + 1, lowest)
    line_end = text.find("\n", end, highest)
    if line_end < 0:
        line_end = highest
    return first + line_start, first + line_end
