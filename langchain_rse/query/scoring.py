"""Score: from the scores of candidates to the relevance of all chunks around them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.stores import BaseStore
from numpy.typing import NDArray

from langchain_rse._messages import first_few, warn
from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.engine import (
    Calibration,
    Floats,
    bm25_scores,
    calibrate,
    fuse_decay,
    fuse_mean,
    minmax,
    neighbor_credit,
    sharpen,
)
from langchain_rse.errors import CorruptRecordError, MissingRecordError
from langchain_rse.query.search_arguments import may_split
from langchain_rse.query.searching import Candidate
from langchain_rse.stores.reading import Layout, read_layouts
from langchain_rse.stores.records import DOC_ID

# Which calibration a reranker's scores need, by the name of its class.
_CALIBRATIONS: Mapping[str, Calibration] = {
    "CohereRerank": "cohere",
    "CohereReranker": "cohere",
    "VoyageAIRerank": "voyage",
    "NVIDIARerank": "sigmoid",
    "SimilarityBasedRelevanceFilter": "identity",
}
# Their scores are similarities: chunks that are beside the point have large ones too.
_SIMILARITIES = frozenset({"SimilarityBasedRelevanceFilter"})

# The exact solver closes no longer gaps between chunks of positive relevance.
_LONGEST_GAP = 16


@dataclasses.dataclass(frozen=True)
class ScoredChunk:
    """A chunk of a segment, and how it was scored.

    Attributes:
        index: Its number in the document.
        candidate: The candidate; None for a chunk that the search did not find.
        relevance: Relevance from score, rank and words, in [0, 1]; 0 if it is no candidate.
        credited: Relevance with the credit of its neighbors, which the solver saw.
        value: What the chunk adds to a segment: its weighted relevance after the penalty.
    """

    index: int
    candidate: Candidate | None
    relevance: float
    credited: float
    value: float


class ScoredChunks(NamedTuple):
    """The chunks around the candidates, one column each, one window after the other.

    A window is a range of chunks of one document that contains candidates and the chunks that can
    be in a segment with them.

    Attributes:
        documents: The documents, best candidate first.
        windows: The windows: number of the document, and chunks.
        starts: The first column of each window, shape ``(windows,)``.
        candidates: The candidates by column.
        relevance: Shape ``(chunks,)``, 0 for chunks that are no candidates.
        credited: The same with neighbor credit.
        lengths: Lengths in characters, shape ``(chunks,)``.
        document_lengths: The same for the document of each chunk.
    """

    documents: Sequence[Layout]
    windows: Sequence[tuple[int, range]]
    starts: NDArray[np.intp]
    candidates: Mapping[int, Candidate]
    relevance: Floats
    credited: Floats
    lengths: NDArray[np.int64]
    document_lengths: NDArray[np.int64]

    def locate(self, column: int) -> tuple[Layout, int]:
        """The document of a column, and the chunk's number in it."""
        number = int(np.searchsorted(self.starts, column, side="right")) - 1
        document, window = self.windows[number]
        return self.documents[document], window[column - int(self.starts[number])]


def config_for_reranker(config: RSEConfig, reranker: BaseDocumentCompressor | None) -> RSEConfig:
    """The config with the calibration and the defaults that fit a reranker's or a store's scores.

    It has neither ``"auto"`` nor None in the fields that depend on the scores. A reranker is known
    by the name of its class or of a base class.
    """
    calibration = config.calibration
    names = {cls.__name__ for cls in type(reranker).__mro__} if reranker else set()
    known = next((method for name, method in _CALIBRATIONS.items() if name in names), None)
    if calibration == "auto":
        calibration = known or "minmax"
    absolute = (
        reranker is not None and not names & _SIMILARITIES and calibration not in ("minmax", "rank")
    )
    return config.model_copy(update={"calibration": calibration}).for_scores(absolute=absolute)


