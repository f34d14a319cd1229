"""Inspects a wrapped retriever: the arguments it takes, its filters, and how much it returns."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from langchain_rse._messages import first_few, warn
from langchain_rse.config import QuerySettings
from langchain_rse.query.search_arguments import may_exclude

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
        *("LMBasedRelevanceFilter", "SimilarityBasedRelevanceFilter", "VertexAIRank"),
    }
)
# Fields that limit what a retriever or compressor returns.
LIMITS = ("k", "top_k", "top_n")
DEFAULT_LIMIT = 4  # LangChain's, of a retriever over a vector store
_MOST_BY_DEFAULT = 10  # a larger limit was set on purpose


def check_taken(retriever: object, search_kwargs: Mapping[str, Any]) -> None:
    """Raise a ValueError for a search argument that LangChain would drop, or that replaces one."""
    inside = [(name, held) for name, held in _inside(retriever) if may_exclude({name: held})]
    for name, value in search_kwargs.items():
        if refusing := _refusing(retriever, name):
            if value is not None and value != {}:
                raise ValueError(
                    f"{refusing} takes no search argument {name!r} (got {value!r:.200}), and "
                    "LangChain would drop it. Filter inside the retriever and set "
                    "candidates_only=True; or give vectorstore=... instead of base_retriever"
                )
            continue
        replaced = [held for known, held in inside if known == name and held != value]
        if replaced:
            raise ValueError(
                f"search argument {name!r} (got {value!r:.200}) would replace that of the wrapped "
                f"retriever, {replaced[0]!r:.200}. Give {name!r} in one place: to the wrapped "
                "retriever, or in search_kwargs of the RSERetriever"
            )


def _refusing(retriever: object, name: str) -> str:
    """Find the first class, of a retriever and those it calls, that does not take an argument."""
    if not isinstance(retriever, BaseRetriever):
        return ""
    # LangChain decides by this method, for async calls as well.
    parameters = inspect.signature(type(retriever)._get_relevant_documents).parameters  # noqa: SLF001
    if name in parameters:
        return ""
    if all(parameter.kind != parameter.VAR_KEYWORD for parameter in parameters.values()):
        return type(retriever).__name__
    return next(filter(None, (_refusing(inner, name) for inner in _inner(retriever))), "")


def with_filters_inside(
    settings: QuerySettings, retriever: object, compressor: object
) -> QuerySettings:
    """Return the settings with all values of each search argument, also those of the retrievers."""
    if retriever is None and compressor is None:
        return settings
    unknown = [] if compressor is None else [type(compressor).__name__]
    arguments: dict[str, list[Any]] = {}
    for name, value in [*settings.search_kwargs.items(), *_inside(retriever)]:
        if not name:
            unknown.append(value)
        elif value is not None and value != {} and name != "k":
            arguments.setdefault(name, []).append(value)
    alone = settings.candidates_only
    if unknown and alone is None:
        alone = True
        warn(
            f"{first_few(dict.fromkeys(unknown))} may leave chunks out for other reasons than "
            "relevance, so segments contain only the candidates. Set candidates_only=False if it "
            "does not filter, to fill in the chunks between candidates; else candidates_only=True"
        )
    return settings.model_copy(update={"candidates_only": alone, "search_kwargs": arguments})


def _inside(retriever: object) -> Iterator[tuple[str, Any]]:
    """Yield the search arguments that retrievers hold; "" and the class for one that may filter."""
    if retriever is None:
        return
    if type(retriever).__name__ not in _NOT_FILTERING:
        yield "", type(retriever).__name__
        return
    for arguments in ("search_kwargs", "kwargs"):
        yield from (getattr(retriever, arguments, None) or {}).items()
    compressor = getattr(retriever, "base_compressor", None)
    if compressor is not None and not drops_by_relevance(compressor):
        yield "", type(compressor).__name__
    for inner in _inner(retriever):
        yield from _inside(inner)


def drops_by_relevance(compressor: object) -> bool:
    """True if a document compressor is known to drop documents only by their relevance."""
    name = type(compressor).__name__
    if name == "DocumentCompressorPipeline":
        return all(map(drops_by_relevance, getattr(compressor, "transformers", ())))
    return name in _RANKING or "Rerank" in name


def _inner(retriever: object) -> Iterator[object]:
    for field in _INNER:
        value = getattr(retriever, field, None)
        yield from value if isinstance(value, (list, tuple)) else [value]


def warn_of_few(retriever: object, returned: int, fetch_k: int) -> None:
    """Warn if a retriever, or those that it calls, return only a few chunks by default."""
    found = list(_limits(retriever, fetch_k))
    limits = [limit for _, limit in found] or [0]
    # A compressor may have dropped some.
    least = 1 if hasattr(retriever, "base_compressor") else max(min(limits), 1)
    if least <= returned <= sum(limits) < fetch_k and max(limits) <= _MOST_BY_DEFAULT:
        warn(
            f"{'; '.join(dict(found))}. Segments are made of these {returned} candidates and the "
            "chunks between them"
        )


def _limits(retriever: object, fetch_k: int) -> Iterator[tuple[str, int]]:
    """Yield each limit with its part of the warning."""
    if not isinstance(retriever, BaseRetriever):
        return
    only = f"{type(retriever).__name__} returns only its"
    for field in LIMITS:
        limit = getattr(retriever, field, None)
        if isinstance(limit, int):
            yield f"{only} {field}={limit} candidates: set {field}={fetch_k}", limit
            return
    if isinstance(getattr(retriever, "vectorstore", None), VectorStore):
        k = (getattr(retriever, "search_kwargs", None) or {}).get("k", DEFAULT_LIMIT)
        advice = f"use as_retriever(search_kwargs={{'k': {fetch_k}}})"
        yield f"{only} search_kwargs k={k} candidates: {advice}", k
        return
    for inner in _inner(retriever):
        yield from _limits(inner, fetch_k)
