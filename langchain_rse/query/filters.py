"""Filters: finds out which chunks a search may exclude for reasons other than relevance.

This package understands a filter if it is a dict of fields and values, such as
``{"year": {"$gte": 2023}}``, with ``"$and"`` and ``"$or"``. Chunks of a document that passes as a
whole can then fill gaps between candidates. With any other filter, passages contain only
candidates. A number never counts as a filter: it is a limit or a depth.
"""

from __future__ import annotations

import datetime as dt
import inspect
import math
import numbers
import operator
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from langchain_rse._messages import warn
from langchain_rse.config import QuerySettings
from langchain_rse.stores.records import CHUNK_ID, DOC_ID, LOCATION_FIELDS, NAMESPACE, VERSION
from langchain_rse.text.quoting import first_few

FILTER = "filter"
"""The search argument that most stores use for a filter."""

# Metadata fields that this package writes to the vector store; they replace a document's fields.
_OURS = frozenset({*LOCATION_FIELDS, CHUNK_ID, NAMESPACE, VERSION}) - {DOC_ID}
_PLAIN = (str, numbers.Number, dt.date, dt.time, uuid.UUID, type(None))
_LISTS = (list, tuple, set, frozenset)
# Relative difference below which numbers count as equal, because some stores keep few digits.
_PRECISION = 1e-6

# Fields of retrievers that hold inner retrievers, and fields that hold search arguments.
_INNER = ("retrievers", "base_retriever", "retriever", "bound", "runnable", "fallbacks")
_ARGUMENTS = ("search_kwargs", "kwargs")
_LANGCHAIN = "langchain"  # prefix of the names of LangChain's packages


# Evaluating a filter


def fields_of(condition: object) -> set[str] | None:
    """Return the metadata fields that a filter names; None if the filter is not understood."""
    if not isinstance(condition, Mapping):
        return None
    fields: set[str] = set()
    for name, value in condition.items():
        if name in {"$and", "$or"} and isinstance(value, (list, tuple)):
            for part in value:
                fields_of_part = fields_of(part)
                if fields_of_part is None:
                    return None
                fields |= fields_of_part
        elif isinstance(name, str) and not name.startswith("$") and _is_comparison(value):
            fields.add(name)
        else:
            return None
    return fields


def _is_comparison(value: object) -> bool:
    """True if a field is compared with values, directly or with known operators."""
    if isinstance(value, Mapping):
        known = value.keys() <= _OPERATORS.keys()
        return known and all(_is_plain(operand) for operand in value.values())
    return _is_plain(value)


def _is_plain(value: object) -> bool:
    if isinstance(value, _LISTS):
        return all(isinstance(item, _PLAIN) for item in value)
    return isinstance(value, _PLAIN)


