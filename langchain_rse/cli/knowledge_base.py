"""A knowledge base: a folder with a vector store, a docstore and their settings."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from langchain_core.documents import Document
from pydantic import BaseModel, ConfigDict, model_validator

from langchain_rse.cli.models import DEFAULT, CountingEmbeddings, load_embeddings
from langchain_rse.cli.output import command_line, errors, print_text
from langchain_rse.stores.document_names import find_document, find_source, names_of, source_of

if TYPE_CHECKING:
    from chromadb.api.collection_configuration import CreateCollectionConfiguration
    from langchain_chroma import Chroma

    from langchain_rse.query.floor import ScoreFloor
    from langchain_rse.retriever import RSERetriever
    from langchain_rse.stores.records import Manifest
    from langchain_rse.stores.sql import SQLDocStore

Folder = Annotated[
    Path, typer.Option("--kb", help="Folder of the knowledge base.", file_okay=False)
]

# A search finds 0.99 of the best 200 of 27,835 chunks, with Chroma's defaults 0.93.
_SEARCH: CreateCollectionConfiguration = {
    "hnsw": {"space": "cosine", "ef_search": 400, "max_neighbors": 32, "ef_construction": 200}
}

_DOCSTORE = "chunks.db"
_SETTINGS = "settings.json"
_SEARCHER = "Chroma"  # the class of the vector store


class StoredSettings(BaseModel):
    """The settings of a knowledge base, kept in its folder."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    embeddings: str  # the name of the model
    headers: bool = False

    @model_validator(mode="before")
    @classmethod
    def _without_lexical(cls, fields: Any) -> Any:  # noqa: ANN401 - from JSON
        # Folders of before say whether there is a full-text index, which there always is now.
        if isinstance(fields, dict):
            return {name: value for name, value in fields.items() if name != "lexical"}
        return fields

    @classmethod
    def read(cls, folder: Path) -> StoredSettings:
        """Read the settings of a knowledge base; a ValueError if the folder has none."""
        if not _exists(folder):
            raise ValueError(
                f"There is no knowledge base in {folder}. Create it with: {command_line()} index "
                f"PATH... --kb {folder}"
            )
        try:
            return cls.model_validate_json((folder / _SETTINGS).read_bytes())
        except (FileNotFoundError, ValueError) as error:
            raise ValueError(
                f"The knowledge base in {folder} has no readable {_SETTINGS} ({error}). Is it "
                "of another version of langchain-rse? Index the files again, into another folder"
            ) from error

    def write(self, folder: Path) -> None:
        """Write the settings to the folder in one step, so that they are never incomplete."""
        temporary = folder / f"{_SETTINGS}.new"
        temporary.write_text(self.model_dump_json(), encoding="utf-8")
        temporary.replace(folder / _SETTINGS)


def _exists(folder: Path) -> bool:
    return (folder / _SETTINGS).exists() or (folder / _DOCSTORE).exists()


