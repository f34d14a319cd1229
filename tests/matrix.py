"""Test the wheel in ``dist`` on several Pythons, with the lowest allowed packages and the newest.

The tests are those of the sdist, in a folder without this source tree, so that the wheel is what
they import. ``make test_matrix`` builds both files and runs this.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
# About the source tree.
LEFT_OUT = ("test_architecture.py", "test_release.py")
# Packages without wheels for a Python: they are compiled.
COMPILED = {"3.14": ("--no-binary", "wordllama")}
# With the lowest packages: what these deprecate in each other, and what their splitters did then.
OF_LOWEST = (
    *("-W", "default::DeprecationWarning"),
    *("-W", "default::ResourceWarning", "-W", "default::pytest.PytestUnraisableExceptionWarning"),
    *("-W", "default:Core Pydantic V1:UserWarning"),  # of an older langchain-core on Python 3.14
    "--ignore=tests/unit_tests/ingest/test_splitters.py",
)
VERSIONS = r"""
import re
from importlib.metadata import distributions, requires
named = {re.split(r"[^\w-]", line)[0].lower() for line in requires("langchain-rse")}
versions = {each.name.lower(): each.version for each in distributions()}
print(*(f"{name} {versions[name]}" for name in sorted(named & versions.keys())), sep=", ")
"""


class StepError(Exception):
    """A step of one run that failed; its output has been printed."""


def call(step: str, *command: str | Path, folder: Path = ROOT) -> str:
    """Run a command with this process's standard error; return its output.

    Raises:
        StepError: If the command fails; named after the step.
    """
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout, flush=True)
        raise StepError(step)
    return done.stdout


def run(python: str, choice: str, dist: Path, folder: Path, arguments: list[str]) -> str:
    """Install the wheel on one Python, with the lowest or the newest packages, and test it.

    Returns:
        The last line of pytest, and the versions of the packages that the wheel names.
    """
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    uv: list[str | Path] = [sys.executable, "-m", "uv", "--quiet"]
    environment = folder / "venv"
    call("not run: uv finds no such Python", *uv, "venv", "--python", python, environment)
    interpreter = environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    pip: list[str | Path] = [*uv, "pip", "install", "--python", interpreter]
    # From pyproject.toml, because packages that a wheel requires are not direct ones to uv. Only
    # wheels: what needs a compiler for this Python is not what its users can install.
    call(
        "the packages cannot be installed",
        *(*pip, "--resolution", RESOLUTIONS[choice], "--only-binary", ":all:"),
        *COMPILED.get(python, ()),
        *("--requirements", ROOT / "pyproject.toml", "--extra", "all", "--group", "unit"),
    )
    call("the wheel cannot be installed", *pip, "--no-deps", wheel)
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.glob("langchain_rse-*")
    (tree / "langchain_rse").rename(folder / "not-imported")
    ignored = [f"--ignore=tests/unit_tests/{name}" for name in LEFT_OUT]
    ignored += OF_LOWEST if choice == "lowest" else ()
    output = call(
        "the tests fail",
        *(interpreter, "-m", "pytest", "-q", "-m", "not nightly", "--hypothesis-profile", "few"),
        *(*ignored, "tests/unit_tests", *arguments),
        folder=tree,
    )
    versions = call("the versions cannot be read", interpreter, "-c", VERSIONS)
    return f"{output.strip().splitlines()[-1]}\n{versions.strip()}"


def main() -> int:
    """Run all combinations one after the other; 1 if one fails or cannot be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="with one wheel and sdist")
    parser.add_argument("--pythons", nargs="+", default=PYTHONS, metavar="VERSION")
    parser.add_argument("--packages", nargs="+", default=[*RESOLUTIONS], choices=[*RESOLUTIONS])
    parser.add_argument("arguments", nargs="*", help="after --, for pytest")
    options = parser.parse_args()
    results: dict[str, str] = {}
    failed = False
    for python in options.pythons:
        for choice in options.packages:
            name = f"Python {python}, {choice} packages"
            print(f"\n{name}", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                try:
                    results[name] = run(
                        python, choice, options.dist, Path(folder), options.arguments
                    )
                except StepError as error:
                    results[name] = f"FAILED: {error}"
                    failed = True
            print(results[name], flush=True)
    print("\nSummary", *(f"{name}: {result}" for name, result in results.items()), sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
