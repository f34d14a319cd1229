"""Processes that write documents and are killed; what they leave is looked at by the next one.

A life of a process: it looks at what the one before has left, makes the same call again, looks
whether all is as if nothing had happened, and begins the next call, in which it is killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.stores.pairing import PAIR_KEY
from langchain_rse.stores.records import Manifest, chunk_key, digest, document_key, manifest_key
from tests.integration_tests.processes import process_context
from tests.integration_tests.stores import open_chroma
from tests.unit_tests import fakes
from tests.unit_tests.writes import an_hour_later, check_only_leftovers

_DOCUMENTS = 6
_WORDS = [
    *("harbor", "ship", "crane", "tide", "rope", "cargo", "pilot"),
    *("anchor", "dock", "gull", "salt", "garden", "rose", "spade"),
]
_BATCH_SIZE = 3
# Seconds in which any call ends.
_PATIENCE = 120.0
# A kill comes at the latest these seconds after the call of a store that was chosen has begun.
_LATEST = 0.02


Left = Literal["anything", "listed", "nothing"]
"""What may be in the stores beside current versions; ``"listed"``: what manifests list."""


class Pair(NamedTuple):
    """Two stores.

    Attributes:
        name: For the reports.
        vectorstore: ``"chroma"`` or ``"pgvector"``.
        docstore: A URL of SQLAlchemy, with the folder as ``{folder}``.
        lexical: Whether the docstore keeps a full-text index.
        is_async: Whether the async methods are called.
    """

    name: str
    vectorstore: Literal["chroma", "pgvector"]
    docstore: str
    lexical: bool = False
    is_async: bool = False


class Operation(NamedTuple):
    """A call.

    Attributes:
        kind: What it does.
        texts: The texts that are added or appended, by the ids of the documents.
        whole: If something is appended: the texts with it.
    """

    kind: Literal["add", "append", "delete"]
    texts: Mapping[str, str]
    whole: Mapping[str, str] = {}


class Setup(NamedTuple):
    """What a process needs to open a pair of stores.

    Attributes:
        pair: The pair.
        folder: Where files may be put.
        postgres: URL of the server, if the pair needs one.
    """

    pair: Pair
    folder: Path
    postgres: str = ""


class Bench:
    """Opened stores, and an indexer and a retriever over them."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        pair = setup.pair
        self.vectorstore = self._open(is_async=pair.is_async)
        table = "killed_" + digest(str(setup.folder))[:12]
        url = pair.docstore.format(folder=setup.folder, postgres=setup.postgres)
        self.docstore = SQLDocStore(url, table_name=table, lexical=pair.lexical)
        self.indexer = RSEIndexer(
            self.vectorstore, self.docstore, text_splitter=fakes.Lines(), batch_size=_BATCH_SIZE
        )
        self.retriever = RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            config=fakes.EVERYTHING,
            hybrid=0.3 if pair.lexical else 0.0,
            fetch_k=1_000,
            max_context_length=None,
            duplicates="keep",
        )

    def _open(self, *, is_async: bool) -> VectorStore:
        model = fakes.BagOfWords()
        if self.setup.pair.vectorstore == "chroma":
            return open_chroma(self.setup.folder, model)
        from langchain_postgres import PGVector
        from sqlalchemy.ext.asyncio import create_async_engine

        make: Callable[..., Any] = create_async_engine if is_async else sa.create_engine
        engine = make(self.setup.postgres, poolclass=sa.NullPool)
        return PGVector(model, connection=engine, collection_name=str(self.setup.folder))

    async def make(self, operation: Operation) -> None:
        """Make a call; if it appends what is there already, it is refused, so all is added."""
        is_async, indexer = self.setup.pair.is_async, self.indexer
        ids = list(operation.texts)
        if operation.kind == "delete":
            await indexer.adelete(ids) if is_async else indexer.delete(ids)
            return
        documents = [Document(text) for text in operation.texts.values()]
        arguments: dict[str, Any] = {"ids": ids, "append": operation.kind == "append"}
        try:
            if is_async:
                await indexer.aadd_documents(documents, **arguments)
            else:
                indexer.add_documents(documents, **arguments)
        except ValueError as error:
            if operation.kind != "append" or "ends with these parts" not in str(error):
                raise
            await self.make(Operation("add", operation.whole))

    # What is there

    def rows(self) -> dict[str, tuple[str, str]]:
        """The document and the embedded text of each vector, by its id."""
        if self.setup.pair.vectorstore == "chroma":
            store: Any = self.vectorstore
            found = store.get(include=["documents", "metadatas"])
            rows = list(zip(found["ids"], found["metadatas"], found["documents"], strict=True))
        else:
            statement = (
                "SELECT e.id, e.cmetadata, e.document FROM langchain_pg_embedding e JOIN "
                "langchain_pg_collection c ON c.uuid = e.collection_id WHERE c.name = :name"
            )
            engine = sa.create_engine(self.setup.postgres, poolclass=sa.NullPool)
            rows = []
            with engine.begin() as connection:
                # An async PGVector makes its tables with the first write.
                if sa.inspect(connection).has_table("langchain_pg_embedding"):
                    name = {"name": str(self.setup.folder)}
                    rows = [(*row,) for row in connection.execute(sa.text(statement), name)]
        return {vector: (metadata["doc_id"], text) for vector, metadata, text in rows}

    async def look(self, allowed: Mapping[str, Sequence[str | None]], left: Left) -> None:
        """Raise an AssertionError unless each document has one of its texts, whole.

        Args:
            allowed: The texts that each document may have; None for no document.
            left: What else may be in the two stores.
        """
        keys = list(self.docstore.yield_keys())
        stored: dict[str, Any] = dict(zip(keys, self.docstore.mget(keys), strict=True))
        rows = self.rows()
        known_keys = {PAIR_KEY}
        known_vectors: set[str] = set()
        for doc_id, some in allowed.items():
            key = manifest_key(document_key(doc_id))
            manifest = Manifest(doc_id)
            if stored.get(key) is not None:
                known_keys.add(key)
                manifest = Manifest.from_document(stored[key], key)
            text = _whole_text(manifest, stored, rows)
            assert text in some, f"{doc_id!r} has {text!r}, not one of {some}"
            versions = manifest.versions
            if left == "nothing":
                assert not versions or versions == [manifest.current], f"{doc_id!r}: {manifest}"
            for version in versions:
                known_keys.update(version.docstore_keys(manifest.key))
                known_vectors.update(version.vector_ids(manifest.key))
        if left != "anything":
            assert known_keys >= set(keys), "records of no version that a manifest lists"
            assert known_vectors >= rows.keys(), "vectors of no version that a manifest lists"
        if left == "nothing":
            assert known_keys <= {*keys, PAIR_KEY}
            assert known_vectors == rows.keys()
        await self.ask(allowed)

    async def repair(self) -> None:
        """Remove what killed calls have left, an hour later; nothing else may be wrong."""
        with an_hour_later():
            if self.setup.pair.is_async:
                report = await self.indexer.acheck(repair=True)
            else:
                report = self.indexer.check(repair=True)
        check_only_leftovers(report)

    async def ask(self, allowed: Mapping[str, Sequence[str | None]]) -> int:
        """Raise an error unless a query gets slices of one of the texts of each document."""
        query = "harbor garden"
        if self.setup.pair.is_async:
            passages = await self.retriever.ainvoke(query)
        else:
            passages = self.retriever.invoke(query)
        left = {doc_id: list(some) for doc_id, some in allowed.items()}
        for one in passages:
            place, doc_id = slice(one.metadata["start_index"], one.metadata["end_index"]), ""
            doc_id = one.metadata["doc_id"]
            left[doc_id] = [
                text for text in left[doc_id] if text and text[place] == one.page_content
            ]
            assert left[doc_id], f"no slice of one text of {doc_id!r}: {one.page_content!r}"
        found = {one.metadata["doc_id"] for one in passages}
        for doc_id, some in allowed.items():
            assert None in some or doc_id in found, f"nothing of {doc_id!r} is found"
        return len(passages)


