"""Documents of several namespaces share two stores, and nothing that anyone calls crosses."""

from __future__ import annotations

import itertools
import logging
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.storage import LocalFileStore
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.runnables import ConfigurableField
from langchain_core.stores import BaseStore, InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_tests.integration_tests import BaseStoreAsyncTests, BaseStoreSyncTests

from langchain_rse import ExistingIndex, RSEConfig, RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.errors import AdoptionError, StoreMismatchError
from langchain_rse.evaluation import Evidence, Question, evaluate, tune
from langchain_rse.headers import LMBasedHeaders
from langchain_rse.stores.json import as_docstore
from langchain_rse.stores.namespaces import in_namespace, namespace_digest
from tests.unit_tests import fakes
from tests.unit_tests.writes import without_writes

way = fakes.way
Way = fakes.Way

A, B = "acme", "Åcme & Söhne / 'x' \"y\" -- \\ ../é"
"""Two namespaces; one has characters that mean something elsewhere."""

BY_START = ExistingIndex(doc_id_key="source", start_index_key="start_index")

DOCSTORES: dict[str, Callable[[Path], BaseStore[str, Any]]] = {
    "memory": lambda _: InMemoryStore(),
    "bytes": lambda _: InMemoryByteStore(),
    "files": lambda folder: LocalFileStore(folder / "chunks"),
    "sqlite": lambda folder: SQLDocStore(f"sqlite:///{folder}/chunks.db", lexical=True),
}


@pytest.fixture(params=DOCSTORES)
def docstore(request: pytest.FixtureRequest, tmp_path: Path) -> BaseStore[str, Any]:
    return DOCSTORES[request.param](tmp_path)


@pytest.fixture
def lexical(tmp_path: Path) -> SQLDocStore:
    return SQLDocStore(f"sqlite:///{tmp_path}/chunks.db", lexical=True)


@pytest.fixture
def vectorstore() -> InMemoryVectorStore:
    return InMemoryVectorStore(fakes.BagOfWords())


def opened(
    vectorstore: VectorStore, docstore: BaseStore[str, Any], namespace: str = "", **fields: Any
) -> RSERetriever:
    """A retriever over lines that returns all that it can."""
    settings = {
        "config": fakes.EVERYTHING,
        "max_context_length": None,
        "text_splitter": fakes.Lines(),
        **fields,
    }
    return RSERetriever(vectorstore=vectorstore, docstore=docstore, namespace=namespace, **settings)


def document(doc_id: str, *lines: str, **metadata: Any) -> Document:
    return Document("".join(f"{line}\n" for line in lines), id=doc_id, metadata=metadata)


def texts(retriever: RSERetriever, query: str = "text", **arguments: Any) -> list[str]:
    return [passage.page_content for passage in retriever.invoke(query, **arguments)]


def chunks(target: RSERetriever | RSEIndexer) -> list[Document]:
    indexer = target.indexer if isinstance(target, RSERetriever) else target
    return sorted(indexer.chunks(), key=lambda chunk: str(chunk.id))


def without_ids(chunks: Iterable[Document]) -> list[Any]:
    """Chunks without what differs from write to write."""
    seen: list[Any] = []
    for chunk in chunks:
        metadata = {**chunk.metadata}
        metadata.pop("chunk_id", None)
        seen.append((chunk.page_content, without_writes(metadata)))
    return seen


def stored(vectorstore: InMemoryVectorStore, namespace: str) -> list[Document]:
    """What a vector store has of a namespace, without white space around it."""
    found = [
        Document(row["text"].strip(), id=row["id"], metadata=row["metadata"])
        for row in vectorstore.store.values()
        if row["metadata"].get("rse_namespace") == namespace_digest(namespace)
    ]
    return sorted(found, key=lambda chunk: str(chunk.id))


# One document in two namespaces


@fakes.both_ways
def test_the_same_document_is_two(
    way: Way, vectorstore: InMemoryVectorStore, docstore: BaseStore[str, Any]
) -> None:
    a, b = (opened(vectorstore, docstore, name) for name in (A, B))
    same = document("d", "text one", "text two")
    for retriever in (a, b):
        assert way.add(retriever, [same]) == ["d"]
    assert len(vectorstore.store) == 4
    for retriever, name in ((a, A), (b, B)):
        (passage,) = way.invoke(retriever, "text")
        assert passage.page_content == same.page_content
        assert chunks(retriever) == stored(vectorstore, name)
    assert way.delete(a, ["d"]) == ["d"]
    assert (texts(a), chunks(a), stored(vectorstore, A)) == ([], [], [])
    assert texts(b) == [same.page_content]
    assert way.delete(a, ["d"]) == []


