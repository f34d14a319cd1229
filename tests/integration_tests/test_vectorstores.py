"""The same documents and vectors on every store: the same passages.

With SOAK=n in the environment, everything is tried with every metric, and not only scores.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_postgres import PGEngine, PGVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from sqlalchemy import NullPool, create_engine

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.engine import calibrate
from tests.integration_tests.vectorstores import (
    CASES,
    DIMENSIONS,
    Case,
    Place,
    announced,
    by_function,
    cosine,
    cosine_distance,
    negative_cosine,
    params,
)
from tests.soaking import SOAK
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

pytestmark = [
    # LanceDB, when nothing is left to be found.
    pytest.mark.filterwarnings("ignore:No results found for the query:UserWarning"),
]

SUBJECTS = {
    "harbor": "ship crane tide rope cargo pilot anchor dock gull salt",
    "garden": "rose spade seed hedge bloom soil bee path fence pond",
    "orchestra": "violin oboe score tempo drum hall bow reed choir encore",
    "kitchen": "knife oven broth salt flour butter pan spice stove bowl",
}
QUERIES = ["which pilot saw the cargo ship at the dock", "seed and soil for a rose hedge", "salt"]
PARAGRAPHS = 12


def paragraph(subject: str, number: int) -> str:
    """A line of ten words, some of the subject, and a name."""
    chance = random.Random(f"{subject} {number}")  # noqa: S311 - only has to be the same again
    words = SUBJECTS[subject].split()
    others = [word for each in SUBJECTS.values() for word in each.split()]
    own = chance.randint(1, 8)
    line = chance.sample(words, own) + chance.sample(others, 10 - own)
    return f"{' '.join(line)} {subject}{number:02}"


def document(subject: str, *, paragraphs: int = PARAGRAPHS, first: int = 0) -> list[Document]:
    """A document in pages of three paragraphs each, with metadata of all simple types."""
    numbers = range(first, first + paragraphs)
    return [
        Document(
            "\n\n".join(paragraph(subject, number) for number in numbers[start : start + 3]),
            metadata={
                "doc_id": subject,
                "page": page,
                "section": f"{subject} '{page}'",
                "weight": 1.5 * page,
                "draft": page == 1,
                "tags": ["kept", "in the docstore"],
            },
        )
        for page, start in enumerate(range(0, paragraphs, 3), start=1)
    ]


Model = fakes.CountingModel  # vectors of length 1, and no two alike

DOCUMENTS = [page for subject in SUBJECTS for page in document(subject)]


class Index:
    """A vector store and a docstore, written and read by our classes.

    Attributes:
        writes: The writing calls of the docstore, which can be made to fail.
    """

    def __init__(self, vectorstore: VectorStore, way: Way) -> None:
        self.way = way
        self.vectorstore = vectorstore
        self.writes = fakes.Writes()
        self.docstore = fakes.WatchedDocStore(SQLDocStore("sqlite://"), self.writes)
        self.indexer = RSEIndexer(
            vectorstore,
            self.docstore,
            text_splitter=RecursiveCharacterTextSplitter(chunk_size=100, chunk_overlap=0),
            batch_size=20,
        )

    def add(self, documents: Sequence[Document]) -> list[str]:
        return self.way.add(self.indexer, documents)

    def delete(self, *ids: str) -> list[str]:
        return self.way.delete(self.indexer, ids)

    def ask(
        self, query: str, base_retriever: BaseRetriever | None = None, **settings: Any
    ) -> list[Document]:
        """The passages; ``settings`` are fields of the retriever or of its config."""
        retriever = RSERetriever(
            vectorstore=None if base_retriever else self.vectorstore,
            base_retriever=base_retriever,
            docstore=self.docstore,
            max_context_length=1_200,
        )
        found: list[Document] = self.way.invoke(
            retriever, query, **fakes.in_config(retriever, announced(settings))
        )
        return found

    def scored(self, query: str, **search_kwargs: Any) -> list[tuple[Document, float]]:
        """What the store itself answers."""
        store = self.vectorstore
        return self.way.call(
            store.similarity_search_with_score,
            store.asimilarity_search_with_score,
            query,
            k=200,
            **search_kwargs,
        )

    def held(self) -> list[tuple[str, int]]:
        """The document and number of every chunk in the vector store."""
        return sorted(place_of(chunk) for chunk, _ in self.scored(QUERIES[0]))


def place_of(chunk: Document) -> tuple[str, int]:
    return chunk.metadata["doc_id"], chunk.metadata["chunk_index"]


def all_of(*subjects: str, paragraphs: int = PARAGRAPHS) -> list[tuple[str, int]]:
    return sorted(itertools.product(subjects, range(paragraphs)))


def same(found: Sequence[Document], expected: Sequence[Document]) -> None:
    assert [passage.page_content for passage in found] == [
        passage.page_content for passage in expected
    ]
    for one, other in zip(found, expected, strict=True):
        assert one.id == other.id
        assert one.metadata.keys() == other.metadata.keys()
        assert one.metadata["tags"] == ["kept", "in the docstore"]
        score = one.metadata["relevance_score"]
        assert score == pytest.approx(other.metadata["relevance_score"], rel=1e-4)
        for mine, theirs in zip(
            one.metadata["rse"]["chunks"], other.metadata["rse"]["chunks"], strict=True
        ):
            assert mine.get("rank") == theirs.get("rank")
            assert mine.get("relevance") == pytest.approx(theirs.get("relevance"), abs=1e-4)


def one_metric_each() -> list[Case]:
    """The first case of each store and place."""
    first: dict[str, Case] = {}
    for case in CASES:
        store = case.name.rpartition(" ")[0] or case.name
        first.setdefault(store, case)
    return list(first.values())


# What is not about scores is the same for all metrics.
STORES = one_metric_each() if SOAK == 1 else CASES
with_every_metric = pytest.mark.parametrize("case", params(CASES), indirect=True)


@pytest.fixture(params=params(STORES))
def case(request: pytest.FixtureRequest, record_property: Any) -> Case:
    case: Case = request.param
    record_property("vector store", case.name)
    return case


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def place(model: Model, way: Way, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    def server(name: str) -> str:
        address: str = request.getfixturevalue(f"{name}_url")
        return address

    return Place(tmp_path, model, way.is_async, server)


@pytest.fixture
def store(case: Case, place: Place) -> Iterator[VectorStore]:
    """An empty store."""
    with case.open(place) as vectorstore:
        yield vectorstore


@pytest.fixture
def index(store: VectorStore, way: Way) -> Index:
    """With all documents."""
    index = Index(store, way)
    assert index.add(DOCUMENTS) == list(SUBJECTS)
    return index


def exact(documents: Sequence[Document]) -> Index:
    """What all stores are compared with: every cosine, computed by numpy."""
    index = Index(InMemoryVectorStore(Model()), Way(None))
    index.add(documents)
    return index


@pytest.fixture(scope="module")
def reference() -> Index:
    return exact(DOCUMENTS)


def test_the_vectors_have_no_ties(reference: Index) -> None:
    """So all stores have to find them in one order."""
    assert reference.held() == all_of(*SUBJECTS)
    for query in QUERIES:
        cosines = [score for _, score in reference.scored(query)]
        assert min(a - b for a, b in itertools.pairwise(cosines)) > 2e-6


@with_every_metric
def test_scores_are_what_the_table_says(case: Case, index: Index, reference: Index) -> None:
    check_scores(case, index, reference)


def check_scores(case: Case, index: Index, reference: Index) -> None:
    for query in QUERIES:
        cosines = {place_of(chunk): cosine for chunk, cosine in reference.scored(query)}
        scored = index.scored(query)
        assert sorted(cosines) == sorted(place_of(chunk) for chunk, _ in scored)
        for chunk, score in scored:
            assert score == pytest.approx(case.score(cosines[place_of(chunk)]), abs=2e-5)
        order = [cosines[place_of(chunk)] for chunk, _ in scored]
        assert order == pytest.approx(sorted(order, reverse=True), abs=1e-6)
        # From these scores, calibration makes similarities again, in the same order.
        scores = [float(score) for _, score in scored]
        spread = order[0] - order[-1]
        if case.linear:
            assert calibrate(scores, "minmax") == pytest.approx(
                [(cosine - order[-1]) / spread for cosine in order], abs=1e-4
            )
        else:
            calibrated = calibrate(scores, "minmax").tolist()
            assert calibrated == sorted(calibrated, reverse=True)
        if case.score in (cosine, cosine_distance, negative_cosine):
            similarities = [max(cosine, 0.0) for cosine in order]
            assert calibrate(scores, "identity") == pytest.approx(similarities, abs=2e-5)


def check_vectors(index: Index, model: Model) -> None:
    """Each chunk is stored once, with the vector of its text.

    For Chroma: after it was read, its index now and then misses one of the vectors that are added.
    """
    store: Any = index.vectorstore
    stored = store.get(include=["embeddings", "documents"])
    assert len(set(stored["documents"])) == len(stored["ids"]) == len(SUBJECTS) * PARAGRAPHS
    assert np.asarray(stored["embeddings"]) == pytest.approx(
        np.array(model.embed_documents(stored["documents"])), abs=1e-6
    )


@with_every_metric
def test_passages_are_the_same(case: Case, index: Index, reference: Index) -> None:
    few: dict[str, Any] = {"fetch_k": 20, "k": 2, "order": "relevance"}
    for query in QUERIES:
        ranked = index.ask(query, calibration="rank")
        assert ranked
        same(ranked, reference.ask(query, calibration="rank"))
        if case.linear:
            same(index.ask(query), reference.ask(query))
            same(index.ask(query, **few), reference.ask(query, **few))


def test_filters(case: Case, index: Index, reference: Index) -> None:
    for name, value in {"page": 2, "section": "harbor '3'", "doc_id": "garden"}.items():
        assert isinstance(value, (int, str))
        settings: dict[str, Any] = {
            "calibration": "rank",
            "neighbor_weight": 0.0,
            "irrelevant_chunk_penalty": 0.1,
        }
        for query in QUERIES:
            filtered = case.filtered(name, value)
            found = index.ask(query, search_kwargs=filtered, **settings)
            expected = by_function(name, value)
            same(found, reference.ask(query, search_kwargs=expected, **settings))
            chunks = [chunk for chunk, _ in index.scored(query, **filtered)]
            assert {chunk.metadata[name] for chunk in chunks} == {value}


GROUPS = {
    "harbor": ["staff", "board"],
    "garden": ["staff"],
    "orchestra": ["guests"],
    "kitchen": ["guests", "board"],
}


def test_filters_look_into_lists(case: Case, store: VectorStore, way: Way) -> None:
    index = Index(store, way)
    pages = [page for subject in SUBJECTS for page in document(subject)]
    for page in pages:
        page.metadata["groups"] = GROUPS[page.metadata["doc_id"]]
        page.metadata["numbers"] = [page.metadata["page"], 0]
    index.add(pages)
    stored = index.scored(QUERIES[0])[0][0].metadata
    assert ("groups" in stored, "numbers" in stored) == (bool(case.looks_into),) * 2
    if case.looks_into is None:
        return
    for group in ("staff", "board", "guests"):
        members = {subject for subject, groups in GROUPS.items() if group in groups}
        filtered = case.looks_into("groups", group)
        if not isinstance(store, PGVectorStore):  # the package adds its operator for lists
            chunks = [chunk for chunk, _ in index.scored("salt", **filtered)]
            assert {chunk.metadata["doc_id"] for chunk in chunks} == members
        for query in QUERIES:
            passages = index.ask(query, search_kwargs=filtered, irrelevant_chunk_penalty=0)
            assert {passage.metadata["doc_id"] for passage in passages} == members


def candidates_of(index: Index, query: str, **fields: Any) -> dict[tuple[str, int], float | None]:
    """The scores of the candidates, all of them, by their places."""
    if "base_retriever" not in fields:
        fields["vectorstore"] = index.vectorstore
    retriever = RSERetriever(docstore=index.docstore, candidates_only=True, **fields)
    trace = index.way.call(retriever.explain, retriever.aexplain, query)
    candidates: dict[tuple[str, int], float | None] = {}
    for stored in trace.documents:
        for chunk in stored.chunks:
            if chunk.candidate is not None and chunk.candidate.hit is not None:
                candidates[stored.doc_id, chunk.index] = chunk.candidate.hit.score
    return candidates


@with_every_metric
@pytest.mark.filterwarnings("ignore:Relevance scores must be between")
@pytest.mark.filterwarnings("ignore:legacy embedding function config")  # of Chroma, to itself
def test_a_score_threshold_is_that_of_a_wrapped_retriever(case: Case, index: Index) -> None:
    query = f"{paragraph('harbor', 3)} and soil"
    with pytest.raises(ValueError, match="score_threshold"):
        candidates_of(index, query, search_kwargs={"score_threshold": 0.6})
    if case.relevant:
        wrapped = index.vectorstore.as_retriever(
            search_type="similarity_score_threshold",
            search_kwargs={"k": 200, "score_threshold": 0.6},
        )
        found = candidates_of(index, query, base_retriever=wrapped)
        assert 0 < len(found) < len(index.scored(query))


def test_replace(index: Index) -> None:
    others = [name for name in SUBJECTS if name != "garden"]
    new = document("garden", paragraphs=6, first=20)
    for _ in range(2):  # the second time, nothing is left to do
        assert index.add(new) == ["garden"]
        assert index.held() == sorted(all_of(*others) + all_of("garden", paragraphs=6))
    expected = exact([page for page in DOCUMENTS if page.metadata["doc_id"] != "garden"] + new)
    for query in QUERIES:
        same(index.ask(query, calibration="rank"), expected.ask(query, calibration="rank"))


@fakes.both_ways
@pytest.mark.filterwarnings("ignore:the retriever has no documents")
def test_delete(index: Index) -> None:
    assert index.delete("garden", "unknown") == ["garden"]
    others = [name for name in SUBJECTS if name != "garden"]
    assert index.held() == all_of(*others)
    expected = exact([page for page in DOCUMENTS if page.metadata["doc_id"] != "garden"])
    for query in QUERIES:
        same(index.ask(query, calibration="rank"), expected.ask(query, calibration="rank"))
    assert index.delete(*SUBJECTS) == others
    assert index.held() == []
    assert index.ask(QUERIES[0]) == []
    assert fakes.keys_of(index.docstore) == []
    assert index.add(DOCUMENTS) == list(SUBJECTS)
    assert index.held() == all_of(*SUBJECTS)


def edited(**changed: Any) -> list[Document]:
    """The garden with another second page; or with changed metadata."""
    pages = document("garden")
    if not changed:
        pages[1].page_content = document("garden", first=90)[0].page_content
    return [one.model_copy(update={"metadata": {**one.metadata, **changed}}) for one in pages]


@pytest.mark.parametrize(
    ("way", "changed"),
    [("sync", {}), ("async", {"section": "all"})],
    ids=["text", "metadata"],
    indirect=["way"],
)
def test_replacing_embeds_what_changed(
    case: Case, index: Index, model: Model, changed: dict[str, Any]
) -> None:
    """And the answers are those of an index that was never changed."""
    model.taken()
    index.add(DOCUMENTS)
    assert model.taken() == []
    new = edited(**changed)
    assert index.add(new) == ["garden"]
    texts = [] if changed else new[1].page_content.split("\n\n")
    if case.reuses:
        assert model.taken() == texts
    else:
        assert len(model.taken()) == PARAGRAPHS
    if case.name.startswith("Chroma"):
        check_vectors(index, model)
        return
    expected = exact([page for page in DOCUMENTS if page.metadata["doc_id"] != "garden"] + new)
    check_scores(case, index, expected)
    for query in QUERIES:
        same(index.ask(query, calibration="rank"), expected.ask(query, calibration="rank"))


def test_a_cut_off_call_goes_on(
    case: Case, store: VectorStore, model: Model, way: Way, reference: Index
) -> None:
    """The model fails after the first batch; the next call embeds what is missing."""
    index = Index(store, way)
    model.taken()  # Qdrant tries the model when it is opened
    model.left = 20
    with pytest.raises(fakes.CutOffError):
        index.add(DOCUMENTS)
    model.left = None
    index.add(DOCUMENTS)
    every = len(SUBJECTS) * PARAGRAPHS
    # Vectors that cannot be read are not used again.
    assert len(model.taken()) == (every if case.reuses else every + 20)
    if case.name.startswith("Chroma"):
        check_vectors(index, model)
        return
    check_scores(case, index, reference)
    for query in QUERIES:
        same(index.ask(query, calibration="rank"), reference.ask(query, calibration="rank"))


def test_other_metadata(case: Case, index: Index) -> None:
    """Than that of the documents before: a value of another type, and a new name."""
    document = Document(paragraph("kitchen", 99), metadata={"doc_id": "new", "page": "iv", "by": 1})
    if case.typed:
        with pytest.raises(ValueError, match="schema"):
            index.add([document])
        assert index.held() == all_of(*SUBJECTS)
        return
    index.add([document])
    for name, value in {"page": "iv", "by": 1}.items():
        assert isinstance(value, (int, str))
        filtered = case.filtered(name, value)
        (found,) = index.ask(document.page_content, search_kwargs=filtered)
        assert (found.metadata["page_start"], found.metadata["by"]) == ("iv", 1)


LISTS: list[dict[str, Any]] = [
    {"tags": ["bird", "wading"], "years": [1, 11]},
    {"tags": ["bird, wading", '"bird"', "_"], "years": [111, 2]},
    {"tags": ["héron\\", "50 %"], "flags": [True, False]},
    {"tags": "bird", "years": 1},
]


@pytest.mark.parametrize("column_type", ["JSON", "JSONB"])
def test_pgvectorstore_finds_items_of_lists(postgres_url: str, column_type: str) -> None:
    """Each item of each list, whatever characters it has, and nothing else."""
    with create_engine(postgres_url, poolclass=NullPool).begin() as connection:
        connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS vector")
    engine = PGEngine.from_connection_string(postgres_url)
    table = f"lists_{column_type.lower()}"
    engine.init_vectorstore_table(table, DIMENSIONS)
    with create_engine(postgres_url, poolclass=NullPool).begin() as connection:
        statement = f"ALTER TABLE {table} ALTER langchain_metadata TYPE {column_type}"
        connection.exec_driver_sql(statement)
    store = PGVectorStore.create_sync(engine, fakes.BagOfWords(), table)
    retriever = RSERetriever(vectorstore=store, docstore=SQLDocStore("sqlite://"))
    documents = [Document(f"text {n}", id=str(n), metadata=m) for n, m in enumerate(LISTS)]
    retriever.add_documents(documents)
    for name, items in {
        "tags": ["bird", "wading", "ird", "bird, wading", '"bird"', "_", "héron\\", "50 %", "5% %"],
        "years": [1, 11, 111, 2],
        "flags": [True],
    }.items():
        for item in items:
            expected = {
                document.id
                for document in documents
                if isinstance(document.metadata.get(name), list) and item in document.metadata[name]
            }
            filtered = {"$and": [{name: {"$contains": item}}, {"doc_id": {"$ne": "x"}}]}
            passages = retriever.invoke("text", filter=filtered, irrelevant_chunk_penalty=0)
            assert {passage.metadata["doc_id"] for passage in passages} == expected
    asyncio.run(engine.close())
