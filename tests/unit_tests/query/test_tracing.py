"""A trace says what became of each candidate, and agrees with the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.stores import InMemoryStore

from langchain_rse import RSEConfig, RSERetriever, RSETrace, SQLDocStore, TraceCollector
from langchain_rse.config import BestSegment, Greedy
from langchain_rse.explaining.trace import OUTCOMES
from langchain_rse.stores.records import chunk_key, document_key
from tests.unit_tests import fakes
from tests.unit_tests.fakes import PLAIN, QUERY, FixedRetriever, Way, lines, make_retriever

way = fakes.way


def explain(way: Way, retriever: RSERetriever, query: str = QUERY, **arguments: Any) -> RSETrace:
    trace: RSETrace = way.call(
        lambda: retriever.explain(query, **arguments),
        lambda: retriever.aexplain(query, **arguments),
    )
    return trace


def outcomes(trace: RSETrace) -> dict[tuple[str, int], str]:
    return {(d.doc_id, c.index): c.outcome for d in trace.documents for c in d.chunks}


def of(trace: RSETrace, doc_id: str) -> list[str]:
    return [outcome for (document, _), outcome in outcomes(trace).items() if document == doc_id]


class Scores(BaseDocumentCompressor):
    """Keeps those whose angle is below 90, the best first, with half of the cosine as the score."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        del query, callbacks
        angle = {id(d): float(d.page_content.split()[-1]) for d in documents}
        kept = sorted((d for d in documents if angle[id(d)] < 90), key=lambda d: angle[id(d)])
        return [
            Document(
                d.page_content, metadata={**d.metadata, "relevance_score": 1 - angle[id(d)] / 180}
            )
            for d in kept
        ]


# Each outcome, by hand


def test_returned_filled_and_below_the_penalty(way: Way) -> None:
    # Cosines 1, 0 (not fetched), 0.94, 0.17: with credit 0.5 the gap has 1 - 0.5 * 0.53.
    retriever = make_retriever({"a": lines(0, 90, 20, 80)}, neighbor_credit=0.5, neighbor_radius=1)
    trace = explain(way, retriever, fetch_k=3)
    assert of(trace, "a") == ["returned", "filled", "returned", "returned"]
    gap = trace.documents[0].chunks[1]
    assert (gap.rank, gap.relevance, gap.text) == (None, 0.0, None)
    assert gap.credited == pytest.approx(1 - 0.5 * (1 - 0.5 * 0.9397), abs=1e-4)
    plain = explain(way, make_retriever({"a": lines(0, 80, 20)}))
    assert of(plain, "a") == ["returned", "below the penalty", "returned"]
    assert [c.value for _, c in plain.left_out] == [
        pytest.approx((0.1736 - 0.5) * 18 / 17, abs=1e-3)
    ]
    assert "below irrelevant_chunk_penalty=0.5" in plain.why(*plain.left_out[0])


def test_no_room_and_the_price_of_a_short_budget(way: Way) -> None:
    retriever = make_retriever({"a": lines(0, 30, 20, 40)})
    trace = explain(way, retriever, max_context_length=11)  # 5 and 6 characters
    assert of(trace, "a") == ["returned", "no room", "returned", "no room"]
    assert trace.spent == sum(len(one.text) for one in trace.segments if one.returned)
    assert trace.penalty == pytest.approx(0.9397, abs=1e-4)
    assert [c.index for _, c in trace.left_out] == [1, 3]
    assert trace.why(*trace.left_out[0]).endswith("come first and reach max_context_length=11")
    assert "The budget was short" in str(trace)
    assert explain(way, retriever).penalty == 0.5


def test_segment_cost_and_minimum_value(way: Way) -> None:
    # Alone, 0.64 is worth 0.14 more than the penalty, a segment costs 0.6 * 0.5.
    retriever = make_retriever({"a": lines(0, 10, 90, 50)})
    trace = explain(way, retriever, segment_cost=0.6)
    assert of(trace, "a") == ["returned", "returned", "below the penalty", "segment cost"]
    trace = explain(way, retriever, minimum_value=0.3)
    assert of(trace, "a") == ["returned", "returned", "below the penalty", "minimum value"]


