"""Documents as JSON records, and a docstore that keeps them in any byte store.

Values of types that JSON lacks are written as ``{"__rse__": [kind, value]}``. The last field of a
record is a checksum of its key and of all fields before it.
"""

import datetime as dt
import decimal
import hashlib
import json
import math
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple, cast, get_args, get_origin

import numpy as np
import orjson
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from typing_extensions import override

from langchain_rse._sync import Steps, call
from langchain_rse.errors import CorruptRecordError, MetadataError
from langchain_rse.stores.changing import DocStore, StepStore
from langchain_rse.stores.files import reading_files, writing_files

_TAG = "__rse__"
_CHECKSUM = ',"checksum":"%s"}'  # the end of a record
_CHECKSUM_LENGTH = len(_CHECKSUM % ("0" * 32))


class _Kind(NamedTuple):
    """How values of a type that JSON lacks are written and read."""

    name: str
    write: Callable[[Any], str]
    read: Callable[[str], Any]


_KINDS: dict[type, _Kind] = {
    dt.datetime: _Kind("datetime", dt.datetime.isoformat, dt.datetime.fromisoformat),
    dt.date: _Kind("date", dt.date.isoformat, dt.date.fromisoformat),
    dt.time: _Kind("time", dt.time.isoformat, dt.time.fromisoformat),
    decimal.Decimal: _Kind("decimal", str, decimal.Decimal),
    uuid.UUID: _Kind("uuid", str, uuid.UUID),
    bytes: _Kind("bytes", bytes.hex, bytes.fromhex),
}
_READERS: dict[str, Callable[[Any], Any]] = {
    **{kind.name: kind.read for kind in _KINDS.values()},
    "tuple": tuple,
    "dict": dict,
    "float": float,
    "path": Path,
}
# Types whose values JSON writes as they are: those of most metadata.
_PLAIN_TYPES = frozenset({str, int, bool, type(None)})


def encode_json(value: Any, place: str) -> str:  # noqa: ANN401
    """Encode a value as JSON that decodes to it again; a MetadataError names its ``place``."""
    try:
        plain = _to_json(value, place)
        try:
            return orjson.dumps(plain).decode()
        except TypeError:
            # orjson takes neither lone surrogates nor integers of more than 64 bits.
            return json.dumps(plain, separators=(",", ":"))
    except RecursionError as error:
        raise MetadataError(f"{place} cannot be kept in a docstore: nested too deep") from error


def encode_document(document: Document, key: str) -> str:
    """Encode a Document as the record of a key, which `decode_document` reads unchanged."""
    fields: dict[str, Any] = {"page_content": document.page_content}
    if document.metadata:
        fields["metadata"] = document.metadata
    if document.id is not None:
        fields["id"] = document.id
    text = encode_json(fields, "document")[:-1]
    return text + _CHECKSUM % _checksum(text.encode(), key)


def decode_document(record: str | bytes, key: str) -> Document:
    """Read a record of `encode_document`; a CorruptRecordError if it is none or was changed."""
    try:
        whole = record if isinstance(record, str) else record.decode()
        text = whole[:-_CHECKSUM_LENGTH]
        if whole[-_CHECKSUM_LENGTH:] != _CHECKSUM % _checksum(text.encode(), key):
            raise ValueError("its checksum does not fit")  # noqa: TRY301 - like all other errors
        # Not orjson: it reads integers of more than 64 bits as floats.
        fields = json.loads(text + "}", object_hook=_from_json if _TAG in text else None)
        return Document(
            page_content=fields["page_content"],
            metadata=fields.get("metadata", {}),
            id=fields.get("id"),
        )
    except Exception as error:
        reason = str(error) if type(error) is ValueError else type(error).__name__
        raise CorruptRecordError(
            f"the docstore's record {key!r} cannot be read ({reason}): it is damaged, belongs to "
            "another key, or was written by another version of langchain-rse; delete this key and "
            "add its document again"
        ) from error


def decode_documents(
    records: Sequence[str | bytes | None], keys: Sequence[str]
) -> list[Document | None]:
    """Read the records of keys; None for keys without a record."""
    pairs = zip(records, keys, strict=True)
    return [None if record is None else decode_document(record, key) for record, key in pairs]


def is_readable(record: Any, key: str) -> bool:  # noqa: ANN401 - damaged, it may be of any type
    """True if the record of a key can be read: its checksum fits."""
    try:
        decode_document(record, key)
    except CorruptRecordError:
        return False
    return True


def is_record(record: str | bytes | None, document: Document | None, key: str) -> bool:
    """True if a key's record is that of the Document; for None, if no record can be read."""
    if record is not None and document is not None:
        text = encode_document(document, key)
        if record in (text, text.encode()):  # decoded, NaN would not equal itself
            return True
    try:
        stored = None if record is None else decode_document(record, key)
    except CorruptRecordError:
        stored = None
    return stored == document


