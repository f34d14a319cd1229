"""Filters: which chunks a search may leave out for other reasons than relevance.

One rule: a filter that is a dict of fields and values, such as ``{"year": {"$gte": 2023}}``, with
``"$and"`` and ``"$or"``, is understood, so that chunks of a document that passes as a whole can
fill gaps between candidates. With anything else, segments contain candidates only. A number is no
filter: it is a limit or a depth.
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
"""The search argument by which most stores take a filter."""

# Metadata that this package writes to the vector store, in place of a document's own.
_OURS = frozenset({*LOCATION_FIELDS, CHUNK_ID, NAMESPACE, VERSION}) - {DOC_ID}
_PLAIN = (str, numbers.Number, dt.date, dt.time, uuid.UUID, type(None))
_LISTS = (list, tuple, set, frozenset)
# Numbers that differ by less count as equal, since some stores keep few digits.
_PRECISION = 1e-6

# Fields in which retrievers hold the retrievers that they call, and the arguments of a search.
_INNER = ("retrievers", "base_retriever", "retriever", "bound", "runnable", "fallbacks")
_ARGUMENTS = ("search_kwargs", "kwargs")
_LANGCHAIN = "langchain"  # the beginning of the names of LangChain's own packages


# What a filter says


def fields_of(condition: object) -> set[str] | None:
    """The metadata fields that a filter names; None if it is not understood."""
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
    """True if a field is compared with values: directly, or by known operators."""
    if isinstance(value, Mapping):
        known = value.keys() <= _OPERATORS.keys()
        return known and all(_is_plain(operand) for operand in value.values())
    return _is_plain(value)


def _is_plain(value: object) -> bool:
    if isinstance(value, _LISTS):
        return all(isinstance(item, _PLAIN) for item in value)
    return isinstance(value, _PLAIN)


def matches(condition: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """True if metadata passes a filter; a field that is missing passes no comparison.

    A list equals or contains a value if one of its values is equal to it.
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
    """True if a filter certainly excludes metadata, whatever notation of values a store has.

    A field that is missing contradicts a value that it must equal; it may pass other operators.
    """
    for name, value in condition.items():
        if name == "$and":
            excludes = any(contradicts(part, metadata) for part in value)
        elif name == "$or":
            excludes = bool(value) and all(contradicts(part, metadata) for part in value)
        elif metadata.get(name.rpartition(".")[2]) is not None:  # some stores put a path before it
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
    """True if two values are equal and both are booleans, or neither is; a list if one item is."""
    if isinstance(value, _LISTS) and not isinstance(other, _LISTS):
        return any(_equals(item, other) for item in value)
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _is_same(value: Any, other: Any) -> bool:  # noqa: ANN401
    """True if two values are equal in some notation of a store: 3, 3.0, "3"; True, "true"."""
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
    """A comparison that numbers and strings pass, each with their like."""

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


# Where filters are


class Filters(NamedTuple):
    """The filters of a query, and what they mean for the chunks between candidates."""

    conditions: Sequence[Mapping[str, Any]]  # those that are understood
    checked: Sequence[Mapping[str, Any]]  # of these, those named `FILTER`, which surely are filters
    others: Sequence[str]  # the arguments and classes that may filter in another way, in words

    def check_applied(self, document: Document, searcher: str) -> None:
        """Raise a ValueError if a search returned a Document that a filter excludes."""
        for condition in self.checked:
            names = {name.rpartition(".")[2] for name in fields_of(condition) or ()}
            ours = sorted(names & _OURS)
            if ours and VERSION in document.metadata:  # else other code wrote the vector
                raise ValueError(
                    f"the filter names {', '.join(ours)}, which this package writes for each chunk "
                    "in place of a document's own metadata. Index that under another name"
                )
            if contradicts(condition, document.metadata):
                fields = {}
                for name in sorted(fields_of(condition) or ()):
                    fields[name] = document.metadata.get(name.rpartition(".")[2])
                raise ValueError(
                    f"{searcher} returned what the filter {condition!r:.200} excludes: "
                    f"{fields!r:.200} in the metadata of document {document.id!r} "
                    f"({document.page_content[:40]!r}). Write the filter as {searcher} takes it, "
                    "with operators that look into lists where there are lists; or filter inside a "
                    "base_retriever and set candidates_only=True"
                )

    def only_candidates(self, settings: QuerySettings) -> bool:
        """True if segments may contain candidates only; a warning says so where it is a guess."""
        if settings.candidates_only is not None:
            return settings.candidates_only
        if self.others:
            warn(
                f"{first_few(self.others)} may leave chunks out for other reasons than relevance, "
                "so segments contain only the candidates. Give a filter as a dict of fields and "
                "values; or set candidates_only=False if nothing is filtered, else "
                "candidates_only=True"
            )
        return bool(self.others)

    def hold_for(self, shared_fields: Collection[str]) -> bool:
        """True if a document passes as a whole: all fields of the filters hold for all of it."""
        for condition in self.conditions:
            if not (fields_of(condition) or set()) <= set(shared_fields):
                return False
        return True


