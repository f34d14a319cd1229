"""``langchain-rse index``: adds files to a knowledge base."""

from __future__ import annotations

import codecs
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase, only_writer
from langchain_rse.cli.options import NAME, Folder
from langchain_rse.cli.output import command_line, print_error, print_text, shown_path
from langchain_rse.text.quoting import counted, first_few

if TYPE_CHECKING:
    from langchain_rse.cli.files import Files


def index(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="Files or folders: text, source code, data, HTML, Word "
            "(.docx), PDF. Hidden folders, virtual environments, node_modules and files that Git "
            "ignores are skipped.",
            exists=True,
            readable=False,  # unreadable files are listed at the end
        ),
    ],
    kb: Folder,
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar=NAME,
            help="Encoding of text and HTML files, such as cp1252. Default: detected, and printed "
            "if it is a guess.",
        ),
    ] = None,
    embeddings: Annotated[
        str | None,
        typer.Option(
            metavar=NAME,
            help="Embedding model of a new knowledge base: a LangChain Embeddings class as "
            "module:Class, or provider:model such as openai:text-embedding-3-small. It cannot be "
            "changed later. Default: wordllama's word vectors, which work offline.",
        ),
    ] = None,
    *,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove documents of these paths whose files are gone."),
    ] = False,
    fit_floor: Annotated[
        bool,
        typer.Option(
            help="After indexing, learn the distance above which a question counts as "
            "unanswerable. Repeated when the knowledge base has doubled or halved."
        ),
    ] = True,
) -> None:
    """Add files to a knowledge base, and update changed ones.

    Example: langchain-rse index reports/ notes.md --kb library
    """
    from langchain_rse.cli.files import Files
    from langchain_rse.cli.models import load_embeddings

    codecs.lookup(encoding or "utf-8")  # raises an error for an unknown encoding
    files = Files(encoding)
    paths_to_add = files.find(paths, without=kb)
    if paths_to_add:
        if embeddings:
            load_embeddings(embeddings)  # a wrong name must not leave a folder behind
        with only_writer(kb):
            opened = KnowledgeBase.create(kb, embeddings=embeddings)
            ids = _add(paths_to_add, files, opened)
            _handle_missing(opened, paths, files, set(ids), prune=prune)
            opened.update_floor(fit=fit_floor)
    _report_on(files)


def _add(paths: Sequence[Path], files: Files, opened: KnowledgeBase) -> list[str]:
    """Read files, add them to a knowledge base, print a summary, and return their ids."""
    from tqdm import tqdm

    before = _versions_of(opened)
    bar = tqdm(paths, "Reading", unit=" files", leave=False, disable=None)  # in terminals only
    with warnings.catch_warnings():
        # The list of unreadable files names these documents.
        warnings.filterwarnings("ignore", r"\d+ document\(s\) have no text")
        ids = opened.retriever.add_documents(files.read(bar), show_progress=sys.stderr.isatty())
    counts = _changes_of(ids, before, _versions_of(opened))
    changes = ", ".join(f"{count:,} {change}" for change, count in counts.items() if count)
    print_text(
        f"Indexed {counted(len(ids), 'document')} into {opened.folder}"
        f"{f': {changes}' if changes else ''}"
    )
    return ids


def _versions_of(opened: KnowledgeBase) -> dict[str, str]:
    """Return the current version of each document, by id."""
    from langchain_rse.stores.layouts import read_manifests

    manifests = read_manifests(opened.docstore)
    return {each.doc_id: each.current.name for each in manifests if each.current}


def _changes_of(
    ids: Iterable[str], before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, int]:
    """Count the added, updated and unchanged documents."""
    counts = {"added": 0, "updated": 0, "unchanged": 0}
    for doc_id in ids:
        if doc_id not in before:
            counts["added"] += 1
        elif before[doc_id] != after.get(doc_id):
            counts["updated"] += 1
        else:
            counts["unchanged"] += 1
    return counts


def _handle_missing(
    opened: KnowledgeBase,
    paths: Sequence[Path],
    files: Files,
    ids: Collection[str],
    *,
    prune: bool,
) -> None:
    """Remove documents of these paths whose files are gone, or print how to remove them.

    A file or folder that cannot be read is not gone. Documents of other folders are kept, because
    their disk may not be mounted; ``prune`` names them if their files are gone.
    """
    folders = [path.resolve() for path in paths]
    unread = [Path(os.path.realpath(path)) for path in files.failures]
    gone = []
    moved = []
    for doc_id, name in opened.names.items():
        if doc_id in ids or _is_in(doc_id, unread):
            continue
        if _is_in(doc_id, folders):
            gone.append(doc_id)
        elif Path(doc_id).is_absolute() and not os.path.lexists(doc_id):
            moved.append(name)
    if prune:
        opened.remove(gone)
    elif gone:
        names = first_few(opened.names[doc_id] for doc_id in gone)
        documents = counted(len(gone), "document")
        print_text(f"{documents} without a file, to remove with --prune: {names}")
    if prune and moved:
        documents = counted(len(moved), "document")
        print_text(
            f"{documents} in other folders without a file, kept: {first_few(moved)}. "
            f"Remove with: {command_line()} remove DOC --kb {opened.folder}"
        )


def _is_in(path: str, folders: Iterable[Path]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _report_on(files: Files) -> None:
    """Print guessed encodings and skipped and unreadable files; exit with 1 for the latter."""
    for path, encoding in files.guessed.items():
        print_text(f"{path.name}: read as {encoding} (a guess; set it with --encoding)")
    if files.skipped:
        kinds = [f"{count} {kind}" for kind, count in files.skipped.most_common()]
        print_text(f"Skipped: {', '.join(kinds)}")
    if files.failures:
        lines = [f"  {shown_path(path)}: {reason}" for path, reason in files.failures.items()]
        print_error("\n".join([f"Could not read {len(lines)}:", *lines]))
        raise typer.Exit(1)
