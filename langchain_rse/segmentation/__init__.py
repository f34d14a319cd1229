"""The solvers: from the values of chunks to the best runs of neighboring chunks.

Everything here works on plain arrays, one value a chunk, in the order of the text,
the chunks of several documents one document after the other. A value is what a chunk
is worth in a segment: positive where it is relevant, negative where it only costs room.
"""

from langchain_rse.segmentation.exact import Ranking, rank_chunks, solve_budget, solve_exact
from langchain_rse.segmentation.greedy import best_segment, solve_greedy
from langchain_rse.segmentation.inputs import Segment

__all__ = [
    "Ranking",
    "Segment",
    "best_segment",
    "rank_chunks",
    "solve_budget",
    "solve_exact",
    "solve_greedy",
]
