"""Which search arguments may exclude chunks: filters, under any name.

Stores take filters under many names: filter, where, expr, pre_filter, metadata_filter, predicates,
and more. So any argument may be a filter, except those that are known not to be.
"""

from __future__ import annotations

import datetime as dt
import numbers
import uuid
from collections.abc import Container, Mapping
from typing import Any

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


def may_exclude(search_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that may keep chunks from being found, however similar they are."""
    return {
        name: given
        for name, given in search_kwargs.items()
        if name not in HARMLESS and given is not None and given != {}
    }


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
