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
NAMES = ("passages.svg", "passages-dark.svg", "relevance.svg", "relevance-dark.svg")
MOST_BYTES = 150_000
# The text that is asked is that of Python's help(), which differs from version to version.
DRAWN_WITH = (3, 11, 7)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("picture", ROOT / "docs/_site/picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_they_can_be_drawn_and_are_up_to_date(script: ModuleType, tmp_path: Path) -> None:
    script.main(tmp_path)
    for name in NAMES:
        drawn = (tmp_path / name).read_text(encoding="utf-8")
        assert script.QUESTION in "".join(ET.fromstring(drawn).itertext())  # noqa: S314
        if sys.version_info[:3] == DRAWN_WITH:
            assert drawn == (IMAGES / name).read_text(encoding="utf-8"), "run docs/_site/picture.py"


@pytest.mark.parametrize("name", NAMES)
def test_each_is_small_and_loads_nothing(name: str) -> None:
    text = (IMAGES / name).read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    assert text.count("http") == 1  # the namespace
    assert not re.search(r"href|url\(|<script|<image|@import", text)
