"""RSERetriever, the LangChain face: candidates in, segments out, sync and async."""

from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
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
from langchain_text_splitters import TextSplitter
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from typing_extensions import Self, override

from langchain_rse._steps import Steps, arun, call, during, run
from langchain_rse.config import PRESETS, RSEConfig
from langchain_rse.docstores import as_docstore
from langchain_rse.indexing import RSEIndexer, default_text_splitter
from langchain_rse.reading import Layout, read_chunks, read_layouts
from langchain_rse.schema import (
    CHUNK_INDEX,
    DOC_ID,
    END_INDEX,
    RELEVANCE_SCORE,
    START_INDEX,
    VERSION,
    CandidateError,
    CorruptRecordError,
    MissingRecordError,
    chunk_key,
    document_key,
)
from langchain_rse.segmentation import Segment
from langchain_rse.selection import (
    DocumentCandidates,
    Selected,
    find_windows,
    relevance_of,
    select_segments,
)

__all__ = ["RSERetriever"]

# Where retrievers and compressors put their scores, the usual name first.
_SCORE_KEYS = (RELEVANCE_SCORE, "score", "similarity_score", "similarity", "_score")
# A document can be replaced while it is read; that it happens again and again is no accident.
_ATTEMPTS = 3


def _without_k(search_kwargs: dict[str, Any]) -> dict[str, Any]:
    if "k" in search_kwargs:
        raise ValueError(
            "search_kwargs must not contain 'k': fetch_k is the number of candidates, k the "
            "number of segments"
        )
    return search_kwargs


