"""Folds the set-up of examples: imports and, if a blank line follows, the code that makes stores.

In the repository an example is one block, which runs as it stands. On the site, what a reader has
read on every other page is behind a line; the copy button still copies the whole example.
"""

import html
import re

from mkdocs.structure.pages import Page

BLOCK = re.compile(
    r'(?s)<div class="language-python highlight"><pre><span></span><code>(.*?)</code></pre></div>'
)
TAG = re.compile(r"<[^>]+>")
IMPORT = re.compile(r"(from|import) |[ )]")  # with the lines of an import in parentheses
# A shorter set-up is not worth the line that opens it.
SHORTEST = 4


def on_page_content(content: str, page: Page, **_: object) -> str:
    """Fold the examples of a page; the first page shows everything."""
    is_in_docs = page.file.generated_by is None
    return BLOCK.sub(fold, content) if is_in_docs and not page.is_homepage else content


def fold(block: re.Match[str]) -> str:
    """An example with its set-up folded."""
    lines = block[1].rstrip("\n").split("\n")
    text = [html.unescape(TAG.sub("", line)) for line in lines]
    count = length_of_setup(text)
    if count < SHORTEST:
        return block[0]
    setup, rest = "\n".join(lines[:count]).rstrip(), "\n".join(lines[count:])
    whole = html.escape("\n".join(text)).replace("\n", "&#10;")
    return (
        f'<div class="language-python highlight" data-copy="{whole}">'
        f'<details class="setup"><summary>Set-up: {count} lines</summary>'
        f"<pre><code>{setup}\n</code></pre></details>"
        f"<pre><span></span><code>{rest}\n</code></pre></div>"
    )


def length_of_setup(lines: list[str]) -> int:
    """The number of lines of an example's set-up, with the blank lines after it."""
    code = 0
    while not lines[code] or IMPORT.match(lines[code]):
        code += 1
    blank = lines.index("", code) if "" in lines[code:] else code
    makes_stores = "store" in "\n".join(lines[code:blank]).lower()
    end = blank if makes_stores else code
    while not lines[end]:
        end += 1
    return end
