"""What MkDocs does not do by itself: pages from outside of docs/, their links, and the reference.

A page keeps its path in the repository, but for ``docs/``; so links that work there are found.
"""

from __future__ import annotations

import base64
import html
import importlib
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from reference_pages import REFERENCE, expanded, page_of

ROOT = Path(__file__).parents[2]
LOG = get_plugin_logger("pages")
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/**/*.md", "benchmarks/**/*.png")

TAG = re.compile(r'<(a|script|link|img|iframe)\b[^>]*?\s(?:href|src)="([^"]+)"')
CODE = re.compile(r"(?ms)(^[ ]*```.*?^[ ]*```$)")
PICTURE = re.compile(
    r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img src="([^"]+)"([^>]*)>\s*</picture>'
)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the reference into the navigation."""
    entries = config.nav[-1]["Reference"]
    (reference,) = (entry for entry in entries if "API reference" in entry)
    reference["API reference"] = [{title: page_of(title)} for title in REFERENCE]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for name, content in pages_of_notebook(path):
            files.append(File.generated(config, name, content=content))
    for title, names in REFERENCE.items():
        content = "\n\n".join([f"# {title}", *(f"::: {name}" for name in expanded(names))])
        files.append(File.generated(config, page_of(title), content=content))
    return files


def on_nav(nav: Any, config: MkDocsConfig, files: Files) -> Any:  # noqa: ANN401, ARG001
    """Nothing is missing in the reference."""
    package = importlib.import_module("langchain_rse")
    listed = {name for names in REFERENCE.values() for name in expanded(names)}
    for name in package.__all__:
        if not any(one.endswith(f".{name}") for one in listed):
            LOG.warning("docs/_site/hooks.py: REFERENCE lacks langchain_rse.%s", name)
    return nav


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead where they lead in the repository."""
    own = page.file.src_uri
    inside = page.file.generated_by is None
    folder = posixpath.dirname(f"docs/{own}" if inside else own)

    def replace(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        name, hash_sign, anchor = target.partition("#")
        if not name or "://" in name or name.startswith("mailto:"):
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, name))
        found = "index.md" if path == "README.md" else path.removeprefix("docs/")
        if found.endswith(".ipynb"):
            found = f"{found.removesuffix('.ipynb')}.md"
        if files.get_file_from_path(found):
            relative = posixpath.relpath(found, posixpath.dirname(own) or ".")
            return f"{image}[{text}]({relative}{hash_sign}{anchor})"
        if not (ROOT / path).exists():
            return match[0]  # MkDocs says what is wrong
        if config.repo_url:
            return f"{image}[{text}]({config.repo_url.rstrip('/')}/blob/main/{path})"
        return text

    markdown = PICTURE.sub(light_and_dark, markdown)
    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)


def light_and_dark(picture: re.Match[str]) -> str:
    """Two images, of which the theme of the page shows one: a <picture> follows the system."""
    dark, light, attributes = picture.groups()
    return f'<img src="{light}#only-light"{attributes}><img src="{dark}#only-dark"{attributes}>'


def on_post_build(config: MkDocsConfig) -> None:
    """Everything that a page loads, and every page that it leads to, is on the site."""
    site = Path(config.site_dir)
    (site / "404.html").unlink()  # for servers; its links are absolute
    for page in sorted(site.rglob("*.html")):
        for tag, target in TAG.findall(page.read_text(encoding="utf-8")):
            path, _, _ = html.unescape(target).partition("#")
            is_elsewhere = "://" in path or path.startswith(("mailto:", "data:"))
            if (tag != "a" and "://" in path) or not (
                is_elsewhere or (page.parent / path).resolve().exists()
            ):
                LOG.warning("%s: <%s> leads to %s", page.relative_to(site), tag, target)


def pages_of_notebook(path: Path) -> Iterator[tuple[str, str | bytes]]:
    """The page of a notebook, and its images."""
    name = f"notebooks/{path.stem}"
    parts = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                image = f"{path.stem}-{number}.png"
                yield f"notebooks/{image}", base64.b64decode("".join(data["image/png"]))
                alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
                parts.append(f"![{alt}]({image}){{ .plot }}")
            elif "text/html" in data:
                shown = "".join(data["text/html"]).rstrip()
                parts.append(f'<div class="shown">\n{shown}\n</div>')
            elif text := "".join(output.get("text", data.get("text/plain", ""))).rstrip():
                parts.append(f"```{{ .text .output }}\n{text}\n```")
    yield f"{name}.md", "\n\n".join(parts)