class QuerySettings(BaseModel):
    """What can be set on the retriever and given anew with each call."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    config: Annotated[RSEConfig, BeforeValidator(RSEConfig.of)] = PRESETS["dsrag-balanced"]
    """How segments are chosen: an `RSEConfig` or the name of a preset."""
    k: Annotated[int, Field(ge=1, strict=True)] | None = None
    """Return at most this many segments; None for no limit."""
    fetch_k: Annotated[int, Field(ge=1, strict=True)] = 200
    """Candidates, that is chunks, to fetch."""
    search_kwargs: Annotated[dict[str, Any], AfterValidator(_without_k)] = Field(
        default_factory=dict
    )
    """Passed to the vector store or the wrapped retriever, such as ``{"filter": ...}``."""
    order: Literal["document", "relevance"] = "document"
    """``"document"``: segments of a document stand together in the order of its text, the
    documents by their best segment; ``"relevance"``: the best segment first."""
    on_missing: Literal["raise", "split"] = "raise"
    """What to do when the docstore lacks a chunk: raise an error, or split the segment
    there and return what is left."""


_CONFIG_FIELDS = frozenset(field.name for field in dataclasses.fields(RSEConfig))
# `config` itself is not among them: to `invoke`, it is LangChain's config of the run.
_ALLOWED = (frozenset(QuerySettings.model_fields) - {"config"}) | _CONFIG_FIELDS | {"filter"}


class RSERetriever(QuerySettings, BaseRetriever):
    """A retriever that returns passages: the best runs of neighboring chunks.

    It fetches candidate chunks from a vector store or another retriever, finds the segments
    of their documents that are worth most (Relevant Segment Extraction), and returns them
    as exact slices of the source text.

    ``k``, ``fetch_k``, ``search_kwargs``, ``order``, ``on_missing``, every field of
    `RSEConfig` and ``filter`` can also be given per call, as in
    ``retriever.invoke(query, k=3)`` or
    ``retriever.with_config(configurable={"k": 3})``.

    Each returned Document has the slice as its ``page_content``; an ``id`` that is stable
    for the same version and range; and as ``metadata`` what holds for the whole document,
    plus ``doc_id``, ``start_index`` and ``end_index`` (characters of the text, end
    exclusive), ``relevance_score`` (the segment's value), for metadata that changes along
    the document, such as ``page``, its first and last value as ``page_start`` and
    ``page_end``, and ``rse``: a dict with ``version``, ``chunk_start``, ``chunk_end``
    (exclusive) and ``chunks``, a dict for each with its ``index`` and ``length`` and either
    ``rank`` (from 0), ``score`` (None where there was none) and ``relevance``, or
    ``filled``: True.

    Raises:
        ValueError: At construction, if a field is out of its range or unknown, or if not
            exactly one of ``vectorstore`` and ``base_retriever`` is given.

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
    text_splitter: TextSplitter = Field(default_factory=default_text_splitter)
    """Splits documents in `add_documents`; by default 800 characters without overlap."""
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

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.vectorstore is None) == (self.base_retriever is None):
            given = "neither" if self.vectorstore is None else "both"
            raise ValueError(f"give exactly one of vectorstore and base_retriever; got {given}")
        return self

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
        return RSEIndexer(self.vectorstore, self.docstore, text_splitter=self.text_splitter)

    # Reading

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
            TypeError: If an argument is unknown.
            ValueError: If an argument is out of its range.
            CandidateError: If a candidate does not say which chunk it is.
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
        return run(self._retrieve(query, self._settings(kwargs), run_manager.get_child()))

    @override
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return await arun(self._retrieve(query, self._settings(kwargs), run_manager.get_child()))

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if self.vectorstore is not None:
            params["ls_vector_store_provider"] = type(self.vectorstore).__name__
            if self.vectorstore.embeddings is not None:
                params["ls_embedding_provider"] = type(self.vectorstore.embeddings).__name__
        return params

    def _settings(self, overrides: Mapping[str, Any]) -> QuerySettings:
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
        if changes:
            settings["config"] = RSEConfig.of(settings["config"]).replace(**changes)
        if "filter" in overrides:
            settings["search_kwargs"] = {
                **settings["search_kwargs"],
                "filter": overrides["filter"],
            }
        return QuerySettings(**settings)

    def _retrieve(
        self, query: str, settings: QuerySettings, callbacks: Callbacks
    ) -> Steps[list[Document]]:
        if not query.strip():
            return []
        for _ in range(_ATTEMPTS):
            candidates = yield from self._fetch(query, settings, callbacks)
            hits, layouts = yield from self._select_documents(_hits(candidates), settings)
            chosen = _choose(hits, layouts, settings.config)[: settings.k]
            chunks = yield from read_chunks(
                self.docstore,
                layouts,
                (
                    (choice.key, index)
                    for choice in chosen
                    for index in range(choice.segment.start, choice.segment.end)
                ),
            )
            if chunks is not None:
                whole = [
                    part
                    for choice in chosen
                    for part in _present(choice, chunks, layouts, settings.on_missing)
                ][: settings.k]
                if settings.order == "document":
                    whole = _in_document_order(whole)
                return [_to_document(choice, chunks, layouts[choice.key]) for choice in whole]
            # A document was replaced since its candidates were fetched: fetch again.
        raise MissingRecordError(
            f"documents were replaced or deleted during each of {_ATTEMPTS} attempts to read them; "
            "ask again when fewer are being written"
        )

    def _fetch(
        self, query: str, settings: QuerySettings, callbacks: Callbacks
    ) -> Steps[list[_Candidate]]:
        """The candidates, best first, after the reranker."""
        if self.vectorstore is not None:
            candidates = yield from _search(self.vectorstore, query, settings)
        else:
            retriever: Any = self.base_retriever
            with during(f"asking {type(retriever).__name__} for candidates"):
                documents = yield from call(
                    retriever.invoke,
                    retriever.ainvoke,
                    query,
                    config={"callbacks": callbacks},
                    **settings.search_kwargs,
                )
            candidates = [(document, _score(document)) for document in documents]
            candidates = candidates[: settings.fetch_k]
        if self.reranker is None or not candidates:
            return candidates
        with during(f"reranking with {type(self.reranker).__name__}"):
            reranked = yield from call(
                self.reranker.compress_documents,
                self.reranker.acompress_documents,
                [document for document, _ in candidates],
                query,
                callbacks=callbacks,
            )
        return [
            (document, _number(document.metadata.get(RELEVANCE_SCORE))) for document in reranked
        ]

    def _select_documents(
        self, hits: list[_Hit], settings: QuerySettings
    ) -> Steps[tuple[list[_Hit], dict[str, Layout]]]:
        """The hits in the documents that count, with their relevance, and the documents' layouts.

        One read, unless it shows that some of the best hits are of versions that are no
        longer current: then others move up.
        """
        layouts: dict[str, Layout] = {}
        lost: set[str] = set()
        while True:
            best = {hit.key for hit in hits[: settings.config.top_k_for_document_selection]}
            unread = best - layouts.keys()
            if not unread:
                break
            found = yield from self._layouts([hit for hit in hits if hit.key in unread], settings)
            layouts |= found
            lost |= unread - found.keys()
            hits = [
                hit
                for hit in hits
                if hit.key not in lost
                and (hit.key not in layouts or _is_current(hit, layouts[hit.key]))
            ]
        relevance = relevance_of(
            [hit.score for hit in hits],
            settings.config,
            reranker=None if self.reranker is None else type(self.reranker).__name__,
        )
        return [
            hit._replace(rank=rank, relevance=worth)
            for rank, (hit, worth) in enumerate(zip(hits, relevance.tolist(), strict=True))
            if hit.key in best
        ], layouts

    def _layouts(self, hits: Sequence[_Hit], settings: QuerySettings) -> Steps[dict[str, Layout]]:
        windows = {
            version: find_windows(sorted(hit.chunk for hit in some), settings.config)
            for version, some in _grouped(hits, lambda hit: (hit.key, hit.version)).items()
        }
        layouts = yield from read_layouts(self.docstore, windows)
        known = {key: layout for key, layout in layouts.items() if layout is not None}
        if len(known) < len(layouts) and settings.on_missing == "raise":
            lost = {hit.doc_id: None for hit in hits if hit.key not in known}
            raise MissingRecordError(
                f"the docstore does not know the document(s) {_some(lost)}, of which the vector "
                "store has chunks. Are the two stores a pair? If the docstore lost them, delete "
                "the documents' vectors and add them again, or set on_missing='split' to pass "
                "over them"
            )
        return known


