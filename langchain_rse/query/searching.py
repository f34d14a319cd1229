"""Search and rerank: finds candidates in the stores or the retriever, and reranks them."""

from __future__ import annotations

import itertools
import math
import numbers
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, call, compute, concurrently, during
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CandidateError, CorruptRecordError, FullTextError
from langchain_rse.query.candidates import (
    FULL_TEXT,
    IS_RELEVANT,
    RELEVANCE_EXPLANATION,
    RELEVANCE_FAILURE,
    RERANKER,
    VECTORS,
    Candidate,
    Candidates,
    ChunkKey,
    Hit,
    Sources,
    judgment_of,
)
from langchain_rse.query.filters import FILTER, Filters
from langchain_rse.query.witnesses import names_in, rank_query
from langchain_rse.stores.compare_and_set import read_records, refuse_namespaces
from langchain_rse.stores.conditions import as_function
from langchain_rse.stores.fulltext import check_filter, check_lexical
from langchain_rse.stores.records import (
    CHUNK_INDEX,
    DOC_ID,
    NAMESPACE,
    RELEVANCE_SCORE,
    VERSION,
    adopted_key,
    document_key,
    namespace_in,
)
from langchain_rse.stores.vectorstores import vector_id_of
from langchain_rse.text.quoting import encodable
from langchain_rse.text.words import MAX_QUERY_LENGTH, TextWords, without_function_words

# Number of chunks to fetch from the full-text index, in units of `RSEConfig.decay_rate`. Chunks at
# lower ranks would have a relevance below 0.02; recall is no higher with more of them.
_LEXICAL_DEPTH = 4

AT_ONCE = 8
"""Maximum number of concurrent searches."""

_Answer = list[tuple[Document, float | None]]
"""The Documents that a search returned, with their scores."""

# What to do if a candidate is no chunk of the index.
_OTHER_VECTORS = (
    "this vector store was filled by other code. Use RSERetriever.from_existing_index(vectorstore, "
    "docstore), and again whenever that code changes it; retriever.indexer.check() lists its "
    "vectors"
)
_OTHER_TEXTS = (
    "base_retriever must return chunks of this index with their metadata, not passages or other "
    "texts. Build it from RSEIndexer(vectorstore, docstore).chunks(), for example "
    "BM25Retriever.from_documents(list(...)), and again whenever documents change"
)


def queries_of(question: str, settings: QuerySettings, callbacks: Callbacks) -> Steps[list[str]]:
    """Return the queries to search for: given, generated, or the question itself.

    Blank queries are dropped, so the list is empty for an empty question.
    """
    queries = settings.queries
    if queries is None and settings.query_generator is not None and question.strip():
        generator: Any = settings.query_generator
        with during("asking query_generator for queries"):
            queries = yield from call(
                generator.invoke, generator.ainvoke, question, config={"callbacks": callbacks}
            )
            is_list = isinstance(queries, (list, tuple))
            if not is_list or not all(isinstance(query, str) for query in queries):
                raise TypeError(
                    f"query_generator must return a list of strings; got {queries!r:.200}. If a "
                    "model answers with one text, add a parser that splits it into lines"
                )
        if not any(query.strip() for query in queries):
            queries = None
            warn(
                f"query_generator returned no queries for {question!r:.200}: using the question "
                "itself"
            )
    distinct = list(dict.fromkeys(map(encodable, queries or [question])))
    longest = max(map(len, distinct))
    config = settings.config
    if longest > MAX_QUERY_LENGTH and (config.lexical_weight or config.name_weight):
        warn(
            f"a query has {longest:,} characters, but keyword matching uses only the first "
            f"{MAX_QUERY_LENGTH:,}. The vector store and the reranker get all of it. Ask a shorter "
            "question, or several with queries=[...]"
        )
    return [query for query in distinct if query.strip()]


def check_search(sources: Sources, settings: QuerySettings) -> str | None:
    """Decide whether to search the full-text index: None means yes, else the reason why not.

    Raises:
        ValueError: If ``hybrid`` is a number above 0 and the index cannot be searched, or if a
            wrapped retriever would get search arguments, which LangChain may drop.
    """
    arguments = list(settings.search_kwargs)
    if arguments and sources.vectorstore is None:
        raise ValueError(
            f"base_retriever takes no {', '.join(arguments)}, because LangChain may drop search "
            "arguments. Filter inside base_retriever and set candidates_only=True; or pass "
            "vectorstore=... instead"
        )
    if settings.hybrid == 0 or (settings.hybrid == "auto" and not settings.config.lexical_weight):
        return ""
    # Any other argument may be a filter, even a number such as tenant=3.
    unknown = [name for name in arguments if name != FILTER]
    obstacle = None
    if sources.vectorstore is None:
        obstacle = "needs vectorstore, because filters inside a base_retriever are unknown"
    elif unknown:
        obstacle = (
            f"the full-text index cannot apply {', '.join(unknown)} from search_kwargs. Use "
            "filter, a dict of fields and values"
        )
    else:
        try:
            check_lexical(sources.docstore)
            check_filter(settings.search_kwargs.get(FILTER))
        except ValueError as error:
            obstacle = str(error)
    if obstacle is not None and settings.hybrid != "auto":
        raise ValueError(f"hybrid={settings.hybrid}: {obstacle}; or use hybrid=0")
    return obstacle


