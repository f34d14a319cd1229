"""The tools ``search`` and ``fetch`` of an MCP server, for ChatGPT's connectors.

Both answer with JSON, in the fields that https://platform.openai.com/docs/mcp requires.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, Field

from langchain_rse._sync import in_thread
from langchain_rse.errors import MissingRecordError, RSEError
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import DOC_ID, END_INDEX, START_INDEX
from langchain_rse.text.quoting import encodable
from langchain_rse.tools.catalog import (
    FETCH,
    MAX_READ_LENGTH,
    SEARCH_OF_CONNECTORS,
    ConnectorSearch,
    Fetch,
)
from langchain_rse.tools.passages import citation_of
from langchain_rse.tools.places import name_in
from langchain_rse.tools.search import limit_of, make_tool

MakeUrl = Callable[[Document], str]
"""Makes the URL of a passage for a reader; "" for a passage without one."""

_PASSAGE_ID = re.compile(r"(?s)(.+)#([0-9]{1,15})-([0-9]{1,15})")


class FoundPassage(BaseModel):
    """A passage that ``search`` has found."""

    id: str = Field(description="Pass it to fetch to read the text around this passage.")
    title: str = Field(description="The document and the place of the passage in it.")
    text: str = Field(description="The text of the passage.")
    url: str = Field(description='The URL of the document; "" if it has none.')


class FoundPassages(BaseModel):
    """The answer of ``search``."""

    results: list[FoundPassage]


class FetchedText(FoundPassage):
    """The answer of ``fetch``: the same passage, with the text around it."""

    metadata: dict[str, str | int] = Field(
        description="The source, and the place of the text in the document, in characters."
    )


ANSWERS: Mapping[str, type[BaseModel]] = {"search": FoundPassages, "fetch": FetchedText}
"""The forms of the answers."""


def url_of_source(passage: Document) -> str:
    """Return the source of a passage if it is a web address, else ""."""
    source = passage.metadata.get("source")
    if isinstance(source, str) and source.lower().startswith(("http://", "https://")):
        return source
    return ""


def create_connector_tools(
    retriever: RSERetriever, search_tool: BaseTool, make_url: MakeUrl
) -> list[BaseTool]:
    """Make the tools ``search``, which uses the agents' tool, and ``fetch``."""

    async def search(query: str, **_: Any) -> tuple[str, FoundPassages]:  # noqa: ANN401
        answer = await _search(search_tool, query, make_url)
        return answer.model_dump_json(), answer

    async def fetch(id: str, **_: Any) -> tuple[str, FetchedText]:  # noqa: A002, ANN401
        try:
            answer = await in_thread(_fetch, retriever, id, make_url)
        except (ImportError, RSEError, ValueError) as error:
            raise ToolException(str(error)) from error
        return answer.model_dump_json(), answer

    limit = limit_of(search_tool)
    return [
        make_tool("search", SEARCH_OF_CONNECTORS, ConnectorSearch, limit, coroutine=search),
        make_tool("fetch", FETCH, Fetch, limit, coroutine=fetch),
    ]


async def _search(search_tool: BaseTool, query: str, make_url: MakeUrl) -> FoundPassages:
    call = {"type": "tool_call", "id": "1", "name": search_tool.name, "args": {"query": query}}
    message = await search_tool.ainvoke(call)
    if message.status == "error":
        raise ToolException(str(message.content))
    results = []
    for passage in message.artifact:
        found = FoundPassage(
            id=_id_of(passage),
            title=citation_of(passage.metadata),
            text=encodable(passage.page_content),
            url=encodable(make_url(passage)),
        )
        results.append(found)
    return FoundPassages(results=results)


def _fetch(retriever: RSERetriever, passage_id: str, make_url: MakeUrl) -> FetchedText:
    """Read the text around a passage; a hidden document gives the same error as a missing one.

    The passage is read again, so that its title and URL are the same as in ``search``.
    """
    access = retriever.document_access()
    doc_id, start, end = _place_of(passage_id)
    manifest = access.manifest(doc_id)
    end = min(end, start + MAX_READ_LENGTH)
    passage = access.passage(manifest, start, end)
    margin = (MAX_READ_LENGTH - (end - start)) // 2
    first = max(min(start - margin, manifest.length - MAX_READ_LENGTH), 0)
    text = access.passage(manifest, first, first + MAX_READ_LENGTH)
    return FetchedText(
        id=passage_id,
        title=citation_of(passage.metadata),
        text=encodable(text.page_content),
        url=encodable(make_url(passage)),
        metadata={
            "source": encodable(name_in(passage.metadata)),
            "start_index": text.metadata[START_INDEX],
            "end_index": text.metadata[END_INDEX],
            "document_length": manifest.length,
        },
    )


def _id_of(passage: Document) -> str:
    """Return the id of a passage, for `_place_of`."""
    metadata = passage.metadata
    return encodable(f"{metadata[DOC_ID]}#{metadata[START_INDEX]}-{metadata[END_INDEX]}")


def _place_of(passage_id: str) -> tuple[str, int, int]:
    """Return the id of the document and the characters of the passage."""
    match = _PASSAGE_ID.fullmatch(passage_id)
    if match is None:
        raise MissingRecordError(
            f"no passage has the id {passage_id!r:.200}: pass an id from search"
        )
    doc_id, start, end = match.groups()
    return doc_id, int(start), int(end)
