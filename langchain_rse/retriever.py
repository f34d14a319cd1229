"""RSERetriever: a LangChain retriever that returns segments instead of chunks."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseCallbackHandler,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams, RetrieverLike
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator
from typing_extensions import Self, override

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, arun, in_thread, run
from langchain_rse.access import DocumentAccess, StoredDocument, document_access
from langchain_rse.config import QuerySettings, RSEConfig, settings_of_call
from langchain_rse.explaining import (
    FittedFloor,
    RSETrace,
    SideBySide,
    TraceCollector,
    compare_answers,
)
from langchain_rse.fitting import FitArguments, fit_floor
from langchain_rse.indexer import RSEIndexer, default_text_splitter
from langchain_rse.ingest.source_documents import HeaderMaker, check_rules
from langchain_rse.ingest.splitting import Splitter, check_splitter
from langchain_rse.ingest.syncing import SyncResult
from langchain_rse.query.candidates import Sources
from langchain_rse.query.pipeline import answer
from langchain_rse.query.searching import check_search
from langchain_rse.questions import Question
from langchain_rse.stores.embedded import open_stores
from langchain_rse.stores.json import as_docstore
from langchain_rse.stores.layouts import read_manifests
from langchain_rse.stores.namespaces import in_namespace
from langchain_rse.stores.pairing import Model, check_pair
from langchain_rse.stores.records import Rule

if TYPE_CHECKING:
    from langchain_rse.adopting import Adoption, ExistingIndex

__all__ = ["RSERetriever"]


def _as_value_error(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the check with ValueErrors for TypeErrors, which pydantic would not report."""

    def validate(value: Any) -> Any:  # noqa: ANN401 - anything may be given
        try:
            return check(value)
        except TypeError as error:
            raise ValueError(str(error)) from error

    return validate


# Fields that the indexer has, too.
_SHARED = ("vectorstore", "docstore", "text_splitter", "headers", "metadata_rules", "namespace")


