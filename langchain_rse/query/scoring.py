"""Score: the relevance of the chunks around the candidates, in the documents considered."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.engine import Floats, neighbor_credit
from langchain_rse.query.candidates import Candidate, ChunkKey
from langchain_rse.query.lookup import LookedUp
from langchain_rse.query.ranking import Ranked, best_of_queries
from langchain_rse.stores.reading import Layout, Layouts

# The number of a document's best chunks whose mean relevance is that of the document.
_BEST_CHUNKS = 5


class ScoredChunks(NamedTuple):
    """The chunks around the candidates, one column each, one window after the other.

    A window is a range of chunks of one document that contains candidates and the chunks that can
    be in a segment with them.
    """

    # The document of each chunk, and its number there; documents by their best candidates.
    chunks: Sequence[tuple[Layout, int]]
    window_starts: NDArray[np.intp]  # the first column of each window
    candidates: Mapping[int, Candidate]  # by column, for the query that they fit best
    # For each query: the relevance of its candidates by column, best first.
    by_query: Sequence[Mapping[int, float]]
    relevance: Floats  # of each chunk, 0 for chunks that are no candidates
    credited: Floats  # relevance with neighbor credit
    # Credited relevance, with a row for each query if they take turns, else one row for all.
    credited_rows: Floats
    lengths: NDArray[np.int64]  # of each chunk, in characters
    document_lengths: NDArray[np.int64]  # of the document of each chunk, in characters


class _Columns(NamedTuple):
    """The chunks of all windows, one column each."""

    documents: list[Layout]
    chunks: list[tuple[Layout, int]]
    window_sizes: list[int]
    only_chunks: list[int]  # columns of chunks that are all of their document


def score(looked_up: LookedUp, settings: QuerySettings) -> ScoredChunks:
    """Lay out the chunks around candidates in columns, and give neighbor credit."""
    config = settings.config
    ranked = []
    for ranked_of_query in looked_up.ranked:
        considered = [pair for pair in ranked_of_query if pair[0].key in looked_up.considered]
        ranked.append(_weigh_documents(considered, looked_up.layouts, config))
    joint = best_of_queries(ranked, looked_up.queries)
    columns = _lay_out(joint, looked_up.layouts)
    candidates, relevance = _place_candidates(columns.chunks, joint)
    by_query = _place_queries(ranked, candidates)
    rows = relevance[None]
    if settings.combine_queries == "turns" and len(by_query) > 1:
        rows = np.zeros((len(by_query), relevance.size))
        for row, relevance_by_column in zip(rows, by_query, strict=True):
            for column, relevance_for_query in relevance_by_column.items():
                row[column] = relevance_for_query
    credited_rows = give_credit(rows, columns.window_sizes, columns.only_chunks, config)
    if settings.duplicates != "keep":
        # Copies are only used to fill gaps between relevant chunks.
        credited_rows = credited_rows * _is_no_copy(columns.chunks, looked_up)
    lengths = [layout.lengths() for layout in columns.documents]
    document_lengths = [layout.manifest.length for layout, _ in columns.chunks]
    return ScoredChunks(
        chunks=columns.chunks,
        window_starts=np.cumsum([0, *columns.window_sizes], dtype=np.intp)[:-1],
        candidates=candidates,
        by_query=by_query,
        relevance=relevance,
        credited=credited_rows.max(axis=0),
        credited_rows=credited_rows,
        lengths=np.concatenate([np.zeros(0, np.int64), *lengths]),
        document_lengths=np.array(document_lengths, np.int64),
    )


def _lay_out(ranked: Ranked, layouts: Layouts) -> _Columns:
    """Lay out the windows of documents in columns, the documents by their best candidates."""
    columns = _Columns([], [], [], [])
    for key in dict.fromkeys(candidate.key for candidate, _ in ranked):
        layout = layouts[key]
        if not isinstance(layout, Layout):
            continue
        columns.documents.append(layout)
        current = layout.manifest.current
        for window in layout.windows:
            if current is not None and current.chunks == 1:
                columns.only_chunks.append(len(columns.chunks))
            columns.window_sizes.append(len(window))
            columns.chunks.extend((layout, index) for index in window)
    return columns


def _weigh_documents(ranked: Ranked, layouts: Layouts, config: RSEConfig) -> Ranked:
    """Apply `RSEConfig.document_weight` to the candidates of a query.

    A document of fewer than five chunks is compared with the best of the longer ones. The document
    of the best candidate keeps its relevance, so that it is returned if it is relevant enough.
    """
    relevances_of: dict[str, list[float]] = {}
    for candidate, relevance in ranked:
        relevances_of.setdefault(candidate.key, []).append(relevance)
    means: dict[str, float] = {}
    highest_of_longer = 0.0
    for key, relevances in relevances_of.items():
        layout = layouts[key]
        count = len(relevances)
        if isinstance(layout, Layout) and layout.manifest.current is not None:
            count = layout.manifest.current.chunks
        best_relevances = sorted(relevances)[-_BEST_CHUNKS:]
        means[key] = sum(best_relevances) / min(_BEST_CHUNKS, count)
        if count >= _BEST_CHUNKS:
            highest_of_longer = max(highest_of_longer, means[key])
    highest = highest_of_longer or max(means.values(), default=0.0)
    if not config.document_weight or not highest:
        return ranked
    factors = {}
    for key, mean in means.items():
        factors[key] = min(mean / highest, 1.0) ** config.document_weight
    best_candidate, _ = max(ranked, key=lambda pair: pair[1])
    factors[best_candidate.key] = 1.0
    weighed = [(candidate, relevance * factors[candidate.key]) for candidate, relevance in ranked]
    return sorted(weighed, key=lambda pair: -pair[1])


def _place_candidates(
    chunks: Sequence[tuple[Layout, int]], ranked: Ranked
) -> tuple[dict[int, Candidate], Floats]:
    """Return the candidates by column, and the relevance of each column."""
    by_chunk = {}
    for candidate, relevance_of_candidate in ranked:
        chunk = (candidate.key, candidate.chunk_index)
        by_chunk[chunk] = candidate, relevance_of_candidate
    candidates: dict[int, Candidate] = {}
    relevance = np.zeros(len(chunks))
    for column, (layout, index) in enumerate(chunks):
        chunk = (layout.manifest.key, index)
        if chunk in by_chunk:
            candidates[column], relevance[column] = by_chunk[chunk]
    return candidates, relevance


def _place_queries(
    ranked: Sequence[Ranked], candidates: Mapping[int, Candidate]
) -> list[dict[int, float]]:
    """Return the relevance of each query's candidates by column, best first."""
    column_of: dict[ChunkKey, int] = {}
    for column, candidate in candidates.items():
        column_of[candidate.chunk_key] = column
    by_query = []
    for ranked_of_query in ranked:
        by_column = {}
        for candidate, relevance in ranked_of_query:
            if candidate.chunk_key in column_of:
                by_column[column_of[candidate.chunk_key]] = relevance
        best_first = sorted(by_column.items(), key=lambda item: (-item[1], item[0]))
        by_query.append(dict(best_first))
    return by_query


