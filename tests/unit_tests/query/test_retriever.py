"""What a user of the retriever relies on, each with the sync and the async methods."""

import itertools
import json
import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnablePassthrough
from langchain_core.stores import InMemoryByteStore, InMemoryStore
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import PRESETS, RSEConfig, RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse._sync import arun, run
from langchain_rse.config import Greedy, resolve_settings
from langchain_rse.errors import CandidateError, MissingRecordError
from langchain_rse.query.pipeline import Candidates, Sources, find_candidates, retrieve
from langchain_rse.stores.records import chunk_key, document_key, manifest_key
from tests.unit_tests import fakes
from tests.unit_tests.writes import without_writes

way = fakes.way
Way = fakes.Way
QUERY, PLAIN = fakes.QUERY, fakes.PLAIN
Angles, FixedRetriever = fakes.Angles, fakes.FixedRetriever
lines, make, ranges = fakes.lines, fakes.make_retriever, fakes.ranges

GREEDY = PRESETS["walkthrough"].replace(
    calibration="identity",
    decay_rate=1e9,
    irrelevant_chunk_penalty=0.5,
    minimum_value=0.0,
    solver=Greedy(max_length=5, overall_max_length=100, length_weighting="none"),
    top_k_for_document_selection=None,
)


class CountingStore(InMemoryStore):
    """Counts reads, and can do something between them."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.before_read: Callable[[int], None] = lambda _: None

    def mget(self, keys: Sequence[str]) -> list[Any]:
        self.reads += 1
        self.before_read(self.reads)
        return super().mget(keys)

    async def amget(self, keys: Sequence[str]) -> list[Any]:
        return self.mget(keys)


class Scoreless(InMemoryVectorStore):
    """A store that cannot give scores."""

    def similarity_search_with_score(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def asimilarity_search_with_score(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        found = super().similarity_search_with_score(query, k, **kwargs)
        return [document for document, _ in found]

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return self.similarity_search(query, k, **kwargs)


class RelevanceOnly(Scoreless):
    """A store that gives nothing but relevance scores."""

    def similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, score_threshold: float = -2, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        found = InMemoryVectorStore.similarity_search_with_score(self, query, k, **kwargs)
        return [(document, score) for document, score in found if score >= score_threshold]

    async def asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return self.similarity_search_with_relevance_scores(query, k, **kwargs)


class Distances(InMemoryVectorStore):
    """A store whose scores are distances, smaller is better."""

    scale = 1.0

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        found = super().similarity_search_with_score(query, k, **kwargs)
        return [(document, self.scale * (1 - score)) for document, score in found]

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return self.similarity_search_with_score(query, k, **kwargs)


class Reranker(BaseDocumentCompressor):
    """Puts documents in the order of their names, and drops those named "x"."""

    scores: list[float] | None = None

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        del query, callbacks
        kept = sorted(
            (document for document in documents if not document.page_content.startswith("x")),
            key=lambda document: document.page_content,
        )
        scores: Sequence[float | None] = self.scores or [None] * len(kept)
        # Copies without an id, as real compressors return them.
        return [
            Document(document.page_content, metadata={**document.metadata, "relevance_score": s})
            for document, s in zip(kept, scores, strict=False)
        ]


class CohereRerank(Reranker):
    """Known by its name."""


# What comes back


@fakes.both_ways
def test_segments_by_hand(way: Way) -> None:
    # Cosines < 0, 1, 0.5, 0.94, < 0; less a penalty of 0.45: < 0, 0.55, 0.05, 0.49, < 0.
    text = lines(100, 0, 60, 20, 100)
    retriever = make({"a": text})
    (segment,) = way.invoke(retriever, QUERY, irrelevant_chunk_penalty=0.45)
    assert segment.page_content == "c1 0\nc2 60\nc3 20\n"
    assert segment.metadata["start_index"] == text.index("c1")
    assert segment.metadata["end_index"] == text.index("c4")
    cosine = math.cos(math.radians(20))
    # Each weighs its length over the mean length of the relevant ones.
    worth = 5 * 0.55 + 6 * 0.05 + 6 * (cosine - 0.45)
    assert segment.metadata["relevance_score"] == pytest.approx(worth / (17 / 3))
    assert segment.metadata["doc_id"] == segment.metadata["source"] == "a"
    chunks = segment.metadata["rse"]["chunks"]
    assert [chunk["index"] for chunk in chunks] == [1, 2, 3]
    assert [chunk["length"] for chunk in chunks] == [5, 6, 6]
    assert [chunk["rank"] for chunk in chunks] == [0, 2, 1]
    assert [chunk["score"] for chunk in chunks] == pytest.approx([1, 0.5, cosine])
    assert [chunk["relevance"] for chunk in chunks] == pytest.approx([1, 0.5, cosine])


def test_a_chunk_between_candidates_is_filled_in(way: Way) -> None:
    retriever = make({"a": lines(0, 95, 0)}, fetch_k=2)
    (segment,) = way.invoke(retriever, QUERY, irrelevant_chunk_penalty=0.3, segment_cost=2.0)
    assert segment.page_content == lines(0, 95, 0)
    filled = segment.metadata["rse"]["chunks"][1]
    assert filled == {
        "index": 1,
        "length": 6,
        "filled": True,
        "credited": 0.0,
        "value": pytest.approx(-0.3 * 6 / 5),
    }


def test_chunks_tell_what_the_solver_saw(way: Way) -> None:
    retriever = make({"a": lines(0, 60, 95)}, neighbor_credit=0.5, neighbor_radius=1, fetch_k=2)
    (segment,) = way.invoke(retriever, QUERY, irrelevant_chunk_penalty=0.2)
    first, second, filled = segment.metadata["rse"]["chunks"]
    # Noisy or of a chunk's relevance and half of its neighbors'.
    assert [first["relevance"], second["relevance"]] == pytest.approx([1, 0.5])
    assert [first["credited"], second["credited"]] == pytest.approx([1, 0.75])
    assert "relevance" not in filled
    assert filled["credited"] == pytest.approx(0.25)
    # 5, 6 and 6 characters, weighed by their mean.
    values = [5 * 0.8 / (17 / 3), 6 * 0.55 / (17 / 3), 6 * 0.05 / (17 / 3)]
    assert [chunk["value"] for chunk in (first, second, filled)] == pytest.approx(values)
    assert segment.metadata["relevance_score"] == pytest.approx(sum(values))


def test_metadata_and_id_survive_json_and_repeat(way: Way) -> None:
    retriever = make({"a": lines(0, 10, 90)})
    first, second = way.invoke(retriever, QUERY), way.invoke(retriever, QUERY)
    assert first == second
    assert json.loads(json.dumps(first[0].metadata)) == first[0].metadata
    assert first[0].id is not None
    retriever.add_documents([Document(lines(0, 10, 80), metadata={"source": "a"})])
    assert (way.invoke(retriever, QUERY))[0].id != first[0].id


def test_pages_of_a_segment(way: Way) -> None:
    retriever = make({})
    pages = [lines(90, 0, name="p"), lines(0, 90, name="q"), lines(90, name="r")]
    retriever.add_documents(
        [
            Document(page, metadata={"source": "a", "page": number, "title": "T"})
            for number, page in enumerate(pages)
        ]
    )
    (segment,) = way.invoke(retriever, QUERY, irrelevant_chunk_penalty=0.4)
    assert segment.page_content == "p1 0\n\n\nq0 0\n"
    assert (segment.metadata["page_start"], segment.metadata["page_end"]) == (0, 1)
    assert segment.metadata["title"] == "T"
    assert "page" not in segment.metadata


def test_order(way: Way) -> None:
    retriever = make({"a": lines(30, 90, 90, 90, 90, 20), "b": lines(10, 90)})
    by_document = way.invoke(retriever, QUERY)
    assert ranges(by_document) == [("b", 0, 1), ("a", 0, 1), ("a", 5, 6)]
    by_relevance = way.invoke(retriever, QUERY, order="relevance")
    assert ranges(by_relevance) == [("b", 0, 1), ("a", 5, 6), ("a", 0, 1)]


def test_k_keeps_the_best(way: Way) -> None:
    retriever = make({"a": lines(30, 90, 90, 90, 90, 20), "b": lines(10, 90)}, k=2)
    assert ranges(way.invoke(retriever, QUERY)) == [("b", 0, 1), ("a", 5, 6)]
    assert ranges(way.invoke(retriever, QUERY, k=1)) == [("b", 0, 1)]
    assert len(way.invoke(retriever, QUERY, k=None)) == 3


@pytest.mark.parametrize("query", ["", "  \n"])
def test_an_empty_query_finds_nothing(way: Way, query: str) -> None:
    assert way.invoke(make({"a": lines(0)}), query) == []


def test_nothing_relevant_gives_nothing(way: Way) -> None:
    assert way.invoke(make({"a": lines(80, 85)}), QUERY) == []
    assert way.invoke(make({"a": lines(0, 0)}), QUERY, minimum_value=1.5) == []


@pytest.mark.parametrize("config", ["balanced", "precision", "find_all"])
def test_a_short_document_comes_back(way: Way, config: str) -> None:
    report = "\n\n".join(f"Paragraph {n} of the report on pumps: {'oil ' * 120}" for n in range(9))
    note = "Office hours: 9 to 5."
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        config=PRESETS[config],
    )
    way.add(retriever, [Document(report), Document(note)])

    assert way.invoke(retriever, note, k=1)[0].page_content == note
    (only_report,) = way.invoke(retriever, "What is in paragraph 3 on pumps?", k=1)
    assert only_report.page_content in report


def test_an_empty_index_gives_nothing(way: Way) -> None:
    assert way.invoke(make({}), QUERY) == []


# Candidates from any store or retriever


def test_distances_lead_to_the_same_segments(way: Way) -> None:
    texts = {"a": lines(90, 0, 60, 0, 90), "b": lines(70, 20, 100)}
    expected = way.invoke(make(texts), QUERY, calibration="minmax")
    vectorstore = Distances(Angles())
    vectorstore.scale = 7.0
    found = way.invoke(make(texts, vectorstore=vectorstore), QUERY, calibration="minmax")
    assert ranges(found) == ranges(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.metadata["relevance_score"] == pytest.approx(other.metadata["relevance_score"])


@fakes.both_ways
def test_a_store_with_relevance_scores_only(way: Way) -> None:
    texts = {"a": lines(90, 0, 60, 0, 90)}
    expected = way.invoke(make(texts), QUERY)
    assert way.invoke(make(texts, vectorstore=RelevanceOnly(Angles())), QUERY) == expected


@fakes.both_ways
def test_a_score_threshold_goes_to_the_relevance_scores(way: Way) -> None:
    retriever = make({"a": lines(0, 90, 40)}, vectorstore=RelevanceOnly(Angles()))
    (segment,) = way.invoke(retriever, QUERY, search_kwargs={"score_threshold": 0.9})
    assert ranges([segment]) == [("a", 0, 1)]


@fakes.both_ways
def test_a_score_threshold_is_not_ignored_by_a_store_without_relevance_scores(way: Way) -> None:
    retriever = make({"a": lines(0, 90, 40)})
    said = (
        "InMemoryVectorStore has no relevance scores, so score_threshold=0.9 would be ignored. "
        "Use min_relevance=0.9, with calibration='identity' if scores are cosines"
    )
    with pytest.raises(ValueError, match=re.escape(said)):
        way.invoke(retriever, QUERY, search_kwargs={"score_threshold": 0.9})
    instead = {"min_relevance": 0.9, "calibration": "identity", "neighbor_credit": 0.0}
    (segment,) = way.invoke(retriever, QUERY, **instead)
    assert ranges([segment]) == [("a", 0, 1)]


class Inverted(RelevanceOnly):
    """Takes cosines for distances, as LangChain does for the inner product of some stores."""

    def similarity_search_with_relevance_scores(
        self, *args: Any, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        found = super().similarity_search_with_relevance_scores(*args, **kwargs)
        return [(document, 1 - score) for document, score in found]


@fakes.both_ways
def test_a_score_threshold_that_would_keep_the_worst_is_an_error(way: Way) -> None:
    retriever = make({"a": lines(0, 90, 40)}, vectorstore=Inverted(Angles()))
    with pytest.raises(
        ValueError, match=r"the relevance scores of Inverted rise.*min_relevance=0\.6"
    ):
        way.invoke(retriever, QUERY, search_kwargs={"score_threshold": 0.6})


@pytest.mark.parametrize("threshold", [1.4, -0.1, "0.5", math.nan, True])
def test_a_score_threshold_is_a_relevance_score(way: Way, threshold: Any) -> None:
    retriever = make({"a": lines(0, 90, 40)}, vectorstore=RelevanceOnly(Angles()))
    with pytest.raises(ValueError, match="a relevance score, from 0 to 1; got"):
        way.invoke(retriever, QUERY, search_kwargs={"score_threshold": threshold})


@fakes.both_ways
def test_a_score_threshold_in_a_wrapped_retriever_holds_or_raises(way: Way) -> None:
    stores = make({"a": lines(0, 90, 40)}, vectorstore=RelevanceOnly(Angles()))
    above = {"k": 50, "score_threshold": 0.9}

    def ask(inner: Any, **arguments: Any) -> list[Document]:
        retriever = RSERetriever(base_retriever=inner, docstore=stores.docstore)
        found: list[Document] = way.invoke(retriever, QUERY, **arguments)
        return found

    assert stores.vectorstore is not None
    keeping = stores.vectorstore.as_retriever(
        search_type="similarity_score_threshold", search_kwargs=above
    )
    assert ranges(ask(keeping, candidates_only=True)) == [("a", 0, 1)]
    plain = stores.vectorstore.as_retriever(search_kwargs={"k": 50})
    ignoring = stores.vectorstore.as_retriever(search_kwargs=above)
    said = r"as_retriever\(search_type='similarity'\) does not keep to score_threshold=0.9"
    for inner, arguments in (
        (ignoring, {}),
        (ignoring.with_retry(), {}),
        (plain.bind(score_threshold=0.9), {}),
        (plain, {"search_kwargs": {"score_threshold": 0.9}}),
    ):
        with pytest.raises(ValueError, match=said):
            ask(inner, **arguments)
    assert ask(plain)


@fakes.both_ways
def test_a_store_without_scores_goes_by_rank(way: Way) -> None:
    retriever = make({"a": lines(90, 0, 60, 0, 90)}, vectorstore=Scoreless(Angles()))
    (segment,) = way.invoke(retriever, QUERY, decay_rate=2.0, irrelevant_chunk_penalty=0.2)
    chunks = {chunk["index"]: chunk for chunk in segment.metadata["rse"]["chunks"]}
    assert chunks[1]["score"] is None
    assert chunks[2]["relevance"] == pytest.approx(0.8 * math.exp(-2 / 2))


@pytest.mark.parametrize("name", ["relevance_score", "score", "other"])
@fakes.both_ways
def test_a_wrapped_retriever(way: Way, name: str) -> None:
    source = make({"a": lines(90, 0, 55, 20, 90)})
    assert source.vectorstore is not None
    found = source.vectorstore.similarity_search_with_score(QUERY, k=5)
    base = FixedRetriever(
        documents=[
            document.model_copy(update={"metadata": {**document.metadata, name: score}})
            for document, score in found
        ]
    )
    retriever = RSERetriever(
        base_retriever=base, docstore=source.docstore, config=PLAIN, candidates_only=False
    )
    segments = way.invoke(retriever, QUERY)
    if name == "other":  # no score: ranks alone, all candidates at 0.8
        assert ranges(segments) == [("a", 0, 5)]
    else:
        assert segments == way.invoke(source, QUERY)
        assert ranges(segments) == [("a", 1, 4)]
    assert ranges(way.invoke(retriever, QUERY, fetch_k=1)) == [("a", 1, 2)]


def test_a_wrapped_retriever_gets_the_search_arguments(way: Way) -> None:
    base = FixedRetriever(documents=[])
    retriever = RSERetriever(
        base_retriever=base, docstore=InMemoryStore(), search_kwargs={"lang": "en"}
    )
    assert way.invoke(retriever, QUERY, filter={"a": 1}) == []
    assert base.asked == [{"lang": "en", "filter": {"a": 1}}]


@pytest.mark.parametrize("scores", [[0.1, 0.9, 0.5], [math.nan] * 3, [0.9, None, 0.1], ["a"] * 3])
def test_scores_that_cannot_be_meant_count_as_none(way: Way, scores: list[Any]) -> None:
    source = make({"a": lines(0, 1, 2)})
    assert source.vectorstore is not None
    documents = source.vectorstore.similarity_search(QUERY, k=3)
    for document, score in zip(documents, scores, strict=True):
        document.metadata["score"] = score
    retriever = RSERetriever(
        base_retriever=FixedRetriever(documents=documents),
        candidates_only=False,
        docstore=source.docstore,
        config=PLAIN,
    )
    (segment,) = way.invoke(retriever, QUERY)
    relevances = [chunk["relevance"] for chunk in segment.metadata["rse"]["chunks"]]
    assert relevances == pytest.approx([0.8] * 3)


def test_a_chunk_that_comes_twice_counts_once(way: Way) -> None:
    source = make({"a": lines(0, 90)})
    assert source.vectorstore is not None
    documents = source.vectorstore.similarity_search(QUERY, k=1) * 3
    retriever = RSERetriever(
        base_retriever=FixedRetriever(documents=documents),
        candidates_only=False,
        docstore=source.docstore,
        config=PLAIN,
    )
    (segment,) = way.invoke(retriever, QUERY)
    assert segment.metadata["relevance_score"] == pytest.approx(0.3)


def test_a_filter_reaches_the_store(way: Way) -> None:
    retriever = make({"a": lines(0, 90), "b": lines(10, 90)})

    def only_b(document: Document) -> bool:
        return bool(document.metadata["source"] == "b")

    found = way.invoke(retriever, QUERY, filter=only_b, candidates_only=True)
    assert ranges(found) == [("b", 0, 1)]
    filtered = make({"a": lines(0), "b": lines(10)}, filter=only_b, candidates_only=True)
    assert ranges(way.invoke(filtered, QUERY)) == [("b", 0, 1)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("doc_id", None),
        ("doc_id", 7),
        ("chunk_index", None),
        ("chunk_index", "3"),
        ("chunk_index", -1),
        ("chunk_index", True),
        ("rse_version", None),
    ],
)
def test_a_candidate_that_is_no_chunk_of_ours(way: Way, name: str, value: object) -> None:
    metadata = {"doc_id": "a", "chunk_index": 0, "rse_version": "v", name: value}
    base = FixedRetriever(documents=[Document("text", metadata=metadata)])
    retriever = RSERetriever(base_retriever=base, docstore=InMemoryStore())
    with pytest.raises(CandidateError, match=rf"{name}=.*add_documents"):
        way.invoke(retriever, QUERY)


# Rerankers


@fakes.both_ways
def test_a_reranker_decides_order_and_membership(way: Way) -> None:
    texts = {"a": "b 0\nx 0\na 40\n", "c": "x 0\n"}
    retriever = make(texts, reranker=Reranker(scores=[0.9, 0.7]))
    (segment,) = way.invoke(retriever, QUERY, irrelevant_chunk_penalty=0.1, segment_cost=2.0)
    chunks = segment.metadata["rse"]["chunks"]
    assert ranges([segment]) == [("a", 0, 3)]
    assert [chunk.get("rank") for chunk in chunks] == [1, None, 0]
    assert [chunk.get("score") for chunk in chunks] == [0.7, None, 0.9]
    assert chunks[1]["filled"] is True


def test_a_known_reranker_has_its_own_calibration(way: Way) -> None:
    texts = {"a": "a 0\nb 0\n"}
    scores = [0.5, 0.25]
    known = make(texts, reranker=CohereRerank(scores=scores))
    other = make(texts, reranker=Reranker(scores=scores))

    def relevances(retriever: RSERetriever) -> list[float]:
        settings = {"irrelevant_chunk_penalty": 0.1, "minimum_value": 0}
        segments = way.invoke(retriever, QUERY, calibration="auto", **settings)
        chunks = [chunk for segment in segments for chunk in segment.metadata["rse"]["chunks"]]
        return [chunk["relevance"] for chunk in chunks]

    # I_0.5(0.4, 0.4) is 1/2 by symmetry; minmax makes of two scores 1 and 0.
    assert relevances(known)[0] == pytest.approx(0.5)
    assert relevances(other) == pytest.approx([1])


def test_nothing_relevant_by_a_reranker_gives_nothing(way: Way) -> None:
    retriever = make(
        {"a": "a 0\nb 0\n"}, reranker=CohereRerank(scores=[0.6, 0.2]), config="balanced"
    )
    assert len(way.invoke(retriever, QUERY)) == 1
    assert way.invoke(retriever, QUERY, min_relevance=0.6) == []


def test_beside_the_best_chunk_of_a_reranker_clusters_count_more_than_single_chunks(
    way: Way,
) -> None:
    # Of 40 chunks the reranker likes two best, and three that stand together a little less.
    liked = {3: 0.95, 10: 0.91, 20: 0.9, 22: 0.89, 21: 0.85}
    order = [*liked, *(number for number in range(40) if number not in liked)]
    # It puts documents in the order of their names.
    texts = [f"{order.index(number):02} 0\n" for number in range(40)]
    reranker = CohereRerank(scores=[liked.get(number, 0.02) for number in order])
    config = RSEConfig(rerank_weight=1.0)
    retriever = make({"a": "".join(texts)}, reranker=reranker, config=config)
    settings = {"irrelevant_chunk_penalty": 0, "max_context_length": 4 * len(texts[0])}

    def found(**changes: Any) -> list[tuple[int, int]]:
        segments = way.invoke(retriever, QUERY, **settings, **changes)
        return [
            (segment.metadata["rse"]["chunk_start"], segment.metadata["rse"]["chunk_end"])
            for segment in segments
        ]

    assert found(calibration="identity") == [(3, 4), (20, 23)]
    # Without neighbors and a cost of segments, the ranks decide.
    assert (10, 11) in found(calibration="identity", neighbor_credit=0.0, segment_cost=0)


def test_words_of_the_query_count(way: Way) -> None:
    texts = {"a": "beta 20\n", "b": "alpha 20\n"}
    retriever = make(texts, config=PLAIN.replace(lexical_credit=0.5))

    def relevances(**kwargs: Any) -> dict[str, float]:
        segments = way.invoke(retriever, "about alpha 0", irrelevant_chunk_penalty=0.1, **kwargs)
        return {s.metadata["doc_id"]: s.metadata["rse"]["chunks"][0]["relevance"] for s in segments}

    cosine = math.cos(math.radians(20))
    assert relevances() == pytest.approx({"b": 1 - (1 - cosine) / 2, "a": cosine})
    assert relevances(lexical_credit=0.0) == pytest.approx({"a": cosine, "b": cosine})


# The budget

SENTENCES = "One two. Three four. Five 10\n"
TEXTS = {"a": lines(0, 10, 85, 20, name="a"), "b": lines(30, 90, 5, 100, name="bb")}
CONFIGS = {"exact": PLAIN, "greedy": GREEDY, "balanced": PRESETS["balanced"]}


def total(segments: Sequence[Document], length_function: Callable[[str], float] = len) -> float:
    return sum(length_function(segment.page_content) for segment in segments)


@pytest.mark.parametrize("config", list(CONFIGS))
def test_the_budget_is_filled_up_to_the_first_chunk_that_does_not_fit(
    way: Way, config: str
) -> None:
    retriever = make(TEXTS, config=CONFIGS[config])
    found: list[Document] = []
    for budget in range(60):
        before, found = found, way.invoke(retriever, QUERY, max_context_length=budget)
        if found != before:  # a character less would not have been enough
            assert total(found) == budget
    assert found == way.invoke(retriever, QUERY, max_context_length=None)


def test_the_budget_by_hand(way: Way) -> None:
    retriever = make(TEXTS, order="relevance")

    def asked(budget: float) -> list[tuple[str, int, int]]:
        return ranges(way.invoke(retriever, QUERY, max_context_length=budget))

    # The chunks by relevance: "a0 0", then "bb2 5", "a1 10", "a3 20" and "bb0 30".
    assert asked(4.5) == []
    assert asked(5) == [("a", 0, 1)]
    assert asked(11) == [("b", 2, 3), ("a", 0, 1)]
    assert asked(17) == [("a", 0, 2), ("b", 2, 3)]
    assert asked(23) == [("a", 0, 2), ("b", 2, 3), ("a", 3, 4)]
    assert asked(30) == [("a", 0, 2), ("b", 2, 3), ("a", 3, 4), ("b", 0, 1)]
    assert asked(1000) == asked(30)


@pytest.mark.parametrize("unit", list(fakes.LENGTHS))
@pytest.mark.parametrize("config", list(CONFIGS))
def test_the_budget_in_any_unit(way: Way, unit: str, config: str) -> None:
    measure = fakes.LENGTHS[unit]
    retriever = make(TEXTS, config=CONFIGS[config], length_function=measure)
    everything = way.invoke(retriever, QUERY, max_context_length=None)
    whole = total(everything, measure)
    for budget in range(math.ceil(whole)):
        found = way.invoke(retriever, QUERY, max_context_length=budget)
        assert total(found, measure) <= budget
    if unit in ("characters", "bytes", "words"):  # of others, it depends on what is joined
        assert way.invoke(retriever, QUERY, max_context_length=whole) == everything


def test_a_function_that_counts_characters_is_as_good_as_len(way: Way) -> None:
    retriever = make(TEXTS)

    def count(text: str) -> int:
        return len(text)

    for budget in range(40):
        found = way.invoke(
            retriever, QUERY, max_context_length=budget, length_function=count, allow_trim=True
        )
        by_len = way.invoke(retriever, QUERY, max_context_length=budget, allow_trim=True)
        assert found == by_len


def test_no_budget_and_the_default_one(way: Way) -> None:
    long = "".join(f"{'x' * 995} 0\n" for _ in range(20))
    retriever = make({"a": long, "b": long.replace("x", "y")})
    assert total(way.invoke(retriever, QUERY)) == 16 * 998
    assert total(way.invoke(retriever, QUERY, max_context_length=None)) == 2 * len(long)
    assert way.invoke(retriever, QUERY, max_context_length=0) == []
    assert way.invoke(retriever, QUERY, max_context_length=997) == []


def test_a_log_line_says_that_nothing_fits(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    retriever = make(TEXTS, max_context_length=2)
    assert way.invoke(retriever, QUERY) == []
    (message,) = caplog.messages
    assert "max_context_length=2: the shortest has 5 characters. Make chunks smaller" in message
    assert total(way.invoke(retriever, QUERY, allow_trim=True)) == 2
    assert way.invoke(retriever, QUERY, max_context_length=0) == []
    assert way.invoke(retriever, "   ", max_context_length=1) == []
    assert len(caplog.messages) == 1
    assert way.invoke(retriever, QUERY, max_context_length=6, length_function=heading_length) == []
    assert "5 characters; with its headings, length_function counts more" in caplog.messages[-1]


def heading_length(text: str) -> int:
    return len(text) + 30


def test_the_budget_per_call_and_by_config(way: Way) -> None:
    retriever = make(TEXTS, max_context_length=11)
    assert total(way.invoke(retriever, QUERY)) == 11
    assert total(way.invoke(retriever, QUERY, max_context_length=6)) == 5
    assert total(way.invoke(retriever.bind(max_context_length=17), QUERY)) == 17
    in_words = {"max_context_length": 4, "length_function": fakes.words}
    assert total(way.invoke(retriever, QUERY, **in_words), fakes.words) == 4


def test_the_budget_and_k(way: Way) -> None:
    retriever = make(TEXTS)
    assert ranges(way.invoke(retriever, QUERY, max_context_length=17, k=1)) == [("a", 0, 2)]
    assert len(way.invoke(retriever, QUERY, max_context_length=17, k=5)) == 2


@pytest.mark.parametrize(
    "length", [-1, -0.5, math.nan, math.inf, True, "5", pytest.param(10**400, id="huge")]
)
def test_a_bad_budget_is_refused(way: Way, length: Any) -> None:
    message = r"(?s)max_context_length\n.*(greater than or equal to 0|finite number|valid number)"
    with pytest.raises(ValueError, match=message):
        make({}, max_context_length=length)
    with pytest.raises(ValueError, match=message):
        way.invoke(make({}), QUERY, max_context_length=length)


@pytest.mark.parametrize("length", [None, -1, math.nan, "3"])
def test_a_length_function_has_to_return_lengths(way: Way, length: Any) -> None:
    retriever = make(TEXTS, length_function=lambda _: length)
    with pytest.raises(ValueError, match="length_function must return a finite number"):
        way.invoke(retriever, QUERY)


def test_a_length_function_has_to_be_one(way: Way) -> None:
    with pytest.raises(ValueError, match="length_function"):
        make({}, length_function=3)
    with pytest.raises(ValueError, match="length_function"):
        way.invoke(make({}), QUERY, length_function="len")


@pytest.mark.parametrize("config", list(CONFIGS))
@pytest.mark.parametrize("budget", [0, 5, 18, 24, None])
def test_only_what_is_returned_is_read(way: Way, config: str, budget: int | None) -> None:
    store = fakes.WatchedDocStore(InMemoryByteStore(), fakes.Writes())
    retriever = make(TEXTS, config=CONFIGS[config], docstore=store)
    store.reads.clear()
    segments = way.invoke(retriever, QUERY, max_context_length=budget)
    assert len(store.reads) <= 2
    texts = itertools.chain.from_iterable(store.reads[1:])
    assert {without_writes(key) for key in texts if not key.startswith("manifest/")} == {
        chunk_key(document_key(doc_id), segment.metadata["rse"]["version"], index)
        for segment, (doc_id, start, end) in zip(segments, ranges(segments), strict=True)
        for index in range(start, end)
    }


@pytest.mark.parametrize("unit", list(fakes.LENGTHS))
def test_two_reads_whatever_the_unit(way: Way, unit: str) -> None:
    store = fakes.WatchedDocStore(InMemoryByteStore(), fakes.Writes())
    retriever = make(TEXTS, docstore=store, length_function=fakes.LENGTHS[unit])
    for budget in (0, 3, 9, 99):
        store.reads.clear()
        way.invoke(retriever, QUERY, max_context_length=budget, allow_trim=True)
        assert len(store.reads) == 2


# Trimming


def only(segments: Sequence[Document]) -> tuple[str, int, int, str]:
    """Text, place and shape of the one segment."""
    (segment,) = segments
    assert segment.id is not None
    metadata = segment.metadata
    shape = segment.id.split("/", 2)[2]
    return segment.page_content, metadata["start_index"], metadata["end_index"], shape


@pytest.mark.parametrize("config", ["exact", "greedy"])
def test_a_part_is_returned_where_no_chunk_fits(way: Way, config: str) -> None:
    retriever = make({"a": "Intro 90\n" + SENTENCES}, config=CONFIGS[config])
    assert way.invoke(retriever, QUERY, max_context_length=22) == []
    part = way.invoke(retriever, QUERY, max_context_length=22, allow_trim=True)
    assert only(part) == ("One two. Three four.", 9, 29, "1-2/0-9")
    assert part == way.invoke(retriever, QUERY, max_context_length=20, allow_trim=True)
    assert way.invoke(retriever, QUERY, max_context_length=2, allow_trim=True) == []
    assert way.invoke(retriever, QUERY, max_context_length=0, allow_trim=True) == []
    whole = way.invoke(retriever, QUERY, max_context_length=29, allow_trim=True)
    assert only(whole) == (SENTENCES, 9, 38, "1-2")


def test_a_part_extends_the_segment_before_it(way: Way) -> None:
    retriever = make({"a": "First 0\n" + SENTENCES}, allow_trim=True)
    segments = way.invoke(retriever, QUERY, max_context_length=18)
    assert only(segments) == ("First 0\nOne two.", 0, 16, "0-2/0-21")
    # 8 and 29 characters, weighed by their mean, of the second chunk's worth 8 of 29.
    worth = 8 / 18.5 * 0.5 + 29 / 18.5 * (math.cos(math.radians(10)) - 0.5) * 8 / 29
    assert segments[0].metadata["relevance_score"] == pytest.approx(worth)


def test_a_part_extends_the_segment_after_it(way: Way) -> None:
    retriever = make({"a": SENTENCES + "Last 0\n"}, allow_trim=True)
    segments = way.invoke(retriever, QUERY, max_context_length=16)
    assert only(segments) == ("Five 10\nLast 0\n", 21, 36, "0-2/21-0")


def test_a_part_closes_the_gap_between_two_segments_only_as_a_whole(way: Way) -> None:
    text = "First 0\n" + SENTENCES.replace("10", "40") + "Last 0\n"
    retriever = make({"a": text}, allow_trim=True, order="document")
    before, after = way.invoke(retriever, QUERY, max_context_length=25)
    assert only([before]) == ("First 0\nOne two.", 0, 16, "0-2/0-21")
    assert only([after]) == ("Last 0\n", 37, 44, "2-3")


def test_a_part_of_another_document_stands_alone(way: Way) -> None:
    retriever = make({"a": "First 0\n", "b": SENTENCES}, allow_trim=True)
    first, part = way.invoke(retriever, QUERY, max_context_length=18)
    assert only([first]) == ("First 0\n", 0, 8, "0-1")
    assert only([part]) == ("One two.", 0, 8, "0-1/0-21")


def test_a_greedy_segment_loses_its_end(way: Way) -> None:
    retriever = make({"a": lines(0, 10, 20)}, config=GREEDY, allow_trim=True)
    segments = way.invoke(retriever, QUERY, max_context_length=12)
    assert only(segments) == ("c0 0\nc1 10", 0, 10, "0-2/0-1")
    assert [chunk["index"] for chunk in segments[0].metadata["rse"]["chunks"]] == [0, 1]


def test_a_part_is_worth_the_least_a_segment_must_be(way: Way) -> None:
    retriever = make({"a": SENTENCES}, config=PLAIN.replace(minimum_value=0.3), allow_trim=True)
    assert len(way.invoke(retriever, QUERY)) == 1
    # A third of what is worth 0.48 is worth less than 0.3.
    assert way.invoke(retriever, QUERY, max_context_length=10) == []


# Candidates that are known already


def test_candidates_are_found_once_for_several_answers(way: Way) -> None:
    texts = {"a": lines(0, 95, 10), "b": lines(20, 30)}
    retriever = make(texts)
    sources = Sources(retriever.vectorstore, None, retriever.docstore)
    first = resolve_settings(retriever, {})
    found: Candidates = way.call(run, arun, find_candidates(sources, [QUERY], first))
    for arguments in ({}, {"k": 1}, {"irrelevant_chunk_penalty": 0.9}):
        settings = resolve_settings(retriever, arguments)
        answer = way.call(run, arun, retrieve(sources, QUERY, settings, candidates=found))
        assert answer == way.invoke(retriever, QUERY, **arguments)


# The docstore


def test_two_reads_however_many_segments(way: Way) -> None:
    store = CountingStore()
    texts = {f"d{n}": lines(*[0, 90, 90, 90, 90, 90] * 20, name=f"n{n}-") for n in range(9)}
    retriever = make(texts, docstore=store)
    store.reads = 0
    segments = way.invoke(retriever, QUERY)
    assert len(segments) > 50
    assert store.reads == 2


def lost(retriever: RSERetriever, doc_id: str, *chunks: int) -> None:
    """Delete chunks behind the retriever's back."""
    key = document_key(doc_id)
    (manifest,) = retriever.docstore.mget([manifest_key(key)])
    assert manifest is not None
    version = manifest.metadata["current"][0]
    retriever.docstore.mdelete([chunk_key(key, version, chunk) for chunk in chunks])