def test_beyond_k_and_beyond_max_per_document(way: Way) -> None:
    retriever = make_retriever({"a": lines(0, 90, 10), "b": lines(30, name="d")})
    trace = explain(way, retriever, k=1)
    assert sorted(outcomes(trace).values()) == ["below the penalty"] + ["beyond k"] * 2 + [
        "returned"
    ]
    # The one with the best candidate is returned, though another one, being longer, is worth more.
    assert [(one.chunk_start, one.returned, one.number, one.reason) for one in trace.segments] == [
        (2, False, None, "beyond k"),
        (0, True, 1, None),
        (0, False, None, "beyond k"),
    ]
    assert [c.outcome for _, c in trace.left_out][:2] == ["beyond k", "beyond k"]
    trace = explain(way, retriever, max_per_document=1)
    assert sorted(of(trace, "a")) == ["below the penalty", "beyond max_per_document", "returned"]


def test_max_per_document_of_a_published_solver(way: Way) -> None:
    retriever = make_retriever({"a": lines(0, 90, 10)}, solver=Greedy(max_length=5))
    trace = explain(way, retriever, max_per_document=1)
    assert sorted(of(trace, "a")) == ["below the penalty", "beyond max_per_document", "returned"]
    assert trace.penalty is None


def test_published_solvers(way: Way) -> None:
    texts = {"a": lines(0, 10, 90, 90, 90, 20, 90, 90, 90, 50)}
    retriever = make_retriever(
        texts, solver=Greedy(max_length=2, length_weighting="none"), minimum_value=0.2
    )
    solver = Greedy(max_length=2, length_weighting="none", overall_max_length=2)
    trace = explain(way, retriever, solver=solver)
    assert [o for o in of(trace, "a") if o != "below the penalty"] == [
        "returned",
        "returned",
        "no room",
        "minimum value",
    ]
    trace = explain(way, retriever, solver=BestSegment(max_length=2, length_weighting="none"))
    assert [o for o in of(trace, "a") if o != "below the penalty"] == [
        "returned",
        "returned",
        "not the best",
        "minimum value",
    ]


def test_documents_that_are_not_considered(way: Way) -> None:
    retriever = make_retriever({"a": lines(0), "b": lines(10, name="d")})
    trace = explain(way, retriever, top_k_for_document_selection=1)
    assert outcomes(trace) == {("a", 0): "returned", ("b", 0): "not considered"}
    assert trace.documents[1].reason == "none of its chunks is among the 1 best candidates"
    assert trace.why(*trace.left_out[0]) == trace.documents[1].reason
    assert trace.left_out[0][1].relevance == pytest.approx(0.985, abs=1e-3)


def test_min_relevance(way: Way) -> None:
    trace = explain(way, make_retriever({"a": lines(0, 70)}), min_relevance=0.5)
    assert of(trace, "a") == ["returned", "below min_relevance"]


def test_what_the_reranker_dropped(way: Way) -> None:
    retriever = make_retriever({"a": lines(0, 100), "b": lines(95, name="d")}, reranker=Scores())
    trace = explain(way, retriever, candidates_only=False, calibration="identity")
    assert outcomes(trace) == {("a", 0): "returned", ("a", 1): "filtered", ("b", 0): "filtered"}
    assert trace.documents[1].reason == "the reranker or filter dropped it"
    chunk = trace.documents[0].chunks[0]
    assert (chunk.rank, chunk.score, chunk.search_rank) == (0, 1.0, 0)
    assert chunk.search_score == pytest.approx(1.0)


def test_copies(way: Way) -> None:
    same = lines(0, 10)
    retriever = make_retriever({"a": same, "b": same})
    trace = explain(way, retriever)
    first, second = trace.documents
    assert of(trace, second.doc_id) == ["duplicate"] * 2
    assert second.reason == f"{first.doc_id!r} has the same text"
    assert trace.why(second, second.chunks[0]) == f"{first.doc_id!r} has the same text"
    passage = f"{' '.join(f'word{number}' for number in range(40))} 0\n"
    copied = make_retriever({"a": passage, "b": f"{passage}u 80\n"})
    trace = explain(way, copied)
    assert sorted(outcomes(trace).values()) == ["below the penalty", "duplicate", "returned"]
    near = make_retriever(
        {"a": "w x y z v 0\n", "b": "w x y z v 0 \nu 80\n"}, duplicates="drop_near"
    )
    trace = explain(way, near)
    assert sorted(outcomes(trace).values()) == ["below the penalty", "duplicate", "returned"]


