"""The pictures of the README, light and dark: they can be drawn, and have nothing to load."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 150_000


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_site" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "script", ["figures", "picture", pytest.param("terminal_picture", marks=pytest.mark.nightly)]
)
def test_they_can_be_drawn(script: str, tmp_path: Path) -> None:
    load(script).main(tmp_path)
    drawn = list(tmp_path.iterdir())
    assert drawn
    for path in drawn:
        ET.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314
        assert (IMAGES / path.name).is_file()


@pytest.mark.parametrize("name", sorted(path.name for path in IMAGES.glob("*.svg")))
def test_each_is_small_and_loads_nothing(name: str) -> None:
    text = (IMAGES / name).read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    assert not re.search(r"""href=["'][^#]|url\([^#]|<script|<image|@import""", text)
