"""Documents as JSON: what docstores keep.

Values that JSON lacks are written as ``{"__rse__": [kind, value]}``.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import uuid
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import orjson
from langchain_core.documents import Document

from langchain_rse.schema import CorruptRecordError

__all__ = ["corrupt", "decode_document", "encode_document", "encode_json"]

_TAG = "__rse__"
_ENCODERS: list[tuple[type, str, Callable[[Any], Any]]] = [
    # datetime before date: it is a subclass.
    (dt.datetime, "datetime", dt.datetime.isoformat),
    (dt.date, "date", dt.date.isoformat),
    (dt.time, "time", dt.time.isoformat),
    (decimal.Decimal, "decimal", str),
    (uuid.UUID, "uuid", str),
    (bytes, "bytes", bytes.hex),
]
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "decimal": decimal.Decimal,
    "uuid": uuid.UUID,
    "bytes": bytes.fromhex,
    "tuple": tuple,
    "dict": dict,
    "float": float,
    "path": Path,
}

_PLAIN_NAMES = frozenset({str})
_PLAIN_VALUES = frozenset({str, int, bool, type(None)})


def _to_json(value: Any, place: str) -> Any:  # noqa: ANN401, C901, PLR0911, PLR0912 - a case a type
    if _is_plain(value):
        return value
    if isinstance(value, np.generic):
        plain = value.item()
        # Of times finer than a microsecond, numpy gives a bare number: that is no date.
        if not (isinstance(value, (np.datetime64, np.timedelta64)) and isinstance(plain, int)):
            value = plain
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # of an enum, what it holds
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_TAG: ["float", str(float(value))]}
    if type(value) is tuple:
        return {_TAG: ["tuple", [_to_json(v, f"{place}[{i}]") for i, v in enumerate(value)]]}
    if isinstance(value, list):
        return [_to_json(v, f"{place}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(_refusal(f"the key {name!r} in {place}", name))
        fields = {str.__str__(name): _to_json(v, f"{place}[{name!r}]") for name, v in value.items()}
        return {_TAG: ["dict", list(fields.items())]} if _TAG in fields else fields
    if isinstance(value, PurePath):
        return {_TAG: ["path", str(value)]}
    for kind, name, encode in _ENCODERS:
        if type(value) is kind:
            return {_TAG: [name, encode(value)]}
    raise TypeError(_refusal(place, value))


def _is_plain(value: object) -> bool:
    """Whether it is a flat dict or list that is JSON as it stands: what records mostly hold."""
    if type(value) is dict:
        return (
            _PLAIN_NAMES.issuperset(map(type, value))
            and _PLAIN_VALUES.issuperset(map(type, value.values()))
            and _TAG not in value
        )
    return type(value) is list and _PLAIN_VALUES.issuperset(map(type, value))


def _refusal(place: str, value: object) -> str:
    return (
        f"{place} is of type {type(value).__name__} and cannot be kept in a docstore; "
        "use strings, numbers, booleans, None, dates, times, Decimal, UUID, paths, bytes, or "
        "lists, tuples and dicts (with string keys) of them"
    )


def _from_json(fields: dict[str, Any]) -> Any:  # noqa: ANN401
    if fields.keys() == {_TAG}:
        kind, value = fields[_TAG]
        return _DECODERS[kind](value)
    return fields


def encode_json(value: Any, place: str) -> str:  # noqa: ANN401
    """Write a value as JSON that reads back as it was, dates and tuples included.

    Raises:
        TypeError: If the value has no such form; ``place`` says where it stands.
    """
    return _write_json(_to_json(value, place))


def _write_json(prepared: Any) -> str:  # noqa: ANN401
    try:
        return orjson.dumps(prepared).decode()
    except TypeError:
        # Lone surrogates: databases take them escaped only. Integers of more than 64 bits.
        return json.dumps(prepared, separators=(",", ":"))


def encode_document(document: Document) -> str:
    """Write a Document as JSON that `decode_document` reads back as it was.

    Dates, times, tuples, Decimal, UUID, paths and bytes survive; numpy numbers become Python's.

    Raises:
        TypeError: If the metadata has a value of another type; the message names it.
    """
    fields: dict[str, Any] = {"page_content": document.page_content}
    if document.metadata:
        fields["metadata"] = _to_json(document.metadata, "document['metadata']")
    if document.id is not None:
        fields["id"] = document.id
    return _write_json(fields)


def decode_document(text: str | bytes, key: str) -> Document:
    """Read what `encode_document` wrote.

    Raises:
        CorruptRecordError: If the text is something else; the message names the key.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        # A hook is called for every object: only where there is something for it. (orjson reads
        # integers of more than 64 bits as floats.)
        fields = json.loads(text, object_hook=_from_json if _TAG in text else None)
        return Document(
            page_content=fields["page_content"],
            metadata=fields.get("metadata", {}),
            id=fields.get("id"),
        )
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise corrupt(key, error) from error


def corrupt(key: str, error: Exception) -> CorruptRecordError:
    """What to raise about a record that cannot be read, and why it cannot."""
    return CorruptRecordError(
        f"the docstore's record {key!r} cannot be read ({error!r}); delete this key and add its "
        "document again"
    )
