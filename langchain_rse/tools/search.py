"""A tool with which an agent can search, and cite the passages it finds."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.runnables.config import merge_configs
from langchain_core.tools import InjectedToolArg, StructuredTool
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError, create_model

from langchain_rse._messages import problems_of
from langchain_rse._sync import Steps, arun, call, run
from langchain_rse.query.tracing import TraceCollector
from langchain_rse.query.wrapped import check_taken
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import RELEVANCE_SCORE
from langchain_rse.tools.passages import (
    Shown,
    messages_in,
    new_parts,
    numbered,
    shown_in,
    text_of,
)

_DESCRIPTION = (
    "Search the documents for passages that answer a question. Each passage has a number, its "
    "source, and its place there. Cite passages by their numbers, such as [1]."
)
_MOST = 10
# About the heading of a passage, for which the retriever leaves room.
_HEADING = "[10] a/file/of/some/folder.pdf, pages 10-11, characters 100000-110000\n\n\n"
# The least distance between the passage numbers of parallel calls, which do not see each other.
_APART = 20


def create_rse_tool(
    retriever: RSERetriever,
    *,
    name: str = "search_documents",
    description: str = _DESCRIPTION,
    k: int | None = None,
    max_context_length: float | None = None,
    length_function: Callable[[str], float] | None = None,
    filter_fields: Sequence[str] | Mapping[str, str] = (),
    make_filter: Callable[[dict[str, Any], Any], Any] | None = None,
) -> StructuredTool:
    """Make a tool that searches and returns numbered passages with their sources.

    The model gives ``query`` and, optionally, ``k`` and ``filter``. It reads each passage below a
    line such as ``[1] report.pdf, pages 3-4, characters 1200-3400``; the artifact of the message is
    the list of these segments, with the number in ``metadata["rse"]["number"]``. Wrong arguments
    are answered by a message of status "error". In a graph of LangGraph, text that earlier calls
    have shown is not shown again, and each number stands for one passage of the conversation.

    Args:
        retriever: The retriever that searches.
        name: The tool's name.
        description: The description of the tool that the model reads.
        k: The most passages of an answer, at least 1. None for the retriever's, or 10.
        max_context_length: The most text of an answer, headings included, in the units of
            ``length_function``. None for the retriever's.
        length_function: Measures text, for example in tokens. None for the retriever's.
        filter_fields: Metadata fields that the model may filter by, or a mapping to their meaning.
        make_filter: Makes the vector store's filter from the model's fields and values, such as
            ``{"year": 2024}``, and the retriever's own filter or None. By default: ``"$and"``.

    Raises:
        ValueError: If ``k`` or ``max_context_length`` is out of range, or filters cannot be joined.
        TypeError: If ``filter_fields`` is a string.
    """
    k = (retriever.k or _MOST) if k is None else k
    limit = retriever.max_context_length if max_context_length is None else max_context_length
    if k < 1 or (limit is not None and not limit > 0):
        raise ValueError(
            f"k must be at least 1 and max_context_length above 0; got k={k!r} and "
            f"max_context_length={limit!r}"
        )
    _check_filter(retriever, filter_fields, can_join=make_filter is not None)
    measure = length_function or retriever.length_function
    search = _Search(retriever, k, limit, measure, make_filter or _joined)
    allowed = f" The fields of filter are: {', '.join(filter_fields)}." if filter_fields else ""

    def explain(error: Any) -> str:  # noqa: ANN401 - LangChain's union of pydantic's
        wrong = problems_of(error) if isinstance(error, ValidationError) else str(error)
        return f"The arguments are wrong: {wrong}.{allowed} Call {name} again with others."

    return StructuredTool(
        name=name,
        description=description,
        args_schema=_arguments(k, filter_fields),
        func=search.answer,
        coroutine=search.aanswer,
        response_format="content_and_artifact",
        handle_validation_error=explain,
    )


def _check_filter(
    retriever: RSERetriever, fields: Sequence[str] | Mapping[str, str], *, can_join: bool
) -> None:
    if not fields:
        return
    if isinstance(fields, str):
        raise TypeError(f"filter_fields must be a list of names, or a dict; got {fields!r}")
    check_taken(retriever.base_retriever, {"filter": dict.fromkeys(fields)})
    own = retriever.search_kwargs.get("filter")
    is_alone = len(fields) + bool(own) == 1
    if not (can_join or (isinstance(own, Mapping | None) and (is_alone or not retriever.hybrid))):
        raise ValueError(
            "filter_fields cannot be joined with each other and the retriever's filter "
            f"{own!r:.200}: that needs a dict and hybrid=0; got hybrid={retriever.hybrid}. Or give "
            "make_filter, a function from a dict of fields and values, and that filter, to a filter"
        )


def _joined(wanted: dict[str, Any], own: Any) -> dict[str, Any]:  # noqa: ANN401 - any store's filter
    parts = [*([dict(own)] if own else []), *({n: value} for n, value in wanted.items())]
    return {"$and": parts} if len(parts) > 1 else parts[0]


def _arguments(k: int, filter_fields: Sequence[str] | Mapping[str, str]) -> type[BaseModel]:
    """Make the model's arguments. Metadata fields are aliases, since they may have any name."""
    marker: object = None  # by which LangGraph, if it is installed, hands over its state
    with contextlib.suppress(ImportError, AttributeError):
        from langgraph import prebuilt  # noqa: PLC0415

        marker = prebuilt.ToolRuntime
    unread = PlainSerializer(lambda _: None)  # LangChain dumps the arguments to know their names
    strict = ConfigDict(extra="forbid")
    fields: dict[str, Any] = {
        "query": (str, Field(description="What to search for: a question, or a few words.")),
        "k": (int, Field(k, ge=1, le=k, description="At most this many passages.")),
        "runtime": (Annotated[Any, InjectedToolArg(), marker, unread], None),
    }
    if filter_fields:
        texts = filter_fields if isinstance(filter_fields, Mapping) else {}
        value = str | int | float | bool | None
        conditions: dict[str, Any] = {
            f"field_{number}": (value, Field(None, alias=one, description=texts.get(one) or None))
            for number, one in enumerate(filter_fields)
        }
        condition = create_model("Filter", __config__=strict, **conditions)
        text = "Only passages of documents with these values."
        fields["filter"] = (condition | None, Field(None, description=text))
    made: type[BaseModel] = create_model("Search", __config__=strict, **fields)
    return made


