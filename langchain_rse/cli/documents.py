"""``langchain-rse list``, ``stats``, ``remove``, ``check``: manage a knowledge base."""

import contextlib
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase, only_writer
from langchain_rse.cli.output import AsJson, print_json, print_text


def list_documents(kb: Folder, *, as_json: AsJson = False) -> None:
    """List the documents of a knowledge base."""
    found = KnowledgeBase.existing(kb).manifests
    files = Counter(Path(manifest.doc_id).name for manifest in found)
    documents: list[dict[str, Any]] = [
        {
            # A name that `remove` takes.
            "name": name if files[name := Path(one.doc_id).name] == 1 else one.doc_id,
            "doc_id": one.doc_id,
            "characters": one.length,
            "chunks": one.current.chunks if one.current else 0,
            "unfinished": bool(one.unfinished),
        }
        for one in found
    ]
    if as_json:
        print_json(documents)
        return
    rows = [(one["name"] + " (unfinished)" * one["unfinished"], one) for one in documents]
    width = max([len(name) for name, _ in rows] + [len("document")])
    print_text(f"{'document':{width}}  {'characters':>13}  {'chunks':>9}")
    for name, one in rows:
        print_text(f"{name:{width}}  {one['characters']:13,}  {one['chunks']:9,}")


def stats(kb: Folder, *, as_json: AsJson = False) -> None:
    """Show how much is in a knowledge base, and how it was made."""
    opened = KnowledgeBase.existing(kb)
    found = opened.manifests
    figures: dict[str, Any] = {
        "documents": len(found),
        "chunks": sum(manifest.current.chunks for manifest in found if manifest.current),
        "characters": sum(manifest.length for manifest in found),
        "bytes": sum(file.stat().st_size for file in kb.rglob("*") if file.is_file()),
        **opened.made.model_dump(),
        "unfinished": [manifest.doc_id for manifest in found if manifest.unfinished],
    }
    if as_json:
        print_json(figures)
        return
    # The user has to index or remove unfinished documents again.
    for name, value in figures.items():
        shown = f"{value:,}" if type(value) is int else value
        print_text(f"{name + ':':12} {', '.join(shown) if name == 'unfinished' else shown}")


def remove(
    documents: Annotated[
        list[str], typer.Argument(metavar="DOC", help="Their ids, or the names of their files.")
    ],
    kb: Folder,
) -> None:
    """Remove documents from a knowledge base; the files stay where they are."""
    opened = KnowledgeBase.existing(kb)
    ids = dict.fromkeys(map(opened.find, documents))
    with only_writer(kb):
        for doc_id in opened.retriever.delete(list(ids)):
            print_text(f"removed {doc_id}")


def check(
    kb: Folder,
    *,
    repair: Annotated[bool, typer.Option(help="Repair what can be repaired.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare all that the two stores have; the exit status is 1 if anything is wrong."""
    opened = KnowledgeBase.existing(kb)
    with only_writer(kb) if repair else contextlib.nullcontext():
        report = opened.retriever.check(repair=repair, show_progress=sys.stderr.isatty())
    if as_json:
        print_json(report.to_dict())
    else:
        print_text(str(report), lines=True)
    raise typer.Exit(0 if report.ok else 1)
