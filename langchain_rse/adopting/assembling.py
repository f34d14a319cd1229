"""Documents put together from their chunks as a vector store has them."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from langchain_core.documents import Document
from typing_extensions import override

from langchain_rse.adopting.pieces import Piece, first_of
from langchain_rse.adopting.reports import Adoption, AdoptionError, ExistingIndex, Gap
from langchain_rse.along import rules_to_store, with_rules
from langchain_rse.docstores import encode_json
from langchain_rse.schema import (
    CHUNK_INDEX,
    DOC_ID,
    END_INDEX,
    SPANS_PER_PAGE,
    START_INDEX,
    VERSION,
    Rule,
    Version,
    adopted_key,
    digest,
    vectors_key,
)
from langchain_rse.splitting import Span
from langchain_rse.writing import Changing, Prepared, Spans, batches, split_metadata

__all__ = ["AdoptedDocument", "Assembly", "left_out"]

# Part of every adopted version: raised when the same chunks would be put together otherwise.
_FORMAT = "adopted 1"

# Splitters strip white space, indentation included; so many characters between two chunks are
# taken for that.
_WHITE_SPACE = 16
# What stands between the pages of a document.
_PAGE_BREAK = "\n\n"

# Neighbors that share so many letters and digits overlap, if such are a large enough part of a
# document's; then others may share less.
_SURE_OVERLAP = 24
_OFTEN = 0.1
_SEED = 16
# In a text that repeats itself, so many places of a chunk are looked at.
_PLACES = 1_000
_WORD = re.compile(r"[^\W_]")

# What segments have of their own.
_OWN = frozenset({CHUNK_INDEX, START_INDEX, END_INDEX})


@dataclasses.dataclass
class _Chunk:
    """A chunk as it is put together.

    Attributes:
        start: Its first character in the document.
        text: What of it is not in the next chunk, and the white space after it.
        piece: As the store has it.
        vectors: All vectors that stand for it.
    """

    start: int
    text: str
    piece: Piece
    vectors: list[str]

    @property
    def reach(self) -> int:
        """The character after its last one, as the store has it."""
        return self.start + len(self.piece.text)


class Assembly:
    """Puts a document together from its pieces.

    Args:
        doc_id: The document.
        pieces: Its pieces, in any order.
        index: What the metadata says.
        report: Is told what comes up.
        text: Its whole text, where that is known.

    Raises:
        AdoptionError: If the pieces contradict one another, or the text.
    """

    def __init__(
        self,
        doc_id: str,
        pieces: Sequence[Piece],
        index: ExistingIndex,
        report: Adoption,
        text: str | None = None,
    ) -> None:
        self.doc_id = doc_id
        self._index = index
        self._report = report
        self._chunks: list[_Chunk] = []
        self._gaps: set[int] = set()  # numbers of chunks before which text is missing
        self._empty: list[str] = []
        self._base = 0  # where the page begins
        self._number: int | None = None  # of the piece before, contained ones included
        ordered_pieces = sorted(pieces, key=lambda piece: (piece.place, piece.number))
        if text is not None:
            self._lay_into(text, ordered_pieces)
            return
        ordered = self._checked(ordered_pieces)
        neighbors = [
            (before.text, after.text)
            for (before, _), (after, _) in itertools.pairwise(ordered)
            if before.page == after.page and after.start is None
        ]
        self._stripped = not _often(_spaced(*pair) for pair in neighbors)
        self._overlapping = _often(
            _content(after[: _shared(before, after)]) >= _SURE_OVERLAP
            for before, after in neighbors
        )
        for piece, copies in ordered:
            self._add(piece, copies)

    def document(self, rules: Mapping[str, Rule]) -> AdoptedDocument | None:
        """The document; None if it has no text at all.

        Args:
            rules: What segments carry of fields that change along it.

        Raises:
            ValueError: If a field that must be the same has two values.
        """
        if not self._chunks:
            return None
        parts, gaps = self._parts()
        metadata = f"metadata of document {self.doc_id!r}"
        known = [
            {k: v for k, v in chunk.piece.metadata.items() if k not in _OWN}
            for chunk in self._chunks
        ]
        shared, changing = split_metadata(with_rules(known, rules, self.doc_id), metadata)
        stored = rules_to_store(rules, itertools.chain(shared, *changing))
        texts = [None if part is None else part.text for part in parts]
        starts = [chunk.start for chunk in self._chunks]
        bounds = [*self._cuts(parts), self._chunks[-1].start + len(self._chunks[-1].text)]
        by_chunk = iter(changing)
        vectors = [[] if part is None else part.vectors for part in parts]
        name = digest(
            _FORMAT,
            *(text or "" for text in texts),
            encode_json(
                [bounds, sorted(gaps), starts, vectors, self._empty, shared, changing]
                + ([stored] if stored else []),
                metadata,
            ),
        )
        count = len(self._empty) + sum(map(len, vectors))
        return AdoptedDocument(
            doc_id=self.doc_id,
            version=Version(name, len(parts), adopted=count),
            length=bounds[-1],
            spans=Spans.of([Span(a, b, "") for a, b in itertools.pairwise(bounds)]),
            metadata=shared,
            gaps=frozenset(gaps),
            texts=texts,
            by_chunk=[None if part is None else next(by_chunk, None) for part in parts],
            vectors_of=vectors,
            empty=self._empty,
            rules=stored,
        )

    def _parts(self) -> tuple[list[_Chunk | None], set[int]]:
        """The chunks, None for gaps between them, and the numbers of those."""
        parts: list[_Chunk | None] = []
        gaps = set()
        for number, chunk in enumerate(self._chunks):
            if number in self._gaps:
                gaps.add(len(parts))
                parts.append(None)
            parts.append(chunk)
        return parts, gaps

    def _cuts(self, parts: Sequence[_Chunk | None]) -> Iterator[int]:
        """Where chunks and gaps begin."""
        end = 0
        for part in parts:
            yield end if part is None else part.start
            if part is not None:
                end = part.start + len(part.text)

    # Where the text is known

    def _lay_into(self, text: str, pieces: Sequence[Piece]) -> None:
        """Find the pieces in the text.

        What lies between two and has a letter or digit is a chunk of its own that has no
        vector: nothing finds it, and filters on chunks leave it out. Else it belongs to the
        first.
        """
        placed = sorted(
            self._places(text, pieces), key=lambda found: (found[0], -len(found[1].text))
        )
        reach = 0
        for start, piece in placed:
            last = self._chunks[-1] if self._chunks else None
            if start > reach:
                self._fill(text, reach, start, piece if last is None else last.piece)
            if last is None or start + len(piece.text) > reach:
                if reach > start:
                    self._report.overlaps += 1
                    self._report.overlap_characters += reach - start
                self._append(start, piece, [piece.vector])
                reach = start + len(piece.text)
            elif last.start == start and last.piece.text == piece.text:
                last.vectors.append(piece.vector)
                self._report.duplicates += 1
            else:
                self._contain(piece, [piece.vector], last)
        if self._chunks:
            self._fill(text, reach, len(text), self._chunks[-1].piece)
        cuts = [0, *(chunk.start for chunk in self._chunks[1:]), len(text)]
        for chunk, (start, end) in zip(self._chunks, itertools.pairwise(cuts), strict=False):
            chunk.start, chunk.text = start, text[start:end]

    def _fill(self, text: str, start: int, end: int, piece: Piece) -> None:
        """Add what is in no vector, beside a piece that is, if it is more than white space."""
        content = _WORD.search(text, start, end)
        if content is None:
            return
        self._report.filled += 1
        between = text[start : content.start()]
        self._append(start + len(between) - len(between.lstrip()), piece, [])

    def _places(self, text: str, pieces: Sequence[Piece]) -> Iterator[tuple[int, Piece]]:
        """Pieces with their places; those with the same text in the order in which they are."""
        same: dict[str, list[Piece]] = {}
        for piece in pieces:
            if piece.text:
                same.setdefault(piece.text, []).append(piece)
            else:
                self._empty.append(piece.vector)
                self._report.contained += 1
        found = {content: _occurrences(text, content) for content in same}
        sure = _Covered(
            (starts[0], starts[0] + len(content))
            for content, starts in found.items()
            if len(starts) == 1
        )
        for content, some in same.items():
            starts = found[content]
            if not starts:
                raise AdoptionError(
                    f"document {self.doc_id!r}: chunk {some[0].vector!r}, which begins "
                    f"{content[:40]!r}, is not in the text that texts has of it: it is of another "
                    "version, or its splitter changes text"
                )
            if len(starts) > len(some):  # an occurrence inside another chunk is likely that one's
                starts = sorted(starts, key=lambda start: sure.has(start, start + len(content)))
                starts = sorted(starts[: len(some)])
            for number, piece in enumerate(some):
                yield starts[min(number, len(starts) - 1)], piece

    # Before chunks are put together

    def _checked(self, ordered: Sequence[Piece]) -> list[tuple[Piece, list[str]]]:
        """The pieces in order, each once, with the ids of its copies."""
        some: list[tuple[Piece, list[str]]] = []
        index = self._index
        by_store = index.in_store_order and not (index.chunk_index_key or index.start_index_key)
        for piece in ordered:
            if not piece.text:
                self._empty.append(piece.vector)
                self._report.contained += 1
                continue
            before = some[-1][0] if some else None
            if before is None or by_store or before.place != piece.place:
                some.append((piece, []))
            elif before.text == piece.text:
                some[-1][1].append(piece.vector)
                self._report.duplicates += 1
            elif piece.chunk is None and piece.start is not None and _nested(before, piece):
                some.append((piece, []))
            else:
                raise self._conflict(before, piece)
        if by_store:
            some = [
                kept
                for _, page in itertools.groupby(some, key=lambda found: found[0].page)
                for kept in self._without_repeats(list(page))
            ]
        return some

    def _conflict(self, one: Piece, other: Piece) -> AdoptionError:
        keys = (
            (self._index.page_key, one.page),
            (self._index.chunk_index_key, one.chunk),
            (self._index.start_index_key, one.start if one.chunk is None else None),
        )
        place = ", ".join(f"{key}={at}" for key, at in keys if key and at is not None)
        more = ""
        if one.chunk is None and one.start is None:
            more = (
                ". If the store lists the chunks of a page in their order, set in_store_order=True"
            )
        return AdoptionError(
            f"document {self.doc_id!r} has two chunks at one position ({place or 'no position'}) "
            f"with different texts: {one.vector!r}, which begins {one.text[:40]!r}, and "
            f"{other.vector!r}, which begins {other.text[:40]!r}. Are there chunks of an older "
            f"version of the document, or of another one of that name? Delete them{more}"
        )

    def _without_repeats(
        self, found: list[tuple[Piece, list[str]]]
    ) -> list[tuple[Piece, list[str]]]:
        """The pieces of a page once, if they were added several times over."""
        texts = [piece.text for piece, _ in found]
        for length in range(2, len(texts) // 2 + 1):
            if len(texts) % length or texts != texts[:length] * (len(texts) // length):
                continue
            for number, (piece, _) in enumerate(found[length:]):
                found[number % length][1].append(piece.vector)
            self._report.duplicates += len(found) - length
            return found[:length]
        return found

    # One chunk after the other

    def _add(self, piece: Piece, copies: Sequence[str]) -> None:
        vectors = [piece.vector, *copies]
        last = self._chunks[-1] if self._chunks else None
        if last is None:
            start = first_of(piece.start, 0)
            if start > _WHITE_SPACE:
                self._report.gaps.append(Gap(self.doc_id, None, piece.vector, start))
            self._chunks.append(_Chunk(start, piece.text, piece, vectors))
        elif last.piece.page != piece.page:
            self._turn_page(last, piece, vectors)
        elif piece.start is not None:
            self._add_at(self._base + piece.start, last, piece, vectors)
        else:
            self._add_next(last, piece, vectors)
        self._number = piece.chunk

    def _turn_page(self, last: _Chunk, piece: Piece, vectors: list[str]) -> None:
        start = first_of(piece.start, 0)
        # Numbers go on from page to page, or begin again.
        expected = {0, 1, first_of(self._number, 0) + 1}
        skipped = piece.chunk is not None and piece.chunk not in expected
        if piece.page > last.piece.page + 1 or (skipped and piece.start is None):
            self._append_gap(last, None, piece, vectors)
        elif start > _WHITE_SPACE:
            self._append_gap(last, start, piece, vectors)
        else:
            last.text = last.piece.text + _PAGE_BREAK
            self._append(last.reach + len(_PAGE_BREAK), piece, vectors)
        self._base = self._chunks[-1].start - start

    def _add_at(self, at: int, last: _Chunk, piece: Piece, vectors: list[str]) -> None:
        """Add a piece whose place in the text is known."""
        shared = last.reach - at
        there = last.piece.text[max(at - last.start, 0) :]
        if at < last.start or (shared > 0 and not _agree(there, piece.text)):
            raise AdoptionError(
                f"document {self.doc_id!r}: chunk {piece.vector!r} begins at "
                f"{self._index.start_index_key}={piece.start}, where chunk {last.piece.vector!r} "
                f"({self._index.start_index_key}={last.piece.start}) has another text: "
                f"{piece.text[:40]!r} and {there[:40]!r}. Are there chunks of an older version of "
                "the document? Delete them; if the field is wrong, go by another one"
            )
        if shared >= 0:
            self._join(shared, last, piece, vectors)
        elif -shared <= _WHITE_SPACE:
            last.text = last.piece.text + _white_space(-shared)
            self._report.separators += 1
            self._append(at, piece, vectors)
        else:
            self._append_gap(last, -shared, piece, vectors)

    def _add_next(self, last: _Chunk, piece: Piece, vectors: list[str]) -> None:
        """Add a piece of which is known only that it comes next."""
        shared = self._overlap(last.piece.text, piece.text)
        number = self._number
        skipped = piece.chunk is not None and number is not None and piece.chunk > number + 1
        if shared:
            self._join(shared, last, piece, vectors)
        elif skipped:
            self._append_gap(last, None, piece, vectors)
        elif self._stripped and not _spaced(last.piece.text, piece.text):
            last.text = last.piece.text + self._index.separator
            self._report.separators += 1
            self._append(last.reach + len(self._index.separator), piece, vectors)
        else:
            self._append(last.reach, piece, vectors)

    def _overlap(self, before: str, after: str) -> int:
        """How many characters of the second text are the end of the first, not by chance."""
        most = self._index.chunk_overlap
        if most is not None:
            return _shared(before[-most:] if most else "", after)
        if not self._overlapping:
            return 0
        shared = _shared(before, after)
        content = _content(after[:shared])
        if content >= _SURE_OVERLAP:
            return shared
        # Of a few signs without a letter, most are alike.
        telling = content > 0 or shared >= _SEED
        return shared if telling and _is_whole(before, after, shared) else 0

    def _join(self, shared: int, last: _Chunk, piece: Piece, vectors: list[str]) -> None:
        """Add a piece that begins with so many characters of the last one."""
        if shared >= len(piece.text):
            self._contain(piece, vectors, last)
        elif shared == len(last.piece.text):
            inner, last.piece, last.text = last.piece, piece, piece.text
            inside, last.vectors = last.vectors, vectors
            self._contain(inner, inside, last)
        else:
            if shared:
                last.text = last.piece.text[:-shared]
                self._report.overlaps += 1
                self._report.overlap_characters += shared
            self._append(last.reach - shared, piece, vectors)

    def _contain(self, piece: Piece, vectors: Sequence[str], chunk: _Chunk) -> None:
        """Let vectors stand for a chunk that holds theirs, and maybe more."""
        self._report.contained += 1
        # What a filter lets through must not bring in what it might not.
        same = self._filterable(piece) == self._filterable(chunk.piece)
        (chunk.vectors if same else self._empty).extend(vectors)

    def _filterable(self, piece: Piece) -> str:
        """What a filter may ask for, but for the place."""
        places = {*_OWN, self._index.chunk_index_key, self._index.start_index_key}
        fields = {name: value for name, value in piece.metadata.items() if name not in places}
        return encode_json(dict(sorted(fields.items())), f"chunk {piece.vector!r}")

    def _append_gap(
        self, last: _Chunk, length: int | None, piece: Piece, vectors: list[str]
    ) -> None:
        self._report.gaps.append(Gap(self.doc_id, last.piece.vector, piece.vector, length))
        self._gaps.add(len(self._chunks))
        self._append(last.reach + first_of(length, 1), piece, vectors)

    def _append(self, start: int, piece: Piece, vectors: list[str]) -> None:
        self._chunks.append(_Chunk(start, piece.text, piece, vectors))


def _white_space(length: int) -> str:
    """What most likely stood there: a space, or a blank line and indentation."""
    return " " if length == 1 else "\n\n" + " " * (length - 2)


def _often(found: Iterable[bool]) -> bool:
    """Whether something is found more often than by chance."""
    answers = list(found)
    return any(answers) and sum(answers) >= _OFTEN * len(answers)


def _spaced(before: str, after: str) -> bool:
    """Whether white space stands between two texts as they are."""
    return before[-1:].isspace() or after[:1].isspace()


def _nested(before: Piece, piece: Piece) -> bool:
    return before.text.startswith(piece.text) or piece.text.startswith(before.text)


def _occurrences(text: str, content: str) -> list[int]:
    """Where a content begins in a text: its first so many places."""
    starts: list[int] = []
    at = text.find(content)
    while at >= 0 and len(starts) < _PLACES:
        starts.append(at)
        at = text.find(content, at + 1)
    return starts


class _Covered:
    """Tells whether a part of a text lies inside one of some others.

    Args:
        parts: The others, first character and the one after the last.
    """

    def __init__(self, parts: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(parts)
        self._starts = [start for start, _ in ordered]
        self._reach = list(itertools.accumulate((end for _, end in ordered), max))

    def has(self, start: int, end: int) -> bool:
        """Whether ``[start, end)`` lies inside one of them."""
        before = bisect.bisect_right(self._starts, start)
        return before > 0 and self._reach[before - 1] >= end


def _agree(one: str, other: str) -> bool:
    return one.startswith(other) if len(other) <= len(one) else other.startswith(one)


def _shared(before: str, after: str) -> int:
    """How many characters the end of one text and the beginning of another have in common."""
    seed = after[:_SEED]
    at = before.find(seed, max(len(before) - len(after), 0)) if seed else -1
    while at >= 0:
        if after.startswith(before[at:]):
            return len(before) - at
        at = before.find(seed, at + 1)
    short = range(min(len(before), len(after), _SEED - 1), 0, -1)
    return next((length for length in short if before.endswith(after[:length])), 0)


def _content(text: str) -> int:
    return len(_WORD.findall(text))


def _is_whole(before: str, after: str, shared: int) -> bool:
    """Whether what two texts have in common is not a part of a word."""
    at = len(before) - shared
    begins = at == 0 or not (before[at - 1].isalnum() and after[:1].isalnum())
    ends = shared == len(after) or not (after[shared - 1].isalnum() and after[shared].isalnum())
    return begins and ends


@dataclasses.dataclass(frozen=True)
class AdoptedDocument(Prepared):
    """A document whose vectors are there.

    Attributes:
        texts: The spans' texts; None for gaps.
        by_chunk: The metadata that changes along the document, by span; None if nothing does.
        vectors_of: The ids of the vectors that stand for each span.
        empty: Those of vectors that stand for nothing.
    """

    texts: Sequence[str | None] = dataclasses.field(kw_only=True)
    by_chunk: Sequence[Changing | None] = dataclasses.field(kw_only=True)
    vectors_of: Sequence[Sequence[str]] = dataclasses.field(kw_only=True)
    empty: Sequence[str] = dataclasses.field(kw_only=True)

    @override
    def text_of(self, index: int) -> str:
        return self.texts[index] or ""

    @override
    def changing(self, index: int) -> tuple[Changing, Changing] | None:
        here = self.by_chunk[index]
        return None if here is None else (here, here)

    @override
    def vectors(self) -> Iterator[Document]:
        return iter(())

    def all_vectors(self) -> Iterator[str]:
        """The ids of all its vectors."""
        return itertools.chain(self.empty, *self.vectors_of)

    @override
    def records(self) -> Iterator[tuple[str, Document]]:
        # They say what there is to remove, should the rest not be written.
        for page, ids in enumerate(batches(self.all_vectors(), SPANS_PER_PAGE)):
            key = vectors_key(self.key, self.version.name, page)
            yield key, Document(page_content="", metadata={"ids": ids})
        yield from super().records()
        yield from map(left_out, self.empty)
        for index, vectors in enumerate(self.vectors_of):
            place = {DOC_ID: self.doc_id, VERSION: self.version.name, CHUNK_INDEX: index}
            for vector in vectors:
                yield adopted_key(vector), Document(page_content="", metadata=place)


def left_out(vector: str) -> tuple[str, Document]:
    """The record of a vector that stands for nothing."""
    return adopted_key(vector), Document(page_content="", metadata={DOC_ID: None})