def test_lost_chunks_raise(way: Way) -> None:
    retriever = make({"a": lines(0, 0, 0)})
    lost(retriever, "a", 1)
    with pytest.raises(MissingRecordError, match=r"chunk\(s\) 1 of document 'a'.*on_missing"):
        way.invoke(retriever, QUERY)


def test_lost_chunks_split_the_segment(way: Way) -> None:
    retriever = make(
        {"a": lines(0, 0, 95, 0, 40, 95, 0)},
        on_missing="split",
        fetch_k=5,
        config=GREEDY.replace(
            irrelevant_chunk_penalty=0.4, solver=Greedy(max_length=7, length_weighting="none")
        ),
    )
    lost(retriever, "a", 3)
    segments = way.invoke(retriever, QUERY)
    assert ranges(segments) == [("a", 0, 2), ("a", 4, 7)]
    # 0.6 + 0.6 of chunks 0 and 1; (0.77 - 0.4) - 0.4 + 0.6 of chunks 4 to 6
    values = [segment.metadata["relevance_score"] for segment in segments]
    assert values == pytest.approx([1.2, math.cos(math.radians(40)) - 0.2])
    assert segments[0].page_content == "c0 0\nc1 0\n"
    # The exact solver bridges the gaps where a segment costs more.
    exact = way.invoke(
        retriever.model_copy(update={"config": PLAIN}),
        QUERY,
        irrelevant_chunk_penalty=0.4,
        segment_cost=2.0,
    )
    assert ranges(exact) == ranges(segments)


