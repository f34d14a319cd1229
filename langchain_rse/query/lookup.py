"""Look up: reads the layouts of the candidates' documents, and excludes candidates.

A candidate is excluded if it is stale, corrupt, or a duplicate of a better one. The same read of
the docstore gives layouts and exclusions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from langchain_rse._sync import Steps, compute
from langchain_rse.config import QuerySettings
from langchain_rse.engine import NEIGHBOR_RADIUS
from langchain_rse.errors import CorruptRecordError
from langchain_rse.query.candidates import (
    Candidate,
    Candidates,
    ChunkKey,
    Exclusion,
    Reason,
    Sources,
    best_of_queries,
)
from langchain_rse.query.filters import Filters
from langchain_rse.query.witnesses import rank
from langchain_rse.stores.compare_and_set import Record
from langchain_rse.stores.layouts import Layout, Layouts, VersionKey, read_layouts
from langchain_rse.text.words import find_words

# The longest gap between relevant chunks that the exact solver closes, in chunks.
_LONGEST_GAP = 16
# So many times `RSEConfig.top_k_for_document_selection` candidates have their documents read,
# because some of them are excluded.
_SPARE = 2

# The length of the shortest text that counts as a copy, without white space: about 30 words.
_SHORTEST_COPY = 150

# Underlines of headings: their characters depend on the level of the heading.
_RULE = re.compile(r"([=~^*#+.-])\1\1\1+")

# White space, as `str.split` knows it.
_WHITE_SPACE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
# A quick comparison ignores the bytes of these characters, and splits texts into pieces at some
# bytes of UTF-8 that are frequent enough in one script or another.
_IGNORED = f"{_WHITE_SPACE}=~^*#+.-".encode()
_TO_SEPARATORS = bytes.maketrans(b",\x8c\x99\xb0\xb1", b"\n\n\n\n\n")

# This many pieces of a text must be in another for a comparison of all.
_COMPARED_PIECES = 3

ChunkPlace = tuple[int, int]
"""The numbers of a document and of one of its chunks."""


Outdated = tuple[str, str, Reason]
"""A version that is not current: the document's id, the version's name, stale or unknown."""


class LookedUp(NamedTuple):
    """The candidates that count, and the layouts of their documents."""

    candidates: Candidates  # ranked, without excluded ones
    considered: Collection[str]  # keys of the documents that are considered
    layouts: Mapping[str, Layout]  # of current versions of the best candidates' documents, by key
    windows: Mapping[str, Sequence[range]]  # the chunks that can be in passages, by document
    exclusions: Mapping[ChunkKey, Exclusion]
    floors: Record  # the docstore's record of score floors

    def outdated(self) -> set[Outdated]:
        """Return the found versions of documents of which no current version was found."""
        outdated: set[Outdated] = set()
        current = {candidate.doc_id for candidate in best_of_queries(self.candidates)}
        for candidate, reason, _ in self.exclusions.values():
            if reason in {Reason.STALE, Reason.UNKNOWN}:
                outdated.add((candidate.doc_id, candidate.version, reason))
            else:
                current.add(candidate.doc_id)
        return {version for version in outdated if version[0] not in current}


def look_up(
    sources: Sources,
    candidates: Candidates,
    settings: QuerySettings,
    filters: Filters,
    unusable: Mapping[VersionKey, CorruptRecordError],
) -> Steps[LookedUp]:
    """Read the layouts of the best candidates' documents, and exclude candidates.

    ``unusable`` has the errors of versions whose chunks could not be read.
    """
    only_candidates = filters.only_candidates(settings)
    keys = _documents_to_read(candidates, settings)
    read, floors = yield from compute(read_layouts, sources.docstore, keys)
    ranked = best_of_queries(candidates)
    chunks: dict[VersionKey, list[int]] = {}  # the numbers of candidates
    for candidate in ranked:
        chunks.setdefault((candidate.key, candidate.version), []).append(candidate.chunk_index)
    layouts: dict[str, Layout] = {}
    windows: dict[str, Sequence[range]] = {}
    for key, layout in read.items():
        if not isinstance(layout, Layout):
            continue
        version_key = key, layout.version
        indexes = sorted(chunks.get(version_key, ()))
        error = unusable.get(version_key)
        if indexes and indexes[-1] >= layout.chunk_count:
            error = CorruptRecordError(
                f"the vector store has chunk {indexes[-1]} of document {layout.manifest.doc_id!r}, "
                f"but in the docstore the document has only {layout.chunk_count} chunks"
            )
        if error is not None:
            read[key] = error
            continue
        may_split = only_candidates or filters.may_split(layout)
        layouts[key] = layout
        windows[key] = layout.within(_windows_of(indexes, settings, only_candidates=may_split))
    exclusions = find_exclusions(ranked, read, layouts, settings)
    if exclusions:
        remaining = {}
        for query, found in candidates.items():
            remaining[query] = [each for each in found if each.chunk_key not in exclusions]
        candidates = rank(remaining, settings)
    most = settings.config.top_k_for_document_selection
    considered: set[str] = set()
    for found in candidates.values():
        considered.update(candidate.key for candidate in found[:most])
    return LookedUp(candidates, considered & layouts.keys(), layouts, windows, exclusions, floors)


def _documents_to_read(candidates: Candidates, settings: QuerySettings) -> set[str]:
    """Return the keys of the documents of the best candidates.

    Chunks with the same text count once, so that copies of a document do not displace others.
    """
    most = settings.config.top_k_for_document_selection
    keys: set[str] = set()
    for found in candidates.values():
        texts: set[int] = set()  # numbers
        for candidate in found:
            texts.add(candidate.text)
            if most is not None and len(texts) > _SPARE * most:
                break
            keys.add(candidate.key)
    return keys


# Windows


def _windows_of(
    chunks: Sequence[int], settings: QuerySettings, *, only_candidates: bool
) -> list[range]:
    """Return the windows of a document that can contain passages, given its ascending candidates.

    With the published solvers, chunks that are not candidates cost the penalty. A passage then
    begins and ends with a candidate and closes no gap longer than itself; only a penalty of 0 lets
    it reach further. Windows are ascending, do not touch, and may extend beyond the document's end.
    """
    solver = settings.config.solver
    reach = NEIGHBOR_RADIUS  # the chunks on each side of a candidate
    closed_gap = _LONGEST_GAP
    if only_candidates:
        reach = closed_gap = 0
    elif solver != "exact":
        reach = NEIGHBOR_RADIUS if settings.penalty else solver.max_length - 1
        closed_gap = solver.max_length - 2
    windows: list[range] = []
    last_chunk = -math.inf
    for chunk in chunks:
        start = max(chunk - reach, 0)
        if chunk - last_chunk < 2 * reach + 2 + closed_gap:
            start = windows.pop().start
        windows.append(range(start, chunk + reach + 1))
        last_chunk = chunk
    return windows


# Exclusions


def find_exclusions(
    ranked: Sequence[Candidate],
    read: Layouts,
    layouts: Mapping[str, Layout],
    settings: QuerySettings,
) -> dict[ChunkKey, Exclusion]:
    """Find stale and corrupt candidates, and duplicates of better ones, best first.

    Only candidates of documents that were read are checked.
    """
    drops = settings.duplicates == "drop"
    found: list[Exclusion] = []
    best_with_text: dict[str, str] = {}  # the best document with each text, by its digest
    by_document: dict[str, list[Candidate]] = {}  # candidates that count
    for candidate in ranked:
        key = candidate.key
        if key not in layouts:
            if key in read:
                error = read[key]
                reason = Reason.UNKNOWN if error is None else Reason.CORRUPT
                found.append(Exclusion(candidate, reason, str(error)))
        elif layouts[key].version != candidate.version:
            found.append(Exclusion(candidate, Reason.STALE))
        else:
            # A document without text has no candidates, so there is a digest.
            text_digest = layouts[key].manifest.text_digest
            best = best_with_text.setdefault(text_digest, candidate.doc_id)
            if drops and best != candidate.doc_id:
                found.append(Exclusion(candidate, Reason.DUPLICATE, best))
            else:
                by_document.setdefault(key, []).append(candidate)
    if drops:
        found += _find_copies(list(by_document.values()), layouts)
    return {exclusion.candidate.chunk_key: exclusion for exclusion in found}


def _find_copies(
    documents: Sequence[Sequence[Candidate]], layouts: Mapping[str, Layout]
) -> list[Exclusion]:
    """Find candidates whose whole text occurs word for word in candidates of a better document.

    Copies are decided document by document. Decided chunk by chunk, each copy of a passage would
    keep some chunks, and no copy would be returned whole.

    Args:
        documents: The candidates of each document, best first.
        layouts: The layouts of these documents.
    """
    texts = []
    candidate_at: dict[ChunkPlace, Candidate] = {}
    for number, candidates in enumerate(documents):
        layout = layouts[candidates[0].key]
        own_texts: dict[int, str] = {}  # without header and overlap
        for candidate in candidates:
            candidate_at[number, candidate.chunk_index] = candidate
            start, end = layout.span_of(candidate.chunk_index)
            text = candidate.document.page_content.removeprefix(layout.manifest.header)
            own_texts[candidate.chunk_index] = text[-(end - start) :]
        texts.append(own_texts)
    exclusions = []
    for copy, number in find_copied(texts).items():
        original = documents[number][0]
        if not _is_named_beside(candidate_at[copy], original):
            exclusions.append(Exclusion(candidate_at[copy], Reason.DUPLICATE, original.doc_id))
    return exclusions


def _is_named_beside(candidate: Candidate, other: Candidate) -> bool:
    """True if the query names the candidate's document by words that do not name the other one.

    A question that compares two contracts needs the clause of each, even if both are the same.
    """
    if candidate.ranking is None or candidate.name_factor < 1:
        return False
    naming_words = set(candidate.ranking.naming_words).difference(find_words(other.title))
    return not naming_words.isdisjoint(find_words(candidate.title))


# Copies


def find_copied(documents: Sequence[Mapping[int, str]]) -> dict[ChunkPlace, int]:
    """Find chunks whose whole text occurs word for word in chunks of a better document.

    Neighboring chunks are compared as one text, because two documents rarely split a passage at the
    same positions. White space is ignored. Short texts, such as a turn of a chat or a heading,
    never count as copies.

    Args:
        documents: For each document, best first: the texts of its chunks by number, without
            overlap.

    Returns:
        For each copy, the number of the first document that contains its text; copies are in the
        order of ``documents``.
    """

    @cache
    def exact(number: int) -> str:
        """Join the texts of a document as they are compared."""
        texts = documents[number].items()
        return _join_neighbors({index: comparable(text) for index, text in texts})

    copied: dict[ChunkPlace, int] = {}
    better_documents: list[str] = []  # for a quick comparison that misses no copy
    known: set[str] = set()  # pieces of better documents
    for number, texts in enumerate(documents):
        prepared = {}  # without white space and rules; the pieces of each text are lines
        for index, chunk_text in texts.items():
            codes = chunk_text.encode(errors="replace").translate(_TO_SEPARATORS, _IGNORED)
            prepared[index] = codes.decode("latin-1")  # a character for each byte
        for index, text in prepared.items():
            pieces = text.split("\n", _COMPARED_PIECES + 1)[1:-1]  # the first may be cut
            if len(texts[index]) < _SHORTEST_COPY or not known.issuperset(pieces):
                continue
            for original, better in enumerate(better_documents):
                if text not in better:
                    continue
                exact_text = comparable(texts[index])
                if len(exact_text) >= _SHORTEST_COPY and exact_text in exact(original):
                    copied[number, index] = original
                    break
        joined = _join_neighbors(prepared)
        better_documents.append(joined)
        known.update(joined.split("\n"))
    return copied


def comparable(text: str) -> str:
    """Return a text without white space and underlines, which vary with the layout."""
    return "".join(_RULE.sub("", text).split())


def _join_neighbors(texts: Mapping[int, str]) -> str:
    """Join the texts of a document's chunks by number; a line for each run of neighbors."""
    joined: list[str] = []
    for index in sorted(texts):
        if index - 1 not in texts:
            joined.append("\n")
        joined.append(texts[index])
    return "".join([*joined, "\n"])
