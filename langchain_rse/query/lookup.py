"""Look up: reads where the candidates' documents lie, and finds out which candidates count."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.errors import CorruptRecordError
from langchain_rse.query.candidates import Candidate, Candidates, ChunkKey
from langchain_rse.query.copies import LeftOut, StaleChunks, is_current, leave_out
from langchain_rse.query.ranking import Ranked, best_of_queries, rank_all
from langchain_rse.query.search_arguments import may_split
from langchain_rse.query.wrapped import Conditions
from langchain_rse.stores.changing import Record
from langchain_rse.stores.reading import Layout, Layouts, VersionKey, read_layouts_and_floors
from langchain_rse.stores.records import DOC_ID

# The longest gap, in chunks, between relevant chunks that the exact solver closes.
_LONGEST_GAP = 16


class Outdated(NamedTuple):
    """A version that the search finds, of a document of which it finds no current one."""

    key: str  # the document's
    version: str
    is_known: bool  # False if the docstore has no manifest of the document


class DocumentsChangedError(Exception):
    """Documents were replaced or deleted since they were searched, or turn out to be unreadable.

    Attributes:
        outdated: The versions that the search found in place of the current ones.
        replaced: Keys of documents that were replaced since they were looked up.
        stale: Chunks of adopted documents that the vector store no longer has.
        unreadable: The errors of documents that cannot be read, by their keys.
    """

    def __init__(
        self,
        outdated: Collection[Outdated] = (),
        replaced: Collection[str] = (),
        unreadable: Mapping[str, CorruptRecordError] | None = None,
        stale: StaleChunks | None = None,
    ) -> None:
        super().__init__("documents were changed while they were read")
        self.outdated = outdated
        self.replaced = replaced
        self.unreadable = unreadable or {}
        self.stale = stale or {}


class LookedUp(NamedTuple):
    """The candidates that count, and where the chunks around them lie."""

    layouts: Layouts  # of the candidates' documents, those that were read
    queries: Sequence[str]
    ranked: Sequence[Ranked]  # for each query, all candidates that count
    considered: Collection[str]  # keys of the documents whose chunks are considered
    left_out: Mapping[ChunkKey, LeftOut]  # candidates that do not count
    floors: Record = None  # the docstore's record of score floors


def look_up(
    docstore: BaseStore[str, Document],
    candidates: Candidates,
    settings: QuerySettings,
    conditions: Conditions,
    *,
    excluded: Mapping[str, CorruptRecordError],
    stale: StaleChunks,
) -> Steps[LookedUp]:
    """Read the layouts of the documents of the best candidates.

    If candidates are left out, the documents that come in for them are read as well, in one more
    batch. Documents in ``excluded`` are not read, for the reasons given there. No segment contains
    a chunk in ``stale``.
    """
    config = settings.config

    def read_unread(document_keys: Collection[str]) -> Steps[tuple[Layouts, Record]]:
        unread = set(document_keys) - layouts.keys()
        counting = best_of_queries(ranked, list(candidates))
        wanted = [candidate for candidate, _ in counting if candidate.key in unread]
        return _read_layouts(docstore, wanted, config, conditions, stale)

    ranked = rank_all(candidates, settings)
    layouts: Layouts = dict(excluded)
    read, floors = yield from read_unread(_considered(ranked, config))
    layouts |= read
    candidates, ranked, left_out = leave_out(candidates, ranked, layouts, settings, stale)
    if not _considered(ranked, config) <= layouts.keys():
        # All others at once: of these, too, candidates may have to be left out.
        read, _ = yield from read_unread(_documents_of(ranked))
        layouts |= read
        candidates, ranked, more_left_out = leave_out(candidates, ranked, layouts, settings, stale)
        left_out |= more_left_out
    return LookedUp(
        layouts=layouts,
        queries=list(candidates),
        ranked=ranked,
        considered=_considered(ranked, config),
        left_out=left_out,
        floors=floors,
    )


def outdated_versions(candidates: Sequence[Candidate], layouts: Layouts) -> set[Outdated]:
    """Find the documents of which no candidate is current; return the candidates' versions."""
    in_use = set()
    for candidate in candidates:
        layout = layouts.get(candidate.key)
        if is_current(layout, candidate.version) or isinstance(layout, CorruptRecordError):
            in_use.add(candidate.key)
    outdated = set()
    for candidate in candidates:
        if candidate.key in layouts and candidate.key not in in_use:
            is_known = layouts[candidate.key] is not None
            outdated.add(Outdated(candidate.key, candidate.version, is_known))
    return outdated


