"""Records and checks which vector store and embedding model a docstore belongs to."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from pydantic import BaseModel, ValidationError

from langchain_rse._sync import Steps, call, compute, compute_to_the_end, during, pause
from langchain_rse.errors import FormatError, StoreMismatchError
from langchain_rse.stores.compare_and_set import DocStore, change, read_records
from langchain_rse.stores.namespaces import refuse_namespaces
from langchain_rse.stores.records import NAMESPACES, digest
from langchain_rse.stores.vectorstores import adapter_for

PAIR_KEY = "vectorstore"
"""The docstore key of the record about its vector store."""

PROBE = "Which passage of these documents answers question 1"
"""A text whose vector identifies a model. Never change it: every model would look different."""

_DIGITS = 5
# Two vectors of the same model differ at most by this share of their length (cosine 0.98).
_NEAR = 0.2


class _Pair(BaseModel, frozen=True):
    """A vector store and its embedding model."""

    kind: str  # class of the vector store
    name: str  # name of its collection or index; empty if unknown
    model: str = ""  # id of the model, a digest of its first probe; empty without a model
    probe: list[float] = []  # the model's vector of `PROBE`, rounded

    @property
    def store_name(self) -> str:
        """Name of the vector store for messages."""
        return f"{self.kind} {self.name!r}" if self.name else self.kind

    def has_model_of(self, other: _Pair) -> bool:
        """True if both models are the same, or one is unknown."""
        own_vector = np.asarray(self.probe)
        other_vector = np.asarray(other.probe)
        if not own_vector.size or not other_vector.size:
            return True
        if own_vector.shape != other_vector.shape:
            return False
        longest = max(np.linalg.norm(own_vector), np.linalg.norm(other_vector))
        return bool(np.linalg.norm(own_vector - other_vector) <= _NEAR * longest)


# The result of a check without a record, if none is to be written.
_UNRECORDED = _Pair(kind="", name="")


class Model(NamedTuple):
    """The embedding model of a pair, and the name of its vector store."""

    id: str = ""  # empty if unknown
    dimensions: int = 0  # dimensions of its vectors; 0 if unknown
    store: str = ""  # class and collection; empty if not recorded


class _Checked(NamedTuple):
    """The pair that was last checked for a docstore."""

    vectorstore: VectorStore
    embeddings: Embeddings | None
    model: Model


# By docstore, in this process.
_checked: weakref.WeakKeyDictionary[DocStore, _Checked] = weakref.WeakKeyDictionary()


def check_pair(
    docstore: DocStore, vectorstore: VectorStore, *, force: bool = False, record: bool = True
) -> Steps[Model]:
    """Check that a docstore belongs to a vector store and its embedding model.

    The result is cached in the process. With ``force``, this pair replaces a different recorded
    pair. With ``record``, a pair without a record is recorded. Returns the model.
    """
    embeddings = vectorstore.embeddings
    checked = _checked.get(docstore)
    if checked is not None and not force:
        if checked.vectorstore is vectorstore and checked.embeddings is embeddings:
            return checked.model
    pair = None
    while pair is None:
        pair = yield from _check_record(docstore, vectorstore, force=force, record=record)
        if pair is None:
            yield from pause(0.01)  # another call is writing the record
    if pair is _UNRECORDED:
        return Model()
    model = Model(pair.model, len(pair.probe), pair.store_name)
    _checked[docstore] = _Checked(vectorstore, embeddings, model)
    return model


def _check_record(
    docstore: DocStore, vectorstore: VectorStore, *, force: bool, record: bool
) -> Steps[_Pair | None]:
    """Check the docstore's record of its pair, and write it if necessary.

    Returns the pair as now recorded; None if another call changed the record at the same time.
    """
    records = yield from compute(read_records, docstore, [PAIR_KEY, NAMESPACES])
    record_of_pair = records[PAIR_KEY]
    if isinstance(record_of_pair, FormatError):
        raise record_of_pair
    refuse_namespaces(records[NAMESPACES])
    stored_record = None  # also for a corrupt record, which is written again
    stored = None
    if isinstance(record_of_pair, Document):
        stored_record = record_of_pair
        with suppress(ValidationError):
            stored = _Pair.model_validate(stored_record.metadata)
    if stored is None and not record:
        return _UNRECORDED
    pair = yield from _describe(vectorstore)
    if stored is not None:
        differences = _differences(stored, pair)
        if differences and not force:
            raise StoreMismatchError(
                f"docstore and vector store do not match: {' and '.join(differences)}. Use the "
                "vector store and model that the documents were added with; or use a separate "
                "docstore or namespace= for this vector store; or move all documents to this one "
                "with add_documents(..., force=True), check(repair=True) or langchain-rse check "
                "--repair"
            )
        learns_model = bool(pair.probe) and not stored.probe
        if not differences and not (learns_model and record):
            return stored
    new_record = Document("", metadata=pair.model_dump())
    [is_written] = yield from compute_to_the_end(
        change, docstore, [(PAIR_KEY, stored_record, new_record)]
    )
    return pair if is_written else None


def _describe(vectorstore: VectorStore) -> Steps[_Pair]:
    """Describe a vector store and its embedding model."""
    adapter = adapter_for(vectorstore)
    pair = _Pair(kind=adapter.kind, name=adapter.collection_name)
    embeddings = vectorstore.embeddings
    if embeddings is None:
        return pair
    with during("embedding a text to identify the embedding model"):
        # As a query, because some models count or keep the texts of documents.
        vector = yield from call(embeddings.embed_query, embeddings.aembed_query, PROBE)
    probe = [round(float(value), _DIGITS) for value in vector]
    return pair.model_copy(update={"model": digest(*map(str, probe)), "probe": probe})


def _differences(stored: _Pair, pair: _Pair) -> list[str]:
    """Describe the differences between the recorded and the present pair."""
    differences: list[str] = []
    if stored.store_name != pair.store_name:
        differences.append(
            f"the docstore's vectors are in {stored.store_name}, not in {pair.store_name}"
        )
    if not stored.has_model_of(pair):
        difference = "the docstore's vectors are from another embedding model"
        if len(stored.probe) != len(pair.probe):
            difference += f" ({len(stored.probe)} dimensions, not {len(pair.probe)})"
        differences.append(difference)
    return differences
