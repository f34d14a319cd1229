"""Search: finds candidates in a vector store or retriever, and in the full-text index."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, call, compute, concurrently, during
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CandidateError, CorruptRecordError, FullTextError
from langchain_rse.query.candidates import FULL_TEXT, VECTORS, Candidate, Candidates, Hit, Sources
from langchain_rse.query.filters import (
    FILTER,
    Filters,
    check_taken,
    fields_of,
    matches,
    warn_of_few,
)
from langchain_rse.stores.compare_and_set import read_records
from langchain_rse.stores.fulltext import check_filter, check_lexical
from langchain_rse.stores.namespaces import refuse_namespaces
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
from langchain_rse.stores.vectorstores import vector_id_of
from langchain_rse.text.quoting import as_unicode
from langchain_rse.text.words import MAX_QUERY_LENGTH, beginning_of, without_function_words

# Names under which retrievers leave scores in metadata, the usual one first. A "score" may be a
# distance; in the others, higher is better.
_SCORE = "score"
_SCORE_NAMES = (RELEVANCE_SCORE, _SCORE, "similarity_score", "similarity", "_score")

# Differences below this share of the largest score are rounding.
_NOISE = 1e-6

# The full-text index is asked for so many chunks, in units of `RSEConfig.decay_rate`: those that it
# ranks lower would have a relevance of less than 0.003.
_LEXICAL_DEPTH = 6

AT_ONCE = 8
"""The most searches at the same time, of one query or of several."""

# Relevance scores come second: not every metric has the function that computes them from scores,
# and that function warns of values outside [0, 1].
_METHODS = (
    "similarity_search_with_score",
    "similarity_search_with_relevance_scores",
    "similarity_search",
)

_ScoredDocument = tuple[Document, float | None]

_BRING_IN = (
    "Bring in an index of other code with RSERetriever.from_existing_index, and again when it has "
    "grown"
)
_HOW_TO_WRITE = (
    f"{_BRING_IN}; or write it with add_documents or RSEIndexer. retriever.indexer.check() lists "
    "the vectors that other code wrote"
)
# BM25Retriever and others are made from chunks: those of the docstore know what they are.
_HOW_TO_WRAP = (
    "Make a retriever that holds chunks itself from those of the docstore: "
    "BM25Retriever.from_documents(list(RSEIndexer(vectorstore, docstore).chunks())), with the "
    "stores that add_documents wrote to, and again when they have changed. "
    f"{_BRING_IN}. A retriever or reranker in between must keep ids and metadata"
)


class Found(NamedTuple):
    """What the searches for the queries of one question found."""

    candidates: Candidates  # of each query, best first
    documents: int  # the number of Documents that the search found, candidates or not
    obstacle: str = ""  # why the full-text index was not searched, where it would be


def queries_of(question: str, settings: QuerySettings, callbacks: Callbacks) -> Steps[list[str]]:
    """The queries to search for: those given or generated, or the question; none if it is empty."""
    queries = settings.queries
    if queries is None and settings.query_generator is not None and question.strip():
        queries = yield from _generate_queries(question, settings.query_generator, callbacks)
    distinct = list(dict.fromkeys(map(as_unicode, queries or [question])))
    longest = max(map(len, distinct))
    config = settings.config
    if longest > MAX_QUERY_LENGTH and (config.lexical_weight or config.name_weight):
        warn(
            f"a query has {longest:,} characters: only words among its first {MAX_QUERY_LENGTH:,} "
            "count; the vector store and the reranker get all of it. Ask a shorter question, or "
            "several with queries=[...]"
        )
    return [query for query in distinct if query.strip()]


def _generate_queries(
    question: str,
    generator: Any,  # noqa: ANN401 - a Runnable
    callbacks: Callbacks,
) -> Steps[Sequence[str]]:
    """Ask ``query_generator``; no queries, with a warning, if it makes none."""
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
    if not any(query.strip() for query in queries):
        warn(f"query_generator made no queries of {question!r:.200}: the question is searched for")
        return []
    return list(queries)


def check_search(sources: Sources, settings: QuerySettings) -> str | None:
    """Decide whether the full-text index is searched: None if it is, else why not.

    Raises:
        ValueError: If ``hybrid`` is a number above 0 and the index cannot be searched, or a wrapped
            retriever does not take a search argument.
    """
    if sources.vectorstore is None:
        check_taken(sources.base_retriever, settings.search_kwargs)
    if settings.hybrid == 0 or (settings.hybrid == "auto" and not settings.config.lexical_weight):
        return ""
    obstacle = _find_obstacle(sources, settings.search_kwargs)
    if obstacle is not None and settings.hybrid != "auto":
        raise ValueError(f"hybrid={settings.hybrid}: {obstacle}; or use hybrid=0")
    return obstacle


def _find_obstacle(sources: Sources, search_kwargs: Mapping[str, Any]) -> str | None:
    if sources.vectorstore is None:
        return "needs vectorstore, since filters inside a base_retriever are unknown"
    # Any other argument may be a filter, a number too, such as tenant=3.
    unknown = [name for name in search_kwargs if name != FILTER and search_kwargs[name] is not None]
    if unknown:
        return (
            f"the full-text index cannot apply {', '.join(unknown)} in search_kwargs. Use filter, "
            "a dict of fields and the values they equal"
        )
    is_plain = getattr(sources.docstore, "lexical", False) and not search_kwargs.get(FILTER)
    try:
        if not is_plain:
            check_lexical(sources.docstore)
            check_filter(search_kwargs.get(FILTER))
    except ValueError as error:
        return str(error)
    return None


def search(
    sources: Sources,
    queries: Sequence[str],
    settings: QuerySettings,
    filters: Filters,
    callbacks: Callbacks,
) -> Steps[Found]:
    """Find candidates for each query, each chunk at its best rank."""
    obstacle = check_search(sources, settings)
    searches = []
    for query in queries:
        if sources.vectorstore is None:
            searches.append(_ask_retriever(sources, query, settings, callbacks))
        else:
            searches.append(_search_vectors(sources, query, settings))
    if obstacle is None:
        searches += [_search_words(sources.docstore, query, settings) for query in queries]
    answers = yield from concurrently(searches, AT_ONCE)
    # The answers of the full-text index, if it is searched, follow those of the other searches.
    by_vectors = answers[: len(queries)]
    by_words = answers[len(queries) :] or [[] for _ in queries]

    if filters.checked:
        for document, _ in itertools.chain.from_iterable(by_vectors):
            if namespace_in(document.metadata) == sources.namespace:  # others are excluded
                filters.check_applied(document, sources.name)
    identified = yield from _identify_adopted(sources, by_vectors)
    candidates = {}
    for query, vector_answer, lexical_answer in zip(queries, identified, by_words, strict=True):
        by_chunk: dict[tuple[str, str, int], Candidate] = {}
        _add_hits(by_chunk, VECTORS, vector_answer, sources, settings)
        _add_hits(by_chunk, FULL_TEXT, lexical_answer, sources, settings)
        candidates[query] = list(by_chunk.values())
    counts = [len(answer) for answer in by_vectors]
    if sources.vectorstore is None:
        warn_of_few(sources.base_retriever, max(counts), settings.fetch_k)
    return Found(candidates, sum(counts), obstacle or "")


def _search_vectors(
    sources: Sources, query: str, settings: QuerySettings
) -> Steps[list[_ScoredDocument]]:
    """Search the vector store, with scores if it has them."""
    adapter: Any = sources.adapter
    arguments = {"k": settings.fetch_k, **_arguments_for(sources, settings.search_kwargs)}
    if sources.namespace:
        arguments = adapter.search_arguments(sources.namespace, arguments)
    found: list[Any] = []
    with during(f"searching {sources.name}"):
        for method in _METHODS:
            try:
                found = yield from adapter.search(method, query, arguments)
                break
            except NotImplementedError:
                if method == _METHODS[-1]:
                    raise
    if method == _METHODS[-1]:
        return [(document, None) for document in found]
    return [(document, finite_score(score)) for document, score in found]


def _arguments_for(sources: Sources, search_kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The search arguments as the store takes them: `InMemoryVectorStore` takes no dict as filter.

    Classes that derive from it may take dicts.
    """
    condition = search_kwargs.get(FILTER)
    store = None if sources.adapter is None else sources.adapter.store
    if type(store) is not InMemoryVectorStore or not condition or fields_of(condition) is None:
        return search_kwargs
    return {**search_kwargs, FILTER: lambda document: matches(condition, document.metadata)}


