"""The vectors of an adopted index, as listed in the records of its chunks."""

from collections.abc import Mapping
from typing import NamedTuple

from langchain_core.documents import Document
from pydantic import TypeAdapter, ValidationError

from langchain_rse.errors import CorruptRecordError

# Metadata of chunk records in the docstore: pairs of a vector's id and the digest of its text.
ADOPTED = "adopted"

_VECTORS = TypeAdapter(list[tuple[str, str]])


class AdoptedVector(NamedTuple):
    """A vector that other code wrote."""

    id: str
    text_digest: str  # digest of the whole text in the vector store, overlap included
    chunk: int | None  # number of its chunk; None if the vector is excluded


def adopted_vectors(record: Document, key: str) -> Mapping[str, str]:
    """Return the text digests of a chunk's adopted vectors, by vector id."""
    if ADOPTED not in record.metadata:
        return {}
    try:
        return dict(_VECTORS.validate_python(record.metadata[ADOPTED]))
    except ValidationError as error:
        raise CorruptRecordError(
            f"the metadata of the docstore's chunk {key!r} has "
            f"{ADOPTED}={record.metadata[ADOPTED]!r:.200} instead of pairs of strings. Delete this "
            "key and adopt the index again"
        ) from error
