"""An MCP server, with which any agent can search the documents of a retriever."""

from typing import Annotated, Any

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations
from pydantic import Field

from langchain_rse._messages import visible
from langchain_rse._sync import arun
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.names import find_document, names_of
from langchain_rse.stores.reading import read_manifests
from langchain_rse.stores.records import Version, encodable
from langchain_rse.tools.passages import place_of, read_passage
from langchain_rse.tools.search import create_rse_tool

_LONGEST = 20_000  # characters of a document to read in one call
_INSTRUCTIONS = (
    "search finds passages of documents and says where they stand; read_around reads what stands "
    "around a passage; list_documents lists all documents. Cite source, pages and characters."
)
_MOST = 10
_Index = Annotated[int, Field(ge=0)]


def create_mcp_server(
    retriever: RSERetriever,
    *,
    name: str = "langchain-rse",
    k: int = _MOST,
    max_context_length: float | None = None,
    **settings: Any,  # noqa: ANN401
) -> "FastMCP[Any]":
    """Make an MCP server with the tools ``search``, ``read_around`` and ``list_documents``.

    The tools only read. ``create_mcp_server(retriever).run()`` serves one client on stdin and
    stdout, ``run("streamable-http")`` any number of clients, without authentication by default.

    Args:
        retriever: The retriever that searches.
        name: The server's name.
        k: The most passages of an answer.
        max_context_length: The most text of an answer, headings included, in the units of the
            retriever's ``length_function``. None for that of the retriever.
        **settings: Arguments of the SDK's ``FastMCP``, such as ``host``, ``port`` and ``auth``.

    Raises:
        ValueError: If ``k`` or ``max_context_length`` is out of its range.
    """
    tool = create_rse_tool(retriever, k=k, max_context_length=max_context_length)
    server: FastMCP[Any] = FastMCP(name, _INSTRUCTIONS, **settings)
    add = server.tool(annotations=ToolAnnotations(readOnlyHint=True), structured_output=False)

    async def search(query: str, k: Annotated[int, Field(ge=1, le=k)] = k) -> str:
        """Search the documents for passages that answer a question, the best k of them.

        Each passage has its source and place. To read on, give these to read_around.
        """
        return str(await tool.ainvoke({"query": query, "k": k}))

    async def read_around(document: str, start: _Index, end: _Index) -> str:
        """Read the exact text of a document from character start until end, at most 20,000.

        The document is a source or file name as search or list_documents give it. To read around a
        passage, give a smaller start and a larger end than its own.
        """
        return await _read(retriever.docstore, document, start, end)

    async def list_documents(
        offset: _Index = 0, limit: Annotated[int, Field(ge=1, le=200)] = 50
    ) -> str:
        """List the documents with their lengths in characters, from number offset (0 is first)."""
        manifests = await arun(read_manifests(retriever.docstore))
        found = sorted(manifests, key=lambda one: one.doc_id)
        page = found[offset : offset + limit]
        if not page:
            return f"There are {len(found)} documents, none from number {offset}."
        last = offset + len(page)
        more = f". Go on with offset={last}" if last < len(found) else ""
        lines = [f"{visible(one.doc_id)}, {one.length} characters" for one in page]
        return "\n".join([f"Documents {offset + 1}-{last} of {len(found)}{more}:", *lines])

    for function in (search, read_around, list_documents):
        add(function)
    return server


async def _read(docstore: BaseStore[str, Document], document: str, start: int, end: int) -> str:
    manifests = await arun(read_manifests(docstore))
    doc_id = find_document(document, names_of(manifests))
    manifest = next(one for one in manifests if one.doc_id == doc_id)
    version = manifest.current or Version("", 0)
    characters = range(start, min(end, start + _LONGEST, manifest.length))
    steps = read_passage(docstore, doc_id, version.name, range(version.chunks), characters)
    found = await arun(steps) if characters else None
    if not found:
        raise ValueError(
            f"there are no characters {start}-{end} in {doc_id!r}, which has {manifest.length}, or "
            "not all of them are stored"
        )
    return f"{place_of(found.metadata)}\n{encodable(found.page_content)}"
