"""A knowledge base: a folder with a vector store, a docstore and their settings."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from langchain_rse.cli.models import DEFAULT, CountingEmbeddings, load_embeddings
from langchain_rse.cli.output import command_line, errors, print_text
from langchain_rse.stores.document_names import find_document, names_of
from langchain_rse.text.titles import short_names

if TYPE_CHECKING:
    from langchain_chroma import Chroma

    from langchain_rse.retriever import RSERetriever
    from langchain_rse.stores.records import Manifest
    from langchain_rse.stores.sql import SQLDocStore

_SETTINGS = "settings.json"


class StoredSettings(BaseModel):
    """The settings of a knowledge base, kept in its folder."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    embeddings: str  # the name of the model
    headers: bool = False

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
    from langchain_rse.stores.embedded import DOCSTORE_FILE

    return (folder / _SETTINGS).exists() or (folder / DOCSTORE_FILE).exists()


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
        from langchain_rse.stores.embedded import open_docstore

        return open_docstore(self.folder)

    @cached_property
    def vectorstore(self) -> Chroma:
        """The vector store."""
        from langchain_rse.stores.embedded import open_chroma

        return open_chroma(self.embeddings, self.folder)

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
    def manifests(self) -> dict[str, Manifest]:
        """The manifests of all documents by their ids, in the order of the ids."""
        from langchain_rse.stores.layouts import read_manifests

        manifests = {manifest.doc_id: manifest for manifest in read_manifests(self.docstore)}
        return dict(sorted(manifests.items()))

    @cached_property
    def names(self) -> dict[str, str]:
        """The names by which people know the documents, by their ids."""
        return short_names(self.manifests)

    @property
    def chunks(self) -> int:
        """The number of chunks of all documents."""
        return sum(each.current.chunks for each in self.manifests.values() if each.current)

    def find(self, name: str) -> str:
        """Find a document's id by its name, path or id; a ValueError if there is none."""
        path = str(Path(name).resolve())
        return path if path in self.manifests else find_document(name, self._all_names)

    @cached_property
    def _all_names(self) -> dict[str, list[str]]:
        return names_of(self.manifests.values())

    def remove(self, doc_ids: Sequence[str]) -> None:
        """Remove documents, and print which."""
        for doc_id in self.retriever.delete(doc_ids):
            print_text(f"removed {self.names[doc_id]}")
            del self.manifests[doc_id]

    def update_floor(self, *, fit: bool) -> None:
        """Fit a score floor unless there is one for about as many chunks; print what it does.

        If it cannot be fitted, or not ``fit``, one of chunks that are mostly gone is removed.
        """
        from langchain_rse.errors import CalibrationError
        from langchain_rse.query.floor import floor_name, read_floors, stored_floor, write_floor

        searcher = type(self.vectorstore).__name__
        floor = stored_floor(read_floors(self.docstore), searcher, None)
        is_void = floor is not None and self.chunks < floor.chunks / 2
        if not fit and not is_void:
            return
        if floor is not None and not is_void and self.chunks < 2 * floor.chunks:
            return
        reason = "most text is gone that the score floor was fitted to: index again to fit it"
        if fit:
            try:
                fitted = self.retriever.fit_score_floor(show_progress=sys.stderr.isatty())
            except CalibrationError as error:
                reason = str(error)
            else:
                asked = fitted.unrelated_count
                refused = round(asked * fitted.refused(fitted.unrelated))
                print_text(
                    "Score floor fitted: off-topic questions return nothing "
                    f"({refused} of {asked} unrelated test questions were refused)"
                )
                return
        write_floor(self.docstore, floor_name(searcher, None), None)
        print_text(f"Every question gets an answer, related or not, as {reason}")


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
