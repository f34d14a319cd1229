"""Printing to the terminal: segments, errors, and how to call a command."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from langchain_core.documents import Document
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from langchain_rse.errors import MissingRecordError

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

_LINES_SHOWN = 3


def exit_on_error(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command print errors without a traceback, and exit with status 2."""

    @functools.wraps(command)
    def wrapped(**options: Any) -> None:  # noqa: ANN401
        try:
            command(**options)
        except (ImportError, MissingRecordError, ValueError) as error:
            errors.print(Text(str(error)), soft_wrap=True)
            raise typer.Exit(2) from error

    return wrapped


def command_line() -> str:
    """How this command was called, to be typed again."""
    called = Path(sys.argv[0])
    return "python -m langchain_rse" if called.stem == "__main__" else str(called)


def print_json(value: object) -> None:
    """Print a value as JSON; what JSON does not have as strings."""
    typer.echo(json.dumps(value, indent=2, default=str))


def print_segment(segment: Document, *, full: bool) -> None:
    """Print a segment's place and its text, with a rule above each chunk."""
    metadata = segment.metadata
    pages = ""
    if "page_start" in metadata and "page_end" in metadata:
        first, last = metadata["page_start"] + 1, metadata["page_end"] + 1
        pages = f" · page {first}" if first == last else f" · pages {first}-{last}"
    title = (
        f"{metadata['source']} · characters {metadata['start_index']}-{metadata['end_index']}"
        f"{pages} · score {metadata['relevance_score']:.2f}"
    )
    parts: list[RenderableType] = []
    place = 0
    for chunk in metadata["rse"]["chunks"]:
        rank = "filled in" if chunk.get("filled") else f"rank {chunk['rank'] + 1}"
        parts.append(Rule(Text(f"chunk {chunk['index']} · {rank}", style="dim"), style="dim"))
        text = segment.page_content[place : place + chunk["length"]]
        parts.append(shorten(text, full=full))
        place += chunk["length"]
    print_panel(title, Group(*parts))


def print_panel(title: str, content: RenderableType) -> None:
    """Print a title and a frame below it."""
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(Panel(content))


def shorten(text: str, *, full: bool = False) -> Text:
    """The first lines of a text, and how many more there are."""
    lines = text.strip("\n").splitlines()
    if full or len(lines) <= _LINES_SHOWN:
        return Text("\n".join(lines))
    return Text("\n".join(lines[:_LINES_SHOWN])).append(
        f"\n... {len(lines) - _LINES_SHOWN} more lines", style="dim"
    )
