"""Keeps the passages of a conversation within one budget."""

import itertools
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import BaseTool

from langchain_rse._messages import check_type
from langchain_rse.stores.records import RELEVANCE_SCORE
from langchain_rse.tools.conversation import ShownPassage, passages_in, remove_passages
from langchain_rse.tools.search import shared_by

_CITED = re.compile(r"\[(\d{1,6}(?:\s*,\s*\d{1,6})*)\]")
# When the budget is exceeded, older passages keep this share of what the new ones leave, so that
# the next requests begin alike.
_SHARE_OF_OLD = 0.7

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command
except ImportError as error:
    raise ImportError(
        "RSEMiddleware is for LangChain's create_agent: pip install 'langchain>=1.0.2'"
    ) from error

_ToolResult: TypeAlias = ToolMessage | Command[Any]


@dataclass
class _Item:
    """A passage in a conversation."""

    passage: ShownPassage
    position: int  # of its message
    length: float
    last_use: int  # position of the last message that shows or cites it
    is_needed: bool = True  # False if the model has answered without it
    is_removed: bool = False

    @property
    def order(self) -> tuple[bool, int, float]:
        """Of the order in which passages are removed."""
        value: float = self.passage.metadata[RELEVANCE_SCORE]
        return self.is_needed, self.last_use, value


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
        check_type("max_context_length", max_context_length, (int, float), "a number")
        self.tools = tools
        self._max_context_length = max_context_length
        self._length_function = shared_by(tools[0]).length_function
        self._limit_of = {}
        for tool in tools:
            limit, length_function, *_ = shared_by(tool)
            if not limit <= max_context_length:
                raise ValueError(
                    f"max_context_length must be at least that of the tool {tool.name!r}, "
                    f"{limit:,}; got {max_context_length!r}"
                )
            if length_function != self._length_function:
                raise ValueError("all tools must measure lengths by one length_function")
            self._limit_of[tool.name] = limit

    def __repr__(self) -> str:
        names = ", ".join(self._limit_of)
        return f"RSEMiddleware({names}, max_context_length={self._max_context_length})"

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse:
        """Show the model the passages within the budget."""
        return handler(request.override(messages=self._fit(request.messages)))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Show the model the passages within the budget."""
        return await handler(request.override(messages=self._fit(request.messages)))

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

    def _fit_tool_request(self, request: ToolCallRequest) -> ToolCallRequest:
        if request.tool_call["name"] not in self._limit_of:
            return request
        messages = request.state["messages"]
        # The answers of this call and of parallel calls may displace passages; the tool must not
        # refer to displaced passages.
        answers = [message for message in messages if isinstance(message, AIMessage)]
        reserved: float = 0
        for call in answers[-1].tool_calls:
            reserved += self._limit_of.get(call["name"], 0)
        state = {**request.state, "messages": self._fit(messages, reserved)}
        runtime = replace(request.runtime, state=state)
        return replace(request, state=state, runtime=runtime)

    def _fit(self, messages: Sequence[AnyMessage], reserved: float = 0) -> list[AnyMessage]:
        """Copy messages, with a line in place of the passages of each that are beyond the budget.

        Repeats the decisions of all earlier requests, so that a request begins as the one before
        it unless the budget is exceeded again.

        Args:
            messages: The conversation.
            reserved: Maximum length of answers that follow.
        """
        items: list[_Item] = []
        first_new = 0
        for position, message in enumerate(messages):
            if isinstance(message, AIMessage):
                self._remove(items, first_new)
                first_new = len(items)
                # Claude cites the titles of blocks, which are in the content too.
                listed = ",".join(_CITED.findall(str(message.content)))
                cited = {int(number) for number in listed.split(",") if number}
                for item in items:
                    if item.passage.number in cited:
                        item.last_use = position
                    if not message.tool_calls:
                        item.is_needed = item.last_use > item.position
            for passage in passages_in([message]):
                if passage.is_shown:
                    length = self._length_function(passage.text)
                    items.append(_Item(passage, position, length, last_use=position))
        self._remove(items, first_new, reserved)
        fitted = list(messages)
        removed = [item for item in items if item.is_removed]
        for position, group in itertools.groupby(removed, lambda item: item.position):
            message = messages[position]
            content = remove_passages(message.content, [item.passage for item in group])
            fitted[position] = message.model_copy(update={"content": content})
        return fitted

    def _remove(self, items: Sequence[_Item], first_new: int, reserved: float = 0) -> None:
        """Remove passages beyond the budget; the new ones stay as far as possible."""
        old = [item for item in items[:first_new] if not item.is_removed]
        new = items[first_new:]
        room_of_old = self._max_context_length - reserved - _length(new)
        if _length(old) > room_of_old:
            _shorten(old, _SHARE_OF_OLD * room_of_old)
            _shorten(new, self._max_context_length)


def _length(items: Iterable[_Item]) -> float:
    return sum(item.length for item in items)


def _shorten(items: Sequence[_Item], room: float) -> None:
    """Remove passages until the others fit."""
    excess = _length(items) - room
    for item in sorted(items, key=lambda item: item.order):
        if excess <= 0:
            break
        excess -= item.length
        item.is_removed = True
