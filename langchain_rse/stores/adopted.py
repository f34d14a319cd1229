"""The vectors of an adopted index, as the records of its chunks name them."""

from collections.abc import Mapping
from typing import NamedTuple

from langchain_core.documents import Document
from pydantic import TypeAdapter, ValidationError

from langchain_rse.errors import CorruptRecordError

# Metadata of chunks' records in the docstore: pairs of a vector's id and the digest of its text.
ADOPTED = "adopted"

_VECTORS = TypeAdapter(list[tuple[str, str]])


class AdoptedVector(NamedTuple):
    """A vector that other code wrote."""

    id: str
    text_digest: str  # of the whole text in the vector store, with overlap
    chunk: int | None  # the number of its chunk; None if the vector was left out


def adopted_vectors(record: Document, key: str) -> Mapping[str, str]:
    """The vectors of a chunk that other code wrote: by their ids, the digests of their texts."""
    if ADOPTED not in record.metadata:
        return {}
    try:
        return dict(_VECTORS.validate_python(record.metadata[ADOPTED]))
    except ValidationError as error:
        raise CorruptRecordError(
            f"the docstore's chunk {key!r} has {ADOPTED}={record.metadata[ADOPTED]!r:.200} in its "
            "metadata, which should be pairs of strings. Delete this key and adopt the index again"
        ) from error