def _whole_text(
    manifest: Manifest, stored: Mapping[str, Any], rows: Mapping[str, tuple[str, str]]
) -> str | None:
    """The text of the current version; an AssertionError if a record or vector is missing."""
    version = manifest.current
    if version is None:
        return None
    missing = [key for key in version.docstore_keys(manifest.key) if stored.get(key) is None]
    assert not missing, f"{manifest.doc_id!r}: {missing} missing"
    chunks: list[str] = []
    for number, vector in enumerate(version.vector_ids(manifest.key)):
        chunk = stored[chunk_key(manifest.key, version.name, number)].page_content
        assert vector in rows, f"the vector of {chunk!r} is missing: {manifest}, {rows}"
        assert rows[vector][1].strip() == chunk.strip()
        chunks.append(chunk)
    return "".join(chunks)


# A process


def live(setup: Setup, connection: Connection) -> None:
    """Do what is asked for, until the end."""
    try:
        asyncio.run(_live(setup, connection))
    except (EOFError, BrokenPipeError):
        pass
    except BaseException as error:  # noqa: BLE001 - the parent raises it
        notes = "; ".join(getattr(error, "__notes__", ()))
        connection.send(f"failed {type(error).__name__}: {error} ({notes})")


async def _live(setup: Setup, connection: Connection) -> None:
    bench = Bench(setup)
    writes = _Writes(connection)
    writes.watch(type(bench.docstore))
    writes.watch(type(bench.vectorstore))
    while True:
        connection.send("ready")
        what, arguments = connection.recv()
        if what == "look":
            await bench.look(*arguments)
        elif what == "make":
            await bench.make(*arguments)
        elif what == "repair":
            await bench.repair()
        else:
            operation, number, seconds = arguments
            writes.kill_at(number, seconds)
            await bench.make(operation)


