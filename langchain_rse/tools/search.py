"""A tool for agents that searches and returns passages to cite."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException
from pydantic import (
    BaseModel,
    Field,
    PlainSerializer,
    SkipValidation,
    ValidationError,
    create_model,
)

from langchain_rse._messages import check_type, problems_of, shown
from langchain_rse._sync import in_thread
from langchain_rse.config import settings_of_call
from langchain_rse.errors import RSEError
from langchain_rse.explaining import RSETrace
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import DOC_ID, RELEVANCE_SCORE
from langchain_rse.text.quoting import counted, visible
from langchain_rse.tools.catalog import (
    DEFAULT_K,
    MAX_ANSWER_LENGTH,
    SEARCH_DESCRIPTIONS,
    Arguments,
    ContentType,
    FilterFields,
    MakeFilter,
    Search,
    conditions_of,
    filter_argument,
)
from langchain_rse.tools.conversation import messages_in, passages_in, split_shown
from langchain_rse.tools.passages import (
    ShownNames,
    format_passages,
    name_in,
    number_passages,
    quote_lines,
    search_result_blocks,
    text_of_blocks,
)

# Least passage numbers reserved for each of several parallel calls, which do not see each other.
MIN_DISTANCE = 20
# A typical heading, and the source that a search result repeats. The retriever's budget reserves
# their length for each passage.
_HEADING = "[10] a/folder/file.pdf, pages 10-11, characters 100,000-110,000\n\na/folder/file.pdf\n"


Answer = tuple[str | list[dict[str, Any]], list[Document]]
"""The content for the model, and the passages."""


def create_rse_tool(
    retriever: RSERetriever,
    *,
    name: str = "search_documents",
    description: str | None = None,
    content: ContentType = "text",
    k: int | None = None,
    max_context_length: float | None = None,
    filter_fields: FilterFields = (),
    make_filter: MakeFilter | None = None,
) -> StructuredTool:
    """Make a tool that searches and returns numbered passages with their sources.

    The model passes ``query`` and, optionally, ``filter``. Each passage has a heading
    such as ``[1] report.pdf, page 3, characters ...``, and ``> `` in front of each line of its
    text, so that no text can imitate a heading. With ``content="search_results"``, a passage is a
    ``search_result`` block instead, which Claude cites natively. The artifact of the message is the
    list of passages, numbered in ``metadata["rse"]["number"]``. Wrong arguments produce a message
    of status "error". In LangGraph, the tool does not repeat text from earlier calls, and a number
    identifies one passage of the conversation.

    Args:
        retriever: The retriever that searches.
        name: The tool's name: 1 to 64 letters, digits, ``_`` and ``-``.
        description: The description for the model. None: a default description.
        content: ``"text"``, or ``"search_results"`` for content blocks, see `locate_citations`.
        k: Maximum number of passages in an answer, at least 1. None for the retriever's, or 10.
        max_context_length: Maximum length of an answer, headings included, in the units of the
            retriever's ``length_function``. None for the retriever's, or 80,000 characters:
            deepagents would move a longer answer to a file.
        filter_fields: Metadata fields that the model may filter by; a mapping describes them.
        make_filter: Makes the vector store's filter from the model's values by field, such as
            ``{"year": 2024}``, and the retriever's filter or None. By default, joins them by
            ``"$and"``.

    Raises:
        ValueError: If an argument is out of its range, or the retriever cannot filter by
            ``filter_fields``.
        TypeError: If ``retriever`` is no `RSERetriever`, or ``filter_fields`` is a string.
    """
    allowed = (
        "an RSERetriever (of a filled vector store: RSERetriever.from_existing_index(vectorstore, "
        "docstore))"
    )
    check_type("retriever", retriever, RSERetriever, allowed)
    if k is None:
        k = retriever.k or DEFAULT_K
    length_function = retriever.length_function
    if max_context_length is None:
        max_context_length = retriever.max_context_length
    if max_context_length is None:
        max_context_length, length_function = MAX_ANSWER_LENGTH, len
    shared = Shared(max_context_length, length_function, k, {})
    settings_of_call(retriever, {"k": k, "max_context_length": max_context_length})  # checks them
    _check_fields(retriever, filter_fields, make_filter)
    if content not in SEARCH_DESCRIPTIONS:
        allowed = ", ".join(map(repr, SEARCH_DESCRIPTIONS))
        raise ValueError(f"content must be one of {allowed}; got {content!r}")
    search = _Search(
        retriever=retriever,
        has_blocks=content == "search_results",
        shared=shared,
        make_filter=make_filter or _join_filters,
    )
    return make_tool(
        name,
        description or SEARCH_DESCRIPTIONS[content],
        Search,
        shared,
        search.search,
        filter_fields=filter_fields,
    )


def _check_fields(
    retriever: RSERetriever, fields: FilterFields, make_filter: MakeFilter | None
) -> None:
    """Raise an error if the retriever cannot filter by these fields."""
    if not fields:
        return
    if isinstance(fields, str):
        raise TypeError(f"filter_fields must be a list of names or a dict; got {fields!r}")
    if retriever.vectorstore is None:
        raise ValueError("filter_fields require vectorstore: a base_retriever takes no filter")
    if make_filter is not None:
        return
    own_filter = retriever.search_kwargs.get("filter")
    if not isinstance(own_filter, Mapping | None):
        raise ValueError(  # noqa: TRY004 - of another type of store
            f"filter_fields={list(fields)!r:.200} require make_filter, because the retriever's "
            f"filter is not a dict: {own_filter!r:.200}. Pass a function that takes a dict of "
            "fields and values and the retriever's filter, and returns a filter"
        )


def _join_filters(conditions: dict[str, Any], own_filter: Any) -> dict[str, Any]:  # noqa: ANN401
    """Join conditions and the retriever's filter by "$and"."""
    filters = [dict(own_filter)] if own_filter else []
    filters += [{name: value} for name, value in conditions.items()]
    return filters[0] if len(filters) == 1 else {"$and": filters}


