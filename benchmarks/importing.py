"""How long imports take, beside the imports of LangChain that every retriever needs.

Each in a fresh interpreter, in turns. Run from anywhere: ``python benchmarks/importing.py``. Exits
with 1 if importing the package takes more than 1.15 times as long as LangChain's.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

LANGCHAIN = "import langchain_core.retrievers, langchain_core.vectorstores, numpy"
STATEMENTS = (
    LANGCHAIN,
    "import langchain_rse",
    "import langchain_rse.engine",
    "from langchain_rse import RSERetriever",
    "from langchain_rse import RSERetriever, SQLDocStore",
    "from langchain_rse.cli.app import app",
)
MEASURED = "import langchain_rse"
MOST = 1.15
PROGRAM = "import time; started = time.perf_counter(); {}; print(time.perf_counter() - started)"


def main() -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="default 11")
    rounds = parser.parse_args().rounds
    seconds: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    for _ in range(rounds + 1):
        for statement, some in seconds.items():
            some.append(seconds_of(statement))
    ratios = {}
    print(f"{'':72} {'ms':>7} {'ratio':>6}")
    for statement, some in seconds.items():
        del some[0]  # it may have compiled the modules
        ratios[statement] = statistics.median(
            one / base for one, base in zip(some, seconds[LANGCHAIN], strict=True)
        )
        print(f"{statement:72} {1e3 * statistics.median(some):7.0f} {ratios[statement]:6.2f}")
    verdict = "met" if ratios[MEASURED] <= MOST else "MISSED"
    print(f"Target: {MEASURED} at most {MOST} x LangChain's: {verdict}.")
    return int(ratios[MEASURED] > MOST)


def seconds_of(statement: str) -> float:
    """The seconds that a statement takes in a fresh interpreter."""
    result = subprocess.run(  # noqa: S603 - one of the statements above
        [sys.executable, "-c", PROGRAM.format(statement)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(result.stdout)


if __name__ == "__main__":
    sys.exit(main())
