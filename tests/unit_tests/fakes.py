"""Stand-ins for models and stores, and one way to run a test sync and async."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import random
import re
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, ParamSpec, TypeVar

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import BaseStore, InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_text_splitters import TextSplitter
from pydantic import Field

from langchain_rse import RSEConfig, RSEIndexer, RSERetriever
from langchain_rse._sync import in_thread
from langchain_rse.stores.compare_and_set import Record, read_records
from langchain_rse.stores.json import as_docstore
from langchain_rse.stores.pairing import PAIR_KEY

P = ParamSpec("P")
T = TypeVar("T")


# Chunks are lines such as "b 30": a name, and the angle between the line and the query, in
# degrees. So its similarity is the cosine of that angle.
QUERY = "query 0"
# The default solver, without what depends on other chunks: values can be added up by hand.
PLAIN = RSEConfig(
    calibration="identity",
    decay_rate=1e9,
    irrelevant_chunk_penalty=0.5,
    vector_weight=1.0,
    lexical_weight=0.0,
    name_weight=0.0,
    document_weight=0.0,
    rerank_weight=1.0,
    neighbor_weight=0.0,
    passage_cost=0.0,
    top_k_for_document_selection=None,
)
# Keeps every chunk that the index gives, if the budget is large enough: all candidates are
# relevant, and nothing costs anything.
EVERYTHING = RSEConfig(
    irrelevant_chunk_penalty=0.0,
    calibration="rank",
    rerank_weight=1.0,
    top_k_for_document_selection=None,
)


def about(expected: Any) -> Any:
    """Equal to a number, or numbers, of the metadata of passages, which have four digits."""
    return pytest.approx(expected, abs=1e-4)


def with_minimum(config: RSEConfig, value: float = 0.0) -> RSEConfig:
    """The config with another least value of passages, if its solver has one."""
    if config.solver == "exact":
        return config
    return config.replace(solver=config.solver.model_copy(update={"minimum_value": value}))


def text_of(name: str, chunks: int) -> str:
    """A text that is split into so many chunks, none of which occurs in another text."""
    return "\n\n".join(f"{name} paragraph {number:02} of the text" for number in range(chunks))


def keys_of(docstore: BaseStore[str, Any]) -> list[str]:
    """The keys of a docstore in order, but that of the record on its vector store."""
    return sorted(key for key in docstore.yield_keys() if key != PAIR_KEY)


def words(text: str) -> int:
    return len(text.split())


# Of some, the length of two texts together is more than that of each, or less.
LENGTHS: dict[str, Callable[[str], float]] = {
    "characters": len,
    "bytes": lambda text: len(text.encode()),
    "words": words,
    "started dozens": lambda text: -(-len(text) // 12),
    "squares": lambda text: len(text) ** 2 / 8,
    "roots": lambda text: math.isqrt(len(text)),
}


class ThreeValues:
    """What LangChain's standard tests of stores put in."""

    @pytest.fixture
    def three_values(self) -> tuple[Document, Document, Document]:
        return (
            Document("foo", metadata={"page": 1}),
            Document("", id="bar"),
            Document("buzz\n", metadata={"when": dt.date(2024, 1, 1)}),
        )


class BagOfWords(Embeddings):
    """Embeds a text as the counts of its words, hashed into a few dimensions.

    Attributes:
        batches: Number of texts in each call of ``embed_documents``, in order.
    """

    def __init__(self, size: int = 64) -> None:
        self.size = size
        self.batches: list[int] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.batches.append(len(texts))
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        # The first dimension keeps texts without a word from being a zero vector.
        vector = [0.1] + [0.0] * self.size
        for word in re.findall(r"\w+", text.lower()):
            vector[1 + zlib.crc32(word.encode("utf-8", "surrogatepass")) % self.size] += 1.0
        length = math.hypot(*vector)
        return [value / length for value in vector]


class Strict(BagOfWords):
    """Takes no text with half an emoji, as tokenizers do."""

    def embed_query(self, text: str) -> list[float]:
        text.encode()
        return super().embed_query(text)


class CutOffError(Exception):
    """What a model raises when a call is to be cut off."""


