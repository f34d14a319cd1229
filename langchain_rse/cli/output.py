"""Prints texts, tables and messages; in a terminal with colors, and lines that end with words."""

import functools
import json
import logging
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from langchain_rse._messages import problems_of
from langchain_rse.cli.options import Command, name_options
from langchain_rse.text.bars import BLOCKS, NOTHING
from langchain_rse.text.quoting import visible

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_MESSAGES_SHOWN = 10
# Loggers whose records the commands tell themselves: files without text, that fitting a floor has
# begun, and why nothing was returned.
_TOLD_BY_COMMANDS = (
    "langchain_rse.ingest.",
    "langchain_rse.fitting",
    "langchain_rse.query.pipeline",
)
_WIDTH = 80  # of what is drawn where there is no terminal, and at most in one
# For streams whose encoding has no blocks.
_IN_ASCII = str.maketrans(NOTHING + BLOCKS, ".--==++##")


def exit_on_error(command: Command, *, extra: str = "cli", ends: bool = True) -> Command:
    """Make a command print errors and warnings as lines, and exit with status 2 or 130.

    They name the command's options. Warnings are printed at the end, or at once if the command
    does not end (``ends=False``).
    """

    @functools.wraps(command)
    def wrapped(**options: Any) -> None:  # noqa: ANN401
        with _messages_at_end(command) if ends else _messages_at_once(command):
            try:
                command(**options)
            except (typer.Exit, typer.BadParameter, BrokenPipeError):
                raise
            except KeyboardInterrupt as error:
                if errors.is_terminal:
                    print_error("")  # ends the line of a progress bar
                print_error(f"Interrupted. {error}".rstrip())
                raise typer.Exit(130) from error
            except ModuleNotFoundError as error:
                print_error(f"{error.name} is not installed: pip install 'langchain-rse[{extra}]'")
                raise typer.Exit(2) from error
            except Exception as error:
                print_error(name_options(_text_of(error), command))
                raise typer.Exit(2) from error

    return wrapped


def _text_of(error: Exception) -> str:
    """The message of an error and its notes; also its class, if it is not an expected one."""
    text = str(error)
    if isinstance(error, ValidationError):
        # Without quotation marks, in which `name_options` would leave names as they are.
        text = problems_of(error, str)
    if not isinstance(error, (ImportError, LookupError, OSError, ValueError)):
        text = f"{type(error).__name__}: {text}"
    return "\n".join([text, *getattr(error, "__notes__", ())])


@contextmanager
def _messages_at_end(command: Command) -> Iterator[None]:
    """Print warnings and log lines on stderr at the end, as they would break progress bars."""
    log = BufferingHandler(sys.maxsize)
    try:
        with _handled_by(log, logging.INFO), warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        lines = [f"warning: {warning.message}" for warning in caught]
        lines += [_line_of(record) for record in log.buffer]
        _print_messages([name_options(line, command) for line in dict.fromkeys(lines)])


@contextmanager
def _messages_at_once(command: Command) -> Iterator[None]:
    """Print warnings and what is logged as such on stderr when they come."""

    def show_warning(message: Warning | str, *_: object, **__: object) -> None:
        print_error(name_options(f"warning: {message}", command), "yellow")

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print_error(name_options(_line_of(record), command), "yellow")

    with _handled_by(Lines(), logging.WARNING), warnings.catch_warnings():
        warnings.showwarning = show_warning
        yield


@contextmanager
def _handled_by(handler: logging.Handler, least_level: int) -> Iterator[None]:
    """Let a handler have this package's log, without what the commands tell themselves."""
    logger = logging.getLogger("langchain_rse")
    handler.addFilter(lambda record: not record.name.startswith(_TOLD_BY_COMMANDS))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(least_level)
    logger.propagate = False  # other packages may print records that reach the root logger
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = True


def _line_of(record: logging.LogRecord) -> str:
    kind = "warning" if record.levelno > logging.INFO else "note"
    return f"{kind}: {record.getMessage()}"


def _print_messages(lines: Sequence[str]) -> None:
    for line in lines[:_MESSAGES_SHOWN]:
        print_error(line, "yellow")
    if len(lines) > _MESSAGES_SHOWN:
        print_error(f"... and {len(lines) - _MESSAGES_SHOWN} more", "yellow")


def print_error(message: str, style: str = "red") -> None:
    """Print a line on stderr."""
    text = Text(visible(message, "\n"), style)
    errors.print(_end_lines_with_words(text, errors), soft_wrap=True)


def command_line() -> str:
    """The command as it was called, for examples to type."""
    called = Path(sys.argv[0])
    return "python -m langchain_rse" if called.stem == "__main__" else str(called)


def print_json(value: object) -> None:
    """Print a value as JSON, with strings for values that JSON lacks."""
    typer.echo(json.dumps(value, indent=2, default=str))


def print_text(
    text: str | Text, style: str = "", *, lines: bool = False, wrap: bool = True
) -> None:
    """Print a line, or several if ``lines``; styled in a terminal.

    Lines that are longer than the terminal end with a word there, unless ``wrap`` is false.
    Characters of a str that could control a terminal are escaped; those of a Text must be already.
    """
    if isinstance(text, str):
        text = Text(visible(text, "\n" if lines else ""), style)
    if console.is_terminal:
        console.print(_end_lines_with_words(text, console) if wrap else text, soft_wrap=True)
    else:
        sys.stdout.write(f"{text}\n")  # typer.echo ignores the stream's encoding


def _end_lines_with_words(text: Text, terminal: Console) -> Text:
    """Break lines that are longer than a terminal between words; longer words stay whole."""
    if not terminal.is_terminal:
        return text
    breaks = []
    column = 0
    has_word = False
    for match in re.finditer(r"\n|[^\S\n]+|\S+", text.plain):
        part = match[0]
        if part == "\n":
            column = 0
            has_word = False
            continue
        is_word = not part.isspace()
        width = cell_len(part.expandtabs(8))
        if is_word and has_word and column + width > terminal.width:
            breaks.append(match.start())
            column = 0
        has_word = has_word or is_word
        column += width
    parts = text.divide(breaks)
    for part_of_line in parts[:-1]:
        part_of_line.rstrip()
    return Text("\n").join(parts)


def width_of_lines() -> int:
    """The columns that there are for what is drawn: 80, or fewer in a narrower terminal."""
    return min(console.width, _WIDTH) if console.is_terminal else _WIDTH


def print_strip(label: str, strip: str, style: str = "") -> None:
    """Print a strip of blocks after its label; in ASCII if the stream has no blocks."""
    try:
        strip.encode(console.encoding)
    except UnicodeEncodeError:
        strip = strip.translate(_IN_ASCII)
    print_text(f"{label}{strip}", style, wrap=False)


def print_parts(title: str, *parts: tuple[str, Text]) -> None:
    """Print a title, and texts with a line above each."""
    print_text(title, "bold")
    for name, text in parts:
        print_text(f"--- {name}", "dim")
        print_text(text)
    print_text("")


def visible_lines(text: str) -> Text:
    """A text to print, with its lines, and without characters that could control a terminal.

    Blank lines at both ends are left out.
    """
    lines = text.rstrip().splitlines()
    while lines and not lines[0].strip():
        lines.pop(0)
    return Text("\n".join(visible(line, "\t") for line in lines))
