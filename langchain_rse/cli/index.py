"""``langchain-rse index``: adds files to a knowledge base."""

import codecs
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from langchain_core.documents import Document

from langchain_rse.cli.files import Files
from langchain_rse.cli.knowledge_base import KnowledgeBase, only_writer
from langchain_rse.cli.models import load_embeddings
from langchain_rse.cli.options import Folder
from langchain_rse.cli.output import command_line, print_error, print_text, shown_path
from langchain_rse.text.quoting import counted, first_few

_READ_AHEAD = 100_000_000  # bytes of all files together


def index(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="Files of text, source code and data, notebooks, HTML, e-mails (.eml), Word "
            "(.docx) and PDF, and folders of them. Hidden folders, virtual environments, "
            "node_modules and what Git ignores are left out.",
            exists=True,
            readable=False,  # unreadable files are listed, and the others read
        ),
    ],
    kb: Folder,
    encoding: Annotated[
        str | None,
        typer.Option(help="Of text files and HTML, such as cp1252. Default: guessed and printed."),
    ] = None,
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="Embedding model of a new knowledge base, kept for it: module:Class for a class "
            "of LangChain Embeddings, or provider:model as in openai:text-embedding-3-small. "
            "Default: wordllama's word vectors, offline."
        ),
    ] = None,
    *,
    headers: Annotated[
        bool | None,
        typer.Option(
            "--headers/--no-headers",
            help="Embed the file name in front of each chunk. Applies to files indexed from now "
            "on. Default: what this knowledge base already uses (off if new).",
            show_default=False,
        ),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents whose files are no longer there.")
    ] = False,
    fit_floor: Annotated[
        bool,
        typer.Option(
            help="After indexing, learn the score beyond which a question counts as unanswerable. "
            "Repeated when the index has doubled or halved."
        ),
    ] = True,
) -> None:
    """Add files to a knowledge base, and replace changed ones.

    Example: langchain-rse index reports/ notes.md --kb library
    """
    codecs.lookup(encoding or "utf-8")  # an error names an unknown encoding
    files = Files(encoding)
    paths_to_add = files.find(paths, without=kb)
    if paths_to_add:
        if embeddings:
            load_embeddings(embeddings)  # before the folder is made, in case the name is wrong
        with only_writer(kb):
            opened = KnowledgeBase.create(kb, headers=headers, embeddings=embeddings)
            ids = _add(paths_to_add, files, opened)
            _handle_gone(opened, paths, files, set(ids), prune=prune)
            opened.update_floor(fit=fit_floor)
    _report_on(files)


def _add(paths: Sequence[Path], files: Files, opened: KnowledgeBase) -> list[str]:
    """Read files and add them to a knowledge base; print how many, and return their ids."""
    from tqdm import tqdm

    bar = tqdm(paths, "Reading", unit=" files", leave=False, disable=None)  # in terminals only
    documents: Iterable[Document] = files.read(bar)
    if sum(path.stat().st_size for path in paths if os.access(path, os.R_OK)) <= _READ_AHEAD:
        documents = list(documents)  # so that the next bar knows its end
    with warnings.catch_warnings():
        # They are among the files that could not be read.
        warnings.filterwarnings("ignore", r"\d+ document\(s\) have no text")
        # A source is the path of one file here, which may be rewritten as a whole.
        warnings.filterwarnings("ignore", ".*no sentence in common")
        ids = opened.retriever.add_documents(documents, show_progress=sys.stderr.isatty())
    chunks = counted(opened.embeddings.texts_embedded, "new chunk")
    print_text(f"Read {counted(len(ids), 'document')}, embedded {chunks} into {opened.folder}")
    return ids


def _handle_gone(
    opened: KnowledgeBase,
    paths: Sequence[Path],
    files: Files,
    ids: Collection[str],
    *,
    prune: bool,
) -> None:
    """Remove documents of these paths whose files are not there any more, or say how.

    A file or folder that cannot be read is not gone. Documents of other folders are kept, since
    they may be on a disk that is not there; with ``prune``, those whose files are gone are named.
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
        print_text(f"{documents} no longer there, which --prune removes: {names}")
    if prune and moved:
        documents = counted(len(moved), "document")
        print_text(
            f"{documents} kept whose files are gone from other folders: {first_few(moved)}. "
            f"If they are not needed: {command_line()} remove DOC --kb {opened.folder}"
        )


def _is_in(path: str, folders: Iterable[Path]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _report_on(files: Files) -> None:
    """Print which encodings were guessed, which files were skipped, and which cannot be read."""
    for path, encoding in files.guessed.items():
        print_text(f"{path.name}: read as {encoding}; if it is not, give --encoding NAME")
    if files.skipped:
        kinds = [f"{count} {kind}" for kind, count in files.skipped.most_common()]
        print_text(f"skipped: {', '.join(kinds)}")
    if files.failures:
        lines = [f"  {shown_path(path)}: {reason}" for path, reason in files.failures.items()]
        print_error("\n".join([f"{len(lines)} could not be read:", *lines]))
        raise typer.Exit(1)
