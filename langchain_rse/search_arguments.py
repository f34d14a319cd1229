"""What the arguments of a search may leave out, by their names.

Stores take filters under many names: filter, where, expr, pre_filter, metadata_filter, predicates,
and whatever the next one thinks of. So an argument may be a filter unless it is known to be none.
"""

from __future__ import annotations

import datetime as dt
import numbers
import uuid
from collections.abc import Container, Mapping
from typing import Any

__all__ = ["HARMLESS", "PLACES", "may_exclude", "may_split"]

HARMLESS = frozenset(
    {
        *("score_threshold", "distance_threshold", "fetch_k", "lambda_mult", "timeout"),
        *("search_params", "param", "consistency", "distance_func", "oversampling_factor"),
        *("ef", "ef_search", "nprobe", "nprobes", "num_candidates", "refine_factor"),
    }
)
"""Arguments that make a search faster or more exact, or leave out what is not similar enough."""

PLACES = frozenset(
    {
        *("collection", "collection_name", "database", "database_name", "db_name"),
        *("index", "index_name", "indexes", "keyspace", "namespace", "namespaces"),
        *("partition", "partition_name", "partition_names", "partitions"),
        *("schema", "schema_name", "shard", "shard_key", "shard_key_selector"),
        *("table", "table_name", "tenant", "tenant_id"),
    }
)
"""Arguments that say where to search. A place holds documents whole: a document whose chunks lie
in several of them is none of this package's making."""

_PLAIN = (str, numbers.Number, dt.date, dt.time, uuid.UUID, type(None))


def may_exclude(search_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that may keep chunks from being found, however similar they are."""
    return {
        name: given
        for name, given in search_kwargs.items()
        if name not in HARMLESS
        and given is not None
        and not (isinstance(given, Mapping) and not given)
    }


def may_split(search_kwargs: Mapping[str, Any], shared: Container[str]) -> bool:
    """Whether arguments may let some chunks of a document through and others not.

    A filter does not that names nothing but what is the same for the whole document; what cannot
    be looked into might.

    Args:
        search_kwargs: The arguments of the search.
        shared: Names of the metadata that hold for the whole document.
    """
    return any(
        name not in PLACES and not _is_about(given, shared)
        for name, given in may_exclude(search_kwargs).items()
    )


def _is_about(given: Any, shared: Container[str]) -> bool:  # noqa: ANN401 - any store's
    """Whether a filter names these fields alone, as in {"$and": [{"year": 2024}]}."""
    if isinstance(given, (list, tuple)):
        return all(_is_about(part, shared) for part in given)
    return isinstance(given, Mapping) and all(
        isinstance(name, str)
        and (
            _is_about(value, shared)
            if name.startswith("$")
            else name in shared and _is_condition(value)
        )
        for name, value in given.items()
    )


def _is_condition(value: Any) -> bool:  # noqa: ANN401
    """Whether this is what a field is compared with: values, or operators with them.

    In other languages names of fields stand further inside, as in {"term": {"page": 3}}.
    """
    if isinstance(value, Mapping):
        return all(
            isinstance(name, str) and name.startswith("$") and _is_condition(inside)
            for name, inside in value.items()
        )
    return all(
        isinstance(one, _PLAIN)
        for one in (value if isinstance(value, (list, tuple, set, frozenset)) else [value])
    )
