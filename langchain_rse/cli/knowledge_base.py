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

from langchain_rse.cli.output import command_line, print_text, print_wrapped

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_rse.retriever import RSERetriever
    from langchain_rse.stores.records import Manifest

SETTINGS = "settings.json"
"""The file in a knowledge base that names its model."""
_LOCK = ".lock"
_DEFAULT_MODEL = "langchain_rse.embeddings:WordLlamaEmbeddings"


def refuse_file(path: Path | None) -> Path | None:
    """Refuse a file in place of a folder."""
    if path is not None and path.is_file():
        raise typer.BadParameter(f"{path} is a file: name a folder, such as {path.stem}-folder")
    return path


Folder = Annotated[
    Path,
    typer.Option(
        "--kb",
        metavar="FOLDER",
        help="Folder of the knowledge base: the index, not your files.",
        callback=refuse_file,
        envvar="LANGCHAIN_RSE_KB",
    ),
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
        quoted = shlex.quote(str(folder))
        if not any(folder.glob("[!.]*")):
            problem = "is empty" if folder.exists() else "does not exist"
            command = f"{command_line()} index PATH... --kb {quoted}"
            raise ValueError(f"--kb {folder} {problem}. To fill it: {command}")
        try:
            model = json.loads((folder / SETTINGS).read_bytes())["embeddings"]
        except (OSError, ValueError, TypeError, LookupError) as error:
            other = shlex.quote(f"{folder.resolve().name}-kb")
            advice = f"To make one of these files: {command_line()} index {quoted} --kb {other}"
            if (folder / "chunks.db").exists():  # an index that was made in Python
                advice = 'For its index, write {"embeddings": "module:Class of its model"} into it'
            raise ValueError(
                f"--kb {folder} is no knowledge base: it has no readable {SETTINGS}. {advice}"
            ) from error
        return cls(folder, str(model), fields)

    @classmethod
    def create(cls, folder: Path, embeddings: str | None = None) -> KnowledgeBase:
        """Open the knowledge base in a folder, or create one; None for the model it has."""
        file = folder / SETTINGS
        if not file.exists():
            name = embeddings or _DEFAULT_MODEL
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

        model = load_embeddings(self.model_name)
        vectorstore, docstore, _ = open_stores(model, self.folder, marks=[SETTINGS])
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

        return short_names({doc_id: doc_id for doc_id in self.manifests})

    @property
    def chunks(self) -> int:
        """The number of chunks in all documents."""
        return sum(each.chunk_count for each in self.manifests.values())

    def find(self, name: str) -> str:
        """Find a document's id by its name, path or id; a ValueError if none matches."""
        from langchain_rse.stores.document_names import find_document

        path = str(Path(name).resolve())
        if path in self.manifests:
            return path
        hint = f"To list the documents: {command_line()} list --kb {self.folder}"
        return find_document(name, self.manifests.values(), hint)

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
                print_wrapped(f"Off-topic questions return passages too: {error}")
        else:
            print_text(
                f"Score floor fitted: it rejects {fitted.rejected_questions:.0%} of "
                f"{fitted.questions} off-topic questions, and {fitted.rejected_sentences:.0%} of "
                f"{fitted.sentences} sentences from the documents"
            )


@contextlib.contextmanager
def only_writer(folder: Path, embeddings: str | None = None) -> Iterator[None]:
    """Lock the folder, because Chroma supports one writer at a time; other commands wait.

    The model of a new knowledge base is loaded first: if that fails, nothing is created.

    Raises:
        ValueError: If the folder is not a knowledge base and has files, which would be mixed with
            those of the knowledge base.
    """
    if embeddings is not None:  # given by the user, so it may be a module of the user's
        sys.path.append("")  # the working directory
    if not (folder / SETTINGS).exists():
        from langchain_rse.stores.embedded import refuse_other_files

        refuse_other_files(folder, f"--kb {folder}", [SETTINGS])
        load_embeddings(embeddings or _DEFAULT_MODEL)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("ab") as file:
        if sys.platform != "win32":  # there is no lock on Windows
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def load_embeddings(name: str) -> Embeddings:
    """Load an embedding model by its name, ``module:Class`` or ``provider:model``."""
    from langchain_core.embeddings import Embeddings

    try:
        model = pkgutil.resolve_name(name)
        if isinstance(model, type) and issubclass(model, Embeddings):
            return model()
        reason: object = f"{name} is no class of LangChain Embeddings"
    except (ImportError, AttributeError, ValueError) as error:
        reason = error
    class_name = name.rpartition(":")[2]
    if class_name.isidentifier() and class_name[0].isupper():
        raise ValueError(
            f"--embeddings {name}: {reason}.\nIf it is a module:Class of yours: run this in the "
            "module's folder; for an existing knowledge base, also set PYTHONPATH=."
        )
    if ":" not in name:
        raise ValueError(
            f"--embeddings {name}: expected module:Class, or provider:model such as "
            "openai:text-embedding-3-small"
        )
    try:
        from langchain.embeddings import init_embeddings

        return init_embeddings(name)
    except (ImportError, ValueError) as error:
        raise ValueError(
            f"--embeddings {name}: {error}.\nFor provider:model, run pip install langchain and the "
            "provider's package, such as langchain-openai; a class is module:Class"
        ) from error