class _Writes:
    """Tells the parent when a call begins that writes, and kills this process after one of them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._seconds = 0.0
        self._left: int | None = None

    def kill_at(self, number: int, seconds: float) -> None:
        """Kill this process some time after the call of that number has begun; 0: after now."""
        self._left, self._seconds = number, seconds
        self._begun()

    def watch(self, kind: Any) -> None:
        names = ("mset", "mdelete", "compare_and_set", "add_documents", "add_embeddings", "delete")
        for name in names:
            for own in (name, f"a{name}"):
                if hasattr(kind, own):
                    setattr(kind, own, self._watched(getattr(kind, own)))

    def _watched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def watched(*arguments: Any, **named: Any) -> Any:
            if self._left is not None:
                self._connection.send("writes")
                self._left -= 1
                self._begun()
            return method(*arguments, **named)

        return watched

    def _begun(self) -> None:
        if self._left == 0:
            Thread(target=self._kill, daemon=True).start()

    def _kill(self) -> None:
        time.sleep(self._seconds)
        os.kill(os.getpid(), signal.SIGKILL)


class Life:
    """A process, seen from outside."""

    def __init__(self, setup: Setup) -> None:
        context = process_context()
        self._own, other = context.Pipe()
        self._process = context.Process(target=live, args=(setup, other), daemon=True)
        self._process.start()
        other.close()
        self._wait()

    def do(self, what: str, *arguments: Any) -> None:
        self.begin(what, *arguments)
        self._wait()

    def begin(self, what: str, *arguments: Any) -> None:
        self._own.send((what, arguments))

    def killed(self) -> str:
        """Wait until it is killed, or kill it at the end of the call; say when that was."""
        said: list[str] = []
        try:
            while "ready" not in said:
                said.append(self._receive())
        except EOFError:
            pass
        self._process.kill()
        self._process.join()
        self._own.close()
        if "ready" in said:
            return "after"
        return "within" if said else "before"

    def end(self) -> None:
        self._own.close()
        self._process.join(_PATIENCE)
        self._process.close()

    def _wait(self) -> None:
        while self._receive() != "ready":
            pass

    def _receive(self) -> str:
        if not self._own.poll(_PATIENCE):
            raise TimeoutError(f"no answer in {_PATIENCE} s")
        said = str(self._own.recv())
        if said.startswith("failed"):
            raise AssertionError(said)
        return said


@dataclass
class Kills:
    """Kills of processes that write the same stores one after the other.

    Attributes:
        counts: How many kills came before the first write of a call, within, and after the last.
        log: The last calls and when they were cut off, for the report of a failure.
    """

    setup: Setup
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    texts: dict[str, str | None] = field(init=False)

    def __post_init__(self) -> None:
        # PGVector has the vectors of all collections in one table, under one key: ids that other
        # tests do not use.
        name = digest(str(self.setup.folder))[:6]
        self.texts = dict.fromkeys(f"document {number} of {name}" for number in range(_DOCUMENTS))

    def run(self, kills: int) -> None:
        """Kill so many processes.

        Raises:
            AssertionError: If one of them did not find what it should have.
        """
        chance = random.Random(self.seed)  # noqa: S311 - reproducible
        try:
            before, operation = dict(self.texts), None
            for number in range(kills + 1):
                life = Life(self.setup)
                allowed = {i: list({before[i]: 0, self.texts[i]: 0}) for i in self.texts}
                life.do("look", allowed, "listed")
                if operation is not None:
                    life.do("make", operation)
                life.do("repair")
                life.do("look", {i: [text] for i, text in self.texts.items()}, "nothing")
                if number == kills:
                    life.end()
                    return
                operation, before = self._next(chance, number), dict(self.texts)
                self._expect(operation)
                writes = chance.randint(0, 9)
                life.begin("die", operation, writes, chance.random() ** 2 * _LATEST)
                when = life.killed()
                self.counts[when] += 1
                self.log.append(f"{operation.kind} {list(operation.texts)} {when}, write {writes}")
        except BaseException:
            print(f"{self.setup}, seed {self.seed}, kill {sum(self.counts.values())}")
            print("\n".join(self.log[-4:]))
            raise

    def _next(self, chance: random.Random, number: int) -> Operation:
        there = [doc_id for doc_id, text in self.texts.items() if text]
        kind = chance.choice(["add", "add", "add", "append", "delete", "again"])
        if kind in ("append", "delete", "again") and there:
            count = 1 if kind == "append" else chance.randint(1, min(2, len(there)))
            some = chance.sample(there, count)
            if kind == "again":
                return Operation("add", {doc_id: str(self.texts[doc_id]) for doc_id in some})
            if kind == "delete":
                return Operation("delete", dict.fromkeys(some, ""))
            text = f"appended as number {number} to what there was before"
            whole = {doc_id: f"{self.texts[doc_id]}\n\n{text}" for doc_id in some}
            return Operation("append", dict.fromkeys(some, text), whole)
        some = chance.sample(list(self.texts), chance.randint(1, 2))
        return Operation("add", {i: new_text(chance, i, number, self.texts[i]) for i in some})

    def _expect(self, operation: Operation) -> None:
        for doc_id, text in {**operation.texts, **operation.whole}.items():
            self.texts[doc_id] = None if operation.kind == "delete" else text


def new_text(chance: random.Random, doc_id: str, number: int, old: str | None) -> str:
    """A text of some lines, of which some may stand in the old one."""
    lines = [f"{doc_id} for the time number {number}"]
    known = [line for line in (old or "").splitlines()[1:] if line]
    for _ in range(chance.randint(1, 7)):
        words = " ".join(chance.choices(_WORDS, k=5)) + f" {chance.randrange(10**6)}"
        lines.append(chance.choice(known) if known and chance.random() < 0.4 else words)
    return "\n".join(dict.fromkeys(lines))
