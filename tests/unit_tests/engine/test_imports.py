from __future__ import annotations

import subprocess
import sys


def test_the_engine_loads_numpy_and_nothing_of_langchain() -> None:
    program = (
        "import sys, langchain_rse.engine\n"
        "heavy = {'langchain_core', 'pydantic', 'sqlalchemy', 'scipy'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))"
    )

    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout

    assert printed.strip() == "[]"
