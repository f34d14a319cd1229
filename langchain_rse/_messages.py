"""Builds messages: wrong values, warnings at the caller's line, missing packages."""

from __future__ import annotations

import difflib
import importlib
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from inspect import Parameter, Signature
from types import NoneType
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError

from langchain_rse.text.quoting import first_few, visible

# Modules to skip on the way from the line that warns to the user's line.
_LIBRARIES = ("langchain_rse.", "langchain_core.", "pydantic.", "asyncio.", "concurrent.")


def problems_of(error: ValidationError) -> str:
    """List the problems that pydantic found, each with the path of its field, without values."""
    problems = []
    for problem in error.errors():
        path = ".".join(map(repr, problem["loc"]))
        problems.append(f"{path}: {problem['msg']}")
    return first_few(problems)


class _Bare(str):
    """A text that is printed without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Checked(BaseModel):
    """A model whose wrong values are a ValueError of one sentence: name, allowed, given."""

    # What to write instead of an unknown name; for some fields, what is allowed, and what to do
    # about a wrong value.
    _instead: ClassVar[Mapping[str, str]] = {}
    _rules: ClassVar[Mapping[str, str]] = {}
    _hints: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **fields: Any) -> None:  # noqa: ANN401 - of any type
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise self._error_of(error) from None

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - pydantic's signature
        try:
            super().__setattr__(name, value)
        except ValidationError as error:
            raise self._error_of(error) from None

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """The fields that differ from their defaults; of stores and other objects, the class."""
        for name, field in type(self).model_fields.items():
            value = self.__dict__.get(name)  # not there if a check has failed
            default: object = None
            with suppress(ValueError):  # such as a key that is not in the environment
                default = field.get_default(call_default_factory=True)
            shown = value
            if not isinstance(value, (*_SHOWN, Checked)):
                shown = _Bare(getattr(value, "__name__", type(value).__name__))
            if repr(value) != repr(default):
                yield name, shown

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        """Give the class a signature that people can read, without the constraints of fields."""
        parameters = []
        for name, field in cls.model_fields.items():
            default = field.default
            if field.is_required():
                default = Parameter.empty
            elif not isinstance(default, (str, int, float, NoneType)):
                default = _Bare("...")
            kind = Parameter.KEYWORD_ONLY
            annotation = field.annotation
            parameters.append(Parameter(name, kind, default=default, annotation=annotation))
        cls.__signature__ = Signature(parameters)

    @classmethod
    def _error_of(cls, error: ValidationError) -> ValueError:
        """The error of a check, or pydantic's last problem in a sentence: an unknown name."""
        problem = error.errors()[-1]
        if problem["type"] == "value_error":
            raised: ValueError = problem["ctx"]["error"]
            return raised
        name = str(problem["loc"][0])
        if problem["type"] == "extra_forbidden":
            return ValueError(explain_unknown(name, cls.model_fields, cls._instead))
        hint = cls._hints.get(name, "")
        if problem["type"] == "missing":
            return ValueError(f"{name} is missing. {hint}".rstrip())
        value = problem["input"]
        given = f"{value!r:.200}" if isinstance(value, _SHOWN) else type_name(value)
        rule = cls._rules.get(name) or _rule(problem["msg"])
        return ValueError(f"{name} {rule}; got {given}. {hint}".rstrip(". "))


# Types whose values are shown in messages; of others, the type is.
_SHOWN = (str, int, float, list, tuple, set, dict, NoneType)


def _rule(message: str) -> str:
    """Say what pydantic allows, as the end of a sentence that begins with a field."""
    _, should, allowed = message.partition(" should ")
    if not should:
        return f"is refused: {message}"
    for words, plain in _PLAIN_WORDS.items():
        allowed = allowed.replace(words, plain)
    return f"must {allowed}"


_PLAIN_WORDS = {
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "a valid dictionary or instance": "an instance",
    "a valid integer": "a whole number",
    "a valid boolean": "True or False",
    "a valid ": "a ",
}


def explain_unknown(name: str, allowed: Iterable[str], instead: Mapping[str, str]) -> str:
    """Say what to write instead of an unknown argument."""
    names = sorted(allowed)
    near = difflib.get_close_matches(name, names, n=2)
    near = near or [known for known in names if name in known.split("_")]
    advice = f"allowed: {', '.join(names)}"
    if near:
        advice = f"did you mean {' or '.join(near)}?"
    return f"unknown argument {name!r}: {instead.get(name, advice)}"


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
