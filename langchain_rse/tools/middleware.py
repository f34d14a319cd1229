"""Keeps the passages of a conversation within one budget."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import BaseTool

from langchain_rse.tools.conversation import (
    VisibleChunk,
    VisiblePassage,
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
# In these versions, tools ignore the state from a middleware.
if version("langchain") in {"1.0.0", "1.0.1"}:
    raise ImportError(_TO_INSTALL)

_ToolResult: TypeAlias = ToolMessage | Command[Any]


class RSEMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Keep the passages of a whole conversation within one budget, in LangChain's `create_agent`.

    The newest passages stay whole, as far as the budget allows. A line in each older message lists
    the numbers of its removed passages and tells the model to search again; the tool then shows a
    removed passage again if it finds it. If parallel calls find the same passage, it is shown once.
    Only the model's input changes: the messages and artifacts in the agent's state keep all
    passages, so that quotations and citations can be checked.

    ``create_agent(model, middleware=[RSEMiddleware(tool, max_context_length=12_000)])`` also adds
    the tools to the agent; do not pass them again as ``tools``.

    Args:
        tools: Tools from `create_rse_tool`.
        max_context_length: The budget for all passages that the model reads at once, headings
            included, in the units of the tools' ``length_function``. At least the budget of each
            tool. The lines for removed passages do not count.

    Raises:
        TypeError: If a tool is not from `create_rse_tool`.
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
        return request.override(messages=self._fit(request.messages, self._max_context_length))

    def _fit_tool_request(self, request: ToolCallRequest) -> ToolCallRequest:
        if request.tool_call["name"] not in self._limit_of:
            return request
        messages = request.state["messages"]
        # The answers of this call and of parallel calls will displace older passages; the tool must
        # not refer to displaced passages.
        room = self._max_context_length
        calls = next(each.tool_calls for each in reversed(messages) if isinstance(each, AIMessage))
        for call in calls:
            room -= self._limit_of.get(call["name"], 0)
        state = {**request.state, "messages": self._fit(messages, room)}
        return replace(request, state=state, runtime=replace(request.runtime, state=state))

    def _fit(self, messages: Sequence[AnyMessage], room: float) -> list[AnyMessage]:
        """Copy messages, with lines in place of passages beyond the budget.

        Once a passage does not fit, all older ones are removed, so that the beginning of the
        request changes as little as possible.
        """
        removed: dict[int, list[VisiblePassage]] = {}  # by the position of the message
        lines: dict[int, dict[int, str]] = {}  # by the position of the message, and the part
        shown: dict[VisibleChunk, int] = {}
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
            # One line per message: one per passage would outgrow a long conversation's budget.
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


def _newest_first(messages: Sequence[AnyMessage]) -> Iterator[tuple[int, int, VisiblePassage]]:
    """Yield the passages in a conversation, with the positions of message and part.

    Passages of the same step come in the order of their values.
    """
    steps: list[list[tuple[int, int, VisiblePassage]]] = [[]]
    for position, message in enumerate(messages):
        if isinstance(message, AIMessage):
            steps.append([])
        for passage in passages_in(message):
            if passage.part is not None:
                steps[-1].append((position, passage.part, passage))
    for step in reversed(steps):
        yield from sorted(step, key=lambda found: -found[2].value)
