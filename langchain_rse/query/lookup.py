"""Look up: reads the layouts of the candidates' documents, and excludes candidates.

A candidate is excluded if it is stale, corrupt, or a duplicate of a better one. The same read of
the docstore gives layouts and exclusions.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from langchain_rse._sync import Steps, compute
from langchain_rse.config import QuerySettings
from langchain_rse.engine import NEIGHBOR_RADIUS
from langchain_rse.engine.copies import find_copied
from langchain_rse.errors import CorruptRecordError
from langchain_rse.query.candidates import (
    Candidate,
    Candidates,
    ChunkKey,
    Exclusion,
    Hit,
    Reason,
    Sources,
    best_of_queries,
)
from langchain_rse.query.filters import Filters
from langchain_rse.query.witnesses import rank
from langchain_rse.stores.compare_and_set import Record
from langchain_rse.stores.layouts import Layout, Layouts, VersionKey, read_layouts_and_floors
from langchain_rse.stores.records import DOC_ID
from langchain_rse.text.words import (
    beginning_of,
    find_words,
    without_function_words,
)

# The longest gap between relevant chunks that the exact solver closes, in chunks.
_LONGEST_GAP = 16
# Near duplicates: the number of words in a sequence, and the minimum share of equal sequences.
_SEQUENCE_LENGTH = 5
_EQUAL_SHARE = 0.8

ChangedChunks = Mapping[VersionKey, Collection[int]]
"""Numbers of adopted chunks that were later changed or deleted in the vector store, by version."""


class LookedUp(NamedTuple):
    """The candidates that count, and the layouts of their documents."""

    candidates: Candidates  # ranked, without excluded ones
    considered: Collection[str]  # keys of the documents that are considered
    layouts: Layouts  # of the candidates' documents, as far as they were read
    exclusions: Mapping[ChunkKey, Exclusion]
    floors: Record  # the docstore's record of score floors

    def without(self, query: str) -> LookedUp:
        """Return a copy without the candidates of a refused query."""
        remaining = {each: self.candidates[each] for each in self.candidates if each != query}
        return self._replace(candidates=remaining)


def look_up(
    sources: Sources,
    candidates: Candidates,
    settings: QuerySettings,
    filters: Filters,
    *,
    unreadable: Mapping[str, CorruptRecordError],
    changed: ChangedChunks,
) -> Steps[LookedUp]:
    """Read the layouts of the best candidates' documents, and exclude candidates.

    Documents in ``unreadable`` are not read, and no passage contains a chunk in ``changed``.
    """
    only_candidates = filters.only_candidates(settings)
    layouts: Layouts = dict(unreadable)
    floors: Record = None
    candidates, exclusions = exclude(candidates, layouts, settings, changed)
    wanted = _considered(candidates, settings)
    while not wanted <= layouts.keys():
        chunks = _chunks_in(candidates, wanted - layouts.keys())
        windows = {key: _windows_of(indexes, settings) for key, indexes in chunks.items()}
        read, floors_of_store = yield from compute(
            read_layouts_and_floors, sources.docstore, windows
        )
        floors = floors or floors_of_store
        for key, layout in read.items():
            if isinstance(layout, Layout):
                version_key = (key, layout.version)
                read[key] = _cut(
                    layout,
                    chunks.get(version_key, []),
                    changed.get(version_key, ()),
                    only_candidates=only_candidates or _may_split(filters, layout),
                )
        layouts |= read
        candidates, more_exclusions = exclude(candidates, layouts, settings, changed)
        exclusions |= more_exclusions
        # The second round reads all other documents: their candidates may be excluded as well.
        wanted = _considered(candidates, settings)
        if not wanted <= layouts.keys():
            wanted = {candidate.key for candidate in best_of_queries(candidates)}
    return LookedUp(candidates, _considered(candidates, settings), layouts, exclusions, floors)


def _considered(candidates: Candidates, settings: QuerySettings) -> set[str]:
    """Return the keys of the documents with at least one of a query's best candidates."""
    most = settings.config.top_k_for_document_selection
    keys: set[str] = set()
    for candidates_of_query in candidates.values():
        keys.update(candidate.key for candidate in candidates_of_query[:most])
    return keys


def _chunks_in(candidates: Candidates, keys: Collection[str]) -> dict[VersionKey, list[int]]:
    """Return the chunk numbers of the candidates in some documents, ascending, by version."""
    chunks: dict[VersionKey, list[int]] = {}
    for candidate in best_of_queries(candidates):
        if candidate.key in keys:
            chunks.setdefault((candidate.key, candidate.version), []).append(candidate.chunk_index)
    return {version_key: sorted(indexes) for version_key, indexes in chunks.items()}