class RSERetriever(QuerySettings, BaseRetriever):
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

            retriever = RSERetriever.from_documents(
                PyPDFium2Loader("10k.pdf").load(), OpenAIEmbeddings(), persist_directory="kb"
            )
            retriever.invoke("What drove the change in gross margin?")

            # With other stores:
            retriever = RSERetriever(
                vectorstore=Chroma(collection_name="reports", embedding_function=embeddings),
                docstore=SQLDocStore("sqlite:///chunks.db"),
            )
            retriever.add_documents(PyPDFium2Loader("10k.pdf").load())
    """

    model_config = ConfigDict(validate_assignment=True)

    vectorstore: VectorStore | None = None
    """Finds the candidates. Either this or ``base_retriever``."""
    base_retriever: RetrieverLike | None = None
    """Finds the candidates, best first: any retriever over chunks that `RSEIndexer` wrote."""
    docstore: Annotated[BaseStore[str, Any], BeforeValidator(_as_value_error(as_docstore))]
    """Holds the texts of the chunks: a store of Documents, or a byte store, which is wrapped."""
    text_splitter: Annotated[Splitter, BeforeValidator(_as_value_error(check_splitter))] = Field(
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

    # Made again when a field is set.
    _indexer: RSEIndexer | None = PrivateAttr(default=None)
    _sources: Sources | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if (self.vectorstore is None) == (self.base_retriever is None):
            given = "neither" if self.vectorstore is None else "both"
            raise ValueError(f"give exactly one of vectorstore and base_retriever; got {given}")
        docstore = in_namespace(self.docstore, self.namespace, self.vectorstore)
        self.__dict__["docstore"] = docstore  # without checking everything again
        sources = Sources.of(self.vectorstore, self.base_retriever, docstore)
        check_search(sources, self)
        self._sources = sources
        self._indexer = None
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
            UserWarning: If documents are excluded because they are unknown or cannot be read.
        """
        return super().invoke(input, _check_run_config(config), **kwargs)

    @override
    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """Like `invoke`, async."""
        return await super().ainvoke(input, _check_run_config(config), **kwargs)

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
        callbacks = (_check_run_config(config) or {}).get("callbacks")
        settings = settings_of_call(self, arguments)
        return compare_answers(self.sources, query, settings, other, callbacks)

    def fit_score_floor(
        self,
        questions: Iterable[Question] | None = None,
        *,
        lost: float = 0.02,
        seed: int = 0,
        show_progress: bool = False,
    ) -> FittedFloor:
        """Find the score below which nothing is an answer, and keep it for ``score_floor``.

        General questions, which have nothing to do with most documents, and answered questions are
        asked through the retriever's own search and reranker. The floor is kept in the docstore for
        this vector store, embedding model and reranker; retrievers with ``score_floor="fitted"``,
        the default, return nothing for a query that does not reach it.

        With ``questions``, the floor is the value that at most a share ``lost`` of new questions of
        the same kind are refused by, among those whose evidence is found: the
        ``floor((n + 1) * lost)``-th lowest of ``n``, the finite-sample correction of split
        conformal prediction (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World",
        2005; arXiv 2107.07511). Without, answered questions are sentences of the documents, each
        searched in every chunk except its own, and the floor is halfway from the median of general
        questions to the lowest share ``lost`` of sentences; behind a reranker, 0.3 of the way to
        their lowest ``15 * lost``. That rule is measured, not proven.

        Words count, except behind a reranker, which reads them itself: a score is brought nearer by
        the share of the question's words that one of the 20 best candidates has, times six standard
        deviations of general questions.

        Args:
            questions: Questions with their evidence. None to ask sentences of the documents.
            lost: The share of answered questions that may be refused, between 0 and 1.
            seed: Seed of the sentences: the same seed asks the same.
            show_progress: Show a progress bar; needs tqdm.

        Returns:
            The floor; printed, what it refuses and a table. Before the first question, the logger
            ``langchain_rse`` says at level INFO how many there are.

        Raises:
            CalibrationError: If the candidates have no scores, or all the same; if there are too
                few questions for ``lost``, chunks or sentences, or they do not tell anything. After
                an error, the floor of before is void.
            ValueError: If an argument is out of its range, or evidence is not in its document.

        Warns:
            UserWarning: If the floor refuses less than half of the general questions.
        """
        if not 0 < lost < 1:
            raise ValueError(f"lost must be between 0 and 1; got {lost!r}")
        settings = settings_of_call(self, {"score_floor": None})
        sources = self.sources
        model = Model()
        if sources.adapter is not None:
            model = run(check_pair(sources.docstore, sources.adapter.store, record=False))
        may_read = self.document_access().may_read
        manifests = read_manifests(sources.docstore)

        arguments = FitArguments(
            sources=sources,
            settings=settings,
            manifests=[each for each in manifests if each.current and may_read(each)],
            model=model,
            questions=None if questions is None else list(questions),
            lost=lost,
            seed=seed,
            show_progress=show_progress,
        )
        return FittedFloor(**vars(fit_floor(arguments)))

    async def afit_score_floor(
        self,
        questions: Iterable[Question] | None = None,
        *,
        lost: float = 0.02,
        seed: int = 0,
        show_progress: bool = False,
    ) -> FittedFloor:
        """Like `fit_score_floor`, async."""
        return await in_thread(
            self.fit_score_floor, questions, lost=lost, seed=seed, show_progress=show_progress
        )

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
        settings = settings_of_call(self, arguments)
        trace = yield from answer(query, self.sources, settings, callbacks)
        collectors = [handler for handler in handlers if isinstance(handler, TraceCollector)]
        if collectors:
            trace.settings = settings.model_copy()  # the retriever's may be changed later
            explained = RSETrace.of(trace)
            for collector in collectors:
                collector.traces.append(explained)
        return list(trace.documents_returned)

    @property
    def sources(self) -> Sources:
        """Where candidates and texts come from, for modules of this package."""
        if self._sources is None:  # this is a copy, perhaps with other stores
            docstore = in_namespace(self.docstore, self.namespace, self.vectorstore)
            self._sources = Sources.of(self.vectorstore, self.base_retriever, docstore)
        return self._sources

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if self.vectorstore is not None:
            params["ls_vector_store_provider"] = type(self.vectorstore).__name__
            embeddings = self.vectorstore.embeddings
            if embeddings is not None:
                params["ls_embedding_provider"] = type(embeddings).__name__
                model = getattr(embeddings, "model", None) or getattr(
                    embeddings, "model_name", None
                )
                if isinstance(model, str):
                    params["ls_embedding_model"] = model
        return params

    @override
    def __copy__(self) -> Self:
        copied = super().__copy__()
        copied._indexer = copied._sources = None  # noqa: SLF001 - `model_copy` may change the stores
        return copied

    @override
    def __getstate__(self) -> dict[Any, Any]:
        return {
            **super().__getstate__(),
            "__pydantic_private__": {"_indexer": None, "_sources": None},
        }

    # Whole documents

    def document_access(self) -> DocumentAccess:
        """What a caller may read of whole documents, by the filters of ``search_kwargs``.

        Raises:
            ValueError: If a filter cannot be applied to a document as a whole.
        """
        return document_access(self.sources, self)

    def documents(self) -> list[StoredDocument]:
        """List the stored documents that pass the filters of ``search_kwargs``, by their ids.

        Raises:
            ValueError: If a filter cannot be applied to a document as a whole.
        """
        return self.document_access().documents()

    async def adocuments(self) -> list[StoredDocument]:
        """Like `documents`, async."""
        return await in_thread(self.documents)

    def text(self, doc_id: str) -> str:
        """Read the whole text of a document, as it was added.

        Raises:
            MissingRecordError: If there is no such document, a filter excludes it, or text of it is
                not stored.
            ValueError: If a filter cannot be applied to a document as a whole.
        """
        return self.document_access().text(doc_id)

    async def atext(self, doc_id: str) -> str:
        """Like `text`, async."""
        return await in_thread(self.text, doc_id)

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
        return self.document_access().around(segment, length)

    async def aaround(self, segment: Document, length: int) -> Document:
        """Like `around`, async."""
        return await in_thread(self.around, segment, length)

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
        return self.indexer.add_documents(
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
        return await self.indexer.aadd_documents(
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
        return self.indexer.sync_steps(documents, may_delete=may_delete, **options)

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Delete documents from both stores and return the ids of those that were there."""
        return self.indexer.delete(ids)

    async def adelete(self, ids: Sequence[str]) -> list[str]:
        """Like `delete`, async."""
        return await self.indexer.adelete(ids)

    @property
    def indexer(self) -> RSEIndexer:
        """The indexer with this retriever's stores: what else can be done with its index.

        Raises:
            ValueError: If the retriever has no vector store to write to.
        """
        if self.vectorstore is None:
            raise ValueError(
                "a retriever with a base_retriever has no vector store to write to; write with "
                "RSEIndexer(vectorstore, docstore), using the store that base_retriever reads"
            )
        if self._indexer is None:
            self._indexer = RSEIndexer(**{name: getattr(self, name) for name in _SHARED})
        return self._indexer

    # Other ways to make a retriever

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embeddings,
        *,
        ids: Iterable[str] | None = None,
        persist_directory: str | os.PathLike[str] | None = None,
        show_progress: bool = False,
        **settings: Any,  # noqa: ANN401 - of any type
    ) -> Self:
        """Make a retriever with stores of its own, and add documents.

        The stores are an `InMemoryVectorStore` and SQLite in memory. With ``persist_directory``,
        they are Chroma and SQLite in that folder: the same call opens it again, skips unchanged
        documents and replaces changed ones; with ``[]`` for ``documents``, it only opens it. For
        other stores, use the constructor.

        Args:
            documents: Whole documents, such as the output of a loader; see `add_documents`.
            embedding: The embedding model. A folder belongs to the model that it was made with.
            ids: Ids of the documents. None: from their metadata, see `RSEIndexer.add_documents`.
            persist_directory: The folder of the stores; it is made if needed. None: in memory.
                Chroma needs the extra ``chroma``.
            show_progress: Show a progress bar; needs tqdm.
            **settings: Fields of the retriever, such as ``max_context_length``.

        Returns:
            The retriever.

        Raises:
            ImportError: If Chroma is needed and not installed.
            TypeError: If ``embedding`` is not an embedding model, or ``settings`` has a store.
            ValueError: If a setting is unknown or out of its range.
            Exception: All errors of `RSEIndexer.add_documents`.

        Warns:
            UserWarning: If there are no documents, neither given nor stored.

        Example:
            .. code-block:: python

                retriever = RSERetriever.from_documents(
                    PyPDFium2Loader("10k.pdf").load(), OpenAIEmbeddings(), persist_directory="kb"
                )
                retriever.invoke("What drove the change in gross margin?")
        """
        if not isinstance(embedding, Embeddings):
            raise TypeError(
                f"embedding must be a LangChain Embeddings object; got {type(embedding).__name__}"
            )
        for name in ("vectorstore", "base_retriever", "docstore"):
            if name in settings:
                raise TypeError(
                    f"from_documents makes both stores; got {name} as well. For stores of your "
                    "own, use RSERetriever(vectorstore=..., docstore=...) and add_documents"
                )
        vectorstore, docstore = open_stores(embedding, persist_directory)
        retriever = cls(vectorstore=vectorstore, docstore=docstore, **settings)
        added = retriever.add_documents(documents, ids=ids, show_progress=show_progress)
        if not added and not read_manifests(docstore, most=1):
            place = "in memory" if persist_directory is None else f"in {persist_directory}"
            warn(f"the retriever has no documents: none were given, and there are none {place}")
        return retriever

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embeddings,
        *,
        ids: Iterable[str] | None = None,
        persist_directory: str | os.PathLike[str] | None = None,
        show_progress: bool = False,
        **settings: Any,  # noqa: ANN401 - of any type
    ) -> Self:
        """Like `from_documents`, async."""
        return await in_thread(
            cls.from_documents,
            documents,
            embedding,
            ids=ids,
            persist_directory=persist_directory,
            show_progress=show_progress,
            **settings,
        )

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings,
        metadatas: Iterable[dict[str, Any]] | None = None,
        *,
        ids: Iterable[str] | None = None,
        persist_directory: str | os.PathLike[str] | None = None,
        show_progress: bool = False,
        **settings: Any,  # noqa: ANN401 - of any type
    ) -> Self:
        """Make a retriever with stores of its own, and add texts: each is a whole document.

        Args:
            texts: The texts.
            embedding: The embedding model.
            metadatas: The metadata of each text, such as its ``source``.
            ids: Ids of the texts. None: the ``source`` of each, or a digest of the text.
            persist_directory: As in `from_documents`.
            show_progress: As in `from_documents`.
            **settings: Fields of the retriever.

        Returns:
            The retriever.

        Raises:
            ValueError: If there are not as many ``metadatas`` as ``texts``.
            Exception: All errors of `from_documents`.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be a list of texts; got one text: give [text]")
        listed = list(texts)
        metadata_of_texts = [{} for _ in listed] if metadatas is None else list(metadatas)
        if len(metadata_of_texts) != len(listed):
            raise ValueError(
                f"metadatas must have one dict for each text; got {len(metadata_of_texts)} for "
                f"{len(listed)} texts"
            )
        documents = [
            Document(text, metadata=metadata)
            for text, metadata in zip(listed, metadata_of_texts, strict=True)
        ]
        return cls.from_documents(
            documents,
            embedding,
            ids=ids,
            persist_directory=persist_directory,
            show_progress=show_progress,
            **settings,
        )

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings,
        metadatas: Iterable[dict[str, Any]] | None = None,
        *,
        ids: Iterable[str] | None = None,
        persist_directory: str | os.PathLike[str] | None = None,
        show_progress: bool = False,
        **settings: Any,  # noqa: ANN401 - of any type
    ) -> Self:
        """Like `from_texts`, async."""
        return await in_thread(
            cls.from_texts,
            texts,
            embedding,
            metadatas,
            ids=ids,
            persist_directory=persist_directory,
            show_progress=show_progress,
            **settings,
        )

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
        adopt = retriever.indexer.adopt
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
        adopt = retriever.indexer.aadopt
        adoption = await adopt(index, documents=documents, show_progress=show_progress)
        return retriever._after(adoption)

    def _after(self, adoption: Adoption) -> Self:
        if warning := adoption.warning():
            warn(warning)
        return self


def _collecting(collector: TraceCollector, config: RunnableConfig | None) -> RunnableConfig:
    # Never None: the callbacks of a chain around this call would be lost.
    return merge_configs(_check_run_config(config) or {}, {"callbacks": [collector]})


def _check_run_config(config: RunnableConfig | None) -> RunnableConfig | None:
    """Return LangChain's config of a run; a TypeError for a config of this package."""
    if isinstance(config, (str, RSEConfig)):
        raise TypeError(
            f"config of a call is LangChain's RunnableConfig; got {config!r:.200}. Give the "
            "retriever's config as rse_config"
        )
    return config
