"""RSERetriever: a LangChain retriever that returns passages instead of chunks."""

import os
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Annotated, Any, ClassVar, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams, RetrieverLike
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import override

from langchain_rse._messages import check_type, model_name, shown, warn
from langchain_rse._sync import AsyncConstructor, Steps, arun, as_async, run
from langchain_rse.access import DocumentAccess, StoredDocument, document_access
from langchain_rse.adopting import ExistingIndex
from langchain_rse.config import ADVICE, QuerySettings, settings_of_call
from langchain_rse.explaining import RSETrace, SideBySide, TraceCollector, compare_answers
from langchain_rse.indexer import DocumentMethods, RSEIndexer, default_text_splitter
from langchain_rse.ingest.source_documents import HeaderMaker, check_headers, check_rules
from langchain_rse.ingest.splitting import Splitter, check_splitter
from langchain_rse.query.candidates import Sources
from langchain_rse.query.floor import FittedFloor, fit_floor
from langchain_rse.query.pipeline import answer, check_model
from langchain_rse.query.searching import check_search
from langchain_rse.stores.compare_and_set import namespace_of
from langchain_rse.stores.embedded import open_stores
from langchain_rse.stores.json import as_docstore
from langchain_rse.stores.layouts import read_manifests
from langchain_rse.stores.namespaces import in_namespace
from langchain_rse.stores.records import Manifest, Rule
from langchain_rse.stores.vectorstores import adapter_for

_NO_DOCSTORE = (
    "It stores the text of the documents. To create both stores and add "
    "documents, use RSERetriever.from_documents(documents, embedding). For a vector store that "
    "other code has filled, use RSERetriever.from_existing_index(vectorstore, docstore). For your "
    "own stores, pass docstore=SQLDocStore('sqlite:///chunks.db')"
)
_OF_INDEX = "pass it in ExistingIndex(...), the third argument of from_existing_index"

# Fields that the indexer has as well.
_SHARED = ("vectorstore", "docstore", "text_splitter", "headers", "metadata_rules", "namespace")


