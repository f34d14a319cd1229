"""Adopting: a vector store is read out, and its documents are written to the docstore."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

from langchain_core.documents import Document

from langchain_rse._progress import progress_bar
from langchain_rse._steps import Steps, call, compute, during
from langchain_rse.adopting.assembling import AdoptedDocument, Assembly, left_out
from langchain_rse.adopting.listing import Listing
from langchain_rse.adopting.pieces import Reader
from langchain_rse.adopting.reports import Adoption, AdoptionError, ExistingIndex
from langchain_rse.docstores import decode_document, encode_document
from langchain_rse.schema import DOC_ID, VERSION, Rule, adopted_key, digest, document_key
from langchain_rse.writing import Writer, batches

__all__ = ["adopt"]

# Documents are put together ahead up to these, then written together.
_CHARACTERS_AHEAD = 1_000_000
_DOCUMENTS_AHEAD = 1_000


class _Spool:
    """Keeps chunks on the disk until all of a document's have come."""

    def __init__(self) -> None:
        # SQLite's own temporary file; used by one thread at a time.
        self._database = sqlite3.connect("", check_same_thread=False)
        self._database.executescript(
            "CREATE TABLE chunks (number INTEGER PRIMARY KEY, vector TEXT UNIQUE, document TEXT,"
            " record TEXT); CREATE INDEX documents ON chunks (document)"
        )

    def close(self) -> None:
        self._database.close()

    def add(self, chunks: Iterable[tuple[str, str, str]]) -> None:
        """Add chunks: the ids of vector and document, and the encoded chunk.

        A vector that comes twice, since the store was written to meanwhile, counts once.
        """
        self._database.executemany(
            "INSERT OR IGNORE INTO chunks (vector, document, record) VALUES (?, ?, ?)",
            ((digest(vector), document_key(doc_id), encoded) for vector, doc_id, encoded in chunks),
        )

    def documents(self) -> list[str]:
        """The keys of the documents, in order of appearance."""
        rows = self._database.execute(
            "SELECT document FROM chunks GROUP BY document ORDER BY min(number)"
        )
        return [key for (key,) in rows]

    def chunks(self, document: str) -> list[tuple[int, Document]]:
        """A document's chunks with their numbers, in the order in which they came."""
        rows = self._database.execute(
            "SELECT number, record FROM chunks WHERE document = ? ORDER BY number", [document]
        )
        return [(number, decode_document(record, "chunk")) for number, record in rows]


def adopt(
    writer: Writer,
    listing: Listing,
    index: ExistingIndex,
    *,
    rules: Mapping[str, Rule],
    show_progress: bool,
) -> Steps[Adoption]:
    """Read out a vector store and write what a docstore has to know of it.

    Args:
        writer: Writes to the docstore.
        listing: Reads out the vector store.
        index: What the metadata of its chunks says.
        rules: What segments carry of fields that change along a document.
        show_progress: Show progress bars.

    Returns:
        The report.

    Raises:
        AdoptionError: If chunks cannot be put together, unless they are to be skipped.
        ValueError: If chunks are to be taken as the store lists them, and it lists them in
            no order.
    """
    if index.in_store_order and not listing.in_order:
        raise ValueError(
            "in_store_order=True: this store does not list its chunks in the order in which they "
            "were added; give chunk_index_key, start_index_key or page_key; or texts, a store of "
            "the documents' whole texts"
        )
    with closing(_Spool()) as spool:
        run = _Run(writer, index, spool, Adoption(), rules)
        yield from run.read(listing, show_progress=show_progress)
        yield from run.write(show_progress=show_progress)
    return run.report