# Windows


def _windows_of(chunks: Sequence[int], settings: QuerySettings) -> list[range]:
    """Return the windows of a document that can contain passages, given its ascending candidates.

    With the published solvers, chunks that are not candidates cost the penalty. A passage then
    begins and ends with a candidate and closes no gap longer than itself; only a penalty of 0 lets
    it reach further. Windows are ascending, do not touch, and may extend beyond the document's end.
    """
    reach = NEIGHBOR_RADIUS if settings.config.neighbor_weight else 0
    solver = settings.config.solver
    if solver == "exact":
        return _windows(chunks, reach, 2 * reach + 2 + _LONGEST_GAP)
    if settings.penalty == 0:
        reach = solver.max_length - 1
    return _windows(chunks, reach, solver.max_length + 2 * reach)


def _windows(chunks: Sequence[int], reach: int, least_distance: int) -> list[range]:
    """Make a window of ``reach`` around each chunk; merge windows that are close together."""
    windows: list[range] = []
    for chunk in chunks:
        start = max(chunk - reach, 0)
        if windows:
            last_chunk = windows[-1].stop - reach - 1
            if chunk - last_chunk < least_distance:
                start = windows.pop().start
        windows.append(range(start, chunk + reach + 1))
    return windows


def _may_split(filters: Filters, layout: Layout) -> bool:
    """True if filters may include some chunks of a document and exclude others."""
    if not filters.conditions:
        return False
    shared_fields = set(layout.manifest.metadata)
    current = layout.manifest.current
    if current is not None and not current.adopted:
        # In an adopted store, a field with this name may have another meaning.
        shared_fields.add(DOC_ID)
    return not filters.hold_for(shared_fields)


def _cut(
    layout: Layout, chunks: Sequence[int], changed: Collection[int], *, only_candidates: bool
) -> Layout | CorruptRecordError:
    """Restrict the windows to the chunks that passages may contain.

    Returns an error if a candidate lies beyond the document's end.
    """
    current = layout.manifest.current
    if current is None:
        return layout
    if chunks and chunks[-1] >= current.chunks:
        return CorruptRecordError(
            f"the vector store has chunk {chunks[-1]} of document {layout.manifest.doc_id!r}, but "
            f"in the docstore the document has only {current.chunks} chunks"
        )
    if only_candidates:
        layout = dataclasses.replace(layout, windows=_windows(chunks, 0, 2))
    return layout.without(changed) if changed else layout


# Exclusions


def exclude(
    candidates: Candidates, layouts: Layouts, settings: QuerySettings, changed: ChangedChunks
) -> tuple[Candidates, dict[ChunkKey, Exclusion]]:
    """Exclude stale, corrupt and duplicate candidates, then rank the rest again.

    Only documents in ``layouts`` are checked. The new ranking may reveal further duplicates of
    whole documents. Copied passages are compared only once, so that one document keeps a passage
    whole.
    """
    exclusions: dict[ChunkKey, Exclusion] = {}
    compares_passages = settings.duplicates == "drop"
    while True:
        known = [each for each in best_of_queries(candidates) if each.key in layouts]
        found = _find_exclusions(known, layouts, settings, changed)
        if not found and compares_passages:
            found = _find_copies(known, layouts)
            compares_passages = False
        if not found:
            return candidates, exclusions
        for exclusion in found:
            exclusions[exclusion.candidate.chunk_key] = exclusion
        candidates = rank(_without(candidates, exclusions.keys()), settings)


def _find_exclusions(
    ranked: Sequence[Candidate],
    layouts: Layouts,
    settings: QuerySettings,
    changed: ChangedChunks,
) -> list[Exclusion]:
    """Find stale and corrupt candidates, and duplicates of better ones."""
    exclusions: list[Exclusion] = []
    best_with_text: dict[str, Layout] = {}  # the best document with each text, by its digest
    counting: list[Candidate] = []
    for candidate in ranked:
        layout = layouts[candidate.key]
        if layout is None:
            exclusions.append(Exclusion(candidate, Reason.UNKNOWN))
        elif isinstance(layout, CorruptRecordError):
            exclusions.append(Exclusion(candidate, Reason.CORRUPT))
        elif layout.version != candidate.version:
            exclusions.append(Exclusion(candidate, Reason.STALE))
        elif candidate.chunk_index in changed.get((candidate.key, candidate.version), ()):
            exclusions.append(Exclusion(candidate, Reason.CHANGED))
        else:
            digest = layout.manifest.text_digest
            best = layout
            if settings.duplicates != "keep" and digest:
                best = best_with_text.setdefault(digest, layout)
            if best is layout:
                counting.append(candidate)
            else:
                original = best.manifest.doc_id
                exclusions.append(Exclusion(candidate, Reason.DUPLICATE, original))
    if settings.duplicates == "drop_near":
        exclusions += _find_near_duplicates(counting, layouts)
    return exclusions


