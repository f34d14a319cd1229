"""Search: finds candidates in a vector store or retriever, and in the full-text index."""

import itertools
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, call, concurrently, during
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CandidateError, CorruptRecordError, FullTextError
from langchain_rse.query.candidates import Candidate, ChunkKey, Sources
from langchain_rse.query.full_text import FullText, full_text_of
from langchain_rse.query.long_queries import warn_of_long
from langchain_rse.query.search_arguments import SCORE_THRESHOLD, check_filtered
from langchain_rse.query.wrapped import check_taken, warn_of_few
from langchain_rse.stores.changing import read_records
from langchain_rse.stores.fulltext import check_lexical
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
from langchain_rse.stores.vectorstores.base import VectorStoreAdapter
from langchain_rse.text.words import beginning_of, without_function_words

# Names under which retrievers leave scores in metadata, the usual one first. A "score" may be a
# distance; in the others, higher is better.
_SCORE = "score"
_SCORE_NAMES = (RELEVANCE_SCORE, _SCORE, "similarity_score", "similarity", "_score")

# Differences below this share of the largest score are rounding.
_NOISE = 1e-6

# The full-text index is asked for so many chunks, in units of `RSEConfig.decay_rate`: those that it
# ranks lower would have a relevance of less than 0.003.
_LEXICAL_DEPTH = 6

# The most searches at the same time, of one query or of several.
AT_ONCE = 8

_ScoredDocument = tuple[Document, float | None]

_BRING_IN = (
    "Bring in an index of other code with RSERetriever.from_existing_index, and again when it has "
    "grown"
)
_HOW_TO_WRITE = (
    f"{_BRING_IN}; or write it with add_documents or RSEIndexer. check() lists the vectors that "
    "other code wrote"
)
# BM25Retriever and others are made from chunks: those of the docstore know what they are.
_HOW_TO_WRAP = (
    "Make a retriever that holds chunks itself from those of the docstore: "
    "BM25Retriever.from_documents(list(RSEIndexer(vectorstore, docstore).chunks())), with the "
    "stores that add_documents wrote to, and again when they have changed. "
    f"{_BRING_IN}. A retriever or reranker in between must keep ids and metadata"
)


class Searched(NamedTuple):
    """What the searches for the queries of one question found."""

    candidates: dict[str, list[Candidate]]  # of each query, best first
    # The number of Documents that the vector store or retriever found, candidates or not.
    documents: int
    obstacle: str = ""  # why the full-text index was not searched, where it would be


def queries_of(question: str, settings: QuerySettings, callbacks: Callbacks) -> Steps[list[str]]:
    """The queries to search for: those given or generated, or the question; none if it is empty."""
    queries = settings.queries
    if queries is None and settings.query_generator is not None and question.strip():
        queries = yield from _generate_queries(question, settings.query_generator, callbacks)
        if not any(query.strip() for query in queries):
            warn(
                f"query_generator made no queries of {question!r:.200}: the question is searched "
                "for"
            )
            queries = None
    distinct = dict.fromkeys(queries or [question])
    warn_of_long(list(distinct), settings)
    return [query for query in distinct if query.strip()]


def _generate_queries(
    question: str,
    generator: Any,  # noqa: ANN401 - a Runnable
    callbacks: Callbacks,
) -> Steps[Sequence[str]]:
    with during("asking query_generator for queries"):
        queries = yield from call(
            generator.invoke, generator.ainvoke, question, config={"callbacks": callbacks}
        )
        is_list = isinstance(queries, (list, tuple))
        if not is_list or not all(isinstance(query, str) for query in queries):
            raise TypeError(
                f"query_generator must return a list of strings; got {queries!r:.200}. Does a "
                "model answer with a text? Let a parser follow it that returns its lines"
            )
    return list(queries)


def search(
    sources: Sources, queries: Sequence[str], settings: QuerySettings, callbacks: Callbacks
) -> Steps[Searched]:
    """Find candidates for each query, each chunk at its best rank."""
    full_text = check_search(sources, settings)
    searches = []
    for query in queries:
        if sources.vectorstore is None:
            searches.append(_ask_retriever(sources.base_retriever, query, settings, callbacks))
        else:
            searches.append(_search_vectors(sources, query, settings))
    if full_text.is_searched:
        searches += [_search_words(sources.docstore, query, settings) for query in queries]
    answers = yield from concurrently(searches, AT_ONCE)
    answers = [_in_namespace(answer, sources) for answer in answers]
    # The answers of the lexical searches, if there are any, follow those of the vector searches.
    by_vectors = answers[: len(queries)]
    by_words = answers[len(queries) :] or [[] for _ in queries]

    documents = [document for document, _ in itertools.chain.from_iterable(by_vectors)]
    check_filtered(documents, settings.search_kwargs.get("filter"), sources.name)
    identified = yield from _identify_adopted(sources.docstore, by_vectors)
    candidates = {}
    for query, vector_answer, lexical_answer in zip(queries, identified, by_words, strict=True):
        is_wrapped = sources.vectorstore is None
        by_chunk = _candidates_of(vector_answer, settings, is_wrapped=is_wrapped)
        _add_lexical(by_chunk, lexical_answer)
        candidates[query] = list(by_chunk.values())
    if sources.vectorstore is None:
        most = max(len(answer) for answer in by_vectors)
        warn_of_few(sources.base_retriever, most, settings.fetch_k)
    return Searched(candidates, len(documents), full_text.obstacle)


