"""Adopts an index: reads its vector store, and writes its documents to the docstore."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from langchain_core.documents import Document

from langchain_rse._progress import progress_bar
from langchain_rse._sync import batches, during, run
from langchain_rse.adopting.chunks import doc_id_of
from langchain_rse.adopting.existing_index import Adoption, ExistingIndex, Gap
from langchain_rse.adopting.listing import read_all_chunks
from langchain_rse.adopting.recognizing import recognize
from langchain_rse.adopting.runs import UnstatedOverlapError
from langchain_rse.adopting.versions import make_version
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
from langchain_rse.stores.vectorstores import adapter_for, vector_id_of
from langchain_rse.text.quoting import first_few

logger = logging.getLogger(__name__)

_ChunksOfDocuments = dict[str, dict[str, Document]]
"""The chunks of documents, by the ids of the documents and of the chunks' vectors."""

# Documents that are written together.
_DOCUMENTS = 100

_EXCERPT = 60


def adopt(
    writer: Writer,
    index: ExistingIndex | None,
    documents: Iterable[Document] | None,
    *,
    rules: Mapping[str, Rule],
    show_progress: bool,
) -> Adoption:
    """Write the documents of an existing index to the docstore; see `RSEIndexer.adopt`."""
    vectorstore = writer.vectors.vectorstore
    run(check_pair(writer.docstore, vectorstore))
    with during("listing the chunks of the vector store"):
        if documents is None:
            in_order = index is not None and index.in_store_order
            chunks = run(read_all_chunks(vectorstore, in_order=in_order))
        else:
            chunks = list(documents)
    chunks = _chunks_to_adopt(chunks, namespace_of(writer.docstore))
    if not chunks:
        raise AdoptionError(
            "the vector store has no chunks to adopt: it is empty, or has only chunks that this "
            "package wrote. Is it the right collection, and is its folder the right one? To start "
            "a new index, add_documents"
        )
    is_recognized = index is None
    if index is None:
        are_in_order = documents is None and adapter_for(vectorstore).lists_in_insertion_order
        index = recognize(chunks, are_in_order=are_in_order)
    adopter = _Adopter(writer, index, rules, is_recognized=is_recognized)
    adopter.group(chunks)
    adopter.write_all(show_progress=show_progress)
    adopter.record_skipped()
    if is_recognized:
        logger.info("adopted an index by the metadata of its chunks: %s", adopter.report)
    return adopter.report


def _chunks_to_adopt(chunks: Iterable[Document], namespace: str) -> list[Document]:
    """The chunks that other code wrote, in this namespace."""
    chunks_to_adopt: list[Document] = []
    in_other_namespaces = 0
    for chunk in chunks:
        was_written_here = VERSION in chunk.metadata
        if was_written_here:
            continue
        if namespace_in(chunk.metadata) == namespace:
            chunks_to_adopt.append(chunk)
        else:
            in_other_namespaces += 1
    if in_other_namespaces and namespace and not chunks_to_adopt:
        raise AdoptionError(
            f"no chunk is in this namespace: {in_other_namespaces} lack "
            f"{NAMESPACE}={namespace!r} in their metadata. Add this field with the "
            "vector store's own methods"
        )
    return chunks_to_adopt


class _Made(NamedTuple):
    """A document that was made of its chunks, or the error if it cannot be made."""

    doc_id: str
    version: DocumentVersion | None
    gaps: Sequence[Gap] = ()
    error: Exception | None = None