def score(
    docstore: BaseStore[str, Document],
    query: str,
    candidates: Sequence[Candidate],
    settings: QuerySettings,
    *,
    reranked: bool,
) -> Steps[ScoredChunks]:
    """Score the candidates and the chunks around them in the documents that are considered.

    Candidates of versions that are no longer current are left out, and those of documents whose
    text a better candidate's document has. That is known only for documents that were read, so
    further documents are read while some are left out.
    """
    layouts: dict[str, Layout | None] = {}
    found = candidates
    ranked = _ranked(query, candidates, settings, reranked=reranked)
    while True:
        best = ranked[: settings.config.top_k_for_document_selection]
        considered = {candidate.key: candidate.doc_id for candidate, _ in best}
        unread = considered.keys() - layouts.keys()
        if not unread:
            break
        if layouts:  # so that many documents that are gone take one more read, not many
            unread = {c.key for c in candidates} - layouts.keys()
        layouts |= yield from _read_layouts(
            docstore, [c for c in candidates if c.key in unread], settings
        )
        kept = _kept(candidates, ranked, layouts, settings)
        if len(kept) < len(candidates):
            candidates = _renumbered(kept)
            ranked = _ranked(query, candidates, settings, reranked=reranked)
    unknown = [doc_id for key, doc_id in considered.items() if layouts[key] is None]
    if unknown:
        raise MissingRecordError(
            f"the docstore does not know the document(s) {first_few(map(repr, unknown))}, of which "
            "the vector store has chunks. Are the two stores a pair? If the docstore lost them, "
            "delete the documents' vectors and add them again, or set on_missing='split' to go on "
            "without them"
        )
    lost = [c.doc_id for c in found if c.key in layouts and layouts[c.key] is None]
    if lost and settings.on_missing == "split":
        warn(
            f"{len(lost)} of {len(found)} candidates are left out, as the docstore does not know "
            f"their document(s) {first_few(map(repr, dict.fromkeys(lost)))} (on_missing='split'). "
            "Delete their vectors and add the documents again; if others have added them to an "
            "adopted index, adopt it again"
        )
    known = {key: layout for key, layout in layouts.items() if layout is not None}
    return _in_columns([pair for pair in ranked if pair[0].key in considered], known, settings)


def _ranked(
    query: str, candidates: Sequence[Candidate], settings: QuerySettings, *, reranked: bool
) -> list[tuple[Candidate, float]]:
    """The candidates with their relevance, best first."""
    relevance = _relevance(query, candidates, settings, reranked=reranked)
    order = list(range(len(candidates)))
    if settings.hybrid and not reranked:
        order = np.argsort(-relevance, kind="stable").tolist()
    return [(candidates[number], float(relevance[number])) for number in order]


def _relevance(
    query: str, candidates: Sequence[Candidate], settings: QuerySettings, *, reranked: bool
) -> Floats:
    """The relevance of each candidate, from its scores, ranks and words, in [0, 1]."""
    config = settings.config
    relevance = np.zeros(len(candidates))
    found = [number for number, c in enumerate(candidates) if c.rank is not None]
    if found:
        calibrated = calibrate([candidates[n].score for n in found], config.calibration)
        fused = _fuse(calibrated, np.arange(len(found)), config)
        if config.lexical_credit and not reranked:
            texts = [candidates[number].document.page_content for number in found]
            words = bm25_scores(query, texts)
            if words.any():  # a query in another language says nothing here
                ranks = np.empty(words.size)
                ranks[np.argsort(-words, kind="stable")] = np.arange(words.size)
                # Scores and words are two witnesses: noisy or, as for neighbors.
                by_words = config.lexical_credit * _fuse(minmax(words), ranks, config)
                fused = fused + by_words * (1 - fused)
        relevance[found] = np.where(calibrated >= config.min_relevance, fused, 0.0)
    if not settings.hybrid or reranked:
        return relevance
    ranked = sorted(
        (c.lexical_rank, number)
        for number, c in enumerate(candidates)
        if c.lexical_rank is not None
    )
    lexical = np.zeros(len(candidates))
    if ranked:
        calibrated = minmax(np.array([candidates[n].lexical_score for _, n in ranked], dtype=float))
        fused = _fuse(calibrated, np.arange(len(ranked)), config)
        lexical[[n for _, n in ranked]] = np.where(calibrated >= config.min_relevance, fused, 0.0)
    return (1 - settings.hybrid) * relevance + settings.hybrid * lexical


