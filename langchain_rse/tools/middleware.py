"""Keeps the passages of a conversation within one budget."""

import itertools
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import BaseTool

from langchain_rse.stores.records import RELEVANCE_SCORE
from langchain_rse.tools.citations import locate_citations
from langchain_rse.tools.conversation import ReadPassage, passages_in, remove_passages
from langchain_rse.tools.search import limit_of

_CITED = re.compile(r"\[(\d{1,6}(?:\s*,\s*\d{1,6})*)\]")
# Text is removed in steps of this share of the budget, so that the next requests begin alike.
_STEP = 0.3

_TO_INSTALL = "RSEMiddleware is for LangChain's create_agent: pip install 'langchain>=1.0.2'"

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command
except ImportError as error:
    raise ImportError(_TO_INSTALL) from error

_ToolResult: TypeAlias = ToolMessage | Command[Any]


@dataclass
class _Item:
    """A passage in a conversation."""

    passage: ReadPassage
    position: int  # of its message
    length: float
    last_use: int  # position of the last message that shows or cites it
    is_needed: bool = False  # the model has cited it, or has not answered yet

    @property
    def value(self) -> float:
        """Its relevance."""
        return float(self.passage.metadata[RELEVANCE_SCORE])


class RSEMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Keep the passages of a whole conversation within one budget, in LangChain's `create_agent`.

    When the budget is exceeded, the newest passages stay, as far as they fit. Of the older ones,
    those that the model cited stay longest, then the newest. More are removed than necessary, so
    that the next requests begin alike and providers' prompt caches hold.

    A line in place of removed passages lists their numbers and tells the model to search again; the
    tool then shows a removed passage again if it finds it.

    Only the model's input changes: the messages and artifacts in the agent's state keep all
    passages, so that quotations and citations can be checked.

    ``create_agent(model, middleware=[RSEMiddleware(tool, max_context_length=12_000)])`` also adds
    the tools to the agent; do not pass them again as ``tools``.

    Args:
        tools: Tools from `create_rse_tool` or `create_rse_tools`.
        max_context_length: The budget for all passages that the model reads at once, headings
            included, in the units of the tools' ``length_function``. At least the budget of each
            tool. The lines for removed passages do not count.

    Raises:
        TypeError: If a tool is from elsewhere.
        ValueError: If no tool is given, a tool has a larger ``max_context_length``, or the tools
            have different length functions.
    """

    def __init__(self, *tools: BaseTool, max_context_length: float) -> None:
        super().__init__()
        if not tools:
            raise ValueError("RSEMiddleware needs at least one tool from create_rse_tool")
        self.tools = tools
        self._max_context_length = max_context_length
        self._length_function = limit_of(tools[0]).length_function
        self._limit_of: dict[str, float] = {}
        for tool in tools:
            limit = limit_of(tool)
            if not limit.max_context_length <= max_context_length:
                raise ValueError(
                    f"max_context_length={max_context_length!r} must be at least the "
                    f"max_context_length of the tool {tool.name!r}, {limit.max_context_length!r}. "
                    "Pass a smaller max_context_length to create_rse_tool"
                )
            if limit.length_function != self._length_function:
                raise ValueError(
                    f"all tools must have the same length_function; got {self._length_function!r} "
                    f"for {tools[0].name!r} and {limit.length_function!r} for {tool.name!r}"
                )
            self._limit_of[tool.name] = limit.max_context_length

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse:
        """Show the model the passages within the budget."""
        return handler(self._fit_model_request(request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Show the model the passages within the budget."""
        return await handler(self._fit_model_request(request))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _ToolResult]
    ) -> _ToolResult:
        """Let a tool skip only passages that the model can still read after its answer."""
        return handler(self._fit_tool_request(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[_ToolResult]]
    ) -> _ToolResult:
        """Let a tool skip only passages that the model can still read after its answer."""
        return await handler(self._fit_tool_request(request))

    def _fit_model_request(self, request: ModelRequest) -> ModelRequest:
        return request.override(messages=self._fit(request.messages))

    def _fit_tool_request(self, request: ToolCallRequest) -> ToolCallRequest:
        if request.tool_call["name"] not in self._limit_of:
            return request
        messages = request.state["messages"]
        # The answers of this call and of parallel calls may displace passages; the tool must not
        # refer to displaced passages.
        calls = next(each.tool_calls for each in reversed(messages) if isinstance(each, AIMessage))
        reserved = sum(self._limit_of.get(call["name"], 0) for call in calls)
        state = {**request.state, "messages": self._fit(messages, reserved)}
        return replace(request, state=state, runtime=replace(request.runtime, state=state))

    def _fit(self, messages: Sequence[AnyMessage], reserved: float = 0) -> list[AnyMessage]:
        """Copy messages, with a line in place of the passages of each that are beyond the budget.

        Args:
            messages: The conversation.
            reserved: Maximum length of answers that follow.
        """
        items: list[_Item] = []
        first_new = first_unanswered = 0
        for position, message in enumerate(messages):
            if isinstance(message, AIMessage):
                _note_uses(message, position, items)
                first_new = len(items)
                if not message.tool_calls:
                    first_unanswered = len(items)
            for passage in passages_in([message]):
                if passage.is_shown:
                    length = self._length_function(passage.text)
                    items.append(_Item(passage, position, length, last_use=position))
        for item in items[first_unanswered:]:
            item.is_needed = True
        old, new = items[:first_new], items[first_new:]
        excess = _length(items) + reserved - self._max_context_length
        step = self._max_context_length * _STEP
        old.sort(key=lambda item: (item.is_needed, item.last_use, item.value))
        removed = _first_of_length(old, math.ceil(excess / step) * step)
        new.sort(key=lambda item: item.value)
        removed += _first_of_length(new, _length(new) - self._max_context_length)
        fitted = list(messages)
        removed.sort(key=lambda item: (item.position, item.passage.number))
        for position, group in itertools.groupby(removed, lambda item: item.position):
            message = messages[position]
            content = remove_passages(message.content, [item.passage for item in group])
            fitted[position] = message.model_copy(update={"content": content})
        return fitted


def _note_uses(answer: AIMessage, position: int, items: Sequence[_Item]) -> None:
    """Note which passages the model cites."""
    listed = ",".join(_CITED.findall(str(answer.text)))
    numbers = {int(number) for number in listed.split(",") if number}
    citations = locate_citations(answer, [item.passage.passage for item in items])
    numbers.update(citation.number or 0 for citation in citations)
    for item in items:
        if item.passage.number in numbers:
            item.is_needed = True
            item.last_use = position


def _length(items: Iterable[_Item]) -> float:
    return sum(item.length for item in items)


def _first_of_length(items: Iterable[_Item], length: float) -> list[_Item]:
    """Return as many items as have at least this length together, or all."""
    first: list[_Item] = []
    for item in items:
        if length <= 0:
            break
        length -= item.length
        first.append(item)
    return first