class RSERetriever(DocumentMethods, QuerySettings, BaseRetriever):
    """A retriever that returns passages: the best runs of neighboring chunks.

    It fetches candidate chunks, selects the passages of their documents with the highest total
    value (Relevant Segment Extraction), and returns them as exact slices of the source text.
    Settings of a query can also be passed to `invoke`, where ``config`` is called ``rse_config``.

    - ``from_documents``, ``from_texts``: make a retriever with stores of its own
    - ``from_existing_index``: make one over a vector store that other code has filled
    - ``add_documents``, ``sync``, ``delete``: add, update and delete documents
    - ``invoke``, ``ainvoke``: answer a query with passages
    - ``explain``, ``compare``: show why, and beside the answer of another retriever
    - ``fit_score_floor``: find the score below which a query gets no answer
    - ``documents``, ``text``, ``around``: list and read whole documents
    - ``indexer``: adopt, check and list chunks

    Most have async twins, such as ``aadd_documents`` and ``async_sync``.

    Example:
        ```python
        retriever = RSERetriever.from_documents(
            loader.load(), OpenAIEmbeddings(), persist_directory="kb"
        )
        retriever.invoke("What drove the change in gross margin?")

        # With other stores:
        retriever = RSERetriever(
            vectorstore=Chroma("reports", embedding_function=OpenAIEmbeddings()),
            docstore=SQLDocStore("sqlite:///chunks.db"),
        )
        retriever.add_documents(loader.load())
        ```

    Args: Stores
        vectorstore: Finds the candidates. Pass either this or ``base_retriever``.
        base_retriever: Finds the candidates: a retriever of chunks that `RSEIndexer` wrote.
        docstore: Stores the texts of the chunks, such as `SQLDocStore`. Required.
        text_splitter: Splits added documents. Default: into chunks of at most 800 characters.
        metadata_rules: Rules for metadata fields that change along a document. Default: none.
        headers: `DocumentHeaders` or `LMBasedHeaders` in front of each chunk. Default: none.
        namespace: Separates tenants in the same stores. Default: no namespace.

    Args: Query
        k: Maximum number of passages. Default: no limit.
        max_context_length: Maximum length of all passages together. Default: 16,000 characters.
        irrelevant_chunk_penalty: Minimum relevance, from 0 to 1. Default: the preset's, 0.35.
        reranker: Scores the best candidates again. Default: none.
        search_kwargs: Extra arguments of the vector store's search. Default: none.

    Args: Query, for experts
        fetch_k: Number of candidate chunks to fetch. Default: 200.
        length_function: Measures text for ``max_context_length``. Default: ``len``, characters.
        include_header: True to put headers above passages. Default: False.
        hybrid: Weight of full-text search, from 0 to 1. Default: ``"auto"``, 0.7 with an index.
        score_floor: Score that the best candidate must reach. Default: the fitted one, if any.
        queries: Queries to search for in place of the question. Default: the question.
        query_generator: Generates ``queries`` from the question. Default: none.
        order: ``"document"``, the default, for reading order; ``"relevance"`` for the best first.
        duplicates: ``"drop"``, the default, returns text of several documents once; ``"keep"``.
        candidates_only: True: return only chunks that the search found. Default: for some filters.
        config: An `RSEConfig` or the name of a preset. Default: ``"balanced"``.

    ``docs/settings.md`` explains the settings of a query in full.

    Each returned Document has:

    - ``page_content``: the slice of the source text
    - ``id``: the same for the same version of the document and the same range
    - ``metadata``: all fields that are the same throughout the document; ``doc_id``,
      ``start_index`` and ``end_index`` (characters of the text, end exclusive); ``chunk_id`` (a
      copy of ``id``); ``relevance_score`` (the passage's value, a sum over its chunks); for fields
      that change along the document, ``page_start`` and ``page_end`` (for ``page``) or the fields
      defined by ``metadata_rules``; and ``rse``, a dict with ``version``, ``chunk_start``,
      ``chunk_end`` (exclusive) and ``chunks``

    Each entry of ``chunks`` has ``index``, ``length``, ``credited`` (relevance with neighbor
    credit) and ``value`` (its contribution to the passage). A candidate also has ``rank`` (from 0),
    ``score`` (None if unknown) and ``relevance``; any other chunk has ``filled``: True. If they
    apply, there are also ``lexical_rank`` and ``lexical_score`` (``hybrid``); the ``query`` that
    the chunk matches best (several queries); and ``is_relevant``, ``relevance_explanation`` and
    ``relevance_failure`` (relevance filters).

    Raises:
        ValueError: At construction, if a field is unknown or out of range; if not exactly one of
            ``vectorstore`` and ``base_retriever`` is given; or if ``base_retriever`` or, for
            ``hybrid``, the docstore cannot apply ``search_kwargs``. In a call, also if an argument
            is unknown or out of range, or the search ignored ``filter``.
        TypeError: If a value has a wrong type. In a call, if the query is not a string, or a
            retriever, reranker or ``query_generator`` returns a value of a wrong type.
        CandidateError: If the metadata of a candidate does not identify its chunk.
        MissingRecordError: If the docstore has no documents, but the vector store has chunks.
        StoreMismatchError: If the docstore belongs to another vector store or embedding model, or
            only the vector store is empty.

    Warns:
        UserWarning: If documents are excluded because they are unknown, corrupt or incomplete; if
            a query finds nothing because its filter names a field that no chunk has, or because
            the retriever has no documents.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    vectorstore: VectorStore | None = None
    """Finds the candidates. Set either this or ``base_retriever``."""
    base_retriever: RetrieverLike | None = None
    """Finds the candidates: any retriever that returns chunks written by `RSEIndexer`, best
    first."""
    docstore: Annotated[BaseStore[str, Any], BeforeValidator(as_docstore)]
    """Stores the texts of the chunks: a store of Documents or of bytes."""
    text_splitter: Annotated[Splitter, BeforeValidator(check_splitter)] = Field(
        default_factory=default_text_splitter
    )
    """Splits documents in `add_documents`. The default makes chunks of at most 800 characters,
    without overlap, that end with paragraphs, lines or sentences; see ``docs/splitters.md``."""
    metadata_rules: Annotated[Mapping[str, Rule], BeforeValidator(check_rules)] = {}
    """Rules for metadata fields that change along a document, such as ``{"slide": "range"}``; see
    `RSEIndexer`. Documents keep the rules that they were stored with."""
    headers: Annotated[HeaderMaker | None, BeforeValidator(check_headers)] = None
    """Makes the header that `add_documents` embeds in front of each chunk: `DocumentHeaders` or
    `LMBasedHeaders`. It is part of the returned text only with ``include_header``."""
    namespace: str = Field(default="", frozen=True)
    """Namespace of the documents that this retriever reads and writes; see ``docs/tenants.md``.
    Empty for no namespace."""

    # Reset when a field is set.
    _indexer: RSEIndexer | None = None
    _cached_sources: Sources | None = None
    # Closes the stores that `from_documents` opened; None if there is nothing to close.
    _close_stores: Callable[[], None] | None = None
    _is_closed: bool = False

    _advice: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(ExistingIndex.model_fields, _OF_INDEX),
        **ADVICE,
        "docstore": _NO_DOCSTORE,
        "embedding": "the vector store has the model; or use from_documents(documents, embedding)",
        "()": "RSERetriever(vectorstore=..., docstore=...)",
    }

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if (self.vectorstore is None) == (self.base_retriever is None):
            given = "neither" if self.vectorstore is None else "both"
            raise ValueError(
                "pass exactly one of vectorstore, such as Chroma(...), and base_retriever; got "
                f"{given}"
            )
        self._indexer = self._cached_sources = None
        self.__dict__["docstore"] = self._sources.docstore  # bypasses validation
        check_search(self._sources, self)
        return self

    # Reading

    @override
    def invoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """Answer a query with passages.

        Args:
            input: The query.
            config: LangChain's RunnableConfig, such as ``{"callbacks": [...]}``.
            **kwargs: Settings of this query, by name: ``k``, ``max_context_length``,
                ``irrelevant_chunk_penalty``, ``filter``, ``search_kwargs``, ``fetch_k``,
                ``hybrid``, ``score_floor``, ``queries``, ``query_generator``, ``reranker``,
                ``order``, ``duplicates``, ``candidates_only``, ``include_header``,
                ``length_function`` and ``rse_config``; see `QuerySettings`.

        Returns:
            The passages, ordered as the setting ``order`` says; none if no text reaches the
            thresholds ``score_floor`` and ``irrelevant_chunk_penalty``.

        Example:
            ```python
            retriever.invoke(
                "What drove the change in gross margin?",
                max_context_length=4_000,
                filter={"source": "10k.pdf"},
            )
            ```
        """
        return super().invoke(input, _checked(config), **kwargs)

    @override
    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """Answer a query in async code; see `invoke`."""
        return await super().ainvoke(input, _checked(config), **kwargs)

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return run(self._retrieve(query, kwargs, run_manager))

    @override
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return await arun(self._retrieve(query, kwargs, run_manager))

    def explain(
        self,
        query: str,
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ANN401 - as in `invoke`
    ) -> RSETrace:
        """Answer a query like `invoke`, with the same arguments, but return its trace.

        For traces of a chain or agent, pass a `TraceCollector` in ``config={"callbacks": [...]}``.

        Args:
            query: The query.
            config: LangChain's RunnableConfig.
            **kwargs: Settings of this query, as in `invoke`.

        Returns:
            The trace: print it to read why each candidate was returned or not, and call ``plot``
            or ``to_html`` to see it. ``documents_returned`` has the passages.

        Example:
            ```python
            trace = retriever.explain("What drove the change in gross margin?")
            print(trace)
            trace.to_html("report.html")
            ```
        """
        collector = TraceCollector()
        # Never None: that would drop the callbacks of a chain around this call.
        outer_config = _checked(config) or {}
        self.with_config(callbacks=[collector]).invoke(query, outer_config, **kwargs)
        return collector.traces[-1]

    aexplain = as_async(explain)

    def compare(
        self,
        query: str,
        other: RetrieverLike | None = None,
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ANN401 - as in `invoke`
    ) -> SideBySide:
        """Answer a query, and compare the answer with another retriever's.

        Args:
            query: The query.
            other: Any retriever over the same documents; its answer is cut to the length of the
                passages. None for the top-k chunks of this retriever's search.
            config: LangChain's RunnableConfig.
            **kwargs: Settings of the query, as in `invoke`.

        Returns:
            Both answers, with the text marked that only one of them contains. In print, ``+``
            marks lines that only the passages contain. ``to_html`` writes a page.

        Example:
            ```python
            print(retriever.compare("What drove the change in gross margin?"))
            ```
        """
        check_type("other", other, (Runnable, NoneType), "a retriever or another Runnable")
        callbacks = (_checked(config) or {}).get("callbacks")
        settings = settings_of_call(self, kwargs)
        return run(compare_answers(self._sources, query, settings, other, callbacks))

    acompare = as_async(compare)

    def fit_score_floor(self, *, show_progress: bool = False) -> FittedFloor:
        """Find the score below (distance: above) which a query is unanswerable, and store it.

        The method asks off-topic questions, which most documents do not answer, and sentences from
        the documents, each with its own chunk left out, with the search and reranker of this
        retriever. It stores the floor in the docstore for this vector store, embedding model and
        reranker. Retrievers with ``score_floor="fitted"``, the default, then return nothing for a
        query that does not reach the floor.

        The floor is halfway between the median score of off-topic questions and the 2 % quantile
        of the sentences' scores; with a reranker, it is 0.3 of the way to the 30 % quantile.
        Benchmarks support this rule, but it gives no guarantee.

        Without a reranker, words of the question count as well: the bonus added to a score is the
        largest share of the question's words found in one of the 20 best candidates of either
        search, times six standard deviations of the scores of off-topic questions.

        Args:
            show_progress: Show a progress bar; needs tqdm.

        Returns:
            The floor. Print it to see which questions it rejects. Before the first question, the
            logger ``langchain_rse`` reports the number of questions at level INFO.

        Raises:
            ScoreFloorError: If candidates have no scores or equal scores; if there are too few
                chunks or sentences; or if scores do not separate sentences from off-topic
                questions. After this error, no floor is stored.
            ValueError: If a filter cannot be applied to a whole document.

        Warns:
            UserWarning: If the floor rejects less than half of the off-topic questions.
        """
        settings = settings_of_call(self, {"score_floor": None})
        sources = self._sources
        model = run(check_model(sources))
        manifests = self.document_access().manifests()
        return fit_floor(sources, settings, manifests, model, show_progress=show_progress)

    afit_score_floor = as_async(fit_score_floor)

    def _retrieve(
        self,
        query: str,
        arguments: Mapping[str, Any],
        manager: CallbackManagerForRetrieverRun | AsyncCallbackManagerForRetrieverRun,
    ) -> Steps[list[Document]]:
        settings = settings_of_call(self, arguments) if arguments else self
        trace = yield from answer(query, self._sources, settings, manager.get_child())
        collectors = [each for each in manager.handlers if isinstance(each, TraceCollector)]
        if collectors:
            trace.settings = settings.model_copy()  # the retriever's settings may change later
            explained = RSETrace.of(trace)
            for collector in collectors:
                collector.traces.append(explained)
        return list(trace.documents_returned)

    @property
    def _sources(self) -> Sources:
        """The stores and retriever of queries, also for modules of this package."""
        self._check_open()
        if self._cached_sources is None:  # this retriever is a copy, perhaps with other stores
            searched = self.vectorstore
            if isinstance(self.base_retriever, VectorStoreRetriever):
                searched = self.base_retriever.vectorstore
            docstore = in_namespace(self.docstore, self.namespace, self.vectorstore)
            self._cached_sources = Sources(
                self.vectorstore,
                self.base_retriever,
                docstore,
                None if searched is None else adapter_for(searched),
                namespace_of(docstore),
            )
        return self._cached_sources

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if self.vectorstore is not None:
            params["ls_vector_store_provider"] = type(self.vectorstore).__name__
            if embeddings := self.vectorstore.embeddings:
                params["ls_embedding_provider"] = type(embeddings).__name__
                if model := model_name(embeddings):
                    params["ls_embedding_model"] = model
        return params

    @override
    def __copy__(self) -> Self:
        copied = super().__copy__()
        copied._indexer = copied._cached_sources = None  # noqa: SLF001 - `model_copy` may change the stores
        return copied

    # Whole documents

    def document_access(self) -> DocumentAccess:
        """Return access to whole documents that pass the filters of ``search_kwargs``.

        Raises:
            ValueError: If a filter cannot be applied to a whole document.
        """
        return document_access(self._sources, self)

    def documents(self) -> list[StoredDocument]:
        """List the stored documents that pass the filters of ``search_kwargs``, ordered by id.

        Raises:
            ValueError: If a filter cannot be applied to a whole document.
        """
        return self.document_access().documents()

    adocuments = as_async(documents)

    def text(self, doc_id: str) -> str:
        """Read the whole text of a document, as it was added.

        Raises:
            MissingRecordError: If the document does not exist, a filter excludes it, or some of its
                text is missing from the docstore.
            ValueError: If a filter cannot be applied to a whole document.
        """
        return self.document_access().text(doc_id)

    atext = as_async(text)

    def around(self, passage: Document, length: int) -> Document:
        """Read a passage with more of the text around it.

        Args:
            passage: A Document returned by this retriever.
            length: Maximum number of characters to add on each side, at least 0.

        Returns:
            The longer slice of the source text, with the metadata of a passage.

        Raises:
            MissingRecordError: If the document was replaced or deleted, or a filter excludes it.
            ValueError: If ``passage`` is not a passage, ``length`` is negative, or a filter cannot
                be applied to a whole document.
        """
        return self.document_access().around(passage, length)

    aaround = as_async(around)

    # Writing

    def _get_indexer(self) -> RSEIndexer:
        return self.indexer

    def _may_delete(self) -> Callable[[Manifest], bool]:
        return self.document_access().may_read

    @property
    def indexer(self) -> RSEIndexer:
        """The indexer of this retriever's stores, for adopting, checking and listing chunks.

        Raises:
            ValueError: If the retriever has no vector store to write to.
        """
        if self.vectorstore is None:
            raise ValueError(
                "a retriever with a base_retriever has no vector store to write to. Write with "
                "RSEIndexer(vectorstore, docstore), using the vector store that base_retriever "
                "searches"
            )
        self._check_open()
        if self._indexer is None:
            self._indexer = RSEIndexer(**{name: getattr(self, name) for name in _SHARED})
        return self._indexer

    # Closing

    def close(self) -> None:
        """Close the stores that `from_documents` or `from_texts` opened in a folder.

        The retriever cannot be used afterwards. Stores that were passed to it stay open. ``with``
        does the same:

        ```python
        with RSERetriever.from_documents(documents, embedding, persist_directory="kb") as retriever:
            retriever.invoke("What drove the change in gross margin?")
        ```
        """
        if self._close_stores is not None:
            self._is_closed = True
            self._close_stores()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError(
                "the retriever is closed: open its folder again with "
                "RSERetriever.from_documents([], embedding, persist_directory=...)"
            )

    # Other ways to make a retriever

    @classmethod
    def from_documents(
        cls,
        /,
        documents: Iterable[Document],
        embedding: Embeddings | None = None,
        *,
        ids: Iterable[str] | None = None,
        persist_directory: str | os.PathLike[str] | None = None,
        show_progress: bool = False,
        **settings: Any,  # noqa: ANN401 - of any type
    ) -> Self:
        """Make a retriever with stores of its own, and add documents.

        The stores are an `InMemoryVectorStore` and SQLite in memory. With ``persist_directory``,
        they are Chroma and SQLite in that folder: the same call opens it again, skips unchanged
        documents and replaces changed ones; with ``[]`` for ``documents``, it only opens it. Some
        12 files stay open until `close`. For other stores, use the constructor.

        Args:
            documents: Whole documents, such as the output of a loader; see `add_documents`.
            embedding: The embedding model, required. A folder belongs to the model that made it.
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
            ValueError: If a setting is unknown or out of its range, or the folder has other files.
            Exception: All errors of `RSEIndexer.add_documents`.

        Warns:
            UserWarning: If there are no documents, neither given nor stored.

        Example:
            ```python
            retriever = RSERetriever.from_documents(
                loader.load(), OpenAIEmbeddings(), persist_directory="kb"
            )
            retriever.invoke("What drove the change in gross margin?")
            ```
        """
        if not isinstance(embedding, Embeddings):
            raise TypeError(
                "embedding must be a LangChain Embeddings object, such as "
                "init_embeddings('openai:text-embedding-3-small'), passed second or by this name "
                f"(from_documents(documents, embedding)); got {shown(embedding)}"
            )
        if settings.keys() & {"vectorstore", "docstore", "base_retriever"}:
            raise TypeError(
                "from_documents makes its own stores. To add documents to yours: "
                "RSERetriever(vectorstore=..., docstore=...).add_documents(documents)"
            )
        vectorstore, docstore, close_stores = open_stores(embedding, persist_directory)
        try:
            retriever = cls(vectorstore=vectorstore, docstore=docstore, **settings)
            added = retriever.add_documents(documents, ids=ids, show_progress=show_progress)
        except BaseException:
            close_stores()
            raise
        if persist_directory is not None:
            retriever._close_stores = close_stores
        if not added and not read_manifests(docstore, most=1):
            place = "in memory" if persist_directory is None else f"in {persist_directory}"
            warn(f"the retriever has no documents: none were given, and there are none {place}")
        return retriever

    afrom_documents = AsyncConstructor(from_documents)

    @classmethod
    def from_texts(
        cls,
        /,
        texts: Iterable[str],
        embedding: Embeddings | None = None,
        metadatas: Iterable[dict[str, Any]] | None = None,
        *,
        ids: Iterable[str] | None = None,
        **settings: Any,  # noqa: ANN401 - of any type
    ) -> Self:
        """Make a retriever with stores of its own, and add texts: each is a whole document.

        Args:
            texts: The texts.
            embedding: The embedding model, required.
            metadatas: The metadata of each text, such as its ``source``.
            ids: Ids of the texts. None: the ``source`` of each, or a digest of the text.
            **settings: ``persist_directory`` and ``show_progress`` of `from_documents`, and fields
                of the retriever.

        Returns:
            The retriever.

        Raises:
            ValueError: If there are not as many ``metadatas`` as ``texts``.
            Exception: All errors of `from_documents`.
        """
        given: Any = texts
        listed = list(given) if isinstance(given, Iterable) else [given]
        if isinstance(given, str) or not all(isinstance(text, str) for text in listed):
            raise TypeError(
                "texts must be a list of texts; for one text, give [text]; for Documents, use "
                "from_documents"
            )
        metadata_of_texts = list(metadatas or [{} for _ in listed])
        are_dicts = all(isinstance(each, dict) for each in metadata_of_texts)
        if not are_dicts or len(metadata_of_texts) != len(listed):
            raise ValueError(
                f"metadatas must be a list of {len(listed)} dicts, one for each text; got "
                f"{len(metadata_of_texts)}: {shown(metadatas)}"
            )
        documents = []
        for text, metadata in zip(listed, metadata_of_texts, strict=True):
            documents.append(Document(text, metadata=metadata))
        return cls.from_documents(documents, embedding, ids=ids, **settings)

    afrom_texts = AsyncConstructor(from_texts)

    @classmethod
    def from_existing_index(
        cls,
        /,
        vectorstore: VectorStore,
        docstore: BaseStore[str, Any],
        index: ExistingIndex | None = None,
        *,
        documents: Iterable[Document] | None = None,
        show_progress: bool = False,
        **fields: Any,  # noqa: ANN401 - of any type
    ) -> Self:
        """Make a retriever over an index that other code built, without embedding anything.

        Reads the chunks from the vector store and writes their texts to the docstore; see
        `RSEIndexer.adopt`. Call this once, and again after other code has changed the index.

        Args:
            vectorstore: The vector store. It is only read.
            docstore: Stores the texts of the chunks.
            index: The metadata fields that give each chunk's place in its document. None to
                recognize usual names such as ``source``, ``page`` and ``start_index``; the logger
                ``langchain_rse`` reports the chosen fields at level INFO.
            documents: The store's chunks with their ids, for stores that cannot list them.
            show_progress: Show progress bars; needs tqdm.
            **fields: Fields of the retriever.

        Returns:
            The retriever.

        Raises:
            AdoptionError: If chunks cannot be joined; or if ``index`` is None and no usual field
                identifies the documents or gives the order of their chunks.
            TypeError: If the store cannot list its chunks and ``documents`` is not given.
            ValueError: If ``fields`` has an unknown name; fields of `ExistingIndex` belong in
                ``index``.

        Warns:
            UserWarning: If text is missing between chunks, or documents were skipped.
        """
        check_type("vectorstore", vectorstore, VectorStore, "a VectorStore, such as Chroma(...)")
        retriever = cls(vectorstore=vectorstore, docstore=docstore, **fields)
        adoption = retriever.indexer.adopt(index, documents=documents, show_progress=show_progress)
        if warning := adoption.warning():
            warn(warning)
        return retriever

    afrom_existing_index = AsyncConstructor(from_existing_index)


def _checked(config: RunnableConfig | None) -> RunnableConfig | None:
    """Return the config of a call, if it is LangChain's."""
    allowed = (
        "LangChain's RunnableConfig; pass settings by name, such as k=5 or rse_config='precision'"
    )
    check_type("config", config, (Mapping, NoneType), allowed)
    settings = {*QuerySettings.model_fields, "filter", "rse_config"}
    if settings.intersection(config or ()):  # LangChain keeps unknown keys as configurable ones
        raise TypeError(f"config must be {allowed}; got {config!r:.200}")
    return config
