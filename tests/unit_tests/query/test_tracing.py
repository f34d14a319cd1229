"""A trace says what became of each candidate, and agrees with the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableLambda, RunnableParallel

from langchain_rse import RSEConfig, RSERetriever, RSETrace, SQLDocStore, TraceCollector
from langchain_rse.config import BestSegment, Greedy
from langchain_rse.query.candidates import Reason
from langchain_rse.stores.records import document_key, manifest_key
from tests.unit_tests import fakes
from tests.unit_tests.fakes import PLAIN, QUERY, FixedRetriever, Way, lines, make_retriever

way = fakes.way


def outcomes(trace: RSETrace) -> dict[tuple[str, int], Reason]:
    found = {}
    for document in trace.documents:
        for chunk in document.chunks:
            found[document.doc_id, chunk.index] = chunk.outcome
    return found


def of(trace: RSETrace, doc_id: str) -> list[Reason]:
    return [outcome for (document, _), outcome in outcomes(trace).items() if document == doc_id]


class Scores(BaseDocumentCompressor):
    """Keeps those whose angle is below 90, the best first, with half of the cosine as the score."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        del query, callbacks
        angles = {id(each): float(each.page_content.split()[-1]) for each in documents}
        kept = [each for each in documents if angles[id(each)] < 90]
        kept.sort(key=lambda each: angles[id(each)])
        scored = []
        for each in kept:
            metadata = {**each.metadata, "relevance_score": 1 - angles[id(each)] / 180}
            scored.append(Document(each.page_content, metadata=metadata))
        return scored


# Each outcome, by hand


def test_returned_filled_and_below_the_penalty() -> None:
    # Cosines 1, 0 (not fetched), 0.94, 0.17: the gap gets 1/2, 1/2 and 1/4 of its neighbors.
    config = PLAIN.replace(neighbor_weight=0.5)
    trace = make_retriever({"a": lines(0, 90, 20, 80)}, config=config).explain(QUERY, fetch_k=3)
    assert of(trace, "a") == [Reason.RETURNED, Reason.FILLED, Reason.RETURNED, Reason.RETURNED]
    gap = trace.documents[0].chunks[1]
    assert (gap.candidate, gap.relevance) == (None, 0.0)
    assert gap.credited == pytest.approx(
        1 - 0.5 * (1 - 0.5 * 0.9397) * (1 - 0.25 * 0.1736), abs=1e-4
    )
    plain = make_retriever({"a": lines(0, 80, 20)}).explain(QUERY)
    assert of(plain, "a") == [Reason.RETURNED, Reason.BELOW_THE_PENALTY, Reason.RETURNED]
    [(_, chunk)] = plain.left_out
    assert chunk.value == pytest.approx((0.1736 - 0.5) * 18 / 17, abs=1e-3)
    assert "irrelevant_chunk_penalty=0.5" in plain.why(chunk)


def test_no_room_within_a_short_budget() -> None:
    retriever = make_retriever({"a": lines(0, 30, 20, 40)})
    trace = retriever.explain(QUERY, max_context_length=11)  # 5 and 6 characters
    assert of(trace, "a") == [Reason.RETURNED, Reason.NO_ROOM] * 2
    assert trace.spent == sum(len(passage.text) for passage in trace.returned)
    assert [chunk.index for _, chunk in trace.left_out] == [1, 3]


def test_what_the_reranker_dropped() -> None:
    retriever = make_retriever({"a": lines(0, 100), "b": lines(95, name="d")}, reranker=Scores())
    trace = retriever.explain(QUERY)
    assert outcomes(trace) == {
        ("a", 0): Reason.RETURNED,
        ("a", 1): Reason.DROPPED,
        ("b", 0): Reason.DROPPED,
    }
    candidate = trace.documents[0].chunks[0].candidate
    assert candidate is not None
    assert {name: hit.rank for name, hit in candidate.hits.items()} == {"vectors": 0, "reranker": 0}
    assert repr(trace.documents[0]) == "<DocumentTrace of 'a': 2 chunks>"
    assert repr(candidate) == "<Candidate: chunk 0 of 'a'>"
    assert (
        repr(trace.documents[0].chunks) == "[<Chunk 0 of 'a': returned>, <Chunk 1 of 'a': dropped>]"
    )
    assert repr(trace.returned[0]) == "<Passage of 'a': chunks 0 to 0>"


def test_copies() -> None:
    same = lines(0, 10)
    trace = make_retriever({"a": same, "b": same}).explain(QUERY)
    first, second = trace.documents
    assert of(trace, second.doc_id) == [Reason.DUPLICATE] * 2
    assert second.reason == trace.why(second.chunks[0])
    assert repr(first.doc_id) in second.reason
    passage = f"{' '.join(f'word{number}' for number in range(40))} 0\n"
    copied = make_retriever({"a": passage, "b": f"{passage}u 80\n"})
    found = outcomes(copied.explain(QUERY)).values()
    assert set(found) == {Reason.RETURNED, Reason.DUPLICATE, Reason.BELOW_THE_PENALTY}


def test_stale_versions_and_unknown_documents() -> None:
    retriever = make_retriever({"a": lines(0), "b": lines(5, name="d")})
    old = list(retriever.indexer.chunks())
    retriever.add_documents([Document("new 0\n", metadata={"source": "a"})], ids=["a"])
    stale = RSERetriever(
        base_retriever=FixedRetriever(documents=old),
        candidates_only=False,
        docstore=retriever.docstore,
        config=PLAIN,
    )
    trace = stale.explain(QUERY)
    assert outcomes(trace) == {("a", 0): Reason.STALE, ("b", 0): Reason.RETURNED}
    retriever.docstore.mdelete([manifest_key(document_key("a"))])
    with pytest.warns(UserWarning, match="'a' are not in the docstore"):
        trace = retriever.explain(QUERY)
    assert outcomes(trace)["a", 0] is Reason.UNKNOWN
    assert trace.documents[-1].reason == Reason.UNKNOWN.value


