"""Adds the documents of a Ray dataset to the stores, in parallel on a Ray cluster."""

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

# Errors that a retry would raise again, because a document or a setting is wrong.
_LASTING_ERRORS = (LookupError, TypeError, ValueError)


def row_to_documents(row: Row) -> Document | list[Document]:
    """Make the document of a row.

    If there is a column ``item``, as `ray.data.from_items` makes, this is the document. Otherwise
    the column ``text`` is its text, the optional column ``id`` its id, and ``metadata`` and all
    other columns are its metadata. Values of None are dropped, because tables fill gaps with None.
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
    """Add the documents of a dataset; load, split and embed them in parallel processes.

    All processes write to the same stores, with the same result as ``add_documents``. To complete
    an interrupted call, call again.

    Args:
        dataset: A dataset with one whole document per row.
        make_indexer: Opens the stores and makes an indexer; called once in each process.
        to_documents: Returns the document of a row, or its parts, such as the pages of a file.
        concurrency: Number of processes.
        batch_size: Number of rows added in one call.
        retries: Number of retries of a batch if a store or model fails.
        **resources: Resources of a process, as arguments of Ray's ``map_batches``: ``num_gpus=1``.

    Returns:
        The ids of the documents, each once, in any order.

    Raises:
        TypeError: If ``dataset`` is not a Ray dataset.
        ValueError: If parts of a document are in several rows.
        RuntimeError: If a document cannot be added. The message names the document and the error.
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
        if doc_id in ids and row["origin"] != "text":  # equal texts are the same document
            raise ValueError(
                f"document {doc_id!r} is in several rows, so parts of it may be lost. Put all its "
                "parts into one row, for example with groupby() and map_groups(), and call again"
            )
        ids.add(doc_id)
    return list(ids)


class _Row(NamedTuple):
    """The documents of a row of the dataset."""

    documents: list[Document]
    origins: dict[str, str]  # the origin of each id


class _RowError(Exception):
    """Documents of a row cannot be made or added; the message gives the row and the reason."""


class _Worker:
    """Adds the documents of batches of rows, in a separate process."""

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
        """Add the documents; return their ids and the origins of the ids, or an error."""
        try:
            rows = [self._read(row) for row in batch.to_pylist()]
            self._add_all(rows)
        except _RowError as error:  # other exceptions may not be serializable
            return pa.Table.from_pylist([{"error": str(error)}])
        added = []
        for row in rows:
            for doc_id, origin in row.origins.items():
                added.append({"doc_id": doc_id, "origin": origin})
        return pa.Table.from_pylist(added)

    def _read(self, row: Row) -> _Row:
        """Make the documents of a row, and find their ids."""
        with _failing(f"cannot make a document from the row {row!r:.200}"):
            made = self._to_documents(row)
            documents = [made] if isinstance(made, Document) else list(made)
            origins: dict[str, str] = {}
            for document in documents:
                source = identified(document)
                origins[source.doc_id] = source.id_origin
            return _Row(documents, origins)

    def _add_all(self, rows: Sequence[_Row]) -> None:
        """Add all documents in one call; if it fails, add row by row to find the row."""
        documents: list[Document] = []
        for row in rows:
            documents.extend(row.documents)
        try:
            self._add(documents)
        except Exception:  # noqa: BLE001 - raised again below
            for row in rows:
                names = ", ".join(repr(doc_id) for doc_id in row.origins)
                with _failing(f"cannot add document {names}"):
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
    """Turn any error into a `_RowError` that names the failed step."""
    try:
        yield
    except Exception as error:
        notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        raise _RowError(f"{step}: {type(error).__name__}: {error}{notes}") from error
