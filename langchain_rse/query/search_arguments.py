"""Finds search arguments that may exclude chunks, and checks that results obey a filter.

Stores take filters under many names, so any argument may be one, except those known not to be. A
filter is understood if it is a dict of fields and values, such as ``{"year": 2024}``, with
operators, such as ``{"year": {"$gte": 2023}}``, joined by ``"$and"`` or ``"$or"``.
"""

import datetime as dt
import math
import numbers
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from langchain_rse.query.comparing import excludes_list, field_name
from langchain_rse.stores.metadata import simple_metadata
from langchain_rse.stores.records import (
    CHUNK_ID,
    DOC_ID,
    LOCATION_FIELDS,
    NAMESPACE,
    VERSION,
)

SCORE_THRESHOLD = "score_threshold"
"""The argument that leaves out chunks whose relevance score, as LangChain defines it, is less."""

HARMLESS = frozenset(
    {
        *(SCORE_THRESHOLD, "distance_threshold", "fetch_k", "lambda_mult", "timeout"),
        *("search_params", "param", "consistency", "distance_func", "oversampling_factor"),
        *("ef", "ef_search", "nprobe", "nprobes", "num_candidates", "refine_factor"),
    }
)
"""Arguments that make a search faster or more exact, or exclude chunks that are less similar."""

PARTITIONS = frozenset(
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

# Metadata that this package writes to the vector store, in place of a document's own.
_OURS = frozenset({*LOCATION_FIELDS, CHUNK_ID, NAMESPACE, VERSION}) - {DOC_ID}

_PLAIN = (str, numbers.Number, dt.date, dt.time, uuid.UUID, type(None))
_LISTS = (list, tuple, set, frozenset)
# Numbers that differ by less count as equal, since some stores keep few digits.
_PRECISION = 1e-6


def may_exclude(search_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that may exclude chunks however similar they are."""
    arguments = {}
    for name, value in search_kwargs.items():
        if name not in HARMLESS and value is not None and value != {}:
            arguments[name] = value
    return arguments


def filters_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that may exclude some chunks of a document and not others."""
    filters = may_exclude(arguments)
    return {name: value for name, value in filters.items() if name not in PARTITIONS}


def fields_of(condition: object) -> set[str] | None:
    """The metadata fields that a filter names; None if it is not understood."""
    if not isinstance(condition, Mapping):
        return None
    fields: set[str] = set()
    for name, value in condition.items():
        if str(name).startswith("$"):  # such as "$and", "$or", "$not"
            parts = value if isinstance(value, (list, tuple)) else [value]
            for part in parts:
                fields_of_part = fields_of(part)
                if fields_of_part is None:
                    return None
                fields |= fields_of_part
        elif isinstance(name, str) and _is_comparison(value):
            fields.add(name)
        else:
            return None
    return fields


def _is_comparison(value: object) -> bool:
    """True if a field is compared with values: directly, or by operators such as "$gte"."""
    if not isinstance(value, Mapping):
        return _is_plain(value)
    for operator, operand in value.items():
        if not str(operator).startswith("$") or not _is_comparison(operand):
            return False
    return True


def _is_plain(value: object) -> bool:
    if isinstance(value, _LISTS):
        return all(isinstance(item, _PLAIN) for item in value)
    return isinstance(value, _PLAIN)


def may_split(filters: Sequence[object], shared_fields: Collection[str]) -> bool:
    """True if a filter may tell chunks of a document apart: if not all its fields are shared.

    Filters that are not understood are not counted; for these, see `Conditions`.
    """
    for condition in filters:
        fields = fields_of(condition)
        if fields is not None and not fields <= set(shared_fields):
            return True
    return False


def check_filtered(documents: Sequence[Document], condition: object, name: str) -> None:
    """Raise a ValueError if a store or retriever of this name returned what a filter excludes.

    Only equality with strings, numbers or booleans is checked, as in ``{"year": 2024}``,
    ``{"year": {"$eq": 2024}}`` and ``"$and"`` of these; a list stands for any of its values.
    """
    for field, allowed_values in _equalities(condition):
        for document in documents:
            value = document.metadata.get(field)
            if not _is_any_of(value, allowed_values):
                allowed = " or ".join(map(repr, allowed_values))
                raise ValueError(
                    f"{name} returned what the filter excludes: {field}={value!r} instead of "
                    f"{allowed} in the metadata of document {document.id!r} "
                    f"({document.page_content[:40]!r}). Write the filter as {name} takes it; or "
                    "filter inside a base_retriever and set candidates_only=True"
                )


def check_stored(
    filters: Sequence[object], metadata: Mapping[str, Any], *, stores_lists: bool
) -> None:
    """Raise a ValueError if filters name metadata of a returned chunk that the store lacks.

    Also if they exclude a list that the store has: many operators do not look into lists.
    ``stores_lists`` is False if the store has no lists.
    """
    names: set[str] = set()
    for condition in filters:
        names.update(map(field_name, fields_of(condition) or ()))
    own_names = sorted(names & _OURS)
    if own_names:
        raise ValueError(
            f"the filter names {', '.join(own_names)}, which this package writes for each chunk in "
            "place of a document's own metadata. Index that under another name"
        )
    lists: dict[str, list[Any]] = {}
    for name in sorted(names & metadata.keys()):
        value = metadata[name]
        if value is None:
            continue
        stored_values = list(simple_metadata({name: value}).values())
        is_list = stored_values and isinstance(stored_values[0], list)
        if not stored_values or (is_list and not stores_lists):
            and_lists = ", and lists of one type of these" if stores_lists else ""
            raise ValueError(
                f"the filter names {name}, but this vector store gets only strings, numbers and "
                f"booleans{and_lists}, not {value!r:.200}: it does not work. Index, for example, "
                f"one boolean for each value of {name}"
            )
        if is_list:
            lists[name] = stored_values[0]
    for condition in filters:
        if lists and isinstance(condition, Mapping) and excludes_list(condition, lists):
            raise ValueError(
                f"the filter {condition!r:.200} excludes {lists!r:.200}, but the store returned "
                "it: not all operators look into lists. Use those of the store that do, such as "
                "$contains and $not_contains of Chroma; or index, for example, one boolean for "
                "each value"
            )


def _equalities(condition: object) -> Iterator[tuple[str, Collection[Any]]]:
    """Yield the fields of a filter that must equal a value, and the allowed values."""
    if not isinstance(condition, Mapping):
        return
    for name, value in condition.items():
        if name == "$and" and isinstance(value, (list, tuple)):
            for part in value:
                yield from _equalities(part)
        elif isinstance(name, str) and name.isidentifier():  # no operator, no path
            allowed = value.get("$eq") if isinstance(value, Mapping) else value
            allowed_values = allowed if isinstance(allowed, _LISTS) else [allowed]
            if all(isinstance(item, (str, numbers.Real)) for item in allowed_values):
                yield name, allowed_values


def _is_any_of(value: object, allowed_values: Collection[Any]) -> bool:
    """True if a value, or one of a list of values, is allowed."""
    values = value if isinstance(value, (list, tuple, set)) else [value]
    for item in values:
        for allowed in allowed_values:
            if _is_same(item, allowed):
                return True
    return False


def _is_same(value: object, allowed: object) -> bool:
    """True if two values are equal in some notation of a store: 3, 3.0, "3"; True, "true"."""
    if value is None:
        return False
    if str(value).casefold() == str(allowed).casefold():
        return True
    try:
        return math.isclose(float(value), float(allowed), rel_tol=_PRECISION)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
