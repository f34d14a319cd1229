"""Prints text and messages: in a terminal with colors, in a pipe as plain text."""

from __future__ import annotations

import functools
import json
import logging
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from langchain_rse.text.quoting import visible

Command = Callable[..., None]

console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

# This logger reports why an answer is empty. The commands print that themselves.
_EMPTY_ANSWERS = "langchain_rse.query.pipeline"
_MAX_WIDTH = 80  # of strips and bars; also the width outside terminals


def exit_on_error(command: Command, *, extra: str = "cli") -> Command:
    """Make a command print errors and warnings as lines, and exit with status 2 or 130.

    ``extra`` is the extra of langchain-rse that has the packages of the command.
    """

    @functools.wraps(command)
    def wrapped(**options: Any) -> None:  # noqa: ANN401
        try:
            with _warnings_as_lines():
                command(**options)
        except (typer.Exit, typer.BadParameter, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            if errors.is_terminal:
                print_error("")  # ends the line of a progress bar
            print_error("Interrupted. Run the same command to continue")
            raise typer.Exit(130) from None
        except ModuleNotFoundError as error:
            print_error(
                f"{error.name} is not installed. Install it with: "
                f"pip install 'langchain-rse[{extra}]'"
            )
            raise typer.Exit(2) from error
        except Exception as error:
            print_error(_message_of(error))
            raise typer.Exit(2) from error

    return wrapped


def _message_of(error: Exception) -> str:
    """Return an error's message and notes; name the class of an unexpected error."""
    text = str(error)
    if not isinstance(error, (ImportError, LookupError, OSError, ValueError)):
        text = f"{type(error).__name__}: {text}"
    return "\n".join([text, *getattr(error, "__notes__", ())])


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print warnings, and log records of that level from the package, on stderr."""
    from tqdm.contrib.logging import logging_redirect_tqdm

    logger = logging.getLogger("langchain_rse")
    lines = logging.StreamHandler()  # on stderr
    lines.setLevel(logging.WARNING)
    lines.setFormatter(_Line())
    lines.addFilter(lambda record: record.name != _EMPTY_ANSWERS)
    logger.addHandler(lines)
    logger.propagate = False  # handlers of the root logger would print the record again
    try:
        with logging_redirect_tqdm([logger]), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: logger.warning("%s", message)
            yield
    finally:
        logger.removeHandler(lines)
        logger.propagate = True


class _Line(logging.Formatter):
    """Escapes terminal control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(f"warning: {record.getMessage()}", "\n")


def print_error(message: str, style: str = "red") -> None:
    """Print a line on stderr."""
    errors.print(Text(visible(message, "\n"), style))


def print_text(text: str | Text, style: str = "") -> None:
    """Print a line, styled in a terminal.

    Line breaks and terminal control characters of a str are escaped. A Text is printed unchanged,
    so it must come from `visible_lines`.
    """
    console.print(Text(visible(text), style) if isinstance(text, str) else text)


def print_json(value: object) -> None:
    """Print a value as JSON; types without a JSON form become strings."""
    typer.echo(json.dumps(value, indent=2, default=str))


def visible_lines(text: str) -> Text:
    """Escape a text's terminal control characters, keep its lines, and strip blank outer lines."""
    lines = text.rstrip().splitlines()
    while lines and not lines[0].strip():
        lines.pop(0)
    return Text("\n".join(visible(line, "\t") for line in lines))


def width_of_lines() -> int:
    """Return the number of columns for strips and bars: 80, or fewer in a narrower terminal."""
    return min(console.width, _MAX_WIDTH) if console.is_terminal else _MAX_WIDTH


def command_line() -> str:
    """Return the program as the user called it, for examples in messages."""
    called = Path(sys.argv[0])
    if called.stem == "__main__":
        return "python -m langchain_rse"
    return called.name if shutil.which(called.name) == str(called) else str(called)


def shown_path(path: Path) -> str:
    """Return a path to print: relative if it is in the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
