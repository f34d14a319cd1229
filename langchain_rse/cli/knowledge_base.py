"""A knowledge base: a folder with a vector store, a docstore and the name of its model."""

from __future__ import annotations

import contextlib
import json
import pkgutil
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_rse.cli.output import command_line, print_text
from langchain_rse.text.quoting import first_few

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_rse.retriever import RSERetriever
    from langchain_rse.stores.records import Manifest

_SETTINGS = "settings.json"
_LOCK = "lock"
_DEFAULT_MODEL = "langchain_rse.embeddings:WordLlamaEmbeddings"

Folder = Annotated[
    Path, typer.Option("--kb", help="Folder of the knowledge base.", file_okay=False)
]


@dataclass
class KnowledgeBase:
    """A knowledge base. Its stores and its model load on first use."""

    folder: Path
    model_name: str  # of the embedding model
    fields: Mapping[str, Any]  # of the retriever

    @classmethod
    def existing(cls, folder: Path, **fields: Any) -> KnowledgeBase:  # noqa: ANN401
        """Open the knowledge base in a folder, with settings of its retriever.

        Raises:
            ValueError: If the folder is not a knowledge base.
        """
        try:
            model = json.loads((folder / _SETTINGS).read_bytes())["embeddings"]
        except (OSError, ValueError, TypeError, LookupError) as error:
            problem = f"is no knowledge base: it has no readable {_SETTINGS} ({error})"
            if not folder.exists():
                problem = "does not exist"
            quoted = shlex.quote(str(folder))
            command = f"{command_line()} index PATH... --kb {quoted}"
            if folder.is_dir() and any(folder.iterdir()):
                other = shlex.quote(f"{folder.resolve().name}-kb")
                command = f"{command_line()} index {quoted} --kb {other}"
            raise ValueError(f"--kb {folder} {problem}. To make one: {command}") from error
        return cls(folder, str(model), fields)

    @classmethod
    def create(cls, folder: Path, embeddings: str | None = None) -> KnowledgeBase:
        """Open the knowledge base in a folder, or create one; None for the model it has."""
        if embeddings is not None:  # given by the user, so it may be a module of the user's
            sys.path.append("")  # the working directory
        file = folder / _SETTINGS
        if not file.exists():
            name = embeddings or _DEFAULT_MODEL
            load_embeddings(name)  # if this fails, the folder stays empty
            file.write_text(json.dumps({"embeddings": name}), encoding="utf-8")
        opened = cls.existing(folder)
        if embeddings not in {None, opened.model_name}:
            raise ValueError(
                f"The knowledge base in {folder} uses --embeddings {opened.model_name}, and "
                "vectors of two models cannot be compared. Omit --embeddings, or choose another "
                "--kb"
            )
        return opened

    @cached_property
    def retriever(self) -> RSERetriever:
        """The retriever over both stores; passages within tables begin with the header row."""
        from langchain_rse.retriever import RSERetriever
        from langchain_rse.stores.embedded import open_stores

        vectorstore, docstore, _ = open_stores(load_embeddings(self.model_name), self.folder)
        fields = {"include_header": True, **self.fields}
        return RSERetriever(vectorstore=vectorstore, docstore=docstore, **fields)

    @cached_property
    def manifests(self) -> dict[str, Manifest]:
        """The manifests of all documents by id, sorted by id."""
        from langchain_rse.stores.embedded import open_docstore
        from langchain_rse.stores.layouts import read_manifests

        docstore = open_docstore(self.folder)  # ten times faster than the vector store
        manifests = {manifest.doc_id: manifest for manifest in read_manifests(docstore)}
        return dict(sorted(manifests.items()))

    @cached_property
    def names(self) -> dict[str, str]:
        """The short names of the documents, by id."""
        from langchain_rse.text.names import short_names

        return short_names(self.manifests)

    @property
    def chunks(self) -> int:
        """The number of chunks in all documents."""
        return sum(each.chunk_count for each in self.manifests.values())

    def find(self, name: str) -> str:
        """Find a document's id by its name, path or id; a ValueError if none matches."""
        from langchain_rse.stores.document_names import find_document, names_of

        path = str(Path(name).resolve())
        if path in self.manifests:
            return path
        hint = f"To list the documents: {command_line()} list --kb {self.folder}"
        return find_document(name, names_of(self.manifests.values()), hint)

    def remove(self, doc_ids: Sequence[str]) -> None:
        """Remove documents, and print their names."""
        for doc_id in self.retriever.delete(doc_ids):
            print_text(f"Removed {self.names[doc_id]}")
            del self.manifests[doc_id]

    def fit_floor(self) -> None:
        """Fit the score floor, again if the number of chunks has doubled or halved; print it.

        After an error, none is stored.
        """
        from langchain_rse.errors import ScoreFloorError
        from langchain_rse.query.floor import read_floors, stored_floor

        record = read_floors(self.retriever.docstore)
        floor = stored_floor(record, type(self.retriever.vectorstore).__name__)
        if floor is not None and floor.chunks / 2 <= self.chunks < 2 * floor.chunks:
            return
        try:
            fitted = self.retriever.fit_score_floor(show_progress=sys.stderr.isatty())
        except ScoreFloorError as error:
            if self.chunks:
                print_text(f"No score floor, so off-topic questions return passages too: {error}")
        else:
            print_text(f"Score floor fitted. {str(fitted).partition(' (')[0]}")


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock the folder, because Chroma supports one writer at a time; other commands wait.

    Raises:
        ValueError: If the folder is not a knowledge base and has files, which would be mixed with
            those of the knowledge base.
    """
    folder.mkdir(parents=True, exist_ok=True)
    visible_names = sorted(path.name for path in folder.glob("[!.]*"))
    if _SETTINGS not in visible_names and visible_names not in ([], [_LOCK]):
        raise ValueError(
            f"--kb {folder} has other files ({first_few(visible_names)}). Choose an empty or a new "
            f"folder for the knowledge base, such as --kb {folder.resolve().name}-kb"
        )
    with (folder / _LOCK).open("ab") as file:
        if sys.platform != "win32":  # there is no lock on Windows
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def load_embeddings(name: str) -> Embeddings:
    """Load an embedding model by its name, ``module:Class`` or ``provider:model``."""
    from langchain_core.embeddings import Embeddings

    model: Any = None
    reason: object = "no class of Embeddings"
    try:
        model = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        reason = error
    if isinstance(model, type) and issubclass(model, Embeddings):
        return model()
    try:
        from langchain.embeddings import init_embeddings

        return init_embeddings(name)
    except (ImportError, ValueError) as error:
        raise ValueError(
            f"--embeddings {name}: no module:Class of LangChain Embeddings has this name "
            f"({reason}; in an existing knowledge base, set PYTHONPATH=. for the working "
            "directory); for provider:model, run pip install langchain and the provider's package, "
            f"such as langchain-openai ({error})"
        ) from error