# How one gets it


@fakes.both_ways
def test_a_collector_in_a_chain(way: Way) -> None:
    retriever = make_retriever({"a": lines(0, 80)})
    chain = RunnableParallel[str](context=retriever, other=RunnableLambda(len))
    collector = TraceCollector()
    for _ in range(2):
        way.call(
            lambda: chain.invoke(QUERY, config={"callbacks": [collector]}),
            lambda: chain.ainvoke(QUERY, config={"callbacks": [collector]}),
        )
    chain.invoke(QUERY)
    assert [trace.query for trace in collector.traces] == [QUERY] * 2
    assert repr(collector) == "<TraceCollector: 2 traces>"


@fakes.both_ways
def test_explain_takes_what_invoke_takes(way: Way) -> None:
    retriever = make_retriever({"a": lines(0, 80)})

    def explain(**arguments: Any) -> RSETrace:
        trace: RSETrace = way.call(
            lambda: retriever.explain(QUERY, **arguments),
            lambda: retriever.aexplain(QUERY, **arguments),
        )
        return trace

    outer = TraceCollector()
    trace = explain(config={"callbacks": [outer]}, k=1)
    assert outer.traces == [trace]
    with pytest.raises(ValueError, match="unknown argument"):
        explain(nonsense=1)


# It agrees with the answer


def agree(trace: RSETrace, answer: Sequence[Document]) -> None:
    values = trace.to_dict()
    assert json.loads(json.dumps(values)) == values
    assert str(trace)
    returned = [passage for passage in values["passages"] if passage["number"] is not None]
    returned.sort(key=lambda passage: passage["number"])
    fields = ("doc_id", "start_index", "end_index", "value", "text")
    assert [[passage[name] for name in fields] for passage in returned] == [
        [
            *(one.metadata[name] for name in ("doc_id", "start_index", "end_index")),
            *(one.metadata["relevance_score"], one.page_content),
        ]
        for one in answer
    ]
    chunks = {}
    for document in values["documents"]:
        for chunk in document["chunks"]:
            chunks[document["doc_id"], chunk["index"]] = chunk
    # A chunk is named once, but for copies of older versions.
    assert len(chunks) == sum(len(document["chunks"]) for document in values["documents"])
    inside = set()
    for one in answer:
        for described in one.metadata["rse"]["chunks"]:
            place = one.metadata["doc_id"], described["index"]
            inside.add(place)
            chunk = chunks[place]
            assert chunk["outcome"] == ("filled" if described.get("filled") else "returned")
            if "query" in described:
                assert chunk["candidate"]["query"] == described["query"]
            for name in {"relevance", "credited", "value"} & set(described):
                assert chunk[name] == pytest.approx(described[name], rel=1e-3), name
    for place, chunk in chunks.items():
        assert (chunk["outcome"] in {"returned", "filled"}) == (place in inside)
        assert "{" not in chunk["why"]
        if len(trace.queries) == 1 and chunk["weight"]:
            worth = chunk["weight"] * (chunk["credited"] - trace.settings.penalty)
            assert chunk["value"] == pytest.approx(worth, abs=1e-12)
    assert trace.spent == sum(len(one.page_content) for one in answer)
    left_out = {chunk.outcome for _, chunk in trace.left_out}
    assert left_out.isdisjoint({Reason.RETURNED, Reason.FILLED, Reason.NO_CANDIDATE})
    assert bool(trace.reason) == (not answer)


ANGLES = st.sampled_from([0, 5, 20, 40, 60, 75, 90, 120])


@pytest.mark.filterwarnings("ignore:score_floor=.* has no effect")
@given(
    st.lists(st.lists(ANGLES, min_size=1, max_size=12), min_size=1, max_size=4),
    st.sampled_from([PLAIN, RSEConfig()]),
    st.fixed_dictionaries(
        {
            "solver": st.sampled_from(
                ["exact", "exact", Greedy(max_length=4), BestSegment(max_length=4)]
            ),
            "passage_cost": st.sampled_from([0.0, 0.4]),
            "top_k_for_document_selection": st.sampled_from([None, 1, 3]),
        }
    ),
    st.fixed_dictionaries(
        {
            "fetch_k": st.integers(1, 30),
            "max_context_length": st.sampled_from([None, 1, 7, 25, 60, 16_000]),
            "irrelevant_chunk_penalty": st.sampled_from([0.0, 0.3, 0.6]),
            "k": st.sampled_from([None, 1, 2]),
            "order": st.sampled_from(["document", "relevance"]),
            "duplicates": st.sampled_from(["drop", "keep"]),
            "score_floor": st.sampled_from([None, 0.7, 0.95]),
            "queries": st.sampled_from([None, [QUERY, "other 60"], ["third 80", QUERY]]),
        }
    ),
    st.sampled_from(["", "reranker", "hybrid"]),
)
def test_the_trace_agrees_with_the_answer(
    documents: list[list[int]],
    config: RSEConfig,
    changes: dict[str, Any],
    arguments: dict[str, Any],
    kind: str,
) -> None:
    texts = {f"d{n}": lines(*angles, name="c") for n, angles in enumerate(documents)}
    fields: dict[str, Any] = {"config": config.replace(**changes)}
    if kind == "reranker":
        fields["reranker"] = Scores()
    elif kind == "hybrid":
        fields |= {"docstore": SQLDocStore("sqlite://", lexical=True), "hybrid": 0.4}
    retriever = make_retriever(texts, **fields)
    agree(retriever.explain(QUERY, **arguments), retriever.invoke(QUERY, **arguments))
