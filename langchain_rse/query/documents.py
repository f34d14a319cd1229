"""The methods of a retriever that read whole documents, by the filters of its search."""

from collections.abc import AsyncIterator, Iterator

from langchain_core.documents import Document

from langchain_rse._sync import arun, arun_each, run, run_each
from langchain_rse.query.access import DocumentAccess, StoredDocument
from langchain_rse.stores.reading import every_chunk


class ReadsDocuments:
    """Reads the stored documents that pass the filters of a retriever."""

    def document_access(self) -> DocumentAccess:
        """What a caller may read of whole documents."""
        raise NotImplementedError

    def documents(self) -> list[StoredDocument]:
        """List the stored documents that pass the filters of ``search_kwargs``, by their ids.

        Raises:
            ValueError: If a filter cannot be applied to a document as a whole.
        """
        return run(self.document_access().documents())

    async def adocuments(self) -> list[StoredDocument]:
        """Like `documents`, async."""
        return await arun(self.document_access().documents())

    def text(self, doc_id: str) -> str:
        """Read the whole text of a document, as it was added.

        Raises:
            MissingRecordError: If there is no such document, a filter excludes it, or text of it is
                not stored.
            ValueError: If a filter cannot be applied to a document as a whole.
        """
        return run(self.document_access().text(doc_id))

    async def atext(self, doc_id: str) -> str:
        """Like `text`, async."""
        return await arun(self.document_access().text(doc_id))

    def around(self, segment: Document, length: int) -> Document:
        """Read a segment of this retriever with more of its document around it.

        Args:
            segment: A Document that this retriever returned.
            length: The most characters to add on each side, at least 0.

        Returns:
            The longer slice of the source, with the metadata of a segment.

        Raises:
            MissingRecordError: If the document was replaced or deleted, or a filter excludes it.
            ValueError: If ``segment`` is none, ``length`` is negative, or a filter cannot be
                applied to a document as a whole.
        """
        return run(self.document_access().around(segment, length))

    async def aaround(self, segment: Document, length: int) -> Document:
        """Like `around`, async."""
        return await arun(self.document_access().around(segment, length))

    def chunks(self) -> Iterator[Document]:
        """Read all chunks as Documents, to build another retriever on; see `RSEIndexer.chunks`.

        Only those of documents that pass the filters of ``search_kwargs``.
        """
        access = self.document_access()
        return run_each(every_chunk(access.docstore, access.may_read))

    def achunks(self) -> AsyncIterator[Document]:
        """Like `chunks`, async."""
        access = self.document_access()
        return arun_each(every_chunk(access.docstore, access.may_read))
