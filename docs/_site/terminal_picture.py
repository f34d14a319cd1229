"""Draws docs/images/terminal.svg, and its dark variant: what `langchain-rse query` prints.

`python docs/_site/terminal_picture.py` draws both. The knowledge base is that of `demo`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI, TerminalTheme
from rich.text import Text

from langchain_rse.cli.example import MAX_CONTEXT_LENGTH, QUESTION
from langchain_rse.explaining.colors import DARK, LIGHT, Colors

IMAGES = Path(__file__).parents[1] / "images"
OPTIONS = ("--max-context-length", str(MAX_CONTEXT_LENGTH))
COLUMNS, LINES = 80, 24
NO_BREAK = "\u00a0"
LETTER, LINE, SIZE, MARGIN = 7.8, 17, 13, 12  # in pixels


def run(folder: str, *arguments: str) -> str:
    """What a command prints in a terminal with colors."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}
    command = [sys.executable, "-m", "langchain_rse", *arguments]
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def lines_of_query() -> list[list[Segment]]:
    """The first lines of an answer, in pieces of one style."""
    with tempfile.TemporaryDirectory() as folder:
        run(folder, "demo", "--kb", "kb")
        printed = run(folder, "query", QUESTION, "--kb", "kb", *OPTIONS)
    console = Console(width=COLUMNS, force_terminal=True, color_system="standard")
    command = f'$ langchain-rse query "{QUESTION}" --kb kb \\\n    {" ".join(OPTIONS)}'
    text = Text.from_ansi(f"{command}\n{printed}")
    return console.render_lines(text, pad=False)[:LINES]


def css_of(style: Style | None, colors: Colors, theme: TerminalTheme) -> str:
    """The attributes of a piece of text."""
    if style is None:
        return ""
    attributes = ' font-weight="bold"' if style.bold else ""
    if style.dim:
        attributes += ' opacity="0.7"'
    # The chunks' orange is too light for letters on a light background.
    orange = "#b34700" if colors is LIGHT else colors.chunk
    by_number = {2: colors.passage, 3: orange, 6: orange}
    if style.color is not None:
        color = by_number.get(style.color.number or 0)
        attributes += f' fill="{color or style.color.get_truecolor(theme).hex}"'
    return attributes


def draw(lines: list[list[Segment]], colors: Colors) -> str:
    """The lines as text in a fixed font, each piece at its column."""
    width = round(COLUMNS * LETTER + 2 * MARGIN)
    height = len(lines) * LINE + 2 * MARGIN
    elements = []
    for number, line in enumerate(lines):
        y = MARGIN + number * LINE + SIZE
        column = 0
        for piece in line:
            content = piece.text.strip()
            if content:
                shown = content.replace(" ", NO_BREAK)  # SVG would join several spaces
                css = css_of(piece.style, colors, DIMMED_MONOKAI)
                length = f'textLength="{len(content) * LETTER:.1f}"'
                indent = len(piece.text) - len(piece.text.lstrip())
                x = MARGIN + (column + indent) * LETTER
                elements.append(f'<text x="{x:.1f}" y="{y}" {length}{css}>{escape(shown)}</text>')
            column += len(piece.text)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" fill="{colors.ink}" font-size="{SIZE}" '
        'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" role="img">'
        "<title>langchain-rse query in a terminal</title>\n"
        f'<rect width="{width}" height="{height}" rx="6" fill="{colors.panel}"/>\n'
        + "\n".join(elements)
        + "\n</svg>\n"
    )


def main(folder: Path) -> None:
    """Write both variants."""
    lines = lines_of_query()
    for name, colors in (("terminal.svg", LIGHT), ("terminal-dark.svg", DARK)):
        (folder / name).write_text(draw(lines, colors), encoding="utf-8")


if __name__ == "__main__":
    main(IMAGES)