_Answer = tuple[str, list[Document]]  # the text for the model, and the passages


@dataclass(frozen=True)
class _Search:
    """The function of the tool, without LangChain's interface."""

    retriever: RSERetriever
    k: int
    limit: float | None
    measure: Callable[[str], float]
    joined: Callable[[dict[str, Any], Any], Any]

    # LangChain hands over callbacks to functions that name them.
    def answer(self, query: str, callbacks: Callbacks = None, **asked: Any) -> _Answer:  # noqa: ANN401
        return run(self._steps(query, callbacks, **asked))

    async def aanswer(self, query: str, callbacks: Callbacks = None, **asked: Any) -> _Answer:  # noqa: ANN401
        return await arun(self._steps(query, callbacks, **asked))

    def _steps(
        self,
        query: str,
        callbacks: Callbacks,
        k: int | None = None,  # some versions of LangChain do not pass defaults
        filter: BaseModel | None = None,  # noqa: A002 - the model's word
        runtime: Any = None,  # noqa: ANN401 - of LangGraph
    ) -> Steps[_Answer]:
        if not query.strip():
            return "The query is empty: say what to search for.", []
        k = k or self.k
        wanted = filter.model_dump(by_alias=True, exclude_none=True) if filter else {}
        own = self.retriever.search_kwargs.get("filter")
        given: dict[str, Any] = {"filter": self.joined(wanted, own)} if wanted else {}
        collector = TraceCollector()
        given["config"] = merge_configs({"callbacks": callbacks}, {"callbacks": [collector]})
        messages = messages_in(runtime)
        shown = shown_in(messages)
        found, again = yield from self._search(query, k, shown, given)
        names = ", ".join(f"[{number}]" for number in sorted(again))
        note = [f"Found again, and shown above: {names}."] if again else []
        before = _calls_before(runtime, messages) * max(k, _APART)
        first, count = 1 + max(shown.values(), default=0) + before, len(found)
        while found:  # those of the highest value that fit with their headings
            text = "\n\n".join([text_of(found, first), *note])
            if len(found) <= k and (self.limit is None or self.measure(text) <= self.limit):
                return text, numbered(found, first)
            found.remove(min(found, key=lambda one: float(one.metadata[RELEVANCE_SCORE])))
        if count:
            return f"{count} passages were found, but none is short enough to be shown.", []
        values = ", ".join(f"{name}={value!r}" for name, value in wanted.items())
        within = f" with {values}" if wanted else ""
        text = f"Nothing {'else ' * bool(again)}was found for {query!r:.200}{within}."
        reason = collector.traces[-1].reason
        note += [f"The reason: {reason.partition('. ')[0]}."] if reason and not wanted else []
        advice = f"Other words{', or no filter,' * bool(wanted)} may find more."
        return " ".join([text, *note, advice]), []

    def _search(
        self, query: str, k: int, shown: Shown, given: Mapping[str, Any]
    ) -> Steps[tuple[list[Document], set[int]]]:
        """Find segments without text shown before; also the numbers of passages found again.

        If passages were found again, a second search has more room, so that it finds new ones.
        """
        heading, limit = self.measure(_HEADING), self.limit
        for _ in range(2):
            segments = yield from call(
                self.retriever.invoke,
                self.retriever.ainvoke,
                query,
                k=k,
                max_context_length=limit,
                length_function=lambda text: heading + self.measure(text),
                allow_trim=False,  # what is cut off a chunk would count as shown
                **given,
            )
            found: list[Document] = []
            again: set[int] = set()
            for segment in segments:
                parts, numbers = yield from new_parts(self.retriever.docstore, segment, shown)
                found += parts
                again |= numbers
                if numbers:
                    k += 1
                    limit = limit and limit + heading + self.measure(segment.page_content)
            if not again:
                break
        return found, again


def _calls_before(runtime: Any, messages: Sequence[object]) -> int:  # noqa: ANN401
    """Count the calls before this one in the same message, which run in parallel."""
    for message in messages:
        ids = [one["id"] for one in getattr(message, "tool_calls", ())]
        if runtime.tool_call_id in ids:
            return ids.index(runtime.tool_call_id)
    return 0
