"""How much text an agent reads in a conversation, with and without a budget for all of it.

Run from anywhere: ``python benchmarks/conversations.py --data PATH``. A scripted model answers
related questions with one search each and cites the passages that contain evidence. After every
second question, the user returns to an earlier one; the model answers it without a search if it can
still read what it cited.

The table counts the characters of all requests, their share that repeats the beginning of the
request before (a provider's prompt cache serves it), the share of the text cited so far that the
model can still read, and the searches.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from data import HERE, index, read_folder
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from pages import table
from pydantic import Field

from langchain_rse import SQLDocStore, create_rse_tool
from langchain_rse.evaluation import Evidence, Question
from langchain_rse.tools import RSEMiddleware
from langchain_rse.tools.conversation import passages_in

ANSWER_LENGTH = 4_000
BUDGETS = (None, 12_000, 8_000)
FOLDERS = ("manuals", "policies", "papers", "stories", "chats")
QUESTIONS = 12  # of a conversation
MOST_CONVERSATIONS = 8  # of a dataset


class ScriptedModel(BaseChatModel):
    """Searches unless it can read what it cited for the same question, then answers."""

    evidence: dict[str, Sequence[Evidence]]
    tool_name: str
    cited: dict[str, list[Evidence]] = Field(default_factory=dict)
    requests: list[str] = Field(default_factory=list)
    readable: list[float] = Field(default_factory=list)  # shares of the text cited so far
    searches: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:  # noqa: ANN401, ARG002
        """Return the model unchanged: the script knows the tool."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ANN401
        self.requests.append("".join(f"{m.type}: {m.text}\n" for m in messages))
        shown = dict(passage for message in messages for passage in readable_in(message))
        if self.cited:
            every = [place for places in self.cited.values() for place in places]
            self.readable.append(share_of(every, shown.values()))
        question = next(m.text for m in reversed(messages) if isinstance(m, HumanMessage))
        places = self.cited.get(question, [])
        if not isinstance(messages[-1], ToolMessage) and share_of(places, shown.values()) < 0.5:
            self.searches += 1
            call = {"name": self.tool_name, "args": {"query": question}, "id": str(self.searches)}
            answer = AIMessage("", tool_calls=[call])
        else:
            answer = AIMessage(self._answer(question, shown))
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _answer(self, question: str, shown: dict[int, Evidence]) -> str:
        evidence = self.evidence.get(question, [])
        used = {}
        for number, place in shown.items():
            parts = [common(place, each) for each in evidence]
            if any(parts):
                used[number] = [Evidence(place.doc_id, p.start, p.stop) for p in parts if p]
        if used:
            self.cited[question] = [place for places in used.values() for place in places]
        return f"So it is {', '.join(f'[{number}]' for number in used)}."


def readable_in(message: BaseMessage) -> Iterator[tuple[int, Evidence]]:
    """The numbers and places of the passages that are in the text of a message."""
    for passage in passages_in([message]):
        if passage.is_shown:
            where = passage.metadata
            place = Evidence(where["doc_id"], where["start_index"], where["end_index"])
            yield passage.number, place


def common(one: Evidence, other: Evidence) -> range:
    """The characters that are in both."""
    if one.doc_id != other.doc_id:
        return range(0)
    return range(max(one.start, other.start), min(one.end, other.end))


def share_of(places: Sequence[Evidence], shown: Iterable[Evidence]) -> float:
    """The share of the characters of some places that passages show."""
    passages = list(shown)
    characters = sum(place.end - place.start for place in places)
    found = 0
    for place in places:
        covered = set().union(*(common(place, each) for each in passages))
        found += len(covered)
    return found / characters if characters else 0.0


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the datasets")
    parser.add_argument("--folders", nargs="+", default=FOLDERS, metavar="NAME")
    parser.add_argument("--cache", type=Path, default=HERE / ".cache", help="folder for vectors")
    arguments = parser.parse_args()
    rows = []
    for name, tool, conversations in cases(arguments):
        for budget in BUDGETS:
            models = [converse(tool, questions, budget) for questions in conversations]
            limit = "none" if budget is None else f"{budget:,}"
            rows.append([name, limit, *figures(models)])
    header = ["", "budget", "characters", "repeated", "not repeated", "still readable", "searches"]
    print("\n".join(table(header, rows)))


def cases(
    arguments: argparse.Namespace,
) -> Iterator[tuple[str, BaseTool, list[list[Question]]]]:
    """The conversations about each dataset, with their tool."""
    for name in arguments.folders:
        folder = read_folder(arguments.data, name)
        retriever, _ = index(folder, "wordllama", arguments.cache, SQLDocStore("sqlite://"))
        tool = create_rse_tool(retriever, max_context_length=ANSWER_LENGTH)
        by_document = sorted(folder.questions, key=lambda each: each.evidence[0].doc_id)
        starts = range(0, len(by_document), QUESTIONS)
        some = [by_document[start : start + QUESTIONS] for start in starts]
        yield name, tool, some[:: -(-len(some) // MOST_CONVERSATIONS)]


def converse(tool: BaseTool, questions: Sequence[Question], budget: int | None) -> ScriptedModel:
    """Hold a conversation; return the model."""
    evidence = {each.question: each.evidence for each in questions}
    model = ScriptedModel(tool_name=tool.name, evidence=evidence)
    if budget is None:
        agent = create_agent(model, [tool])
    else:
        agent = create_agent(model, middleware=[RSEMiddleware(tool, max_context_length=budget)])
    messages: list[Any] = []
    for text in with_returns([each.question for each in questions]):
        messages = agent.invoke({"messages": [*messages, HumanMessage(text)]})["messages"]
    return model


def with_returns(questions: Sequence[str]) -> Iterator[str]:
    """Questions, with an earlier one after every second."""
    rng = random.Random(0)
    for number, question in enumerate(questions):
        yield question
        if number % 2:
            yield rng.choice(questions[:number])


def figures(models: Sequence[ScriptedModel]) -> list[str]:
    """Format the figures of some conversations."""
    requests = [list(map(len, model.requests)) for model in models]
    characters = sum(map(sum, requests))
    pairs = [pair for model in models for pair in pairwise(model.requests)]
    repeated = sum(len(os.path.commonprefix(pair)) for pair in pairs)  # noqa: RUF071 - characters
    readable = np.mean([share for model in models for share in model.readable])
    searches = sum(model.searches for model in models)
    return [
        f"{characters:,}",
        f"{repeated / characters:.3f}",
        f"{characters - repeated:,}",
        f"{readable:.3f}",
        str(searches),
    ]


if __name__ == "__main__":
    main()