def _ask_retriever(
    sources: Sources, query: str, settings: QuerySettings, callbacks: Callbacks
) -> Steps[list[_ScoredDocument]]:
    retriever: Any = sources.base_retriever
    with during(f"asking {type(retriever).__name__} for candidates"):
        returned = yield from call(
            retriever.invoke,
            retriever.ainvoke,
            query,
            config={"callbacks": callbacks},
            **_arguments_for(sources, settings.search_kwargs),
        )
        documents = check_documents(returned, type(retriever).__name__)[: settings.fetch_k]
    for name in _SCORE_NAMES:  # all must have one under the same name
        if all(name in document.metadata for document in documents):
            scores = [finite_score(document.metadata[name]) for document in documents]
            if name != _SCORE:
                scores = without_rising_scores(scores)
            return list(zip(documents, scores, strict=True))
    return [(document, None) for document in documents]


def _search_words(
    docstore: object, query: str, settings: QuerySettings
) -> Steps[list[_ScoredDocument]]:
    """Search the full-text index."""
    store: Any = docstore
    count = settings.fetch_k
    if settings.config.rank_fusion == "decay":
        count = min(count, math.ceil(min(_LEXICAL_DEPTH * settings.config.decay_rate, 1e9)))
    with during(f"searching the full-text index of {type(store).__name__}"):
        try:
            found = yield from compute(
                store.lexical_search,
                without_function_words(beginning_of(query)),
                count,
                filter=settings.search_kwargs.get(FILTER),
            )
        except FullTextError as error:
            if settings.hybrid != "auto":
                raise
            if store.lexical:  # otherwise the store has just said that it has none
                warn(f"words are looked for among the candidates only: {error}")
            return []
    return list(found)


