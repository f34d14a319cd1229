"""RSECompressor: segment extraction as a document compressor."""

from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import Self, override

from langchain_rse._compressing import Compressor
from langchain_rse._messages import warn
from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings, resolve_settings
from langchain_rse.query.pipeline import Sources, retrieve
from langchain_rse.query.searching import check_search
from langchain_rse.query.wrapped import DEFAULT_LIMIT
from langchain_rse.retriever import as_value_error
from langchain_rse.stores.json import as_docstore
from langchain_rse.stores.namespaces import in_namespace

__all__ = ["RSECompressor"]


class RSECompressor(QuerySettings, Compressor):
    """Turns the chunks that a retriever found, best first, into segments.

    For a ``ContextualCompressionRetriever`` around any retriever over chunks that `RSEIndexer` or
    `RSERetriever` wrote, and for a ``DocumentCompressorPipeline``. The segments are those of an
    `RSERetriever` around that retriever. Give it a large ``k``, such as 200.

    The compressor cannot see how the retriever filters. Until ``candidates_only`` is set, segments
    contain found chunks only, with a warning: set it to False if the retriever leaves chunks out
    for lack of relevance only, to True if it filters. Repeat the filter of its search in
    ``search_kwargs={"filter": ...}``, so that it holds for whole segments. ``hybrid`` is an error,
    since it needs a vector store.

    Raises:
        ValueError: At construction, if a field is unknown or out of its range.
        CandidateError: At use, if a Document does not say which chunk of which document it is, or
            is a segment already.
        MissingRecordError: At use, if the docstore lacks a chunk or has no documents, unless
            ``on_missing`` is ``"split"``.

    Example:
        >>> ContextualCompressionRetriever(
        ...     base_compressor=RSECompressor(docstore=docstore, candidates_only=False),
        ...     base_retriever=vectorstore.as_retriever(search_kwargs={"k": 200}),
        ... )
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    docstore: Annotated[BaseStore[str, Any], BeforeValidator(as_value_error(as_docstore))]
    """Holds the texts of the chunks: a store of Documents, or a byte store, which is wrapped."""
    namespace: str = Field(default="", frozen=True)
    """The namespace of the documents in the docstore, see ``docs/tenants.md``; empty for none."""

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        check_search(self._sources([]), self)
        return self

    def _sources(self, documents: Sequence[Document]) -> Sources:
        found = RetrieverBeforeCompressor(documents)
        return Sources(None, found, in_namespace(self.docstore, self.namespace))

    @override
    def _compress(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None
    ) -> Steps[list[Document]]:
        if len(documents) == DEFAULT_LIMIT < self.fetch_k:
            warn(
                f"RSECompressor was given {DEFAULT_LIMIT} Documents, as many as LangChain's "
                "retrievers find by default: segments are made of these and the chunks between "
                f"them. Use as_retriever(search_kwargs={{'k': {self.fetch_k}}})"
            )
        sources = self._sources(documents)
        return (yield from retrieve(sources, query, resolve_settings(self, {}), callbacks))


class RetrieverBeforeCompressor:
    """Stands for the retriever of the Documents given to a compressor; messages show this name."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents

    def invoke(self, _query: str, **_: object) -> list[Document]:
        """Return the Documents, for any query."""
        return list(self._documents)

    async def ainvoke(self, _query: str, **_: object) -> list[Document]:
        """Like `invoke`, async."""
        return list(self._documents)