def search(
    sources: Sources,
    queries: Sequence[str],
    settings: QuerySettings,
    filters: Filters,
    callbacks: Callbacks,
) -> Steps[tuple[Candidates, str, int]]:
    """Search for each query; each chunk becomes one candidate, at its best rank.

    Returns:
        The candidates of each query, best first; why the full-text index was not searched although
        it is enabled; and the number of Documents that the vector store or retriever returned.
    """
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
    # If the full-text index is searched, its answers follow the answers of the other searches.
    by_vectors = answers[: len(queries)]
    by_words = answers[len(queries) :] or [[] for _ in queries]

    if filters.checked:
        for document, _ in itertools.chain.from_iterable(by_vectors):
            if namespace_in(document.metadata) == sources.namespace:  # others are excluded
                filters.check_applied(document, sources.name)
    identified = yield from _identify_adopted(sources, by_vectors)
    found = itertools.chain.from_iterable([*identified, *by_words])
    texts = TextWords(document.page_content for document, _ in found)
    candidates = {}
    for query, vector_answer, lexical_answer in zip(queries, identified, by_words, strict=True):
        by_chunk: dict[ChunkKey, Candidate] = {}
        _add_hits(by_chunk, VECTORS, vector_answer, sources, texts)
        _add_hits(by_chunk, FULL_TEXT, lexical_answer, sources, texts)
        candidates[query] = list(by_chunk.values())
    return candidates, obstacle or "", sum(map(len, by_vectors))


def _search_vectors(sources: Sources, query: str, settings: QuerySettings) -> Steps[_Answer]:
    """Search the vector store, with scores if it has them."""
    adapter: Any = sources.adapter
    arguments: Mapping[str, Any] = {**settings.search_kwargs, "k": settings.fetch_k}
    if type(adapter.store) is InMemoryVectorStore and FILTER in arguments:
        # It accepts only a function; a class derived from it may accept dicts.
        arguments = {**arguments, FILTER: as_function(arguments[FILTER])}
    if sources.namespace:
        arguments = adapter.search_arguments(sources.namespace, arguments)
    with during(f"searching {sources.name}"):
        try:
            found = yield from adapter.search("similarity_search_with_score", query, arguments)
        except NotImplementedError:
            documents = yield from adapter.search("similarity_search", query, arguments)
            return [(document, None) for document in documents]
    return [(document, finite_score(score)) for document, score in found]


def _ask_retriever(
    sources: Sources,
    query: str,
    settings: QuerySettings,
    callbacks: Callbacks,
) -> Steps[_Answer]:
    retriever: Any = sources.base_retriever
    with during(f"asking {type(retriever).__name__} for candidates"):
        returned = yield from call(
            retriever.invoke,
            retriever.ainvoke,
            query,
            config={"callbacks": callbacks},
        )
        documents = check_documents(returned, type(retriever).__name__)[: settings.fetch_k]
    scores = [finite_score(document.metadata.get(RELEVANCE_SCORE)) for document in documents]
    return list(zip(documents, without_rising_scores(scores), strict=True))


def _search_words(docstore: object, query: str, settings: QuerySettings) -> Steps[_Answer]:
    """Search the full-text index."""
    store: Any = docstore
    count = settings.fetch_k
    if settings.config.rank_fusion == "decay":
        count = math.ceil(min(count, _LEXICAL_DEPTH * settings.config.decay_rate))
    with during(f"searching the full-text index of {type(store).__name__}"):
        try:
            found = yield from compute(
                store.lexical_search,
                without_function_words(query),
                count,
                filter=settings.search_kwargs.get(FILTER),
            )
        except FullTextError as error:
            if settings.hybrid != "auto":
                raise
            if store.lexical:  # else the store has just found that it has no index
                warn(f"keyword search covers only the candidates of the vector search: {error}")
            return []
    return list(found)


