"""Prints text and messages: in a terminal with colors, in a pipe as plain text."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from langchain_rse.text.quoting import visible

console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

# The commands print why an answer is empty themselves.
logging.getLogger("langchain_rse").addHandler(logging.NullHandler())
# Errors whose message says all.
_EXPECTED = (ImportError, LookupError, OSError, ValueError)
_ERROR_NUMBER = re.compile(r"\[Errno \d+\] ")


@contextlib.contextmanager
def exit_on_error() -> Iterator[None]:
    """Print errors and warnings of a command as lines, and exit with status 2 or 130."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            # The commands print this reason themselves.
            warnings.filterwarnings("ignore", ".* found nothing with filter")
            yield
    except (typer.Exit, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        print_note("\nInterrupted. Run the same command to continue", "red")
        raise typer.Exit(130) from None
    except Exception as error:
        name = "" if isinstance(error, _EXPECTED) else f"{type(error).__name__}: "
        notes = getattr(error, "__notes__", ())
        message = _ERROR_NUMBER.sub("", str(error))
        print_note("\n".join([f"Error: {name}{message}", *notes]), "red")
        raise typer.Exit(2) from error


def _print_warning(message: object, *_: object, **__: object) -> None:
    """Print a warning above progress bars."""
    from tqdm import tqdm

    tqdm.write(visible(f"warning: {message}", "\n"), sys.stderr)


def print_note(message: str, style: str = "") -> None:
    """Print lines on stderr."""
    errors.print(Text(visible(message, "\n"), style))


def print_text(text: str | Text, style: str = "") -> None:
    """Print a line, styled in a terminal.

    Line breaks and terminal control characters of a str are escaped. A Text is printed unchanged,
    so it must come from `visible_lines`.
    """
    console.print(Text(visible(text), style) if isinstance(text, str) else text)


def visible_lines(text: str) -> Text:
    """Escape a text's terminal control characters, keep its lines, and strip empty outer lines."""
    lines = text.strip("\r\n").splitlines()
    return Text("\n".join(visible(line, "\t") for line in lines))


def print_wrapped(text: str, to: Console = console) -> None:
    """Print lines; in a terminal, rows that continue one are indented or have its mark."""
    for line in visible_lines(text).split():
        mark = line.plain[:4]  # "+ | " and "- | " of `compare`
        margin = mark if mark.endswith(" | ") else "      "
        width = max(20, to.width - 6)
        rows = line.wrap(to, width) if to.is_terminal else [line]
        to.print(Text(f"\n{margin}").join(rows))


def command_line() -> str:
    """Return the program as the user called it, for examples in messages."""
    called = Path(sys.argv[0])
    if called.stem == "__main__":
        return "python -m langchain_rse"
    return called.name if shutil.which(called.name) == str(called) else str(called)
