"""Builds messages: validation problems, warnings at the caller's line, missing packages."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from langchain_rse.text.quoting import first_few, visible

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


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that called this package.

    In a thread of async code, that line is unknown: the warning names a line of `threading`.
    """
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
