"""Keeps the passages that an agent reads in a conversation within one budget."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import BaseTool

from langchain_rse.tools.conversation import (
    ShownChunk,
    ShownPassage,
    passages_in,
    replace_passages,
)
from langchain_rse.tools.search import limit_of

_TO_INSTALL = "RSEMiddleware is for LangChain's create_agent: pip install 'langchain>=1.0.2'"

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command
except ImportError as error:
    raise ImportError(_TO_INSTALL) from error
# In these, tools do not read the state that a middleware gives them.
if version("langchain") in {"1.0.0", "1.0.1"}:
    raise ImportError(_TO_INSTALL)

_ToolResult: TypeAlias = ToolMessage | Command[Any]


class RSEMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Keep the passages of a whole conversation within one budget, in LangChain's `create_agent`.

    The newest passages stay whole, as far as the budget goes. In the place of older ones, the model
    reads a line in each message that lists their numbers and says to search again; so does the
    tool, which then shows such a passage again if it finds it. Calls in parallel that find the same
    passage show it once. All this changes what the model reads, not the agent's state: its messages
    and artifacts keep all passages, to check quotations and citations.

    ``create_agent(model, middleware=[RSEMiddleware(tool, max_context_length=12_000)])`` gives the
    tools to the agent; they are not given to it a second time.

    Args:
        tools: Tools from `create_rse_tool`.
        max_context_length: The most text of all passages that the model reads at once, with their
            headings, in the units of the tools' ``length_function``. At least that of each tool.
            The lines in place of passages, one or few in a message, are not counted.

    Raises:
        TypeError: If a tool is not from `create_rse_tool`.
        ValueError: If there is no tool, a tool has no ``max_context_length`` or a greater one, or
            the tools measure text with different functions.
    """

    def __init__(self, *tools: BaseTool, max_context_length: float) -> None:
        super().__init__()
        if not tools:
            raise ValueError("RSEMiddleware needs a tool from create_rse_tool; got none")
        self.tools = tools
        self._max_context_length = max_context_length
        self._length_function = limit_of(tools[0]).length_function
        self._limit_of: dict[str, float] = {}
        for tool in tools:
            limit = limit_of(tool)
            if not limit.max_context_length <= max_context_length:
                raise ValueError(
                    f"max_context_length of a conversation must be at least that of the tool "
                    f"{tool.name!r}; got {max_context_length!r}, and {limit.max_context_length!r} "
                    "of the tool: give create_rse_tool a smaller max_context_length"
                )
            if limit.length_function != self._length_function:
                raise ValueError(
                    f"all tools must have the same length_function; got {self._length_function!r} "
                    f"and, of the tool {tool.name!r}, {limit.length_function!r}"
                )
            self._limit_of[tool.name] = limit.max_context_length

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse:
        """Let the model read the passages that are within the budget."""
        return handler(self._fit_model_request(request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Let the model read the passages that are within the budget."""
        return await handler(self._fit_model_request(request))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _ToolResult]
    ) -> _ToolResult:
        """Let a tool count the passages as shown that the model still reads after its answer."""
        return handler(self._fit_tool_request(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[_ToolResult]]
    ) -> _ToolResult:
        """Let a tool count the passages as shown that the model still reads after its answer."""
        return await handler(self._fit_tool_request(request))

    def _fit_model_request(self, request: ModelRequest) -> ModelRequest:
        return request.override(messages=self._fit(request.messages, self._max_context_length))

    def _fit_tool_request(self, request: ToolCallRequest) -> ToolCallRequest:
        if request.tool_call["name"] not in self._limit_of:
            return request
        messages = request.state["messages"]
        # The answers of this call and of those beside it will push out older passages, to which
        # the tool must not refer.
        room = self._max_context_length
        calls = next(each.tool_calls for each in reversed(messages) if isinstance(each, AIMessage))
        for call in calls:
            room -= self._limit_of.get(call["name"], 0)
        state = {**request.state, "messages": self._fit(messages, room)}
        return replace(request, state=state, runtime=replace(request.runtime, state=state))

    def _fit(self, messages: Sequence[AnyMessage], room: float) -> list[AnyMessage]:
        """Copy messages, with lines in place of the passages for which there is no room.

        After the first that does not fit, no older one stays: the request changes least if its
        beginning stays as it was in the last one.
        """
        removed: dict[int, list[ShownPassage]] = {}  # by the position of the message
        lines: dict[int, dict[int, str]] = {}  # by the position of the message, and the part
        shown: dict[ShownChunk, int] = {}
        for position, part, passage in _newest_first(messages):
            if passage.chunks <= shown.keys():
                others = sorted({shown[chunk] for chunk in passage.chunks})
                line = f"Shown as {_listed(others)}: [{passage.number}]."
                lines.setdefault(position, {})[part] = line
                continue
            if room >= 0:
                room -= self._length_function(passage.text)
            if room >= 0:
                shown.update(dict.fromkeys(passage.chunks, passage.number))
            else:
                removed.setdefault(position, []).append(passage)
                lines.setdefault(position, {})[part] = ""
        for position, passages in removed.items():
            # One line for all: in a long conversation, a line for each would outgrow the passages.
            first = min(passage.part for passage in passages if passage.part is not None)
            numbers = _listed(sorted(passage.number for passage in passages))
            lines[position][first] = f"Removed to make room: {numbers}. Search again to read it."
        fitted = list(messages)
        for position, lines_of_message in lines.items():
            message = messages[position]
            content = replace_passages(message.content, lines_of_message)
            fitted[position] = message.model_copy(update={"content": content})
        return fitted


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(f"[{number}]" for number in numbers)


def _newest_first(messages: Sequence[AnyMessage]) -> Iterator[tuple[int, int, ShownPassage]]:
    """Yield the passages that a conversation shows, with the positions of message and part.

    Those that the model reads for the first time together are in the order of their values.
    """
    steps: list[list[tuple[int, int, ShownPassage]]] = [[]]
    for position, message in enumerate(messages):
        if isinstance(message, AIMessage):
            steps.append([])
        for passage in passages_in(message):
            if passage.part is not None:
                steps[-1].append((position, passage.part, passage))
    for step in reversed(steps):
        yield from sorted(step, key=lambda found: -found[2].value)
