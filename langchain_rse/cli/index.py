"""``langchain-rse index``: adds files to a knowledge base."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from langchain_rse.cli.knowledge_base import KnowledgeBase, only_writer
from langchain_rse.cli.options import Folder
from langchain_rse.cli.output import print_error, print_text
from langchain_rse.text.quoting import counted, first_few, shortened

if TYPE_CHECKING:
    from langchain_rse.cli.files import Files

_LONGEST_LINE = 60  # of a page, in a message


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
            help="Encoding of text and HTML files, such as cp1252. Default: detected, and printed "
            "if it is a guess.",
        ),
    ] = None,
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="Embedding model of a new knowledge base: a LangChain Embeddings class as "
            "module:Class, or provider:model such as openai:text-embedding-3-small. It cannot be "
            "changed later. Default: wordllama's word vectors, which work offline.",
        ),
    ] = None,
    *,
    running_heads: Annotated[
        bool,
        typer.Option(help="Keep what repeats at the top or bottom of most pages."),
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(help="Remove documents of these paths whose files are gone."),
    ] = False,
) -> None:
    """Add files to a knowledge base, and update changed ones.

    Example: langchain-rse index reports/ notes.md --kb library
    """
    from langchain_rse.cli.files import Files

    files = Files(encoding, keep_running=running_heads)
    paths_to_add = files.find(paths)
    if paths_to_add:
        with only_writer(kb):
            opened = KnowledgeBase.create(kb, embeddings)
            ids = _add(paths_to_add, files, opened)
            if prune:
                opened.remove(_missing_of(opened, paths, files, ids))
            opened.fit_floor()
    _report_on(files)


def _add(paths: Sequence[Path], files: Files, opened: KnowledgeBase) -> list[str]:
    """Read files, add them to a knowledge base, print their number, and return their ids."""
    from tqdm import tqdm

    bar = tqdm(paths, "Reading", unit=" files", leave=False, disable=None)  # in terminals only
    with warnings.catch_warnings():
        # The list of unreadable files names these documents.
        warnings.filterwarnings("ignore", r"\d+ document\(s\) have no text")
        ids = opened.retriever.add_documents(files.read(bar), show_progress=sys.stderr.isatty())
    print_text(f"Indexed {counted(len(ids), 'document')} into {opened.folder}")
    return ids


def _missing_of(
    opened: KnowledgeBase, paths: Iterable[Path], files: Files, ids: Iterable[str]
) -> list[str]:
    """Return the documents of these paths whose files are gone.

    A file or folder that cannot be read is not gone, and documents of other folders are not
    either: their disk may not be mounted.
    """
    folders = [path.resolve() for path in paths]
    unread = [Path(os.path.realpath(path)) for path in files.failures]
    gone = []
    for doc_id in opened.manifests.keys() - set(ids):
        if _is_in(doc_id, folders) and not _is_in(doc_id, unread):
            gone.append(doc_id)
    return sorted(gone)


def _is_in(path: str, folders: Iterable[Path]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _report_on(files: Files) -> None:
    """Print guessed encodings and skipped and unreadable files; exit with 1 for the latter."""
    for path, encoding in files.guessed.items():
        print_text(f"{path.name}: read as {encoding} (a guess; set it with --encoding)")
    for path, lines in files.running.items():
        print_text(
            f"{path.name}: left out what repeats at the top or bottom of pages (keep it with "
            f"--running-heads): {first_few(shortened(line, _LONGEST_LINE) for line in lines)}"
        )
    if files.skipped:
        kinds = [f"{count} {kind}" for kind, count in files.skipped.most_common()]
        print_text(f"Skipped: {', '.join(kinds)}")
    if files.failures:
        lines = [f"  {path}: {reason}" for path, reason in files.failures.items()]
        print_error("\n".join([f"Could not read {len(lines)}:", *lines]))
        raise typer.Exit(1)
