"""RSERetriever, the LangChain face: candidates in, segments out, sync and async."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams, RetrieverLike
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore
from pydantic import (
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from typing_extensions import Self, override

from langchain_rse._steps import Steps, arun, call, during, run, together
from langchain_rse.adopting import Adoption, ExistingIndex
from langchain_rse.along import check_rules
from langchain_rse.candidates import (
    Candidate,
    Found,
    Hit,
    best_documents,
    check_search_kwargs,
    considered,
    documents_of,
    grouped,
    is_current,
    placed,
    recognize,
    scored,
    search,
    search_words,
    with_relevance,
)
from langchain_rse.config import RSEConfig
from langchain_rse.docstores import as_docstore
from langchain_rse.headers import DocumentHeaders
from langchain_rse.indexing import RSEIndexer, default_text_splitter
from langchain_rse.lexical import check_lexical
from langchain_rse.passages import Plan, check_known, in_document_order, present, to_document
from langchain_rse.reading import Layout, read_chunks, read_layouts
from langchain_rse.reranking import rerank
from langchain_rse.restricting import restricted
from langchain_rse.schema import MissingRecordError, Rule
from langchain_rse.selection import find_windows
from langchain_rse.settings import QuerySettings
from langchain_rse.splitting import Splitter

__all__ = ["RSERetriever"]

# A document can be replaced while it is read; that it happens again and again is no accident.
_ATTEMPTS = 3
_CONFIG_FIELDS = frozenset(field.name for field in dataclasses.fields(RSEConfig))
# `config` itself is not among them: to `invoke`, it is LangChain's config of the run.
_ALLOWED = (frozenset(QuerySettings.model_fields) - {"config"}) | _CONFIG_FIELDS | {"filter"}


class RSERetriever(QuerySettings, BaseRetriever):
    """A retriever that returns passages: the best runs of neighboring chunks.

    It fetches candidate chunks from a vector store or another retriever, finds the segments
    of their documents that are worth most (Relevant Segment Extraction), and returns them
    as exact slices of the source text.

    ``k``, ``fetch_k``, ``hybrid``, ``max_context_length``, ``length_function``, ``allow_trim``,
    ``include_header``, ``search_kwargs``, ``candidates_only``, ``order``, ``on_missing``, every
    field of `RSEConfig` and ``filter`` can also be given per call, as in
    ``retriever.invoke(query, k=3)`` or
    ``retriever.with_config(configurable={"k": 3})``.

    Each returned Document has the slice as its ``page_content``, with ``include_header`` behind
    the document's header; an ``id`` that is stable
    for the same version and range; and as ``metadata`` what holds for the whole document,
    plus ``doc_id``, ``start_index`` and ``end_index`` (characters of the text, end
    exclusive), ``relevance_score`` (the segment's value), for metadata that changes along
    the document, such as ``page``, its first and last value as ``page_start`` and
    ``page_end`` or what ``changing`` said when it was added, and ``rse``: a dict with
    ``version``, ``chunk_start``, ``chunk_end`` (exclusive) and ``chunks``, a dict for each
    with its ``index`` and ``length`` and either ``rank`` (from 0), ``score`` (None where there
    was none) and ``relevance``, or ``filled``: True. Chunks that ``hybrid`` found by words have
    ``lexical_rank`` and ``lexical_score`` as well; those found by nothing else have the
    ``rank`` None. Chunks that
    a relevance filter judged have its ``is_relevant`` and ``relevance_explanation``, and
    ``relevance_failure`` where it failed.

    Raises:
        ValueError: At construction, if a field is out of its range or unknown, if not
            exactly one of ``vectorstore`` and ``base_retriever`` is given, or if ``hybrid`` is
            above 0 and the docstore has no full-text index or the search arguments say what
            it does not understand.

    Example:
        .. code-block:: python

            retriever = RSERetriever(
                vectorstore=Chroma(collection_name="reports", embedding_function=embeddings),
                docstore=SQLDocStore("sqlite:///chunks.db"),
            )
            retriever.add_documents(PyPDFLoader("10k.pdf").load())
            retriever.invoke("What drove the change in gross margin?")
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    vectorstore: VectorStore | None = None
    """Gives the candidates. Either this or ``base_retriever``."""
    base_retriever: RetrieverLike | None = None
    """Gives the candidates, best first: any retriever over chunks that `RSEIndexer` wrote."""
    docstore: BaseStore[str, Any]
    """Holds the chunks' texts: a store of Documents, or a byte store, which is wrapped."""
    text_splitter: Splitter = Field(default_factory=default_text_splitter)
    """Splits documents in `add_documents`; by default 800 characters without overlap."""
    changing: Mapping[str, Rule] = Field(default_factory=dict)
    """For fields of metadata that change along a document, what a segment carries, such as
    ``{"slide": "ends", "start_seconds": "first"}``; see `RSEIndexer`. For `add_documents` and
    `from_existing`: what is stored keeps the rules it was stored with."""
    headers: DocumentHeaders | None = None
    """What `add_documents` embeds in front of each chunk, see `langchain_rse.headers`; None for
    nothing. Candidates and reranker have it; what comes back has not, unless
    ``include_header``."""
    max_embedded_length: int | None = None
    """The most that the embedding model reads of a text; `add_documents` warns of longer ones.
    None: what is known of the model."""
    embedded_length_function: Callable[[str], float] | None = None
    """Measures it; None for tokens of the model where they can be counted, else characters."""
    reranker: BaseDocumentCompressor | None = None
    """Sees all candidates; its order, and its ``relevance_score`` where it gives one, replace
    theirs."""

    @field_validator("docstore", mode="before")
    @classmethod
    def _wrap_docstore(cls, docstore: Any) -> BaseStore[str, Document]:  # noqa: ANN401
        try:
            return as_docstore(docstore)
        except TypeError as error:
            raise ValueError(str(error)) from error

    @field_validator("changing", mode="before")
    @classmethod
    def _check_changing(cls, changing: Any) -> dict[str, Rule]:  # noqa: ANN401
        return check_rules(changing)

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.vectorstore is None) == (self.base_retriever is None):
            given = "neither" if self.vectorstore is None else "both"
            raise ValueError(f"give exactly one of vectorstore and base_retriever; got {given}")
        self._check_hybrid(self.hybrid, self.search_kwargs)
        if self.vectorstore is not None and (
            self.max_embedded_length is not None or self.embedded_length_function is not None
        ):
            self._indexer()  # checks them
        return self

    @classmethod
    def from_existing(
        cls,
        vectorstore: VectorStore,
        docstore: BaseStore[str, Any],
        *,
        doc_id_key: str,
        chunk_index_key: str | None = None,
        start_index_key: str | None = None,
        page_key: str | None = None,
        in_store_order: bool = False,
        chunk_overlap: int | None = None,
        separator: str = "\n",
        texts: BaseStore[str, Document] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        documents: Iterable[Document] | None = None,
        show_progress: bool = False,
        **fields: Any,  # noqa: ANN401 - of any type
    ) -> Self:
        """Make a retriever over an index that other means have built; nothing is embedded.

        Reads out the vector store and writes to the docstore what segments are made of, see
        `RSEIndexer.adopt`. That is needed once, and again when the index has changed by other
        means: a plain ``RSERetriever`` with the same two stores then knows the index as well.

        At least one of ``chunk_index_key``, ``start_index_key``, ``page_key``,
        ``in_store_order`` and ``texts`` has to say in which order the chunks of a document stand.

        Args:
            vectorstore: The store. It is read only.
            docstore: Where the chunks' texts will stand. One docstore, one vector store.
            doc_id_key: The metadata field that names a chunk's document, such as ``"source"``.
            chunk_index_key: The field with its number in the document, or in the page if there
                is ``page_key``.
            start_index_key: The field with its first character there, such as
                ``"start_index"``: the most exact.
            page_key: The field with its page's number, such as ``"page"``.
            in_store_order: Whether chunks that these do not put in order stand in the order
                in which they were added.
            chunk_overlap: The most characters that neighboring chunks share; None finds out.
            separator: What is put between chunks that were stripped of the white space
                between them.
            texts: A store of the documents' whole texts by their ids, such as the docstore of a
                ``ParentDocumentRetriever``: chunks are then found in the text.
            on_error: ``"raise"``, or ``"skip"`` documents that cannot be put together.
            documents: The store's chunks with their ids, for stores that cannot be read out.
            show_progress: Show progress bars; needs tqdm.
            **fields: Fields of the retriever.

        Returns:
            The retriever.

        Raises:
            ValueError: If the arguments give no order, or are out of their range.
            AdoptionError: If chunks cannot be put together.
            TypeError: If the store cannot be read out and ``documents`` is not given.

        Warns:
            UserWarning: If text is missing between chunks, or documents were skipped.

        Example:
            .. code-block:: python

                retriever = RSERetriever.from_existing(
                    Chroma(persist_directory="kb", embedding_function=embeddings),
                    SQLDocStore("sqlite:///kb/chunks.db"),
                    doc_id_key="source",
                    page_key="page",
                    in_store_order=True,
                )
        """
        retriever = cls(vectorstore=vectorstore, docstore=docstore, **fields)
        index = ExistingIndex(
            doc_id_key=doc_id_key,
            chunk_index_key=chunk_index_key,
            start_index_key=start_index_key,
            page_key=page_key,
            in_store_order=in_store_order,
            chunk_overlap=chunk_overlap,
            separator=separator,
            texts=texts,
            on_error=on_error,
        )
        indexer = retriever._indexer()
        _warn(indexer.adopt(index, documents=documents, show_progress=show_progress))
        return retriever

    @classmethod
    async def afrom_existing(
        cls,
        vectorstore: VectorStore,
        docstore: BaseStore[str, Any],
        *,
        doc_id_key: str,
        documents: Iterable[Document] | None = None,
        show_progress: bool = False,
        **arguments: Any,  # noqa: ANN401 - of any type
    ) -> Self:
        """Like `from_existing`, async; with the same arguments."""
        known = {field.name for field in dataclasses.fields(ExistingIndex)}
        given = {name: arguments.pop(name) for name in known & arguments.keys()}
        retriever = cls(vectorstore=vectorstore, docstore=docstore, **arguments)
        index = ExistingIndex(doc_id_key=doc_id_key, **given)
        indexer = retriever._indexer()
        _warn(await indexer.aadopt(index, documents=documents, show_progress=show_progress))
        return retriever

    def _check_hybrid(self, hybrid: float, search_kwargs: Mapping[str, Any]) -> None:
        if not hybrid:
            return
        if self.vectorstore is None:
            raise ValueError(
                f"hybrid={hybrid} needs vectorstore: what a base_retriever filters is not known "
                "here, so its filters could not hold for lexical search. Use hybrid=0, with a "
                "base_retriever that searches by words as well"
            )
        try:
            check_lexical(self.docstore)
            check_search_kwargs(search_kwargs)
        except ValueError as error:
            raise ValueError(f"hybrid={hybrid}: {error}") from error

    # Writing

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        show_progress: bool = False,
    ) -> list[str]:
        """Add documents to both stores; see `RSEIndexer.add_documents`.

        Args:
            documents: The documents; those with the same id are parts of one.
            ids: One id for each of ``documents``.
            show_progress: Show a progress bar; needs tqdm.

        Returns:
            The ids of the documents, each once.

        Raises:
            ValueError: If the retriever has no ``vectorstore``; and as `RSEIndexer` does.
        """
        return self._indexer().add_documents(documents, ids=ids, show_progress=show_progress)

    async def aadd_documents(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        *,
        ids: Iterable[str] | None = None,
        show_progress: bool = False,
    ) -> list[str]:
        """Like `add_documents`, async; takes async iterators as well."""
        return await self._indexer().aadd_documents(documents, ids=ids, show_progress=show_progress)

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Delete documents from both stores; see `RSEIndexer.delete`.

        Returns:
            The ids of the documents that were there.

        Raises:
            ValueError: If the retriever has no ``vectorstore``.
        """
        return self._indexer().delete(ids)

    async def adelete(self, ids: Sequence[str]) -> list[str]:
        """Like `delete`, async."""
        return await self._indexer().adelete(ids)

    def _indexer(self) -> RSEIndexer:
        if self.vectorstore is None:
            raise ValueError(
                "a retriever with a base_retriever has no vector store to write to; write with "
                "RSEIndexer(vectorstore, docstore), using the store that base_retriever reads"
            )
        return RSEIndexer(
            self.vectorstore,
            self.docstore,
            text_splitter=self.text_splitter,
            changing=self.changing,
            headers=self.headers,
            max_embedded_length=self.max_embedded_length,
            embedded_length_function=self.embedded_length_function,
        )

    # Reading

    @property
    def reranker_name(self) -> str | None:
        """Class name of the reranker, by which its scores are calibrated; None without one."""
        return None if self.reranker is None else type(self.reranker).__name__

    @override
    def invoke(
        self,
        input: str,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return the segments for a query.

        Args:
            input: The query.
            config: Config of the run; ``configurable`` may hold what can be given per call.
            **kwargs: What can be given per call.

        Returns:
            The segments; none if the query is empty or nothing is relevant enough.

        Raises:
            TypeError: If an argument is unknown, or ``base_retriever`` or ``reranker`` returns
                something else than Documents.
            ValueError: If an argument is out of its range.
            CandidateError: If a candidate does not say which chunk it is, or a reranker returns
                one that it was not given.
            MissingRecordError: If the docstore lacks a document or chunk, unless
                ``on_missing`` is ``"split"``.
            CorruptRecordError: If a record of the docstore cannot be read.
        """
        return super().invoke(input, config, **{**_configurable(config), **kwargs})

    @override
    async def ainvoke(
        self,
        input: str,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Like `invoke`, async."""
        return await super().ainvoke(input, config, **{**_configurable(config), **kwargs})

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return run(self._retrieve(query, self.settings_of(kwargs), run_manager.get_child()))

    @override
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return await arun(self._retrieve(query, self.settings_of(kwargs), run_manager.get_child()))

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if self.vectorstore is not None:
            params["ls_vector_store_provider"] = type(self.vectorstore).__name__
            if self.vectorstore.embeddings is not None:
                params["ls_embedding_provider"] = type(self.vectorstore.embeddings).__name__
        return params

    def settings_of(self, overrides: Mapping[str, Any]) -> QuerySettings:
        """This retriever's settings with those of a call."""
        overrides = {name: value for name, value in overrides.items() if name != "verbose"}
        unknown = sorted(overrides.keys() - _ALLOWED)
        if unknown:
            raise TypeError(
                f"unknown argument(s) {', '.join(unknown)}; a call can set "
                f"{', '.join(sorted(_ALLOWED))}"
            )
        settings = {name: getattr(self, name) for name in QuerySettings.model_fields}
        settings |= {name: overrides[name] for name in settings.keys() & overrides.keys()}
        changes = {name: overrides[name] for name in _CONFIG_FIELDS & overrides.keys()}
        config = RSEConfig.of(settings["config"]).replace(**changes)
        settings["config"] = config.for_scores(self.reranker_name)
        if "filter" in overrides:
            settings["search_kwargs"] = {
                **settings["search_kwargs"],
                "filter": overrides["filter"],
            }
        checked = QuerySettings(**settings)
        self._check_hybrid(checked.hybrid, checked.search_kwargs)
        return checked

    def answers(
        self, query: str, calls: Sequence[Mapping[str, Any]], callbacks: Callbacks = None
    ) -> Steps[list[list[Document]]]:
        """Answer one query with several settings, asking for candidates once where possible.

        Args:
            query: The query.
            calls: What is given per call, for each answer.
            callbacks: For the wrapped retriever and the reranker.

        Returns:
            One list of segments for each call.
        """
        fetched: list[tuple[QuerySettings, Found]] = []
        answers = []
        for overrides in calls:
            settings = self.settings_of(overrides)
            found = next((some for other, some in fetched if _same_fetch(settings, other)), None)
            if found is None and query.strip():
                found = yield from self.fetch(query, settings, callbacks)
                fetched.append((settings, found))
            answers.append((yield from self._retrieve(query, settings, callbacks, found)))
        return answers

    def _retrieve(
        self,
        query: str,
        settings: QuerySettings,
        callbacks: Callbacks,
        found: Found | None = None,
    ) -> Steps[list[Document]]:
        if not query.strip():
            return []
        for _ in range(_ATTEMPTS):
            if found is None:
                found = yield from self.fetch(query, settings, callbacks)
            hits, layouts = yield from self._select_documents(query, recognize(found), settings)
            plan = Plan(hits, layouts, settings)
            chunks = yield from read_chunks(self.docstore, layouts, plan.wanted())
            if chunks is not None:
                whole = [
                    part
                    for choice in plan.fit(chunks)
                    for part in present(choice, chunks, layouts, settings.on_missing)
                ]
                # A part of a split segment is worth less than the whole.
                whole = sorted(whole, key=lambda choice: -choice.segment.value)[: settings.k]
                if settings.order == "document":
                    whole = in_document_order(whole)
                return [
                    to_document(
                        choice,
                        chunks,
                        layouts[choice.key],
                        include_header=settings.include_header,
                    )
                    for choice in whole
                ]
            # A document was replaced since its candidates were fetched: fetch again.
            found = None
        raise MissingRecordError(
            f"documents were replaced or deleted during each of {_ATTEMPTS} attempts to read them; "
            "ask again when fewer are being written"
        )

    def fetch(self, query: str, settings: QuerySettings, callbacks: Callbacks) -> Steps[Found]:
        """The candidates of all sides, best first, after the reranker."""
        searched = self._candidates(query, settings, callbacks)
        if settings.hybrid:
            words = search_words(
                check_lexical(self.docstore), query, settings.fetch_k, settings.search_kwargs
            )
            found = Found(*(yield from together(searched, words)))
        else:
            found = Found((yield from searched))
        if self.reranker is None or not (found.candidates or found.lexical):
            return found
        unscored = [(document, None) for document in found.documents()]
        return found.reranked((yield from rerank(self.reranker, unscored, query, callbacks)))

    def _candidates(
        self, query: str, settings: QuerySettings, callbacks: Callbacks
    ) -> Steps[list[Candidate]]:
        for _ in range(_ATTEMPTS):
            given = yield from self._search(query, settings, callbacks)
            candidates, unknown = yield from placed(self.docstore, given)
            if not unknown:  # else some may have been replaced since they were found
                break
        return candidates

    def _search(
        self, query: str, settings: QuerySettings, callbacks: Callbacks
    ) -> Steps[list[Candidate]]:
        if self.vectorstore is not None:
            return (
                yield from search(self.vectorstore, query, settings.fetch_k, settings.search_kwargs)
            )
        retriever: Any = self.base_retriever
        with during(f"asking {type(retriever).__name__} for candidates"):
            returned = yield from call(
                retriever.invoke,
                retriever.ainvoke,
                query,
                config={"callbacks": callbacks},
                **settings.search_kwargs,
            )
            documents = documents_of(returned, type(retriever).__name__)
        return scored(documents[: settings.fetch_k])

    def _select_documents(
        self, query: str, hits: list[Hit], settings: QuerySettings
    ) -> Steps[tuple[list[Hit], dict[str, Layout]]]:
        """The hits in the documents that count, with their relevance, and the documents' layouts.

        One read, unless it shows that some of the best hits are of versions that are no
        longer current: then others move up.
        """
        layouts: dict[str, Layout] = {}
        asked: set[str] = set()
        ranked = self._ranked(query, hits, settings)
        while True:
            best = best_documents(ranked, settings.config)
            read, unread = best & asked, best - asked
            check_known([hit for hit in ranked if hit.key in read], layouts)
            if not unread:
                return considered(ranked, settings.config), layouts
            # From the second time on twice as many, so that few reads get past many documents
            # that are gone.
            others = dict.fromkeys(hit.key for hit in ranked if hit.key not in asked)
            unread.update(itertools.islice(others, len(asked)))
            asked |= unread
            layouts |= yield from self._layouts([h for h in hits if h.key in unread], settings)
            # Those that are lost stay, and are an error where they count.
            lost = set() if settings.on_missing == "raise" else unread - layouts.keys()
            kept = [
                hit
                for hit in hits
                if hit.key not in lost
                and (hit.key not in layouts or is_current(hit, layouts[hit.key]))
            ]
            if len(kept) < len(hits):
                hits, ranked = kept, self._ranked(query, kept, settings)

    def _ranked(self, query: str, hits: Sequence[Hit], settings: QuerySettings) -> list[Hit]:
        return with_relevance(
            query, hits, settings.config, hybrid=settings.hybrid, reranker=self.reranker_name
        )

    def _layouts(self, hits: Sequence[Hit], settings: QuerySettings) -> Steps[dict[str, Layout]]:
        chunks = {
            version: sorted(hit.chunk for hit in some)
            for version, some in grouped(hits, lambda hit: (hit.key, hit.version)).items()
        }
        windows = {version: find_windows(some, settings.config) for version, some in chunks.items()}
        layouts = yield from read_layouts(self.docstore, windows)
        return {
            key: restricted(layout, chunks.get((key, layout.version), ()), settings)
            for key, layout in layouts.items()
            if layout is not None
        }


def _warn(adoption: Adoption) -> None:
    if warning := adoption.warning():
        warnings.warn(warning, stacklevel=3)


def _configurable(config: RunnableConfig | None) -> dict[str, Any]:
    if isinstance(config, (str, RSEConfig)):
        raise TypeError(
            f"config of a call is LangChain's RunnableConfig; got {config!r}. Give fields of "
            "RSEConfig by name, as in invoke(query, irrelevant_chunk_penalty=0.3), or make a "
            "second RSERetriever with config="
        )
    configurable = ensure_config(config).get("configurable") or {}
    return {name: value for name, value in configurable.items() if name in _ALLOWED}


def _same_fetch(one: QuerySettings, other: QuerySettings) -> bool:
    return (one.fetch_k, one.search_kwargs, one.hybrid > 0) == (
        other.fetch_k,
        other.search_kwargs,
        other.hybrid > 0,
    )
