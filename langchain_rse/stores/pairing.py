"""Records and checks which vector store and embedding model a docstore belongs to."""

import weakref

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from pydantic import BaseModel, Field, ValidationError

from langchain_rse._sync import Steps, call, compute, during, pause, to_the_end
from langchain_rse.errors import FormatError, StoreMismatchError
from langchain_rse.stores.compare_and_set import DocStore, change, read_records, refuse_namespaces
from langchain_rse.stores.records import NAMESPACES, digest
from langchain_rse.stores.vectorstores import adapter_for

PAIR_KEY = "vectorstore"
"""The docstore key of the record about its vector store."""

PROBE = "Which passage of these documents answers question 1"
"""A text whose vector identifies a model. Never change it: every model would look different."""

_DIGITS = 5
# Two vectors of the same model differ at most by this share of their length (cosine 0.98).
_NEAR = 0.2


class Model(BaseModel, frozen=True):
    """The embedding model of a pair of stores, and its vector store, as recorded."""

    kind: str = ""  # class of the vector store; empty if not recorded
    name: str = ""  # name of its collection or index; empty if unknown
    # A digest of the model's first probe; empty without a model.
    id: str = Field(default="", alias="model")
    probe: list[float] = []  # the model's vector of `PROBE`, rounded

    @property
    def store(self) -> str:
        """The vector store's class and collection, for messages."""
        return f"{self.kind} {self.name!r}" if self.name else self.kind

    @property
    def dimensions(self) -> int:
        """Number of dimensions of the model's vectors; 0 if unknown."""
        return len(self.probe)


# The vector store that was last checked in this process, and its model, by docstore.
_checked: weakref.WeakKeyDictionary[DocStore, tuple[VectorStore, Embeddings | None, Model]] = (
    weakref.WeakKeyDictionary()
)


def check_pair(
    docstore: DocStore, vectorstore: VectorStore, *, force: bool = False, record: bool = True
) -> Steps[Model]:
    """Check that a docstore belongs to a vector store and its embedding model.

    The result is cached in the process. With ``force``, this pair replaces a different recorded
    pair. With ``record``, a pair without a record is recorded. Returns the model.
    """
    embeddings = vectorstore.embeddings
    if docstore in _checked and not force:
        checked_store, checked_embeddings, model = _checked[docstore]
        if checked_store is vectorstore and checked_embeddings is embeddings:
            return model
    is_written = False
    while not is_written:
        stored_record, stored = yield from compute(_read_model, docstore)
        if stored is None and not record:
            return Model()
        model = yield from _describe(vectorstore)
        differences = _differences(stored, model) if stored is not None else []
        if differences and not force:
            raise StoreMismatchError(
                f"docstore and vector store do not match: {' and '.join(differences)}. Use the "
                "vector store and model that the documents were added with; or use a separate "
                "docstore or namespace= for this vector store; or move all documents to this one "
                "with add_documents(..., force=True), check(repair=True) or langchain-rse check "
                "--repair"
            )
        if stored is not None and not differences:
            # A model that becomes known is recorded.
            if stored.probe or not model.probe or not record:
                model = stored
                break
        new_record = Document("", metadata=model.model_dump(by_alias=True))
        changes = [(PAIR_KEY, stored_record, new_record)]
        [is_written] = yield from to_the_end(compute(change, docstore, changes))
        if not is_written:
            yield from pause(0.01)  # another call is writing the record
    _checked[docstore] = (vectorstore, embeddings, model)
    return model


def _read_model(docstore: DocStore) -> tuple[Document | None, Model | None]:
    """Read a docstore's record of its pair; a corrupt one counts as none."""
    records = read_records(docstore, [PAIR_KEY, NAMESPACES])
    record = records[PAIR_KEY]
    if isinstance(record, FormatError):
        raise record
    refuse_namespaces(records[NAMESPACES])
    if not isinstance(record, Document):
        return None, None
    try:
        return record, Model.model_validate(record.metadata)
    except ValidationError:
        return record, None


def _describe(vectorstore: VectorStore) -> Steps[Model]:
    """Describe a vector store and its embedding model."""
    adapter = adapter_for(vectorstore)
    model = Model(kind=adapter.kind, name=adapter.collection_name)
    embeddings = vectorstore.embeddings
    if embeddings is None:
        return model
    with during("embedding a text to identify the embedding model"):
        # As a query, because some models count or keep the texts of documents.
        vector = yield from call(embeddings.embed_query, embeddings.aembed_query, PROBE)
    probe = [round(float(value), _DIGITS) for value in vector]
    return model.model_copy(update={"id": digest(*map(str, probe)), "probe": probe})


def _differences(stored: Model, model: Model) -> list[str]:
    """Describe the differences between the recorded and the present model."""
    differences: list[str] = []
    if stored.store != model.store:
        differences.append(f"the docstore's vectors are in {stored.store}, not in {model.store}")
    if not stored.probe or not model.probe:  # a model is unknown
        return differences
    difference = "the docstore's vectors are from another embedding model"
    if len(stored.probe) != len(model.probe):
        sizes = f"{len(stored.probe)} dimensions, not {len(model.probe)}"
        return [*differences, f"{difference} ({sizes})"]
    distance = np.linalg.norm(np.subtract(stored.probe, model.probe))
    longest = max(np.linalg.norm(stored.probe), np.linalg.norm(model.probe))
    if distance > _NEAR * longest:
        differences.append(difference)
    return differences
