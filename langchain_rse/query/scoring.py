"""Score: computes the relevance of candidates, and of the chunks around them, from scores."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.stores import BaseStore
from numpy.typing import NDArray

from langchain_rse._sync import Steps
from langchain_rse.config import FOR_SIMILARITIES, QuerySettings, RSEConfig
from langchain_rse.engine import (
    Calibration,
    Floats,
    bm25_scores,
    calibrate,
    fuse_decay,
    fuse_mean,
    minmax,
    neighbor_credit,
)
from langchain_rse.errors import CorruptRecordError
from langchain_rse.query.leaving_out import LeftOut, Ranked, is_current, left_out_of
from langchain_rse.query.naming import named_documents
from langchain_rse.query.search_arguments import may_split
from langchain_rse.query.searching import Candidate, Found, Place, Sources
from langchain_rse.stores.reading import Layout, Layouts, read_layouts, unreadable
from langchain_rse.stores.records import DOC_ID

# Which calibration a reranker's scores need, by the name of its class.
_CALIBRATIONS: Mapping[str, Calibration] = {
    "CohereRerank": "cohere",
    "CohereReranker": "cohere",
    "VoyageAIRerank": "voyage",
    "SimilarityBasedRelevanceFilter": "identity",
}
# Compressors whose scores are similarities, so that they do not count as rerankers.
_SIMILARITIES = frozenset({"SimilarityBasedRelevanceFilter"})

# The number of a document's best chunks whose mean relevance is that of the document.
_BEST = 5

# For each candidate, its rank in a search, None if that did not find it, and its score.
_Ranks = Sequence[tuple[int | None, float | None]]

# The longest gap, in chunks, between relevant chunks that the exact solver closes.
_LONGEST_GAP = 16


class ScoredChunks(NamedTuple):
    """The chunks around the candidates, one column each, one window after the other.

    A window is a range of chunks of one document that contains candidates and the chunks that can
    be in a segment with them.
    """

    layouts: Layouts  # of the candidates' documents, those read so far
    # The document of each chunk, and its number there; documents by their best candidates.
    places: Sequence[tuple[Layout, int]]
    starts: NDArray[np.intp]  # the first column of each window
    candidates: Mapping[int, Candidate]  # by column, for the query that they fit best
    found: Sequence[Mapping[int, float]]  # for each of several queries: relevance by column
    relevance: Floats  # of each chunk, 0 for chunks that are no candidates
    credited: Floats  # relevance with neighbor credit
    turns: Floats  # the same, with a row for each query that takes turns, or one row for all
    lengths: NDArray[np.int64]  # of each chunk, in characters
    document_lengths: NDArray[np.int64]  # of the document of each chunk, in characters
    left_out: Mapping[Place, LeftOut]  # candidates that do not count
    others: Ranked  # candidates that count, of all documents, each with its own relevance


def config_for_reranker(config: RSEConfig, reranker: BaseDocumentCompressor | None) -> RSEConfig:
    """Replace ``"auto"`` and None in the config by values that depend on the reranker.

    A reranker is known by the name of its class or of a base class.
    """
    calibration = config.calibration
    names = {cls.__name__ for cls in type(reranker).__mro__} if reranker else set()
    known = next((method for name, method in _CALIBRATIONS.items() if name in names), None)
    if calibration == "auto":
        calibration = known or "minmax"
    reranked = reranker is not None and not names & _SIMILARITIES
    return config.model_copy(update={"calibration": calibration}).for_scores(reranked=reranked)


def score(
    sources: Sources, found: Found, settings: QuerySettings, layouts: Layouts
) -> Steps[ScoredChunks]:
    """Score the candidates and the chunks around them in the documents that are considered.

    Whether a candidate is left out is known only for documents in ``layouts``. While candidates are
    left out, further documents are considered, read and added there.
    """
    reranked, every_left_out = sources.reranker is not None, dict[Place, LeftOut]()
    ranked = [_ranked(query, found[query], settings, reranked=reranked) for query in found]
    while True:
        joint = _joined(ranked, list(found))
        if layouts and (left_out := left_out_of(joint, layouts, settings)):
            every_left_out |= left_out
            found = {
                query: _renumbered([c for c in some if c.place not in left_out])
                for query, some in found.items()
            }
            ranked = [_ranked(query, found[query], settings, reranked=reranked) for query in found]
            continue
        most = settings.config.top_k_for_document_selection
        considered = {candidate.key for pairs in ranked for candidate, _ in pairs[:most]}
        unread = considered - layouts.keys()
        if not unread:
            break
        if layouts:  # all at once, so that many missing documents take one more read, not many
            unread = {c.key for c, _ in joint} - layouts.keys()
        wanted = [c for c, _ in joint if c.key in unread]
        layouts |= yield from _read_layouts(sources.docstore, wanted, settings)
    considered_only = ([pair for pair in pairs if pair[0].key in considered] for pairs in ranked)
    ranked = [_weighted(pairs, layouts, settings.config) for pairs in considered_only]
    scored = _in_columns(ranked, _joined(ranked, list(found)), layouts, settings)
    scored = scored._replace(left_out=every_left_out, others=joint)
    return _without_credit(scored, every_left_out) if settings.duplicates == "drop_near" else scored


def _without_credit(scored: ScoredChunks, copies: Container[Place]) -> ScoredChunks:
    """Take neighbor credit from near copies, which then only fill gaps between relevant chunks."""
    places = ((one.manifest.doc_id, one.version, index) for one, index in scored.places)
    left = np.array([place not in copies for place in places], dtype=np.float64)
    return scored._replace(credited=scored.credited * left, turns=scored.turns * left)


def outdated(candidates: Sequence[Candidate], layouts: Layouts) -> set[tuple[str, str]]:
    """Find documents without a current candidate; return these with the candidates' versions."""
    known = {(c.key, c.version) for c in candidates if c.key in layouts}
    in_use = {key for key, version in known if is_current(layouts[key], version)}
    in_use |= unreadable(layouts).keys()
    return {(key, version) for key, version in known if key not in in_use}