class _Run:
    """One adoption: reads all chunks, then writes document by document."""

    def __init__(
        self,
        writer: Writer,
        index: ExistingIndex,
        spool: _Spool,
        report: Adoption,
        rules: Mapping[str, Rule],
    ) -> None:
        self.report = report
        self._writer = writer
        self._index = index
        self._spool = spool
        self._reader = Reader(index)
        self._rules = rules

    def read(self, listing: Listing, *, show_progress: bool) -> Steps[None]:
        with progress_bar(None, unit="chunks", title="Reading", show=show_progress) as advance:
            while True:
                with during("reading out the vector store"):
                    page = yield from listing.next_page()
                if not page:
                    return
                yield from self._leave_out((yield from compute(self._keep, page)))
                advance(len(page))

    def write(self, *, show_progress: bool) -> Steps[None]:
        keys = yield from compute(self._spool.documents)
        total = len(keys)
        ahead: list[tuple[AdoptedDocument, Adoption]] = []
        characters = 0
        with progress_bar(total, unit="documents", title="Storing", show=show_progress) as advance:
            for key in keys:
                found = yield from self._assembled(key)
                advance(1)
                if found is None:
                    continue
                ahead.append(found)
                characters += found[0].length
                if characters >= _CHARACTERS_AHEAD or len(ahead) >= _DOCUMENTS_AHEAD:
                    yield from self._write(ahead)
                    ahead, characters = [], 0
            yield from self._write(ahead)

    def _keep(self, page: Sequence[Document]) -> list[str]:
        """Keep a page of chunks; the ids of vectors that are left out."""
        passed_over = []
        kept = []
        for chunk in page:
            if VERSION in chunk.metadata:
                self.report.own += 1
                continue
            try:
                vector = self._reader.vector(chunk)
            except AdoptionError as error:
                self._note(error)
                continue
            try:
                kept.append((vector, self._reader.doc_id(chunk), encode_document(chunk)))
            except (AdoptionError, TypeError) as error:
                self._note(error)
                passed_over.append(vector)
        self._spool.add(kept)
        return passed_over

    def _assembled(self, key: str) -> Steps[tuple[AdoptedDocument, Adoption] | None]:
        """A document and what came up; None if it is left out."""
        found = yield from compute(self._spool.chunks, key)
        report = Adoption()
        try:
            text = yield from self._text(self._reader.doc_id(found[0][1]))
            document = yield from compute(self._assemble, found, report, text)
        except AdoptionError as error:
            self._note(error)
            yield from self._leave_out(self._reader.vector(chunk) for _, chunk in found)
            return None
        return document, report

    def _text(self, doc_id: str) -> Steps[str | None]:
        """The whole text of a document, where that is known."""
        texts = self._index.texts
        if texts is None:
            return None
        with during("reading whole texts"):
            records: Sequence[object] = yield from call(texts.mget, texts.amget, [doc_id])
        if isinstance(records[0], Document):
            return records[0].page_content
        if records[0] is not None:
            raise AdoptionError(
                f"texts has a {type(records[0]).__name__} for document {doc_id!r}; it must be a "
                "store of Documents"
            )
        if not self._index.has_order:
            raise AdoptionError(
                f"texts has no document {doc_id!r}, and nothing else says in which order its "
                "chunks stand"
            )
        return None

    def _assemble(
        self, found: Sequence[tuple[int, Document]], report: Adoption, text: str | None
    ) -> AdoptedDocument:
        doc_id = self._reader.doc_id(found[0][1])
        pieces = [self._reader.piece(number, chunk) for number, chunk in found]
        assembly = Assembly(doc_id, pieces, self._index, report, text)
        try:
            document = assembly.document(self._rules)
        except ValueError as error:
            raise AdoptionError(str(error)) from error
        if document is None:
            raise AdoptionError(f"document {doc_id!r} has no text: all its chunks are empty")
        return document

    def _write(self, found: Sequence[tuple[AdoptedDocument, Adoption]]) -> Steps[None]:
        manifests = yield from self._writer.manifests([document.key for document, _ in found])
        ready = []
        for (document, report), manifest in zip(found, manifests, strict=True):
            current = manifest.current if manifest else None
            if current and not current.adopted:
                self._note(
                    AdoptionError(
                        f"document {document.doc_id!r} was added with add_documents as well; its "
                        "other chunks would be a second version. Delete one of the two"
                    )
                )
                yield from self._leave_out(document.all_vectors())
                continue
            is_known = current == document.version
            try:
                if not is_known:  # else that was checked when it was written
                    yield from self._check_owner(document)
            except AdoptionError as error:
                self._note(error)
                continue
            report.documents = 1
            report.unchanged = int(is_known)
            report.chunks = document.version.chunks - len(document.gaps)
            report.vectors = document.version.adopted
            self.report.add(report)
            ready.append(document)
        yield from self._writer.write(ready)

    def _check_owner(self, document: AdoptedDocument) -> Steps[None]:
        """Check that no vector stands for a chunk of another document."""
        for vector, record in (yield from self._known(document.all_vectors())):
            owner = record.metadata.get(DOC_ID) if record else None
            if owner not in (None, document.doc_id):
                raise AdoptionError(
                    f"vector {vector!r} of document {document.doc_id!r} is known as a chunk of "
                    f"document {owner!r}: this docstore was made with another doc_id_key, or "
                    "for another vector store. Use an empty docstore"
                )

    def _leave_out(self, vectors: Iterable[str]) -> Steps[None]:
        """Let vectors stand for nothing; those of a former adoption stay what they are."""
        known = yield from self._known(vectors)
        yield from self._writer.set_records(
            left_out(vector) for vector, record in known if record is None
        )

    def _known(self, vectors: Iterable[str]) -> Steps[list[tuple[str, Document | None]]]:
        """Vectors with the docstore's records of them."""
        docstore = self._writer.docstore
        known: list[tuple[str, Document | None]] = []
        for some in batches(vectors, self._writer.batch_size):
            keys = [adopted_key(vector) for vector in some]
            with during("reading from the docstore"):
                records = yield from call(docstore.mget, docstore.amget, keys)
            known += zip(some, records, strict=True)
        return known

    def _note(self, error: Exception) -> None:
        if self._index.on_error == "raise":
            raise AdoptionError(
                f"{error}. Or leave such documents out: on_error='skip' (--skip)"
            ) from error
        self.report.problems.append(str(error))
