"""Search: finds candidates in a vector store or retriever, and in the full-text index."""

import itertools
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, call, concurrently, during
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CandidateError, CorruptRecordError
from langchain_rse.query.search_arguments import check_filtered, may_exclude
from langchain_rse.query.wrapped import check_taken, warn_of_few
from langchain_rse.stores.changing import read_records
from langchain_rse.stores.fulltext import check_filter, check_lexical
from langchain_rse.stores.namespaces import namespace_of, refuse_namespaces
from langchain_rse.stores.records import (
    CHUNK_INDEX,
    DOC_ID,
    NAMESPACE,
    RELEVANCE_SCORE,
    SEGMENT,
    VERSION,
    adopted_key,
    document_key,
    judgment_of,
    namespace_in,
)
from langchain_rse.stores.vectorstores import adapter_for, vector_id_of

# Names under which retrievers leave scores in metadata, the usual one first. A "score" may be a
# distance; in the others, higher is better.
_SCORE = "score"
_SCORE_NAMES = (RELEVANCE_SCORE, _SCORE, "similarity_score", "similarity", "_score")

# Differences below this share of the largest score are rounding.
_NOISE = 1e-6

# The most searches at the same time, of one query or of several.
AT_ONCE = 8

_ScoredDocument = tuple[Document, float | None]


Place = tuple[str, str, int]  # identifies a chunk: document id, version, number


class Sources(NamedTuple):
    """Where the candidates and texts of a query come from: see the fields of `RSERetriever`."""

    vectorstore: VectorStore | None
    base_retriever: Any | None
    docstore: BaseStore[str, Document]
    reranker: BaseDocumentCompressor | None = None

    @property
    def name(self) -> str:
        """The class that finds the candidates."""
        found_by = self.base_retriever if self.vectorstore is None else self.vectorstore
        return type(found_by).__name__


class Candidate(NamedTuple):
    """A chunk that was found for a query."""

    document: Document  # as the store or retriever returned it
    doc_id: str
    key: str  # the document's, in the docstore
    version: str  # name of the document's version
    chunk_index: int  # number in the document
    score: float | None = None
    rank: int | None = None  # from 0; None if only the full-text index found it
    lexical_score: float | None = None  # None if the full-text index did not find it
    lexical_rank: int | None = None
    search_score: float | None = None  # score and rank before a reranker, if there is one
    search_rank: int | None = None
    judgment: Mapping[str, bool | str | None] = MappingProxyType({})  # see `judgment_of`
    filtered: bool = False  # True if a compressor dropped others, for unknown reasons
    query: str = ""  # the query for which it was found, if there are several

    @property
    def place(self) -> Place:
        """The key of the chunk among all chunks."""
        return self.doc_id, self.version, self.chunk_index


Found = Mapping[str, Sequence[Candidate]]
"""The candidates of each query, best first."""


def asked(query: str, settings: QuerySettings, callbacks: Callbacks = None) -> Steps[list[str]]:
    """The queries to search for: those given or generated, or the query; none if it is empty."""
    queries, generator = settings.queries, settings.query_generator
    if queries is None and generator is not None and query.strip():
        with during("asking query_generator for queries"):
            queries = yield from call(
                generator.invoke, generator.ainvoke, query, config={"callbacks": callbacks}
            )
            is_list = isinstance(queries, (list, tuple))
            if not (is_list and all(isinstance(one, str) for one in queries)):
                raise TypeError(
                    f"query_generator must return a list of strings; got {queries!r:.200}. Does a "
                    "model answer with a text? Let a parser follow it that returns its lines"
                )
        if not any(map(str.strip, queries)):
            warn(f"query_generator made no queries of {query!r:.200}: the question is searched for")
            queries = None
    return [one for one in dict.fromkeys(queries or [query]) if one.strip()]


def search(
    sources: Sources, queries: Sequence[str], settings: QuerySettings, callbacks: Callbacks = None
) -> Steps[tuple[dict[str, list[Candidate]], int]]:
    """Find candidates for each query, each chunk at its best rank; count all Documents found."""
    check_search(sources, settings)
    searches = [
        _ask_retriever(sources.base_retriever, query, settings, callbacks)
        if sources.vectorstore is None
        else _search_vectors(sources, query, settings)
        for query in queries
    ]
    if settings.hybrid:
        searches += [_search_words(sources.docstore, query, settings) for query in queries]
    answers = yield from concurrently(searches, AT_ONCE)
    answers = [_own(answer, sources) for answer in answers]
    found, by_words = answers[: len(queries)], answers[len(queries) :]
    documents = [document for document, _ in itertools.chain(*found)]
    check_filtered(documents, settings.search_kwargs.get("filter"), sources.name)
    identified = yield from _identify_adopted(sources.docstore, found)
    candidates = {}
    for query, by_vectors, words in itertools.zip_longest(queries, identified, by_words):
        places = _candidates(by_vectors, settings, judged=sources.vectorstore is None)
        for number, (document, score) in enumerate(words or ()):
            candidate = _candidate(document, number)
            places[candidate.place] = places.get(candidate.place, candidate)._replace(
                lexical_score=score, lexical_rank=number
            )
        candidates[query] = list(places.values())
    if sources.vectorstore is None:
        warn_of_few(sources.base_retriever, max(map(len, found)), settings.fetch_k)
    return candidates, sum(map(len, answers))