class CountingModel(BagOfWords):
    """Words, and noise so that no two texts are alike; notes what it embeds, and can fail.

    Attributes:
        texts: All that were embedded, in order.
        left: Texts that are embedded before a call is cut off; None for all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.left: int | None = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.left is not None:
            self.left -= len(texts)
            if self.left < 0:
                raise CutOffError
        self.texts += texts
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        chance = random.Random(text)  # noqa: S311 - only has to be the same again
        vector = [value + chance.gauss(0.0, 0.02) for value in super().embed_query(text)]
        length = math.hypot(*vector)
        return [value / length for value in vector]

    def taken(self) -> list[str]:
        """What was embedded since the last time."""
        texts, self.texts = self.texts, []
        return texts


class Angles(Embeddings):
    """Embeds a text as the direction of the angle that is its last word."""

    def embed_query(self, text: str) -> list[float]:
        angle = math.radians(float(text.rsplit(maxsplit=1)[-1]))
        return [math.cos(angle), math.sin(angle)]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


class Lines(TextSplitter):
    """Each line is a chunk."""

    def split_text(self, text: str) -> list[str]:
        return text.splitlines(keepends=True)


def lines(*angles: float, name: str = "c") -> str:
    """A text of such lines."""
    return "".join(f"{name}{number} {angle}\n" for number, angle in enumerate(angles))


class FixedRetriever(BaseRetriever):
    """Returns the same Documents for any query, and remembers how it was asked."""

    documents: list[Document]
    asked: list[dict[str, Any]] = Field(default_factory=list)

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any, **kwargs: Any
    ) -> list[Document]:
        del query, run_manager
        self.asked.append(kwargs)
        return self.documents

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: Any, **kwargs: Any
    ) -> list[Document]:
        return self._get_relevant_documents(query, run_manager=run_manager, **kwargs)


class Way:
    """Calls methods, or their async twins on one event loop; a test need not know which."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop

    @property
    def is_async(self) -> bool:
        return self._loop is not None

    def call(
        self,
        sync: Callable[P, T],
        asynchronous: Callable[P, Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        if self._loop is None:
            return sync(*args, **kwargs)

        async def awaited() -> T:
            return await asynchronous(*args, **kwargs)

        return self._loop.run_until_complete(awaited())

    def read(self, docstore: BaseStore[str, Document], keys: Sequence[str]) -> dict[str, Record]:
        """Read records as the package does."""
        if self._loop is None:
            return read_records(docstore, keys)
        return self._loop.run_until_complete(in_thread(read_records, docstore, keys))

    def add(
        self,
        target: RSEIndexer | RSERetriever,
        documents: Iterable[Document],
        **kwargs: Any,
    ) -> list[str]:
        add: Callable[..., list[str]] = target.add_documents
        return self.call(add, target.aadd_documents, documents, **kwargs)

    def delete(self, target: RSEIndexer | RSERetriever, ids: Sequence[str]) -> list[str]:
        return self.call(target.delete, target.adelete, ids)

    def invoke(self, runnable: Any, *args: Any, **kwargs: Any) -> Any:
        return self.call(runnable.invoke, runnable.ainvoke, *args, **kwargs)


both_ways = pytest.mark.parametrize("way", ["sync", "async"], indirect=True)
"""Marks tests of what has a sync and an async form: a public method, or a call to a store."""


@pytest.fixture
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    """The sync way; in tests marked `both_ways`, each in turn.

    Both ways run the same steps, so most tests need one. Modules take this by ``way = fakes.way``.
    """
    if getattr(request, "param", "sync") == "sync":
        yield Way(None)
        return
    loop = asyncio.new_event_loop()
    yield Way(loop)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


class CrashError(Exception):
    """What a store raises at the call that was chosen to fail."""


How = Literal["before", "halfway", "after"]


class Writes:
    """Notes the writing calls of the stores that share it, and lets one of them fail.

    Attributes:
        made: Name and number of items of each call, in order; async twins under the names
            of the sync methods.
    """

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []
        self._failing: int | None = None
        self._how: How = "before"

    def fail_at(self, call: int | None, how: How = "before") -> None:
        """Forget the calls so far; let the one of that number (from 0) fail, or none.

        ``how`` says what is written by the failing call: nothing, the first half of its
        items, or all.
        """
        self.made.clear()
        self._failing = call
        self._how = how

    def sizes(self, method: str) -> list[int]:
        """Numbers of items in the calls of one method."""
        return [size for name, size in self.made if name == method]

    @contextmanager
    def call(self, method: str, items: Sequence[T]) -> Iterator[list[T]]:
        crash = len(self.made) == self._failing
        self.made.append((method, len(items)))
        if crash and self._how == "before":
            raise CrashError(method)
        yield list(items[: len(items) // 2] if crash and self._how == "halfway" else items)
        if crash:
            raise CrashError(method)


class WatchedDocStore(BaseStore[str, Document]):
    """A docstore whose calls are noted.

    Attributes:
        reads: The keys of each reading call, in order.
    """

    def __init__(self, store: BaseStore[str, Any], writes: Writes) -> None:
        self.store = as_docstore(store)
        self.writes = writes
        self.reads: list[list[str]] = []

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        self.reads.append(list(keys))
        return self.store.mget(keys)

    def mset(self, key_value_pairs: Sequence[tuple[str, Document]]) -> None:
        with self.writes.call("mset", key_value_pairs) as some:
            self.store.mset(some)

    def mdelete(self, keys: Sequence[str]) -> None:
        with self.writes.call("mdelete", keys) as some:
            self.store.mdelete(some)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        yield from self.store.yield_keys(prefix=prefix)


class WatchedRows(dict[str, dict[str, Any]]):
    """What an InMemoryVectorStore holds; notes when rows are written with given vectors."""

    def __init__(self, writes: Writes) -> None:
        super().__init__()
        self.writes = writes

    def update(self, rows: Iterable[tuple[str, dict[str, Any]]]) -> None:  # type: ignore[override]
        with self.writes.call("write_vectors", list(rows)) as some:
            super().update(some)


class WatchedVectorStore(InMemoryVectorStore):
    """A vector store whose writing calls are noted."""

    def __init__(self, embedding: Embeddings, writes: Writes) -> None:
        super().__init__(embedding)
        self.writes = writes
        self.store = WatchedRows(writes)

    def add_documents(
        self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any
    ) -> list[str]:
        with self.writes.call("add_documents", documents) as some:
            return super().add_documents(some, ids=ids and ids[: len(some)], **kwargs)

    async def aadd_documents(
        self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any
    ) -> list[str]:
        with self.writes.call("add_documents", documents) as some:
            return await super().aadd_documents(some, ids=ids and ids[: len(some)], **kwargs)

    def delete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> None:
        with self.writes.call("delete", ids or []) as some:
            super().delete(some, **kwargs)

    async def adelete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> None:
        with self.writes.call("delete", ids or []) as some:
            super().delete(some, **kwargs)


def make_retriever(
    texts: dict[str, str],
    *,
    vectorstore: VectorStore | None = None,
    docstore: Any = None,
    **fields: Any,
) -> RSERetriever:
    """A retriever over texts of which each line is a chunk; fields of `RSEConfig` change it."""
    if "rse_config" not in fields:
        config = RSEConfig.of(fields.pop("config", PLAIN))
        fields["config"] = config.replace(**_config_fields(fields))
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(Angles()) if vectorstore is None else vectorstore,
        docstore=InMemoryByteStore() if docstore is None else docstore,
        text_splitter=Lines(),
        **fields,
    )
    retriever.add_documents(
        [Document(text, metadata={"source": name}) for name, text in texts.items()], ids=texts
    )
    return retriever


def ask(retriever: RSERetriever, query: str = QUERY, **arguments: Any) -> list[Document]:
    """Invoke a retriever; fields of `RSEConfig` among the arguments change its config."""
    return retriever.invoke(query, **in_config(retriever, arguments))


def in_config(retriever: RSERetriever, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, with fields of `RSEConfig` as changes of the retriever's config."""
    arguments = dict(arguments)
    changes = _config_fields(arguments)
    if changes:
        arguments["rse_config"] = retriever.config.replace(**changes)
        arguments.setdefault("irrelevant_chunk_penalty", retriever.irrelevant_chunk_penalty)
    return arguments


def _config_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Take the fields of `RSEConfig` out of some that are not fields of the retriever as well."""
    names = fields.keys() & (RSEConfig.model_fields.keys() - RSERetriever.model_fields.keys())
    return {name: fields.pop(name) for name in names}


def chunks_in(passages: Sequence[Document]) -> dict[tuple[str, int], dict[str, Any]]:
    """What passages say of their chunks, by document and number."""
    return {
        (passage.metadata["doc_id"], chunk["index"]): chunk
        for passage in passages
        for chunk in passage.metadata["rse"]["chunks"]
    }


def wrap(source: RSERetriever, found: Any, **fields: Any) -> RSERetriever:
    """A retriever over another one's docstore that finds some Documents, or asks a retriever."""
    base = FixedRetriever(documents=found) if isinstance(found, list) else found
    return RSERetriever(
        base_retriever=base,
        docstore=source.docstore,
        **{"config": PLAIN, "candidates_only": False, **fields},
    )


class Noting(BaseDocumentCompressor):
    """Notes the queries and texts that it gets; `choose` makes its answer."""

    choose: Callable[[list[Document], str], list[Document]] = lambda documents, _: documents
    queries: list[str] = Field(default_factory=list)
    seen: list[str] = Field(default_factory=list)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        del callbacks
        self.queries.append(query)
        self.seen.extend(document.page_content for document in documents)
        return self.choose(list(documents), query)


def ranges(passages: Sequence[Document]) -> list[tuple[str, int, int]]:
    """The document of each passage, and its chunks."""
    return [
        (s.metadata["doc_id"], s.metadata["rse"]["chunk_start"], s.metadata["rse"]["chunk_end"])
        for s in passages
    ]


def faiss_at_night(names: Iterable[str]) -> list[Any]:
    """Parameters of tests; FAISS, which is in langchain-community, is tested at night."""
    return [
        pytest.param(name, marks=[pytest.mark.nightly] if "FAISS" in name else []) for name in names
    ]
