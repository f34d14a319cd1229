"""Helpers for messages: short lists, escaped characters, warnings at the caller's line."""

import importlib
import re
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

# Code between the user's line and ours.
_PASSED_OVER = ("langchain_rse.", "langchain_core.", "pydantic.", "asyncio.", "concurrent.")


# Control characters, those that change the direction of writing, and lone surrogates.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, kept: str = "") -> str:
    """Escape, as ``repr`` does, what a terminal obeys or cannot show, but ``kept`` characters."""
    return _OBEYED.sub(lambda found: found[0] if found[0] in kept else ascii(found[0])[1:-1], text)


def problems_of(error: ValidationError) -> str:
    """List the problems that pydantic found, each with its place, without the values."""
    return first_few(f"{'.'.join(map(repr, one['loc']))}: {one['msg']}" for one in error.errors())


def counted(number: int, noun: str) -> str:
    """A number and what it counts: "1 chunk", "2,000 chunks"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def first_few(items: Iterable[str], most: int = 5) -> str:
    """Join the first few items, and say how many more there are."""
    named = list(items)
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that called this package."""
    level = 1
    frame = sys._getframe(1)  # noqa: SLF001 - documented by Python; inspect.stack() reads files
    while frame.f_back and f"{frame.f_globals.get('__name__')}.".startswith(_PASSED_OVER):
        frame = frame.f_back
        level += 1
    warnings.warn(visible(message), category, stacklevel=level + 1)


def load(module: str, extra: str, user: str) -> Any:  # noqa: ANN401 - a module
    """Import a module that a user needs; an ImportError says which extra has what it lacks."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        message = f"{user} needs {package}: pip install 'langchain-rse[{extra}]'"
        raise ImportError(message) from error
