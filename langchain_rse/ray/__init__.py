"""Add the documents of a Ray dataset to the stores, on all machines of a Ray cluster."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from langchain_core.documents import Document

from langchain_rse.indexer import RSEIndexer
from langchain_rse.ingest.sources import identified

try:
    import pyarrow as pa
    from ray.data import ActorPoolStrategy, Dataset
except ImportError as error:
    raise ImportError(
        f"langchain_rse.ray needs {error.name}: pip install 'langchain-rse[ray]'"
    ) from error

__all__ = ["index", "row_to_documents"]

Row = Mapping[str, Any]

# Errors of a document or a setting, which another attempt would meet again.
_LASTING_ERRORS = (LookupError, TypeError, ValueError)


def row_to_documents(row: Row) -> Document | list[Document]:
    """Return the column ``item``, as `ray.data.from_items` names it; else make a document of a row.

    The column ``text`` is its text and ``id``, if there is one, its id; ``metadata`` and all other
    columns are its metadata. None is left out, since tables fill gaps with it.
    """
    if "item" in row:
        return cast("Document | list[Document]", row["item"])
    columns = {name: value for name, value in row.items() if name not in {"text", "id", "metadata"}}
    columns.update(row.get("metadata") or {})
    doc_id = row.get("id")
    return Document(
        page_content=row["text"],
        id=None if doc_id is None else str(doc_id),
        metadata={name: value for name, value in columns.items() if value is not None},
    )


def index(
    dataset: Dataset,
    make_indexer: Callable[[], RSEIndexer],
    *,
    to_documents: Callable[[Row], Document | list[Document]] = row_to_documents,
    concurrency: int = 1,
    batch_size: int = 100,
    retries: int = 3,
    **resources: Any,  # noqa: ANN401
) -> list[str]:
    """Add the documents of a dataset; load, split and embed them in many processes.

    All processes write into the same stores, with the result of ``add_documents``. A call that was
    interrupted is completed by calling again.

    Args:
        dataset: Has one whole document in each row.
        make_indexer: Opens the stores and makes an indexer; called in each process.
        to_documents: From a row to its document, or to its parts, such as the pages of a file.
        concurrency: Number of processes.
        batch_size: Rows that are added in one call.
        retries: How often a batch is tried again if a store or model fails.
        **resources: What a process needs, as arguments of Ray's ``map_batches``: ``num_gpus=1``.

    Returns:
        The ids of the documents, each once, in any order.

    Raises:
        ValueError: If parts of a document are in several rows.
        RuntimeError: If a document cannot be added; the message has the document and the error.
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(f"dataset must be a ray.data.Dataset; got {type(dataset).__name__}")
    added = dataset.map_batches(
        _Worker,
        fn_constructor_args=(make_indexer, to_documents, retries),
        compute=ActorPoolStrategy(size=concurrency),
        batch_size=batch_size,
        batch_format="pyarrow",
        **resources,
    )
    ids = set()
    for row in added.iter_rows():
        if row.get("error"):
            raise RuntimeError(row["error"])
        doc_id = row["doc_id"]
        if doc_id in ids and row["origin"] != "text":  # documents with equal texts are one
            raise ValueError(
                f"document {doc_id!r} is in several rows, so that parts of it may be lost: "
                "bring them into one row, as with groupby() and map_groups(), and call again"
            )
        ids.add(doc_id)
    return list(ids)


class _Row(NamedTuple):
    """The documents of a row of the dataset."""

    documents: list[Document]
    origins: dict[str, str]  # of the ids, by id


class _RowError(Exception):
    """Documents of a row cannot be made or added; the message says which, and why."""


class _Worker:
    """Adds the documents of batches of rows, in a process of its own."""

    def __init__(
        self,
        make_indexer: Callable[[], RSEIndexer],
        to_documents: Callable[[Row], Document | list[Document]],
        retries: int,
    ) -> None:
        self._to_documents = to_documents
        self._retries = retries
        self._indexer = make_indexer()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Add the documents; return their ids and the origins of these, or an error."""
        try:
            rows = [self._read(row) for row in batch.to_pylist()]
            self._add_all(rows)
        except _RowError as error:  # others may be impossible to send to the caller
            return pa.Table.from_pylist([{"error": str(error)}])
        added = []
        for row in rows:
            for doc_id, origin in row.origins.items():
                added.append({"doc_id": doc_id, "origin": origin})
        return pa.Table.from_pylist(added)

    def _read(self, row: Row) -> _Row:
        """Make the documents of a row, and find their ids."""
        with _failing(f"no document can be made of the row {row!r:.200}"):
            made = self._to_documents(row)
            documents = [made] if isinstance(made, Document) else list(made)
            origins: dict[str, str] = {}
            for document in documents:
                source = identified(document)
                origins[source.doc_id] = source.id_origin
            return _Row(documents, origins)

    def _add_all(self, rows: Sequence[_Row]) -> None:
        """Add the documents in one call; if that fails, in one for each row, to name the row."""
        documents: list[Document] = []
        for row in rows:
            documents.extend(row.documents)
        try:
            self._add(documents)
        except Exception:  # noqa: BLE001 - it comes up again
            for row in rows:
                names = ", ".join(repr(doc_id) for doc_id in row.origins)
                with _failing(f"document {names} cannot be added"):
                    self._add(row.documents)

    def _add(self, documents: Sequence[Document]) -> None:
        for attempt in range(self._retries + 1):
            try:
                self._indexer.add_documents(documents)
            except Exception as error:
                if attempt == self._retries or isinstance(error, _LASTING_ERRORS):
                    raise
                time.sleep(2**attempt)
            else:
                return


@contextmanager
def _failing(step: str) -> Iterator[None]:
    """Turn any error into a `_RowError` that says which step failed."""
    try:
        yield
    except Exception as error:
        notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        raise _RowError(f"{step}: {type(error).__name__}: {error}{notes}") from error
