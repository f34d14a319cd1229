"""The tables of docs/settings.md are those that the code has."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "_site" / "settings_tables.py"


def test_tables_are_current() -> None:
    script = runpy.run_path(str(SCRIPT))
    page = script["PAGE"].read_text(encoding="utf-8")
    assert script["page_with_tables"](page) == page, "run python docs/_site/settings_tables.py"
