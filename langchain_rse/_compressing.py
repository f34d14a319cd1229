"""Base class of this package's document compressors."""

from collections.abc import Mapping, Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict
from typing_extensions import override

from langchain_rse._messages import Checked
from langchain_rse._sync import Steps, arun, run


class Compressor(Checked, BaseDocumentCompressor):
    """A document compressor whose sync and async methods share one implementation."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    def _compress(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None
    ) -> Steps[list[Document]]:
        raise NotImplementedError

    @override
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        return run(self._compress(documents, query, callbacks))

    @override
    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        return await arun(self._compress(documents, query, callbacks))


def with_metadata(document: Document, metadata: Mapping[str, object]) -> Document:
    """Copy a document and add metadata."""
    return document.model_copy(update={"metadata": {**document.metadata, **metadata}})