class _Adopter:
    """Makes and writes documents; keeps the report, and the excluded vectors."""

    def __init__(
        self,
        writer: Writer,
        index: ExistingIndex,
        rules: Mapping[str, Rule],
        *,
        is_recognized: bool,
    ) -> None:
        self.report = Adoption(index)
        self._writer = writer
        self._index = index
        self._rules = rules
        self._is_recognized = is_recognized
        self._namespace = namespace_of(writer.docstore)
        self._chunks: _ChunksOfDocuments = {}
        self._skipped_vectors: list[str] = []

    def group(self, chunks: Iterable[Document]) -> None:
        """Group chunks by the ids of their documents and vectors, in the order of the store."""
        first_error: AdoptionError | None = None
        for chunk in chunks:
            vector = _checked_vector_id(chunk)
            try:
                doc_id = doc_id_of(chunk, self._index)
            except AdoptionError as error:
                first_error = first_error or error
                self._skip(str(error), [vector])
                continue
            chunks_of_document = self._chunks.setdefault(doc_id, {})
            chunks_of_document[vector] = chunk
        if first_error is not None:
            self._raise_unless_skipping(str(first_error), leaves_something=bool(self._chunks))

    def write_all(self, *, show_progress: bool) -> None:
        """Make all documents and write them, a batch at a time."""
        total = len(self._chunks)
        with progress_bar(total, unit="documents", title="Adopting", show=show_progress) as advance:
            for doc_ids in batches(self._chunks, _DOCUMENTS):
                self._write(doc_ids)
                advance(len(doc_ids))

    def _write(self, doc_ids: list[str]) -> None:
        all_made = self._make(doc_ids)
        for made in all_made:
            if made.error is not None:
                name = f"document {made.doc_id!r}: "
                problem = name + str(made.error).removeprefix(name)  # some errors have it already
                if self._index.on_error == "raise":
                    leaves_something = self._can_make_any(all_made)
                    self._raise_unless_skipping(problem, leaves_something=leaves_something)
                self._skip(problem, self._chunks[made.doc_id])
        versions: list[DocumentVersion] = []
        for made in all_made:
            if made.version is None:
                continue
            versions.append(made.version)
            self.report.documents += 1
            self.report.chunks += len(made.version.chunks) - len(made.version.gaps)
            self.report.vectors += len(self._chunks[made.doc_id])
            self.report.gaps += made.gaps
        run(self._writer.write(versions))

    def _make(self, doc_ids: list[str]) -> list[_Made]:
        """Make documents of their chunks."""
        texts = self._read_texts(doc_ids)
        manifests = self._writer.records.manifests(map(document_key, doc_ids))
        vectors: list[str] = []
        for doc_id in doc_ids:
            vectors += self._chunks[doc_id]
        records_by_vector = self._read_records(vectors)
        all_made: list[_Made] = []
        for doc_id, text, manifest in zip(doc_ids, texts, manifests, strict=True):
            chunks = self._chunks[doc_id]
            records = [
                records_by_vector[vector] for vector in chunks if vector in records_by_vector
            ]
            try:
                _check_document(doc_id, manifest, records)
                version, gaps = self._make_version(doc_id, chunks, text)
            except UnstatedOverlapError as error:
                if self._is_recognized:
                    raise AdoptionError(self._with_recognized(str(error))) from None
                raise
            except (AdoptionError, TypeError, ValueError) as error:
                all_made.append(_Made(doc_id, None, error=error))
            else:
                all_made.append(_Made(doc_id, version, gaps))
        return all_made

    def _can_make_any(self, made_already: Iterable[_Made]) -> bool:
        """True if some document of the index can be made, so that skipping others is of use."""
        if self.report.documents:
            return True
        tried: set[str] = set()
        for made in made_already:
            if made.version is not None:
                return True
            tried.add(made.doc_id)
        untried = [doc_id for doc_id in self._chunks if doc_id not in tried]
        for doc_ids in batches(untried, _DOCUMENTS):
            all_made = self._make(doc_ids)
            if any(made.version is not None for made in all_made):
                return True
        return False

    def record_skipped(self) -> None:
        """Record the excluded vectors, so that queries ignore them.

        Vectors that an earlier call adopted keep their records.
        """
        records_by_vector = self._read_records(self._skipped_vectors)
        new_vectors = [
            vector for vector in self._skipped_vectors if vector not in records_by_vector
        ]
        self._writer.records.write(map(adopted_record, new_vectors))

    def _read_texts(self, doc_ids: list[str]) -> list[Document | None]:
        """Read the whole texts of documents, if the index has any."""
        store = self._index.texts
        if store is None:
            return [None] * len(doc_ids)
        if isinstance(store, Mapping):
            return [store.get(doc_id) for doc_id in doc_ids]
        with during("reading whole texts"):
            return store.mget(doc_ids)

    def _make_version(
        self, doc_id: str, chunks: Mapping[str, Document], text: Document | None
    ) -> tuple[DocumentVersion, list[Gap]]:
        return make_version(
            doc_id,
            chunks,
            text,
            index=self._index,
            rules=self._rules,
            namespace=self._namespace,
        )

    def _skip(self, problem: str, vectors: Iterable[str]) -> None:
        self.report.problems.append(problem)
        self._skipped_vectors += vectors

    def _raise_unless_skipping(self, problem: str, *, leaves_something: bool) -> None:
        if self._index.on_error == "skip":
            return
        message = problem
        if self._is_recognized:
            message = self._with_recognized(problem)
        if leaves_something:
            message += ". Or exclude such documents: on_error='skip'"
        raise AdoptionError(message)

    def _with_recognized(self, problem: str) -> str:
        return (
            f"{problem}. The metadata of the chunks was read as {self._index}; to name other "
            "fields, pass an ExistingIndex"
        )

    def _read_records(self, vectors: Iterable[str]) -> dict[str, Document]:
        """Read the docstore's records of vectors; vectors without a record are left out."""
        vectors_by_key = {adopted_key(vector): vector for vector in vectors}
        records = self._writer.records.read(vectors_by_key)
        records_by_vector: dict[str, Document] = {}
        for key, record in records.items():
            if record is not None:
                records_by_vector[vectors_by_key[key]] = record
        return records_by_vector


def _checked_vector_id(chunk: Document) -> str:
    vector = vector_id_of(chunk)
    if vector is None:
        raise AdoptionError(
            "a chunk has no id, by which search results are known: its text begins "
            f"{chunk.page_content[:_EXCERPT]!r}. Build this index again with ids"
        )
    return vector


def _check_document(doc_id: str, manifest: Manifest | None, records: Iterable[Document]) -> None:
    """Refuse a document by what the docstore has recorded of it and of its vectors."""
    current = manifest.current if manifest is not None else None
    if current is not None and not current.adopted:
        raise AdoptionError(
            "it was added with add_documents as well; the chunks of this index would be a second "
            "version. Delete one of the two"
        )
    other_documents: set[str] = set()
    for record in records:
        recorded_id = record.metadata.get(DOC_ID)
        if recorded_id is not None and recorded_id != doc_id:
            # As repr, since a damaged record may hold a value that is not hashable.
            other_documents.add(repr(recorded_id))
    if other_documents:
        raise AdoptionError(
            f"its vectors are known as chunks of {first_few(other_documents)}: this docstore was "
            "made with another doc_id_key, or for another vector store. Use an empty docstore"
        )
