"""Records which vector store and embedding model a docstore belongs to, and checks them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from pydantic import BaseModel, ValidationError

from langchain_rse._sync import Steps, call, during, pause
from langchain_rse.errors import StoreMismatchError
from langchain_rse.stores.changing import DocStore, change, read_records
from langchain_rse.stores.namespaces import refuse_namespaces
from langchain_rse.stores.records import NAMESPACES, digest
from langchain_rse.stores.vectorstores import kind_of, name_of

PAIR_KEY = "vectorstore"
"""The docstore key of the record about its vector store."""

PROBE = "Which passage of these documents answers question 1"
"""A text whose vector tells models apart. If it is changed, all models seem to be others."""

_DIGITS = 5
# The largest distance of vectors of one model, as a share of their length: a cosine of 0.98.
_NEAR = 0.2


class _Pair(BaseModel, frozen=True):
    """A vector store and its embedding model."""

    kind: str  # class of the vector store
    name: str  # of its collection or index; empty if unknown
    model: str = ""  # its id, a digest of its first probe; empty without a model
    probe: Sequence[float] = ()  # its vector of `PROBE`, rounded

    def has_model_of(self, other: _Pair) -> bool:
        """True if the models are the same, or one of them is unknown."""
        one, two = np.asarray(self.probe), np.asarray(other.probe)
        if one.shape != two.shape:
            return not (one.size and two.size)
        longest = max(np.linalg.norm(one), np.linalg.norm(two))
        return bool(np.linalg.norm(one - two) <= _NEAR * longest)


# By the ids of docstore, vector store and embeddings: those objects, and the id of the model.
_checked: dict[tuple[int, ...], tuple[list[weakref.ref[Any]], str]] = {}


def check_pair(
    docstore: DocStore, vectorstore: VectorStore, *, force: bool = False, record: bool = True
) -> Steps[str]:
    """Check that a docstore belongs to a vector store and its embedding model, once in a process.

    With ``force``, it belongs to them from now on. With ``record``, the pair is recorded if none
    is. Returns the id of the model; empty if it is unknown.
    """
    objects = [one for one in (docstore, vectorstore, vectorstore.embeddings) if one is not None]
    place = tuple(map(id, objects))
    if not force and (known := _checked.get(place)):
        return known[1]
    while True:
        records = yield from read_records(docstore, [PAIR_KEY, NAMESPACES])
        refuse_namespaces(records[NAMESPACES])
        found = records[PAIR_KEY]
        expected = found if isinstance(found, Document) else None
        stored = None  # also if it is damaged, and is written again
        with suppress(ValidationError):
            stored = _Pair.model_validate(expected.metadata) if expected else None
        if stored is None and not record:
            return ""
        pair = yield from _describe(vectorstore)
        differs = (yield from _differences(stored, pair, vectorstore)) if stored else []
        if differs and not force:
            raise StoreMismatchError(
                f"the docstore belongs to another vector store: {' and '.join(differs)}. Use the "
                "vector store and the model that its documents were added with; or give this "
                "vector store a docstore, or a namespace=, of its own; or move all documents to "
                "it, with check(repair=True) or add_documents(..., force=True)"
            )
        if stored and not differs and (stored.probe or not pair.probe or not record):
            pair = stored
            break
        new = Document("", metadata=pair.model_dump())
        if (yield from change(docstore, [(PAIR_KEY, expected, new)]))[0]:
            break
        yield from pause(0.01)  # another call is writing it
    for other in [one for one in _checked if force and one[0] == id(docstore)]:
        _checked.pop(other, None)
    with suppress(TypeError):  # objects without weak references are asked each time
        refs = [weakref.ref(one, lambda _: _checked.pop(place, None)) for one in objects]
        _checked[place] = refs, pair.model
    return pair.model


def _describe(vectorstore: VectorStore) -> Steps[_Pair]:
    pair = _Pair(kind=kind_of(vectorstore), name=name_of(vectorstore))
    if (embeddings := vectorstore.embeddings) is None:
        return pair
    with during("embedding a text by which the embedding model is known"):
        # As a query, since some models count or keep the texts of documents.
        vector = yield from call(embeddings.embed_query, embeddings.aembed_query, PROBE)
    probe = tuple(round(float(value), _DIGITS) for value in vector)
    return pair.model_copy(update={"model": digest(*map(str, probe)), "probe": probe})


def _differences(stored: _Pair, pair: _Pair, vectorstore: VectorStore) -> Steps[list[str]]:
    """Describe the differences from the record."""
    names = [f"{one.kind} {one.name!r}" if one.name else one.kind for one in (stored, pair)]
    differs = [f"its vectors are in {names[0]}, not in {names[1]}"] * (names[0] != names[1])
    # A model that contradicts itself, such as one of random vectors, cannot be compared.
    if not stored.has_model_of(pair) and pair.has_model_of((yield from _describe(vectorstore))):
        sizes = len(stored.probe), len(pair.probe)
        told = "" if sizes[0] == sizes[1] else f" of {sizes[0]} dimensions, not {sizes[1]}"
        differs.append(f"its vectors are of another embedding model{told}")
    return differs
