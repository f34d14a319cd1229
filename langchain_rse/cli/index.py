"""``langchain-rse index``: adds files to a knowledge base."""

import codecs
import os
from pathlib import Path
from typing import Annotated

import typer

from langchain_rse._messages import counted
from langchain_rse.cli.files import Files
from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase, only_writer
from langchain_rse.cli.models import load_embeddings
from langchain_rse.cli.output import print_error, print_text

_READ_AHEAD = 100_000_000  # bytes of all files together


def index(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="Text, Markdown, HTML, Word (.docx) and PDF files, and folders of them.",
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
            help="Embed the document's title, the name of its file, in front of each chunk, from "
            "now on. Documents change when they are indexed again. Default: as before, at first "
            "without.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Add files to a knowledge base; files that have changed are replaced."""
    codecs.lookup(encoding or "utf-8")  # an error names an unknown encoding
    files = Files(encoding)
    if found := files.find(paths, without=kb):
        from tqdm import tqdm

        bar = tqdm(found, "Reading", unit=" files", leave=False, disable=None)  # in terminals only
        if embeddings:
            load_embeddings(embeddings)  # before the folder is made, in case the name is wrong
        with only_writer(kb):
            opened = KnowledgeBase.create(kb, headers=headers, embeddings=embeddings)
            size = sum(path.stat().st_size for path in found if os.access(path, os.R_OK))
            ids = opened.add(files.read(bar), at_once=size <= _READ_AHEAD)
        read = counted(len(ids), "document")
        embedded = counted(opened.embeddings.texts_embedded, "new chunk")
        print_text(f"Read {read}, embedded {embedded} into {kb}")
    for path, guess in files.guessed.items():
        print_text(f"{path.name}: read as {guess}; if it is not, give --encoding NAME")
    if skipped := files.skipped:
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in skipped.most_common())
        print_text(f"skipped {skipped.total()} file(s): {kinds}")
    if files.failures:
        lines = [f"  {path}: {reason}" for path, reason in files.failures.items()]
        print_error("\n".join([f"{len(lines)} could not be read:", *lines]))
        raise typer.Exit(1)
