"""What the law of imports in pyproject.toml, which `make lint` checks, does not say.

Imports run in fresh interpreters.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

PACKAGE = "langchain_rse"
ROOT = Path(__file__).parents[2] / PACKAGE


def loaded_by(statement: str) -> set[str]:
    """The packages and modules, without their parts, that a statement loads in a new Python."""
    program = (
        f"import json, sys\nbefore = set(sys.modules)\n{statement}\n"
        "print(json.dumps([name.split('.')[0] for name in set(sys.modules) - before]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout))


def test_importing_the_package_loads_nothing_else() -> None:
    assert loaded_by(f"import {PACKAGE}") - sys.stdlib_module_names == {PACKAGE}


def test_the_engine_needs_numpy_alone() -> None:
    loaded = loaded_by(f"import {PACKAGE}.engine")
    assert not loaded & {"langchain_core", "langchain_text_splitters", "pydantic", "sqlalchemy"}


def test_the_modules_that_the_design_names_are_there() -> None:
    page = (ROOT.parent / "DESIGN.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| [a-z ]+ \| `(\w+)` \|", page, re.MULTILINE)
    layers = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.+?) \|", page, re.MULTILINE)))
    files = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", page)
    assert len(steps) == 9
    assert files
    for named in [*files, *(f"query/{step}.py" for step in steps)]:
        assert (ROOT / named).exists() or (ROOT.parent / named).exists(), named
    for named in layers:
        assert (ROOT / named).exists() or (ROOT / f"{named}.py").exists(), named