class Shared(NamedTuple):
    """What the tools of a set share: the maximum length of an answer, its unit, and names."""

    max_context_length: float
    length_function: Callable[[str], float]
    k: int  # of a search
    names: ShownNames

    def fits(self, text: str) -> bool:
        """Tell whether an answer is short enough."""
        return self.length_function(text) <= self.max_context_length


class _Tool(StructuredTool):
    """A tool of this package."""

    shared: SkipValidation[Shared] = Field(exclude=True, repr=False)


def make_tool(
    name: str,
    description: str,
    arguments: type[Arguments],
    shared: Shared,
    function: Callable[..., Answer],
    *,
    filter_fields: FilterFields = (),
) -> StructuredTool:
    """Make a tool of a function, with LangGraph's runtime and a filter as further arguments."""
    if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", name):  # OpenAI and Anthropic refuse others
        raise ValueError(
            f"name must have 1 to 64 characters, of a-z, A-Z, 0-9, _ and -; got {name!r:.200}"
        )
    fields: dict[str, Any] = {"runtime": (_runtime_type(), None)}
    allowed = f"{name} takes {', '.join(arguments.model_fields)}"
    if filter_fields:
        fields["filter"] = filter_argument(filter_fields)
        allowed += f", filter. Fields of filter: {', '.join(filter_fields)}"
    advice = f"{allowed}. Correct them and call {name} again."
    return _Tool(
        name=name,
        description=description,
        args_schema=create_model(arguments.__name__, __base__=arguments, **fields),
        func=function,
        coroutine=partial(in_thread, function),
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=partial(_explain_arguments, advice),
        shared=shared,
    )


@contextlib.contextmanager
def errors_as_answers() -> Iterator[None]:
    """Make errors answers for the model, in one line: names in them could imitate passages."""
    try:
        yield
    except (ImportError, RSEError, ValueError) as error:
        raise ToolException(visible(str(error))) from error


def shared_by(tool: BaseTool) -> Shared:
    """Return what a tool of this package shares with others.

    Raises:
        TypeError: If it is another tool.
    """
    if not isinstance(tool, _Tool):
        raise TypeError(
            "each tool must come from create_rse_tool or create_rse_tools (pass several one by "
            f"one: RSEMiddleware(*tools, ...)); got {shown(tool)}"
        )
    return tool.shared


def _runtime_type() -> Any:  # noqa: ANN401 - an annotation
    """Return the type of the argument that receives LangGraph's state, if it is installed."""
    marker = None
    with contextlib.suppress(ImportError, AttributeError):
        from langgraph import prebuilt  # noqa: PLC0415

        marker = prebuilt.ToolRuntime
    unread = PlainSerializer(lambda _: None)  # LangChain dumps the arguments to know their names
    return Annotated[Any, InjectedToolArg(), marker, unread]


