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
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, cast, get_args, get_origin

import numpy as np
import orjson
from langchain_core.documents import Document
from langchain_core.stores import BaseStore, ByteStore
from typing_extensions import override

from langchain_rse._sync import Steps, call, compute
from langchain_rse.errors import CorruptRecordError, MetadataError
from langchain_rse.stores.changing import ComparesAndSets, DocStore, StepStore

_TAG = "__rse__"
_CHECKSUM = ',"checksum":"%s"}'  # the end of a record
_CHECKSUM_LENGTH = len(_CHECKSUM % ("0" * 32))
# Types that JSON lacks: the kind, how a value is written and how it is read.
_KINDS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    dt.datetime: ("datetime", dt.datetime.isoformat, dt.datetime.fromisoformat),
    dt.date: ("date", dt.date.isoformat, dt.date.fromisoformat),
    dt.time: ("time", dt.time.isoformat, dt.time.fromisoformat),
    decimal.Decimal: ("decimal", str, decimal.Decimal),
    uuid.UUID: ("uuid", str, uuid.UUID),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
}
_READERS: dict[str, Callable[[Any], Any]] = {
    **{kind: read for kind, _, read in _KINDS.values()},
    "tuple": tuple,
    "dict": dict,
    "float": float,
    "path": Path,
}


def encode_json(value: Any, place: str) -> str:  # noqa: ANN401
    """Encode a value as JSON that decodes to it again; a MetadataError names its ``place``."""
    try:
        plain = _to_json(value, place)
        try:
            return orjson.dumps(plain).decode()
        except TypeError:
            # orjson takes neither lone surrogates nor integers of more than 64 bits.
            return json.dumps(plain, separators=(",", ":"))
    except MetadataError:
        raise
    except (RecursionError, ValueError) as error:  # such as an integer of 5,000 digits
        why = "nested too deep" if isinstance(error, RecursionError) else error
        raise MetadataError(f"{place} cannot be kept in a docstore: {why}") from error


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
        plain = record if isinstance(record, str) else record.decode()
        text, end = plain[:-_CHECKSUM_LENGTH], plain[-_CHECKSUM_LENGTH:]
        if end != _CHECKSUM % _checksum(text.encode(), key):
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


def is_record(record: str | bytes | None, document: Document | None, key: str) -> bool:
    """True if a key's record is that of the Document; for None, if no record can be read."""
    if record is not None and document is not None:
        text = encode_document(document, key)
        if record in (text, text.encode()):  # decoded, NaN would not equal itself
            return True
    try:
        return (None if record is None else decode_document(record, key)) == document
    except CorruptRecordError:
        return document is None


def _checksum(text: bytes, key: str) -> str:
    state = hashlib.blake2b(text, digest_size=16)
    state.update(key.encode("utf-8", "surrogatepass"))
    return state.hexdigest()


def _to_json(value: Any, place: str) -> Any:  # noqa: ANN401, PLR0911 - a return for each type
    if isinstance(value, (np.number, np.bool_)):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # the value of an enum, not its name
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_TAG: ["float", str(float(value))]}
    if isinstance(value, dict):
        fields = {
            _name(name, place): _to_json(item, f"{place}[{name!r}]") for name, item in value.items()
        }
        return {_TAG: ["dict", list(fields.items())]} if _TAG in fields else fields
    if isinstance(value, list) or type(value) is tuple:
        items = [_to_json(item, f"{place}[{index}]") for index, item in enumerate(value)]
        return items if isinstance(value, list) else {_TAG: ["tuple", items]}
    if isinstance(value, PurePath):
        return {_TAG: ["path", str(value)]}
    if type(value) not in _KINDS:
        raise _unsupported(value, place)
    kind, write, _ = _KINDS[type(value)]
    return {_TAG: [kind, write(value)]}


def _name(name: object, place: str) -> str:
    if not isinstance(name, str):
        raise _unsupported(name, f"the key {name!r} in {place}")
    return str.__str__(name)


def _unsupported(value: object, place: str) -> MetadataError:
    return MetadataError(
        f"{place} is of type {type(value).__name__} and cannot be kept in a docstore; "
        "use strings, numbers, booleans, None, dates, times, Decimal, UUID, paths, bytes, or "
        "lists, tuples and dicts (with string keys) of them"
    )


def _from_json(fields: dict[str, Any]) -> Any:  # noqa: ANN401
    if fields.keys() == {_TAG}:
        kind, value = fields[_TAG]
        return _READERS[kind](value)
    return fields


class JSONDocStore(StepStore):
    """A docstore that keeps Documents in a byte store such as ``LocalFileStore`` or ``RedisStore``.

    `langchain_rse.RSERetriever` wraps byte stores by itself; this class is for direct use.

    Args:
        store: The byte store, in which records are UTF-8 JSON.
    """

    def __init__(self, store: BaseStore[str, bytes]) -> None:
        self.store = store

    @override
    def _steps(self, method: str, items: Sequence[Any]) -> Steps[Any]:
        if method == "mset":
            items = [(key, encode_document(document, key).encode()) for key, document in items]
        store = self.store
        found = yield from call(getattr(store, method), getattr(store, f"a{method}"), items)
        if method == "mget":
            values = zip(items, found, strict=True)
            return [one if one is None else decode_document(one, key) for key, one in values]
        return found

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with the prefix."""
        # Some stores take a prefix for a folder, so all keys are read.
        return (key for key in self.store.yield_keys() if key.startswith(prefix or ""))

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """Like `yield_keys`, async."""
        async for key in self.store.ayield_keys():
            if key.startswith(prefix or ""):
                yield key


Swap = tuple[str, bytes | None, bytes | None]
"""A key, the bytes that are expected there, and the new ones. None stands for no record."""


class SwappingBytes(ByteStore):
    """A byte store that compares and sets; async methods use threads."""

    @abstractmethod
    def swap(self, swaps: Sequence[Swap]) -> list[bool]:
        """Make each change whose bytes are as expected, durably; return for each if it was made."""


class SwappingDocStore(JSONDocStore, ComparesAndSets):
    """A docstore on a byte store that compares and sets."""

    store: SwappingBytes

    @override
    def _steps(self, method: str, items: Sequence[Any]) -> Steps[Any]:
        if method != "compare_and_set":
            return (yield from super()._steps(method, items))
        found = yield from call(self.store.mget, self.store.amget, [key for key, _, _ in items])
        swaps = {
            number: (key, value, None if new is None else encode_document(new, key).encode())
            for number, ((key, expected, new), value) in enumerate(zip(items, found, strict=True))
            if is_record(value, expected, key)
        }
        made = yield from compute(self.store.swap, list(swaps.values()))
        done = dict(zip(swaps, made, strict=True))
        return [done.get(number, False) for number in range(len(items))]


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
    return any(
        # ``InMemoryBaseStore[bytes]`` names the type of its values only.
        issubclass(get_origin(base) or object, BaseStore) and get_args(base)[-1] is bytes
        for ancestor in cls.__mro__
        for base in vars(ancestor).get("__orig_bases__", ())
    )