def _by_document(ranked: Sequence[Candidate]) -> list[list[Candidate]]:
    """Group candidates by document; documents are in the order of their best candidates.

    Duplicates are decided document by document. Decided chunk by chunk, each copy of a passage
    would keep some chunks, and no copy would be returned whole.
    """
    by_document: dict[str, list[Candidate]] = {}
    for candidate in ranked:
        by_document.setdefault(candidate.key, []).append(candidate)
    return list(by_document.values())


def _find_copies(ranked: Sequence[Candidate], layouts: Layouts) -> list[Exclusion]:
    """Find candidates whose whole text occurs word for word in candidates of a better document."""
    documents = _by_document(ranked)
    if len(documents) <= 1:
        return []
    texts = []
    candidate_at: dict[tuple[int, int], Candidate] = {}
    for number, candidates in enumerate(documents):
        texts.append({each.chunk_index: _own_text(each, layouts) for each in candidates})
        for candidate in candidates:
            candidate_at[number, candidate.chunk_index] = candidate

    def may_drop(copy: tuple[int, int], original: int) -> bool:
        return not _is_named_beside(candidate_at[copy], documents[original][0])

    exclusions = []
    for copy, original in find_copied(texts, may_drop).items():
        doc_id = documents[original][0].doc_id
        exclusions.append(Exclusion(candidate_at[copy], Reason.DUPLICATE, doc_id))
    return exclusions


def _is_named_beside(candidate: Candidate, other: Candidate) -> bool:
    """True if the query names the candidate's document by words that do not name the other one.

    A question that compares two contracts needs the clause of each, even if both are the same.
    """
    if candidate.name_factor < 1 or not candidate.query:
        return False
    content = without_function_words(beginning_of(candidate.query))
    naming_words = set(find_words(content)) - set(find_words(candidate.words))
    own_name = find_words(candidate.title)
    other_name = find_words(other.title)
    return bool(naming_words & (set(own_name) - set(other_name)))


def _find_near_duplicates(ranked: Sequence[Candidate], layouts: Layouts) -> list[Exclusion]:
    """Find candidates that share most of their word sequences with better documents."""
    exclusions = []
    first_with: dict[tuple[str, ...], Candidate] = {}  # the first candidate with each sequence
    for candidates in _by_document(ranked):
        for candidate in candidates:
            words = find_words(_own_text(candidate, layouts))
            count = max(len(words) - _SEQUENCE_LENGTH + 1, 1)
            sequences = {tuple(words[start : start + _SEQUENCE_LENGTH]) for start in range(count)}
            originals = []
            for sequence in sequences:
                original = first_with.get(sequence)
                if original is not None and original.key != candidate.key:
                    originals.append(original)
            if len(originals) >= _EQUAL_SHARE * len(sequences):
                original = min(originals, key=lambda each: -each.relevance)
                exclusions.append(Exclusion(candidate, Reason.DUPLICATE, original.doc_id))
                continue
            for sequence in sequences:
                first_with.setdefault(sequence, candidate)
    return exclusions


def _own_text(candidate: Candidate, layouts: Layouts) -> str:
    """Return the text of a chunk without header and without overlap with the previous chunk."""
    layout = layouts[candidate.key]
    text = candidate.document.page_content
    if isinstance(layout, Layout):
        start, end = layout.span_of(candidate.chunk_index)
        text = text.removeprefix(layout.manifest.header)[-(end - start) :]
    return text


def _without(candidates: Candidates, excluded: Collection[ChunkKey]) -> dict[str, list[Candidate]]:
    """Drop candidates, and renumber the ranks of the others from 0."""
    remaining = {}
    for query, candidates_of_query in candidates.items():
        kept = [each for each in candidates_of_query if each.chunk_key not in excluded]
        remaining[query] = _renumbered(kept)
    return remaining


def _renumbered(candidates: Sequence[Candidate]) -> list[Candidate]:
    ranks: dict[str, list[int]] = {}  # of each search
    for candidate in candidates:
        for search, hit in candidate.hits.items():
            ranks.setdefault(search, []).append(hit.rank)
    for ranks_of_search in ranks.values():
        ranks_of_search.sort()
    renumbered = []
    for candidate in candidates:
        hits = {}
        for search, hit in candidate.hits.items():
            hits[search] = Hit(bisect_left(ranks[search], hit.rank), hit.score)
        renumbered.append(candidate._replace(hits=hits))
    return renumbered