def _is_no_copy(chunks: Sequence[tuple[Layout, int]], looked_up: LookedUp) -> Floats:
    """1 for each chunk that counts, 0 for copies that were left out."""
    factors = np.ones(len(chunks))
    for column, (layout, index) in enumerate(chunks):
        if (layout.manifest.doc_id, layout.version, index) in looked_up.left_out:
            factors[column] = 0.0
    return factors


def give_credit(
    relevance: Floats, window_sizes: Sequence[int], only_chunks: Sequence[int], config: RSEConfig
) -> Floats:
    """Add neighbor credit to the relevance of windows, shape ``(rows, chunks)``.

    The only chunk of a document is credited as if chunks like it stood around it, since the chunks
    of long documents would leave no room for it.
    """
    radius = config.neighbor_radius
    # The windows are laid out in one array with gaps of 2 * radius, so that none gets credit from
    # another. A position is a chunk's index in that array.
    window_count = len(window_sizes)
    window_numbers = np.repeat(np.arange(window_count), window_sizes)
    positions = np.arange(relevance.shape[1]) + radius * (2 * window_numbers + 1)
    spread = np.zeros((len(relevance), relevance.shape[1] + 2 * radius * window_count))
    spread[:, positions] = relevance
    for column in only_chunks:
        position = int(positions[column])
        spread[:, position - radius : position + radius + 1] = relevance[:, [column]]
    credited = neighbor_credit(spread, credit=config.neighbor_credit, radius=radius)
    return np.asarray(credited[:, positions])