def _ranked(
    query: str, candidates: Sequence[Candidate], settings: QuerySettings, *, reranked: bool
) -> Ranked:
    """Compute the relevance of a query's candidates; return them with it, best first."""
    config = settings.config
    factors = np.ones(len(candidates))
    if config.name_weight:
        shortfall, query = named_documents(query, candidates)
        factors = np.exp(-config.name_weight * shortfall)
    texts = [candidate.document.page_content for candidate in candidates]

    def searched(ranks: _Ranks, config: RSEConfig) -> Floats:
        relevance = _by_ranks(ranks, factors, config, query, texts)
        if not settings.hybrid:
            return relevance
        ranks = [(c.lexical_rank, c.lexical_score) for c in candidates]
        lexical = _by_ranks(ranks, factors, config.model_copy(update={"calibration": "minmax"}))
        return (1 - settings.hybrid) * relevance + settings.hybrid * lexical

    ranks = [(c.rank, c.score) for c in candidates]
    if not reranked:
        relevance = searched(ranks, config)
    else:
        relevance = _by_ranks(ranks, factors, config)
        if (by_search := 1 - (config.rerank_weight or 0.0)) and relevance.any():
            defaults = {**FOR_SIMILARITIES, "calibration": "minmax", "min_relevance": 0.0}
            ranks = [(c.search_rank, c.search_score) for c in candidates]
            before = relevance.max() * searched(ranks, config.model_copy(update=defaults))
            mixed = (1 - by_search) * relevance + by_search * before
            relevance = np.where(relevance > 0, mixed, 0.0)
    return [(candidates[number], float(relevance[number])) for number in _order(relevance)]


def _by_ranks(
    ranks: _Ranks, factors: Floats, config: RSEConfig, query: str = "", texts: Sequence[str] = ()
) -> Floats:
    """Compute the relevance of candidates from ranks and scores of a search, and words of texts.

    The factors are lower for candidates whose documents the query does not name.
    """
    relevance = np.zeros(len(ranks))
    found = sorted((rank, number) for number, (rank, _) in enumerate(ranks) if rank is not None)
    numbers = [number for _, number in found]
    if not numbers:
        return relevance
    calibrated = calibrate([ranks[number][1] for number in numbers], config.calibration)
    meant = factors[numbers]
    order = _ranks(calibrated * meant) if (meant < 1).any() else np.arange(len(numbers))
    fused = _fuse(calibrated * meant, order, config)
    if config.lexical_credit and texts:
        words = bm25_scores(query, [texts[number] for number in numbers]) * meant
        if words.any():  # none match a query in another language
            # Scores and words are independent evidence: noisy or, as for neighbors.
            by_words = config.lexical_credit * _fuse(minmax(words), _ranks(words), config)
            fused = fused + by_words * (1 - fused)
    relevance[numbers] = np.where(calibrated >= config.min_relevance, fused, 0.0)
    return relevance


