"""RedisDocStore: a docstore in Redis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from langchain_core.documents import Document
from pydantic import SecretStr
from typing_extensions import override

from langchain_rse._messages import load, warn
from langchain_rse._sync import batches
from langchain_rse.stores.compare_and_set import Change, ComparesAndSets
from langchain_rse.stores.json import decode_documents, encode_document, is_record

_KEYS_PER_COMMAND = 500
# A value that grows by at most this many bytes is replaced even if the server's memory is full.
# Otherwise documents could not be deleted, because a deletion changes the manifest first.
_GROWTH = 256
# Arguments for each key: the expected value and the new value; "" for none. At its memory limit,
# Redis refuses SET unless the script has already written, so DEL comes first.
_SWAP = f"""
local made = {{}}
for i, key in ipairs(KEYS) do
    local expected, new = ARGV[2 * i - 1], ARGV[2 * i]
    made[i] = (redis.call('GET', key) or '') == expected and 1 or 0
    if made[i] == 1 then
        if expected ~= '' and #new <= #expected + {_GROWTH} then redis.call('DEL', key) end
        if new ~= '' then redis.call('SET', key, new) end
    end
end
return made
"""


class RedisDocStore(ComparesAndSets):
    """A docstore in Redis or a compatible server. Redis Cluster is not supported.

    Configure Redis to keep records: ``appendfsync always`` makes them survive a power cut, and
    ``maxmemory-policy noeviction`` prevents eviction. The store warns if Redis may evict records.
    Async methods use threads.

    Args:
        url: A URL such as ``redis://:password@host:6379/0`` or ``unix:///path``.
        prefix: Prefix of all keys in Redis.

    Raises:
        ImportError: If the package ``redis`` is not installed.
    """

    def __init__(self, url: str, *, prefix: str = "langchain_rse:") -> None:
        redis = load("redis", "redis", "RedisDocStore")
        self._url = SecretStr(url)  # may contain a password
        self._prefix = prefix
        self._client: Any = redis.Redis.from_url(url)

    def __repr__(self) -> str:
        address = self._client.get_connection_kwargs()
        location = address.get("path")
        if location is None:
            location = f"{address.get('host')}:{address.get('port')}/{address.get('db')}"
        return f"RedisDocStore({location!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self._url.get_secret_value(), prefix=self._prefix), ()

    @override
    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        return decode_documents(self._read_values(keys), keys)

    @override
    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        values = [(self._name(key), _encode(document, key)) for key, document in key_value_pairs]
        for batch in batches(values, _KEYS_PER_COMMAND):
            self._checked_client.mset(dict(batch))

    @override
    def mdelete(self, keys: Sequence[str]) -> None:
        for batch in batches(keys, _KEYS_PER_COMMAND):
            self._checked_client.delete(*[self._name(key) for key in batch])

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the keys that begin with a prefix."""
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", self._name(prefix or "")) + "*"
        for name in self._checked_client.scan_iter(pattern, count=_KEYS_PER_COMMAND):
            yield name.decode().removeprefix(self._prefix)

    def close(self) -> None:
        """Close the connections. Later use of the store opens new ones."""
        self._client.close()

    @override
    def compare_and_set(self, changes: Sequence[Change]) -> list[bool]:
        values = self._read_values([key for key, _, _ in changes])
        swaps: list[_Swap] = []
        for number, (key, expected, new) in enumerate(changes):
            value = values[number]
            if is_record(value, expected, key):
                new_value = b"" if new is None else _encode(new, key)
                swaps.append(_Swap(number, self._name(key), value or b"", new_value))
        made = [False] * len(changes)
        # Values that grow most come first: if Redis refuses one, it has not changed any yet.
        swaps.sort(key=lambda swap: len(swap.value) - len(swap.new_value))
        for batch in batches(swaps, _KEYS_PER_COMMAND):
            names = [swap.name for swap in batch]
            arguments: list[bytes] = []
            for swap in batch:
                arguments += [swap.value, swap.new_value]
            outcomes = self._checked_client.eval(_SWAP, len(names), *names, *arguments)
            for swap, outcome in zip(batch, outcomes, strict=True):
                made[swap.number] = bool(outcome)
        return made

    def _read_values(self, keys: Sequence[str]) -> list[bytes | None]:
        values: list[bytes | None] = []
        for batch in batches(keys, _KEYS_PER_COMMAND):
            values += self._checked_client.mget([self._name(key) for key in batch])
        return values

    def _name(self, key: str) -> str:
        """Return the name of a key in Redis."""
        return self._prefix + key

    @cached_property
    def _checked_client(self) -> Any:  # noqa: ANN401
        """The client; on first use, warn if the server may evict records."""
        memory = self._client.info("memory")
        policy = memory.get("maxmemory_policy", "noeviction")
        if memory.get("maxmemory") and policy != "noeviction":
            warn(
                f"Redis may evict records (maxmemory-policy is {policy!r}), which loses documents. "
                "Set maxmemory-policy to noeviction"
            )
        return self._client


class _Swap(NamedTuple):
    """A change of one key's bytes."""

    number: int  # position of the change in the call
    name: str  # name of the key in Redis
    value: bytes  # expected value; empty for no record
    new_value: bytes  # empty to delete the record


def _encode(document: Document, key: str) -> bytes:
    return encode_document(document, key).encode()