def test_what_is_left_of_a_split_segment_counts_as_what_it_is_worth(way: Way) -> None:
    retriever = make({"a": lines(10, 10, 10), "b": lines(20, 20)}, on_missing="split")
    lost(retriever, "a", 1)
    segments = way.invoke(retriever, QUERY, order="relevance")
    best, *parts = ranges(segments)
    assert best == ("b", 0, 2)
    assert sorted(parts) == [("a", 0, 1), ("a", 2, 3)]
    # The segment with the best candidate, though it is worth less.
    ((doc_id, *_),) = ranges(way.invoke(retriever, QUERY, k=1))
    assert doc_id == "a"


def test_what_is_left_out_takes_no_room(way: Way) -> None:
    texts = {"a": "a 0\n", "b": SENTENCES}
    retriever = make(texts, config=PLAIN.replace(minimum_value=0.5))
    assert ranges(way.invoke(retriever, QUERY)) == [("b", 0, 1)]
    assert ranges(way.invoke(retriever, QUERY, max_context_length=30)) == [("b", 0, 1)]


def test_all_chunks_lost(way: Way) -> None:
    retriever = make({"a": lines(0)}, on_missing="split")
    lost(retriever, "a", 0)
    assert way.invoke(retriever, QUERY) == []


def test_a_lost_document(way: Way) -> None:
    retriever = make({"a": lines(0), "b": lines(1)})
    retriever.docstore.mdelete([manifest_key(document_key("a"))])
    said = r"1 of 2 candidates are left out.*'a'.*check\(repair=True\).*adopt it again"
    for on_missing in ("raise", "split"):
        with pytest.warns(UserWarning, match=said) as caught:
            segments = way.invoke(retriever, QUERY, on_missing=on_missing)
        assert len(caught) == 1
        assert ranges(segments) == [("b", 0, 1)]
    retriever.docstore.mdelete([manifest_key(document_key("b"))])
    with pytest.raises(
        MissingRecordError, match=r"no documents.*'[ab]'.*Are the two stores a pair"
    ):
        way.invoke(retriever, QUERY)


