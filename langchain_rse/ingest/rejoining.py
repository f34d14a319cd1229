"""Joins chunks that were given as documents again; refuses two files of one name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse.errors import SplittingError
from langchain_rse.ingest.documents import SourceDocument, numbered
from langchain_rse.ingest.overlap import WHITE_SPACE, agrees, is_stripped, overlap, white_space
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import SEGMENT, START_INDEX, VERSION, WRITTEN, Rule

WHOLE = (
    "pass whole documents, not split before: retriever.add_documents(docs). The retriever splits "
    "them: RSERetriever(..., text_splitter=splitter)"
)

# The text put between chunks that do not overlap, where white space was stripped.
_SEPARATOR = "\n"
_EXCERPT = 40

# Documents without an id look like chunks of one text if one of at least 60 characters ends in the
# middle of a sentence; or if the longest has at least 200, and at least 80 % of neighbors are
# longer together than it: a splitter would not have cut between them otherwise.
_CUT_OFF = 60
_LONG = 200
_MOST = 0.8
_OPEN_END = re.compile(r"[^\W_]\Z|[,\-\u2013\u2014]\Z")


# Chunks of documents with an id


class _Placed(NamedTuple):
    """A part, and where it starts in its text, if its metadata says so."""

    part: Document
    text: str
    start: int | None
    is_stored: bool

    def __str__(self) -> str:
        page = f" of page {self.part.metadata['page']}" if "page" in self.part.metadata else ""
        return f"{START_INDEX}={self.start}{page}, which begins {self.text[:_EXCERPT]!r}"


def rejoin(source: SourceDocument, *, append: bool) -> SourceDocument:
    """Join those parts of a document that are chunks of one text.

    Neighbors with the same metadata are of one text, such as a page. Their ``start_index`` says
    where they lie in it; without that, the overlap of a part with the next one does.
    """
    if source.id_origin == "text":
        return source
    placed = []
    for number, part in enumerate(source.parts):
        is_stored = number < source.stored
        start = 0 if is_stored else _start(source, part)
        placed.append(_Placed(part, part.page_content, start, is_stored))
    runs = [list(run) for _, run in groupby(placed, lambda one: described(one.part, source.doc_id))]
    overlapping = any(
        _shared(before.text, after.text)
        for run in runs
        for before, after in pairwise(run)
        if not after.is_stored
    )
    parts: list[Document] = []
    for run in runs:
        starts = [one.start for one in run if not one.is_stored and one.start is not None]
        if max(starts, default=0) > 0 or (starts and run[0].is_stored):
            text = _by_position(source, run, append=append)
        elif not overlapping and len(run) > 1 and min(starts, default=0) < 0:
            raise _cannot(source, f"the splitter could not tell where they lie ({run[-1]})")
        elif overlapping and not run[-1].is_stored:
            text = _by_text(source, run)
        else:
            parts += [one.part for one in run]
            continue
        parts.append(Document(text, metadata=run[0].part.metadata))
    return replace(source, parts=parts)


def described(part: Document, doc_id: str) -> str:
    """Describe a part by its metadata without its place, to tell it from others of its document."""
    names = sorted(set(part.metadata) - WRITTEN, key=str)
    fields = {name: part.metadata[name] for name in names}
    return encode_json(fields, f"metadata of document {doc_id!r}")


def begins_later(part: Document) -> bool:
    """True if the ``start_index`` of a part says that text is before it."""
    start = part.metadata.get(START_INDEX)
    return type(start) is int and start > 0


def _start(source: SourceDocument, part: Document) -> int | None:
    """The ``start_index`` of a part, -1 if its splitter found none; None if it is unknown."""
    if VERSION in part.metadata or {SEGMENT, START_INDEX} <= part.metadata.keys():
        if source.id_origin == "ids":
            return None
        raise ValueError(
            f"document {source.doc_id!r} would be replaced by a retrieved fragment of it "
            f"(it begins {part.page_content[:_EXCERPT]!r}). To add the document, {WHOLE}. To make "
            "the fragment a document of its own, give it an id: add_documents([...], ids=[...])"
        )
    start = part.metadata.get(START_INDEX)
    return start if type(start) is int else None


def _by_position(source: SourceDocument, group: Sequence[_Placed], *, append: bool) -> str:
    """Join chunks by their ``start_index``, or by overlap where that is unknown."""
    placed: list[tuple[int, _Placed]] = []
    for one in group:
        start = one.start
        if start is None or start < 0:
            shared = _shared(placed[-1][1].text, one.text) if placed else 0
            if not shared:
                raise _cannot(source, f"the place of one is unknown ({one})")
            start = placed[-1][0] + len(placed[-1][1].text) - shared
        placed.append((start, one))
    placed.sort(key=lambda pair: (pair[0], -len(pair[1].text)))
    # A fragment that was given an id is a document of its own.
    first = placed[0][0] if source.id_origin == "ids" and not append else 0
    text = ""
    for start, one in placed:
        place = start - first
        missing = place - len(text)
        if missing > WHITE_SPACE and not text:
            raise ValueError(
                f"document {source.doc_id!r}: its beginning is missing: the first chunk has {one}. "
                f"If it is stored, add to it: add_documents(docs, append=True). Otherwise {WHOLE}"
            )
        if missing > WHITE_SPACE:
            raise _cannot(source, f"{missing} characters are missing before the one with {one}")
        if not agrees(text, place, one.text):
            raise _cannot(source, f"another one contradicts the text of the one with {one}")
        text += white_space(missing) + one.text[max(-missing, 0) :]
    return text


def _by_text(source: SourceDocument, group: Sequence[_Placed]) -> str:
    """Join chunks by their overlaps."""
    text = group[0].text
    for before, after in pairwise(group):
        shared = _shared(before.text, after.text)
        if shared is None:
            what = f"their text repeats itself ({after.text[:_EXCERPT]!r})"
            raise _cannot(source, f"{what}, so the length of their overlap is unknown")
        stripped = not shared and is_stripped(text, after.text)
        text += (_SEPARATOR if stripped else "") + after.text[shared:]
    return text


def _shared(before: str, after: str) -> int | None:
    """The length of a sure overlap of two neighbors, or 0; None if their text repeats itself."""
    shared = overlap(before, after)
    # If text repeats itself, more may be equal than the chunks shared.
    repeats = shared and 2 * overlap(before[1 - shared :], after) >= shared
    return None if repeats else shared


def _cannot(source: SourceDocument, problem: str) -> SplittingError:
    return SplittingError(
        f"document {source.doc_id!r}: its parts are chunks that cannot be put together: {problem}. "
        f"Instead, {WHOLE}; or give each file an id of its own (ids= or metadata['doc_id'])"
    )


# Files of one name


def check_one_file(source: SourceDocument, rules: Mapping[str, Rule]) -> None:
    """Refuse parts of two files with one ``source``: equal metadata, or falling page numbers."""
    new = source.parts[source.stored :]
    if source.id_origin != "source" or len(new) < 2:  # noqa: PLR2004
        return
    numbers = numbered([part.metadata for part in new], rules)
    falls = (f"{name} {b} comes after {a}" for name, n in numbers for a, b in pairwise(n) if b < a)
    problem = next(falls, "")
    if not problem and len({described(part, source.doc_id) for part in new}) < len(new):
        problem = "two of them have the same metadata"
    if problem:
        raise ValueError(
            f"several documents have the source {source.doc_id!r}, which makes them parts of one, "
            f"but {problem}. Give different files ids of their own: ids= or metadata['doc_id']; "
            f"parts of one file in order, each with metadata['page']. If they are chunks, {WHOLE}"
        )


# Documents without an id


@dataclass
class LooseChunks:
    """Finds out whether documents without an id look like chunks of one text."""

    _lengths: list[int] = field(default_factory=list)
    _last: str = ""
    _look_split: bool = False

    def look_at(self, document: Document) -> None:
        """Look at the next document without an id."""
        later = begins_later(document)
        if document.metadata.keys() - {START_INDEX} and not later:
            return
        last, self._last = self._last, document.page_content
        is_cut = len(last) >= _CUT_OFF and self._last[:1].islower() and _OPEN_END.search(last)
        self._look_split |= bool(later or is_cut or _shared(last, self._last))
        self._lengths.append(len(self._last))

    def warning(self) -> str | None:
        """The warning; None if the documents do not look like chunks."""
        lengths, longest = self._lengths, max(self._lengths, default=0)
        full = [one + other > longest for one, other in pairwise(lengths)]
        look_filled = longest >= _LONG and sum(full) >= max(2, _MOST * len(full))
        if not full or not (self._look_split or look_filled):
            return None
        return (
            f"{len(lengths)} documents without an id became documents of their own, and no segment "
            "reaches from one to another. If they are chunks, pass the whole text instead: "
            "add_documents([Document(text)]). If not, give them ids: ids= or metadata['doc_id']"
        )
