"""Prints segments, tables and messages; colors in a terminal only."""

import functools
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Annotated, Any

import typer
from langchain_core.documents import Document
from rich.console import Console
from rich.text import Text

from langchain_rse._messages import visible

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_MESSAGES_SHOWN = 10


def exit_on_error(
    command: Callable[..., None], *, extra: str = "cli", ends: bool = True
) -> Callable[..., None]:
    """Make a command print errors and warnings as lines, and exit with status 2 or 130.

    Warnings are printed at the end, unless the command does not end (``ends=False``).
    """

    @functools.wraps(command)
    def wrapped(**options: Any) -> None:  # noqa: ANN401
        with _messages_as_lines() if ends else nullcontext():
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
                print_error(_text_of(error))
                raise typer.Exit(2) from error

    return wrapped


def _text_of(error: Exception) -> str:
    """The message of an error and its notes; also its class, if it is not an expected one."""
    text = str(error)
    if not isinstance(error, (ImportError, LookupError, OSError, ValueError)):
        text = f"{type(error).__name__}: {text}"
    return "\n".join([text, *getattr(error, "__notes__", ())])


@contextmanager
def _messages_as_lines() -> Iterator[None]:
    """Print warnings and log lines on stderr at the end, as they would break progress bars."""
    logger = logging.getLogger("langchain_rse")
    log = BufferingHandler(sys.maxsize)
    # The command `index` lists files without text itself.
    log.addFilter(lambda record: not record.name.startswith("langchain_rse.ingest."))
    level = logger.level
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # other packages may print records that reach the root logger
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        logger.removeHandler(log)
        logger.setLevel(level)
        logger.propagate = True
        lines = [f"warning: {warning.message}" for warning in caught]
        for record in log.buffer:
            kind = "warning" if record.levelno > logging.INFO else "note"
            lines.append(f"{kind}: {record.getMessage()}")
        _print_messages(list(dict.fromkeys(lines)))


def _print_messages(lines: Sequence[str]) -> None:
    for line in lines[:_MESSAGES_SHOWN]:
        print_error(line, "yellow")
    if len(lines) > _MESSAGES_SHOWN:
        print_error(f"... and {len(lines) - _MESSAGES_SHOWN} more", "yellow")


def print_error(message: str, style: str = "red") -> None:
    """Print a line on stderr."""
    errors.print(Text(visible(message, "\n"), style), soft_wrap=True)


def command_line() -> str:
    """The command as it was called, for examples to type."""
    called = Path(sys.argv[0])
    return "python -m langchain_rse" if called.stem == "__main__" else str(called)


def print_json(value: object) -> None:
    """Print a value as JSON, with strings for values that JSON lacks."""
    typer.echo(json.dumps(value, indent=2, default=str))


def print_text(text: str | Text, style: str = "", *, lines: bool = False) -> None:
    """Print a line, or several if ``lines``; styled in a terminal.

    Characters of a str that could control a terminal are escaped; those of a Text must be already.
    """
    if isinstance(text, str):
        text = Text(visible(text, "\n" if lines else ""), style)
    if console.is_terminal:
        console.print(text, soft_wrap=True)
    else:
        sys.stdout.write(f"{text}\n")  # typer.echo ignores the stream's encoding


def print_segment(segment: Document, *, question: str) -> None:
    """Print a segment's place and its text, with a line above each chunk."""
    from langchain_rse.explaining.words import query_words
    from langchain_rse.tools.passages import citation_of

    words = query_words([question])
    parts = []
    start = 0
    for chunk in segment.metadata["rse"]["chunks"]:
        end = start + chunk["length"]
        text = visible_lines(segment.page_content[start:end])
        start = end
        if words:
            text.highlight_regex(words, "bold cyan")
        if chunk.get("filled"):
            reason = "filled in"
        else:
            reason = f"rank {chunk['rank'] + 1} · relevance {chunk['relevance']:.2f}"
        parts.append((f"chunk {chunk['index']} · {reason}", text))
    value = segment.metadata["relevance_score"]
    print_parts(f"{citation_of(segment.metadata)} · value {value:.2f}", *parts)


def print_parts(title: str, *parts: tuple[str, Text]) -> None:
    """Print a title, and texts with a line above each."""
    print_text(title, "bold")
    for name, text in parts:
        print_text(f"--- {name}", "dim")
        print_text(text)
    print_text("")


def visible_lines(text: str) -> Text:
    """A text to print, with its lines, and without characters that could control a terminal."""
    lines = text.strip("\n").splitlines()
    return Text("\n".join(visible(line, "\t") for line in lines))
