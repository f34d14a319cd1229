"""What users see: wrong values, warnings at their line, missing packages, progress bars."""

import difflib
import importlib
import inspect
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, Signature
from types import NoneType, SimpleNamespace
from typing import Any, ClassVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError

from langchain_rse.text.quoting import first_few, shortened, visible

# Modules to skip on the way from the line that warns to the user's line.
_LIBRARIES = ("langchain_rse.", "langchain_core.", "pydantic.", "asyncio.", "concurrent.")

# Ends of the names of pydantic's problems with the type of a value.
_WRONG_TYPES = ("_type", "instance_of", "sequence_str")


def problems_of(error: ValidationError) -> str:
    """List the problems that pydantic found, each with the path of its field and the value."""
    problems = []
    for problem in error.errors():
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "json_invalid":
            message = "it is not JSON"  # without the parser's words
        if problem["loc"]:
            path = visible(".".join(map(str, problem["loc"])))
            is_unknown = problem["type"] == "extra_forbidden"
            colon = ":" if problem["type"] == "value_error" else ""
            message = f"unknown argument {path}" if is_unknown else f"{path}{colon} {message}"
        message = _plain(message)
        if problem["type"] not in {"missing", "value_error"}:
            message += f"; got {shown(problem['input'])}"
        problems.append(message)
    return first_few(problems)


@contextmanager
def in_a_sentence(subject: str) -> Iterator[None]:
    """Say in one sentence what pydantic says in a block."""
    try:
        yield
    except ValidationError as error:
        raise _error_class(error)(f"{subject}: {problems_of(error)}") from None


def _error_class(error: ValidationError) -> type[TypeError | ValueError]:
    """Return TypeError if no type of the field allows the value, and ValueError otherwise."""
    are_types = all(each["type"].endswith(_WRONG_TYPES) for each in error.errors())
    return TypeError if are_types else ValueError


class _Bare(str):
    """A text that is printed without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Signature(Signature):
    """A signature that prints one parameter a line."""

    def __str__(self) -> str:
        parameters = ",\n    ".join(map(str, self.parameters.values()))
        return f"(\n    *,\n    {parameters},\n)"


class Printed:
    """An object that prints as several lines; its ``repr`` is the first."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).splitlines()[0]}>"


class Checked(BaseModel):
    """A model whose errors are one sentence: name, allowed, given.

    A value of a wrong type is a TypeError; any other wrong value or name is a ValueError.
    """

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", strict=True, use_attribute_docstrings=True
    )

    # What to write instead of an unknown name, for a missing field, or (as "()") instead of
    # arguments without names.
    _advice: ClassVar[Mapping[str, str]] = {}

    def __init__(self, *values: object, **fields: Any) -> None:  # noqa: ANN401 - of any type
        if values:
            example = self._advice.get("()", f"{next(iter(type(self).__annotations__))}=...")
            raise TypeError(f"{type(self).__name__} takes its arguments by name: {example}")
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
            if name not in self.model_fields_set or value == field.default:
                continue
            if not field.repr:
                value = _Bare(f"<{shown(value).removeprefix('a ')}>")
            elif not isinstance(value, (*_SHOWN, Checked)):
                value = _Bare(getattr(value, "__name__", type(value).__name__))
            yield name, value

    def __str__(self) -> str:
        return repr(self)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        """Give the class a signature that people can read, without the constraints of fields."""
        annotations = {name: field.annotation for name, field in cls.model_fields.items()}
        # This function takes the constraints out of the types.
        types = get_type_hints(SimpleNamespace(__annotations__=annotations))
        parameters = []
        # First the fields of the class, then of each of its bases.
        names = itertools.chain.from_iterable(inspect.get_annotations(base) for base in cls.__mro__)
        for name in filter(cls.model_fields.get, dict.fromkeys(names)):
            field = cls.model_fields[name]
            default: Any = Parameter.empty if field.is_required() else field.default
            if field.default_factory is not None:
                default = _Bare(f"{field.default_factory.__name__}()")
            elif default is len:
                default = _Bare("len")
            # Types without their modules.
            annotation = _Bare(re.sub(r"\w+\.", "", inspect.formatannotation(types[name])))
            kind = Parameter.KEYWORD_ONLY
            parameters.append(Parameter(name, kind, default=default, annotation=annotation))
        cls.__signature__ = _Signature(parameters)

    @classmethod
    def _error_of(cls, error: ValidationError) -> TypeError | ValueError:
        """Return the error of a check, or say in a sentence what pydantic allows for a field."""
        problems = error.errors()
        # Of a field with several types, each has a problem; that of an item is more exact.
        problem = max(reversed(problems), key=lambda each: len(each["loc"]))
        if problem["type"] == "value_error":
            raised: ValueError = problem["ctx"]["error"]
            return raised
        name = str(problem["loc"][0])
        if name not in cls.model_fields:
            return ValueError(explain_unknown(name, cls.model_fields, cls._advice))
        if problem["type"] == "missing":
            advice = cls._advice.get(name, f"Pass {cls.__name__}({name}=...)")
            return ValueError(f"{name} is missing. {advice}")
        depth = len(problem["loc"])
        allowed = []
        for each in problems:
            if each["loc"][0] == name and len(each["loc"]) == depth:
                allowed.append(each["msg"].partition(" should ")[2].partition(" after ")[0])
        subject = name
        if isinstance(problem["loc"][-1], int) or depth > 3:  # noqa: PLR2004 - field, type, key
            subject = f"{name}: each item"
        elif NoneType in get_args(cls.model_fields[name].annotation):
            allowed.append("None")
        sentence = f"{subject} must {' or '.join(filter(None, dict.fromkeys(allowed)))}"
        if not allowed[0]:
            sentence = f"{name} {problem['msg']}"
        return _error_class(error)(f"{_plain(sentence)}; got {shown(problem['input'])}")


