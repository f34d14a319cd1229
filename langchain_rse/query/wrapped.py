"""Inspects a wrapped retriever: the arguments it takes, its filters, and how much it returns."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

from langchain_rse._messages import warn
from langchain_rse.config import QuerySettings
from langchain_rse.query.search_arguments import (
    SCORE_THRESHOLD,
    fields_of,
    filters_of,
    may_exclude,
)
from langchain_rse.stores.vectorstores import adapter_for
from langchain_rse.text.quoting import first_few

# Fields in which retrievers hold the retrievers that they call.
_INNER = ("retrievers", "base_retriever", "retriever", "bound", "runnable", "fallbacks")
# Retrievers that leave chunks out only by their search arguments and by relevance.
_NOT_FILTERING = frozenset(
    {
        *("BM25Retriever", "KNNRetriever", "NanoPQRetriever", "SVMRetriever", "TFIDFRetriever"),
        *("ContextualCompressionRetriever", "EnsembleRetriever", "MergerRetriever"),
        *("MultiQueryRetriever", "RePhraseQueryRetriever", "RunnableBinding", "RunnableRetry"),
        *("RunnableWithFallbacks", "VectorStoreRetriever"),
    }
)
# Document compressors that leave chunks out only by relevance, as all with "Rerank" in the name.
_RANKING = frozenset(
    {
        *("EmbeddingsFilter", "EmbeddingsRedundantFilter", "LLMChainExtractor", "LLMChainFilter"),
        *("LMBasedRelevanceFilter", "SimilarityBasedRelevanceFilter"),
    }
)
# Fields that limit what a retriever or compressor returns.
LIMITS = ("k", "top_k", "top_n")
_DEFAULT_LIMIT = 4  # LangChain's, of a retriever over a vector store
_MOST_BY_DEFAULT = 10  # a larger limit was set on purpose


def check_taken(retriever: object, search_kwargs: Mapping[str, Any]) -> None:
    """Raise a ValueError for a search argument that LangChain would drop, or that replaces one."""
    _check_threshold(retriever, search_kwargs)
    inner_arguments = []
    for name, value in inspect_retriever(retriever).arguments:
        if may_exclude({name: value}):
            inner_arguments.append((name, value))
    for name, value in search_kwargs.items():
        refusing_class = _class_refusing(retriever, name)
        if refusing_class is not None:
            if value is not None and value != {}:
                raise ValueError(
                    f"{refusing_class} takes no search argument {name!r} (got {value!r:.200}), and "
                    "LangChain would drop it. Filter inside the retriever and set "
                    "candidates_only=True; or give vectorstore=... instead of base_retriever"
                )
            continue
        for inner_name, inner_value in inner_arguments:
            if inner_name == name and inner_value != value:
                raise ValueError(
                    f"search argument {name!r} (got {value!r:.200}) would replace that of the "
                    f"wrapped retriever, {inner_value!r:.200}. Give {name!r} in one place: to the "
                    "wrapped retriever, or in search_kwargs of the RSERetriever"
                )


def _check_threshold(retriever: object, search_kwargs: Mapping[str, Any]) -> None:
    """Raise a ValueError for a score threshold that a wrapped vector store ignores."""
    if isinstance(retriever, VectorStoreRetriever):
        arguments = {**retriever.search_kwargs, **search_kwargs}
        threshold = arguments.get(SCORE_THRESHOLD)
        if threshold is None or retriever.search_type == "similarity_score_threshold":
            return
        store = retriever.vectorstore
        has_scores = retriever.search_type == "similarity"
        if not (has_scores and adapter_for(store).applies_score_threshold):
            raise ValueError(
                f"as_retriever(search_type={retriever.search_type!r}) does not keep to "
                f"score_threshold={threshold!r:.200}: it is not known that {type(store).__name__} "
                "applies it. Use as_retriever(search_type='similarity_score_threshold', "
                "search_kwargs={'score_threshold': ...}), or min_relevance of the RSERetriever"
            )
        return
    bound_arguments = getattr(retriever, "kwargs", None)
    if isinstance(bound_arguments, Mapping):
        search_kwargs = {**bound_arguments, **search_kwargs}
    for inner in _inner_retrievers(retriever):
        _check_threshold(inner, search_kwargs)


def _class_refusing(retriever: object, name: str) -> str | None:
    """Find the first class, of a retriever and those it calls, that does not take an argument."""
    if not isinstance(retriever, BaseRetriever):
        return None
    # LangChain decides by this method, for async calls as well.
    parameters = inspect.signature(type(retriever)._get_relevant_documents).parameters  # noqa: SLF001
    if name in parameters:
        return None
    takes_any_name = any(
        parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    if not takes_any_name:
        return type(retriever).__name__
    for inner in _inner_retrievers(retriever):
        refusing_class = _class_refusing(inner, name)
        if refusing_class is not None:
            return refusing_class
    return None


class Conditions(NamedTuple):
    """What may leave chunks out of the candidates for other reasons than relevance."""

    filters: Sequence[object]  # those of the query and of wrapped retrievers
    # True if segments may contain candidates only; a filter that is not understood makes it so.
    candidates_only: bool | None


def conditions_of(
    settings: QuerySettings, retriever: object, compressor: object = None
) -> Conditions:
    """Find out which chunks segments may contain, with a warning if that is unknown.

    ``compressor`` is a reranker that has dropped candidates.
    """
    wrapped = inspect_retriever(retriever)
    filters: list[tuple[str, Any]] = list(filters_of(settings.search_kwargs).items())
    for name, value in wrapped.arguments:
        if name != "k":
            filters += filters_of({name: value}).items()
    unknown_classes = list(wrapped.unknown_classes)
    if compressor is not None:
        unknown_classes.insert(0, type(compressor).__name__)
    candidates_only = settings.candidates_only
    if candidates_only is None and unknown_classes:
        candidates_only = True
        warn(
            f"{first_few(dict.fromkeys(unknown_classes))} may leave chunks out for other reasons "
            "than relevance, so segments contain only the candidates. Set candidates_only=False if "
            "it does not filter, to fill in the chunks between candidates; else "
            "candidates_only=True"
        )
    for name, value in filters:
        if not candidates_only and fields_of(value) is None:
            candidates_only = True
            warn(
                f"the search argument {name}={value!r:.200} is not a dict of fields and values, so "
                "segments contain only the candidates. Give such a dict if the vector store takes "
                "one; else set candidates_only=True"
            )
    return Conditions([value for _, value in filters], candidates_only)


class Wrapped(NamedTuple):
    """What a retriever and those that it calls may leave chunks out by."""

    arguments: list[tuple[str, Any]]  # the search arguments that they hold
    unknown_classes: list[str]  # classes that may filter by themselves


def inspect_retriever(retriever: object) -> Wrapped:
    """Find the search arguments and filters of a retriever and those that it calls."""
    wrapped = Wrapped([], [])
    if retriever is None:
        return wrapped
    if type(retriever).__name__ not in _NOT_FILTERING:
        wrapped.unknown_classes.append(type(retriever).__name__)
        return wrapped
    for field in ("search_kwargs", "kwargs"):
        arguments = getattr(retriever, field, None) or {}
        wrapped.arguments.extend(arguments.items())
    compressor = getattr(retriever, "base_compressor", None)
    if compressor is not None and not drops_by_relevance(compressor):
        wrapped.unknown_classes.append(type(compressor).__name__)
    for inner in _inner_retrievers(retriever):
        inner_wrapped = inspect_retriever(inner)
        wrapped.arguments.extend(inner_wrapped.arguments)
        wrapped.unknown_classes.extend(inner_wrapped.unknown_classes)
    return wrapped


def drops_by_relevance(compressor: object) -> bool:
    """True if a document compressor is known to drop documents only by their relevance."""
    name = type(compressor).__name__
    if name == "DocumentCompressorPipeline":
        return all(map(drops_by_relevance, getattr(compressor, "transformers", ())))
    return name in _RANKING or is_reranker(compressor)


def is_reranker(compressor: object) -> bool:
    """True if a document compressor is known, by its name, to sort documents by relevance.

    False for those that judge each document by the question, and for unknown ones.
    """
    name = type(compressor).__name__
    return name == "VertexAIRank" or "Rerank" in name


def _inner_retrievers(retriever: object) -> list[object]:
    """The retrievers that a retriever calls, and other values of the fields that hold them."""
    inner: list[object] = []
    for field in _INNER:
        value = getattr(retriever, field, None)
        if isinstance(value, (list, tuple)):
            inner.extend(value)
        elif value is not None:
            inner.append(value)
    return inner


class _Limit(NamedTuple):
    """The number of candidates that a retriever returns at most."""

    number: int
    advice: str  # the limit in words, and how it is raised


def warn_of_few(retriever: object, returned: int, fetch_k: int) -> None:
    """Warn if a retriever, or those that it calls, return only a few chunks by default."""
    limits = _limits_of(retriever, fetch_k)
    if not limits:
        return
    numbers = [limit.number for limit in limits]
    # A compressor may have dropped some.
    least = 1 if hasattr(retriever, "base_compressor") else max(min(numbers), 1)
    is_cut_off = least <= returned <= sum(numbers) < fetch_k
    if is_cut_off and max(numbers) <= _MOST_BY_DEFAULT:
        advice = "; ".join(dict.fromkeys(limit.advice for limit in limits))
        warn(
            f"{advice}. Segments are made of these {returned} candidates and the chunks between "
            "them"
        )


def _limits_of(retriever: object, fetch_k: int) -> list[_Limit]:
    """Find the limits of a retriever and those that it calls."""
    if not isinstance(retriever, BaseRetriever):
        return []
    only = f"{type(retriever).__name__} returns only its"
    for field in LIMITS:
        number = getattr(retriever, field, None)
        if isinstance(number, int):
            return [_Limit(number, f"{only} {field}={number} candidates: set {field}={fetch_k}")]
    if isinstance(getattr(retriever, "vectorstore", None), VectorStore):
        search_kwargs = getattr(retriever, "search_kwargs", None) or {}
        k = search_kwargs.get("k", _DEFAULT_LIMIT)
        advice = f"use as_retriever(search_kwargs={{'k': {fetch_k}}})"
        return [_Limit(k, f"{only} search_kwargs k={k} candidates: {advice}")]
    limits = []
    for inner in _inner_retrievers(retriever):
        limits += _limits_of(inner, fetch_k)
    return limits
