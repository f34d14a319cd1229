"""Asking a language model for an answer of a given form, again where it is not one."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from langchain_core.callbacks import Callbacks
from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel

from langchain_rse._steps import Steps, call, within

__all__ = ["Attempt", "Failure", "UnusableAnswerError", "ask", "attempts", "json_values", "text_of"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

Attempt = tuple[Runnable[Any, Any], str]
"""What to ask, and its instructions."""

# Long enough to tell what is wrong; an answer that cannot be read may be quoted in full.
_LONGEST_REASON = 500
_OPENING = re.compile(r"[\[{]")


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


def json_values(text: str) -> Iterator[object]:
    """The outermost JSON objects and arrays in a text, whatever stands around them."""
    # Models write line breaks in strings, which strict JSON forbids.
    decoder = json.JSONDecoder(strict=False)
    position = 0
    while opening := _OPENING.search(text, position):
        position = opening.start() + 1
        try:
            value, position = decoder.raw_decode(text, opening.start())
        except ValueError:
            continue
        except RecursionError:  # no answer is nested so deeply, and each level would be tried
            return
        yield value