_LONGEST_SHOWN = 100
# Types whose values are shown in messages; of others, the type is.
_SHOWN = (str, int, float, list, tuple, set, dict, NoneType)

_PLAIN_WORDS = {
    " or be ": " or ",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "a valid dictionary or instance": "an instance",
    "a valid dictionary or object to extract fields from": "Greedy(...) or BestSegment(...) of "
    "langchain_rse.config",
    ", unable to parse string as an integer": " (pass a quotation as text=)",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "True or False",
    "a valid array": "a list",
    "a valid ": "a ",
    "an instance of BaseStore or a dictionary": "a list of Documents, a dict by id, a docstore",
    "a docstore or an instance of Sequence or None": "a docstore or None; for one document, "
    "[document]",
    "an instance of Sequence": "a list",
    "an instance of Document": "a Document",
    "metadata must be": "metadata (for texts: metadatas) must be",
    "'str' instances are not allowed as a Sequence value": "must be a list",
    "String should match pattern '\\S'": "must not be blank",
    "Input should": "must",
    "String should": "must",
    "Field required": "is missing",
    "evidence is missing": "evidence is missing; [] if the documents do not answer the question",
    "evidence must be a list": 'evidence must be a list, such as [Evidence("a.txt", text="a '
    'quotation")]',
    "Field is frozen": "cannot be changed: make a new object",
    "Instance is frozen": "cannot be changed: make a new object",
    "a dictionary or an instance of Evidence": 'like {"doc_id": "a.txt", "text": "a quotation"}',
    "an instance of VectorStore or None": "a VectorStore, such as "
    "Chroma(...) (or pass a retriever as base_retriever)",
    "an instance of BaseDocumentCompressor": "a reranker, such as CohereReranker(model=...) of "
    "langchain_rse.rerankers,",
    "base_retriever must be an instance of Runnable": "base_retriever must be a retriever, such as "
    "vectorstore.as_retriever(search_kwargs={'k': 200}),",
    "query_generator must be an instance of Runnable": "query_generator must be a Runnable from a "
    "string to a list of strings, such as RunnableLambda(function),",
    "llm must be an instance of Runnable": "llm must be a chat model",
    "be callable": "be a function of a text, such as len",
}


def _plain(sentence: str) -> str:
    """Put what pydantic says in words of Python."""
    for words, plain in _PLAIN_WORDS.items():
        sentence = sentence.replace(words, plain)
    return sentence


def explain_unknown(name: str, allowed: Collection[str], instead: Mapping[str, str]) -> str:
    """Say what to write instead of an unknown argument."""
    near = difflib.get_close_matches(name, allowed, n=1)
    explained = difflib.get_close_matches(name, instead, n=1)  # the name itself is nearest
    if name in instead or (explained and not near):
        advice = instead[explained[0]]
    elif near:
        advice = f"did you mean {near[0]}?"
    else:
        advice = f"allowed: {', '.join(sorted(allowed))}"
    return f"unknown argument {name!r}: {advice}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Suggest the most similar name, after a semicolon; "" if none is."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def shown(value: object) -> str:
    """Show a wrong value, or name its type; for a class, say that an object of it is needed."""
    if isinstance(value, type):
        return f"the class {value.__name__}: pass an object, {value.__name__}(...)"
    text = repr(value)
    if not isinstance(value, _SHOWN) or "://" in text:  # an address may contain a password
        return type(value).__name__
    if len(text) > _LONGEST_SHOWN and isinstance(value, (list, tuple, set, dict)):
        return f"a {type(value).__name__} of {len(value)}, with {shown(next(iter(value)))}"
    return shortened(text, _LONGEST_SHOWN)


def check_type(name: str, value: object, expected: Any, allowed: str) -> None:  # noqa: ANN401
    """Raise a TypeError unless a value has an expected type, or one of them; no class has."""
    if isinstance(value, type) or not isinstance(value, expected):
        raise TypeError(f"{name} must be {allowed}; got {shown(value)}")


def model_name(model: object) -> str:
    """Name a model by the field in which LangChain's classes do; empty if there is none."""
    for field in ("model_name", "model", "model_id"):
        name = getattr(model, field, None)
        if isinstance(name, str):
            return name
    return ""


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
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        message = f"{feature} needs {package}: pip install 'langchain-rse[{extra}]'"
        raise ImportError(message) from error


Advance = Callable[[int], object]
"""Advances a progress bar by a number of items."""


def no_progress(count: int) -> None:
    """Count nothing: no progress bar is shown."""


@contextmanager
def progress_bar(total: int | None, *, unit: str, title: str, show: bool) -> Iterator[Advance]:
    """Show a progress bar if ``show`` is True; yield the function that advances it."""
    if not show:
        yield no_progress
        return
    tqdm = load("tqdm", "progress", "show_progress=True").tqdm
    with tqdm(total=total, unit=f" {unit}", desc=title, leave=False) as bar:
        yield bar.update
