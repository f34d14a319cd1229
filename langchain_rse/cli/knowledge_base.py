"""A knowledge base: a folder with a vector store, a docstore and settings."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_rse.cli.output import command_line, errors, print_text
from langchain_rse.stores.document_names import find_document, names_of
from langchain_rse.text.quoting import first_few
from langchain_rse.text.titles import short_names

if TYPE_CHECKING:
    from langchain_chroma import Chroma
    from langchain_core.embeddings import Embeddings

    from langchain_rse.cli.stored_settings import StoredSettings
    from langchain_rse.retriever import RSERetriever
    from langchain_rse.stores.records import Manifest
    from langchain_rse.stores.sql import SQLDocStore


# Names in the folder of a knowledge base before its settings are written.
_UNFINISHED = ("lock", "chroma", "settings.json")


@dataclass
class KnowledgeBase:
    """A knowledge base. Its stores and its model load on first use."""

    folder: Path
    settings: StoredSettings
    fields: Mapping[str, Any] = field(default_factory=dict)  # of the retriever

    @classmethod
    def existing(cls, folder: Path, **fields: Any) -> KnowledgeBase:  # noqa: ANN401
        """Open the knowledge base in a folder, with settings of its retriever.

        Raises:
            ValueError: If the folder is not a knowledge base.
        """
        from langchain_rse.cli.stored_settings import StoredSettings

        return cls(folder, StoredSettings.read(folder), fields)

    @classmethod
    def create(cls, folder: Path, *, embeddings: str | None = None) -> KnowledgeBase:
        """Open the knowledge base in a folder, or create one; None for the model it has."""
        from langchain_rse.cli.models import DEFAULT, load_embeddings
        from langchain_rse.cli.stored_settings import StoredSettings, exists

        if exists(folder):
            settings = StoredSettings.read(folder)
        else:
            settings = StoredSettings(embeddings=embeddings or DEFAULT)
        if embeddings not in {None, settings.embeddings}:
            raise ValueError(
                f"The knowledge base in {folder} uses --embeddings {settings.embeddings}, and "
                "vectors of two models cannot be compared. Omit --embeddings, or choose another "
                "--kb"
            )
        opened = cls(folder, settings)
        # Before the settings are written: a wrong name must not leave a knowledge base behind.
        opened.embeddings = load_embeddings(settings.embeddings, trusted=embeddings is not None)
        settings.write(folder)
        return opened

    @cached_property
    def embeddings(self) -> Embeddings:
        """The embedding model."""
        from langchain_rse.cli.models import load_embeddings

        return load_embeddings(self.settings.embeddings, trusted=False)

    @cached_property
    def docstore(self) -> SQLDocStore:
        """The docstore; it opens ten times faster than the vector store."""
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
        from langchain_rse.retriever import RSERetriever

        return RSERetriever(vectorstore=self.vectorstore, docstore=self.docstore, **self.fields)

    @cached_property
    def manifests(self) -> dict[str, Manifest]:
        """The manifests of all documents by id, sorted by id."""
        from langchain_rse.stores.layouts import read_manifests

        manifests = {manifest.doc_id: manifest for manifest in read_manifests(self.docstore)}
        return dict(sorted(manifests.items()))

    @cached_property
    def names(self) -> dict[str, str]:
        """The short names of the documents, by id."""
        return short_names(self.manifests)

    @property
    def chunks(self) -> int:
        """The number of chunks in all documents."""
        return sum(each.chunk_count for each in self.manifests.values())

    def find(self, name: str) -> str:
        """Find a document's id by its name, path or id; a ValueError if none matches."""
        path = str(Path(name).resolve())
        if path in self.manifests:
            return path
        hint = f"To list the documents: {command_line()} list --kb {self.folder}"
        return find_document(name, self._all_names, hint)

    @cached_property
    def _all_names(self) -> dict[str, list[str]]:
        return names_of(self.manifests.values())

    def remove(self, doc_ids: Sequence[str]) -> None:
        """Remove documents, and print their names."""
        for doc_id in self.retriever.delete(doc_ids):
            print_text(f"Removed {self.names[doc_id]}")
            del self.manifests[doc_id]

    def update_floor(self, *, fit: bool) -> None:
        """Fit a score floor unless the stored one still matches the number of chunks.

        The stored floor is removed if fitting fails, or if most of its chunks are gone and ``fit``
        is False.
        """
        from langchain_rse.errors import ScoreFloorError
        from langchain_rse.query.floor import read_floors, stored_floor, write_floor

        searcher = type(self.vectorstore).__name__
        floor = stored_floor(read_floors(self.docstore), searcher)
        is_void = floor is not None and self.chunks < floor.chunks / 2
        if not fit and not is_void:
            return
        if floor is not None and not is_void and self.chunks < 2 * floor.chunks:
            return
        reason = "most of the text it was fitted to is gone. Run index to fit it again"
        if fit:
            try:
                fitted = self.retriever.fit_score_floor(show_progress=sys.stderr.isatty())
            except ScoreFloorError as error:
                reason = str(error)
            else:
                rejected = round(fitted.questions * fitted.rejected_questions)
                print_text(
                    f"Score floor fitted: {rejected} of {fitted.questions} off-topic test "
                    "questions now return nothing"
                )
                return
        write_floor(self.docstore, searcher, None)
        print_text(f"No score floor, so off-topic questions return passages too: {reason}")


def _check_is_new(folder: Path) -> None:
    """Refuse a folder with other files, which would be mixed with those of the knowledge base."""
    from langchain_rse.cli.stored_settings import exists

    if exists(folder) or not folder.is_dir():
        return
    others = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    others = sorted(name for name in others if not name.startswith(_UNFINISHED))
    if others:
        raise ValueError(
            f"--kb {folder} has other files ({first_few(others)}). Choose an empty or a new folder "
            "for the knowledge base"
        )


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock the folder, because Chroma supports one writer at a time; other commands wait.

    Raises:
        ValueError: If the folder is not a knowledge base and has files.
    """
    _check_is_new(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as file:
        if sys.platform != "win32":  # there is no lock on Windows
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                errors.print(f"Another command is writing to {folder}; waiting for it to finish")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
