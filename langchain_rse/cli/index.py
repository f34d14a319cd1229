"""``langchain-rse index``: adds files to a knowledge base."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pypdf
import typer
from langchain_core.documents import Document
from rich.text import Text

from langchain_rse.cli.knowledge_base import Folder, open_or_create
from langchain_rse.cli.output import console, errors

_SUFFIXES = frozenset({".txt", ".text", ".md", ".markdown", ".rst", ".pdf"})


def index(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Text, Markdown and PDF files, and folders of them."
        ),
    ],
    kb: Folder,
    *,
    headers: Annotated[
        bool | None,
        typer.Option(
            "--headers/--no-headers",
            help="Embed the document's title, the name of its file, in front of each chunk. The "
            "choice holds for this knowledge base from now on; documents that are in it already "
            "change when they are indexed again. Default: as before, at first without.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Add files to a knowledge base; files that have changed are replaced."""
    opened = open_or_create(kb, headers=headers)
    # Their messages would interrupt the progress bar; failures are printed below.
    for name in ("langchain_rse", "pypdf"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    failures: dict[Path, str] = {}
    ids = opened.retriever.add_documents(_read(paths, failures), show_progress=True)
    embedded = opened.embeddings.texts_embedded
    console.print(f"Read {len(ids)} documents, embedded {embedded} new chunks into {kb}")
    if failures:
        errors.print(f"{len(failures)} could not be read:", style="bold red")
        for path, reason in failures.items():
            errors.print(Text(f"  {path}: {reason}"), soft_wrap=True)
        raise typer.Exit(1)


def _read(paths: Iterable[Path], failures: dict[Path, str]) -> Iterator[Document]:
    """Read files one by one; the reasons for those that cannot be read go into ``failures``."""
    for path in dict.fromkeys(file.resolve() for given in paths for file in _files(given)):
        try:
            documents = list(_load(path))
        except Exception as error:  # noqa: BLE001 - PDF readers raise anything
            failures[path] = f"{type(error).__name__}: {error}"
            continue
        if not any(document.page_content.strip() for document in documents):
            failures[path] = "it has no text (a scanned PDF needs OCR first)"
        yield from documents


def _files(path: Path) -> list[Path]:
    """The files of a folder, or the path itself if there are none."""
    files = (file for file in path.rglob("*") if file.is_file())
    return sorted(file for file in files if file.suffix.lower() in _SUFFIXES) or [path]


def _load(path: Path) -> Iterator[Document]:
    """A file's Documents: one per page of a PDF, else one."""
    metadata: dict[str, Any] = {"source": str(path)}
    if path.is_dir():
        raise ValueError(f"it has no files of a known kind ({', '.join(sorted(_SUFFIXES))})")
    if path.suffix.lower() == ".pdf":
        pages = pypdf.PdfReader(path).pages
        metadata["total_pages"] = len(pages)
        for number, page in enumerate(pages):
            yield Document(page_content=page.extract_text(), metadata={**metadata, "page": number})
        return
    content = path.read_bytes()
    if b"\0" in content:
        raise ValueError("it is not a text file, and not a PDF by its name")
    yield Document(page_content=content.decode("utf-8-sig"), metadata=metadata)