@dataclass
class KnowledgeBase:
    """A knowledge base; its stores and its model are loaded when they are first used."""

    folder: Path
    settings: StoredSettings
    fields: Mapping[str, Any] = field(default_factory=dict)  # of the retriever

    @classmethod
    def existing(cls, folder: Path, **fields: Any) -> KnowledgeBase:  # noqa: ANN401
        """Open the one in a folder, with fields of its retriever; a ValueError if there is none."""
        return cls(folder, StoredSettings.read(folder), fields)

    @classmethod
    def create(
        cls, folder: Path, *, headers: bool | None = None, embeddings: str | None = None
    ) -> KnowledgeBase:
        """Open the knowledge base in a folder, or make one; None leaves a setting as it is."""
        if _exists(folder):
            settings = StoredSettings.read(folder)
        else:
            settings = StoredSettings(embeddings=embeddings or DEFAULT)
        if embeddings not in {None, settings.embeddings}:
            raise ValueError(
                f"The knowledge base in {folder} was made with --embeddings {settings.embeddings}; "
                "vectors of two models cannot be compared. Leave --embeddings out, or give "
                "another --kb"
            )
        if headers is not None:
            settings = settings.model_copy(update={"headers": headers})
        opened = cls(folder, settings)
        # Before the settings are written, so that a name of no model leaves no knowledge base.
        opened.embeddings = load_embeddings(settings.embeddings, trusted=embeddings is not None)
        settings.write(folder)
        return opened

    @cached_property
    def embeddings(self) -> CountingEmbeddings:
        """The embedding model."""
        return load_embeddings(self.settings.embeddings, trusted=False)

    @cached_property
    def docstore(self) -> SQLDocStore:
        """The docstore, which opens ten times faster than the vector store."""
        from sqlalchemy import URL

        from langchain_rse.stores.sql import SQLDocStore

        path = (self.folder / _DOCSTORE).as_posix()  # in the text of a URL, "%20" would be a space
        return SQLDocStore(URL.create("sqlite", database=path))

    @cached_property
    def vectorstore(self) -> Chroma:
        """The vector store."""
        from chromadb import PersistentClient
        from chromadb.config import Settings
        from langchain_chroma import Chroma

        path = str((self.folder / "chroma").resolve())
        return Chroma(
            "chunks",
            self.embeddings,
            client=PersistentClient(path, Settings(anonymized_telemetry=False)),
            collection_configuration=_SEARCH,
        )

    @cached_property
    def retriever(self) -> RSERetriever:
        """The retriever over both stores."""
        from langchain_rse.headers import DocumentHeaders
        from langchain_rse.retriever import RSERetriever

        return RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            headers=DocumentHeaders() if self.settings.headers else None,
            **self.fields,
        )

    @cached_property
    def manifests(self) -> list[Manifest]:
        """The manifests of all documents, in the order of their ids."""
        from langchain_rse.stores.layouts import read_manifests

        manifests = read_manifests(self.docstore)
        return sorted(manifests, key=lambda manifest: manifest.doc_id)

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        return names_of(self.manifests)

    def find(self, name: str) -> str:
        """Find a document's id by its id, path or file name; a ValueError if there is none."""
        path = str(Path(name).resolve())
        if name not in self._names.get(name, ()) and path in self._names.get(path, ()):
            return path
        return find_document(name, self._names)

    def find_source(self, name: str) -> str:
        """Find a source by what `find` takes, or by the name of its file."""
        path = str(Path(name).resolve())
        if path in map(source_of, self.manifests):
            return path
        return find_source(name, self.manifests)

    def has_floor(self) -> bool:
        """True if there is a score floor, fitted to about as many chunks as there are."""
        floor = self._floor
        if floor is None or self._is_void(floor):
            return False
        return self._chunks < 2 * floor.chunks

    def remove_void_floor(self) -> bool:
        """Remove a score floor of chunks that are mostly gone; True if there was one."""
        from langchain_rse.query.floor import floor_name, write_floor

        floor = self._floor
        if floor is None or not self._is_void(floor):
            return False
        write_floor(self.docstore, floor_name(floor.searcher, None), None)
        return True

    @property
    def _floor(self) -> ScoreFloor | None:
        """The score floor that was fitted last."""
        from langchain_rse.query.floor import read_floors, stored_floor

        return stored_floor(read_floors(self.docstore), _SEARCHER, None)

    def _is_void(self, floor: ScoreFloor) -> bool:
        from langchain_rse.fitting import FEWEST_CHUNKS

        return self._chunks < max(floor.chunks / 2, FEWEST_CHUNKS)

    @property
    def _chunks(self) -> int:
        return sum(each.current.chunks for each in self.manifests if each.current)

    def remove(self, doc_ids: Sequence[str]) -> list[str]:
        """Remove documents; return the ids of those that there were."""
        removed = self.retriever.delete(doc_ids)
        for name in ("manifests", "_names"):  # which are kept when they are first read
            vars(self).pop(name, None)
        return removed

    def add(self, documents: Iterable[Document], *, at_once: bool) -> list[str]:
        """Add documents, with a progress bar in a terminal; return their ids.

        The bar has a total if all documents are read ``at_once``.
        """
        try:
            if at_once:
                documents = list(documents)
            with warnings.catch_warnings():
                # A source is the path of one file here, which may be rewritten as a whole.
                warnings.filterwarnings("ignore", message=".*no sentence in common")
                return self.retriever.add_documents(documents, show_progress=sys.stderr.isatty())
        except KeyboardInterrupt:
            raise KeyboardInterrupt("The same command goes on where it stopped") from None


def remove_void_floor(opened: KnowledgeBase) -> None:
    """Remove a score floor of documents that are mostly gone; print that there is none."""
    if opened.remove_void_floor():
        print_text(
            "Every question gets an answer, related or not, as most text is gone that the score "
            f"floor was fitted to; to fit it again: {command_line()} index PATH... --kb "
            f"{opened.folder}"
        )


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock the folder for one writing command at a time, as Chroma needs; others wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as file:
        if sys.platform != "win32":  # there is no lock on Windows
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                errors.print(f"Another command is writing to {folder}; waiting for its end")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