def check_search(sources: Sources, settings: QuerySettings) -> None:
    """Raise a ValueError if the wrapped retriever or the full-text index cannot apply filters."""
    if sources.vectorstore is None:
        check_taken(sources.base_retriever, settings.search_kwargs)
    if not settings.hybrid:
        return
    if sources.vectorstore is None:
        raise ValueError(
            f"hybrid={settings.hybrid} needs vectorstore, since filters inside a base_retriever "
            "are unknown. Use hybrid=0, with a base_retriever that searches by words as well"
        )
    try:
        check_lexical(sources.docstore)
        check_filter(settings.search_kwargs.get("filter"))
    except ValueError as error:
        raise ValueError(f"hybrid={settings.hybrid}: {error}") from error
    if unknown := sorted(may_exclude(settings.search_kwargs).keys() - {"filter"}):
        raise ValueError(
            f"hybrid={settings.hybrid}: lexical search cannot apply {', '.join(unknown)} in "
            "search_kwargs. Use filter, a dict of fields and the values they equal, or "
            "hybrid=0"
        )


def _own(found: list[_ScoredDocument], sources: Sources) -> list[_ScoredDocument]:
    """Keep the Documents in the namespace of the docstore, with a warning if there are others."""
    namespace = namespace_of(sources.docstore)
    own = [one for one in found if namespace_in(one[0].metadata) == namespace]
    others = len(found) - len(own)
    refuse_namespaces(others and not namespace)
    if others:
        warn(
            f"{others} of {len(found)} Documents of {sources.name} are left out, as they are not "
            f"in this namespace. Let it find only those with {NAMESPACE}={namespace!r} in their "
            "metadata, and return that metadata"
        )
    return own


def _search_vectors(
    sources: Sources, query: str, settings: QuerySettings
) -> Steps[list[_ScoredDocument]]:
    """Search the vector store, with scores if it has them."""
    store: Any = sources.vectorstore
    arguments = {"k": settings.fetch_k, **settings.search_kwargs}
    namespace = namespace_of(sources.docstore)
    if namespace:
        arguments = adapter_for(store).search_arguments(namespace, arguments)
    # Relevance scores come second: not every metric has the function that computes them from
    # scores, and that function warns of values outside [0, 1].
    methods = ["similarity_search_with_score", "similarity_search_with_relevance_scores"]
    if "score_threshold" in arguments:  # an argument of relevance scores only
        del methods[0]
    with during(f"searching {type(store).__name__}"):
        for name in methods:
            method, async_method = getattr(store, name), getattr(store, f"a{name}")
            try:
                found = yield from call(method, async_method, query, **arguments)
            except NotImplementedError:
                continue
            return [(document, finite_score(score)) for document, score in found]
        documents = yield from call(
            store.similarity_search, store.asimilarity_search, query, **arguments
        )
    return [(document, None) for document in documents]


def _ask_retriever(
    retriever: Any,  # noqa: ANN401 - a retriever or another Runnable
    query: str,
    settings: QuerySettings,
    callbacks: Callbacks,
) -> Steps[list[_ScoredDocument]]:
    with during(f"asking {type(retriever).__name__} for candidates"):
        returned = yield from call(
            retriever.invoke,
            retriever.ainvoke,
            query,
            config={"callbacks": callbacks},
            **settings.search_kwargs,
        )
        documents = check_documents(returned, type(retriever).__name__)
    return _with_scores(documents[: settings.fetch_k])


def _search_words(
    docstore: object, query: str, settings: QuerySettings
) -> Steps[list[_ScoredDocument]]:
    store = check_lexical(docstore)
    with during(f"searching the full-text index of {type(store).__name__}"):
        found = yield from call(
            store.lexical_search,
            store.alexical_search,
            query,
            settings.fetch_k,
            filter=settings.search_kwargs.get("filter"),
        )
    return list(found)