def check_search(sources: Sources, settings: QuerySettings) -> FullText:
    """Whether the full-text index is searched as well.

    Raises:
        ValueError: If the wrapped retriever or the full-text index cannot apply filters.
    """
    if sources.vectorstore is None:
        check_taken(sources.base_retriever, settings.search_kwargs)
    return full_text_of(sources, settings)


def _in_namespace(answer: list[_ScoredDocument], sources: Sources) -> list[_ScoredDocument]:
    """Keep the Documents in the namespace of the docstore, with a warning if there are others."""
    namespace = namespace_of(sources.docstore)
    own = []
    for document, score in answer:
        if namespace_in(document.metadata) == namespace:
            own.append((document, score))
    others = len(answer) - len(own)
    if others:
        refuse_namespaces(not namespace)
        warn(
            f"{others} of {len(answer)} Documents of {sources.name} are left out, as they are not "
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
    adapter = adapter_for(store)
    if namespace:
        arguments = adapter.search_arguments(namespace, arguments)
    threshold = arguments.pop(SCORE_THRESHOLD, None)
    # Relevance scores come second: not every metric has the function that computes them from
    # scores, and that function warns of values outside [0, 1].
    methods = ["similarity_search_with_score", "similarity_search_with_relevance_scores"]
    with during(f"searching {type(store).__name__}"):
        if threshold is not None:
            return (yield from _search_above(adapter, query, arguments, threshold))
        for name in methods:
            try:
                found = yield from adapter.search(name, query, arguments)
            except NotImplementedError:
                continue
            return [(document, finite_score(score)) for document, score in found]
        documents = yield from adapter.search("similarity_search", query, arguments)
    return [(document, None) for document in documents]


def _search_above(
    adapter: VectorStoreAdapter,
    query: str,
    arguments: Mapping[str, Any],
    threshold: Any,  # noqa: ANN401 - as the user gave it
) -> Steps[list[_ScoredDocument]]:
    """Search for chunks whose relevance score is at least a threshold, which LangChain defines.

    Raises:
        ValueError: If the store has no relevance scores, or if they rise from the best chunk to
            the worst, so that the best would be left out.
    """
    name = type(adapter.store).__name__
    least = finite_score(threshold)
    if least is None or not 0 <= least <= 1:
        raise ValueError(
            f"score_threshold is a relevance score, from 0 to 1; got {threshold!r:.200}. Scores of "
            f"{name}'s own have another range"
        )
    instead = f"Use min_relevance={least:g}, with calibration='identity' if scores are cosines"
    try:
        found = yield from adapter.search(
            "similarity_search_with_relevance_scores", query, arguments
        )
    except NotImplementedError as error:
        raise ValueError(
            f"{name} has no relevance scores, so score_threshold={least:g} would be ignored. "
            f"{instead}"
        ) from error
    scored = [(document, finite_score(score)) for document, score in found]
    known_scores = [score for _, score in scored if score is not None]
    for before, after in itertools.pairwise(known_scores):
        if after > before + _NOISE:
            raise ValueError(
                f"the relevance scores of {name} rise from {before:g} to {after:g} where chunks "
                f"get worse, as LangChain computes them for its metric, so "
                f"score_threshold={least:g} would leave out the best. {instead}"
            )
    relevant: list[_ScoredDocument] = []
    for document, score in scored:
        if score is not None and score >= least:
            relevant.append((document, score))
    return relevant


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
        try:
            found = yield from call(
                store.lexical_search,
                store.alexical_search,
                without_function_words(beginning_of(query)),
                _lexical_count(settings),
                filter=settings.search_kwargs.get("filter"),
            )
        except FullTextError as error:
            if settings.hybrid != "auto":
                raise
            if store.lexical:  # otherwise the store has just said that it has none
                warn(f"words are looked for among the candidates only: {error}")
            return []
    return list(found)


def _lexical_count(settings: QuerySettings) -> int:
    """The number of chunks to ask the full-text index for."""
    config = settings.config
    if config.rank_fusion == "mean":
        return settings.fetch_k
    return min(settings.fetch_k, math.ceil(min(_LEXICAL_DEPTH * config.decay_rate, 1e9)))


def _identify_adopted(
    docstore: BaseStore[str, Document], answers: Sequence[list[_ScoredDocument]]
) -> Steps[Sequence[list[_ScoredDocument]]]:
    """Add to vectors of an adopted index which chunk they are; leave out vectors of no chunk."""
    record_keys: dict[int, str] = {}  # by the identity of the Document
    for document, _ in itertools.chain.from_iterable(answers):
        vector_id = vector_id_of(document)
        if VERSION not in document.metadata and vector_id is not None:
            record_keys[id(document)] = adopted_key(vector_id)
    if not record_keys:
        return answers
    with during("reading from the docstore which chunks the candidates are"):
        records = yield from read_records(docstore, list(dict.fromkeys(record_keys.values())))
    identified = []
    for answer in answers:
        identified_answer: list[_ScoredDocument] = []
        for document, score in answer:
            record = records.get(record_keys.get(id(document), ""))
            if record is None:
                identified_answer.append((document, score))
            elif isinstance(record, CorruptRecordError):
                warn(f"a candidate is left out; adopt the index again: {record}")
            elif record.metadata.get(DOC_ID) is not None:
                metadata = {**document.metadata, **record.metadata}
                with_chunk = document.model_copy(update={"metadata": metadata})
                identified_answer.append((with_chunk, score))
        identified.append(identified_answer)
    return identified


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
    if not known or len(known) < len(scores):
        return list(scores)
    noise = _NOISE * max(abs(score) for score in known)
    for before, after in itertools.pairwise(known):
        if after < before - noise:
            return list(scores)
    if known[-1] - known[0] <= noise:
        return list(scores)
    return [None] * len(scores)


def finite_score(score: object) -> float | None:
    """A score as a float; None if it is not a finite number."""
    if isinstance(score, bool) or not isinstance(score, numbers.Real):
        return None
    with suppress(OverflowError):  # an integer larger than any float
        return float(score) if math.isfinite(score) else None
    return None


def _candidates_of(
    answer: Sequence[_ScoredDocument], settings: QuerySettings, *, is_wrapped: bool
) -> dict[ChunkKey, Candidate]:
    """Make candidates, each chunk once, with a warning for those that are left out.

    ``is_wrapped`` says that a wrapped retriever has found them.
    """
    candidates: dict[ChunkKey, Candidate] = {}
    errors: list[CandidateError] = []
    for number, (document, score) in enumerate(answer):
        if isinstance(document.metadata.get(SEGMENT), dict):
            raise CandidateError(
                f"candidate {number} (id {document.id!r}) is a segment, not a chunk. Wrap the "
                "retriever that returns chunks, not an RSERetriever or a store of segments"
            )
        try:
            candidate = _make_candidate(document, number, is_wrapped=is_wrapped)
        except CandidateError as error:
            if settings.on_missing == "raise":
                raise
            errors.append(error)
            continue
        judgment = judgment_of(document.metadata) if is_wrapped else {}
        candidate = candidate._replace(score=score, rank=len(candidates), judgment=judgment)
        candidates.setdefault(candidate.chunk_key, candidate)
    if errors:
        warn(
            f"{len(errors)} of {len(answer)} candidates are left out, as they do not say which "
            "chunk of which document they are (on_missing='split'). If other code added them to "
            f"an adopted index, adopt it again. The first one: {errors[0]}"
        )
    return candidates


def _add_lexical(candidates: dict[ChunkKey, Candidate], answer: Sequence[_ScoredDocument]) -> None:
    """Add the candidates of the full-text index, or its scores to those that are known."""
    for number, (document, score) in enumerate(answer):
        candidate = _make_candidate(document, number, is_wrapped=False)
        known = candidates.get(candidate.chunk_key, candidate)
        candidates[candidate.chunk_key] = known._replace(lexical_score=score, lexical_rank=number)


def _make_candidate(document: Document, number: int, *, is_wrapped: bool) -> Candidate:
    """Make a candidate of a Document that says which chunk it is."""
    doc_id = document.metadata.get(DOC_ID)
    version = document.metadata.get(VERSION)
    index = _whole_number(document.metadata.get(CHUNK_INDEX))
    if not isinstance(doc_id, str) or not doc_id:
        unknown = DOC_ID
    elif not isinstance(version, str) or not version:
        unknown = VERSION
    elif index is None or index < 0:
        unknown = CHUNK_INDEX
    else:
        return Candidate(document, doc_id, document_key(doc_id), version, index)
    raise CandidateError(
        f"candidate {number} (id {document.id!r}) has {unknown}={document.metadata.get(unknown)!r} "
        "in its metadata; RSE needs to know which chunk of which document it is. "
        f"{_HOW_TO_WRAP if is_wrapped else _HOW_TO_WRITE}. on_missing='split' leaves such "
        "candidates out"
    )


def _whole_number(value: object) -> int | None:
    """An integer that a store gives back as another kind of number; None for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value
