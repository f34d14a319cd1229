"""Asking a language model for an answer of a given form, again where it is not one."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard, TypeVar

from langchain_core.callbacks import Callbacks
from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel, TypeAdapter, ValidationError

from langchain_rse._steps import Steps, call, within

__all__ = [
    "Attempt",
    "Failure",
    "UnusableAnswerError",
    "ask",
    "attempts",
    "read_objects",
    "text_of",
    "without_thoughts",
]

logger = logging.getLogger(__name__)

T = TypeVar("T")
B = TypeVar("B", bound=BaseModel)

Attempt = tuple[Runnable[Any, Any], str]
"""What to ask, and its instructions."""

# Long enough to tell what is wrong; an answer that cannot be read may be quoted in full.
_LONGEST_REASON = 500
_OPENING = re.compile(r"[\[{]")
_END_OF_THOUGHTS = re.compile(r"</think(?:ing)?>")
_THOUGHTS = re.compile(rf"(?s)^.*{_END_OF_THOUGHTS.pattern}")
# What stands in front of a value in an array.
_WITHIN_ARRAY = re.compile(r"(?:\[|[}\]]\s*,)\s*\Z")
_LOOKED_BACK = 100


class UnusableAnswerError(ValueError):
    """The model answered something else than what it was asked for."""


class Failure(NamedTuple):
    """Why there is no usable answer."""

    reason: str


def attempts(
    llm: Runnable[Any, Any],
    instructions: str,
    *,
    retries: int,
    schema: type[BaseModel] | None = None,
    in_json: str = "",
) -> list[Attempt]:
    """What to ask, one time after the other.

    Args:
        llm: The model.
        instructions: What it is told.
        retries: How often to ask again.
        schema: The form of the answer where the model has structured output; None for none.
        in_json: Says the form in words, for where it is not used.
    """
    in_text = (llm, f"{instructions}\n\n{in_json}" if in_json else instructions)
    all_in_text = [in_text] * (1 + retries)
    # Bindings and sequences would lose what they bind.
    if schema is None or not isinstance(llm, BaseLanguageModel):
        return all_in_text
    try:
        structured = llm.with_structured_output(schema)
    except NotImplementedError:
        return all_in_text
    # The last retry stays in text: servers take a schema and ignore it, or refuse it.
    times = max(1, retries)
    return [(structured, instructions)] * times + all_in_text[times:]


def ask(
    tries: Sequence[Attempt],
    request: str,
    read: Callable[[object], T],
    complaint: Callable[[int], str],
    *,
    callbacks: Callbacks | None = None,
    timeout: float | None = None,
) -> Steps[T | Failure]:
    """Ask until an answer can be read.

    Args:
        tries: What to ask, see `attempts`.
        request: The message after the instructions.
        read: From an answer to what is wanted; raises ValueError if it is not there.
        complaint: What to add when so many answers could not be read.
        callbacks: Callbacks of the model's runs.
        timeout: Seconds to wait for an answer. A model that is silent is not asked again.

    Returns:
        What was read; or why nothing was, whatever the model raised.
    """
    added = ""
    reason = ""
    for asked, (model, instructions) in enumerate(tries, 1):
        # Without the complaint, a cache or a model without chance would say the same again.
        messages = [SystemMessage(instructions), HumanMessage(request + added)]
        config = RunnableConfig(callbacks=callbacks)
        try:
            if timeout is None:
                answer = yield from call(model.invoke, model.ainvoke, messages, config)
            else:
                answer = yield from within(timeout, model.invoke, model.ainvoke, messages, config)
            return read(answer)
        except TimeoutError as error:
            reason = _reason(error)
            if timeout is not None:
                return Failure(reason)
        except Exception as error:  # noqa: BLE001 - whatever models raise
            reason = _reason(error)
            logger.debug("an answer could not be used: %s", reason)
            if isinstance(error, ValueError):  # of a parser; clients raise others
                added = f"\n\n{complaint(asked)}"
    return Failure(f"{reason} (asked {len(tries)} times)")


def _reason(error: Exception) -> str:
    name = "" if isinstance(error, UnusableAnswerError) else f"{type(error).__name__}: "
    reason = " ".join(f"{name}{error}".split())
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 3]}..."


def text_of(answer: object) -> object:
    """The text of a message; anything else as it is."""
    return str(answer.text) if isinstance(answer, BaseMessage) else answer


def without_thoughts(text: str) -> str:
    """What stands behind a model's thoughts, which end with ``</think>``."""
    return _THOUGHTS.sub("", text)


def read_objects(answer: object, form: TypeAdapter[list[B]], *, key: str, name: str) -> list[B]:
    """The objects of one kind that an answer lists.

    Args:
        answer: A message or string that holds JSON, or what JSON stands for: a model, a dict
            or a list. The objects may stand in a list, in an object under any name, or, if it
            is one, alone. Of several such, the last counts: what comes before may be a draft.
            Thoughts are no part of the answer, nor is a list that was cut off.
        form: A list of the objects.
        key: A field that every object has.
        name: What an object is called, for errors.

    Returns:
        The objects, none if the list is empty.

    Raises:
        UnusableAnswerError: If there is no such list, or an object in it has another form.
    """
    value = text_of(answer)
    if isinstance(value, BaseModel):
        value = value.model_dump()
    values = _answered(value) if isinstance(value, str) else [value]
    listed = [entries for each in values if (entries := _entries(each, key)) is not None]
    if not listed:
        raise UnusableAnswerError(f"the answer holds no {name}s: {value!r}")
    try:
        return form.validate_python(listed[-1])
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = ".".join(map(str, wrong["loc"]))
        raise UnusableAnswerError(f"{name} {place} of the answer: {wrong['msg']}") from error


def _entries(value: object, key: str) -> list[Any] | None:
    """The list of objects that a JSON value is, or holds under any one name."""
    if isinstance(value, dict):
        if key in value:
            return [value]
        lists = [item for item in value.values() if _is_list(item)]
        return lists[0] if len(lists) == 1 else None
    return value if _is_list(value) else None


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _answered(text: str) -> list[object]:
    """The JSON objects and arrays of an answer; not those of its thoughts."""
    found = list(_json_values(text))
    # What an answer quotes ends no thoughts.
    ends = [
        tag.start()
        for tag in _END_OF_THOUGHTS.finditer(text)
        if not any(start < tag.start() < end for start, end, _ in found)
    ]
    return [value for start, _, value in found if start > max(ends, default=-1)]


def _json_values(text: str) -> Iterator[tuple[int, int, object]]:
    """The outermost JSON objects and arrays in a text, whatever stands around them.

    Each with its place. Those in an array that cannot be read are left out.
    """
    # Models write line breaks in strings, which strict JSON forbids.
    decoder = json.JSONDecoder(strict=False)
    position = 0
    while opening := _OPENING.search(text, position):
        position = start = opening.start() + 1
        try:
            value, position = decoder.raw_decode(text, start - 1)
        except ValueError:
            continue
        except RecursionError:  # no answer is nested so deeply, and each level would be tried
            return
        if not _WITHIN_ARRAY.search(text, max(0, start - _LOOKED_BACK), start - 1):
            yield start - 1, position, value