K = TypeVar("K")
T = TypeVar("T")
_Candidate = tuple[Document, float | None]


class _Hit(NamedTuple):
    """A candidate that was recognized as a chunk."""

    doc_id: str
    key: str
    version: str
    chunk: int
    score: float | None
    rank: int = 0
    relevance: float = 0.0


class _Choice(NamedTuple):
    """A chosen segment, with the candidates in it by chunk index."""

    key: str
    segment: Segment
    values: Sequence[float]
    hits: Mapping[int, _Hit]


def _configurable(config: RunnableConfig | None) -> dict[str, Any]:
    if isinstance(config, (str, RSEConfig)):
        raise TypeError(
            f"config of a call is LangChain's RunnableConfig; got {config!r}. Give fields of "
            "RSEConfig by name, as in invoke(query, irrelevant_chunk_penalty=0.3), or make a "
            "second RSERetriever with config="
        )
    configurable = ensure_config(config).get("configurable") or {}
    return {name: value for name, value in configurable.items() if name in _ALLOWED}


def _search(store: VectorStore, query: str, settings: QuerySettings) -> Steps[list[_Candidate]]:
    """Search with scores where the store has them, as it has them.

    Plain scores come first: relevance scores are made from them, by a function that does
    not exist for every metric and warns of values outside [0, 1]. What counts here is
    their order and spread, see `langchain_rse.scoring.calibrate`.
    """
    methods = [
        (store.similarity_search_with_score, store.asimilarity_search_with_score),
        (
            store.similarity_search_with_relevance_scores,
            store.asimilarity_search_with_relevance_scores,
        ),
    ]
    if "score_threshold" in settings.search_kwargs:  # known to relevance scores only
        methods = methods[1:]
    kwargs = settings.search_kwargs
    with during(f"searching {type(store).__name__}"):
        for search, asearch in methods:
            try:
                found = yield from call(search, asearch, query, k=settings.fetch_k, **kwargs)
            except NotImplementedError:
                continue
            return [(document, _number(score)) for document, score in found]
        documents = yield from call(
            store.similarity_search, store.asimilarity_search, query, k=settings.fetch_k, **kwargs
        )
    return [(document, None) for document in documents]


