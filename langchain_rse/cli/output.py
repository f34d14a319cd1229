"""Prints text and messages. In a terminal, with colors and with lines that break between words."""

from __future__ import annotations

import functools
import json
import logging
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from langchain_rse.text.quoting import visible

Command = Callable[..., None]

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

# This logger reports why an answer is empty. The commands print that themselves.
_EMPTY_ANSWERS = "langchain_rse.query.pipeline"
_SHORT = {"irrelevant_chunk_penalty": "--penalty"}
_MAX_WIDTH = 80  # of strips and bars; also the width outside terminals


def exit_on_error(command: Command, *, extra: str = "cli") -> Command:
    """Make a command print errors and warnings as lines, and exit with status 2 or 130.

    ``extra`` is the extra of langchain-rse that has the packages of the command.
    """

    @functools.wraps(command)
    def wrapped(**options: Any) -> None:  # noqa: ANN401
        try:
            with _messages_as_lines():
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
            print_error(_message_of(error, options))
            raise typer.Exit(2) from error

    return wrapped


def _message_of(error: Exception, options: Mapping[str, Any]) -> str:
    """Return an error's message and notes; name the class of an unexpected error.

    A message about a setting begins with its name: the option that sets it is named instead.
    """
    text = str(error)
    name, _, problem = text.partition(" ")
    if options.get(name) is not None:
        problem = problem.replace(" or None;", ";")  # an option that is not given is None
        text = f"{_SHORT.get(name) or '--' + name.replace('_', '-')} {problem}"
    if not isinstance(error, (ImportError, LookupError, OSError, ValueError)):
        text = f"{type(error).__name__}: {text}"
    return "\n".join([text, *getattr(error, "__notes__", ())])


@contextmanager
def _messages_as_lines() -> Iterator[None]:
    """Print warnings, and log records of that level from the package, on stderr."""

    def show_warning(message: Warning | str, *_: object, **__: object) -> None:
        _print_warning(str(message))

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name != _EMPTY_ANSWERS:
                _print_warning(record.getMessage())

    logger = logging.getLogger("langchain_rse")
    lines = Lines(logging.WARNING)
    logger.addHandler(lines)
    logger.propagate = False  # handlers of the root logger would print the record again
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            yield
    finally:
        logger.removeHandler(lines)
        logger.propagate = True


def _print_warning(message: str) -> None:
    """Print a warning above any progress bar."""
    from tqdm import tqdm

    with tqdm.external_write_mode(file=sys.stderr):
        print_error(f"warning: {message}", "yellow")


def print_error(message: str, style: str = "red") -> None:
    """Print a line on stderr."""
    _print(Text(visible(message, "\n"), style), errors)


def print_text(text: str | Text, style: str = "") -> None:
    """Print a line, styled in a terminal.

    Line breaks and terminal control characters of a str are escaped. A Text is printed unchanged,
    so it must come from `visible_lines`.
    """
    _print(Text(visible(text), style) if isinstance(text, str) else text, console)


def print_command(command: str) -> None:
    """Print a command without line breaks, so that it can be copied."""
    _print(Text(visible(command)), console, soft_wrap=True)


def _print(text: Text, stream: Console, *, soft_wrap: bool = False) -> None:
    if stream.is_terminal:
        stream.print(text, soft_wrap=soft_wrap)
    else:
        stream.file.write(f"{text}\n")


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
