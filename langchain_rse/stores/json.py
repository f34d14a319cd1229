"""Encodes Documents as JSON records; provides a docstore on top of any byte store.

Values of types that JSON does not have are written as ``{"__rse__": [kind, value]}``. A record ends
with a checksum of its key and of all earlier fields, and with the format number.
"""

import datetime as dt
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, cast, get_args, get_origin

import numpy as np
import orjson
from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from typing_extensions import override

from langchain_rse._messages import check_type
from langchain_rse.errors import CorruptRecordError, FormatError, MetadataError
from langchain_rse.stores.compare_and_set import DocStore, is_as_expected

_FORMAT = 7
# A record ends with its checksum and format.
_CHECKSUM = ',"checksum":"'
_END = f'","format":{_FORMAT}}}'

_TAG = "__rse__"
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_READERS: dict[str, Callable[[Any], Any]] = {
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "float": _FLOATS.__getitem__,
    "text": "".join,
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_WITHIN_PAIR = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")
_LEAST_INTEGER = -(2**63)
_LARGEST_INTEGER = 2**64 - 1


def encode_json(value: Any, place: str, *, in_order: bool = False) -> str:  # noqa: ANN401
    """Encode a value as JSON that decodes to the same value; ``in_order`` sorts fields by name.

    Raises:
        MetadataError: If the value is not supported; the message names its ``place``.
    """
    try:
        encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS if in_order else None)
        # Compared, because orjson turns NaN into null, and tuples into lists.
        if _TAG.encode() not in encoded and orjson.loads(encoded) == value:
            return encoded.decode()
    except TypeError:  # a type that JSON does not have, a surrogate, or a large integer
        pass
    try:
        plain = _to_json(value, place)
        text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False, sort_keys=in_order)
    except RecursionError as error:
        raise MetadataError(f"{place} is nested too deeply for a docstore") from error
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):x}", text)


def encode_document(document: Document, key: str) -> str:
    """Encode a Document as the record of a key; `decode_document` restores it exactly."""
    fields = {
        "page_content": document.page_content,
        "metadata": document.metadata,
        "id": document.id,
    }
    text = encode_json(fields, "document").removesuffix("}")
    return text + _CHECKSUM + _checksum(text, key) + _END


def decode_document(record: str | bytes, key: str) -> Document:
    """Decode a record of `encode_document`.

    Raises:
        CorruptRecordError: If the record is damaged, or belongs to another key.
        FormatError: If another version of this package wrote the record.
    """
    try:
        text = _checked_text(record if isinstance(record, str) else record.decode(), key)
        fields = parse_json(text + "}")
        return Document(
            page_content=fields["page_content"],
            metadata=fields.get("metadata", {}),
            id=fields.get("id"),
        )
    except FormatError:
        raise
    except Exception as error:
        reason = str(error) if type(error) is ValueError else type(error).__name__
        raise CorruptRecordError(
            f"the docstore's record {key!r} cannot be read ({reason}): it is damaged or belongs to "
            "another key. Delete this key and add its document again"
        ) from error


def parse_json(text: str) -> Any:  # noqa: ANN401
    """Decode what `encode_json` encoded: with orjson, or json for tagged values and surrogates."""
    if _TAG not in text:
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(text)
    return json.loads(text, object_hook=_from_json)


def _checked_text(record: str, key: str) -> str:
    """Return a record without its end, after checking the format and the checksum."""
    text, _, end = record.rpartition(_CHECKSUM)
    checksum = _checksum(text, key)
    if not end.startswith(checksum):
        raise ValueError("wrong checksum")
    if end != checksum + _END:
        raise FormatError(
            f"another version of langchain-rse wrote the docstore's record {key!r}. Index the "
            "documents again into a new docstore and a new collection"
        )
    return text


def decode_documents(
    records: Sequence[str | bytes | None], keys: Sequence[str]
) -> list[Document | None]:
    """Decode the records of keys; None for keys without a record."""
    pairs = zip(records, keys, strict=True)
    return [None if record is None else decode_document(record, key) for record, key in pairs]


def is_record(record: str | bytes | None, document: Document | None, key: str) -> bool:
    """True if a key's record is the expected Document; None expects no readable record."""
    try:
        stored = None if record is None else decode_document(record, key)
    except CorruptRecordError:
        stored = None
    return is_as_expected(stored, document)