def _score(document: Document) -> float | None:
    for name in _SCORE_KEYS:
        if name in document.metadata:
            return _number(document.metadata[name])
    return None


def _number(score: object) -> float | None:
    """A finite number, or None for whatever else stands in the place of a score."""
    if isinstance(score, bool) or not isinstance(score, numbers.Real):
        return None
    return float(score) if math.isfinite(score) else None


def _hits(candidates: Sequence[_Candidate]) -> list[_Hit]:
    """Recognize the candidates; a chunk that comes twice counts once, at its better rank."""
    hits: dict[tuple[str, str, int], _Hit] = {}
    for number, (document, score) in enumerate(candidates):
        doc_id = _identifying(document, DOC_ID, str, number)
        version = _identifying(document, VERSION, str, number)
        chunk = _identifying(document, CHUNK_INDEX, int, number)
        hit = _Hit(doc_id, document_key(doc_id), version, chunk, score)
        hits.setdefault((hit.key, version, chunk), hit)
    return list(hits.values())


def _identifying(document: Document, name: str, kind: type[T], number: int) -> T:
    value: Any = document.metadata.get(name)
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # some stores know floats only
    negative = isinstance(value, int) and value < 0
    if not isinstance(value, kind) or isinstance(value, bool) or negative or value == "":
        raise CandidateError(
            f"candidate {number} (id {document.id!r}) has {name}={value!r} in its metadata; RSE "
            "needs to know which chunk of which document it is. Was the index built by other "
            "means? Build it with RSERetriever.add_documents or RSEIndexer; a retriever or "
            "reranker in between must keep the metadata"
        )
    return value


