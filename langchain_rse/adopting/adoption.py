"""Adopts an index: lists its vector store and writes its documents to the docstore."""

import itertools
from collections.abc import Iterable, Mapping
from functools import partial

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_rse._messages import first_few
from langchain_rse._progress import progress_bar
from langchain_rse._sync import Steps, batches, call, compute, during
from langchain_rse.adopting.index import Adoption, ExistingIndex
from langchain_rse.adopting.joining import doc_id_of, make_version
from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.namespaces import namespace_of
from langchain_rse.stores.pairing import check_pair
from langchain_rse.stores.records import (
    DOC_ID,
    NAMESPACE,
    VERSION,
    DocumentVersion,
    Manifest,
    Rule,
    adopted_key,
    adopted_record,
    document_key,
    namespace_in,
)
from langchain_rse.stores.vectorstores import LISTED, adapter_for, vector_id_of

# Documents that are written together.
_DOCUMENTS = 100


def adopt(
    writer: Writer,
    index: ExistingIndex,
    documents: Iterable[Document] | None,
    *,
    rules: Mapping[str, Rule],
    show_progress: bool,
) -> Steps[Adoption]:
    """Write the documents of an existing index to the docstore; see `RSEIndexer.adopt`."""
    yield from check_pair(writer.docstore, writer.vectors.vectorstore)
    with during("listing the chunks of the vector store"):
        if documents is None:
            chunks = yield from _listed(writer.vectors.vectorstore, in_order=index.in_store_order)
        else:
            chunks = yield from compute(list, documents)
    adopter = _Adopter(writer, index, rules)
    grouped = adopter.group(chunks)
    total = len(grouped)
    with progress_bar(total, unit="documents", title="Adopting", show=show_progress) as advance:
        for some in batches(grouped.items(), _DOCUMENTS):
            yield from adopter.write(dict(some))
            advance(len(some))
    yield from adopter.record_skipped()
    return adopter.report


def _listed(store: VectorStore, *, in_order: bool) -> Steps[list[Document]]:
    """List all chunks of a vector store; with ``in_order``, in the order they were added in."""
    adapter = adapter_for(store)
    if not adapter.can_list:
        raise TypeError(
            f"the chunks of a {type(store).__name__} cannot be listed, only those of {LISTED}. "
            "Read them yourself and pass them: documents=[Document(id=..., page_content=..., "
            "metadata=...), ...], with the store's id, text and metadata of each"
        )
    if in_order and not adapter.lists_in_insertion_order:
        raise ValueError(
            "in_store_order=True: this store does not list its chunks in the order in which they "
            "were added; give chunk_index_key, start_index_key, page_key or texts"
        )
    next_chunks = adapter.list_chunks()
    chunks: list[Document] = []
    while page := (yield from next_chunks()):
        chunks += page
    return chunks


class _Adopter:
    """Makes and writes documents; keeps the report, and the vectors that were left out."""

    def __init__(self, writer: Writer, index: ExistingIndex, rules: Mapping[str, Rule]) -> None:
        self.report = Adoption()
        self._writer = writer
        self._index = index
        self._skipped: list[str] = []
        self._namespace = namespace = namespace_of(writer.docstore)
        self._make = partial(make_version, index=index, rules=rules, namespace=namespace)

    def group(self, chunks: Iterable[Document]) -> dict[str, dict[str, Document]]:
        """Group chunks by the ids of their documents and vectors, in the order of the store."""
        grouped: dict[str, dict[str, Document]] = {}
        others = 0
        for chunk in chunks:
            if VERSION in chunk.metadata:  # written by RSEIndexer
                continue
            if namespace_in(chunk.metadata) != self._namespace:
                others += 1
                continue
            vector = vector_id_of(chunk)
            if vector is None:
                raise AdoptionError(
                    "a chunk has no id, by which search results are known: its text begins "
                    f"{chunk.page_content[:60]!r}. Build this index again with ids"
                )
            try:
                doc_id = doc_id_of(chunk, self._index.doc_id_key)
            except AdoptionError as error:
                self._skip(str(error), [vector])
            else:
                grouped.setdefault(doc_id, {})[vector] = chunk
        if others and self._namespace and not grouped:
            raise AdoptionError(
                f"no chunk is in this namespace: {others} lack {NAMESPACE}={self._namespace!r} in "
                "their metadata. Add this field with the vector store's own methods"
            )
        return grouped

    def write(self, documents: Mapping[str, Mapping[str, Document]]) -> Steps[None]:
        """Write documents, given their chunks by the ids of their vectors."""
        texts: list[Document | None] = [None] * len(documents)
        if (store := self._index.texts) is not None:
            with during("reading whole texts"):
                texts = yield from call(store.mget, store.amget, list(documents))
        manifests = yield from self._writer.records.manifests(map(document_key, documents))
        records = yield from self._records(itertools.chain(*documents.values()))
        ready: list[DocumentVersion] = []
        for given, text, manifest in zip(documents.items(), texts, manifests, strict=True):
            doc_id, chunks = given
            problem = _problem(doc_id, manifest, (records[one] for one in chunks if one in records))
            try:
                version, gaps = yield from compute(self._make, doc_id, chunks, text)
            except (AdoptionError, TypeError, ValueError) as error:
                problem = problem or str(error)
            if problem:
                self._skip(f"document {doc_id!r}: {problem}", chunks)
                continue
            ready.append(version)
            self.report.documents += 1
            self.report.chunks += len(version.chunks) - len(version.gaps)
            self.report.vectors += len(chunks)
            self.report.gaps += gaps
        yield from self._writer.write(ready)

    def record_skipped(self) -> Steps[None]:
        """Let queries ignore vectors that were left out, unless they were adopted before."""
        known = yield from self._records(self._skipped)
        yield from self._writer.records.write(
            adopted_record(vector) for vector in self._skipped if vector not in known
        )

    def _skip(self, problem: str, vectors: Iterable[str]) -> None:
        if self._index.on_error == "raise":
            raise AdoptionError(f"{problem}. Or leave such documents out: on_error='skip'")
        self.report.problems.append(problem)
        self._skipped += vectors

    def _records(self, vectors: Iterable[str]) -> Steps[dict[str, Document]]:
        """Read the docstore's records of those vectors that have one."""
        places = {adopted_key(vector): vector for vector in vectors}
        found = yield from self._writer.records.read(places)
        return {places[key]: record for key, record in found.items() if record}


def _problem(doc_id: str, manifest: Manifest | None, records: Iterable[Document]) -> str | None:
    """Say why a document cannot be written, by the docstore's records of it and its vectors."""
    if manifest and manifest.current and not manifest.current.adopted:
        return (
            "it was added with add_documents as well; the chunks of this index would be a second "
            "version. Delete one of the two"
        )
    # By repr, since a damaged record may hold a value that is not hashable.
    others = {repr(record.metadata.get(DOC_ID)) for record in records} - {"None", repr(doc_id)}
    if others:
        return (
            f"its vectors are known as chunks of {first_few(others)}: this docstore was made with "
            "another doc_id_key, or for another vector store. Use an empty docstore"
        )
    return None