def _weighted(pairs: Ranked, layouts: Layouts, config: RSEConfig) -> Ranked:
    """Apply `RSEConfig.document_weight` to the candidates of a query.

    A document of fewer than five chunks is compared with the best of the longer ones. The document
    of the best candidate keeps its relevance, so that it is returned if it is relevant enough.
    """
    by_document: dict[str, list[float]] = {}
    for candidate, relevance in pairs:
        by_document.setdefault(candidate.key, []).append(relevance)
    means, longer = dict[str, float](), [0.0]
    for key, found in by_document.items():
        layout = layouts[key]
        current = layout.manifest.current if isinstance(layout, Layout) else None
        count = current.chunks if current else len(found)
        means[key] = sum(sorted(found)[-_BEST:]) / min(_BEST, count)
        if count >= _BEST:
            longer.append(means[key])
    best = max(longer) or max(means.values(), default=0.0)
    if not (config.document_weight and best):
        return pairs
    factors = {key: min(mean / best, 1.0) ** config.document_weight for key, mean in means.items()}
    factors[max(pairs, key=lambda pair: pair[1])[0].key] = 1.0
    weighted = [(candidate, relevance * factors[candidate.key]) for candidate, relevance in pairs]
    return sorted(weighted, key=lambda pair: -pair[1])


def _joined(ranked: Sequence[Ranked], queries: Sequence[str]) -> Ranked:
    """Join the candidates of all queries, each for the query that it fits best, best first."""
    if len(ranked) == 1:
        return ranked[0]
    best: dict[Place, tuple[Candidate, float]] = {}
    for query, pairs in zip(queries, ranked, strict=True):
        for candidate, relevance in pairs:
            known = best.get(candidate.place)
            if known is None or relevance > known[1]:
                best[candidate.place] = candidate._replace(query=query), relevance
    return sorted(best.values(), key=lambda pair: -pair[1])


def _order(relevance: Floats) -> NDArray[np.intp]:
    """The indexes of relevances, the highest first; equal ones in their order."""
    return np.argsort(-relevance, kind="stable")


def _ranks(relevance: Floats) -> NDArray[np.intp]:
    """The rank of each relevance, the highest 0."""
    ranks = np.empty(relevance.size, np.intp)
    ranks[_order(relevance)] = np.arange(relevance.size)
    return ranks


def _fuse(relevance: Floats, ranks: NDArray[np.intp], config: RSEConfig) -> Floats:
    """Fuse relevance with the rank. Fields of ``config`` must not be None."""
    if config.rank_fusion == "mean":
        return fuse_mean(relevance, ranks, count=relevance.size)
    return fuse_decay(relevance, ranks, decay_rate=config.decay_rate or 0.0)


