"""``langchain-rse index``: adds files to a knowledge base."""

import codecs
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from langchain_rse.cli.files import Files
from langchain_rse.cli.knowledge_base import (
    Folder,
    KnowledgeBase,
    only_writer,
    remove_void_floor,
)
from langchain_rse.cli.models import load_embeddings
from langchain_rse.cli.output import command_line, print_error, print_text
from langchain_rse.stores.document_names import source_of
from langchain_rse.text.quoting import counted, first_few

_READ_AHEAD = 100_000_000  # bytes of all files together

FitFloor = Annotated[
    bool,
    typer.Option(
        help="After indexing, learn the score beyond which a question counts as unanswerable. "
        "Repeated when the index has doubled or halved."
    ),
]


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
    fit_floor: FitFloor = True,
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
            _report_gone(opened, _find_gone(opened, paths, files, set(ids)), prune=prune)
            if prune:
                _report_moved(opened)
            if fit_floor:
                _fit_floor(opened)
            else:
                remove_void_floor(opened)
    _report_on(files)


def _add(paths: Sequence[Path], files: Files, opened: KnowledgeBase) -> list[str]:
    """Read files and add them to a knowledge base; print how many, and return their ids."""
    from tqdm import tqdm

    size = sum(path.stat().st_size for path in paths if os.access(path, os.R_OK))
    bar = tqdm(paths, "Reading", unit=" files", leave=False, disable=None)  # in terminals only
    with warnings.catch_warnings():
        # They are among the files that could not be read.
        warnings.filterwarnings("ignore", r"\d+ document\(s\) have no text")
        ids = opened.add(files.read(bar), at_once=size <= _READ_AHEAD)
    documents = counted(len(ids), "document")
    chunks = counted(opened.embeddings.texts_embedded, "new chunk")
    print_text(f"Read {documents}, embedded {chunks} into {opened.folder}")
    return ids


def _fit_floor(opened: KnowledgeBase) -> None:
    """Fit a score floor unless there is one for about as much text; print what it does."""
    from langchain_rse.errors import CalibrationError

    if opened.has_floor():
        return
    try:
        floor = opened.retriever.fit_score_floor(show_progress=sys.stderr.isatty())
    except CalibrationError as error:
        reason = str(error).partition(". ")[0]
        print_text(f"Every question gets an answer, related or not, as {reason}")
    else:
        asked = floor.unrelated_count
        refused = round(asked * floor.refused(floor.unrelated))
        print_text(
            "Score floor fitted: off-topic questions return nothing "
            f"({refused} of {asked} unrelated test questions were refused)"
        )


def _find_gone(
    opened: KnowledgeBase, paths: Sequence[Path], files: Files, ids: Collection[str]
) -> list[str]:
    """Find the documents of these files and folders that were not among those just read.

    A file or folder that cannot be read is not gone.
    """
    folders = [path.resolve() for path in paths]
    unread = [Path(os.path.realpath(path)) for path in files.failures]
    gone = []
    for manifest in opened.manifests:
        source = source_of(manifest)
        if manifest.doc_id in ids or not _is_in(source, folders) or _is_in(source, unread):
            continue
        gone.append(manifest.doc_id)
    return gone


def _report_gone(opened: KnowledgeBase, gone: Sequence[str], *, prune: bool) -> None:
    """Remove documents whose files are no longer there, or say how they are removed."""
    if prune:
        for doc_id in opened.remove(gone):
            print_text(f"removed {doc_id}")
    elif gone:
        documents = counted(len(gone), "document")
        print_text(f"{documents} no longer there, which --prune removes: {first_few(gone)}")


def _report_moved(opened: KnowledgeBase) -> None:
    """Name the documents of other folders whose files are gone, as after a folder was moved.

    They are kept, since they may be on a disk that is not there.
    """
    moved = []
    for manifest in opened.manifests:
        source = Path(source_of(manifest))
        if source.is_absolute() and not os.path.lexists(source):
            moved.append(manifest.doc_id)
    if moved:
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
    if files.left_out:
        reasons = [f"{count} {reason}" for reason, count in files.left_out.most_common()]
        print_text(f"left out: {', '.join(reasons)}")
    if files.skipped:
        kinds = [f"{count} {suffix}" for suffix, count in files.skipped.most_common()]
        print_text(f"skipped {files.skipped.total()} file(s): {', '.join(kinds)}")
    if files.failures:
        lines = [f"  {path}: {reason}" for path, reason in files.failures.items()]
        print_error("\n".join([f"{len(lines)} could not be read:", *lines]))
        raise typer.Exit(1)
