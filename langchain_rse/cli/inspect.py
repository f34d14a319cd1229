"""``langchain-rse inspect``: shows a document of a knowledge base, chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from rich.text import Text

from langchain_rse._messages import counted, visible
from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase
from langchain_rse.cli.output import AsJson, console, print_json, print_parts, print_text, shorten
from langchain_rse.errors import MissingRecordError

if TYPE_CHECKING:
    from langchain_core.vectorstores import VectorStore


def inspect(
    document: Annotated[
        str, typer.Argument(metavar="DOC", help="Its id, or the name of its file.")
    ],
    kb: Folder,
    chunk: Annotated[
        int | None, typer.Option(min=0, help="Show all of the chunk of this number, from 0.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show a document's chunks: their places, what was embedded, what would be returned."""
    opened = KnowledgeBase.existing(kb)
    found = inspect_document(opened.docstore, opened.vectorstore, opened.find(document))
    count = len(found["chunks"])
    if chunk is not None:
        if chunk >= count:
            raise ValueError(
                f"{found['doc_id']} has no chunk {chunk}: it has {count}, counted from 0"
            )
        found["chunks"] = [found["chunks"][chunk]]
    if as_json:
        print_json(found)
        return
    print_text(found["doc_id"], "bold")
    if version := found["version"]:
        size = f"{counted(found['length'], 'character')} in {counted(count, 'chunk')}"
        print_text(f"{size} · version {version}")
    for version in found["incomplete_versions"]:
        print_text(f"Adding or deleting version {version} was interrupted: do it again", "red")
    header = {"header": found["header"]} if found["header"] else {}
    for name, value in {**header, **found["metadata"]}.items():
        print_text(f"{name}: {value}")
    for one in found["chunks"]:
        place = "" if one["text"] is None else f"{one['start']}-{one['end']}"
        metadata = ", ".join(f"{name} {value}" for name, value in one["metadata"].items())
        title = " · ".join(filter(None, [f"chunk {one['index']}", place, metadata, one["problem"]]))
        if chunk is not None:
            texts = {"embedded": one["embedded"], "returned": one["text"]}
            print_parts(title, *((n, shorten(t, full=True)) for n, t in texts.items() if t))
            continue
        text = visible(" ".join((one["text"] or "").split()))
        line = Text(visible(title), "bold").append(f"  {text}", "not bold")
        if console.is_terminal:
            line.truncate(console.width, overflow="ellipsis")
        print_text(line)


def inspect_document(
    docstore: BaseStore[str, Document], vectorstore: VectorStore, doc_id: str
) -> dict[str, Any]:
    """Read a document from the two stores; the vector store must have ``get_by_ids``.

    Each chunk has its place (None if unknown), the ``text`` that a segment returns, the
    ``embedded`` text, the ``metadata`` that does not hold for the whole document, and the
    ``problem`` if something is missing. The vectors of adopted documents are not read.
    """
    from langchain_rse.stores.metadata_rules import segment_metadata
    from langchain_rse.stores.records import (
        END_INDEX,
        START_INDEX,
        Manifest,
        Version,
        chunk_key,
        document_key,
        manifest_key,
        metadata_changes,
    )

    key = manifest_key(document_key(doc_id))
    record = docstore.mget([key])[0]
    if record is None:
        raise MissingRecordError(f"the docstore does not know the document {doc_id!r}")
    manifest = Manifest.from_document(record, key)
    version = manifest.current or Version("", 0)
    ids = list(version.vector_ids(manifest.key))
    vectors = {one.id: one.page_content for one in (vectorstore.get_by_ids(ids) if ids else ())}
    keys = [chunk_key(manifest.key, version.name, index) for index in range(version.chunks)]
    chunks: list[dict[str, Any]] = []
    for index, (place, chunk) in enumerate(zip(keys, docstore.mget(keys), strict=True)):
        changes = [metadata for _, metadata in metadata_changes(chunk, place)] if chunk else []
        metadata = segment_metadata(manifest.metadata, manifest.rules, changes)
        embedded = vectors.get(ids[index]) if ids else None
        problems = ["no text"] * (chunk is None) + ["no vector"] * (bool(ids) and embedded is None)
        chunks.append(
            {
                "index": index,
                "start": chunk and chunk.metadata.get(START_INDEX),
                "end": chunk and chunk.metadata.get(END_INDEX),
                "text": chunk and chunk.page_content,
                "embedded": embedded,
                "metadata": {n: v for n, v in metadata.items() if n not in manifest.metadata},
                "problem": ", ".join(problems),
            }
        )
    return {
        "doc_id": doc_id,
        "version": version.name or None,
        "adopted": version.adopted > 0,
        "incomplete_versions": [version.name for version in manifest.unfinished],
        "length": manifest.length,
        "header": manifest.header,
        "metadata": dict(manifest.metadata),
        "chunks": chunks,
    }