def _renumbered(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Number the ranks of candidates from 0 again, after some were left out."""
    ranks = sorted(c.rank for c in candidates if c.rank is not None)
    by_words = sorted(c.lexical_rank for c in candidates if c.lexical_rank is not None)
    return [
        c._replace(
            rank=None if c.rank is None else bisect_left(ranks, c.rank),
            lexical_rank=None if c.lexical_rank is None else bisect_left(by_words, c.lexical_rank),
        )
        for c in candidates
    ]


def _read_layouts(
    docstore: BaseStore[str, Document], candidates: Sequence[Candidate], settings: QuerySettings
) -> Steps[Layouts]:
    """Read the layouts of the candidates' documents, with the windows around the candidates."""
    chunks: dict[tuple[str, str], list[int]] = {}
    for candidate in candidates:
        chunks.setdefault((candidate.key, candidate.version), []).append(candidate.chunk_index)
    windows = {key: _find_windows(sorted(some), settings.config) for key, some in chunks.items()}
    layouts = yield from read_layouts(docstore, windows)
    for key, layout in layouts.items():
        if isinstance(layout, Layout):
            layouts[key] = _restricted(layout, chunks.get((key, layout.version), ()), settings)
    return layouts


def _find_windows(chunks: Sequence[int], config: RSEConfig) -> list[range]:
    """The windows of a document in which segments can lie.

    With the published solvers, chunks that are no candidates cost the penalty, so a segment begins
    and ends on a candidate and closes no gap longer than itself; only with a penalty of 0 it may
    reach further. Windows are ascending, do not touch, and may end after the document does.
    """
    reach, longest = config.neighbor_radius, config.max_length or 1
    if config.solver == "exact":
        return _windows(chunks, reach, 2 * reach + 2 + _LONGEST_GAP)
    if config.irrelevant_chunk_penalty == 0:
        reach = longest - 1
    return _windows(chunks, reach, longest + 2 * reach)


def _windows(chunks: Sequence[int], reach: int, apart: int) -> list[range]:
    """Make a window of ``reach`` around each ascending chunk; join those of chunks close by."""
    windows: list[range] = []
    for chunk in chunks:
        start, stop = max(chunk - reach, 0), chunk + reach + 1
        if windows and chunk - (windows[-1].stop - reach - 1) < apart:
            start = windows.pop().start
        windows.append(range(start, stop))
    return windows


def _restricted(
    layout: Layout, chunks: Iterable[int], settings: QuerySettings
) -> Layout | CorruptRecordError:
    """Cut the windows to candidates only, if a filter might exclude the chunks around them.

    Returns an error if there are candidates beyond the end of the document.
    """
    current = layout.manifest.current
    if current and (last := max(chunks, default=-1)) >= current.chunks:
        return CorruptRecordError(
            f"the vector store has chunk {last} of document {layout.manifest.doc_id!r}, which has "
            f"only {current.chunks} chunks according to the docstore"
        )
    if current is None:
        return layout
    # In an adopted store, the field of this name may mean something else.
    shared = {*layout.manifest.metadata, *(() if current.adopted else (DOC_ID,))}
    if not (settings.candidates_only or may_split(settings.search_kwargs, shared)):
        return layout
    return dataclasses.replace(layout, windows=_windows(sorted(chunks), 0, 2))


def _in_columns(
    ranked: Sequence[Ranked], joint: Ranked, layouts: Layouts, settings: QuerySettings
) -> ScoredChunks:
    """Lay out the windows of all documents in columns, and give neighbor credit."""
    config = settings.config
    keys = dict.fromkeys(candidate.key for candidate, _ in joint)
    documents = [one for key in keys if isinstance(one := layouts[key], Layout)]
    windows = [(layout, window) for layout in documents for window in layout.windows]
    places = [(layout, index) for layout, window in windows for index in window]
    sizes = [len(window) for _, window in windows]
    starts = np.cumsum([0, *sizes], dtype=np.intp)[:-1]
    known = {(candidate.key, candidate.chunk_index): (candidate, r) for candidate, r in joint}
    candidates, relevance = dict[int, Candidate](), np.zeros(len(places))
    for column, (layout, index) in enumerate(places):
        if pair := known.get((layout.manifest.key, index)):
            candidates[column], relevance[column] = pair
    columns = {candidate.place: column for column, candidate in candidates.items()}
    found = []
    for pairs_of_query in ranked if len(ranked) > 1 else [()]:
        placed = [(columns[c.place], value) for c, value in pairs_of_query if c.place in columns]
        found.append(dict(sorted(placed, key=lambda pair: -pair[1])))
    rows = relevance[None]
    if settings.combine_queries == "turns" and len(found) > 1:
        rows = np.zeros((len(found), relevance.size))
        for row, by_column in zip(rows, found, strict=True):
            row[list(by_column)] = list(by_column.values())
    counts = [layout.manifest.current and layout.manifest.current.chunks for layout, _ in windows]
    turns = _credited(rows, sizes, starts[np.array(counts, dtype=object) == 1], config)
    return ScoredChunks(
        layouts=layouts,
        places=places,
        starts=starts,
        candidates=candidates,
        found=found,
        relevance=relevance,
        credited=turns.max(axis=0),
        turns=turns,
        lengths=np.concatenate([np.zeros(0, np.int64), *(one.lengths() for one in documents)]),
        document_lengths=np.array([layout.manifest.length for layout, _ in places], np.int64),
        left_out={},
        others=(),
    )


def _credited(
    relevance: Floats, sizes: Sequence[int], alone: NDArray[np.intp], config: RSEConfig
) -> Floats:
    """Add neighbor credit to the relevance of windows of these sizes, shape ``(rows, chunks)``.

    The only chunk of a document, with its column in ``alone``, is credited as if chunks like it
    stood around it, since the chunks of long documents would leave no room for it.
    """
    radius = config.neighbor_radius
    # In one array, with gaps so wide that no window gets credit from another.
    chunks = np.arange(relevance.shape[1])
    places = chunks + radius * (2 * np.repeat(np.arange(len(sizes)), sizes) + 1)
    apart = np.zeros((len(relevance), chunks.size + 2 * radius * len(sizes)))
    apart[:, places] = relevance
    around = places[alone, None] + np.arange(-radius, radius + 1)
    apart[:, around] = relevance[:, alone, None]
    credited = neighbor_credit(apart, credit=config.neighbor_credit, radius=radius)
    return np.asarray(credited[:, places])
