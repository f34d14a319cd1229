"""Compares metadata with filters that are dicts of fields and values."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

_LISTS = (list, tuple, set, frozenset)


def passes(condition: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """True if metadata passes a filter; a field that is missing passes no comparison.

    A list equals or contains a value if one of its values is equal to it.
    """
    for name, value in condition.items():
        if name == "$and":
            passed = all(passes(part, metadata) for part in value)
        elif name == "$or":
            passed = any(passes(part, metadata) for part in value)
        else:
            passed = _compares(value, metadata.get(name))
        if not passed:
            return False
    return True


def has_known_operators(condition: Mapping[str, Any]) -> bool:
    """True if `passes` knows all operators of a filter."""
    for name, value in condition.items():
        if name in {"$and", "$or"}:
            if not isinstance(value, (list, tuple)) or not all(map(has_known_operators, value)):
                return False
        elif name.startswith("$"):
            return False
        elif isinstance(value, Mapping):
            if not value.keys() <= _OPERATORS.keys():
                return False
    return True


def excludes_list(condition: Mapping[str, Any], lists: Mapping[str, list[Any]]) -> bool:
    """True if a filter excludes a chunk by these fields, whose values are lists.

    Also true if it compares one of them by an operator that is not known for lists. What a filter
    says of other fields is not looked at: they may have any value.
    """
    for name, value in condition.items():
        if name in {"$and", "$or"} and isinstance(value, (list, tuple)):
            excluded_by = [excludes_list(part, lists) for part in value]
            is_excluded = any(excluded_by) if name == "$and" else all(excluded_by)
        elif name.startswith("$"):  # such as "$not"
            parts = value if isinstance(value, (list, tuple)) else [value]
            is_excluded = any(_names_any(part, lists) for part in parts)
        else:
            values = lists.get(field_name(name))
            is_excluded = values is not None and not _list_compares(value, values)
        if is_excluded:
            return True
    return False


def field_name(path: str) -> str:
    """The name of a metadata field in a filter, without the path that some stores put before it."""
    return path.rpartition(".")[2]


def _names_any(condition: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    """True if a filter names one of these fields."""
    for name, value in condition.items():
        if field_name(name) in names:
            return True
        parts = value if isinstance(value, (list, tuple)) else [value]
        for part in parts:
            if isinstance(part, Mapping) and _names_any(part, names):
                return True
    return False


def _list_compares(comparison: Any, values: list[Any]) -> bool:  # noqa: ANN401 - of any type
    """True if a list passes a comparison by operators that are known."""
    if isinstance(comparison, Mapping) and not comparison.keys() <= _OPERATORS.keys():
        return False
    return _compares(comparison, values)


def _compares(comparison: Any, value: Any) -> bool:  # noqa: ANN401 - of any type
    """True if a value passes a comparison: a value, a list of values, or operators."""
    if value is None:
        return False
    if isinstance(comparison, _LISTS):
        return _is_in(value, comparison)
    if not isinstance(comparison, Mapping):
        return _equals(value, comparison)
    return all(_OPERATORS[name](value, operand) for name, operand in comparison.items())


def _equals(value: Any, other: Any) -> bool:  # noqa: ANN401
    """True if two values are equal and both are booleans, or neither is; a list if one item is."""
    if isinstance(value, _LISTS) and not isinstance(other, _LISTS):
        return any(_equals(item, other) for item in value)
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _is_in(value: Any, allowed_values: Any) -> bool:  # noqa: ANN401
    return any(_equals(value, allowed) for allowed in allowed_values)


def _contains(value: Any, item: Any) -> bool:  # noqa: ANN401
    return isinstance(value, _LISTS) and _equals(value, item)


def _by_order(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """A comparison that numbers and strings pass, each with their like."""

    def compares(value: object, other: object) -> bool:
        are_numbers = isinstance(value, (int, float)) and isinstance(other, (int, float))
        are_texts = isinstance(value, str) and isinstance(other, str)
        return (are_numbers or are_texts) and compare(value, other)

    return compares


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": _equals,
    "$ne": lambda value, other: not _equals(value, other),
    "$in": _is_in,
    "$nin": lambda value, others: not _is_in(value, others),
    "$contains": _contains,
    "$not_contains": lambda value, item: not _equals(value, item),
    "$gt": _by_order(operator.gt),
    "$gte": _by_order(operator.ge),
    "$lt": _by_order(operator.lt),
    "$lte": _by_order(operator.le),
}
