"""``langchain-rse list``, ``remove``, ``check``: manage a knowledge base."""

import sys
from typing import Annotated

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase, only_writer
from langchain_rse.cli.options import Folder
from langchain_rse.cli.output import print_text, visible_lines
from langchain_rse.text.quoting import counted


def list_documents(kb: Folder) -> None:
    """List the documents of a knowledge base, with their sizes.

    Example: langchain-rse list --kb library
    """
    opened = KnowledgeBase.existing(kb)
    print_text("   characters     chunks  document")
    for doc_id, manifest in opened.manifests.items():
        is_finished = manifest.versions == [manifest.current]
        note = "" if is_finished else " (incomplete: index or remove it again)"
        sizes = f"{manifest.length:13,}  {manifest.chunk_count:9,}"
        print_text(f"{sizes}  {opened.names[doc_id]}{note}")
    count = counted(len(opened.manifests), "document")
    print_text(f"{count}, {counted(opened.chunks, 'chunk')}")
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
        opened.fit_floor()


def check(
    kb: Folder,
    *,
    repair: Annotated[bool, typer.Option(help="Repair what can be repaired.")] = False,
) -> None:
    """Check a knowledge base for damage, and repair it.

    Compares every text with its vector. The exit status is 1 if problems remain.

    Example: langchain-rse check --repair --kb library
    """
    opened = KnowledgeBase.existing(kb)
    with only_writer(kb):
        report = opened.retriever.indexer.check(repair=repair, show_progress=sys.stderr.isatty())
    print_text(visible_lines(str(report)))
    raise typer.Exit(0 if report.ok else 1)
