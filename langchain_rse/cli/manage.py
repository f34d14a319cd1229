"""``langchain-rse list``, ``remove``, ``check``: manage a knowledge base."""

import sys
from typing import Annotated

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase, only_writer
from langchain_rse.cli.options import AsJson, Folder
from langchain_rse.cli.output import print_json, print_text, visible_lines
from langchain_rse.text.quoting import counted


def list_documents(kb: Folder, *, as_json: AsJson = False) -> None:
    """List the documents of a knowledge base, with their sizes.

    Example: langchain-rse list --kb library
    """
    opened = KnowledgeBase.existing(kb)
    documents = []
    for doc_id, manifest in opened.manifests.items():
        documents.append(
            {
                "name": opened.names[doc_id],
                "doc_id": doc_id,
                "characters": manifest.length,
                "chunks": manifest.chunk_count,
                "unfinished": not manifest.is_finished,
            }
        )
    if as_json:
        print_json(documents)
        return
    print_text("   characters     chunks  document")
    for document in documents:
        note = " (incomplete: index or remove it again)" if document["unfinished"] else ""
        sizes = f"{document['characters']:13,}  {document['chunks']:9,}"
        print_text(f"{sizes}  {document['name']}{note}")
    print_text(f"{counted(len(documents), 'document')}, {counted(opened.chunks, 'chunk')}")
    print_text(f"Embedding model {opened.model_name}")


def remove(
    documents: Annotated[
        list[str], typer.Argument(metavar="DOC", help="Names as `list` shows them, paths or ids.")
    ],
    kb: Folder,
) -> None:
    """Remove documents from a knowledge base; their files stay.

    Example: langchain-rse remove notes.md --kb library
    """
    opened = KnowledgeBase.existing(kb)
    ids = [opened.find(document) for document in documents]
    with only_writer(kb):
        opened.remove(list(dict.fromkeys(ids)))
        opened.update_floor(fit=False)


def check(
    kb: Folder,
    *,
    repair: Annotated[bool, typer.Option(help="Repair what can be repaired.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a knowledge base for damage, and repair it.

    Compares every text with its vector. The exit status is 1 if problems remain.

    Example: langchain-rse check --repair --kb library
    """
    opened = KnowledgeBase.existing(kb)
    with only_writer(kb):
        report = opened.retriever.indexer.check(repair=repair, show_progress=sys.stderr.isatty())
    if as_json:
        print_json(report.to_dict())
    else:
        print_text(visible_lines(str(report)))
    raise typer.Exit(0 if report.ok else 1)
