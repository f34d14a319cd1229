"""``langchain-rse inspect``: shows a document of a knowledge base, chunk by chunk."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase
from langchain_rse.cli.options import NUMBER, AsJson, Folder
from langchain_rse.cli.output import console, print_json, print_text, visible_lines
from langchain_rse.text.quoting import counted, one_line
from langchain_rse.text.ranges import format_range

if TYPE_CHECKING:
    from langchain_core.documents import Document


def inspect(
    document: Annotated[
        str, typer.Argument(metavar="DOC", help="Name as `list` shows it, path or id.")
    ],
    kb: Folder,
    chunk: Annotated[
        int | None,
        typer.Option(metavar=NUMBER, min=0, help="Show this chunk in full. Chunks count from 0."),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show the chunks of a document.

    Prints each chunk's number, its characters in the document, its metadata, and the beginning of
    the text that was embedded.

    Example: langchain-rse inspect 10k.pdf --kb library --chunk 17
    """
    from langchain_rse.stores.layouts import every_chunk
    from langchain_rse.stores.records import CHUNK_INDEX

    opened = KnowledgeBase.existing(kb)
    doc_id = opened.find(document)
    chunks: list[Document] = []
    for batch in every_chunk(opened.docstore, lambda manifest: manifest.doc_id == doc_id):
        chunks += batch
    count = len(chunks)
    if chunk is not None:
        chunks = [each for each in chunks if each.metadata[CHUNK_INDEX] == chunk]
        if not chunks:
            raise ValueError(
                f"{opened.names[doc_id]} has no chunk {chunk}; it has chunks 0 to {count - 1}"
            )
    if as_json:
        print_json([each.model_dump(include={"page_content", "metadata"}) for each in chunks])
        return
    print_text(opened.names[doc_id], "bold")
    length = opened.manifests[doc_id].length
    print_text(f"{counted(length, 'character')} in {counted(count, 'chunk')}, numbered from 0")
    for each in chunks:
        print_text(_title_of(each.metadata), "bold")
        if chunk is None:
            print_text(one_line(each.page_content, console.width if console.is_terminal else 80))
        else:
            print_text(visible_lines(each.page_content))


def _title_of(metadata: Mapping[str, Any]) -> str:
    """Return a chunk's number, characters and metadata as one line."""
    from langchain_rse.stores.records import (
        CHUNK_ID,
        CHUNK_INDEX,
        END_INDEX,
        LOCATION_FIELDS,
        START_INDEX,
        VERSION,
    )

    internal = {*LOCATION_FIELDS, CHUNK_ID, VERSION, "source"}
    characters = format_range(metadata[START_INDEX], metadata[END_INDEX])
    parts = [f"chunk {metadata[CHUNK_INDEX]}", f"characters {characters}"]
    for name, value in metadata.items():
        if name not in internal:
            parts.append(f"{name} {value}")
    return ", ".join(parts)
