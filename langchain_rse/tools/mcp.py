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

_MAX_CHARACTERS = 20_000  # of a document in one call of read_around
_DEFAULT_K = 10
_INSTRUCTIONS = (
    "search finds passages of documents and says where they stand; read_around reads what stands "
    "around a passage; list_documents lists all documents. Cite source, pages and characters."
)
_Index = Annotated[int, Field(ge=0)]


def create_mcp_server(
    retriever: RSERetriever,
    *,
    name: str = "langchain-rse",
    k: int = _DEFAULT_K,
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
    search_tool = create_rse_tool(retriever, k=k, max_context_length=max_context_length)

    # Clients read the docstrings of these functions.
    async def search(query: str, k: Annotated[int, Field(ge=1, le=k)] = k) -> str:
        """Search the documents for passages that answer a question, the best k of them.

        Each passage has its source and place. To read on, give these to read_around.
        """
        return str(await search_tool.ainvoke({"query": query, "k": k}))

    async def read_around(document: str, start: _Index, end: _Index) -> str:
        """Read the exact text of a document from character start until end, at most 20,000.

        The document is a source or file name as search or list_documents give it. To read around a
        passage, give a smaller start and a larger end than its own.
        """
        return await _read_around(retriever.docstore, document, start, end)

    async def list_documents(
        offset: _Index = 0, limit: Annotated[int, Field(ge=1, le=200)] = 50
    ) -> str:
        """List the documents with their lengths in characters, from number offset (0 is first)."""
        return await _list_documents(retriever.docstore, offset, limit)

    server: FastMCP[Any] = FastMCP(name, _INSTRUCTIONS, **settings)
    for function in (search, read_around, list_documents):
        server.add_tool(
            function, annotations=ToolAnnotations(readOnlyHint=True), structured_output=False
        )
    return server


async def _read_around(
    docstore: BaseStore[str, Document], document: str, start: int, end: int
) -> str:
    manifests = {manifest.doc_id: manifest for manifest in await arun(read_manifests(docstore))}
    doc_id = find_document(document, names_of(manifests.values()))
    manifest = manifests[doc_id]
    version = manifest.current or Version("", 0)
    characters = range(start, min(end, start + _MAX_CHARACTERS, manifest.length))
    passage = None
    if characters:
        steps = read_passage(docstore, doc_id, version.name, range(version.chunks), characters)
        passage = await arun(steps)
    if passage is None:
        raise ValueError(
            f"there are no characters {start}-{end} in {doc_id!r}, which has {manifest.length}, or "
            "not all of them are stored"
        )
    return f"{place_of(passage.metadata)}\n{encodable(passage.page_content)}"


async def _list_documents(docstore: BaseStore[str, Document], offset: int, limit: int) -> str:
    manifests = await arun(read_manifests(docstore))
    manifests.sort(key=lambda manifest: manifest.doc_id)
    page = manifests[offset : offset + limit]
    if not page:
        return f"There are {len(manifests)} documents, none from number {offset}."
    end = offset + len(page)
    head = f"Documents {offset + 1}-{end} of {len(manifests)}"
    if end < len(manifests):
        head += f". Go on with offset={end}"
    lines = [f"{visible(manifest.doc_id)}, {manifest.length} characters" for manifest in page]
    return "\n".join([f"{head}:", *lines])