def _explain_arguments(advice: str, error: Any) -> str:  # noqa: ANN401 - LangChain's union
    """Explain wrong arguments to the model."""
    problems = problems_of(error) if isinstance(error, ValidationError) else str(error)
    return f"Wrong arguments: {problems}. {advice}"


@dataclass(frozen=True)
class _Search:
    """The function of the tool, without LangChain's interface."""

    retriever: RSERetriever
    has_blocks: bool  # True if passages are shown as search results, False for text
    shared: Shared
    make_filter: MakeFilter

    def search(
        self,
        query: str,
        filter: BaseModel | None = None,  # noqa: A002 - the model's word
        runtime: Any = None,  # noqa: ANN401 - of LangGraph
    ) -> Answer:
        arguments: dict[str, Any] = {
            "k": self.shared.k,
            "max_context_length": self.shared.max_context_length,
            "length_function": self._length_shown,
        }
        if not query.strip():
            raise ToolException("query must not be blank: call again with a question.")
        conditions = conditions_of(filter)
        if conditions:
            own_filter = self.retriever.search_kwargs.get("filter")
            arguments["filter"] = self.make_filter(conditions, own_filter)
        read = list(passages_in(messages_in(runtime)))
        for _ in range(2):
            trace = self.retriever.explain(query, **arguments)
            passages = []
            found_again = set()
            for passage in trace.documents_returned:
                parts, numbers = split_shown(self.retriever.docstore, passage, read)
                passages.extend(parts)
                found_again.update(numbers)
                if numbers:
                    arguments["k"] += 1
                    arguments["max_context_length"] += self._length_shown(passage.page_content)
            if not found_again:
                break
            # A second search with a larger budget finds new ones.
        note = ""
        if found_again:
            numbers_shown = ", ".join(f"[{number}]" for number in sorted(found_again))
            note = f"Found again, not repeated: {numbers_shown}."
        if not passages:
            return _explain_nothing(query, conditions, note, trace), []
        return self._show(passages, first_number(runtime, self.shared), note)

    def _length_shown(self, text: str) -> float:
        """Estimate the length of a passage as the model reads it."""
        measure = self.shared.length_function
        return measure(_HEADING) + measure(quote_lines(text))

    def _show(self, found: list[Document], first_number: int, note: str) -> Answer:
        """Show the most valuable passages that fit with their headings."""
        passages = [passage for passage in found if passage.page_content.strip()]
        while passages:
            numbered = number_passages(passages, first_number, self.shared.names)
            content: str | list[dict[str, Any]]
            if self.has_blocks:
                # Without the note, because Anthropic rejects a mix with other blocks.
                content = search_result_blocks(numbered)
                text = text_of_blocks(content)
            else:
                content = text = f"{format_passages(numbered)}\n\n{note}".rstrip("\n")
            if len(passages) <= self.shared.k and self.shared.fits(text):
                return content, numbered
            passages.remove(min(passages, key=lambda each: each.metadata[RELEVANCE_SCORE]))
        return f"{counted(len(found), 'passage')} found, but too long to show.", []


def _explain_nothing(query: str, conditions: Mapping[str, Any], note: str, trace: RSETrace) -> str:
    """Report that no passage, or no new passage, was found, with the reason if it is known."""
    searched = f"{query!r:.200}"
    advice = "Other words may find more."
    if note:
        return f"Nothing else was found for {searched}. {note} {advice}"
    reason = visible(trace.reason or "").partition(". ")[0]
    if conditions and not trace.candidates:
        # The reason of the retriever has its own filter, which the model must not read.
        reason = f"no document with {conditions!r:.200} was found"
        advice = "Another filter, or none, may find more."
    if any(check.is_rejected for check in trace.floor_checks):
        advice = "Say that the documents have no answer, or search with other words."
    return f"Nothing was found for {searched}: {reason}. {advice}"


def first_number(runtime: Any, shared: Shared) -> int:  # noqa: ANN401
    """Return the number of a call's first passage, and keep the names that earlier ones have."""
    messages = messages_in(runtime)
    first = 1
    for passage in passages_in(messages):
        first = max(first, passage.number + 1)
        shared.names[name_in(passage.metadata)] = passage.metadata[DOC_ID]
    for message in messages:
        call_ids = [tool_call["id"] for tool_call in getattr(message, "tool_calls", ())]
        if runtime.tool_call_id in call_ids:
            # Parallel calls before this one have not answered yet.
            return first + call_ids.index(runtime.tool_call_id) * max(shared.k, MIN_DISTANCE)
    return first