def _identify_adopted(
    docstore: BaseStore[str, Document], answers: Sequence[Sequence[_ScoredDocument]]
) -> Steps[list[list[_ScoredDocument]]]:
    """Add the place of the chunk to vectors of an adopted index; leave out vectors of no chunk."""
    keys = {
        id(document): adopted_key(vector)
        for document, _ in itertools.chain(*answers)
        if VERSION not in document.metadata and (vector := vector_id_of(document)) is not None
    }
    if not keys:
        return list(map(list, answers))
    with during("reading from the docstore which chunks the candidates are"):
        records = yield from read_records(docstore, list(dict.fromkeys(keys.values())))

    def identified(found: Sequence[_ScoredDocument]) -> Iterator[_ScoredDocument]:
        for document, score in found:
            record = records.get(keys.get(id(document), ""))
            if record is None:
                yield document, score
            elif isinstance(record, CorruptRecordError):
                warn(f"a candidate is left out; adopt the index again: {record}")
            elif record.metadata.get(DOC_ID) is not None:
                metadata = {**document.metadata, **record.metadata}
                yield document.model_copy(update={"metadata": metadata}), score

    return [list(identified(found)) for found in answers]


def check_documents(returned: object, name: str) -> list[Document]:
    """Return what a retriever or compressor returned, or raise a TypeError with its name."""
    # A single Document is an iterable as well, of its fields.
    documents: list[Any] = list(returned) if isinstance(returned, Iterable) else [None]
    if not all(isinstance(document, Document) for document in documents):
        raise TypeError(f"{name} must return Documents; got {returned!r:.200}")
    return documents


def _with_scores(documents: Sequence[Document]) -> list[_ScoredDocument]:
    """Pair Documents with the scores in their metadata, if all have one under the same name."""
    for name in _SCORE_NAMES:
        if all(name in document.metadata for document in documents):
            scores = [finite_score(document.metadata[name]) for document in documents]
            if name != _SCORE:
                scores = without_rising_scores(scores)
            return list(zip(documents, scores, strict=True))
    return [(document, None) for document in documents]


def without_rising_scores(scores: Sequence[float | None]) -> list[float | None]:
    """Return relevance scores of candidates, best first; all None if they rise in that order."""
    known = [score for score in scores if score is not None]
    noise = _NOISE * max(map(abs, known), default=0.0)
    falls = any(after < before - noise for before, after in itertools.pairwise(known))
    if not known or len(known) < len(scores) or falls or known[-1] - known[0] <= noise:
        return list(scores)
    return [None] * len(scores)


def finite_score(score: object) -> float | None:
    """A score as a float; None if it is not a finite number."""
    if isinstance(score, bool) or not isinstance(score, numbers.Real):
        return None
    with suppress(OverflowError):  # an integer larger than any float
        return float(score) if math.isfinite(score) else None
    return None


def _candidates(
    found: Sequence[_ScoredDocument], settings: QuerySettings, *, judged: bool
) -> dict[Place, Candidate]:
    """Make candidates, by their places, with a warning for those that are left out."""
    candidates: dict[Place, Candidate] = {}
    left_out: list[CandidateError] = []
    for number, (document, score) in enumerate(found):
        if isinstance(document.metadata.get(SEGMENT), dict):
            raise CandidateError(
                f"candidate {number} (id {document.id!r}) is a segment, not a chunk. Wrap the "
                "retriever that returns chunks, not an RSERetriever or a store of segments"
            )
        judgment = judgment_of(document.metadata) if judged else {}
        try:
            candidate = _candidate(
                document, number, score=score, rank=len(candidates), judgment=judgment
            )
        except CandidateError as error:
            if settings.on_missing == "raise":
                raise
            left_out.append(error)
        else:
            candidates.setdefault(candidate.place, candidate)
    if left_out:
        warn(
            f"{len(left_out)} of {len(found)} candidates are left out, as they do not say which "
            "chunk of which document they are (on_missing='split'). If other code added them to "
            f"an adopted index, adopt it again. The first one: {left_out[0]}"
        )
    return candidates


def _candidate(document: Document, number: int, **known: Any) -> Candidate:  # noqa: ANN401
    """Make a candidate of a Document, with the other ``known`` fields."""
    doc_id, version, index = map(document.metadata.get, (DOC_ID, VERSION, CHUNK_INDEX))
    if type(index) is not int:
        index = _whole_number(index)
    if not isinstance(doc_id, str) or not doc_id:
        unknown = DOC_ID
    elif not isinstance(version, str) or not version:
        unknown = VERSION
    elif index is None or index < 0:
        unknown = CHUNK_INDEX
    else:
        return Candidate(document, doc_id, document_key(doc_id), version, index, **known)
    raise CandidateError(
        f"candidate {number} (id {document.id!r}) has {unknown}={document.metadata.get(unknown)!r} "
        "in its metadata; RSE needs to know which chunk of which document it is. Bring in an index "
        "of other code with RSERetriever.from_existing_index, and again when it has grown; or "
        "write it with add_documents or RSEIndexer. A retriever or reranker in between must keep "
        "ids and metadata. on_missing='split' leaves such candidates out"
    )


def _whole_number(value: object) -> int | None:
    """An integer that a store gives back as another kind of number; None for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