def test_corrupt_records_are_named(way: Way) -> None:
    store = InMemoryByteStore()
    retriever = make({"a": lines(0, 0)}, docstore=store)
    for key in [key for key in store.yield_keys() if key != "vectorstore"]:
        (intact,) = store.mget([key])
        assert intact is not None
        for broken in (b"{", b'{"page_content": "text", "metadata": {}}', b"[]"):
            store.mset([(key, broken)])
            with pytest.warns(UserWarning, match=rf"(?s)1 document.*'a'.*{key}"):
                assert way.invoke(retriever, QUERY) == []
        store.mset([(key, intact)])
    assert ranges(way.invoke(retriever, QUERY)) == [("a", 0, 2)]


def test_a_chunk_beyond_the_end_is_named(way: Way) -> None:
    retriever = make({"a": lines(0)})
    assert retriever.vectorstore is not None
    (document,) = retriever.vectorstore.similarity_search(QUERY, k=1)
    document.metadata["chunk_index"] = 5
    broken = RSERetriever(
        base_retriever=FixedRetriever(documents=[document]),
        candidates_only=False,
        docstore=retriever.docstore,
    )
    with pytest.warns(UserWarning, match=r"'a'.*chunk 5 of document 'a'.*only 1"):
        assert way.invoke(broken, QUERY) == []