def test_metadata_cannot_claim_another_namespace(
    vectorstore: InMemoryVectorStore, docstore: BaseStore[str, Any]
) -> None:
    a, b = (opened(vectorstore, docstore, name) for name in (A, B))
    with pytest.raises(ValueError, match="rse_version"):
        a.add_documents([document("d", "text", rse_version=f"{namespace_digest(B)}-1")], ids=["d"])
    forged = {"rse_namespace": namespace_digest(B)}
    a.add_documents([document("d", "forged text", **forged)], ids=["d"])
    assert texts(a) == ["forged text\n"]
    assert texts(b) == []
    plain = opened(InMemoryVectorStore(fakes.BagOfWords()), InMemoryStore())
    plain.add_documents([document("d", "forged text", **forged)], ids=["d"])
    (passage,) = plain.invoke("text")
    assert "rse_namespace" not in passage.metadata
    assert all("rse_namespace" not in chunk.metadata for chunk in plain.indexer.chunks())


# What another namespace has is in nobody's way


@pytest.mark.parametrize("hybrid", [0.0, 0.5, 1.0])
def test_better_chunks_of_another_namespace_crowd_nothing_out(
    vectorstore: InMemoryVectorStore, lexical: SQLDocStore, hybrid: float
) -> None:
    a, b = (opened(vectorstore, lexical, name, hybrid=hybrid, fetch_k=5) for name in (A, B))
    a.add_documents([document("d", *(f"zulu zulu {n}" for n in range(1_000)))])
    b.add_documents(
        [document("d", "a zulu among many other words of a line"), document("e", "other")]
    )
    found = b.invoke("zulu", k=1)
    assert [passage.page_content for passage in found] == [
        "a zulu among many other words of a line\n"
    ]
    assert len(a.invoke("zulu")) > 0


def test_filters_hold_within_a_namespace(
    vectorstore: InMemoryVectorStore, docstore: BaseStore[str, Any]
) -> None:
    a, b = (opened(vectorstore, docstore, name) for name in (A, B))
    for retriever in (a, b):
        retriever.add_documents([document("d", "text 1", year=1), document("e", "text 2", year=2)])
    a.candidates_only = True  # since it is not known what a function does
    everything = texts(a, filter=lambda _: True)
    assert sorted(everything) == ["text 1\n", "text 2\n"]
    assert texts(a, filter=lambda one: one.metadata["year"] == 2) == ["text 2\n"]
    others = namespace_digest(B)
    assert texts(a, filter=lambda one: one.metadata["rse_namespace"] == others) == []


# Base retrievers and rerankers


