"""``langchain-rse list``, ``stats``, ``remove``, ``check``: manage a knowledge base."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_rse.cli.knowledge_base import (
    Folder,
    KnowledgeBase,
    only_writer,
    remove_void_floor,
)
from langchain_rse.cli.output import AsJson, print_json, print_text

if TYPE_CHECKING:
    from langchain_rse.stores.records import Manifest


def list_documents(kb: Folder, *, as_json: AsJson = False) -> None:
    """List the documents of a knowledge base.

    Example: langchain-rse list --kb library
    """
    documents = _describe(KnowledgeBase.existing(kb).manifests)
    if as_json:
        print_json(documents)
        return
    titles = []
    for document in documents:
        title = document["name"]
        if document["unfinished"]:
            title += " (unfinished)"
        titles.append(title)
    width = max(len(title) for title in ["document", *titles])
    print_text(f"{'document':{width}}  {'characters':>13}  {'chunks':>9}")
    for title, document in zip(titles, documents, strict=True):
        print_text(f"{title:{width}}  {document['characters']:13,}  {document['chunks']:9,}")


def _describe(manifests: Sequence[Manifest]) -> list[dict[str, Any]]:
    """Describe documents, each with a name that `remove` takes."""
    file_names = [Path(manifest.doc_id).name for manifest in manifests]
    documents_of_name = Counter(file_names)
    documents = []
    for manifest, file_name in zip(manifests, file_names, strict=True):
        is_unique = documents_of_name[file_name] == 1
        documents.append(
            {
                "name": file_name if is_unique else manifest.doc_id,
                "doc_id": manifest.doc_id,
                "characters": manifest.length,
                "chunks": manifest.current.chunks if manifest.current else 0,
                "unfinished": not manifest.is_finished,
            }
        )
    return documents


def stats(kb: Folder, *, as_json: AsJson = False) -> None:
    """Show the size of a knowledge base, and its settings.

    Example: langchain-rse stats --kb library
    """
    opened = KnowledgeBase.existing(kb)
    documents = _describe(opened.manifests)
    figures: dict[str, Any] = {
        "documents": len(documents),
        "chunks": sum(document["chunks"] for document in documents),
        "characters": sum(document["characters"] for document in documents),
        "bytes": sum(file.stat().st_size for file in kb.rglob("*") if file.is_file()),
        **opened.settings.model_dump(),
        # Indexing or removing these again completes what was interrupted.
        "unfinished": [document["doc_id"] for document in documents if document["unfinished"]],
    }
    if as_json:
        print_json(figures)
        return
    for name, value in figures.items():
        print_text(f"{name + ':':16} {_format(value)}")


def _format(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def remove(
    documents: Annotated[
        list[str], typer.Argument(metavar="DOC", help="Their ids, or the names of their files.")
    ],
    kb: Folder,
) -> None:
    """Remove documents; the files stay where they are.

    Example: langchain-rse remove notes.md --kb library
    """
    opened = KnowledgeBase.existing(kb)
    ids = [opened.find(document) for document in documents]
    unique_ids = list(dict.fromkeys(ids))
    with only_writer(kb):
        for doc_id in opened.remove(unique_ids):
            print_text(f"removed {doc_id}")
        remove_void_floor(opened)


def check(
    kb: Folder,
    *,
    repair: Annotated[bool, typer.Option(help="Repair what can be repaired.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that the knowledge base is whole, and repair it.

    Compares all texts and vectors. The exit status is 1 if anything is wrong.

    Example: langchain-rse check --repair --kb library
    """
    opened = KnowledgeBase.existing(kb)
    lock = only_writer(kb) if repair else contextlib.nullcontext()
    with lock:
        report = opened.retriever.indexer.check(repair=repair, show_progress=sys.stderr.isatty())
    if as_json:
        print_json(report.to_dict())
    else:
        print_text(str(report), lines=True)
    raise typer.Exit(0 if report.ok else 1)