@pytest.mark.filterwarnings("ignore:.*no sentence in common")
def test_candidates_of_another_version_do_not_count(way: Way) -> None:
    retriever = make({"a": lines(0, 0)})
    assert retriever.vectorstore is not None
    stale = retriever.vectorstore.similarity_search(QUERY, k=2)
    retriever.add_documents([Document(lines(0, 90, name="new"), metadata={"source": "a"})])
    current = retriever.vectorstore.similarity_search(QUERY, k=1)
    both = RSERetriever(
        base_retriever=FixedRetriever(documents=stale + current),
        candidates_only=False,
        docstore=retriever.docstore,
        config=PLAIN,
    )
    (segment,) = way.invoke(both, QUERY)
    assert segment.page_content == "new0 0\n"
    assert segment.metadata["rse"]["chunks"][0]["rank"] == 0


@pytest.mark.parametrize("times", [1, 99])
@fakes.both_ways
@pytest.mark.filterwarnings("ignore:.*no sentence in common")
def test_a_document_replaced_while_it_is_read(way: Way, times: int) -> None:
    store = CountingStore()
    retriever = make({"a": lines(0, 0, name="v"), "b": lines(9, name="b")}, docstore=store)
    replaced = 0

    def replace(reads: int) -> None:
        nonlocal replaced
        if reads % 2 == 0 and replaced < times:
            replaced += 1
            store.before_read = lambda _: None
            text = lines(*[0] * (replaced + 2), name=f"w{replaced}-")
            retriever.add_documents([Document(text, metadata={"source": "a"})])
            store.reads, store.before_read = 0, replace

    store.reads, store.before_read = 0, replace
    if times == 1:
        first, second = way.invoke(retriever, QUERY)
        assert first.page_content == lines(0, 0, 0, name="w1-")
    else:
        with pytest.warns(UserWarning, match=r"1 document\(s\) were replaced while they were read"):
            (second,) = way.invoke(retriever, QUERY)
    assert second.page_content == lines(9, name="b")


