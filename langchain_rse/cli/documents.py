"""``langchain-rse index``, ``list``, ``remove``, ``check``: the documents of a knowledge base."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase, only_writer
from langchain_rse.cli.output import command_line, print_note, print_text, visible_lines
from langchain_rse.text.quoting import counted, first_few

if TYPE_CHECKING:
    from langchain_rse.cli.files import Files
    from langchain_rse.stores.records import Manifest


def index(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            hidden=True,  # described in the text above the options
            exists=True,
            readable=False,  # unreadable files are listed at the end
        ),
    ],
    kb: Folder,
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=_check_encoding,
            help="Encoding of text and HTML files, such as cp1252. Default: detected, and printed "
            "if it is a guess.",
        ),
    ] = None,
    embeddings: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Embedding model of a new knowledge base: a LangChain Embeddings class as "
            "module:Class, or provider:model such as openai:text-embedding-3-small. It cannot be "
            "changed later. Default: wordllama's word vectors, which work offline.",
        ),
    ] = None,
    *,
    running_heads: Annotated[
        bool,
        typer.Option(
            "--running-heads", help="Keep what repeats at the top or bottom of most pages."
        ),
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents of these paths whose files are gone.")
    ] = False,
) -> None:
    """Add files to a knowledge base, and update changed ones.

    PATH is a file or folder: text, source code, data, HTML, Word (.docx), PDF. Hidden folders,
    virtual environments, node_modules and files that Git ignores are skipped. The exit status is 3
    if some files could not be read.

    Example: langchain-rse index reports/ notes.md --kb library
    """
    from tqdm import tqdm

    from langchain_rse.cli.files import Files

    files = Files(encoding, keep_running=running_heads)
    found = files.find(paths)
    if found:
        bar = tqdm(found, "Reading", unit=" files", leave=False, disable=None)  # in terminals only
        with only_writer(kb, embeddings), warnings.catch_warnings():
            # The list of unreadable files names these documents.
            warnings.filterwarnings("ignore", r"\d+ document\(s\) have no text")
            opened = KnowledgeBase.create(kb, embeddings)
            before = opened.manifests
            is_terminal = sys.stderr.isatty()
            ids = opened.retriever.add_documents(files.read(bar), show_progress=is_terminal)
            del opened.manifests  # to read it again
            if prune:
                opened.remove(_missing_of(opened, paths, files, ids))
            print_text(f"{kb}: {_summary(before, opened.manifests, ids)}")
            opened.fit_floor()
    for note in files.notes:
        print_text(note)
    if files.skipped:
        kinds = [f"{count} {kind}" for kind, count in files.skipped.most_common()]
        print_text(f"Skipped: {', '.join(kinds)}")
    if files.empty:
        print_text(f"Empty, so listed but never found: {first_few(files.empty, 3)}")
    if files.failures:
        lines = [f"  {path}: {reason}" for path, reason in files.failures.items()]
        print_note("\n".join([f"Could not read {len(lines)}:", *lines]), "red")
        raise typer.Exit(3 if found else 1)


def _check_encoding(name: str | None) -> str | None:
    try:
        "".encode(name or "utf-8")
    except (LookupError, ValueError):
        raise typer.BadParameter(f"there is no encoding {name!r}") from None
    return name


def _summary(
    before: Mapping[str, Manifest], after: Mapping[str, Manifest], ids: Sequence[str]
) -> str:
    """Say what happened to documents, and how many the knowledge base has now."""
    changes: Counter[str] = Counter()
    for doc_id in ids:
        change = "unchanged"
        if doc_id not in before or not before[doc_id].current:
            change = "added"
        elif after[doc_id].current != before[doc_id].current:
            change = "changed"
        changes[change] += 1
    counts = [f"{number:,} {change}" for change, number in sorted(changes.items())]
    return f"{', '.join(counts) or 'nothing read'}; {counted(len(after), 'document')}"


def _missing_of(
    opened: KnowledgeBase, paths: Iterable[Path], files: Files, ids: Iterable[str]
) -> list[str]:
    """Return the documents of these paths whose files are gone.

    A file or folder that cannot be read is not gone, and documents of other folders are not
    either: their disk may not be mounted.
    """
    folders = {path.resolve() for path in paths}
    unread = {Path(os.path.realpath(path)) for path in files.failures}
    gone = []
    for doc_id in opened.manifests.keys() - set(ids):
        parents = {Path(doc_id), *Path(doc_id).parents}
        if parents & folders and not parents & unread:
            gone.append(doc_id)
    return sorted(gone)


def list_(kb: Folder) -> None:
    """List the documents of a knowledge base, with their sizes.

    Example: langchain-rse list --kb library
    """
    opened = KnowledgeBase.existing(kb)
    print_text("   characters     chunks  document")
    for doc_id, manifest in opened.manifests.items():
        sizes = f"{manifest.length:13,}  {manifest.chunk_count:9,}"
        mark = "" if manifest.current else " (interrupted: index or remove it again)"
        print_text(f"{sizes}  {opened.names[doc_id]}{mark}")
    count = counted(len(opened.manifests), "document")
    print_text(f"{count}, {counted(opened.chunks, 'chunk')}")
    print_text(f"Embedding model {opened.model_name}")


def remove(
    documents: Annotated[
        list[str], typer.Argument(metavar="DOC", hidden=True)  # described in the text below
    ],
    kb: Folder,
) -> None:
    """Remove documents from a knowledge base; their files stay.

    DOC is a name as `list` shows it, a path or an id.

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
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired.")] = False,
) -> None:
    """Check a knowledge base for damage, and repair it.

    Compares every text with its vector. The exit status is 1 if problems remain.

    Example: langchain-rse check --repair --kb library
    """
    opened = KnowledgeBase.existing(kb)
    with only_writer(kb):
        report = opened.retriever.indexer.check(repair=repair, show_progress=sys.stderr.isatty())
    command = f"{command_line()} check --repair --kb {shlex.quote(str(kb))}"
    print_text(visible_lines(report.describe(command)))
    raise typer.Exit(not report.ok)
