"""The algorithms, on numpy arrays: relevance from scores, and segments from relevance.

Arrays have one number per chunk: document by document, in the order of the text. This package needs
only numpy.
"""

from langchain_rse.engine.exact import Bounds, Ranking, Segment, rank_chunks
from langchain_rse.engine.published import best_segments, solve_greedy
from langchain_rse.engine.relevance import (
    NEIGHBOR_RADIUS,
    RANK_RELEVANCE,
    Calibration,
    Floats,
    bm25_scores,
    calibrate,
    fuse_with_rank,
    minmax,
    neighbor_credit,
    word_shares,
)

__all__ = [
    "NEIGHBOR_RADIUS",
    "RANK_RELEVANCE",
    "Bounds",
    "Calibration",
    "Floats",
    "Ranking",
    "Segment",
    "best_segments",
    "bm25_scores",
    "calibrate",
    "fuse_with_rank",
    "minmax",
    "neighbor_credit",
    "rank_chunks",
    "solve_greedy",
    "word_shares",
]
