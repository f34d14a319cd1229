"""The documentation's site: its pages are there, and load and link to what exists."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

pytest.importorskip("mkdocs")
pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """What a page loads, where it leads to, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.add(values.get("id") or "")
        if tag in {"script", "img", "iframe", "source"}:
            self.loaded.append(values.get("src") or values.get("srcset") or "")
        elif tag == "link" and values.get("rel") in {"stylesheet", "icon"}:
            self.loaded.append(values.get("href") or "")
        elif tag == "a":
            self.links.append(values.get("href") or "")


def test_pages_load_and_link_to_what_exists(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "REPO_URL": ""}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "404.html").unlink()  # for servers: its links are absolute
    pages = {path: Page(path) for path in tmp_path.rglob("*.html")}
    names = {path.relative_to(tmp_path).as_posix() for path in pages}
    assert {path.with_suffix(".html").name for path in (ROOT / "docs").glob("*.md")} <= names
    missing = []
    for path, page in pages.items():
        for address in page.loaded:
            if address and not (path.parent / unquote(urldefrag(address)[0])).exists():
                missing.append((path.name, address))
        for address in page.links:
            target, anchor = urldefrag(address)
            if ":" in target:
                continue
            found = (path.parent / unquote(target)).resolve() if target else path
            known = pages.get(found)
            if not found.exists() or (known and anchor and unquote(anchor) not in known.anchors):
                missing.append((path.name, address))
    assert missing == []