def _fuse(relevance: Floats, ranks: NDArray[np.generic], config: RSEConfig) -> Floats:
    """Relevance fused with the rank, then sharpened. The fields that may be None are set."""
    if config.rank_fusion == "mean":
        fused = fuse_mean(relevance, ranks, count=relevance.size)
    else:
        fused = fuse_decay(relevance, ranks, decay_rate=config.decay_rate or 0.0)
    return sharpen(fused, contrast=config.contrast or 1.0)


def _renumbered(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates with ranks from 0 again, after some were left out."""
    ranks = sorted(c.rank for c in candidates if c.rank is not None)
    lexical_ranks = sorted(c.lexical_rank for c in candidates if c.lexical_rank is not None)
    new_rank = {rank: number for number, rank in enumerate(ranks)}
    new_lexical_rank = {rank: number for number, rank in enumerate(lexical_ranks)}
    return [
        c._replace(
            rank=None if c.rank is None else new_rank[c.rank],
            lexical_rank=None if c.lexical_rank is None else new_lexical_rank[c.lexical_rank],
        )
        for c in candidates
    ]


def _read_layouts(
    docstore: BaseStore[str, Document], candidates: Sequence[Candidate], settings: QuerySettings
) -> Steps[dict[str, Layout | None]]:
    """Read the layouts of the candidates' documents, with the windows around the candidates."""
    chunks: dict[tuple[str, str], list[int]] = {}
    for candidate in candidates:
        chunks.setdefault((candidate.key, candidate.version), []).append(candidate.chunk_index)
    windows = {
        version: find_windows(sorted(indices), settings.config)
        for version, indices in chunks.items()
    }
    layouts = yield from read_layouts(docstore, windows)
    return {
        key: layout and _restricted(layout, chunks.get((key, layout.version), ()), settings)
        for key, layout in layouts.items()
    }


def find_windows(chunks: Sequence[int], config: RSEConfig) -> list[range]:
    """The windows of a document in which segments can lie.

    With the exact solver, a window reaches as far as the credit of its candidates, and windows with
    at most 16 chunks between them are one. With the others, chunks that are no candidates cost the
    penalty, so a segment begins and ends on a candidate and closes no gap longer than itself; only
    a penalty of 0 lets segments reach further. Windows are ascending and apart; they may reach
    beyond the end of the document.
    """
    radius = config.neighbor_radius or 0
    if config.solver == "exact":
        reach = radius
        apart = 2 * reach + 2 + _LONGEST_GAP
    else:
        longest = config.max_length or 1
        reach = longest - 1 if config.irrelevant_chunk_penalty == 0 else radius
        apart = longest + 2 * reach
    windows: list[range] = []
    for chunk in chunks:
        start, stop = max(chunk - reach, 0), chunk + reach + 1
        if windows and chunk - (windows[-1].stop - reach - 1) < apart:
            start = windows.pop().start
        windows.append(range(start, stop))
    return windows


def _restricted(layout: Layout, chunks: Iterable[int], settings: QuerySettings) -> Layout:
    """The layout with windows of candidates only, if a filter might exclude the chunks around them.

    A filter on nothing but what is the same for the whole document lets all of its chunks through
    or none. Of any other filter, only what it let through is known.
    """
    current = layout.manifest.current
    shared = set(layout.manifest.metadata)
    if current and not current.adopted:  # an adopted store's field of this name may be another
        shared.add(DOC_ID)
    if current is None or not (
        settings.candidates_only or may_split(settings.search_kwargs, shared)
    ):
        return layout
    windows: list[range] = []
    for chunk in sorted(chunk for chunk in chunks if chunk < current.chunks):
        start = windows.pop().start if windows and windows[-1].stop == chunk else chunk
        windows.append(range(start, chunk + 1))
    return dataclasses.replace(layout, windows=windows)


def _kept(
    candidates: Sequence[Candidate],
    ranked: Sequence[tuple[Candidate, float]],
    layouts: Mapping[str, Layout | None],
    settings: QuerySettings,
) -> list[Candidate]:
    """The candidates that count as far as is known; of equal texts, those of the best document."""
    kept: set[tuple[str, str, int]] = set()
    first: dict[str, str] = {}
    for candidate, _ in ranked:
        layout = layouts.get(candidate.key)
        if candidate.key in layouts and not _counts(candidate, layouts, settings):
            continue
        text = layout.manifest.text_digest if layout and settings.duplicates == "drop" else ""
        if not text or first.setdefault(text, candidate.key) == candidate.key:
            kept.add(candidate.place)
    return [candidate for candidate in candidates if candidate.place in kept]


def _counts(
    candidate: Candidate, layouts: Mapping[str, Layout | None], settings: QuerySettings
) -> bool:
    """True if the candidate is of the version that queries see, or if its document is missing."""
    layout = layouts[candidate.key]
    if layout is None:
        return settings.on_missing == "raise"
    if layout.version != candidate.version:
        return False
    chunks = layout.manifest.current.chunks if layout.manifest.current else 0
    if candidate.chunk_index >= chunks:
        raise CorruptRecordError(
            f"the vector store has chunk {candidate.chunk_index} of document "
            f"{candidate.doc_id!r}, which has only {chunks} chunks according to the docstore. "
            "Delete the document and add it again"
        )
    return True


def _in_columns(
    ranked: Sequence[tuple[Candidate, float]],
    layouts: Mapping[str, Layout],
    settings: QuerySettings,
) -> ScoredChunks:
    """Lay out the windows of all documents, and let neighbors of candidates have credit."""
    config = settings.config
    by_document: dict[str, dict[int, tuple[Candidate, float]]] = {}
    for candidate, relevance in ranked:
        by_document.setdefault(candidate.key, {})[candidate.chunk_index] = candidate, relevance
    documents = [layouts[key] for key in by_document]
    windows: list[tuple[int, range]] = []
    starts: list[int] = []
    relevances: list[Floats] = []
    candidates: dict[int, Candidate] = {}
    column = 0
    for number, (layout, chunks) in enumerate(zip(documents, by_document.values(), strict=True)):
        for window in layout.windows:
            relevances.append(np.zeros(len(window)))
            for place, chunk in enumerate(window):
                if chunk in chunks:
                    candidates[column + place], relevances[-1][place] = chunks[chunk]
            windows.append((number, window))
            starts.append(column)
            column += len(window)
    none: Floats = np.zeros(0)
    return ScoredChunks(
        documents=documents,
        windows=windows,
        starts=np.array(starts, dtype=np.intp),
        candidates=candidates,
        relevance=np.concatenate(relevances or [none]),
        credited=np.concatenate(
            [
                _credited(each, documents[number], config)
                for (number, _), each in zip(windows, relevances, strict=True)
            ]
            or [none]
        ),
        lengths=np.concatenate(
            [layout.lengths() for layout in documents if layout.windows]
            or [np.zeros(0, dtype=np.int64)]
        ),
        document_lengths=np.repeat(
            np.array([documents[number].manifest.length for number, _ in windows], np.int64),
            [len(window) for _, window in windows],
        ),
    )


def _credited(relevance: Floats, document: Layout, config: RSEConfig) -> Floats:
    """The relevance of a window with neighbor credit.

    A document of one chunk is credited as if chunks like it stood around it: without that, the
    chunks of long documents, which have neighbors, leave no room for it.
    """
    credit, radius = config.neighbor_credit, config.neighbor_radius or 0
    if document.manifest.current and document.manifest.current.chunks == 1:
        alike = np.repeat(relevance, 2 * radius + 1)
        return neighbor_credit(alike, credit=credit, radius=radius)[radius : radius + 1]
    return neighbor_credit(relevance, credit=credit, radius=radius)
