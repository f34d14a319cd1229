"""Add the documents of a Ray dataset to the stores, on all machines of a Ray cluster."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from langchain_core.documents import Document

from langchain_rse.indexer import RSEIndexer
from langchain_rse.ingest.adding import identified

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
_LASTING = (LookupError, TypeError, ValueError)


def row_to_documents(row: Row) -> Document | list[Document]:
    """Return the column ``item``, as `ray.data.from_items` names it; else make a document of a row.

    The column ``text`` is its text and ``id``, if there is one, its id; ``metadata`` and all other
    columns are its metadata. None is left out, since tables fill gaps with it.
    """
    if "item" in row:
        return cast("Document | list[Document]", row["item"])
    columns = {name: row[name] for name in row if name not in {"text", "id", "metadata"}}
    metadata = {**columns, **(row.get("metadata") or {})}
    return Document(
        page_content=row["text"],
        id=None if row.get("id") is None else str(row["id"]),
        metadata={name: value for name, value in metadata.items() if value is not None},
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
        if row["doc_id"] in ids and row["origin"] != "text":  # equal texts are one document
            raise ValueError(
                f"document {row['doc_id']!r} is in several rows, so that parts of it may be lost: "
                "bring them into one row, as with groupby() and map_groups(), and call again"
            )
        ids.add(row["doc_id"])
    return list(ids)


class _Worker:
    """Adds the documents of batches of rows, in a process of its own."""

    def __init__(
        self,
        make_indexer: Callable[[], RSEIndexer],
        to_documents: Callable[[Row], Document | list[Document]],
        retries: int,
    ) -> None:
        self._to_documents, self._retries = to_documents, retries
        self._indexer = make_indexer()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Add the documents; return their ids and the origins of these, or an error."""
        rows: list[tuple[list[Document], Mapping[str, str]]] = []  # documents, and their ids
        place = ""
        try:
            for row in batch.to_pylist():
                place = f"no document can be made of the row {row!r:.200}"
                made = self._to_documents(row)
                documents = [made] if isinstance(made, Document) else list(made)
                ids = {one.doc_id: one.id_origin for one in map(identified, documents)}
                rows.append((documents, ids))
            try:
                self._add([one for documents, _ in rows for one in documents])
            except Exception:  # noqa: BLE001 - finds out which document fails
                for documents, names in rows:
                    place = f"document {', '.join(map(repr, names))} cannot be added"
                    self._add(documents)
        except Exception as error:  # noqa: BLE001 - some errors cannot be sent to the caller
            notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
            failure = f"{place}: {type(error).__name__}: {error}{notes}"
            return pa.Table.from_pylist([{"error": failure}])
        origins = [pair for _, names in rows for pair in names.items()]
        return pa.Table.from_pylist([{"doc_id": one, "origin": origin} for one, origin in origins])

    def _add(self, documents: Sequence[Document]) -> None:
        for attempt in range(self._retries + 1):
            try:
                self._indexer.add_documents(documents)
            except Exception as error:
                if attempt == self._retries or isinstance(error, _LASTING):
                    raise
                time.sleep(2**attempt)
            else:
                return
