"""Times of the solvers, compared with dsRAG's function.

Run from anywhere: ``python benchmarks/segmentation.py``. Needs dsRAG for one column:
``pip install --no-deps dsrag==0.5.6``. Exits with 1 if the segments differ. With
``--against PATH``, compares the solvers with another checkout of this repository instead.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from timing import COMPARED_HEADER, OTHER, ROOT, THIS, checkouts, compared, in_turns, serve

from langchain_rse import PRESETS, RSEConfig
from langchain_rse.config import Greedy
from langchain_rse.engine import Segment, neighbor_credit, rank_chunks, solve_greedy

try:
    from dsrag.rse import get_best_segments
except ImportError:
    get_best_segments = None

SHAPES = ((1, 500), (10, 500), (100, 500), (10, 10_000))
PRESET_NAMES = ("dsrag-balanced", "dsrag-find_all")
# The exact solver gets the same candidates, prepared as by the retriever's defaults: with neighbor
# credit, chunks of this many characters and the default budget.
CREDIT, RADIUS, SEGMENT_COST = 0.5, 2, 0.15
CHUNK = 700
BUDGET = 16_000
CANDIDATES = 200
CLUSTER = 4
ROUNDS = 25
# A solver that has taken longer than this does not run again.
SECONDS_PER_SOLVER = 2.0
# The oracle's time grows with the square of the number of chunks: 10,000 would take minutes.
MOST_FOR_ORACLE = 500


class Case(NamedTuple):
    """The candidates of one query, as the solvers take them.

    Attributes:
        config: The parameters.
        values: The value of each chunk; documents follow one another.
        relevance: The relevance of each chunk, with neighbor credit.
        starts: The number of each document's first chunk.
    """

    config: RSEConfig
    values: NDArray[np.float64]
    relevance: NDArray[np.float64]
    starts: list[int]


class Measured(NamedTuple):
    """The time of a solver and its segments, in order of position."""

    milliseconds: float
    segments: list[tuple[int, int]]
    worth: list[float]


Solver = Callable[[], Sequence[tuple[int, int, float]]]


def main() -> int:
    """Print a table of the solvers, or of the solvers of two checkouts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--against", type=Path, metavar="PATH", help="another checkout")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(functools.partial(answer, arguments.seed))
        return 0
    if arguments.against:
        agree = compare_checkouts(arguments.against, arguments.rounds, arguments.seed)
    else:
        agree = compare(arguments.rounds, arguments.seed)
    if not agree:
        print("\nDIFFERENT SEGMENTS, see the column 'same'", file=sys.stderr)
        return 1
    return 0


def compare_checkouts(other: Path, rounds: int, seed: int) -> bool:
    """Print both checkouts' solvers side by side; return whether they agree everywhere."""
    print(f"Solvers of this checkout and of {other}, in turns; medians of {rounds}")
    print(f"{'preset':15} {'documents x chunks':>18} {'solver':>6}  same {COMPARED_HEADER}")
    agree = True
    with checkouts(__file__, other, ["--seed", str(seed)]) as ask:
        for name in PRESET_NAMES:
            for shape in SHAPES:
                for solver in ("greedy", "exact"):
                    # The first round makes the case and does not count.
                    answers = in_turns(ask, [[name, *shape, solver]] * (rounds + 1))[1:]
                    found = {side: answers[0][side]["segments"] for side in (THIS, OTHER)}
                    alike = found[THIS] == found[OTHER]
                    agree &= alike
                    seconds = {side: [each[side]["seconds"] for each in answers] for side in found}
                    print(
                        f"{name:15} {f'{shape[0]} x {shape[1]:,}':>18} {solver:>6}  "
                        f"{'yes ' if alike else 'NO  '} {compared(seconds)}",
                        flush=True,
                    )
    return agree


def answer(seed: int, request: list[Any]) -> dict[str, Any]:
    """Run one of this checkout's solvers once."""
    name, documents, chunks, solver = request
    case = cached_case(name, documents, chunks, seed)
    solve = {"greedy": greedy, "exact": exact}[solver](case)
    started = time.perf_counter()
    found = solve()
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "segments": sorted((int(start), int(end)) for start, end, _ in found),
    }


@functools.cache
def cached_case(name: str, documents: int, chunks: int, seed: int) -> Case:
    """The case of a request."""
    return make_case(PRESETS[name], documents, chunks, seed)