def test_older_versions_and_unknown_documents(way: Way) -> None:
    retriever = make_retriever({"a": lines(0), "b": lines(5, name="d")})
    old = list(retriever.chunks())
    retriever.add_documents([Document("new 0\n", metadata={"source": "a"})], ids=["a"])
    stale = RSERetriever(
        base_retriever=FixedRetriever(documents=old),
        candidates_only=False,
        docstore=retriever.docstore,
        config=PLAIN,
    )
    trace = explain(way, stale)
    assert outcomes(trace) == {("a", 0): "older version", ("b", 0): "returned"}
    assert trace.documents[-1].reason == "it is of an older version of the document"
    lost = RSERetriever(
        vectorstore=retriever.vectorstore, docstore=InMemoryStore(), on_missing="split"
    )
    with pytest.warns(UserWarning, match="2 of 2 candidates"):
        trace = explain(way, lost)
    assert {one.reason for one in trace.documents} == {"the docstore does not know it"}
    assert trace.reason is not None
    assert "no longer current" in trace.reason


def test_chunks_that_the_docstore_lacks(way: Way) -> None:
    retriever = make_retriever({"a": lines(0, 10, 20)}, on_missing="split")
    chunk = next(retriever.chunks())
    retriever.docstore.mdelete([chunk_key(document_key("a"), chunk.metadata["rse_version"], 1)])
    trace = explain(way, retriever)
    assert of(trace, "a") == ["returned", "missing", "returned"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"query": " "}, "the query is empty"),
        ({"filter": lambda _: False}, "InMemoryVectorStore found nothing with filter"),
        ({"max_context_length": 2}, "fits max_context_length=2"),
        ({"irrelevant_chunk_penalty": 1.0}, "below irrelevant_chunk_penalty=1"),
        ({"minimum_value": 9.0}, "below minimum_value=9"),
    ],
)
def test_nothing_found_says_why(way: Way, arguments: dict[str, Any], reason: str) -> None:
    retriever = make_retriever({"a": lines(10, 20)})
    trace = explain(way, retriever, **arguments)
    assert not any(one.returned for one in trace.segments)
    assert trace.reason is not None
    assert reason in trace.reason
    assert f"Nothing was returned: {trace.reason}"[:60] in str(trace)
    assert RSETrace.from_json(trace.to_json()) == trace


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
    assert collector.traces[0].documents == explain(way, retriever).documents


@fakes.both_ways
def test_explain_takes_what_invoke_takes(way: Way) -> None:
    retriever = make_retriever({"a": lines(0, 80)})
    outer = TraceCollector()
    trace = explain(way, retriever, config={"callbacks": [outer]}, k=1)
    assert outer.traces == [trace]
    with pytest.raises(TypeError, match="unknown argument"):
        explain(way, retriever, nonsense=1)
    with pytest.raises(TypeError, match="RunnableConfig"):
        explain(way, retriever, config="precision")


def test_explain_inside_a_chain_keeps_its_callbacks() -> None:
    retriever = make_retriever({"a": lines(0, 80)})
    outer = TraceCollector()

    def ask(query: str) -> str:
        return str(retriever.explain(query))

    chain = RunnableLambda(ask)
    chain.invoke(QUERY, config={"callbacks": [outer]})
    assert len(outer.traces) == 1


def test_steps_have_their_time(way: Way) -> None:
    trace = explain(way, make_retriever({"a": lines(0, 80)}))
    names = ["queries", "search", "rerank", "look up", "score", "select", "read", "render"]
    assert list(trace.steps) == names
    assert all(seconds >= 0 for seconds in trace.steps.values())


# It agrees with the answer


