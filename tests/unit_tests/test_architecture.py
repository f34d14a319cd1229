"""What the law of imports in pyproject.toml, which `make lint` checks, does not say.

Imports run in fresh interpreters.
"""

from __future__ import annotations

import json
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