def matches(condition: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """True if metadata passes a filter. A missing field fails every comparison.

    A list in the metadata equals or contains a value if one of its items equals the value.
    """
    for name, value in condition.items():
        if name == "$and":
            passes = all(matches(part, metadata) for part in value)
        elif name == "$or":
            passes = any(matches(part, metadata) for part in value)
        else:
            passes = metadata.get(name) is not None and _compares(value, metadata[name], _equals)
        if not passes:
            return False
    return True


def contradicts(condition: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """True if a filter excludes metadata beyond doubt, however the store writes values.

    A missing field contradicts an equality; it may pass other operators.
    """
    for name, value in condition.items():
        if name == "$and":
            excludes = any(contradicts(part, metadata) for part in value)
        elif name == "$or":
            excludes = bool(value) and all(contradicts(part, metadata) for part in value)
        elif metadata.get(name.rpartition(".")[2]) is not None:  # some stores prefix a path
            excludes = not _compares(value, metadata[name.rpartition(".")[2]], _is_same)
        else:
            is_equality = not isinstance(value, Mapping) or value.keys() <= {"$eq", "$in"}
            excludes = is_equality and value is not None and name.isidentifier()
        if excludes:
            return True
    return False


_Equals = Callable[[Any, Any], bool]


def _compares(comparison: Any, value: Any, equals: _Equals) -> bool:  # noqa: ANN401 - of any type
    """True if a value passes a comparison: a value, a list of values, or operators."""
    if isinstance(comparison, _LISTS):
        return _is_in(value, comparison, equals)
    if not isinstance(comparison, Mapping):
        return equals(value, comparison)
    return all(_OPERATORS[name](value, operand, equals) for name, operand in comparison.items())


def _equals(value: Any, other: Any) -> bool:  # noqa: ANN401
    """True if two values are equal (True is not 1), or an item of a list equals the other value."""
    if isinstance(value, _LISTS) and not isinstance(other, _LISTS):
        return any(_equals(item, other) for item in value)
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _is_same(value: Any, other: Any) -> bool:  # noqa: ANN401
    """True if two values are equal in any notation that stores use: 3, 3.0, "3"; True, "true"."""
    if isinstance(value, _LISTS) and not isinstance(other, _LISTS):
        return any(_is_same(item, other) for item in value)
    if str(value).casefold() == str(other).casefold():
        return True
    try:
        return math.isclose(float(value), float(other), rel_tol=_PRECISION)
    except (TypeError, ValueError, OverflowError):
        return False


def _is_in(value: Any, allowed_values: Any, equals: _Equals) -> bool:  # noqa: ANN401
    return any(equals(value, allowed) for allowed in allowed_values)


def _contains(value: Any, item: Any, equals: _Equals) -> bool:  # noqa: ANN401
    return isinstance(value, _LISTS) and equals(value, item)


def _by_order(compare: _Equals) -> Callable[[Any, Any, _Equals], bool]:
    """Make a comparison by order: a number with a number, or a string with a string."""

    def compares(value: object, other: object, _: _Equals) -> bool:
        are_numbers = isinstance(value, (int, float)) and isinstance(other, (int, float))
        are_texts = isinstance(value, str) and isinstance(other, str)
        return (are_numbers or are_texts) and compare(value, other)

    return compares


_OPERATORS: Mapping[str, Callable[[Any, Any, _Equals], bool]] = {
    "$eq": lambda value, other, equals: equals(value, other),
    "$ne": lambda value, other, equals: not equals(value, other),
    "$in": _is_in,
    "$nin": lambda value, others, equals: not _is_in(value, others, equals),
    "$contains": _contains,
    "$not_contains": lambda value, item, equals: not equals(value, item),
    "$gt": _by_order(operator.gt),
    "$gte": _by_order(operator.ge),
    "$lt": _by_order(operator.lt),
    "$lte": _by_order(operator.le),
}


# Finding filters


class Filters(NamedTuple):
    """The filters of a query."""

    conditions: Sequence[Mapping[str, Any]]  # filters that are understood
    checked: Sequence[Mapping[str, Any]]  # the conditions of arguments called "filter"
    others: Sequence[str]  # descriptions of arguments and classes that may filter in other ways

    def check_applied(self, document: Document, searcher: str) -> None:
        """Raise a ValueError if a filter excludes a Document that a search returned."""
        for condition in self.checked:
            names = {name.rpartition(".")[2] for name in fields_of(condition) or ()}
            ours = sorted(names & _OURS)
            if ours and VERSION in document.metadata:  # else other code wrote the vector
                raise ValueError(
                    f"the filter uses {', '.join(ours)}, but this package overwrites that field in "
                    "the metadata of each chunk. Index your values under another name"
                )
            if contradicts(condition, document.metadata):
                fields = {}
                for name in sorted(fields_of(condition) or ()):
                    fields[name] = document.metadata.get(name.rpartition(".")[2])
                raise ValueError(
                    f"{searcher} returned a document that the filter {condition!r:.200} excludes: "
                    f"{fields!r:.200} in the metadata of {document.id!r} "
                    f"({document.page_content[:40]!r}). Write the filter in the syntax of "
                    f"{searcher}, with operators for lists where values are lists; or filter "
                    "inside a base_retriever and set candidates_only=True"
                )

    def only_candidates(self, settings: QuerySettings) -> bool:
        """True if passages may contain only candidates; warn if this is a guess."""
        if settings.candidates_only is not None:
            return settings.candidates_only
        if self.others:
            warn(
                f"{first_few(self.others)} may exclude chunks for reasons other than relevance, so "
                "passages contain only chunks that the search found. Pass the filter as a dict of "
                "fields and values; or set candidates_only=True if chunks are filtered, "
                "candidates_only=False if not"
            )
        return bool(self.others)

    def hold_for(self, shared_fields: Collection[str]) -> bool:
        """True if the filters use only fields that are the same throughout a document."""
        for condition in self.conditions:
            if not (fields_of(condition) or set()) <= set(shared_fields):
                return False
        return True


def filters_of(search_kwargs: Mapping[str, Any], base_retriever: object) -> Filters:
    """Collect the filters in search arguments, and in a retriever and its inner retrievers."""
    arguments = list(search_kwargs.items())
    others: list[str] = []
    for retriever in _with_inner(base_retriever):
        if not _is_known(retriever):
            others.append(type(retriever).__name__)
        for field in _ARGUMENTS:
            arguments += dict(getattr(retriever, field, None) or {}).items()
    conditions = []
    checked = []
    for name, value in arguments:
        if not may_exclude(value):
            continue
        if fields_of(value) is None:
            others.append(f"the search argument {name}={value!r:.200}")
            continue
        conditions.append(value)
        if name == FILTER:
            checked.append(value)
    return Filters(conditions, checked, list(dict.fromkeys(others)))


def may_exclude(value: object) -> bool:
    """True if a search argument may exclude chunks: it is not empty and not a number."""
    is_number = isinstance(value, numbers.Number) and not isinstance(value, bool)
    return value is not None and value != {} and not is_number


def _with_inner(retriever: object) -> Iterator[object]:
    """Yield a retriever and its inner retrievers, the outer ones first."""
    if retriever is None:
        return
    yield retriever
    for field in _INNER:
        value = getattr(retriever, field, None)
        for inner in value if isinstance(value, (list, tuple)) else [value]:
            yield from _with_inner(inner)


def _is_known(retriever: object) -> bool:
    """True if a retriever excludes chunks only by its search arguments and by relevance.

    This holds for the retrievers and wrappers of LangChain's packages.
    """
    if not type(retriever).__module__.startswith(_LANGCHAIN):
        return False
    has_inner = any(getattr(retriever, field, None) is not None for field in _INNER)
    return has_inner or isinstance(retriever, BaseRetriever)


# Arguments and limits of a wrapped retriever


def check_taken(retriever: object, search_kwargs: Mapping[str, Any]) -> None:
    """Raise a ValueError if LangChain would drop a search argument, or if it replaces a filter."""
    for name, value in search_kwargs.items():
        if value is None or value == {}:
            continue
        for inner in _with_inner(retriever):
            if not _takes(inner, name):
                raise ValueError(
                    f"{type(inner).__name__} does not accept the search argument {name!r} (got "
                    f"{value!r:.200}), so LangChain would drop it. Filter inside the retriever "
                    "and set candidates_only=True; or pass vectorstore=... instead of "
                    "base_retriever"
                )
            for field in _ARGUMENTS:
                inner_value = dict(getattr(inner, field, None) or {}).get(name, value)
                if may_exclude(value) and inner_value != value:
                    raise ValueError(
                        f"search argument {name!r} (got {value!r:.200}) would replace "
                        f"{inner_value!r:.200} of the wrapped retriever. Set {name!r} in one "
                        "place: in the wrapped retriever, or in search_kwargs of the RSERetriever"
                    )


def _takes(retriever: object, name: str) -> bool:
    """True if LangChain passes a search argument on to a retriever."""
    if not isinstance(retriever, BaseRetriever):
        return True
    # LangChain looks at the signature of this method, also for async calls.
    parameters = inspect.signature(type(retriever)._get_relevant_documents).parameters  # noqa: SLF001
    takes_any = any(each.kind == each.VAR_KEYWORD for each in parameters.values())
    return takes_any or name in parameters


_LIMITS = ("k", "top_k", "top_n")  # fields that limit what a retriever returns
_DEFAULT_LIMIT = 4  # of LangChain's retriever for a vector store
_MOST_BY_DEFAULT = 10  # a larger limit was set on purpose


def warn_of_few(retriever: object, returned: int, fetch_k: int) -> None:
    """Warn if a wrapped retriever returned few chunks because of a small limit."""
    limits: list[int] = []
    settings: dict[str, None] = {}  # to raise the limits
    for inner in _with_inner(retriever):
        name = type(inner).__name__
        if getattr(inner, "vectorstore", None) is not None:
            arguments = getattr(inner, "search_kwargs", None) or {}
            limits.append(arguments.get("k", _DEFAULT_LIMIT))
            settings[f"search_kwargs={{'k': {fetch_k}}} of {name}"] = None
            continue
        for field in _LIMITS:
            number = getattr(inner, field, None)
            if isinstance(number, int):
                limits.append(number)
                settings[f"{field}={fetch_k} of {name}"] = None
                break
    if not limits or max(limits) > _MOST_BY_DEFAULT:
        return
    least = 1 if hasattr(retriever, "base_compressor") else max(min(limits), 1)
    if least <= returned <= sum(limits) < fetch_k:
        warn(
            f"{type(retriever).__name__} returned only {returned} candidates because of its limit. "
            f"Passages need more candidates: set {', '.join(settings)}"
        )