def agree(trace: RSETrace, answer: Sequence[Document]) -> None:
    returned = sorted((s for s in trace.segments if s.returned), key=lambda s: s.number or 0)
    assert [(s.doc_id, s.start_index, s.end_index, s.value, s.text) for s in returned] == [
        (
            one.metadata["doc_id"],
            one.metadata["start_index"],
            one.metadata["end_index"],
            one.metadata["relevance_score"],
            one.page_content,
        )
        for one in answer
    ]
    chunks = {(d.doc_id, c.index): c for d in trace.documents for c in d.chunks}
    # A chunk is named once, but for copies of older versions.
    assert len(chunks) == sum(len(one.chunks) for one in trace.documents)
    inside = set()
    for one in answer:
        for described in one.metadata["rse"]["chunks"]:
            place = one.metadata["doc_id"], described["index"]
            inside.add(place)
            chunk = chunks[place]
            assert chunk.outcome == ("filled" if described.get("filled") else "returned")
            for name in (
                "rank",
                "score",
                "relevance",
                "lexical_rank",
                "credited",
                "value",
                "query",
            ):
                assert getattr(chunk, name) == described.get(name, getattr(chunk, name)), name
    penalty = trace.settings["irrelevant_chunk_penalty"]
    for place, chunk in chunks.items():
        assert (chunk.outcome in {"returned", "filled"}) == (place in inside)
        assert chunk.outcome in {*OUTCOMES, "returned", "filled", "no candidate"}
        if len(trace.queries) == 1:
            worth = chunk.weight * (chunk.credited - penalty)
            assert chunk.value == pytest.approx(worth, abs=1e-12)
    assert trace.spent == sum(len(one.page_content) for one in answer)
    assert {pair[1].outcome for pair in trace.left_out}.isdisjoint({"returned", "filled"})
    assert len(trace.left_out) + len(
        inside & {(d.doc_id, c.index) for d, c in trace.candidates}
    ) == len(trace.candidates)
    assert str(trace)
    assert RSETrace.from_dict(trace.to_dict()) == RSETrace.from_json(trace.to_json()) == trace


ANGLES = st.sampled_from([0, 5, 20, 40, 60, 75, 90, 120])


@settings(deadline=None)
@given(
    st.lists(st.lists(ANGLES, min_size=1, max_size=12), min_size=1, max_size=4),
    st.fixed_dictionaries(
        {
            "solver": st.sampled_from(
                ["exact", "exact", Greedy(max_length=4), BestSegment(max_length=4)]
            ),
            "config": st.sampled_from([PLAIN, RSEConfig()]),
            "fetch_k": st.integers(1, 30),
            "max_context_length": st.sampled_from([None, 0, 7, 25, 60, 16_000]),
            "irrelevant_chunk_penalty": st.sampled_from([0.0, 0.3, 0.6]),
            "segment_cost": st.sampled_from([0.0, 0.4]),
            "minimum_value": st.sampled_from([0.0, 0.5]),
            "min_relevance": st.sampled_from([0.0, 0.3]),
            "k": st.sampled_from([None, 1, 2]),
            "max_per_document": st.sampled_from([None, 1]),
            "order": st.sampled_from(["document", "relevance"]),
            "duplicates": st.sampled_from(["drop", "drop_near", "keep"]),
            "allow_trim": st.booleans(),
            "top_k_for_document_selection": st.sampled_from([None, 1, 3]),
            "queries": st.sampled_from([None, [QUERY, "other 60"], ["third 80", QUERY]]),
            "combine_queries": st.sampled_from(["joint", "turns"]),
        }
    ),
    st.sampled_from(["", "reranker", "hybrid"]),
)
def test_the_trace_agrees_with_the_answer(
    documents: list[list[int]], arguments: dict[str, Any], kind: str
) -> None:
    texts = {f"d{n}": lines(*angles, name="c") for n, angles in enumerate(documents)}
    fields: dict[str, Any] = {"config": arguments.pop("config")}
    if kind == "reranker":
        fields |= {"reranker": Scores(), "candidates_only": False}
    elif kind == "hybrid":
        fields |= {"docstore": SQLDocStore("sqlite://", lexical=True), "hybrid": 0.4}
    retriever = make_retriever(texts, **fields)
    agree(retriever.explain(QUERY, **arguments), retriever.invoke(QUERY, **arguments))


@pytest.mark.parametrize("fields", [{}, {"reranker": Scores(), "candidates_only": False}])
async def test_sync_and_async_give_the_same_trace(fields: dict[str, Any]) -> None:
    retriever = make_retriever({"a": lines(0, 80, 20), "b": lines(30, name="d")}, **fields)
    one, two = retriever.explain(QUERY), await retriever.aexplain(QUERY)
    unlike: dict[str, Any] = {"steps": {}}
    assert one.to_dict() | unlike == two.to_dict() | unlike
    agree(two, await retriever.ainvoke(QUERY))


def test_half_a_character_can_be_printed() -> None:
    retriever = make_retriever({})
    retriever.add_documents([Document(lines(0), id="a", metadata={"source": "a\ud83d"})])
    trace = retriever.explain(QUERY)
    assert "a\\ud83d" in str(trace)
    for text in (str(trace), trace._repr_html_(), trace.to_html()):
        assert text.encode()
