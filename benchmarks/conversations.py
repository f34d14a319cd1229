"""How much text an agent reads in a conversation, with and without a budget for all of it.

Run from anywhere: ``python benchmarks/conversations.py``. In each conversation, a scripted model
asks eight related questions about the Python reference, with one search each, and gives a short
answer. The tables count the characters of the tool's answers in each request to the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pydoc_data.topics import topics
from typing import Any

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import Field

from langchain_rse import RSERetriever, SQLDocStore, create_rse_tool
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.tools import RSEMiddleware

ANSWER_LENGTH = 4_000
BUDGETS = (None, 12_000, 8_000)
CONVERSATIONS = {
    "classes": (
        "How does a metaclass create a class?",
        "What does __prepare__ return?",
        "What happens in __init_subclass__?",
        "When is __set_name__ called?",
        "How is the metaclass of a class determined?",
        "What do __slots__ change?",
        "Can a class with __slots__ be subclassed?",
        "What does __class_getitem__ do?",
    ),
    "attributes": (
        "How is a descriptor invoked?",
        "What is the difference of __getattr__ and __getattribute__?",
        "What does __delattr__ do?",
        "How does super find an attribute?",
        "What is a data descriptor?",
        "How does a module customize attribute access?",
        "What happens when an attribute is assigned?",
        "How are instance methods bound?",
    ),
    "statements": (
        "When is with __enter__ called?",
        "What if __exit__ returns true?",
        "What does except* do with exception groups?",
        "When does a finally clause run?",
        "How does raise from chain exceptions?",
        "What does a mapping pattern match?",
        "How does a class pattern match?",
        "When does the else clause of a loop run?",
    ),
    "functions": (
        "How are default values of parameters evaluated?",
        "What are keyword-only parameters?",
        "How does unpacking work in calls?",
        "What are annotations of functions?",
        "How do decorators apply to functions?",
        "How are names resolved in nested scopes?",
        "What does nonlocal do?",
        "What does a generator function return?",
    ),
}


class ScriptedModel(BaseChatModel):
    """Searches once for each question, then answers in a few words."""

    requests: list[int] = Field(default_factory=list)  # the characters of the tool's answers
    tool_name: str

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:  # noqa: ANN401, ARG002
        """Return the model unchanged: the script knows the tool."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ANN401
        self.requests.append(sum(len(m.text) for m in messages if m.type == "tool"))
        last = messages[-1]
        answer = AIMessage("See passage [1].")
        if isinstance(last, HumanMessage):
            call = {"name": self.tool_name, "args": {"query": last.text}, "id": last.text}
            answer = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def main() -> None:
    """Measure and print a table."""
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(WordLlamaEmbeddings()), docstore=SQLDocStore("sqlite://")
    )
    retriever.add_documents(
        Document(text, id=name, metadata={"source": name}) for name, text in topics.items()
    )
    tool = create_rse_tool(retriever, max_context_length=ANSWER_LENGTH)
    print(f"{'conversation':14}{'budget':>8}{'last request':>14}{'all requests':>14}")
    for name, questions in CONVERSATIONS.items():
        for budget in BUDGETS:
            requests = converse(tool, questions, budget)
            limit = "none" if budget is None else f"{budget:,}"
            print(f"{name:14}{limit:>8}{requests[-1]:14,}{sum(requests):14,}")


def converse(tool: BaseTool, questions: Sequence[str], budget: int | None) -> list[int]:
    """Hold a conversation; return the characters of the tool's answers in each request."""
    model = ScriptedModel(tool_name=tool.name)
    if budget is None:
        agent = create_agent(model, [tool])
    else:
        agent = create_agent(model, middleware=[RSEMiddleware(tool, max_context_length=budget)])
    messages: list[BaseMessage] = []
    for question in questions:
        messages = agent.invoke({"messages": [*messages, HumanMessage(question)]})["messages"]
    return model.requests


if __name__ == "__main__":
    main()
