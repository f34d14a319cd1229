"""What is known of a wrapped retriever: the arguments that it takes, and how much it returns."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from langchain_rse._messages import warn

# Fields in which retrievers hold the retrievers that they ask.
_INNER = ("retrievers", "base_retriever", "retriever")
# Fields that limit what a retriever returns.
_LIMITS = ("k", "top_k", "top_n")
# What a retriever over a vector store returns if it is not told (LangChain's default).
_DEFAULT_LIMIT = 4
# A larger limit was set on purpose.
_MOST_BY_DEFAULT = 10


def check_taken(retriever: object, search_kwargs: Mapping[str, Any]) -> None:
    """Raise a ValueError for a search argument that LangChain would drop without a word."""
    for name, value in search_kwargs.items():
        refusing = "" if value is None or value == {} else _refusing(retriever, name)
        if refusing:
            raise ValueError(
                f"{refusing} takes no search argument {name!r} (got {value!r:.200}), and LangChain "
                "would drop it. Filter inside the retriever and set candidates_only=True; or give "
                "vectorstore=... instead of base_retriever"
            )


def _refusing(retriever: object, name: str) -> str:
    """The class of the retriever, among it and those that it asks, that does not take an argument.

    Empty if all do, or it cannot be known, as of other Runnables.
    """
    if not isinstance(retriever, BaseRetriever):
        return ""
    # LangChain decides by this method, for async calls as well.
    parameters = inspect.signature(type(retriever)._get_relevant_documents).parameters  # noqa: SLF001
    if name in parameters:
        return ""
    if all(parameter.kind != parameter.VAR_KEYWORD for parameter in parameters.values()):
        return type(retriever).__name__
    return next(filter(None, (_refusing(inner, name) for inner in _inner(retriever))), "")


def _inner(retriever: BaseRetriever) -> Iterator[object]:
    for field in _INNER:
        value = getattr(retriever, field, None)
        yield from value if isinstance(value, (list, tuple)) else [value]


def warn_of_few(retriever: object, returned: int, fetch_k: int) -> None:
    """Warn if a retriever, or those that it asks, return no more than a few by default."""
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
    """What is to be said of each limit, and the limit."""
    if not isinstance(retriever, BaseRetriever):
        return
    only = f"{type(retriever).__name__} returns only its"
    for field in _LIMITS:
        limit = getattr(retriever, field, None)
        if isinstance(limit, int):
            yield f"{only} {field}={limit} candidates: set {field}={fetch_k}", limit
            return
    if isinstance(getattr(retriever, "vectorstore", None), VectorStore):
        k = (getattr(retriever, "search_kwargs", None) or {}).get("k", _DEFAULT_LIMIT)
        advice = f"use as_retriever(search_kwargs={{'k': {fetch_k}}})"
        yield f"{only} search_kwargs k={k} candidates: {advice}", k
        return
    for inner in _inner(retriever):
        yield from _limits(inner, fetch_k)
