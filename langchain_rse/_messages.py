"""Builds messages: validation problems, warnings at the caller's line, missing packages."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from pydantic import ValidationError

from langchain_rse.text.quoting import first_few, visible

P = ParamSpec("P")
T = TypeVar("T")

# Modules to skip on the way from the line that warns to the user's line.
_LIBRARIES = ("langchain_rse.", "langchain_core.", "pydantic.", "asyncio.", "concurrent.")


def problems_of(error: ValidationError, name: Callable[[int | str], str] = repr) -> str:
    """List the problems that pydantic found, each with the path of its field, without values.

    ``name`` formats a key of a path.
    """
    problems = []
    for problem in error.errors():
        path = ".".join(name(key) for key in problem["loc"])
        problems.append(f"{path}: {problem['msg']}")
    return first_few(problems)


def type_name(value: object) -> str:
    """Name the type of a wrong value; for a class, say that an object of it is needed."""
    if isinstance(value, type):
        return f"the class {value.__name__}: pass an object, {value.__name__}(...)"
    return type(value).__name__


# Collects the warnings of the function in this thread if its caller will issue them.
_held: ContextVar[HeldWarnings | None] = ContextVar("held", default=None)


class HeldWarnings:
    """Collects warnings in a worker thread, where the user's line is unknown, to issue later."""

    def __init__(self) -> None:
        self.items: list[tuple[str, type[Warning]]] = []

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function, collecting its warnings; call this in the worker thread."""
        _held.set(self)  # the thread has a copy of the context
        return function(*args, **kwargs)

    def warn(self) -> None:
        """Issue the collected warnings; call this in the caller's thread."""
        for message, category in self.items:
            warn(message, category)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that called this package."""
    held = _held.get()
    if held is not None:
        held.items.append((message, category))
        return
    level = 1
    frame = sys._getframe(1)  # noqa: SLF001 - documented by Python; inspect.stack() reads files
    while frame.f_back and f"{frame.f_globals.get('__name__')}.".startswith(_LIBRARIES):
        frame = frame.f_back
        level += 1
    warnings.warn(visible(message), category, stacklevel=level + 1)


def load(module: str, extra: str, feature: str) -> Any:  # noqa: ANN401 - a module
    """Import a module that needs an optional package.

    Raises:
        ImportError: If a package is missing. The message names the package, the ``extra`` of
            langchain-rse that installs it, and the ``feature`` (class or option) that needs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        message = f"{feature} needs {package}: pip install 'langchain-rse[{extra}]'"
        raise ImportError(message) from error