def _considered(ranked: Sequence[Ranked], config: RSEConfig) -> set[str]:
    """The keys of the documents that have one of the best candidates of a query."""
    most = config.top_k_for_document_selection
    return _documents_of([ranked_of_query[:most] for ranked_of_query in ranked])


def _documents_of(ranked: Iterable[Ranked]) -> set[str]:
    keys = set()
    for ranked_of_query in ranked:
        for candidate, _ in ranked_of_query:
            keys.add(candidate.key)
    return keys


def _read_layouts(
    docstore: BaseStore[str, Document],
    candidates: Sequence[Candidate],
    config: RSEConfig,
    conditions: Conditions,
    stale: StaleChunks,
) -> Steps[tuple[Layouts, Record]]:
    """Read the layouts of the candidates' documents, with the windows around them.

    Also returns the docstore's record of score floors; None if there are no candidates.
    """
    if not candidates:
        return {}, None
    chunks: dict[VersionKey, list[int]] = {}
    for candidate in candidates:
        version_key = (candidate.key, candidate.version)
        chunks.setdefault(version_key, []).append(candidate.chunk_index)
    windows = {}
    for version_key, indexes in chunks.items():
        indexes.sort()
        windows[version_key] = _find_windows(indexes, config)
    layouts, floors = yield from read_layouts_and_floors(docstore, windows)
    for key, layout in layouts.items():
        if isinstance(layout, Layout):
            indexes = chunks.get((key, layout.version), [])
            checked = _check_windows(layout, indexes, conditions)
            if isinstance(checked, Layout):
                checked = checked.without(stale.get((key, layout.version), ()))
            layouts[key] = checked
    return layouts, floors


def _find_windows(chunks: Sequence[int], config: RSEConfig) -> list[range]:
    """The windows of a document in which segments can lie, around its ascending candidates.

    With the published solvers, chunks that are no candidates cost the penalty, so a segment begins
    and ends on a candidate and closes no gap longer than itself; only with a penalty of 0 it may
    reach further. Windows are ascending, do not touch, and may end after the document does.
    """
    reach = config.neighbor_radius
    if config.solver == "exact":
        return _windows(chunks, reach, 2 * reach + 2 + _LONGEST_GAP)
    longest_segment = config.solver.max_length
    if config.irrelevant_chunk_penalty == 0:
        reach = longest_segment - 1
    return _windows(chunks, reach, longest_segment + 2 * reach)


def _windows(chunks: Sequence[int], reach: int, least_distance: int) -> list[range]:
    """Make a window of ``reach`` around each chunk; join those of chunks that are close by."""
    windows: list[range] = []
    for chunk in chunks:
        start = max(chunk - reach, 0)
        if windows:
            last_chunk = windows[-1].stop - reach - 1
            if chunk - last_chunk < least_distance:
                start = windows.pop().start
        windows.append(range(start, chunk + reach + 1))
    return windows


def _check_windows(
    layout: Layout, chunks: Sequence[int], conditions: Conditions
) -> Layout | CorruptRecordError:
    """Cut the windows to the candidates, if a filter might exclude the chunks around them.

    Returns an error if there are candidates beyond the end of the document.
    """
    current = layout.manifest.current
    if current is None:
        return layout
    if chunks and chunks[-1] >= current.chunks:
        return CorruptRecordError(
            f"the vector store has chunk {chunks[-1]} of document {layout.manifest.doc_id!r}, "
            f"which has only {current.chunks} chunks according to the docstore"
        )
    shared_fields = set(layout.manifest.metadata)
    if not current.adopted:  # in an adopted store, the field of this name may mean something else
        shared_fields.add(DOC_ID)
    if conditions.candidates_only or may_split(conditions.filters, shared_fields):
        return dataclasses.replace(layout, windows=_windows(chunks, 0, 2))
    return layout