def test_what_a_wrapped_retriever_finds_elsewhere_is_left_out(
    vectorstore: InMemoryVectorStore,
    docstore: BaseStore[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    a, b = (opened(vectorstore, docstore, name) for name in (A, B))
    a.add_documents([document("secret-id", "secret text")])
    b.add_documents([document("d", "own text")])
    base = vectorstore.as_retriever(search_kwargs={"k": 20})
    nosy = fakes.Noting()
    wrapping = RSERetriever(
        base_retriever=base, docstore=docstore, namespace=B, config=fakes.EVERYTHING, reranker=nosy
    )
    caplog.set_level(logging.DEBUG, "langchain_rse")
    with pytest.warns(UserWarning, match="1 of 2 Documents") as caught:
        found = wrapping.invoke("text", filter=None)
    assert [d.page_content for d in found] == ["own text\n"]
    assert nosy.seen == ["own text\n"]
    said = [str(warning.message) for warning in caught] + caplog.messages
    assert not [one for one in said if "secret" in one or namespace_digest(A) in one]

    base.search_kwargs["filter"] = lambda one: one.metadata["rse_namespace"] == namespace_digest(B)
    assert texts(wrapping, candidates_only=True) == ["own text\n"]  # without a warning


@pytest.mark.parametrize("lost", ["rse_version", "doc_id", "all"])
def test_documents_that_have_lost_their_metadata_are_left_out(
    vectorstore: InMemoryVectorStore, docstore: BaseStore[str, Any], lost: str
) -> None:
    """They may be of any namespace: no error shows what they are."""
    opened(vectorstore, docstore, A).add_documents([document("secret-id", "secret text")])
    (chunk,) = stored(vectorstore, A)
    kept = {n: v for n, v in chunk.metadata.items() if n != lost} if lost != "all" else {}
    base = fakes.FixedRetriever(documents=[chunk.model_copy(update={"metadata": kept})])
    wrapping = RSERetriever(base_retriever=base, docstore=docstore, namespace=B)
    with pytest.warns(UserWarning, match="1 of 1 Documents") as caught:
        assert wrapping.invoke("text") == []
    assert "secret" not in "".join(str(warning.message) for warning in caught)


def test_a_retriever_without_a_namespace_reads_nothing_of_one(
    vectorstore: InMemoryVectorStore, docstore: BaseStore[str, Any]
) -> None:
    opened(vectorstore, docstore, A).add_documents([document("secret-id", "secret text")])
    nosy = fakes.Noting()
    other = opened(vectorstore, InMemoryStore(), reranker=nosy)  # with a docstore of its own
    with pytest.raises(StoreMismatchError) as caught:
        texts(other)
    assert "secret" not in str(caught.value)
    assert nosy.seen == []


# Stores with and without namespaces


def without_namespace(
    vectorstore: VectorStore, docstore: BaseStore[str, Any]
) -> dict[str, Callable[[], Any]]:
    """All that can be done with two stores."""

    def retriever(**fields: Any) -> RSERetriever:
        return opened(vectorstore, docstore, **fields)

    def another_index() -> object:
        vectors = InMemoryVectorStore(fakes.BagOfWords())
        opened(vectors, InMemoryStore()).add_documents([document("e", "text")])
        return opened(vectors, docstore).invoke("text")

    def adopt() -> object:
        indexer = RSEIndexer(vectorstore, docstore)
        return indexer.adopt(BY_START)

    return {
        "add": lambda: retriever().add_documents([document("e", "text")]),
        "delete": lambda: retriever().delete(["d"]),
        "query": lambda: retriever().invoke("text"),
        "hybrid": lambda: retriever(hybrid=1.0).invoke("text"),
        "vectors without": another_index,
        "chunks": lambda: chunks(retriever()),
        "adopt": adopt,
    }


@pytest.mark.parametrize("done", without_namespace(InMemoryVectorStore(None), InMemoryStore()))  # type: ignore[arg-type]
def test_a_docstore_with_namespaces_is_not_used_without(
    vectorstore: InMemoryVectorStore, lexical: SQLDocStore, done: str
) -> None:
    opened(vectorstore, lexical, A).add_documents([document("d", "secret text")])
    before = sorted(lexical.yield_keys())
    with pytest.raises(StoreMismatchError, match="namespace=") as caught:
        without_namespace(vectorstore, lexical)[done]()
    assert "secret" not in str(caught.value)
    assert sorted(lexical.yield_keys()) == before


def test_a_docstore_without_namespaces_gets_none(
    vectorstore: InMemoryVectorStore, lexical: SQLDocStore
) -> None:
    opened(vectorstore, lexical).add_documents([document("d", "text")])
    before = sorted(lexical.yield_keys())
    retriever = opened(vectorstore, lexical, A)
    does: list[Callable[[], Any]] = [
        lambda: retriever.invoke("text", candidates_only=True),  # nothing is found
        lambda: retriever.invoke("text", hybrid=1.0),
        lambda: retriever.add_documents([document("d", "text")]),
    ]
    for use in does:
        with pytest.raises(StoreMismatchError, match="without a namespace"):
            use()
        assert sorted(lexical.yield_keys()) == before


# What cannot be


class Unknown(InMemoryVectorStore.__base__):  # type: ignore[misc, name-defined]
    """A vector store that nobody has heard of."""

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        raise NotImplementedError

    @classmethod
    def from_texts(cls, texts: Any, embedding: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def test_a_vector_store_whose_filters_are_not_known() -> None:
    docstore = InMemoryStore()
    with pytest.raises(ValueError, match="a separate collection and docstore"):
        opened(Unknown(), docstore, A)
    with pytest.raises(ValueError, match="a separate collection and docstore"):
        RSEIndexer(Unknown(), docstore, namespace=A)
    inside = RSEIndexer(InMemoryVectorStore(fakes.BagOfWords()), docstore, namespace=A).docstore
    with pytest.raises(ValueError, match="a separate collection and docstore"):
        opened(Unknown(), inside, A)
    opened(Unknown(), docstore)


def test_a_query_cannot_choose_its_namespace(vectorstore: InMemoryVectorStore) -> None:
    docstore = InMemoryStore()
    a, b = (opened(vectorstore, docstore, name) for name in (A, B))
    a.add_documents([document("d", "secret text")])
    with pytest.raises(ValueError, match="unknown argument 'namespace'"):
        b.invoke("text", namespace=A)
    with pytest.raises(ValueError, match="namespace cannot be changed"):
        b.namespace = A
    for copy in (b.model_copy(update={"namespace": A}), b.model_copy(update={"namespace": ""})):
        with pytest.raises(ValueError, match="docstore belongs to namespace"):
            copy.invoke("text")
    with pytest.raises(ValueError, match="docstore belongs to namespace"):
        opened(vectorstore, b.docstore)
    configurable = b.configurable_fields(namespace=ConfigurableField(id="tenant"))
    with pytest.raises(ValueError, match="docstore belongs to namespace"):
        configurable.invoke("text", {"configurable": {"tenant": A}})
    b.docstore = docstore
    assert texts(b) == []  # still in its namespace
    assert texts(opened(vectorstore, a.docstore, A)) == ["secret text\n"]


# All that works on documents


def test_answers_of_a_model_are_not_shared(
    vectorstore: InMemoryVectorStore, docstore: BaseStore[str, Any]
) -> None:
    """Otherwise a title that one tenant's model gave would stand above another's text."""
    for name, title in ((A, "Title of A"), (B, "Title of B")):
        model = FakeListLLM(responses=[f'{{"title": "{title}", "summary": "A text"}}'])
        headers = LMBasedHeaders(llm=model, template="{title}")
        retriever = opened(vectorstore, docstore, name, headers=headers)
        retriever.add_documents([document("d", "text")])
        assert texts(retriever, include_header=True) == [f"{title}\n\ntext\n"]


def test_questions_are_asked_within(vectorstore: InMemoryVectorStore) -> None:
    docstore = InMemoryStore()
    a, b = (opened(vectorstore, docstore, name) for name in (A, B))
    a.add_documents([document("d", "text of a"), document("only-a", "text")])
    b.add_documents([document("d", "text of b")])
    asked = [Question("text", [Evidence("d", 0, 4)]), Question("text of", [Evidence("d", 0, 4)])]
    assert evaluate(a, asked, budgets=[1_000]).mean("recall") == 1
    tune(b, asked, budgets=[1_000], trials=2)
    with pytest.raises(ValueError, match="only-a"):
        evaluate(b, [Question("text", [Evidence("only-a", 0, 4)])], budgets=[1_000])


def test_adopting_takes_what_is_in_the_namespace(
    vectorstore: InMemoryVectorStore, docstore: BaseStore[str, Any]
) -> None:
    def chunk(text: str, **metadata: Any) -> Document:
        return Document(text, metadata={"source": "s", "start_index": 0, **metadata})

    def adopt(name: str) -> int:
        indexer = RSEIndexer(vectorstore, docstore, namespace=name)
        return indexer.adopt(BY_START).documents

    marks = {name: namespace_digest(name) for name in (A, B)}
    vectorstore.add_documents([chunk("nobody's text")])
    with pytest.raises(AdoptionError, match=marks[A]):
        adopt(A)
    for name in (A, B):
        vectorstore.add_documents([chunk(f"text of {name}", rse_namespace=marks[name])])
    opened(vectorstore, docstore, A).add_documents([document("added", "added text")])
    assert adopt(A) == 1
    a, b = (opened(vectorstore, docstore, name) for name in (A, B))
    assert sorted(texts(a)) == ["added text\n", f"text of {A}"]
    assert "rse_namespace" not in a.invoke("text of")[0].metadata
    assert adopt(B) == 1
    assert texts(b) == [f"text of {B}"]
    assert [one.metadata["rse_namespace"] for one in chunks(b)] == [marks[B]]
    assert b.delete(["s"]) == ["s"]
    assert stored(vectorstore, B) == []
    assert sorted(texts(a)) == ["added text\n", f"text of {A}"]
    # Without a namespace, and with a docstore of its own, only what is in none is adopted.
    other = RSEIndexer(vectorstore, InMemoryStore())
    assert other.adopt(BY_START).vectors == 1


# The same as two pairs of stores

DOC_IDS = ["d", "e"]
TEXTS = ["red text\ngreen text\n", "red text\n", "blue text\nred text\n", " ", "a text\n" * 6]
actions = st.tuples(
    st.sampled_from([A, B]),
    st.sampled_from(["add", "append", "delete", "query", "chunks"]),
    st.sampled_from(DOC_IDS),
    st.sampled_from(TEXTS),
)


def outcome(retriever: RSERetriever, action: str, doc_id: str, text: str) -> object:
    """What a call returns, or the error that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if action == "delete":
                return retriever.delete([doc_id])
            if action == "query":
                return without_ids(retriever.invoke(f"{text.split()[:1]} text"))
            if action == "chunks":
                return without_ids(retriever.indexer.chunks())
            return retriever.add_documents(
                [Document(text, id=doc_id, metadata={"n": len(text)})], append=action == "append"
            )
    except ValueError as error:
        return repr(error)


@pytest.mark.parametrize("kind", ["bytes", "sql"])
@given(st.lists(actions, max_size=14))
def test_shared_stores_do_what_separate_stores_do(
    kind: str, steps: list[tuple[str, str, str, str]]
) -> None:
    make: dict[str, Callable[[], BaseStore[str, Any]]] = {
        "bytes": InMemoryByteStore,
        "sql": lambda: SQLDocStore("sqlite://"),
    }

    def stores() -> tuple[InMemoryVectorStore, BaseStore[str, Any]]:
        return InMemoryVectorStore(fakes.BagOfWords()), make[kind]()

    shared = stores()
    # SQLite counts how rare words are over all namespaces of its table.
    settings: dict[str, Any] = {"config": RSEConfig(), "hybrid": 0.0}
    together = {name: opened(*shared, name, **settings) for name in (A, B)}
    alone = {name: opened(*stores(), name, **settings) for name in (A, B)}
    for name, *step in steps:
        assert outcome(together[name], *step) == outcome(alone[name], *step)
    for name in (A, B):
        of_both = without_ids(chunks(together[name])), without_ids(chunks(alone[name]))
        assert sorted(of_both[0], key=repr) == sorted(of_both[1], key=repr)  # by no random id
        vectors: Any = alone[name].vectorstore
        in_both = without_ids(stored(shared[0], name)), without_ids(stored(vectors, name))
        assert sorted(in_both[0], key=repr) == sorted(in_both[1], key=repr)  # by no random id
    keys = [
        set(without_writes(list(as_docstore(some).yield_keys())))
        for some in (shared[1], *(one.docstore.docstore for one in alone.values()))  # type: ignore[attr-defined]
    ]
    assert keys[0] == set(itertools.chain.from_iterable(keys[1:]))


class _Inside(fakes.ThreeValues):
    """A namespace of a store in which another one has the same keys, and other records."""

    @pytest.fixture(params=DOCSTORES)
    def inside(self, request: pytest.FixtureRequest, tmp_path: Path) -> BaseStore[str, Document]:
        docstore = as_docstore(DOCSTORES[request.param](tmp_path))
        keys = ["foo", "bar", "buzz", "sub/foo", "manifest/foo", "key1", "key2"]
        in_namespace(docstore, B).mset([(key, Document("other")) for key in keys])
        return in_namespace(docstore, A)


class TestSync(_Inside, BaseStoreSyncTests[Document]):
    @pytest.fixture
    def kv_store(self, inside: BaseStore[str, Document]) -> BaseStore[str, Document]:
        return inside


class TestAsync(_Inside, BaseStoreAsyncTests[Document]):
    @pytest.fixture
    async def kv_store(self, inside: BaseStore[str, Document]) -> BaseStore[str, Document]:
        return inside
