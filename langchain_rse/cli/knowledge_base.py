"""A knowledge base: a folder with a vector store and a docstore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse.cli.output import command_line
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.headers import DocumentHeaders
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import Manifest, manifest_key
from langchain_rse.stores.sql import SQLDocStore

Folder = Annotated[
    Path, typer.Option("--kb", help="Folder of the knowledge base.", file_okay=False)
]

_DOCSTORE = "chunks.db"
_WITH_HEADERS = "with-headers"  # an empty file, there if chunks are embedded with headers


class KnowledgeBase(NamedTuple):
    """An open knowledge base."""

    retriever: RSERetriever
    vectorstore: Chroma
    embeddings: WordLlamaEmbeddings


def open_existing(folder: Path) -> KnowledgeBase:
    """Open a knowledge base; a ValueError if there is none in the folder."""
    if not (folder / _DOCSTORE).exists():
        raise ValueError(
            f"There is no knowledge base in {folder}. Create it with: {command_line()} index "
            f"PATH... --kb {folder}"
        )
    return open_or_create(folder)


def open_or_create(folder: Path, *, headers: bool | None = None) -> KnowledgeBase:
    """Open a knowledge base, new if there is none in the folder.

    ``headers`` says whether to embed headers from now on; None leaves it as it is.
    """
    if headers:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _WITH_HEADERS).touch()
    elif headers is not None:
        (folder / _WITH_HEADERS).unlink(missing_ok=True)
    chroma = str((folder / "chroma").resolve())
    embeddings = WordLlamaEmbeddings()
    vectorstore = Chroma(
        collection_name="chunks",
        embedding_function=embeddings,
        persist_directory=chroma,
        collection_metadata={"hnsw:space": "cosine"},
        client_settings=Settings(
            anonymized_telemetry=False, is_persistent=True, persist_directory=chroma
        ),
    )
    retriever = RSERetriever(
        vectorstore=vectorstore,
        docstore=SQLDocStore(f"sqlite:///{(folder / _DOCSTORE).as_posix()}"),
        headers=DocumentHeaders() if (folder / _WITH_HEADERS).exists() else None,
    )
    return KnowledgeBase(retriever, vectorstore, embeddings)


def document_names(docstore: BaseStore[str, Document]) -> dict[str, list[str]]:
    """The ids of all documents, by ids and by names of files with and without suffix."""
    keys = sorted(docstore.yield_keys(prefix=manifest_key("")))
    names: dict[str, list[str]] = {}
    for key, record in zip(keys, docstore.mget(keys), strict=True):
        if record is not None:
            doc_id = Manifest.from_document(record, key).doc_id
            for name in {doc_id, Path(doc_id).name, Path(doc_id).stem}:
                names.setdefault(name, []).append(doc_id)
    return names


def find_document(name: str, names: Mapping[str, Sequence[str]]) -> str:
    """The id of the document of that id, path or name of a file, see `document_names`."""
    for doc_id in (name, str(Path(name).resolve())):
        if doc_id in names.get(doc_id, ()):
            return doc_id
    found = names.get(name, ())
    if len(found) > 1:
        raise ValueError(f"{name!r} may be any of {', '.join(sorted(found))}: give the whole path")
    if not found:
        raise ValueError(f"there is no document {name!r}")
    return found[0]