def _identify_adopted(sources: Sources, answers: Sequence[_Answer]) -> Steps[Sequence[_Answer]]:
    """Add the chunk's identity to vectors of an adopted index; drop vectors of no chunk."""
    record_keys: dict[int, str] = {}  # by the identity of the Document
    for document, _ in itertools.chain.from_iterable(answers):
        if VERSION not in document.metadata:
            vector_id = vector_id_of(document)
            if vector_id is not None:
                record_keys[id(document)] = adopted_key(vector_id)
    if not record_keys:
        return answers
    with during("identifying candidates of an adopted index in the docstore"):
        keys = list(dict.fromkeys(record_keys.values()))
        records = yield from compute(read_records, sources.docstore, keys)
    identified = []
    for answer in answers:
        identified_answer: _Answer = []
        for document, score in answer:
            record = records.get(record_keys.get(id(document), ""))
            if record is None:
                identified_answer.append((document, score))
            elif isinstance(record, CorruptRecordError):
                warn(f"a candidate is excluded: {record}. Adopt the index again")
            elif record.metadata.get(DOC_ID) is not None:
                metadata = {**document.metadata, **record.metadata}
                with_chunk = document.model_copy(update={"metadata": metadata})
                identified_answer.append((with_chunk, score))
        identified.append(identified_answer)
    return identified


def check_documents(returned: object, name: str) -> list[Document]:
    """Check that a retriever or compressor returned Documents; raise a TypeError if not."""
    # A single Document is iterable too: it yields its fields.
    documents: list[Any] = list(returned) if isinstance(returned, Iterable) else [None]
    if not all(isinstance(document, Document) for document in documents):
        raise TypeError(f"{name} must return Documents; got {returned!r:.200}")
    return documents


def without_rising_scores(scores: Sequence[float | None]) -> Sequence[float | None]:
    """Return relevance scores of candidates that come best first; all None if they rise.

    Scores that rise would count as distances.
    """
    known = [score for score in scores if score is not None]
    is_rising = known == sorted(known) and known != known[::-1]
    if is_rising and len(known) == len(scores):
        return [None] * len(scores)
    return scores


def finite_score(score: Any) -> float | None:  # noqa: ANN401 - checked here
    """Return a score as a float; None if it is not a finite number."""
    # The common case is checked first, for speed.
    is_number = type(score) is float or _is_number(score)
    try:
        number = float(score) if is_number else math.nan
    except OverflowError:  # an integer larger than any float
        return None
    return number if math.isfinite(number) else None


def _add_hits(
    candidates: dict[ChunkKey, Candidate],
    search_name: str,
    answer: _Answer,
    sources: Sources,
    texts: TextWords,
) -> None:
    """Add the candidates of a search, each chunk once; warn of those in other namespaces."""
    namespaces = [namespace_in(document.metadata) for document, _ in answer]
    others = len(answer) - namespaces.count(sources.namespace)
    if others:
        refuse_namespaces(not sources.namespace)
        warn(
            f"{others} of {len(answer)} Documents from {sources.name} are excluded "
            "because they are in another namespace. Make it return only Documents with "
            f"{NAMESPACE}={sources.namespace!r} in their metadata, and keep that field"
        )
    rank = 0
    for namespace, (document, score) in zip(namespaces, answer, strict=True):
        if namespace != sources.namespace:
            continue
        candidate = _make_candidate(document, sources, texts)
        known = candidates.setdefault(candidate.chunk_key, candidate)
        if search_name not in known.hits:
            known.hits[search_name] = Hit(rank, score)
            rank += 1


def _make_candidate(document: Document, sources: Sources, texts: TextWords) -> Candidate:
    """Make a candidate from a Document whose metadata identifies a chunk."""
    metadata = document.metadata
    doc_id: Any = metadata.get(DOC_ID)
    version: Any = metadata.get(VERSION)
    index: Any = metadata.get(CHUNK_INDEX)
    # Some stores convert numbers to another type.
    is_chunk = type(index) is int or (_is_number(index) and index % 1 == 0)
    is_named = isinstance(doc_id, str) and doc_id and isinstance(version, str) and version
    if not is_named or not is_chunk or index < 0:
        remedy = _OTHER_TEXTS if sources.adapter is None else _OTHER_VECTORS
        fields = {name: metadata.get(name) for name in (DOC_ID, VERSION, CHUNK_INDEX)}
        raise CandidateError(
            f"{remedy} (a candidate, id {document.id!r}, has {fields!r:.200} in its metadata)"
        )
    judgment = judgment_of(metadata) if sources.vectorstore is None else {}
    text = texts.numbers[document.page_content]
    key = document_key(doc_id)
    return Candidate(document, doc_id, key, version, int(index), texts, text, {}, judgment)


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


# Reranking

# Metadata that rerankers and relevance filters write.
_WRITTEN = frozenset({RELEVANCE_SCORE, IS_RELEVANT, RELEVANCE_EXPLANATION, RELEVANCE_FAILURE})
# Fields that limit what a compressor returns.
_LIMITS = ("k", "top_k", "top_n")