def _checksum(text: str, key: str) -> str:
    state = hashlib.blake2b(text.encode(), digest_size=16)
    state.update(key.encode("utf-8", "surrogatepass"))
    return state.hexdigest()


def _to_json(value: Any, place: str) -> Any:  # noqa: ANN401 - a return for each type
    """Convert a value to JSON types."""
    if isinstance(value, (np.number, np.bool_)):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text_to_json(value)
    if isinstance(value, int):
        if not _LEAST_INTEGER <= value <= _LARGEST_INTEGER:
            raise MetadataError(
                f"{place} is an integer of more than 64 bits, which a docstore cannot keep. Use a "
                "string"
            )
        return int(value)
    if isinstance(value, float):
        plain = float(value)
        return plain if math.isfinite(plain) else {_TAG: ["float", str(plain)]}
    if isinstance(value, dict):
        return _dict_to_json(value, place)
    if isinstance(value, list):
        return [_to_json(item, f"{place}[{index}]") for index, item in enumerate(value)]
    if type(value) in (dt.datetime, dt.date):
        return {_TAG: [type(value).__name__, value.isoformat()]}
    raise _unsupported(value, place)


def _text_to_json(text: str) -> Any:  # noqa: ANN401 - a string or a dict
    """Split a string within pairs of surrogates: in JSON, a pair would become one character."""
    text = str.__str__(text)  # for an enum: its value, not its name
    try:
        text.encode()
    except UnicodeEncodeError:
        parts = _WITHIN_PAIR.split(text)
        return text if len(parts) == 1 else {_TAG: ["text", parts]}
    return text


def _dict_to_json(fields: dict[Any, Any], place: str) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for name, value in fields.items():
        key = _text_to_json(name) if isinstance(name, str) else None
        if not isinstance(key, str) or key == _TAG:
            raise _unsupported(name, f"the key {name!r} in {place}")
        converted[key] = _to_json(value, f"{place}[{name!r}]")
    return converted


def _unsupported(value: object, place: str) -> MetadataError:
    return MetadataError(
        f"{place} has the type {type(value).__name__} or a value that a docstore cannot keep. Use "
        "strings, numbers, booleans, None, dates, datetimes, or lists and dicts of these; keys are "
        f"strings without pairs of surrogates, except {_TAG!r}"
    )


def _from_json(fields: dict[str, Any]) -> Any:  # noqa: ANN401
    """Undo `_to_json` for a JSON object; nested objects are already converted."""
    if fields.keys() != {_TAG}:
        return fields
    kind, value = fields[_TAG]
    return _READERS[kind](value)


class JSONDocStore(BaseStore[str, Document]):
    """A docstore in a byte store, such as ``LocalFileStore`` or ``RedisStore``.

    `langchain_rse.RSERetriever` wraps byte stores automatically; this class is for direct use.

    Args:
        store: The byte store. Records are stored as UTF-8 JSON.
    """

    def __init__(self, store: BaseStore[str, bytes]) -> None:
        self.store = store

    @override
    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        return decode_documents(self.store.mget(keys), keys)

    @override
    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        records = [
            (key, encode_document(document, key).encode()) for key, document in key_value_pairs
        ]
        self.store.mset(records)

    @override
    def mdelete(self, keys: Sequence[str]) -> None:
        self.store.mdelete(keys)

    @override
    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        # Some stores treat a prefix as a folder, so read all keys.
        for key in self.store.yield_keys():
            if key.startswith(prefix or ""):
                yield key


def as_docstore(store: DocStore | BaseStore[str, bytes]) -> DocStore:
    """Return a store of Documents; wrap a byte store in a `JSONDocStore`."""
    example = "SQLDocStore('sqlite:///chunks.db')"
    check_type("docstore", store, BaseStore, f"a LangChain BaseStore, for example {example}")
    if _keeps_bytes(type(store)):
        return JSONDocStore(cast("BaseStore[str, bytes]", store))
    return cast("DocStore", store)


def _keeps_bytes(cls: type) -> bool:
    """True if a store's class derives from ``BaseStore[str, bytes]``."""
    for ancestor in cls.__mro__:
        for base in vars(ancestor).get("__orig_bases__", ()):
            # ``InMemoryBaseStore[bytes]`` has only the value type as argument.
            is_store = issubclass(get_origin(base) or object, BaseStore)
            if is_store and get_args(base)[-1] is bytes:
                return True
    return False
