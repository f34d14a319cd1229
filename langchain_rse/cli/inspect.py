"""``langchain-rse inspect``: shows a document of a knowledge base, chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from rich.text import Text

from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase
from langchain_rse.cli.output import (
    AsJson,
    console,
    print_json,
    print_parts,
    print_text,
    visible_lines,
)
from langchain_rse.errors import MissingRecordError
from langchain_rse.text.quoting import counted, visible

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
    """Show the chunks of a document.

    Prints the number of each chunk, which characters of the document it is, what else is known of
    it, and the beginning of its text; with --chunk, what was embedded, and what is returned.

    Example: langchain-rse inspect 10k.pdf --kb library --chunk 17
    """
    opened = KnowledgeBase.existing(kb)
    fields = inspect_document(opened.docstore, opened.vectorstore, opened.find(document))
    count = len(fields["chunks"])
    if chunk is not None:
        if chunk >= count:
            raise ValueError(
                f"{fields['doc_id']} has no chunk {chunk}: it has {count}, counted from 0"
            )
        fields["chunks"] = [fields["chunks"][chunk]]
    if as_json:
        print_json(fields)
        return
    _print_document(fields, count)
    for chunk_fields in fields["chunks"]:
        if chunk is None:
            _print_chunk_line(chunk_fields)
        else:
            _print_whole_chunk(chunk_fields)


def _print_document(fields: dict[str, Any], chunks: int) -> None:
    print_text(fields["doc_id"], "bold")
    if fields["version"]:
        size = f"{counted(fields['length'], 'character')} in {counted(chunks, 'chunk')}"
        print_text(f"{size}, numbered from 0")
        print_text(f"version: {fields['version']}")
    for version in fields["incomplete_versions"]:
        print_text(f"Adding or deleting version {version} was interrupted: do it again", "red")
    if fields["header"]:
        print_text(f"header: {fields['header']}")
    for name, value in fields["metadata"].items():
        print_text(f"{name}: {value}")


def _print_chunk_line(fields: dict[str, Any]) -> None:
    """Print a chunk's title and text on one line, which ends with the terminal's."""
    words = (fields["text"] or "").split()
    line = Text(visible(_title(fields, "")), "bold")
    line.append("  " + visible(" ".join(words)), "not bold")
    if console.is_terminal:
        line.truncate(console.width, overflow="ellipsis")
    print_text(line)


def _print_whole_chunk(fields: dict[str, Any]) -> None:
    """Print what was embedded of a chunk, and what is returned."""
    parts = []
    for name, text in [("embedded", fields["embedded"]), ("returned", fields["text"])]:
        if text:
            parts.append((name, visible_lines(text)))
    print_parts(_title(fields, "characters "), *parts)


def _title(fields: dict[str, Any], unit: str) -> str:
    """A chunk's number, characters with their unit in front, metadata and problem."""
    parts = [f"chunk {fields['index']}"]
    if fields["text"] is not None:
        parts.append(f"{unit}{fields['start']}-{fields['end']}")
    if fields["metadata"]:
        parts.append(", ".join(f"{name} {value}" for name, value in fields["metadata"].items()))
    if fields["problem"]:
        parts.append(fields["problem"])
    return ", ".join(parts)


def inspect_document(
    docstore: BaseStore[str, Document], vectorstore: VectorStore, doc_id: str
) -> dict[str, Any]:
    """Read a document from the two stores; the vector store must have ``get_by_ids``.

    Each chunk has its ``start`` and ``end`` (None if unknown), the ``text`` that a segment returns,
    the ``embedded`` text, the ``metadata`` that does not hold for the whole document, and the
    ``problem`` if something is missing. The vectors of adopted documents are not read.
    """
    from langchain_rse.stores import records

    manifest_key = records.manifest_key(records.document_key(doc_id))
    record = docstore.mget([manifest_key])[0]
    if record is None:
        raise MissingRecordError(f"the docstore does not know the document {doc_id!r}")
    manifest = records.Manifest.from_document(record, manifest_key)
    version = manifest.current or records.Version("", 0)
    embedded_texts = _embedded_texts(vectorstore, list(version.vector_ids(manifest.key)))
    keys = [records.chunk_key(manifest.key, version.name, index) for index in range(version.chunks)]
    incomplete_versions = [
        incomplete.name for incomplete in manifest.versions if incomplete != manifest.current
    ]
    chunks: list[dict[str, Any]] = []
    for index, (key, chunk) in enumerate(zip(keys, docstore.mget(keys), strict=True)):
        problems = []
        if chunk is None:
            problems.append("no text")
        if not version.adopted and index not in embedded_texts:
            problems.append("no vector")
        chunks.append(
            {
                "index": index,
                **_stored_fields(chunk, key, manifest),
                "embedded": embedded_texts.get(index),
                "problem": ", ".join(problems),
            }
        )
    return {
        "doc_id": doc_id,
        "version": version.name or None,
        "adopted": version.adopted > 0,
        "incomplete_versions": incomplete_versions,
        "length": manifest.length,
        "header": manifest.header,
        "metadata": dict(manifest.metadata),
        "chunks": chunks,
    }


def _embedded_texts(vectorstore: VectorStore, ids: list[str]) -> dict[int, str]:
    """The embedded texts of chunks by their numbers, without those that have no vector."""
    if not ids:
        return {}
    vectors = vectorstore.get_by_ids(ids)
    texts = {vector.id: vector.page_content for vector in vectors}
    return {index: texts[vector] for index, vector in enumerate(ids) if vector in texts}


def _stored_fields(chunk: Document | None, key: str, manifest: Manifest) -> dict[str, Any]:
    """What the docstore has of a chunk."""
    from langchain_rse.stores.records import (
        END_INDEX,
        START_INDEX,
        metadata_changes,
        segment_metadata,
    )

    start = end = text = None
    changes = []
    if chunk is not None:
        start, end = chunk.metadata.get(START_INDEX), chunk.metadata.get(END_INDEX)
        text = chunk.page_content
        changes = [metadata for _, metadata in metadata_changes(chunk, key)]
    metadata = segment_metadata(manifest.metadata, manifest.rules, changes)
    own_metadata = {
        name: value for name, value in metadata.items() if name not in manifest.metadata
    }
    return {"start": start, "end": end, "text": text, "metadata": own_metadata}
