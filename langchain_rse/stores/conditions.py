"""The filter language: dicts of metadata fields and the values that they must have.

An example: ``{"year": {"$gte": 2023}, "$or": [{"group": "all"}, {"owner": "ann"}]}``. A dict with
any other operator, and any other kind of filter, is not understood.
"""

import numbers
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from langchain_rse.stores.records import WRITTEN
from langchain_rse.text.quoting import first_few

_VALUES = (str, numbers.Number, type(None))
_LISTS = (list, tuple, set, frozenset)
_JOINS: Mapping[str, Callable[[Iterable[bool]], bool]] = {"$and": all, "$or": any}


def fields_of(condition: object) -> set[str] | None:
    """Return the metadata fields that a filter names; None if the filter is not understood."""
    if not isinstance(condition, Mapping):
        return None
    fields: set[str] = set()
    for name, value in condition.items():
        if name in _JOINS and isinstance(value, (list, tuple)):
            for part in value:
                fields_of_part = fields_of(part)
                if fields_of_part is None:
                    return None
                fields |= fields_of_part
            continue
        # A name with a dot is a path in the language of some stores.
        is_field = isinstance(name, str) and not name.startswith("$") and "." not in name
        if not is_field or not _is_comparison(value):
            return None
        fields.add(name)
    return fields


def as_function(condition: Any) -> Callable[[Document], bool]:  # noqa: ANN401 - checked here
    """Return a filter as a function of a Document, for stores that take nothing else.

    Raises:
        ValueError: If the filter is not a function and is not understood.
    """
    if callable(condition):
        function: Callable[[Document], bool] = condition
        return function
    if fields_of(condition) is None:
        raise ValueError(
            "filter must be a function of a Document, or a dict of fields and values (strings, "
            f"numbers, True, False or lists of them) with {OPERATORS}; got {condition!r:.200}"
        )
    return lambda document: matches(condition, document.metadata)


def describe_fields(conditions: Iterable[object], documents: Iterable[Mapping[str, Any]]) -> str:
    """Tell which types of values the fields of filters have in the metadata of documents."""
    fields = _all_fields(conditions)
    types: dict[str, set[str]] = {}
    for metadata in documents:
        for name in metadata.keys() & fields:
            value = metadata[name]
            values = value if isinstance(value, _LISTS) else [value]
            types.setdefault(name, set()).update(type(item).__name__ for item in values)
    notes = []
    for name, found in sorted(types.items()):
        notes.append(f"; the field {name!r} has values of type {' or '.join(sorted(found))}")
    return "".join(notes)


def describe_missing(conditions: Iterable[object], chunks: Sequence[Mapping[str, Any]]) -> str:
    """Name the fields of filters that no chunk has; of the others, only those that all have."""
    missing = _all_fields(conditions).difference(*chunks)
    if not missing or not chunks:
        return ""
    common = set(chunks[0]).intersection(*chunks) - WRITTEN
    return (
        f"; no chunk (of {len(chunks)} read) has the field {first_few(map(repr, sorted(missing)))}"
        f", all have {first_few(sorted(common)) or 'none'}"
    )


def _all_fields(conditions: Iterable[object]) -> set[str]:
    return set().union(*(fields_of(condition) or () for condition in conditions))


def _is_comparison(value: object) -> bool:
    """True if a field is compared with values, directly or with known operators."""
    if not isinstance(value, Mapping):
        return _is_value(value)
    for name, operand in value.items():
        if name not in _OPERATORS or not _is_value(operand):
            return False
        if name in {"$in", "$nin"} and not isinstance(operand, _LISTS):
            return False
    return True


def _is_value(value: object) -> bool:
    if isinstance(value, _LISTS):
        return all(isinstance(item, _VALUES) for item in value)
    return isinstance(value, _VALUES)


def matches(
    condition: Mapping[str, Any], metadata: Mapping[str, Any], *, is_lenient: bool = False
) -> bool:
    """True if metadata passes a filter.

    A list in the metadata equals or contains a value if one of its items equals the value. A
    missing field fails every comparison. With ``is_lenient``, it only fails an equality, as in all
    vector stores; other comparisons it passes in some.
    """
    for name, value in condition.items():
        if name in _JOINS:
            parts = [matches(part, metadata, is_lenient=is_lenient) for part in value]
            passes = _JOINS[name](parts)
        elif metadata.get(name) is None:
            is_equality = value is not None  # the field must be there
            if isinstance(value, Mapping):
                is_equality = value.keys() <= {"$eq", "$in"}
            passes = is_lenient and not is_equality
        else:
            passes = _compares(metadata[name], value)
        if not passes:
            return False
    return True


def _compares(value: object, comparison: object) -> bool:
    """True if a value passes a comparison: a value, a list of values, or operators."""
    if isinstance(comparison, _LISTS):
        return _is_in(value, comparison)
    if isinstance(comparison, Mapping):
        try:
            return all(_OPERATORS[name](value, operand) for name, operand in comparison.items())
        except TypeError:  # values of different kinds, such as 1 and "a", have no order
            return False
    return _equals(value, comparison)


def _equals(value: object, other: object) -> bool:
    """True if two values are equal (True is not 1), or an item of a list equals the other value."""
    if isinstance(value, _LISTS) and not isinstance(other, _LISTS):
        return any(_equals(item, other) for item in value)
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _is_in(value: object, allowed_values: Any) -> bool:  # noqa: ANN401 - a list
    return any(_equals(value, allowed) for allowed in allowed_values)


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": _equals,
    "$ne": lambda value, other: not _equals(value, other),
    "$in": _is_in,
    "$nin": lambda value, others: not _is_in(value, others),
    "$contains": lambda value, item: isinstance(value, _LISTS) and _equals(value, item),
    "$not_contains": lambda value, item: not _equals(value, item),
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}

OPERATORS = f"{', '.join(_OPERATORS)}, {' and '.join(_JOINS)}"
"""The operators of filters, for messages."""