def filters_of(search_kwargs: Mapping[str, Any], base_retriever: object) -> Filters:
    """Find the filters of a query: in its arguments, and in a retriever and those that it calls."""
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
    """True if a search argument may exclude chunks: not a number, nor nothing."""
    is_number = isinstance(value, numbers.Number) and not isinstance(value, bool)
    return value is not None and value != {} and not is_number


def _with_inner(retriever: object) -> Iterator[object]:
    """A retriever and those that it calls, the outer ones first."""
    if retriever is None:
        return
    yield retriever
    for field in _INNER:
        value = getattr(retriever, field, None)
        for inner in value if isinstance(value, (list, tuple)) else [value]:
            yield from _with_inner(inner)


def _is_known(retriever: object) -> bool:
    """True if a retriever leaves chunks out only by its search arguments and by relevance.

    That holds for the retrievers of LangChain's packages, and for what wraps a retriever.
    """
    if not type(retriever).__module__.startswith(_LANGCHAIN):
        return False
    has_inner = any(getattr(retriever, field, None) is not None for field in _INNER)
    return has_inner or isinstance(retriever, BaseRetriever)


# What a wrapped retriever takes, and how much it returns


def check_taken(retriever: object, search_kwargs: Mapping[str, Any]) -> None:
    """Raise a ValueError for a search argument that LangChain would drop, or that replaces one."""
    for name, value in search_kwargs.items():
        if value is None or value == {}:
            continue
        for inner in _with_inner(retriever):
            if not _takes(inner, name):
                raise ValueError(
                    f"{type(inner).__name__} takes no search argument {name!r} (got "
                    f"{value!r:.200}), and LangChain would drop it. Filter inside the retriever "
                    "and set candidates_only=True; or give vectorstore=... instead of "
                    "base_retriever"
                )
            for field in _ARGUMENTS:
                inner_value = dict(getattr(inner, field, None) or {}).get(name, value)
                if may_exclude(value) and inner_value != value:
                    raise ValueError(
                        f"search argument {name!r} (got {value!r:.200}) would replace that of the "
                        f"wrapped retriever, {inner_value!r:.200}. Give {name!r} in one place: to "
                        "the wrapped retriever, or in search_kwargs of the RSERetriever"
                    )


def _takes(retriever: object, name: str) -> bool:
    """True if LangChain passes a search argument on to a retriever."""
    if not isinstance(retriever, BaseRetriever):
        return True
    # LangChain decides by this method, for async calls as well.
    parameters = inspect.signature(type(retriever)._get_relevant_documents).parameters  # noqa: SLF001
    takes_any = any(each.kind == each.VAR_KEYWORD for each in parameters.values())
    return takes_any or name in parameters


_LIMITS = ("k", "top_k", "top_n")  # fields that limit what a retriever returns
_DEFAULT_LIMIT = 4  # LangChain's, of a retriever over a vector store
_MOST_BY_DEFAULT = 10  # a larger limit was set on purpose


def warn_of_few(retriever: object, returned: int, fetch_k: int) -> None:
    """Warn if a wrapped retriever returns only a few chunks by default."""
    limits: list[int] = []
    settings: dict[str, None] = {}  # how each is raised
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
            f"{type(retriever).__name__} returned only {returned} candidates, as its limit says. "
            f"Segments are made of few chunks. Set {', '.join(settings)}"
        )
