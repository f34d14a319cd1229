"""What MkDocs does not do by itself: pages from outside of docs/, and their links.

A page keeps its path in the repository, but for ``docs/``; so links that work there are found.
"""

from __future__ import annotations

import base64
import importlib
import json
import posixpath
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import markdown as markdown_package
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
OUTSIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "DESIGN.md",
    "SECURITY.md",
    "benchmarks/**/*.md",
    "benchmarks/**/*.png",
)

# Searches lead to guides first, then to answers.
BOOSTS = {
    "command-line.md": 2,
    "faq.md": 1,
    "install.md": 4,
    "migrating.md": 2,
    "nothing.md": 6,
    "search.md": 1.7,
    "settings.md": 4,
    "stores.md": 2,
    "tenants.md": 2,
    "troubleshooting.md": 3,
    "reference/engine.md": 0.0005,
    "reference/": 0.002,
    "benchmarks/": 0.01,
    "notebooks/": 0.7,
    "CONTRIBUTING.md": 0.3,
}
NOT_SEARCHED = ("benchmarks/results/", "CHANGELOG.md", "DESIGN.md")

CODE = re.compile(r"(?ms)(^[ ]*```.*?^[ ]*```$)")
PICTURE = re.compile(r'<picture>(.*?)<img src="([^"]+)"([^>]*)>\s*</picture>', re.DOTALL)
SOURCE = re.compile(r'<source media="([^"]+)" srcset="([^"]+)">')
# A page that a docstring names.
NAMED_PAGE = re.compile(r"(?:<code>)?docs/([\w-]+)\.md(#[\w-]+)?(?:</code>)?")
# Browsers break --config behind its hyphens.
SHORT_NAME = re.compile(r"<code>([^\s<]{1,24})</code>")
LINE_LENGTH = 88  # of code
OUTPUT = re.compile(r'(<div class="language-text) (highlight">.*?</div>)', re.DOTALL)
COLUMNS = re.compile(r"\S {2,}\S")
# What a page of the reference shows.
SHOWN = re.compile(r"^::: (\S+)$", re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for name, content in pages_of_notebook(path):
            files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead where they lead in the repository, and searches to guides."""
    own = page.file.src_uri
    if own == "index.md":
        page.meta["hide"] = ["navigation"]  # its table of pages is better, and the picture is wide
    if own.startswith(NOT_SEARCHED):
        page.meta["search"] = {"exclude": True}
    elif weight := next((BOOSTS[start] for start in BOOSTS if own.startswith(start)), None):
        page.meta["search"] = {"boost": weight}
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


def on_page_content(html: str, page: Page, files: Files, **_: object) -> str:
    """Let the pages that docstrings name be links, and keep short names and columns in line."""

    def link(match: re.Match[str]) -> str:
        name, anchor = match.groups()
        named = files.get_file_from_path(f"{name}.md")
        if named is None or named.page is None:
            raise PluginError(f"{page.file.src_uri}: there is no page {match[0]}")
        return f'<a href="{named.url_relative_to(page.file)}{anchor or ""}">{named.page.title}</a>'

    if page.file.src_uri.startswith("reference/"):
        for heading in page.toc:
            for part in heading.children:
                part.title = part.title.removesuffix(":")
        html = html.replace(">Methods:<", ">Methods<")
        html = html.replace("</h1>", f"</h1>\n{imports(page.markdown or '')}", 1)
        html = NAMED_PAGE.sub(link, html)
    html = OUTPUT.sub(name_columns, html)
    return SHORT_NAME.sub(r'<code class="name">\1</code>', html)


def name_columns(output: re.Match[str]) -> str:
    """Mark an output of aligned columns, whose lines must not be wrapped on a phone."""
    start, rest = output.groups()
    return f"{start} columns {rest}" if COLUMNS.search(rest) else output[0]


def imports(markdown: str) -> str:
    """The lines that import what a page of the reference shows, as HTML."""
    names: dict[str, list[str]] = {}
    for path in SHOWN.findall(markdown):
        module, _, name = path.rpartition(".")
        if module.startswith("langchain_rse.query."):
            continue  # methods return these, from modules that users do not import
        shown = getattr(importlib.import_module(module), name)
        parts = module.split(".")
        packages = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
        for package in packages:
            if getattr(importlib.import_module(package), name, None) is shown:
                names.setdefault(package, []).append(name)
                break
    code = ""
    for public, imported in names.items():
        line = f"from {public} import {', '.join(imported)}"
        if len(line) > LINE_LENGTH:
            listed = textwrap.indent(textwrap.fill(f"{', '.join(imported)},", 84), "    ")
            line = f"from {public} import (\n{listed}\n)"
        code += f"{line}\n"
    extensions = ["pymdownx.highlight", "pymdownx.superfences"]
    return markdown_package.markdown(f"```python\n{code}```", extensions=extensions)


def light_and_dark(picture: re.Match[str]) -> str:
    """Two images, of which the theme of the page shows one: a <picture> follows the system."""
    sources, image, attributes = picture.groups()
    pictures = {"light": "", "dark": ""}
    dark_image = ""
    for media, path in SOURCE.findall(sources):
        width = media.partition("(prefers-color-scheme: dark)")[0]
        if "dark" not in media:
            pictures["light"] += f'<source media="{media}" srcset="{path}">'
        elif width:
            narrow = width.removesuffix(" and ")
            pictures["dark"] += f'<source media="{narrow}" srcset="{path}">'
        else:
            dark_image = path
    for scheme, path in (("light", image), ("dark", dark_image)):
        pictures[scheme] += f'<img src="{path}#only-{scheme}"{attributes}>'
    return "".join(f"<picture>{each}</picture>" for each in pictures.values())


def pages_of_notebook(path: Path) -> Iterator[tuple[str, str | bytes]]:
    """The notebook, a page with a link to it, and the images of the page."""
    name = f"notebooks/{path.stem}"
    yield f"{name}.ipynb", path.read_bytes()
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
                parts.append(f"![{alt}]({image})")
            elif "text/html" in data:
                shown = "".join(data["text/html"]).rstrip()
                parts.append(f"<div>\n{shown}\n</div>")
            elif text := "".join(output.get("text", data.get("text/plain", ""))).rstrip():
                parts.append(f"```text\n{text}\n```")
    title, _, rest = "\n\n".join(parts).partition("\n")
    link = f'<a href="{path.name}" download>Download this notebook</a>'
    yield f"{name}.md", f"{title}\n\n{link}\n{rest}"
