"""``langchain-rse inspect``: shows what a knowledge base has of a document, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from rich.text import Text

from langchain_rse._messages import visible
from langchain_rse.cli.knowledge_base import Folder, document_names, open_existing
from langchain_rse.cli.output import AsJson, console, print_json, print_panel, print_text, shorten
from langchain_rse.errors import MissingRecordError
from langchain_rse.stores.names import find_document

if TYPE_CHECKING:
    from langchain_core.vectorstores import VectorStore

    from langchain_rse.stores.records import Manifest


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
    opened = open_existing(kb)
    docstore = opened.retriever.docstore
    doc_id = find_document(document, document_names(docstore))
    found = inspect_document(docstore, opened.vectorstore, doc_id)
    count = len(found["chunks"])
    if chunk is not None:
        if chunk >= count:
            raise ValueError(f"{doc_id} has no chunk {chunk}: it has {count}, counted from 0")
        found["chunks"] = [found["chunks"][chunk]]
    if as_json:
        print_json(found)
        return
    print_text(found["doc_id"], "bold")
    if version := found["version"]:
        print_text(f"{found['length']:,} characters in {count:,} chunks · version {version}")
    for version in found["incomplete_versions"]:
        print_text(f"Adding or deleting version {version} was interrupted: do it again", "red")
    header = {"header": found["header"]} if found["header"] else {}
    for name, value in {**header, **found["metadata"]}.items():
        print_text(f"{name}: {value}")
    for each in found["chunks"]:
        _print_chunk(each, full=chunk is not None)


def inspect_document(
    docstore: BaseStore[str, Document], vectorstore: VectorStore, doc_id: str
) -> dict[str, Any]:
    """Read what the two stores have of a document; the vector store must know ``get_by_ids``.

    Of each chunk: the place (None if unknown), the ``text`` that a segment returns, the
    ``embedded`` text, the ``metadata`` that do not hold for the whole document, and the
    ``problem`` if something is missing. The vectors of adopted documents are not looked up.
    """
    from langchain_rse.stores.records import Manifest, document_key, manifest_key

    key = manifest_key(document_key(doc_id))
    record = docstore.mget([key])[0]
    if record is None:
        raise MissingRecordError(f"the docstore does not know the document {doc_id!r}")
    manifest = Manifest.from_document(record, key)
    current = manifest.current
    return {
        "doc_id": doc_id,
        "version": current.name if current else None,
        "adopted": current is not None and current.adopted > 0,
        "incomplete_versions": [version.name for version in manifest.unfinished],
        "length": manifest.length,
        "header": manifest.header,
        "metadata": dict(manifest.metadata),
        "chunks": list(_chunks(docstore, vectorstore, manifest)),
    }


def _chunks(
    docstore: BaseStore[str, Document], vectorstore: VectorStore, manifest: Manifest
) -> Iterator[dict[str, Any]]:
    from langchain_rse.stores.records import (
        END_INDEX,
        START_INDEX,
        chunk_key,
        metadata_changes,
        segment_metadata,
    )

    version = manifest.current
    if version is None:
        return
    keys = [chunk_key(manifest.key, version.name, index) for index in range(version.chunks)]
    ids = list(version.vector_ids(manifest.key))
    vectors = vectorstore.get_by_ids(ids) if ids else []
    embedded = {vector.id: vector.page_content for vector in vectors}
    for index, (key, record) in enumerate(zip(keys, docstore.mget(keys), strict=True)):
        vector_text = embedded.get(ids[index]) if ids else None
        places = [metadata for _, metadata in metadata_changes(record, key)] if record else []
        metadata = segment_metadata(manifest.metadata, manifest.rules, places)
        problems = ["no text"] * (record is None)
        problems += ["no vector"] * (bool(ids) and vector_text is None)
        yield {
            "index": index,
            "start": record.metadata.get(START_INDEX) if record else None,
            "end": record.metadata.get(END_INDEX) if record else None,
            "text": record.page_content if record else None,
            "embedded": vector_text,
            "metadata": {n: v for n, v in metadata.items() if n not in manifest.metadata},
            "problem": ", ".join(problems),
        }


def _print_chunk(chunk: Mapping[str, Any], *, full: bool) -> None:
    """Print a chunk on one line, or ``full`` with all that was embedded and is returned."""
    place = "" if chunk["text"] is None else f"{chunk['start']}-{chunk['end']}"
    metadata = ", ".join(f"{name} {value}" for name, value in chunk["metadata"].items())
    parts = [f"chunk {chunk['index']}", place, metadata, chunk["problem"]]
    title = " · ".join(filter(None, parts))
    if full:
        texts = {"embedded": chunk["embedded"], "returned": chunk["text"]}
        shown = {name: shorten(t, full=True) for name, t in texts.items() if t is not None}
        print_panel(title, *shown.items())
        return
    text = visible(" ".join((chunk["text"] or "").split()))
    line = Text(visible(title), "bold").append(f"  {text}", "not bold")
    if console.is_terminal:
        line.truncate(console.width, overflow="ellipsis")
    print_text(line)
