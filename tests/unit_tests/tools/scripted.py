"""A chat model that calls tools as a script says, and notes what it reads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field
from typing_extensions import override


class ScriptedModel(BaseChatModel):
    """Answers with the next message of its script; each is the arguments of calls, or a text."""

    script: list[str | list[dict[str, Any]]]
    read: list[list[BaseMessage]] = Field(default_factory=list)
    tools: list[Any] = Field(default_factory=list)
    tool: str = "search_documents"

    @property
    @override
    def _llm_type(self) -> str:
        return "scripted"

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        self.tools[:] = tools
        return self

    @override
    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.read.append(list(messages))
        step = self.script[len(self.read) - 1]
        if isinstance(step, str):
            message = AIMessage(step)
        else:
            ids = (f"call {len(self.read)}.{number}" for number in itertools.count())
            calls = [{"name": self.tool, "args": args, "id": next(ids)} for args in step]
            message = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])
