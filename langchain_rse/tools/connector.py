"""The tools ``search`` and ``fetch`` of an MCP server, as ChatGPT's connectors ask for them.

Both answer with JSON: https://platform.openai.com/docs/mcp says which fields there have to be.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.tools import BaseTool
from pydantic import BaseModel, Field

from langchain_rse._sync import in_thread
from langchain_rse.errors import MissingRecordError
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import DOC_ID, END_INDEX, START_INDEX
from langchain_rse.text.quoting import encodable
from langchain_rse.tools.catalog import MOST_OF_DOCUMENT
from langchain_rse.tools.passages import citation_of
from langchain_rse.tools.places import name_in

MakeUrl = Callable[[Document], str]
"""Makes the address of a passage, under which a reader finds it; "" if there is none."""

_PASSAGE_ID = re.compile(r"(?s)(.+)#([0-9]{1,15})-([0-9]{1,15})")


class FoundPassage(BaseModel):
    """A passage that ``search`` has found."""

    id: str = Field(description="For fetch, which reads the text around this passage.")
    title: str = Field(description="The document, and the place of the passage there.")
    text: str = Field(description="The text of the passage.")
    url: str = Field(description='Where a reader finds the document; "" if it has no address.')


class FoundPassages(BaseModel):
    """The answer of ``search``."""

    results: list[FoundPassage]


class FetchedText(FoundPassage):
    """The answer of ``fetch``: the same passage, with the text around it."""

    metadata: dict[str, str | int] = Field(
        description="The source, and which characters of the document the text is."
    )


class _Place(NamedTuple):
    """Where a passage is."""

    doc_id: str
    start: int
    end: int


def url_of_source(passage: Document) -> str:
    """The source of a passage if it is an address on the web, else ""."""
    source = passage.metadata.get("source")
    if isinstance(source, str) and source.lower().startswith(("http://", "https://")):
        return source
    return ""


def connector_functions(
    retriever: RSERetriever, search_tool: BaseTool, make_url: MakeUrl
) -> dict[str, Callable[..., Any]]:
    """Make the functions that clients call, by their names."""

    async def search(query: str) -> FoundPassages:
        return await _search(search_tool, query, make_url)

    async def fetch(id: str) -> FetchedText:  # noqa: A002 - the name that clients know
        return await in_thread(_fetch, retriever, id, make_url)

    return {"search": search, "fetch": fetch}


async def _search(search_tool: BaseTool, query: str, make_url: MakeUrl) -> FoundPassages:
    call = {"type": "tool_call", "id": "1", "name": search_tool.name, "args": {"query": query}}
    message = await search_tool.ainvoke(call)
    if message.status == "error":
        raise ValueError(str(message.content))
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
    """Read the text around a passage; the same error if its document must not be read as if none.

    The passage is read as well: its title and address are those that ``search`` told.
    """
    access = retriever.document_access()
    place = _place_of(passage_id)
    manifest = access.manifest(place.doc_id)
    end = min(place.end, place.start + MOST_OF_DOCUMENT)
    passage = access.passage(manifest, place.start, end)
    room = _room_around(place, manifest.length)
    text = access.passage(manifest, room.start, room.stop)
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
    """The id of a passage, from which `_place_of` knows where it is."""
    metadata = passage.metadata
    return encodable(f"{metadata[DOC_ID]}#{metadata[START_INDEX]}-{metadata[END_INDEX]}")


def _place_of(passage_id: str) -> _Place:
    match = _PASSAGE_ID.fullmatch(passage_id)
    if match is None:
        raise MissingRecordError(
            f"there is no passage {passage_id!r:.200}: give an id as search gives it"
        )
    doc_id, start, end = match.groups()
    return _Place(doc_id, int(start), int(end))


def _room_around(place: _Place, length: int) -> range:
    """The characters of a document to read: the passage, with about as much on both sides."""
    margin = max(MOST_OF_DOCUMENT - (place.end - place.start), 0) // 2
    end = min(max(place.start - margin, 0) + MOST_OF_DOCUMENT, length)
    return range(max(end - MOST_OF_DOCUMENT, 0), end)
