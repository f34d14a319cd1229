"""RedisDocStore: a docstore in Redis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from langchain_rse._messages import load, warn
from langchain_rse._sync import batches
from langchain_rse.stores.json import Swap, SwappingBytes, SwappingDocStore

_KEYS_PER_COMMAND = 500
# For each key: the value that is expected, and the new value; "" for none.
_SWAP = """
local made = {}
for i, key in ipairs(KEYS) do
    local new, expected = ARGV[2 * i], (redis.call('GET', key) or '') == ARGV[2 * i - 1]
    made[i] = expected and 1 or 0
    if expected and new == '' then redis.call('DEL', key)
    elseif expected then redis.call('SET', key, new) end
end
return made
"""


class RedisDocStore(SwappingDocStore):
    """A docstore in Redis, or in a server that speaks its protocol, other than Redis Cluster.

    What Redis keeps depends on its settings: set ``appendfsync always`` for records that survive a
    power cut, and ``maxmemory-policy noeviction``. A warning says if Redis may evict records. Async
    methods use threads.

    Args:
        url: A URL such as ``redis://:password@host:6379/0`` or ``unix:///path``.
        prefix: The beginning of the names of all keys in Redis.

    Raises:
        ImportError: If the package redis is not installed.
    """

    store: _Redis

    def __init__(self, url: str, *, prefix: str = "langchain_rse:") -> None:
        super().__init__(_Redis(url, prefix))

    def __repr__(self) -> str:
        where = self.store.client.get_connection_kwargs()
        place = where.get("path") or f"{where.get('host')}:{where.get('port')}/{where.get('db')}"
        return f"RedisDocStore({place!r})"

    def close(self) -> None:
        """Close the connections. The store opens new ones when it is used again."""
        self.store.client.close()

    async def aclose(self) -> None:
        """Like `close`, async."""
        self.close()


class _Redis(SwappingBytes):
    def __init__(self, url: str, prefix: str) -> None:
        redis = load("redis", "redis", "RedisDocStore")
        self._url, self._prefix = url, prefix
        self.client: Any = redis.Redis.from_url(url)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._url, self._prefix)

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        names = batches(map(self._name, keys), _KEYS_PER_COMMAND)
        return [value for some in names for value in self._checked.mget(some)]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        for some in batches(key_value_pairs, _KEYS_PER_COMMAND):
            self._checked.mset({self._name(key): value for key, value in some})

    def mdelete(self, keys: Sequence[str]) -> None:
        for some in batches(map(self._name, keys), _KEYS_PER_COMMAND):
            self._checked.delete(*some)

    def swap(self, swaps: Sequence[Swap]) -> list[bool]:
        made: list[bool] = []
        for some in batches(swaps, _KEYS_PER_COMMAND):
            names = [self._name(key) for key, _, _ in some]
            words = [word for _, old, new in some for word in (old or b"", new or b"")]
            made += map(bool, self._checked.eval(_SWAP, len(names), *names, *words))
        return made

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", self._name(prefix or "")) + "*"
        for name in self._checked.scan_iter(pattern, count=_KEYS_PER_COMMAND):
            yield name.decode().removeprefix(self._prefix)

    def _name(self, key: str) -> str:
        return self._prefix + key

    @cached_property
    def _checked(self) -> Any:  # noqa: ANN401
        """The client; at first use, warns if the server may evict records."""
        memory = self.client.info("memory")
        policy = memory.get("maxmemory_policy", "noeviction")
        if memory.get("maxmemory") and policy != "noeviction":
            warn(
                f"Redis has a maxmemory and the policy {policy!r}: it may evict records, and "
                "documents are lost then. Set maxmemory-policy noeviction"
            )
        return self.client
