"""Which passages come back, compared with solving the whole documents."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSEIndexer, RSERetriever
from langchain_rse.config import RSEConfig
from langchain_rse.engine import NEIGHBOR_RADIUS, neighbor_credit
from tests.unit_tests import fakes
from tests.unit_tests.engine.problems import solve_exact

way = fakes.way

# Relevance is the score, whatever the rank and the words.
PLAIN: dict[str, Any] = {
    "vector_weight": 1.0,
    "calibration": "identity",
    "decay_rate": 1e300,
    "lexical_weight": 0.0,
    "document_weight": 0.0,
    "top_k_for_document_selection": None,
}


class Dense(NamedTuple):
    """A document: relevance and length of every chunk."""

    relevance: list[float]
    lengths: list[int]


def retriever_over(
    documents: list[Dense], texts: list[str] | None = None, **fields: Any
) -> RSERetriever:
    """A retriever whose candidates are the chunks of positive relevance, best first."""
    store, docstore = InMemoryVectorStore(fakes.BagOfWords()), InMemoryStore()
    indexer = RSEIndexer(store, docstore, text_splitter=fakes.Lines())
    for number, document in enumerate(documents):
        text = "".join("x" * (length - 1) + "\n" for length in document.lengths)
        indexer.add_documents([Document(text)], ids=[str(number)])
    chunks = {
        (chunk["metadata"]["doc_id"], chunk["metadata"]["chunk_index"]): chunk["metadata"]
        for chunk in store.store.values()
    }
    found = [
        Document(
            texts[index] if texts else "x",
            metadata={**chunks[str(number), index], "relevance_score": relevance},
        )
        for number, document in enumerate(documents)
        for index, relevance in enumerate(document.relevance)
        if relevance > 0
    ]
    found.sort(key=lambda document: -document.metadata["relevance_score"])
    return RSERetriever(
        base_retriever=fakes.FixedRetriever(documents=found),
        candidates_only=False,
        docstore=docstore,
        order="relevance",
        max_context_length=None,
        fetch_k=10_000,
        duplicates="keep",  # texts of equal lengths are equal
        **fields,
    )


def select(documents: list[Dense], config: RSEConfig, **arguments: Any) -> list[Document]:
    return retriever_over(documents).invoke("query", rse_config=config, **arguments)


def placed(passages: list[Document]) -> list[tuple[int, int, int, Any]]:
    """Document, first and last chunk, and value of each."""
    return [
        (int(name), start, end, pytest.approx(passage.metadata["relevance_score"]))
        for passage, (name, start, end) in zip(passages, fakes.ranges(passages), strict=True)
    ]


@st.composite
def dense_documents(draw: st.DrawFn, longest: int = 30, shortest_chunk: int = 2) -> list[Dense]:
    """Up to three documents with few candidates each; everything adds up exactly."""
    documents = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, longest))
        relevance = [0.0] * size
        for chunk in draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=8)):
            relevance[chunk] = draw(st.integers(1, 8)) / 8
        lengths = draw(st.lists(st.integers(shortest_chunk, 12), min_size=size, max_size=size))
        documents.append(Dense(relevance, lengths))
    return documents


def by_best_candidate(documents: list[Dense]) -> list[int]:
    """The order of documents, which decides ties: by their best candidate."""
    return sorted(range(len(documents)), key=lambda number: -max(documents[number].relevance))


def credited_of(document: Dense, config: RSEConfig) -> Any:
    """Relevance with neighbor credit; a document of one chunk has neighbors like itself."""
    radius = NEIGHBOR_RADIUS if config.neighbor_weight else 0
    alone = len(document.relevance) == 1
    relevance = np.array(document.relevance * (2 * radius + 1 if alone else 1))
    credited = neighbor_credit(relevance, credit=config.neighbor_weight, radius=radius)
    return credited[radius : radius + 1] if alone else credited


EXACT = st.builds(
    RSEConfig,
    irrelevant_chunk_penalty=st.sampled_from([0.0, 0.1, 0.3, 0.6]),
    neighbor_weight=st.sampled_from([0.0, 0.5, 1.0]),
    passage_cost=st.sampled_from([0.0, 0.1, 1.0]),
    **{name: st.just(value) for name, value in PLAIN.items()},
)


# Gaps of more than 16 chunks are not closed: with such lengths, that is never worth it.
@given(
    dense_documents(longest=80, shortest_chunk=4) | dense_documents(longest=1, shortest_chunk=4),
    EXACT,
)
def test_exact_equals_solving_whole_documents(documents: list[Dense], config: RSEConfig) -> None:
    cost = config.passage_cost
    order = by_best_candidate(documents)
    credited = np.concatenate([credited_of(documents[number], config) for number in order])
    lengths = np.concatenate([documents[number].lengths for number in order])
    starts = np.cumsum([0, *(len(documents[number].lengths) for number in order)])
    expected = {}
    for start, end, value in solve_exact(
        credited,
        penalty=config.irrelevant_chunk_penalty,
        weights=lengths / lengths[credited > 0].mean(),
        segment_cost=cost,
        boundaries=starts.tolist(),
    ):
        place = int(np.searchsorted(starts, start, side="right")) - 1
        shift = int(starts[place])
        expected[order[place], start - shift, end - shift] = pytest.approx(value)
    chosen = select(documents, config)
    if not expected:  # the best candidate comes back, if it is worth the penalty
        assert len(chunks_in(chosen)) <= 1
        return
    found = {passage[:3]: passage[3] for passage in placed(chosen)}
    further = found.keys() - expected.keys()
    for number, start, end in further:  # the best candidate, which comes back without a cost
        assert len(further) == end - start == 1
        assert documents[number].relevance[start] == max(max(d.relevance) for d in documents)
        del found[number, start, end]
    assert found == expected
    for passage in chosen:
        assert passage.metadata["relevance_score"] >= -1e-9
        chunks = passage.metadata["rse"]["chunks"]
        whole = sum(documents[int(passage.metadata["doc_id"])].lengths)
        share = min(1.0, whole / lengths[credited > 0].mean())
        paid = config.irrelevant_chunk_penalty * cost * share
        value = sum(chunk["value"] for chunk in chunks) - paid
        if value < -1e-3:  # then it is the best candidate
            value = float(sum(chunk["value"] for chunk in chunks))
        # Values of chunks have four significant digits.
        rounding = 1e-9 + 5e-4 * sum(abs(chunk["value"]) for chunk in chunks)
        assert passage.metadata["relevance_score"] == pytest.approx(value, abs=rounding)


@given(
    dense_documents(),
    EXACT,
    st.booleans(),
    st.sampled_from([None, 1, 3, 6, 9, 40]),
    st.sampled_from([len, lambda text: len(text) / 2]),
)
def test_the_best_candidate_that_fits_and_is_worth_the_penalty_comes_back(
    documents: list[Dense],
    config: RSEConfig,
    prohibitive: bool,  # noqa: FBT001
    budget: int | None,
    length: Any,
) -> None:
    if prohibitive:  # no passage is worth its cost
        config = config.replace(passage_cost=1e9)
    passages = select(documents, config, max_context_length=budget, length_function=length)

    lengths = np.concatenate([document.lengths for document in documents])
    relevance = np.concatenate([document.relevance for document in documents])
    is_best = relevance == relevance.max()  # of equal ones, any may be the best candidate
    longest = max(lengths[is_best])
    if relevance.max() < config.irrelevant_chunk_penalty:
        return
    if budget is not None and length("x" * longest) > budget:
        return
    chunks = [(str(n), i) for n, one in enumerate(documents) for i in range(len(one.relevance))]
    best = {chunk for chunk, is_one in zip(chunks, is_best, strict=True) if is_one}
    assert best & chunks_in(passages)
    if prohibitive and config.irrelevant_chunk_penalty:
        assert len(chunks_in(passages)) == 1


def chunks_in(passages: list[Document]) -> set[tuple[str, int]]:
    return {(name, i) for name, start, end in fakes.ranges(passages) for i in range(start, end)}


def test_credit_ends_with_the_document_and_with_its_radius() -> None:
    config = RSEConfig(
        **PLAIN,
        irrelevant_chunk_penalty=0.0,
        neighbor_weight=0.5,
        passage_cost=0.0,
    )
    far = [0.0] * 30
    documents = [Dense([0.2, 0.0, 1.0], [9] * 3), Dense([0.2, *far, 1.0, 0.0], [9] * 33)]
    credited = {
        (name, start): [chunk["credited"] for chunk in passage.metadata["rse"]["chunks"]]
        for passage in select(documents, config)
        for name, start, _ in fakes.ranges([passage])
    }
    # 0.2 gets a quarter of the 1.0 two chunks on: 1 - 0.8 * 0.75.
    assert credited == {
        ("0", 0): fakes.about([0.4, 1 - 0.9 * 0.5, 1.0]),
        ("1", 0): fakes.about([0.2, 0.1, 0.05]),
        ("1", 29): fakes.about([0.25, 0.5, 1.0, 0.5]),
    }


# The words of the query


def relevances(scores: list[float], texts: list[str], query: str, **config: Any) -> list[float]:
    """The relevance of candidates with these scores and texts; 0 for those that are left out."""
    settings = RSEConfig(
        **{**PLAIN, "neighbor_weight": 0.0, "irrelevant_chunk_penalty": 0.0, **config}
    )
    retriever = retriever_over([Dense(scores, [9] * len(scores))], texts, config=settings)
    found = retriever.invoke(query)
    relevance = [0.0] * len(scores)
    for passage in found:
        for chunk in passage.metadata["rse"]["chunks"]:
            relevance[chunk["index"]] = chunk["relevance"]
    return relevance


TEXTS = ["a dog", "some cat", "the red fox"]
SCORES = [0.50, 0.49, 0.48]


def test_words_of_the_query_count_as_a_second_witness() -> None:
    plain = [score * math.exp(-rank / 10) for rank, score in enumerate(SCORES)]
    with_words = relevances(SCORES, TEXTS, "red fox", decay_rate=10, lexical_weight=0.75)
    # The third is the first by words; the words of the others do not match.
    assert with_words == fakes.about([plain[0], plain[1], 1 - (1 - plain[2]) * 0.25])
    enough = relevances(SCORES, TEXTS, "red fox", decay_rate=10, lexical_weight=1.0)
    assert enough == fakes.about([plain[0], plain[1], 1])
    for credit, query in [(0.0, "red fox"), (0.75, "nothing of this")]:
        found = relevances(SCORES, TEXTS, query, decay_rate=10, lexical_weight=credit)
        assert found == fakes.about(plain)


# Names, and documents as a whole


def best_chunks(query: str, texts: dict[str, str], **config: Any) -> dict[str, float]:
    """The relevance of the first chunk of each document, the best document first."""
    retriever = fakes.make_retriever(texts, irrelevant_chunk_penalty=0.0, **config)
    found = retriever.invoke(query)
    return {
        passage.metadata["doc_id"]: passage.metadata["rse"]["chunks"][0]["relevance"]
        for passage in found
    }


def test_the_named_document_comes_first() -> None:
    texts = {"acme": "some 10\n", "borealis": "more 0\n"}
    plain, gap = math.cos(math.radians(10)), math.log(2 / 0.5)
    assert best_chunks("acme 0", texts) == fakes.about({"acme": plain, "borealis": 1})
    found = best_chunks("acme 0", texts, name_weight=0.2)
    assert found == fakes.about({"acme": plain, "borealis": math.exp(-0.2 * gap)})
    assert next(iter(found)) == "acme"


def test_a_title_goes_before_the_file() -> None:
    retriever = fakes.make_retriever({}, name_weight=0.2, irrelevant_chunk_penalty=0.0)
    for name, metadata in {"a": {"title": "Acme"}, "b": {}, "c": {"title": "Cygnus"}}.items():
        document = Document(f"{name} 0\n", metadata={"source": "borealis.pdf", **metadata})
        retriever.add_documents([document], ids=[name])
    found = retriever.invoke("Borealis 0")
    relevance = {
        passage.metadata["doc_id"]: passage.metadata["rse"]["chunks"][0]["relevance"]
        for passage in found
    }
    other = math.exp(-0.2 * math.log(3 / 0.5))
    assert relevance == fakes.about({"a": other, "b": 1, "c": other})
