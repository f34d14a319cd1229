"""Prints texts and messages; in a terminal with colors, and lines that end with words."""

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
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from langchain_rse._messages import problems_of
from langchain_rse.text.quoting import visible

Command = Callable[..., None]

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

# Says why nothing was returned, as the commands do.
_TOLD_BY_COMMANDS = "langchain_rse.query.pipeline"
_WIDTH = 80  # of what is drawn where there is no terminal, and at most in one


def exit_on_error(command: Command, *, extra: str = "cli") -> Command:
    """Make a command print errors and warnings as lines, and exit with status 2 or 130."""

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
            print_error("Interrupted. The same command goes on where it stopped")
            raise typer.Exit(130) from None
        except ModuleNotFoundError as error:
            print_error(f"{error.name} is not installed: pip install 'langchain-rse[{extra}]'")
            raise typer.Exit(2) from error
        except Exception as error:
            print_error(_text_of(error))
            raise typer.Exit(2) from error

    return wrapped


def _text_of(error: Exception) -> str:
    """The message of an error and its notes; also its class, if it is not an expected one."""
    text = problems_of(error, str) if isinstance(error, ValidationError) else str(error)
    if not isinstance(error, (ImportError, LookupError, OSError, ValueError)):
        text = f"{type(error).__name__}: {text}"
    return "\n".join([text, *getattr(error, "__notes__", ())])


@contextmanager
def _messages_as_lines() -> Iterator[None]:
    """Print warnings, and what the package logs as such, on stderr."""

    def show_warning(message: Warning | str, *_: object, **__: object) -> None:
        _print_warning(str(message))

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name != _TOLD_BY_COMMANDS:
                _print_warning(record.getMessage())

    logger = logging.getLogger("langchain_rse")
    lines = Lines(logging.WARNING)
    logger.addHandler(lines)
    logger.propagate = False  # other packages may print records that reach the root logger
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            yield
    finally:
        logger.removeHandler(lines)
        logger.propagate = True


def _print_warning(message: str) -> None:
    """Print a warning; above the progress bars of a terminal."""
    from tqdm import tqdm

    with tqdm.external_write_mode(file=sys.stderr):
        print_error(f"warning: {message}", "yellow")


def print_error(message: str, style: str = "red") -> None:
    """Print a line on stderr."""
    _print(Text(visible(message, "\n"), style), errors)


def print_text(text: str | Text, style: str = "") -> None:
    """Print a line, styled in a terminal.

    Characters of a str that could control a terminal are escaped, line breaks too; those of a Text
    must be already, see `visible_lines`.
    """
    _print(Text(visible(text), style) if isinstance(text, str) else text, console)


def _print(text: Text, stream: Console) -> None:
    if stream.is_terminal:
        stream.print(text)
    else:
        stream.file.write(f"{text}\n")


def print_json(value: object) -> None:
    """Print a value as JSON, with strings for values that JSON lacks."""
    typer.echo(json.dumps(value, indent=2, default=str))


def visible_lines(text: str) -> Text:
    """A text to print, with its lines, and without characters that could control a terminal.

    Blank lines at both ends are left out.
    """
    lines = text.rstrip().splitlines()
    while lines and not lines[0].strip():
        lines.pop(0)
    return Text("\n".join(visible(line, "\t") for line in lines))


def width_of_lines() -> int:
    """The columns that there are for what is drawn: 80, or fewer in a narrower terminal."""
    return min(console.width, _WIDTH) if console.is_terminal else _WIDTH


def command_line() -> str:
    """The command as it was called, for examples to type."""
    called = Path(sys.argv[0])
    if called.stem == "__main__":
        return "python -m langchain_rse"
    return called.name if shutil.which(called.name) == str(called) else str(called)


def shown_path(path: Path) -> str:
    """A path to print: relative if it is in the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
