"""Helpers for messages: short lists, escaped characters, warnings at the caller's line."""

import html
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

# Modules between the user's line and the line that warns.
_LIBRARIES = ("langchain_rse.", "langchain_core.", "pydantic.", "asyncio.", "concurrent.")

# Control characters, line separators, characters that change the direction of writing, and lone
# surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, allowed: str = "") -> str:
    """Escape characters that could control a terminal, or that it cannot print, as ``repr`` does.

    Characters in ``allowed``, such as line breaks, are kept.
    """

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character in allowed:
            return character
        return ascii(character)[1:-1]

    return _UNSAFE.sub(escape, text)


def as_html(text: str, allowed: str = "") -> str:
    """Write a text for HTML, in which it stays text; ``allowed`` is that of `visible`."""
    return html.escape(visible(text, allowed))


def problems_of(error: ValidationError, name: Callable[[int | str], str] = repr) -> str:
    """List the problems that pydantic found, each with the path of its field, without values.

    ``name`` writes a key of a path.
    """
    problems = []
    for problem in error.errors():
        path = ".".join(name(key) for key in problem["loc"])
        problems.append(f"{path}: {problem['msg']}")
    return first_few(problems)


def counted(number: int, noun: str) -> str:
    """A number and what it counts: "1 chunk", "2,000 chunks"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def first_few(items: Iterable[str], limit: int = 5) -> str:
    """Join the first ``limit`` items with commas, and say how many others there are."""
    listed = list(items)
    text = ", ".join(listed[:limit])
    if len(listed) > limit:
        text += f" and {len(listed) - limit} more"
    return text


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that called this package."""
    level = 1
    frame = sys._getframe(1)  # noqa: SLF001 - documented by Python; inspect.stack() reads files
    while frame.f_back and f"{frame.f_globals.get('__name__')}.".startswith(_LIBRARIES):
        frame = frame.f_back
        level += 1
    warnings.warn(visible(message), category, stacklevel=level + 1)


def load(module: str, extra: str, user: str) -> Any:  # noqa: ANN401 - a module
    """Import a module that needs an optional package.

    Raises:
        ImportError: If a package is missing; the message names it, the ``extra`` of langchain-rse
            that installs it, and the ``user``: the class or option that needs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        message = f"{user} needs {package}: pip install 'langchain-rse[{extra}]'"
        raise ImportError(message) from error
