"""A knowledge base: a folder with a vector store, a docstore, and how they were made."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from pydantic import ConfigDict, TypeAdapter

from langchain_rse.cli.models import DEFAULT, CountingEmbeddings, load_embeddings
from langchain_rse.cli.output import command_line, errors
from langchain_rse.stores.names import names_of

if TYPE_CHECKING:
    from langchain_chroma import Chroma

    from langchain_rse.retriever import RSERetriever
    from langchain_rse.stores.records import Manifest
    from langchain_rse.stores.sql import SQLDocStore

Folder = Annotated[
    Path, typer.Option("--kb", help="Folder of the knowledge base.", file_okay=False)
]

# Of all documents together, to be read before the first is added.
_CHARACTERS_AHEAD = 100_000_000

_DOCSTORE = "chunks.db"
_SETTINGS = "settings.json"
_LOCK = "lock"


@dataclasses.dataclass(frozen=True)
class Made:
    """How a knowledge base was made; kept in its folder."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    embeddings: str  # the name of the model
    headers: bool = False
    lexical: bool = False  # whether there is a full-text index

    @classmethod
    def of(cls, folder: Path) -> Made:
        """Read how a knowledge base was made; a ValueError if there is none in the folder."""
        if not _exists(folder):
            raise ValueError(
                f"There is no knowledge base in {folder}. Create it with: {command_line()} index "
                f"PATH... --kb {folder}"
            )
        try:
            return TypeAdapter(cls).validate_json((folder / _SETTINGS).read_bytes(), strict=True)
        except (FileNotFoundError, ValueError) as error:
            raise ValueError(
                f"The knowledge base in {folder} has no {_SETTINGS} that can be read ({error}). Is "
                "it of another version of langchain-rse? Index the files again, into another folder"
            ) from error

    def write(self, folder: Path) -> None:
        """Keep this in the folder, whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f"{_SETTINGS}.new"
        temporary.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")
        temporary.replace(folder / _SETTINGS)


class KnowledgeBase(NamedTuple):
    """An open knowledge base."""

    retriever: RSERetriever
    vectorstore: Chroma
    embeddings: CountingEmbeddings

    def add(self, documents: Iterable[Document]) -> list[str]:
        """Add documents, with a progress bar in a terminal; return their ids."""
        try:
            ahead = _read_ahead(documents)
            return self.retriever.add_documents(ahead, show_progress=sys.stderr.isatty())
        except KeyboardInterrupt:
            raise KeyboardInterrupt("The same command goes on where it stopped") from None


def _read_ahead(documents: Iterable[Document]) -> Iterable[Document]:
    """A list, of which the progress bar knows how much is left, unless they are too long."""
    rest, some, length = iter(documents), [], 0
    for document in rest:
        some.append(document)
        length += len(document.page_content)
        if length > _CHARACTERS_AHEAD:
            return itertools.chain(some, rest)
    return some


def open_existing(folder: Path, **fields: Any) -> KnowledgeBase:  # noqa: ANN401
    """Open a knowledge base, its retriever with these fields; a ValueError if there is none."""
    made = Made.of(folder)
    if fields.get("hybrid") and not made.lexical:
        errors.print("Making the full-text index of this knowledge base, once.")
        return _open(folder, dataclasses.replace(made, lexical=True), fields, changed=True)
    return _open(folder, made, fields)


def open_or_create(
    folder: Path, *, headers: bool | None = None, embeddings: str | None = None
) -> KnowledgeBase:
    """Open a knowledge base, new if there is none in the folder; None leaves a setting as it is."""
    made = Made.of(folder) if _exists(folder) else Made(embeddings or DEFAULT)
    if embeddings not in {None, made.embeddings}:
        raise ValueError(
            f"The knowledge base in {folder} was made with --embeddings {made.embeddings}; vectors "
            "of two models cannot be compared. Leave --embeddings out, or give another --kb"
        )
    if headers is not None:
        made = dataclasses.replace(made, headers=headers)
    return _open(folder, made, {}, changed=True, trusted=embeddings is not None)


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Wait until no other command writes to the folder, and let others wait: Chroma needs that."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("ab") as file:
        if sys.platform != "win32":  # nothing keeps others waiting there
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                errors.print(f"Another command is writing to {folder}; waiting for its end")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _exists(folder: Path) -> bool:
    return any((folder / name).exists() for name in (_SETTINGS, _DOCSTORE))


def _open(
    folder: Path,
    made: Made,
    fields: Mapping[str, Any],
    *,
    changed: bool = False,
    trusted: bool = False,
) -> KnowledgeBase:
    from chromadb import PersistentClient
    from chromadb.config import Settings
    from langchain_chroma import Chroma

    from langchain_rse.headers import DocumentHeaders
    from langchain_rse.retriever import RSERetriever

    embeddings = load_embeddings(made.embeddings, trusted=trusted)
    if changed:
        made.write(folder)
    client = PersistentClient(
        str((folder / "chroma").resolve()), Settings(anonymized_telemetry=False)
    )
    space = {"hnsw:space": "cosine"}
    vectorstore = Chroma("chunks", embeddings, client=client, collection_metadata=space)
    retriever = RSERetriever(
        vectorstore=vectorstore,
        docstore=open_docstore(folder, made),
        headers=DocumentHeaders() if made.headers else None,
        **fields,
    )
    return KnowledgeBase(retriever, vectorstore, embeddings)


def open_docstore(folder: Path, made: Made) -> SQLDocStore:
    """Open the docstore of a knowledge base alone, which takes a tenth of the time."""
    from langchain_rse.stores.sql import SQLDocStore

    return SQLDocStore(f"sqlite:///{(folder / _DOCSTORE).as_posix()}", lexical=made.lexical)


def manifests(docstore: BaseStore[str, Document]) -> list[Manifest]:
    """What the docstore knows of each document, in the order of their ids."""
    from langchain_rse._sync import run
    from langchain_rse.stores.reading import read_manifests

    return sorted(run(read_manifests(docstore)), key=lambda manifest: manifest.doc_id)


def document_names(docstore: BaseStore[str, Document]) -> dict[str, list[str]]:
    """The ids of all documents, by their names."""
    return names_of(manifests(docstore))
