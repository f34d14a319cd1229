"""Which search arguments may exclude chunks: filters, under any name; and whether a filter held.

Stores take filters under many names: filter, where, expr, pre_filter, metadata_filter, predicates,
and more. So any argument may be a filter, except those that are known not to be.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
import uuid
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

HARMLESS = frozenset(
    {
        *("score_threshold", "distance_threshold", "fetch_k", "lambda_mult", "timeout"),
        *("search_params", "param", "consistency", "distance_func", "oversampling_factor"),
        *("ef", "ef_search", "nprobe", "nprobes", "num_candidates", "refine_factor"),
    }
)
"""Arguments that make a search faster or more exact, or exclude what is not similar enough."""

PLACES = frozenset(
    {
        *("collection", "collection_name", "database", "database_name", "db_name"),
        *("index", "index_name", "indexes", "keyspace", "namespace", "namespaces"),
        *("partition", "partition_name", "partition_names", "partitions"),
        *("schema", "schema_name", "shard", "shard_key", "shard_key_selector"),
        *("table", "table_name", "tenant", "tenant_id"),
    }
)
"""Arguments that say where to search. All chunks of a document are in one place, since this package
writes them there."""

_PLAIN = (str, numbers.Number, dt.date, dt.time, uuid.UUID, type(None))
# Numbers that differ by less are equal: some stores keep few digits.
_PRECISION = 1e-6


def may_exclude(search_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that may keep chunks from being found, however similar they are."""
    return {
        name: given
        for name, given in search_kwargs.items()
        if name not in HARMLESS and given is not None and given != {}
    }


def check_filtered(documents: Sequence[Document], condition: object, name: str) -> None:
    """Raise a ValueError if a store or retriever of this name returned what a filter excludes.

    What is checked of a filter is which fields equal which strings, numbers or booleans, as in
    ``{"year": 2024}``, ``{"year": {"$eq": 2024}}`` and ``"$and"`` of those; a list stands for any
    of its values. The rest is for the store to understand: operators, functions, other languages.
    """
    for field, wanted in _equalities(condition):
        for document in documents:
            found = document.metadata.get(field)
            values = found if isinstance(found, (list, tuple, set)) else [found]
            if not any(_is_same(value, one) for value in values for one in wanted):
                raise ValueError(
                    f"{name} returned what the filter excludes: {field}={found!r} instead of "
                    f"{' or '.join(map(repr, wanted))} in the metadata of document {document.id!r} "
                    f"({document.page_content[:40]!r}). Write the filter as {name} takes it; or "
                    "filter inside a base_retriever and set candidates_only=True"
                )


def _equalities(condition: object) -> Iterator[tuple[str, Collection[Any]]]:
    """The fields of a filter that have to equal a value, and the values that will do."""
    for name, wanted in condition.items() if isinstance(condition, Mapping) else ():
        if name == "$and" and isinstance(wanted, (list, tuple)):
            for part in wanted:
                yield from _equalities(part)
        elif isinstance(name, str) and name.isidentifier():  # no operator, no path
            value = wanted.get("$eq") if isinstance(wanted, Mapping) else wanted
            values = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
            if all(isinstance(one, (str, numbers.Real)) for one in values):
                yield name, values


def _is_same(found: object, wanted: object) -> bool:
    """True if two values are equal, whatever a store made of them: 3, 3.0, "3"; True, "true"."""
    if found is None:
        return False
    if str(found).casefold() == str(wanted).casefold():
        return True
    try:
        return math.isclose(float(found), float(wanted), rel_tol=_PRECISION)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def may_split(search_kwargs: Mapping[str, Any], shared: Container[str]) -> bool:
    """True if arguments may let some chunks of a document through and others not.

    A filter that names only metadata that is the same for the whole document does not. A filter
    that cannot be understood might.

    Args:
        search_kwargs: The arguments of the search.
        shared: Names of the metadata that hold for the whole document.
    """
    return any(
        name not in PLACES and not _names_only(given, shared)
        for name, given in may_exclude(search_kwargs).items()
    )


def _names_only(given: Any, shared: Container[str]) -> bool:  # noqa: ANN401 - any store's filter
    """True if a filter names these fields alone, as in {"$and": [{"year": 2024}]}."""
    if isinstance(given, (list, tuple)):
        return all(_names_only(part, shared) for part in given)
    return isinstance(given, Mapping) and all(
        isinstance(name, str)
        and (
            _names_only(value, shared)
            if name.startswith("$")
            else name in shared and _is_condition(value)
        )
        for name, value in given.items()
    )


def _is_condition(value: Any) -> bool:  # noqa: ANN401
    """True if a field can be compared with this: values, or operators with values.

    In other languages, names of fields stand further inside, as in {"term": {"page": 3}}.
    """
    if isinstance(value, Mapping):
        return all(
            isinstance(name, str) and name.startswith("$") and _is_condition(inside)
            for name, inside in value.items()
        )
    several = isinstance(value, (list, tuple, set, frozenset))
    return all(isinstance(one, _PLAIN) for one in (value if several else [value]))