def is_reranker(compressor: object) -> bool:
    """True if the class name of a document compressor shows that it sorts by relevance.

    False for compressors that judge each document by the question; they need the whole question.
    """
    name = type(compressor).__name__
    return name == "VertexAIRank" or "Rerank" in name


def find_candidates(
    sources: Sources,
    queries: Sequence[str],
    settings: QuerySettings,
    filters: Filters,
) -> Steps[Candidates]:
    """Search for candidates, then rerank them."""
    found, _, _ = yield from search(sources, queries, settings, filters, None)
    return (yield from rerank(found, settings, None))


def rerank(
    candidates: Candidates, settings: QuerySettings, callbacks: Callbacks
) -> Steps[Candidates]:
    """Rerank the candidates of each query; return the kept ones in the new order, with scores.

    Without a reranker, return the candidates unchanged.
    """
    if settings.reranker is None:
        return candidates
    tasks = [
        _rerank_query(query, found, settings, settings.reranker, callbacks)
        for query, found in candidates.items()
    ]
    reranked = yield from concurrently(tasks, AT_ONCE)
    return dict(zip(candidates, reranked, strict=True))


def _rerank_query(
    query: str,
    candidates: Sequence[Candidate],
    settings: QuerySettings,
    reranker: BaseDocumentCompressor,
    callbacks: Callbacks,
) -> Steps[Sequence[Candidate]]:
    """Rerank the candidates of one query, at most ``fetch_k``: each costs time and money."""
    if not candidates:
        return candidates
    if len(candidates) > settings.fetch_k:
        ranked = rank_query(query, candidates, settings.model_copy(update={"reranker": None}))
        best = {candidate.chunk_key for candidate in ranked[: settings.fetch_k]}
        candidates = [each for each in candidates if each.chunk_key in best]
    query_to_rerank = query
    # Rerankers prefer chunks that repeat the names of documents over chunks that answer.
    is_short = len(query) <= MAX_QUERY_LENGTH
    if settings.config.name_weight and is_reranker(reranker) and is_short:
        gaps, rest_of_query = names_in(query, candidates)
        if gaps.any():
            query_to_rerank = rest_of_query
    name = type(reranker).__name__
    with during(f"reranking with {name}"):
        returned = yield from call(
            reranker.compress_documents,
            reranker.acompress_documents,
            [_without_judgment(candidate.document) for candidate in candidates],
            query_to_rerank,
            callbacks=callbacks,
        )
        documents = check_documents(returned, name)
    if len(documents) < len(candidates):
        _warn_of_limit(reranker, len(documents))
    matched = list(_matched(candidates, documents, name))
    scores = without_rising_scores(
        [finite_score(document.metadata.get(RELEVANCE_SCORE)) for _, document in matched]
    )
    reranked = []
    for rank, ((candidate, document), score) in enumerate(zip(matched, scores, strict=True)):
        hits = {**candidate.hits, RERANKER: Hit(rank, score)}
        judgment = judgment_of(document.metadata) or candidate.judgment
        reranked.append(candidate._replace(hits=hits, judgment=judgment))
    return reranked


def _warn_of_limit(reranker: BaseDocumentCompressor, returned: int) -> None:
    """Warn if a field of the reranker limits how many candidates it returns."""
    for field in _LIMITS:
        if getattr(reranker, field, None) == returned:
            warn(
                f"{type(reranker).__name__} keeps only {field}={returned} candidates, so passages "
                "contain only these and chunks between them. To rank all candidates, set "
                f"{field}=None on the reranker, or {field}=fetch_k if it does not accept None"
            )
            return


def _without_judgment(document: Document) -> Document:
    """Copy a document without earlier judgments; compressors modify the documents they get."""
    metadata = {name: value for name, value in document.metadata.items() if name not in _WRITTEN}
    return document.model_copy(update={"metadata": metadata})


def _matched(
    candidates: Sequence[Candidate], returned: Sequence[Document], name: str
) -> Iterator[tuple[Candidate, Document]]:
    """Yield pairs of a candidate and the Document that the reranker returned for it."""
    candidates_of: defaultdict[object, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        candidates_of[candidate.chunk_key].append(candidate)
        candidates_of[candidate.document.page_content].append(candidate)
    used: set[ChunkKey] = set()
    for document in returned:
        identity = tuple(document.metadata.get(field) for field in (DOC_ID, VERSION, CHUNK_INDEX))
        # If the metadata is lost, chunks with equal text are interchangeable.
        key = document.page_content if None in identity else identity
        if key not in candidates_of:
            raise CandidateError(
                f"{name} returned a Document that is not one of its inputs: id {document.id!r}, "
                f"text {document.page_content[:40]!r}. A reranker must return its input Documents, "
                "with their metadata or text"
            )
        for candidate in candidates_of[key]:
            if candidate.chunk_key not in used:
                used.add(candidate.chunk_key)
                yield candidate, document
                break