def _checksum(text: bytes, key: str) -> str:
    state = hashlib.blake2b(text, digest_size=16)
    state.update(key.encode("utf-8", "surrogatepass"))
    return state.hexdigest()


def _to_json(value: Any, place: str) -> Any:  # noqa: ANN401 - a return for each type
    """Convert a value to one that JSON can write."""
    if isinstance(value, (np.number, np.bool_)):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # the value of an enum, not its name
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, dict):
        fields = _dict_to_json(value, place)
        return {_TAG: ["dict", list(fields.items())]} if _TAG in fields else fields
    if isinstance(value, list):
        return _items_to_json(value, place)
    return {_TAG: _to_tagged(value, place)}


def _to_tagged(value: Any, place: str) -> list[Any]:  # noqa: ANN401
    """Convert a value of a type that JSON lacks to its kind and a value that JSON can write."""
    if isinstance(value, float):  # infinite, or no number
        return ["float", str(float(value))]
    if type(value) is tuple:
        return ["tuple", _items_to_json(value, place)]
    if isinstance(value, PurePath):
        return ["path", str(value)]
    kind = _KINDS.get(type(value))
    if kind is None:
        raise _unsupported(value, place)
    return [kind.name, kind.write(value)]


def _dict_to_json(fields: dict[Any, Any], place: str) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for name, value in fields.items():
        if not isinstance(name, str):
            raise _unsupported(name, f"the key {name!r} in {place}")
        plain_name = str.__str__(name)
        if type(value) in _PLAIN_TYPES:
            converted[plain_name] = value
        else:
            converted[plain_name] = _to_json(value, f"{place}[{name!r}]")
    return converted


def _items_to_json(items: Sequence[Any], place: str) -> list[Any]:
    return [_to_json(item, f"{place}[{index}]") for index, item in enumerate(items)]


def _unsupported(value: object, place: str) -> MetadataError:
    return MetadataError(
        f"{place} is of type {type(value).__name__} and cannot be kept in a docstore; "
        "use strings, numbers, booleans, None, dates, times, Decimal, UUID, paths, bytes, or "
        "lists, tuples and dicts (with string keys) of them"
    )


def _from_json(fields: dict[str, Any]) -> Any:  # noqa: ANN401
    """Undo `_to_json` for an object of JSON, whose own objects are converted already."""
    if fields.keys() != {_TAG}:
        return fields
    kind, value = fields[_TAG]
    return _READERS[kind](value)


class JSONDocStore(StepStore):
    """A docstore that keeps Documents in a byte store such as ``LocalFileStore`` or ``RedisStore``.

    `langchain_rse.RSERetriever` wraps byte stores by itself; this class is for direct use.

    Args:
        store: The byte store, in which records are UTF-8 JSON.
    """

    def __init__(self, store: BaseStore[str, bytes]) -> None:
        self.store = store

    @override
    def _get_steps(self, keys: Sequence[str]) -> Steps[list[Document | None]]:
        with reading_files():
            values = yield from call(self.store.mget, self.store.amget, keys)
        return decode_documents(values, keys)

    @override
    def _set_steps(self, pairs: Sequence[tuple[str, Document]]) -> Steps[None]:
        values = [(key, encode_document(document, key).encode()) for key, document in pairs]
        with writing_files():
            yield from call(self.store.mset, self.store.amset, values)

    @override
    def _delete_steps(self, keys: Sequence[str]) -> Steps[None]:
        with writing_files():
            yield from call(self.store.mdelete, self.store.amdelete, keys)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with the prefix."""
        # Some stores take a prefix for a folder, so all keys are read.
        for key in self.store.yield_keys():
            if key.startswith(prefix or ""):
                yield key

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """Like `yield_keys`, async."""
        async for key in self.store.ayield_keys():
            if key.startswith(prefix or ""):
                yield key


def as_docstore(store: DocStore | BaseStore[str, bytes]) -> DocStore:
    """Return a store of Documents; a byte store is wrapped in a `JSONDocStore`."""
    if not isinstance(store, BaseStore):
        raise TypeError(
            "docstore must be a LangChain BaseStore, for example "
            f"SQLDocStore('sqlite:///chunks.db'); got {type(store).__name__}"
        )
    if _keeps_bytes(type(store)):
        return JSONDocStore(cast("BaseStore[str, bytes]", store))
    return cast("DocStore", store)


def _keeps_bytes(cls: type) -> bool:
    """True if the type arguments of a store's class are those of ``BaseStore[str, bytes]``."""
    for ancestor in cls.__mro__:
        for base in vars(ancestor).get("__orig_bases__", ()):
            # ``InMemoryBaseStore[bytes]`` names the type of its values only.
            is_store = issubclass(get_origin(base) or object, BaseStore)
            if is_store and get_args(base)[-1] is bytes:
                return True
    return False
