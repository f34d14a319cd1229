"""The pictures of the README, light and dark, with nothing to load."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 150_000
# The text that is asked is that of Python's help(), which differs from version to version.
DRAWN_WITH = (3, 11, 7)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_site" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def without_shares(text: str) -> str:
    return re.sub(r"\d+%\sof\stest", "", text)  # with spaces that do not break


@pytest.mark.parametrize(
    "script", ["picture", pytest.param("terminal_picture", marks=pytest.mark.nightly)]
)
def test_they_can_be_drawn_and_are_up_to_date(script: str, tmp_path: Path) -> None:
    load(script).main(tmp_path)
    drawn = list(tmp_path.iterdir())
    assert drawn
    for path in drawn:
        text = path.read_text(encoding="utf-8")
        ET.fromstring(text)  # noqa: S314
        if sys.version_info[:3] == DRAWN_WITH:
            current = (IMAGES / path.name).read_text(encoding="utf-8")
            # Chroma's index is approximate, and so is the strength of a match.
            assert without_shares(text) == without_shares(current), f"run docs/_site/{script}.py"


@pytest.mark.parametrize("name", sorted(path.name for path in IMAGES.glob("*.svg")))
def test_each_is_small_and_loads_nothing(name: str) -> None:
    text = (IMAGES / name).read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    assert text.count("http") == 1  # the namespace
    assert not re.search(r"href|url\(|<script|<image|@import", text)
