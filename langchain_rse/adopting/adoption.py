"""Adopts an index: reads its vector store, and writes its documents to the docstore."""

from collections.abc import Iterable, Mapping

from langchain_core.documents import Document

from langchain_rse._messages import first_few
from langchain_rse._progress import progress_bar
from langchain_rse._sync import Steps, batches, call, compute, during
from langchain_rse.adopting.chunks import doc_id_of
from langchain_rse.adopting.index import Adoption, ExistingIndex, Gap
from langchain_rse.adopting.scanning import read_all_chunks
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
from langchain_rse.stores.vectorstores import vector_id_of

# Documents that are written together.
_DOCUMENTS = 100

_EXCERPT = 60


def adopt(
    writer: Writer,
    index: ExistingIndex,
    documents: Iterable[Document] | None,
    *,
    rules: Mapping[str, Rule],
    show_progress: bool,
) -> Steps[Adoption]:
    """Write the documents of an existing index to the docstore; see `RSEIndexer.adopt`."""
    vectorstore = writer.vectors.vectorstore
    yield from check_pair(writer.docstore, vectorstore)
    with during("listing the chunks of the vector store"):
        if documents is None:
            chunks = yield from read_all_chunks(vectorstore, in_order=index.in_store_order)
        else:
            chunks = yield from compute(list, documents)
    adopter = _Adopter(writer, index, rules)
    chunks_by_document = adopter.group(chunks)
    total = len(chunks_by_document)
    with progress_bar(total, unit="documents", title="Adopting", show=show_progress) as advance:
        for batch in batches(chunks_by_document.items(), _DOCUMENTS):
            yield from adopter.write(dict(batch))
            advance(len(batch))
    yield from adopter.record_skipped()
    return adopter.report


class _Adopter:
    """Makes and writes documents; keeps the report, and the vectors that were left out."""

    def __init__(self, writer: Writer, index: ExistingIndex, rules: Mapping[str, Rule]) -> None:
        self.report = Adoption()
        self._writer = writer
        self._index = index
        self._rules = rules
        self._namespace = namespace_of(writer.docstore)
        self._skipped_vectors: list[str] = []

    def group(self, chunks: Iterable[Document]) -> dict[str, dict[str, Document]]:
        """Group chunks by the ids of their documents and vectors, in the order of the store."""
        chunks_by_document: dict[str, dict[str, Document]] = {}
        in_other_namespaces = 0
        for chunk in chunks:
            was_written_here = VERSION in chunk.metadata
            if was_written_here:
                continue
            if namespace_in(chunk.metadata) != self._namespace:
                in_other_namespaces += 1
                continue
            vector = _checked_vector_id(chunk)
            try:
                doc_id = doc_id_of(chunk, self._index.doc_id_key)
            except AdoptionError as error:
                self._skip(str(error), [vector])
                continue
            chunks_of_document = chunks_by_document.setdefault(doc_id, {})
            chunks_of_document[vector] = chunk
        if in_other_namespaces and self._namespace and not chunks_by_document:
            raise AdoptionError(
                f"no chunk is in this namespace: {in_other_namespaces} lack "
                f"{NAMESPACE}={self._namespace!r} in their metadata. Add this field with the "
                "vector store's own methods"
            )
        return chunks_by_document

    def write(self, chunks_by_document: Mapping[str, Mapping[str, Document]]) -> Steps[None]:
        """Write documents, given their chunks by the ids of their vectors."""
        doc_ids = list(chunks_by_document)
        texts = yield from self._read_texts(doc_ids)
        manifests = yield from self._writer.records.manifests(map(document_key, doc_ids))
        vectors: list[str] = []
        for chunks in chunks_by_document.values():
            vectors += chunks
        records_by_vector = yield from self._read_records(vectors)

        versions: list[DocumentVersion] = []
        for doc_id, text, manifest in zip(doc_ids, texts, manifests, strict=True):
            chunks = chunks_by_document[doc_id]
            records = [
                records_by_vector[vector] for vector in chunks if vector in records_by_vector
            ]
            try:
                _check_document(doc_id, manifest, records)
                version, gaps = yield from compute(self._make_version, doc_id, chunks, text)
            except (AdoptionError, TypeError, ValueError) as error:
                self._skip(f"document {doc_id!r}: {error}", chunks)
                continue
            versions.append(version)
            self.report.documents += 1
            self.report.chunks += len(version.chunks) - len(version.gaps)
            self.report.vectors += len(chunks)
            self.report.gaps += gaps
        yield from self._writer.write(versions)

    def record_skipped(self) -> Steps[None]:
        """Record the vectors that were left out, so that queries ignore them.

        Vectors that an earlier call adopted keep the records that name their chunks.
        """
        records_by_vector = yield from self._read_records(self._skipped_vectors)
        new_vectors = [
            vector for vector in self._skipped_vectors if vector not in records_by_vector
        ]
        yield from self._writer.records.write(map(adopted_record, new_vectors))

    def _read_texts(self, doc_ids: list[str]) -> Steps[list[Document | None]]:
        """Read the whole texts of documents, if the index has any."""
        store = self._index.texts
        if store is None:
            return [None] * len(doc_ids)
        with during("reading whole texts"):
            return (yield from call(store.mget, store.amget, doc_ids))

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
        if self._index.on_error == "raise":
            raise AdoptionError(f"{problem}. Or leave such documents out: on_error='skip'")
        self.report.problems.append(problem)
        self._skipped_vectors += vectors

    def _read_records(self, vectors: Iterable[str]) -> Steps[dict[str, Document]]:
        """Read the docstore's records of those vectors that have one."""
        vectors_by_key = {adopted_key(vector): vector for vector in vectors}
        records = yield from self._writer.records.read(vectors_by_key)
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