def _identify_adopted(
    sources: Sources, answers: Sequence[list[_ScoredDocument]]
) -> Steps[Sequence[list[_ScoredDocument]]]:
    """Add to vectors of an adopted index which chunk they are; drop vectors of no chunk."""
    record_keys: dict[int, str] = {}  # by the identity of the Document
    for document, _ in itertools.chain.from_iterable(answers):
        if VERSION not in document.metadata:
            vector_id = vector_id_of(document)
            if vector_id is not None:
                record_keys[id(document)] = adopted_key(vector_id)
    if not record_keys:
        return answers
    with during("reading from the docstore which chunks the candidates are"):
        keys = list(dict.fromkeys(record_keys.values()))
        records = yield from compute(read_records, sources.docstore, keys)
    identified = []
    for answer in answers:
        identified_answer: list[_ScoredDocument] = []
        for document, score in answer:
            record = records.get(record_keys.get(id(document), ""))
            if record is None:
                identified_answer.append((document, score))
            elif isinstance(record, CorruptRecordError):
                warn(f"a candidate is excluded; adopt the index again: {record}")
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


def _add_hits(
    candidates: dict[tuple[str, str, int], Candidate],
    search_name: str,
    answer: Sequence[_ScoredDocument],
    sources: Sources,
    settings: QuerySettings,
) -> None:
    """Add the candidates that a search found, each chunk once; warn of those excluded."""
    is_wrapped = sources.vectorstore is None
    errors: list[CandidateError] = []
    other_namespaces = 0
    rank = 0
    for number, (document, score) in enumerate(answer):
        if namespace_in(document.metadata) != sources.namespace:
            other_namespaces += 1
            continue
        try:
            candidate = _make_candidate(document, number, is_wrapped=is_wrapped)
        except CandidateError as error:
            if settings.on_missing == "raise" or isinstance(document.metadata.get(SEGMENT), dict):
                raise
            errors.append(error)
            continue
        known = candidates.setdefault(candidate.chunk_key, candidate)
        if search_name not in known.hits:
            known.hits[search_name] = Hit(rank, score)
            rank += 1
    if other_namespaces:
        refuse_namespaces(not sources.namespace)
        warn(
            f"{other_namespaces} of {len(answer)} Documents of {sources.name} are excluded, as "
            f"they are not in this namespace. Let it find only those with {NAMESPACE}="
            f"{sources.namespace!r} in their metadata, and return that metadata"
        )
    if errors:
        warn(
            f"{len(errors)} of {len(answer)} candidates are excluded, as they do not say which "
            "chunk of which document they are (on_missing='split'). If other code added them to "
            f"an adopted index, adopt it again. The first one: {errors[0]}"
        )


def _make_candidate(document: Document, number: int, *, is_wrapped: bool) -> Candidate:
    """Make a candidate of a Document that says which chunk it is."""
    metadata = document.metadata
    if isinstance(metadata.get(SEGMENT), dict):
        raise CandidateError(
            f"candidate {number} (id {document.id!r}) is a segment, not a chunk. Wrap the "
            "retriever that returns chunks, not an RSERetriever or a store of segments"
        )
    doc_id, version, index = metadata.get(DOC_ID), metadata.get(VERSION), metadata.get(CHUNK_INDEX)
    if type(index) is not int:
        index = _whole_number(index)
    if not isinstance(doc_id, str) or not doc_id:
        unknown = DOC_ID
    elif not isinstance(version, str) or not version:
        unknown = VERSION
    elif index is None or index < 0:
        unknown = CHUNK_INDEX
    else:
        judgment = judgment_of(metadata) if is_wrapped else {}
        return Candidate(document, doc_id, document_key(doc_id), version, index, {}, judgment)
    raise CandidateError(
        f"candidate {number} (id {document.id!r}) has {unknown}={metadata.get(unknown)!r} in its "
        "metadata; RSE needs to know which chunk of which document it is. "
        f"{_HOW_TO_WRAP if is_wrapped else _HOW_TO_WRITE}. on_missing='split' excludes such "
        "candidates"
    )


def _whole_number(value: object) -> int | None:
    """An integer that a store gives back as another kind of number; None for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value
