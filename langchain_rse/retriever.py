"""RSERetriever: a LangChain retriever that returns segments instead of chunks."""

import importlib
from collections.abc import (
    AsyncIterable,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Annotated, Any, cast

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseCallbackHandler,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams, RetrieverLike
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator
from typing_extensions import Self, override

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, arun, run
from langchain_rse.adopting import Adoption, ExistingIndex
from langchain_rse.config import (
    QuerySettings,
    as_value_error,
    check_run_config,
    resolve_settings,
)
from langchain_rse.explaining.floors import ScoreFloor
from langchain_rse.explaining.side_by_side import SideBySide
from langchain_rse.explaining.trace import RSETrace
from langchain_rse.indexer import RSEIndexer, default_text_splitter
from langchain_rse.ingest.checking import CheckReport
from langchain_rse.ingest.documents import HeaderMaker, check_rules
from langchain_rse.ingest.splitting import Splitter, check_splitter
from langchain_rse.ingest.syncing import SyncResult
from langchain_rse.query.access import DocumentAccess, document_access
from langchain_rse.query.documents import ReadsDocuments
from langchain_rse.query.floors import Refusals
from langchain_rse.query.pipeline import Sources, retrieve
from langchain_rse.query.searching import check_search
from langchain_rse.query.side_by_side import compare_answers
from langchain_rse.query.tracing import QueryLog, TraceCollector, collect_trace
from langchain_rse.stores.json import as_docstore
from langchain_rse.stores.namespaces import in_namespace
from langchain_rse.stores.records import Rule

__all__ = ["RSERetriever"]

# Fields that the indexer has, too.
_SHARED = ("vectorstore", "docstore", "text_splitter", "headers", "metadata_rules", "namespace")


class RSERetriever(ReadsDocuments, QuerySettings, BaseRetriever):
    """A retriever that returns passages: the best runs of neighboring chunks.

    It fetches candidate chunks, finds the segments of their documents that have the highest value
    together (Relevant Segment Extraction), and returns them as exact slices of the source text. A
    call takes the fields of `QuerySettings`, with ``rse_config`` for ``config``, and ``filter``.

    Each returned Document has:

    - ``page_content``: the slice of the source
    - ``id``: the same for the same version of the document and the same range
    - ``metadata``: all that holds for the whole document; ``chunk_id`` (the id again); ``doc_id``,
      ``start_index`` and ``end_index`` (characters of the text, end exclusive);
      ``relevance_score`` (the segment's value, a sum over its chunks); for metadata that changes
      along the document, such as ``page``, ``page_start`` and ``page_end`` or what
      ``metadata_rules`` say; and ``rse``, a dict with ``version``, ``chunk_start``, ``chunk_end``
      (exclusive) and ``chunks``

    Each entry of ``chunks`` has ``index``, ``length``, ``credited`` (the relevance with neighbor
    credit) and ``value`` (what it adds to the segment), and either ``rank`` (from 0), ``score``
    (None if there is none) and ``relevance``, or ``filled``: True. Where they apply, also
    ``lexical_rank`` and ``lexical_score`` (``hybrid``); with several queries the ``query`` that it
    fits best; and a filter's ``is_relevant``, ``relevance_explanation`` and ``relevance_failure``.

    Raises:
        ValueError: At construction, if a field is unknown or out of its range, if not exactly one
            of ``vectorstore`` and ``base_retriever`` is given, or if ``base_retriever`` or, for
            ``hybrid``, the docstore cannot apply ``search_kwargs``.

    Example:
        .. code-block:: python

            retriever = RSERetriever(
                vectorstore=Chroma(collection_name="reports", embedding_function=embeddings),
                docstore=SQLDocStore("sqlite:///chunks.db"),
            )
            retriever.add_documents(PyPDFium2Loader("10k.pdf").load())
            retriever.invoke("What drove the change in gross margin?")
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    vectorstore: VectorStore | None = None
    """Finds the candidates. Either this or ``base_retriever``."""
    base_retriever: RetrieverLike | None = None
    """Finds the candidates, best first: any retriever over chunks that `RSEIndexer` wrote."""
    docstore: Annotated[BaseStore[str, Any], BeforeValidator(as_value_error(as_docstore))]
    """Holds the texts of the chunks: a store of Documents, or a byte store, which is wrapped."""
    text_splitter: Annotated[Splitter, BeforeValidator(as_value_error(check_splitter))] = Field(
        default_factory=default_text_splitter
    )
    """Splits documents in `add_documents`. By default, chunks have at most 800 characters without
    overlap and end with paragraphs, lines or sentences, see ``docs/splitters.md``."""
    metadata_rules: Annotated[Mapping[str, Rule], BeforeValidator(check_rules)] = Field(
        default_factory=dict
    )
    """How segments show metadata fields that change along a document, such as
    ``{"slide": "range"}``; see `RSEIndexer`. Documents keep the rules they were stored with."""
    headers: HeaderMaker | None = None
    """Makes the text that `add_documents` embeds in front of each chunk, see
    `langchain_rse.headers`. It is not part of the returned text, unless ``include_header``."""
    namespace: str = Field(default="", frozen=True)
    """The namespace of the documents that this retriever reads and writes, see ``docs/tenants.md``;
    empty for none."""

    _indexer: tuple[dict[str, Any], RSEIndexer] | None = PrivateAttr(default=None)
    _refusals: Refusals = PrivateAttr(default_factory=Refusals)

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if (self.vectorstore is None) == (self.base_retriever is None):
            given = "neither" if self.vectorstore is None else "both"
            raise ValueError(f"give exactly one of vectorstore and base_retriever; got {given}")
        self.docstore = in_namespace(self.docstore, self.namespace, self.vectorstore)
        check_search(self._sources(), self)
        return self

    # Reading

    @override
    def invoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the segments for a query.

        Args:
            input: The query.
            config: LangChain's config of the run.
            **kwargs: Settings of the query, see `RSERetriever`.

        Returns:
            The segments; none if the query is empty or nothing is relevant enough.

        Raises:
            TypeError: If an argument is unknown, the query is not a string, or a retriever,
                reranker or ``query_generator`` returns something of a wrong type.
            ValueError: If an argument is out of its range, or ``filter`` was not applied.
            CandidateError: If a candidate does not say which chunk of which document it is.
            MissingRecordError: If the docstore lacks a chunk or has no documents, unless
                ``on_missing`` is ``"split"``.
            StoreMismatchError: If the docstore belongs to another vector store or embedding model,
                or the vector store is empty.

        Warns:
            UserWarning: If documents are left out because they are unknown or cannot be read.
        """
        return super().invoke(input, check_run_config(config), **kwargs)

    @override
    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """Like `invoke`, async."""
        return await super().ainvoke(input, check_run_config(config), **kwargs)

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return run(self._retrieve(query, kwargs, run_manager.get_child(), run_manager.handlers))

    @override
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        steps = self._retrieve(query, kwargs, run_manager.get_child(), run_manager.handlers)
        return await arun(steps)

    def explain(
        self,
        query: str,
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ANN401 - as in `invoke`
    ) -> RSETrace:
        """Answer a query as `invoke` does, with the same arguments, and return the trace of it.

        Print the trace for an explanation. Pass a `TraceCollector` in
        ``config={"callbacks": [...]}`` for the traces of a chain or agent.
        """
        collector = TraceCollector()
        self.invoke(query, _collecting(collector, config), **kwargs)
        return collector.traces[-1]

    async def aexplain(
        self,
        query: str,
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ANN401 - as in `ainvoke`
    ) -> RSETrace:
        """Like `explain`, async."""
        collector = TraceCollector()
        await self.ainvoke(query, _collecting(collector, config), **kwargs)
        return collector.traces[-1]

    def compare(
        self,
        query: str,
        other: RetrieverLike | None = None,
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ANN401 - as in `invoke`
    ) -> SideBySide:
        """Answer a query, and put the answer beside what another retriever returns.

        Args:
            query: The query.
            other: Any retriever over the same documents; its answer is cut at the length of the
                segments. None for the best chunks of this retriever's own search.
            config: LangChain's config of the run.
            **kwargs: Settings of the query, as `invoke` takes them.

        Returns:
            Both, with the text marked that one has and the other lacks; printed, lines with ``+``
            in front of text that only the segments have. ``to_html`` writes a page.
        """
        return run(self._compare(query, other, config, kwargs))

    async def acompare(
        self,
        query: str,
        other: RetrieverLike | None = None,
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ANN401 - as in `ainvoke`
    ) -> SideBySide:
        """Like `compare`, async."""
        return await arun(self._compare(query, other, config, kwargs))

    def _compare(
        self,
        query: str,
        other: RetrieverLike | None,
        config: RunnableConfig | None,
        arguments: Mapping[str, Any],
    ) -> Steps[SideBySide]:
        callbacks = (check_run_config(config) or {}).get("callbacks")
        settings = resolve_settings(self, arguments)
        return compare_answers(self._sources(), query, settings, other, callbacks)

    def calibrate(
        self,
        questions: Iterable[Any] | None = None,
        *,
        lost: float = 0.02,
        seed: int = 0,
        show_progress: bool = False,
    ) -> ScoreFloor:
        """Find the score below which no candidate is an answer, for ``score_floor``, and keep it.

        See `langchain_rse.evaluation.calibrate`, which has the same arguments.
        """
        options: dict[str, Any] = {"lost": lost, "seed": seed, "show_progress": show_progress}
        return cast("ScoreFloor", _calibrating().calibrate(self, questions, **options))

    async def acalibrate(
        self,
        questions: Iterable[Any] | None = None,
        *,
        lost: float = 0.02,
        seed: int = 0,
        show_progress: bool = False,
    ) -> ScoreFloor:
        """Like `calibrate`, async."""
        options: dict[str, Any] = {"lost": lost, "seed": seed, "show_progress": show_progress}
        return cast("ScoreFloor", await _calibrating().acalibrate(self, questions, **options))

    def _retrieve(
        self,
        query: object,
        arguments: Mapping[str, Any],
        callbacks: Callbacks,
        handlers: Sequence[BaseCallbackHandler] = (),
    ) -> Steps[list[Document]]:
        if not isinstance(query, str):
            raise TypeError(
                f"the query must be a string; got {query!r:.200}. In a chain, take it out first: "
                'itemgetter("question") | retriever'
            )
        settings = resolve_settings(self, arguments)
        log = QueryLog(settings)
        segments = yield from retrieve(
            self._sources(), query, settings, callbacks=callbacks, log=log
        )
        collect_trace(query, log, segments, handlers)
        self._refusals.count(log.reached)
        return segments

    def _sources(self) -> Sources:
        docstore = in_namespace(self.docstore, self.namespace)  # the field may have been set
        return Sources(self.vectorstore, self.base_retriever, docstore)

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if self.vectorstore is not None:
            params["ls_vector_store_provider"] = type(self.vectorstore).__name__
            if self.vectorstore.embeddings is not None:
                params["ls_embedding_provider"] = type(self.vectorstore.embeddings).__name__
        return params

    @override
    def __getstate__(self) -> dict[Any, Any]:
        return {
            **super().__getstate__(),
            "__pydantic_private__": {"_indexer": None, "_refusals": Refusals()},
        }

    @override
    def document_access(self) -> DocumentAccess:
        """What a caller may read of whole documents, by the filters of ``search_kwargs``.

        Raises:
            ValueError: If a filter cannot be applied to a document as a whole.
        """
        return document_access(self._sources(), self)

    # Writing

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        separate: bool | None = None,
        append: bool = False,
        force: bool = False,
        show_progress: bool = False,
    ) -> list[str]:
        """Add documents to both stores and return their ids; see `RSEIndexer.add_documents`.

        Give whole documents, which ``text_splitter`` splits, and all their parts in one call; or
        pieces with ``append``, each added to the end of what is stored.
        """
        return self._own_indexer().add_documents(
            documents,
            ids=ids,
            separate=separate,
            append=append,
            force=force,
            show_progress=show_progress,
        )

    async def aadd_documents(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        *,
        ids: Iterable[str] | None = None,
        separate: bool | None = None,
        append: bool = False,
        force: bool = False,
        show_progress: bool = False,
    ) -> list[str]:
        """Like `add_documents`, async; takes async iterators as well."""
        return await self._own_indexer().aadd_documents(
            documents,
            ids=ids,
            separate=separate,
            append=append,
            force=force,
            show_progress=show_progress,
        )

    def sync(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        separate: bool | None = None,
        force: bool = False,
        show_progress: bool = False,
    ) -> SyncResult:
        """Add documents and delete all others; see `RSEIndexer.sync`.

        Documents that the filters of ``search_kwargs`` exclude are not deleted.

        Raises:
            ValueError: If there are no ``documents`` and stored ones would be deleted, or a filter
                cannot be applied to a document as a whole.
            Exception: All errors of `RSEIndexer.add_documents`. After an error, nothing is deleted.
        """
        return run(
            self._sync(
                documents, ids=ids, separate=separate, force=force, show_progress=show_progress
            )
        )

    async def async_sync(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        *,
        ids: Iterable[str] | None = None,
        separate: bool | None = None,
        force: bool = False,
        show_progress: bool = False,
    ) -> SyncResult:
        """Like `sync`, async; takes async iterators as well."""
        steps = self._sync(
            documents, ids=ids, separate=separate, force=force, show_progress=show_progress
        )
        return await arun(steps)

    def _sync(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        **options: Any,  # noqa: ANN401 - of `sync`
    ) -> Steps[SyncResult]:
        may_delete = self.document_access().may_read
        return self._own_indexer().sync_steps(documents, may_delete=may_delete, **options)

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Delete documents from both stores and return the ids of those that were there."""
        return self._own_indexer().delete(ids)

    async def adelete(self, ids: Sequence[str]) -> list[str]:
        """Like `delete`, async."""
        return await self._own_indexer().adelete(ids)

    def check(self, *, repair: bool = False, show_progress: bool = False) -> CheckReport:
        """Compare the two stores; ``repair`` corrects what is wrong. See `RSEIndexer.check`."""
        return self._own_indexer().check(repair=repair, show_progress=show_progress)

    async def acheck(self, *, repair: bool = False, show_progress: bool = False) -> CheckReport:
        """Like `check`, async."""
        return await self._own_indexer().acheck(repair=repair, show_progress=show_progress)

    def _own_indexer(self) -> RSEIndexer:
        """The indexer with this retriever's stores; made again only if a field was changed."""
        if self.vectorstore is None:
            raise ValueError(
                "a retriever with a base_retriever has no vector store to write to; write with "
                "RSEIndexer(vectorstore, docstore), using the store that base_retriever reads"
            )
        fields = {name: getattr(self, name) for name in _SHARED}
        if self._indexer is None or any(self._indexer[0][n] is not fields[n] for n in _SHARED):
            self._indexer = fields, RSEIndexer(**fields)
        return self._indexer[1]

    # An index that exists

    @classmethod
    def from_existing_index(
        cls,
        vectorstore: VectorStore,
        docstore: BaseStore[str, Any],
        index: ExistingIndex | None = None,
        *,
        documents: Iterable[Document] | None = None,
        show_progress: bool = False,
        **fields: Any,  # noqa: ANN401 - of any type
    ) -> Self:
        """Make a retriever over an index that other code has built. Nothing is embedded.

        Reads the chunks from the vector store and writes their texts to the docstore, see
        `RSEIndexer.adopt`. This is needed once, and again after other code has changed the
        index.

        Args:
            vectorstore: The store. It is only read.
            docstore: Where the texts of the chunks will be stored.
            index: Which metadata fields say where a chunk belongs. None: recognized by usual names,
                such as ``source``, ``page`` and ``start_index``; the logger ``langchain_rse`` says
                which were taken, at level INFO.
            documents: The store's chunks with their ids, for stores that cannot list them.
            show_progress: Show progress bars; needs tqdm.
            **fields: Fields of the retriever.

        Returns:
            The retriever.

        Raises:
            AdoptionError: If chunks cannot be joined; or without ``index``, if no usual field names
                the documents or gives the order.
            TypeError: If the store cannot list its chunks and ``documents`` is not given.

        Warns:
            UserWarning: If text is missing between chunks, or documents were skipped.
        """
        retriever = cls(vectorstore=vectorstore, docstore=docstore, **fields)
        adopt = retriever._own_indexer().adopt
        return retriever._after(adopt(index, documents=documents, show_progress=show_progress))

    @classmethod
    async def afrom_existing_index(
        cls,
        vectorstore: VectorStore,
        docstore: BaseStore[str, Any],
        index: ExistingIndex | None = None,
        *,
        documents: Iterable[Document] | None = None,
        show_progress: bool = False,
        **fields: Any,  # noqa: ANN401 - of any type
    ) -> Self:
        """Like `from_existing_index`, async."""
        retriever = cls(vectorstore=vectorstore, docstore=docstore, **fields)
        adopt = retriever._own_indexer().aadopt
        adoption = await adopt(index, documents=documents, show_progress=show_progress)
        return retriever._after(adoption)

    def _after(self, adoption: Adoption) -> Self:
        if warning := adoption.warning():
            warn(warning)
        return self


def _calibrating() -> Any:  # noqa: ANN401 - a module
    # It needs this module itself.
    return importlib.import_module("langchain_rse.evaluation.calibrating")


def _collecting(collector: TraceCollector, config: RunnableConfig | None) -> RunnableConfig:
    # Never None: the callbacks of a chain around this call would be lost.
    return merge_configs(check_run_config(config) or {}, {"callbacks": [collector]})
