"""The algorithms, on numpy arrays: relevance from scores, and segments from relevance.

Arrays have one number per chunk: document by document, in the order of the text. This package needs
only numpy.
"""

from langchain_rse.engine.calibration import (
    RANK_RELEVANCE,
    Calibration,
    calibrate,
    minmax,
)
from langchain_rse.engine.exact import Ranking, rank_chunks, solve_budget, solve_exact
from langchain_rse.engine.problem import Bounds, Floats, Segment
from langchain_rse.engine.published import best_of_documents, best_segment, solve_greedy
from langchain_rse.engine.relevance import (
    NEIGHBOR_RADIUS,
    bm25_scores,
    fuse_decay,
    fuse_mean,
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
    "best_of_documents",
    "best_segment",
    "bm25_scores",
    "calibrate",
    "fuse_decay",
    "fuse_mean",
    "minmax",
    "neighbor_credit",
    "rank_chunks",
    "solve_budget",
    "solve_exact",
    "solve_greedy",
    "word_shares",
]