def test_errors_say_during_which_step_they_came_up(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(InMemoryVectorStore):
        def similarity_search_with_score(self, *_: Any, **__: Any) -> Any:
            raise ConnectionError("no route")

        async def asimilarity_search_with_score(self, *_: Any, **__: Any) -> Any:
            raise ConnectionError("no route")

    retriever = RSERetriever(vectorstore=Failing(Angles()), docstore=InMemoryStore())
    with pytest.raises(ConnectionError, match="no route") as raised:
        way.invoke(retriever, QUERY)
    said = getattr(raised.value, "__notes__", [caplog.text])
    assert "searching Failing" in "".join(said)


# Construction and calls


def test_exactly_one_source() -> None:
    store = InMemoryVectorStore(Angles())
    with pytest.raises(ValueError, match=r"exactly one of vectorstore and base_retriever.*neither"):
        RSERetriever(docstore=InMemoryStore())
    with pytest.raises(ValueError, match=r"exactly one of vectorstore and base_retriever.*both"):
        RSERetriever(
            vectorstore=store,
            base_retriever=FixedRetriever(documents=[]),
            candidates_only=False,
            docstore=InMemoryStore(),
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fetchk": 3}, "fetchk"),
        ({"fetch_k": 0}, r"(?s)fetch_k.*greater than or equal to 1.*input_value=0"),
        ({"k": 0}, r"(?s)k\n.*greater than or equal to 1.*input_value=0"),
        ({"k": "3"}, r"(?s)k\n.*valid integer"),
        ({"order": "best"}, r"(?s)order.*'document' or 'relevance'.*'best'"),
        ({"on_missing": "skip"}, r"(?s)on_missing.*'raise' or 'split'"),
        ({"config": "balance"}, r"(?s)config.*dsrag-balanced.*'balance'"),
        ({"search_kwargs": {"k": 5}}, r"(?s)search_kwargs.*fetch_k"),
        ({"docstore": {}}, r"(?s)docstore.*BaseStore.*dict"),
        (
            {"text_splitter": RecursiveCharacterTextSplitter},
            r"(?s)text_splitter.*such as RecursiveCharacterTextSplitter\(\), not a class",
        ),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    good = {"vectorstore": InMemoryVectorStore(Angles()), "docstore": InMemoryStore()}
    with pytest.raises(ValueError, match=message):
        RSERetriever(**{**good, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fetch_k": 0}, "fetch_k"),
        (
            {"irrelevant_chunk_penalty": 7},
            r"(?s)irrelevant_chunk_penalty\n.*less than.*input_value=7",
        ),
        ({"irrelevant_chunk_penalty": math.nan}, r"(?s)irrelevant_chunk_penalty\n.*nan"),
        ({"irrelevant_chunk_penalty": "0.3"}, r"(?s)irrelevant_chunk_penalty\n.*valid number"),
        ({"solver": "greedy"}, r"solver must be \"exact\", or Greedy\(...\).*got 'greedy'"),
        ({"search_kwargs": {"k": 5}}, "fetch_k"),
    ],
)
def test_bad_arguments_are_named_by_call_and_constructor(
    way: Way, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        way.invoke(make({}), QUERY, **arguments)
    with pytest.raises(ValueError, match=message):
        make({}, **arguments)


@pytest.mark.parametrize("query", [{"question": "what?"}, None, ["what?"], 3])
def test_a_query_has_to_be_a_string(way: Way, query: Any) -> None:
    with pytest.raises(TypeError, match=r"query must be a string.*itemgetter"):
        way.invoke(make({"a": lines(0)}), query)


def test_unknown_arguments_of_a_call_are_errors(way: Way) -> None:
    with pytest.raises(TypeError, match=r"unknown argument\(s\) penalty.*irrelevant_chunk_penalty"):
        way.invoke(make({}), QUERY, penalty=0.3)
    with pytest.raises(TypeError, match="RunnableConfig"):
        way.invoke(make({}), QUERY, config="kadane")


def test_overrides_per_call(way: Way) -> None:
    retriever = make({"a": lines(10, 90, 90, 10), "b": lines(20)})
    assert ranges(way.invoke(retriever, QUERY)) == [("a", 0, 1), ("a", 3, 4), ("b", 0, 1)]
    # Apart, the two are worth 2 * (0.98 - 0.1 - 3 * 0.1); together, 2 * (0.98 - 2 * 0.1) - 3 * 0.1.
    long = way.invoke(retriever, QUERY, irrelevant_chunk_penalty=0.1, segment_cost=3.0)
    assert ranges(long) == [("a", 0, 4), ("b", 0, 1)]
    assert len(way.invoke(retriever, QUERY)) == 3  # nothing stuck


def test_the_constructor_takes_what_a_call_takes(way: Way) -> None:
    texts = {"a": lines(0, 90, 90, 5), "b": lines(20)}
    arguments: dict[str, Any] = {"irrelevant_chunk_penalty": 0.1, "segment_cost": 3.0, "k": 1}
    expected = way.invoke(make(texts), QUERY, **arguments)
    assert ranges(expected) == [("a", 0, 4)]
    built = make(texts, **arguments)
    assert way.invoke(built, QUERY) == expected
    assert way.invoke(make(texts).bind(**arguments), QUERY) == expected
    # A call counts more than the constructor, and that more than the config.
    assert (
        len(way.invoke(built, QUERY, irrelevant_chunk_penalty=0.5, segment_cost=0.0, k=None)) == 3
    )


def test_the_configurable_of_a_run_is_not_read_unless_asked(way: Way) -> None:
    retriever = make({"a": lines(0, 90, 90, 5), "b": lines(20)})
    named = retriever.with_config(configurable={"k": 1, "thread_id": "t"})
    assert len(way.invoke(named, QUERY)) == 3
    fields = retriever.configurable_fields(
        config=ConfigurableField(id="rse"),
        fetch_k=ConfigurableField(id="candidates"),
        irrelevant_chunk_penalty=ConfigurableField(id="penalty"),
    )
    assert len(way.invoke(fields, QUERY)) == 3
    chosen = fields.with_config(configurable={"rse": "kadane", "candidates": 1})
    assert ranges(way.invoke(chosen, QUERY)) == [("a", 0, 1)]
    strict = fields.with_config(configurable={"penalty": 0.99})
    assert ranges(way.invoke(strict, QUERY)) == [("a", 0, 1), ("a", 3, 4)]


async def test_batch() -> None:
    retriever = make({"a": lines(0, 90), "b": lines(89.9, 45)})
    queries = ["query 0", "query 90", ""]
    expected = [retriever.invoke(query) for query in queries]
    assert [len(segments) for segments in expected] == [2, 2, 0]
    assert retriever.batch(queries) == expected
    assert await retriever.abatch(queries) == expected
    assert [len(found) for found in retriever.batch(queries, k=1)] == [1, 1, 0]


def test_presets_by_name() -> None:
    for name, config in PRESETS.items():
        assert make({}, config=name).config == config
    store = InMemoryVectorStore(Angles())
    assert RSERetriever(vectorstore=store, docstore=InMemoryStore()).config == RSEConfig()


@pytest.mark.parametrize("preset", list(PRESETS))
def test_every_preset_finds_the_relevant_run(way: Way, preset: str) -> None:
    far = [90] * 10
    retriever = make({"a": lines(*far, 1, 2, 3, *far), "b": lines(*far)}, config=preset)
    segments = way.invoke(retriever, QUERY, order="relevance")
    start, end = ranges(segments)[0][1:]
    assert segments[0].metadata["doc_id"] == "a"
    assert start <= 10
    assert end >= 13


def test_a_retriever_without_a_vector_store_cannot_write(way: Way) -> None:
    retriever = RSERetriever(
        base_retriever=FixedRetriever(documents=[]), candidates_only=False, docstore=InMemoryStore()
    )
    with pytest.raises(ValueError, match="RSEIndexer"):
        way.add(retriever, [Document("text")])
    with pytest.raises(ValueError, match="RSEIndexer"):
        way.delete(retriever, ["a"])


@fakes.both_ways
def test_add_and_delete(way: Way) -> None:
    retriever = make({})
    assert way.add(retriever, [Document(lines(0))], ids=["a"]) == ["a"]
    assert ranges(way.invoke(retriever, QUERY)) == [("a", 0, 1)]
    assert way.delete(retriever, ["a", "b"]) == ["a"]
    assert way.invoke(retriever, QUERY) == []


def test_the_default_splitter() -> None:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(Angles()), docstore=SQLDocStore("sqlite://")
    )
    retriever.add_documents([Document("word 0 " * 300)], ids=["a"])
    (segment, *_) = retriever.invoke(QUERY, minimum_value=0.0)
    assert 700 < segment.metadata["rse"]["chunks"][0]["length"] <= 801


# In LangChain


class Runs(BaseCallbackHandler):
    def __init__(self) -> None:
        self.starts: list[tuple[str, Any, Any, dict[str, Any]]] = []

    def on_retriever_start(
        self, serialized: Any, query: str, *, run_id: Any, parent_run_id: Any = None, **kw: Any
    ) -> None:
        del serialized, query
        self.starts.append((kw.get("name", ""), run_id, parent_run_id, kw.get("metadata") or {}))


@fakes.both_ways
def test_children_are_traced(way: Way) -> None:
    runs = Runs()
    retriever = RSERetriever(
        base_retriever=FixedRetriever(documents=[]), candidates_only=False, docstore=InMemoryStore()
    )
    way.invoke(retriever, QUERY, {"callbacks": [runs]})
    (parent, child) = runs.starts
    assert (parent[0], child[0]) == ("RSERetriever", "FixedRetriever")
    assert child[2] == parent[1]


def test_traces_name_the_store(way: Way) -> None:
    runs = Runs()
    way.invoke(make({}), QUERY, {"callbacks": [runs]})
    metadata = runs.starts[0][3]
    assert metadata["ls_retriever_name"] == "rse"
    assert metadata["ls_vector_store_provider"] == "InMemoryVectorStore"
    assert metadata["ls_embedding_provider"] == "Angles"


def test_in_a_chain(way: Way) -> None:
    retriever = make({"a": lines(0, 10, 90)})

    def join(segments: list[Document]) -> str:
        return "".join(segment.page_content for segment in segments)

    def answer(prompt: Any) -> str:
        return str(prompt.to_messages()[0].content)

    chain: Any = (
        {"context": retriever | join, "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("{context}|{question}")
        | RunnableLambda(answer)
        | StrOutputParser()
    )
    assert way.invoke(chain, QUERY) == f"{lines(0, 10)}|{QUERY}"


@fakes.both_ways
def test_as_a_tool(way: Way) -> None:
    retriever = make({"a": lines(0, 10, 90), "b": lines(5)})
    tool = create_retriever_tool(retriever, "search", "Searches.", document_separator="---")
    assert way.invoke(tool, {"query": QUERY}) == f"{lines(0, 10)}---{lines(5)}"


# For any text, splitter and history


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, str]]:
    words = st.sampled_from(["alpha ", "beta\n", "gamma. ", "\n\n", "é😀 ", "אב ", "\t", "a", "0 "])
    texts = st.lists(words, min_size=1, max_size=60).map("".join)
    return draw(st.lists(st.tuples(st.sampled_from("ab"), texts), min_size=1, max_size=5))


class Letters(Embeddings):
    """Counts some letters: enough for a ranking."""

    def embed_query(self, text: str) -> list[float]:
        return [1.0, *(float(text.count(letter)) for letter in "abg0")]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


@settings(max_examples=150, deadline=None)
@given(
    history=histories(),
    size=st.integers(5, 40),
    overlap=st.integers(0, 4),
    keep=st.booleans(),
    preset=st.sampled_from(list(PRESETS)),
    penalty=st.sampled_from([0.0, 0.1, 0.3]),
)
def test_segments_are_slices_of_the_last_text(
    *,
    history: list[tuple[str, str]],
    size: int,
    overlap: int,
    keep: bool,
    preset: str,
    penalty: float,
) -> None:
    vectorstore, docstore = InMemoryVectorStore(Letters()), InMemoryByteStore()
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=size, chunk_overlap=overlap, keep_separator=keep
    )
    indexer = RSEIndexer(vectorstore, docstore, text_splitter=splitter)
    with warnings.catch_warnings():
        # Overlap makes this splitter repeat itself at the end of some texts.
        warnings.filterwarnings("ignore", message=".*lie wholly inside")
        for doc_id, text in history:
            indexer.add_documents([Document(text)], ids=[doc_id])
    texts = dict(history)
    retriever = RSERetriever(
        vectorstore=vectorstore, docstore=docstore, config=PRESETS[preset], fetch_k=7
    )
    segments = retriever.invoke("beta gamma", irrelevant_chunk_penalty=penalty, minimum_value=0.0)
    taken: set[tuple[str, int]] = set()
    for segment in segments:
        metadata = segment.metadata
        text = texts[metadata["doc_id"]]
        assert segment.page_content == text[metadata["start_index"] : metadata["end_index"]]
        places = {
            (metadata["doc_id"], place)
            for place in range(metadata["start_index"], metadata["end_index"])
        }
        assert not places & taken
        taken |= places


