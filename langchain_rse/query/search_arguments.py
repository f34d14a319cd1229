"""Finds search arguments that may exclude chunks, and checks that results obey a filter.

Stores take filters under many names, so any argument may be one, except those known not to be.
"""

import datetime as dt
import itertools
import math
import numbers
import re
import uuid
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from langchain_rse.stores.records import (
    CHUNK_ID,
    DOC_ID,
    LOCATION_FIELDS,
    NAMESPACE,
    VERSION,
    simple_metadata,
)

HARMLESS = frozenset(
    {
        *("score_threshold", "distance_threshold", "fetch_k", "lambda_mult", "timeout"),
        *("search_params", "param", "consistency", "distance_func", "oversampling_factor"),
        *("ef", "ef_search", "nprobe", "nprobes", "num_candidates", "refine_factor"),
    }
)
"""Arguments that make a search faster or more exact, or exclude chunks that are less similar."""

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

# Metadata that this package writes to the vector store, in place of a document's own.
_OURS = frozenset({*LOCATION_FIELDS, CHUNK_ID, NAMESPACE, VERSION}) - {DOC_ID}

_PLAIN = (str, numbers.Number, dt.date, dt.time, uuid.UUID, type(None))
# Numbers that differ by less count as equal, since some stores keep few digits.
_PRECISION = 1e-6


def may_exclude(search_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that may exclude chunks however similar they are."""
    return {
        name: given
        for name, given in search_kwargs.items()
        if name not in HARMLESS and given is not None and given != {}
    }


def check_filtered(documents: Sequence[Document], condition: object, name: str) -> None:
    """Raise a ValueError if a store or retriever of this name returned what a filter excludes.

    Only equality with strings, numbers or booleans is checked, as in ``{"year": 2024}``,
    ``{"year": {"$eq": 2024}}`` and ``"$and"`` of these; a list stands for any of its values.
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


def check_stored(search_kwargs: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Raise a ValueError if filters name metadata of a returned chunk that the store lacks."""
    given = [one for name, one in may_exclude(search_kwargs).items() if name not in PLACES]
    names = {name.rpartition(".")[2] for name in itertools.chain(*map(_names, given))} - {""}
    if found := sorted(names & _OURS):
        raise ValueError(
            f"the filter names {', '.join(found)}, which this package writes for each chunk in "
            "place of a document's own metadata. Index that under another name"
        )
    for name in sorted(names & metadata.keys()):
        if metadata[name] is not None and not simple_metadata({name: metadata[name]}):
            raise ValueError(
                f"the filter names {name}, but vector stores get only strings, numbers and "
                f"booleans, not {metadata[name]!r:.200}: it does not work. Index, for example, one "
                f"boolean for each value of {name}"
            )


def _names(given: Any, *, of_field: bool | None = None) -> Iterator[str]:  # noqa: ANN401 - any store's filter
    """Yield the fields that a filter names: its keys, or all unquoted words of an expression.

    The name "" stands for a part that cannot be understood. ``of_field`` is True within the value
    that a field is compared with, False within operators such as "$and".
    """
    if isinstance(given, Mapping):
        for name, value in given.items():
            is_field = not str(name).startswith("$")
            if is_field:
                yield str(name)
            yield from _names(value, of_field=of_field or is_field)
    elif isinstance(given, (list, tuple, set, frozenset)):
        for part in given:
            yield from _names(part, of_field=of_field)
    elif not (of_field and isinstance(given, _PLAIN)):
        yield ""
        if isinstance(given, str) and of_field is None:
            yield from re.findall(r"\w+", re.sub(r"'[^']*'|\"[^\"]*\"", "", given))


def _equalities(condition: object) -> Iterator[tuple[str, Collection[Any]]]:
    """Yield the fields of a filter that must equal a value, and the allowed values."""
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
    """True if two values are equal in some notation of a store: 3, 3.0, "3"; True, "true"."""
    if found is None:
        return False
    if str(found).casefold() == str(wanted).casefold():
        return True
    try:
        return math.isclose(float(found), float(wanted), rel_tol=_PRECISION)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def may_split(search_kwargs: Mapping[str, Any], shared: Container[str]) -> bool:
    """True if a filter may tell chunks of a document apart: by other than ``shared`` metadata."""
    return any(
        name not in PLACES and any(not field or field not in shared for field in _names(given))
        for name, given in may_exclude(search_kwargs).items()
    )