def make_case(config: RSEConfig, documents: int, chunks: int, seed: int) -> Case:
    """Make candidates in clusters of neighbors.

    Relevance differs between clusters and slightly within a cluster, so that neighbors have
    similar ranks, as in a passage that answers a question.
    """
    rng = np.random.default_rng([seed, documents, chunks])
    clusters = CANDIDATES // CLUSTER
    slots = rng.choice(documents * (chunks // CLUSTER), clusters, replace=False)
    document, slot = np.divmod(slots, chunks // CLUSTER)
    owners = np.repeat(document, CLUSTER)
    places = (slot[:, None] * CLUSTER + np.arange(CLUSTER)).ravel()
    similarity = np.repeat(rng.random(clusters), CLUSTER) + rng.normal(0, 0.1, CANDIDATES)
    order = np.argsort(-similarity)
    ranks = np.empty(CANDIDATES)
    ranks[order] = np.arange(CANDIDATES)
    score = np.interp(similarity, (similarity.min(), similarity.max()), (0.0, 1.0))
    relevance = np.exp(-ranks / (config.decay_rate or np.inf)) * score

    table = np.zeros((documents, chunks))
    table[owners, places] = relevance
    return Case(
        config,
        values=table.ravel() - config.irrelevant_chunk_penalty,
        relevance=neighbor_credit(table, credit=CREDIT, radius=RADIUS).ravel(),
        starts=[number * chunks for number in range(documents)],
    )


def greedy(case: Case) -> Solver:
    """`solve_greedy` on the array of all chunks."""
    return lambda: solve_greedy(case.values, boundaries=case.starts, **limits(case.config))


def exact(case: Case) -> Solver:
    """`rank_chunks` on the array of all chunks, and what fits the budget."""
    lengths = np.full(case.relevance.size, float(CHUNK))

    def run() -> list[Segment]:
        ranking = rank_chunks(
            case.relevance, lengths, segment_cost=SEGMENT_COST, boundaries=case.starts
        )
        return ranking.within(BUDGET)

    return run


def oracle(case: Case) -> Solver | None:
    """The brute force that the tests compare with `solve_greedy`: all pairs of start and end."""
    if len(case.values) > MOST_FOR_ORACLE:
        return None
    sys.path.insert(0, str(ROOT))
    from tests.unit_tests.engine.oracles import greedy_by_brute_force  # noqa: PLC0415

    return lambda: greedy_by_brute_force(case.values, boundaries=case.starts, **limits(case.config))


def dsrag(case: Case) -> Solver | None:
    """DsRAG's function on a list of Python floats, its fastest input."""
    if get_best_segments is None:
        return None
    solve: Callable[..., Any] = get_best_segments
    values = [case.values.tolist()]
    ends = [*case.starts[1:], len(case.values)]

    def run() -> list[tuple[int, int, float]]:
        segments, worth = solve(all_relevance_values=values, document_splits=ends, **arguments)
        return [(*segment, value) for segment, value in zip(segments, worth, strict=True)]

    arguments = limits(case.config)
    return run


def limits(config: RSEConfig) -> dict[str, Any]:
    """The parameters that all greedy solvers share."""
    if not isinstance(config.solver, Greedy):
        raise TypeError(f"config.solver must be Greedy; got {config.solver!r}")
    return {
        "max_length": config.solver.max_length,
        "overall_max_length": config.solver.overall_max_length,
        "minimum_value": config.solver.minimum_value,
    }


def measure(solvers: Mapping[str, Solver | None], rounds: int) -> dict[str, Measured]:
    """Run the solvers in turns, so that a busy machine slows all of them."""
    spent: dict[str, list[float]] = {}
    found: dict[str, Sequence[tuple[int, int, float]]] = {}
    for _ in range(rounds):
        for name, solve in solvers.items():
            if solve is None or sum(spent.get(name, ())) > SECONDS_PER_SOLVER:
                continue
            started = time.perf_counter()
            found[name] = solve()
            spent.setdefault(name, []).append(time.perf_counter() - started)
    return {
        name: Measured(
            1e3 * statistics.median(spent[name]),
            [(start, end) for start, end, _ in sorted(found[name])],
            [value for _, _, value in sorted(found[name])],
        )
        for name in found
    }


def same(results: Sequence[Measured]) -> bool:
    """Whether all found the same segments, with equal values up to rounding."""
    first = results[0]
    return all(
        result.segments == first.segments and np.allclose(result.worth, first.worth)
        for result in results[1:]
    )


def compare(rounds: int, seed: int) -> bool:
    """Print the solvers side by side; return whether they agree everywhere."""
    print(f"Solvers, {CANDIDATES} candidates in clusters of {CLUSTER}; median ms per query")
    if get_best_segments is None:
        print("dsRAG is missing, so its columns are empty: pip install --no-deps dsrag==0.5.6")
    print(
        f"{'preset':15} {'documents x chunks':>18} {'solve_greedy':>12} "
        f"{'dsRAG':>12} {'x dsRAG':>9} {'segments':>8}  same "
        f"{'rank_chunks':>12} {'/ greedy':>8}"
    )
    agree = True
    worst = slowest = 0.0
    for name in PRESET_NAMES:
        for documents, chunks in SHAPES:
            case = make_case(PRESETS[name], documents, chunks, seed)
            solvers = {"greedy": greedy(case), "dsrag": dsrag(case)}
            results = measure(solvers, rounds)
            ours, theirs = (results.get(solver) for solver in solvers)
            # Our two solvers take turns without dsRAG: minutes of other code in between would
            # disturb the machine's caches.
            pair = measure({"greedy": greedy(case), "exact": exact(case)}, rounds)
            worst = max(worst, theirs.milliseconds if theirs else 0.0)
            slowest = max(slowest, pair["exact"].milliseconds)
            checked = [*results.values(), *measure({"oracle": oracle(case)}, 1).values()]
            alike = same(checked)
            agree &= alike
            print(
                f"{name:15} {f'{documents} x {chunks:,}':>18} {milliseconds(ours):>12} "
                f"{milliseconds(theirs):>12} {times(theirs, ours):>9} "
                f"{len(ours.segments) if ours else 0:>8}  "
                f"{'yes ' if alike else 'NO  '} {milliseconds(pair['exact']):>12} "
                f"{pair['exact'].milliseconds / pair['greedy'].milliseconds:>8.1f}",
                flush=True,
            )
    print(
        f"rank_chunks: the exact solver with a budget of {BUDGET:,} characters and chunks of "
        f"{CHUNK},\nin turns with solve_greedy only."
    )
    if worst:
        print(f"dsRAG's longest time is {worst / slowest:,.0f} times that of rank_chunks.")
    return agree


def milliseconds(result: Measured | None) -> str:
    """A time, formatted for the tables."""
    return "-" if result is None else f"{result.milliseconds:,.3f}"


def times(slow: Measured | None, fast: Measured | None) -> str:
    """The ratio of two times, formatted for the tables."""
    if slow is None or fast is None:
        return "-"
    ratio = slow.milliseconds / fast.milliseconds
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


if __name__ == "__main__":
    sys.exit(main())