def _grouped(items: Iterable[T], name: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by name, names in order of appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(name(item), []).append(item)
    return groups


def _is_current(hit: _Hit, layout: Layout) -> bool:
    """Whether a hit belongs to the version that queries see."""
    if layout.version != hit.version:
        return False
    chunks = layout.manifest.current.chunks if layout.manifest.current else 0
    if hit.chunk >= chunks:
        raise CorruptRecordError(
            f"the vector store has chunk {hit.chunk} of document {hit.doc_id!r}, which has only "
            f"{chunks} chunks according to the docstore. Delete the document and add it again"
        )
    return True


def _choose(
    hits: Sequence[_Hit], layouts: Mapping[str, Layout], config: RSEConfig
) -> list[_Choice]:
    """The segments, best first."""
    groups = _grouped(hits, lambda hit: hit.key)
    documents = []
    for key, some in groups.items():
        ordered = sorted(some, key=lambda hit: hit.chunk)
        documents.append(
            DocumentCandidates(
                chunks=np.array([hit.chunk for hit in ordered], dtype=np.intp),
                relevance=np.array([[hit.relevance for hit in ordered]]),
                windows=layouts[key].windows,
                lengths=layouts[key].lengths(),
            )
        )
    keys = list(groups)
    found: list[Selected] = select_segments(documents, config)
    found.sort(key=lambda selected: -selected.segment.value)
    return [
        _Choice(
            keys[choice.document],
            choice.segment,
            choice.values.tolist(),
            {
                hit.chunk: hit
                for hit in groups[keys[choice.document]]
                if choice.segment.start <= hit.chunk < choice.segment.end
            },
        )
        for choice in found
    ]


_Chunks = Mapping[tuple[str, int], Document | None]


def _present(
    choice: _Choice, chunks: _Chunks, layouts: Mapping[str, Layout], on_missing: str
) -> list[_Choice]:
    """The choice, or the parts of it that the docstore has and that hold candidates."""
    start, end, _ = choice.segment
    missing = [index for index in range(start, end) if chunks[choice.key, index] is None]
    if not missing:
        return [choice]
    layout = layouts[choice.key]
    if on_missing == "raise":
        raise MissingRecordError(
            f"the docstore lacks chunk(s) {_some(missing)} of document "
            f"{layout.manifest.doc_id!r} (key "
            f"{chunk_key(choice.key, layout.version, missing[0])!r}). Delete the document and add "
            "it again, or set on_missing='split' to go without them"
        )
    parts = []
    cuts = [start - 1, *missing, end]
    for before, after in itertools.pairwise(cuts):
        hits = {index: hit for index, hit in choice.hits.items() if before < index < after}
        if not hits:
            continue
        # As in any segment, nothing stands at the ends that nothing speaks for.
        first, last = min(hits), max(hits) + 1
        values = choice.values[first - start : last - start]
        parts.append(_Choice(choice.key, Segment(first, last, math.fsum(values)), values, hits))
    return parts


def _in_document_order(choices: Sequence[_Choice]) -> list[_Choice]:
    return [
        choice
        for some in _grouped(choices, lambda choice: choice.key).values()
        for choice in sorted(some, key=lambda choice: choice.segment.start)
    ]


def _to_document(choice: _Choice, chunks: _Chunks, layout: Layout) -> Document:
    (start, end, value), manifest = choice.segment, layout.manifest
    records = [
        record for index in range(start, end) if (record := chunks[choice.key, index]) is not None
    ]
    start_index = place = records[0].metadata.get(START_INDEX)
    for index, record in enumerate(records, start):
        bounds = record.metadata.get(START_INDEX), record.metadata.get(END_INDEX)
        if not isinstance(place, int) or bounds != (place, place + len(record.page_content)):
            raise CorruptRecordError(
                f"the docstore's chunk {chunk_key(choice.key, layout.version, index)!r} of "
                f"document {manifest.doc_id!r} does not fit its place: it has "
                f"{len(record.page_content)} characters for {bounds[0]} to {bounds[1]} and "
                f"should start at {place}. Delete the document and add it again"
            )
        place += len(record.page_content)
    changing = {
        f"{name}_{which}": value
        for which, record, part in (("start", records[0], "first"), ("end", records[-1], "last"))
        for name, value in record.metadata.get(part, {}).items()
    }
    return Document(
        id=f"{choice.key}/{layout.version}/{start}-{end}",
        page_content="".join(record.page_content for record in records),
        metadata={
            **manifest.metadata,
            **changing,
            DOC_ID: manifest.doc_id,
            START_INDEX: start_index,
            END_INDEX: place,
            RELEVANCE_SCORE: value,
            "rse": {
                "version": layout.version,
                "chunk_start": start,
                "chunk_end": end,
                "chunks": [
                    _describe(index, record, choice.hits.get(index))
                    for index, record in enumerate(records, start)
                ],
            },
        },
    )


def _describe(index: int, record: Document, hit: _Hit | None) -> dict[str, Any]:
    chunk: dict[str, Any] = {"index": index, "length": len(record.page_content)}
    if hit is None:
        return {**chunk, "filled": True}
    return {**chunk, "rank": hit.rank, "score": hit.score, "relevance": hit.relevance}


def _some(items: Iterable[object], most: int = 5) -> str:
    names = [repr(item) for item in items]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