@settings(max_examples=300, deadline=None)
@given(
    texts=st.lists(
        st.lists(
            st.sampled_from(["alpha ", "beta. ", "gamma!\n", "\n\n", "é😀. ", "。", "a", "0 g"]),
            min_size=1,
            max_size=60,
        ).map("".join),
        min_size=1,
        max_size=3,
    ),
    size=st.integers(5, 60),
    overlap=st.integers(0, 4),
    unit=st.sampled_from(list(fakes.LENGTHS)),
    budget=st.integers(0, 80),
    config=st.builds(
        lambda preset, penalty: PRESETS[preset].replace(
            irrelevant_chunk_penalty=penalty, minimum_value=0.0
        ),
        st.sampled_from(list(PRESETS)),
        st.sampled_from([0.0, 0.1, 0.3]),
    ),
    arguments=st.fixed_dictionaries(
        {
            "k": st.sampled_from([None, 1, 2]),
            "allow_trim": st.booleans(),
            "order": st.sampled_from(["document", "relevance"]),
            "fetch_k": st.integers(1, 12),
        }
    ),
)
def test_slices_within_the_budget(
    *,
    texts: list[str],
    size: int,
    overlap: int,
    unit: str,
    budget: int,
    config: RSEConfig,
    arguments: dict[str, Any],
) -> None:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(Letters()),
        docstore=InMemoryByteStore(),
        text_splitter=RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap),
        config=config,
        max_context_length=budget,
        length_function=fakes.LENGTHS[unit],
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*lie wholly inside")
        ids = [str(number) for number, _ in enumerate(texts)]
        retriever.add_documents([Document(text) for text in texts], ids=ids)
    segments = retriever.invoke("beta gamma", **arguments)
    taken: set[tuple[str, int]] = set()
    for segment in segments:
        metadata = segment.metadata
        place = range(metadata["start_index"], metadata["end_index"])
        text = texts[int(metadata["doc_id"])]
        assert segment.page_content == text[place.start : place.stop] != ""
        places = {(metadata["doc_id"], index) for index in place}
        assert not places & taken
        taken |= places
        # What is said of its chunks covers it, and nothing but its ends.
        chunks = metadata["rse"]["chunks"]
        assert [chunk["index"] for chunk in chunks] == list(
            range(metadata["rse"]["chunk_start"], metadata["rse"]["chunk_end"])
        )
        assert len(place) > sum(chunk["length"] for chunk in chunks[1:-1])
        assert len(place) <= sum(chunk["length"] for chunk in chunks)
        assert metadata["relevance_score"] >= -1e-9
    assert total(segments, fakes.LENGTHS[unit]) <= budget
    assert len(segments) <= (arguments["k"] or len(segments))
    assert len({segment.id for segment in segments}) == len(segments)
    if arguments["order"] == "relevance":
        worth = [segment.metadata["relevance_score"] for segment in segments]
        assert worth == sorted(worth, reverse=True)


class Named(fakes.BagOfWords):
    """Embeddings that count how often somebody asks for the model."""

    asked = 0

    @property
    def model_name(self) -> str:
        self.asked += 1
        return "no-model"


def test_what_is_known_of_the_model_is_found_once(way: Way) -> None:
    embeddings = Named()
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(embeddings), docstore=InMemoryByteStore()
    )
    for number in range(3):
        way.add(retriever, [Document(f"text {number}", metadata={"source": str(number)})])
    way.delete(retriever, ["1"])
    assert embeddings.asked == 1
