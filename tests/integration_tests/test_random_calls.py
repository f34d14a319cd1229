"""Random calls, compared with a dict: each document has its last text, in all that reads it.

With SOAK=n in the environment, there are n times as many calls; SEED=n for others.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.documents import Document
from langchain_core.stores import BaseStore, InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.stores.namespaces import in_namespace
from tests.integration_tests.stores import open_chroma
from tests.soaking import SOAK
from tests.unit_tests import fakes

CALLS = 20 * SOAK
SEED = int(os.environ.get("SEED") or 1)

DOCSTORES: dict[str, Callable[[Path], BaseStore[str, Any]]] = {
    "bytes": lambda _: InMemoryByteStore(),
    "SQLite": lambda folder: SQLDocStore(f"sqlite:///{folder}/chunks.db"),
}
VECTORSTORES: dict[str, Callable[[Path], VectorStore]] = {
    "memory": lambda _: InMemoryVectorStore(fakes.BagOfWords()),
    "Chroma": lambda folder: open_chroma(folder, fakes.BagOfWords()),
}
DOC_IDS = ["a", "b/c", "d e", "é"]
COLORS = ["red", "blue"]
NAMESPACES = ["one", "two"]


class Stored(NamedTuple):
    """A document as the dict has it."""

    text: str
    color: str


class Tenant:
    """A namespace: its retriever, and the dict of what it should have."""

    def __init__(self, namespace: str, vectorstore: VectorStore, docstore: Any) -> None:
        self.expected: dict[str, Stored] = {}
        self.records = in_namespace(docstore, namespace)
        self.retriever = RSERetriever(
            vectorstore=vectorstore,
            docstore=docstore,
            namespace=namespace,
            text_splitter=fakes.Lines(),
            config=fakes.EVERYTHING,
            duplicates="keep",
            max_context_length=None,
            fetch_k=1_000,
        )

    def write(self, texts: dict[str, Stored], *, append: bool = False) -> None:
        documents = documents_of(texts)
        assert self.retriever.add_documents(documents, append=append) == list(texts)

    def query(self, color: str | None = None) -> None:
        """A query finds each document, whole; with a filter, those of a color."""
        settings: dict[str, Any] = {"filter": {"color": color}} if color else {}
        if color and isinstance(self.retriever.vectorstore, InMemoryVectorStore):
            settings["filter"] = lambda chunk: chunk.metadata["color"] == color
        passages = self.retriever.invoke("harbor", **settings)
        found = {one.metadata["doc_id"]: one.page_content for one in passages}
        expected = self.expected.items()
        assert len(passages) == len(found)
        assert found == {
            doc_id: stored.text for doc_id, stored in expected if color in (None, stored.color)
        }

    def read(self) -> None:
        """All documents have the texts that they should have."""
        ids = [document.doc_id for document in self.retriever.documents()]
        texts = {doc_id: self.retriever.text(doc_id) for doc_id in ids}
        assert texts == {doc_id: stored.text for doc_id, stored in self.expected.items()}

    def check(self) -> None:
        report = self.retriever.indexer.check()
        assert (report.ok, report.documents) == (True, len(self.expected)), report

    def lose(self, chance: random.Random) -> None:
        """Lose a record; repair, and add what it asks for."""
        keys = sorted(key for key in self.records.yield_keys() if "/" in key)
        if not keys:
            return
        self.records.mdelete([chance.choice(keys)])
        report = self.retriever.indexer.check(repair=True)
        assert bool(report.problems) == bool(report.add_again), report
        if report.add_again:
            self.write({doc_id: self.expected[doc_id] for doc_id in report.add_again})
        self.check()


def documents_of(texts: dict[str, Stored]) -> list[Document]:
    return [
        Document(stored.text, id=doc_id, metadata={"color": stored.color})
        for doc_id, stored in texts.items()
    ]


def new_text(chance: random.Random, number: int) -> str:
    lines = [f"harbor {chance.choice(['crane', 'rope', 'tide'])} {number} {line}" for line in "ab"]
    return "".join(f"{line}\n" for line in ["harbor and salt", *lines][: chance.randint(2, 3)])


def call(tenant: Tenant, chance: random.Random, number: int) -> str:
    """Make one random call; return what it was."""
    expected = tenant.expected
    some = chance.sample(DOC_IDS, chance.randint(1, 3))
    kinds = ["add", "add", "again", "append", "delete", "sync", "query", "filter", "check", "lose"]
    kind = chance.choice(kinds)
    new = {each: Stored(new_text(chance, number), chance.choice(COLORS)) for each in some}
    if kind == "add":
        tenant.write(new)
        expected.update(new)
    elif kind == "again":
        tenant.write({each: expected[each] for each in some if each in expected})
    elif kind == "append":
        for doc_id, part in new.items():
            stored = expected.get(doc_id)
            if stored is None:
                expected[doc_id] = part
            else:
                new[doc_id] = part._replace(color=stored.color)
                expected[doc_id] = stored._replace(text=f"{stored.text}\n\n{part.text}")
        tenant.write(new, append=True)
    elif kind == "delete":
        existing = [each for each in some if expected.pop(each, None) is not None]
        assert tenant.retriever.delete(some) == existing
    elif kind == "sync":
        others = [each for each in expected if each not in new]
        added, changed, unchanged, deleted = tenant.retriever.sync(documents_of(new))
        assert ({*added, *changed, *unchanged}, set(deleted)) == (new.keys(), set(others))
        tenant.expected = new
    elif kind == "lose":
        tenant.lose(chance)
    elif kind == "check":
        tenant.check()
    else:
        tenant.query(chance.choice(COLORS) if kind == "filter" else None)
    return kind


@pytest.mark.parametrize("vectors", VECTORSTORES)
@pytest.mark.parametrize("records", DOCSTORES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_calls_do_what_a_dict_does(records: str, vectors: str, tmp_path: Path) -> None:
    vectorstore, docstore = VECTORSTORES[vectors](tmp_path), DOCSTORES[records](tmp_path)
    tenants = [Tenant(namespace, vectorstore, docstore) for namespace in NAMESPACES]
    chance = random.Random(f"{records} {vectors} {SEED}")  # noqa: S311 - reproducible
    counts: Counter[str] = Counter()
    made: list[str] = []
    for number in range(CALLS):
        place = chance.randrange(len(tenants))
        try:
            made.append(f"{place} {call(tenants[place], chance, number)}")
            for tenant in tenants:
                tenant.read()
        except BaseException:
            print(f"{records}, {vectors}, seed {SEED}, call {number}, after {made[-5:]}")
            raise
        counts[made[-1].split()[1]] += 1
    for tenant in tenants:
        tenant.query()
        tenant.check()
    print(f"{records}, {vectors}, seed {SEED}: {dict(counts)}")
    if isinstance(docstore, SQLDocStore):
        docstore.close()
