"""Adopting an index: its vector store is listed, its documents are written to the docstore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from langchain_core.documents import Document

from langchain_rse._messages import first_few
from langchain_rse._progress import progress_bar
from langchain_rse._sync import Steps, batches, call, compute, during
from langchain_rse.adopting.chunks import doc_id_of
from langchain_rse.adopting.documents import locate_chunks, make_version
from langchain_rse.adopting.index import ExistingIndex
from langchain_rse.adopting.joining import JoinedChunks
from langchain_rse.adopting.listing import list_chunks
from langchain_rse.adopting.report import Adoption
from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.records import (
    DOC_ID,
    VERSION,
    DocumentVersion,
    Manifest,
    Rule,
    adopted_key,
    adopted_record,
    vector_of,
)

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
    """Write the documents of an existing index to the docstore.

    All chunks are held in memory, about 2.5 kB each beside their text. See `RSEIndexer.adopt`.
    """
    store, in_order = writer.vectors.vectorstore, index.in_store_order
    with during("listing the chunks of the vector store"):
        chunks = yield from list_chunks(store, documents, in_order=in_order)
    adopter = _Adopter(writer, index, rules)
    grouped = adopter.group(chunks)
    total = len(grouped)
    with progress_bar(total, unit="documents", title="Adopting", show=show_progress) as advance:
        for some in batches(grouped.items(), _DOCUMENTS):
            yield from adopter.write(dict(some))
            advance(len(some))
    yield from adopter.record_skipped()
    return adopter.report


class _Adopter:
    """Makes and writes documents; keeps the report, and the vectors of documents left out."""

    def __init__(self, writer: Writer, index: ExistingIndex, rules: Mapping[str, Rule]) -> None:
        self.report = Adoption()
        self._writer = writer
        self._index = index
        self._rules = rules
        self._skipped: list[str] = []

    def group(self, chunks: Iterable[Document]) -> dict[str, dict[str, Document]]:
        """The chunks by the ids of their documents and vectors, in the order of the store."""
        grouped: dict[str, dict[str, Document]] = {}
        for chunk in chunks:
            if VERSION in chunk.metadata:  # written by RSEIndexer
                continue
            vector = vector_of(chunk)
            if vector is None:
                raise AdoptionError(
                    "a chunk has no id, which is needed to know it among search results: its text "
                    f"begins {chunk.page_content[:60]!r}. Build this index again with ids"
                )
            try:
                doc_id = doc_id_of(chunk, self._index.doc_id_key)
            except AdoptionError as error:
                self._skip(str(error), [vector])
            else:
                grouped.setdefault(doc_id, {})[vector] = chunk
        return grouped

    def write(self, documents: Mapping[str, Mapping[str, Document]]) -> Steps[None]:
        """Write documents, given their chunks by the ids of their vectors."""
        texts = yield from self._texts(list(documents))
        made: list[tuple[DocumentVersion, JoinedChunks]] = []
        for doc_id, chunks in documents.items():
            try:
                made.append((yield from compute(self._make, doc_id, chunks, texts.get(doc_id))))
            except AdoptionError as error:
                self._skip(str(error), chunks)
        manifests = yield from self._writer.manifests([version.key for version, _ in made])
        records = yield from self._records(
            vector for version, _ in made for vector, _ in version.adopted
        )
        ready = []
        for (version, joined), manifest in zip(made, manifests, strict=True):
            vectors = [vector for vector, _ in version.adopted]
            known = [records[vector] for vector in vectors if vector in records]
            if problem := _problem(version.doc_id, manifest, known):
                self._skip(problem, vectors)
                continue
            ready.append(version)
            self.report.documents += 1
            self.report.chunks += len(version.chunks) - len(version.gaps)
            self.report.vectors += len(vectors)
            self.report.gaps += joined.gaps
        yield from self._writer.write(ready, _refuse_added)

    def record_skipped(self) -> Steps[None]:
        """Let queries pass over vectors that were left out, unless they were adopted before."""
        known = yield from self._records(self._skipped)
        yield from self._writer.set_records(
            adopted_record(vector) for vector in self._skipped if vector not in known
        )

    def _make(
        self, doc_id: str, chunks: Mapping[str, Document], text: str | None
    ) -> tuple[DocumentVersion, JoinedChunks]:
        try:
            joined = locate_chunks(doc_id, chunks, self._index, text)
            return make_version(doc_id, joined, self._rules), joined
        except AdoptionError as error:
            raise AdoptionError(f"document {doc_id!r}: {error}") from error
        except (TypeError, ValueError) as error:
            raise AdoptionError(str(error)) from error

    def _texts(self, ids: list[str]) -> Steps[dict[str, str]]:
        """The whole texts of documents, where they are known."""
        texts = self._index.texts
        if texts is None:
            return {}
        with during("reading whole texts"):
            found = yield from call(texts.mget, texts.amget, ids)
        found_by_id = zip(ids, found, strict=True)
        return {doc_id: text.page_content for doc_id, text in found_by_id if text is not None}

    def _skip(self, problem: str, vectors: Iterable[str]) -> None:
        if self._index.on_error == "raise":
            raise AdoptionError(f"{problem}. Or leave such documents out: on_error='skip'")
        self.report.problems.append(problem)
        self._skipped += vectors

    def _records(self, vectors: Iterable[str]) -> Steps[dict[str, Document]]:
        """The docstore's records of vectors, where there are any."""
        docstore = self._writer.docstore
        known: dict[str, Document] = {}
        with during("reading from the docstore"):
            for some in batches(vectors, self._writer.batch_size):
                keys = [adopted_key(vector) for vector in some]
                found = yield from call(docstore.mget, docstore.amget, keys)
                known.update((v, record) for v, record in zip(some, found, strict=True) if record)
        return known


def _refuse_added(documents: Iterable[tuple[DocumentVersion, Manifest]]) -> Steps[None]:
    """Refuse documents that another call has added meanwhile."""
    yield from ()
    for document, manifest in documents:
        if problem := _problem(document.doc_id, manifest, ()):
            raise AdoptionError(problem)


def _problem(doc_id: str, manifest: Manifest | None, records: Iterable[Document]) -> str | None:
    """Why a document cannot be written, by the docstore's records of it and its vectors."""
    if manifest and manifest.current and not manifest.current.adopted:
        return (
            f"document {doc_id!r} was added with add_documents as well; its other chunks would be "
            "a second version. Delete one of the two"
        )
    others = {record.metadata.get(DOC_ID) for record in records} - {None, doc_id}
    if others:
        return (
            f"vectors of document {doc_id!r} are known as chunks of "
            f"{first_few(map(repr, others))}: this docstore was made with another doc_id_key, or "
            "for another vector store. Use an empty docstore"
        )
    return None
