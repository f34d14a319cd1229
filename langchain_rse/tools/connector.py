"""The tools ``search`` and ``fetch`` of an MCP server, for ChatGPT's connectors.

Both answer with JSON, in the fields that https://platform.openai.com/docs/mcp requires.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from langchain_core.documents import Document
from langchain_core.tools import BaseTool, StructuredTool

from langchain_rse.errors import MissingRecordError
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import DOC_ID, END_INDEX, START_INDEX
from langchain_rse.text.quoting import encodable, visible
from langchain_rse.tools.catalog import (
    FETCH,
    MAX_READ_LENGTH,
    SEARCH_OF_CONNECTORS,
    Fetch,
    Search,
)
from langchain_rse.tools.passages import citation_of, name_in
from langchain_rse.tools.search import Answer, errors_as_answers, limit_of, make_tool

MakeUrl = Callable[[Document], str]
"""Makes the URL of a passage for a reader; "" for a passage without one."""

_PASSAGE_ID = re.compile(r"(?s)(?P<doc_id>.+)#(?P<start>\d{1,15})-(?P<end>\d{1,15})")


def url_of_source(passage: Document) -> str:
    """Return the source of a passage if it is a web address, else ""."""
    source = passage.metadata.get("source")
    if isinstance(source, str) and source.lower().startswith(("http://", "https://")):
        return source
    return ""


def create_connector_tools(
    retriever: RSERetriever, search_tool: StructuredTool, make_url: MakeUrl
) -> list[BaseTool]:
    """Make the tools ``search``, which uses the agents' tool, and ``fetch``."""

    def search(query: str, **_: Any) -> Answer:  # noqa: ANN401
        _, passages = search_tool.func(query)  # type: ignore[misc]
        results = [_described(passage, make_url) for passage in passages]
        return json.dumps({"results": results}, ensure_ascii=False), passages

    def fetch(id: str, **_: Any) -> Answer:  # noqa: A002, ANN401
        with errors_as_answers():
            return json.dumps(_fetch(retriever, id, make_url), ensure_ascii=False), []

    limit = limit_of(search_tool)
    return [
        make_tool("search", SEARCH_OF_CONNECTORS, Search, limit, search),
        make_tool("fetch", FETCH, Fetch, limit, fetch),
    ]


def _described(passage: Document, make_url: MakeUrl) -> dict[str, Any]:
    """Return the fields of a found passage."""
    metadata = passage.metadata
    return {
        "id": encodable(f"{metadata[DOC_ID]}#{metadata[START_INDEX]}-{metadata[END_INDEX]}"),
        "title": citation_of(metadata),
        "text": encodable(passage.page_content),
        "url": visible(make_url(passage)),
    }


def _fetch(retriever: RSERetriever, passage_id: str, make_url: MakeUrl) -> dict[str, Any]:
    """Read the text around a passage; a hidden document gives the same error as a missing one.

    The passage is read again, so that its title and URL are the same as in ``search``.
    """
    match = _PASSAGE_ID.fullmatch(passage_id)
    if match is None:
        raise MissingRecordError(
            f"no passage has the id {passage_id!r:.200}: pass an id from search"
        )
    access = retriever.document_access()
    manifest = access.manifest(match["doc_id"])
    start = int(match["start"])
    end = min(int(match["end"]), start + MAX_READ_LENGTH)
    passage = access.passage(manifest, start, end)
    margin = (MAX_READ_LENGTH - (end - start)) // 2
    first = max(min(start - margin, manifest.length - MAX_READ_LENGTH), 0)
    text = access.passage(manifest, first, first + MAX_READ_LENGTH)
    answer = _described(passage, make_url)
    answer["id"] = passage_id
    answer["text"] = encodable(text.page_content)
    answer["metadata"] = {
        "source": name_in(passage.metadata),
        "start_index": text.metadata[START_INDEX],
        "end_index": text.metadata[END_INDEX],
        "document_length": manifest.length,
    }
    return answer
