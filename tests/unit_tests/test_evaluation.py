"""Evidence within a budget: the measure, placing, asking, and the tables."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter
from pydantic import PrivateAttr

from langchain_rse import RSERetriever
from langchain_rse._steps import Steps
from langchain_rse.evaluation import (
    Comparison,
    Evidence,
    Question,
    Report,
    aevaluate,
    evaluate,
    load_questions,
)
from tests.unit_tests import fakes
from tests.unit_tests.fakes import EVERYTHING, BagOfWords, Way, text_of

way = fakes.way


def piece(start: int, end: int, doc_id: str = "a") -> Document:
    return Document("x" * (end - start), metadata={"doc_id": doc_id, "start_index": start})


def asking(*evidence: tuple[int, int], doc_id: str = "a", question: str = "Why?") -> Question:
    return Question(question, [Evidence(doc_id, start, end) for start, end in evidence])


class Canned(BaseRetriever):
    """Gives the same documents for a question, whatever is asked of it.

    ``asked`` has what each call was given.
    """

    documents: Mapping[str, list[Document]]
    _asked: list[tuple[str, dict[str, Any]]] = PrivateAttr(default_factory=list)

    @property
    def asked(self) -> list[tuple[str, dict[str, Any]]]:
        return self._asked

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        del run_manager
        self._asked.append((query, kwargs))
        return self.documents[query]

    # LangChain's own async form takes no further arguments.
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return self._get_relevant_documents(query, run_manager=run_manager.get_sync(), **kwargs)


def canned(*documents: Document) -> Canned:
    return Canned(documents={"Why?": list(documents)})


def ask(way: Way, retriever: Any, *args: Any, **kwargs: Any) -> Report:
    return way.call(evaluate, aevaluate, retriever, *args, **kwargs)


def figures(
    documents: Sequence[Document], question: Question, budget: int, **kwargs: Any
) -> dict[str, float]:
    """The figures of one question for one budget."""
    report = evaluate(canned(*documents), [question], [budget], **kwargs)
    return {metric: float(report.figures[metric][0, 0]) for metric in report.metrics}


# The measure


def test_a_budget_cuts_the_last_text() -> None:
    # Evidence 10 to 30. The first text has 10 to 20; of the second, 6 of its 20 characters
    # fit, 24 to 30.
    found = figures([piece(10, 20), piece(24, 44)], asking((10, 30)), 16)
    assert found == {
        "recall": 16 / 20,
        "precision": 1.0,
        "iou": 16 / 20,
        "segments": 2,
        "characters": 16,
    }


def test_text_that_comes_twice_is_paid_for_twice() -> None:
    found = figures([piece(0, 10), piece(0, 10)], asking((5, 15)), 100)
    assert found == {
        "recall": 5 / 10,
        "precision": 5 / 20,
        "iou": 5 / 15,
        "segments": 2,
        "characters": 20,
    }


def test_evidence_that_overlaps_counts_once() -> None:
    found = figures([piece(0, 10)], asking((0, 10), (5, 20)), 100)
    assert found["recall"] == 10 / 20


def test_the_same_place_in_another_document_is_no_evidence() -> None:
    found = figures([piece(0, 10, "b")], asking((0, 10)), 100)
    assert (found["recall"], found["precision"], found["iou"]) == (0, 0, 0)


def test_nothing_returned_is_zero(way: Way) -> None:
    report = ask(way, canned(), [asking((0, 10))], [5, 10])
    for metric in report.metrics:
        assert report.figures[metric].tolist() == [[0.0, 0.0]]


def test_documents_without_text_are_passed_over() -> None:
    empty = Document("", metadata={})
    found = figures([empty, piece(0, 10), empty], asking((0, 10)), 100)
    assert (found["segments"], found["recall"]) == (1, 1)


def test_what_no_budget_reaches_need_not_be_placed() -> None:
    assert figures([piece(0, 10), Document("nowhere")], asking((0, 5)), 10)["segments"] == 1


intervals = st.tuples(st.sampled_from("ab"), st.integers(0, 20), st.integers(1, 10))


@given(
    evidence=st.lists(intervals, min_size=1, max_size=4),
    texts=st.lists(intervals, max_size=6),
    budget=st.integers(1, 50),
)
def test_the_measure_is_that_of_sets_of_characters(
    evidence: list[tuple[str, int, int]], texts: list[tuple[str, int, int]], budget: int
) -> None:
    wanted = {(doc, start + i) for doc, start, length in evidence for i in range(length)}
    stream = [
        (number, (doc, start + i))
        for number, (doc, start, length) in enumerate(texts)
        for i in range(length)
    ][:budget]
    got = {character for _, character in stream}
    question = Question(
        "Why?", [Evidence(doc, start, start + length) for doc, start, length in evidence]
    )
    found = figures(
        [piece(start, start + length, doc) for doc, start, length in texts], question, budget
    )
    assert found == {
        "recall": len(wanted & got) / len(wanted),
        "precision": len(wanted & got) / len(stream) if stream else 0,
        "iou": len(wanted & got) / len(wanted | got),
        "segments": len({number for number, _ in stream}),
        "characters": len(stream),
    }


# Placing


def test_metadata_keys_can_be_named() -> None:
    document = Document("x" * 10, metadata={"source": "a", "offset": 5})
    names = {"doc_id_key": "source", "start_index_key": "offset"}
    assert figures([document], asking((5, 15)), 10, **names)["iou"] == 1


@pytest.mark.parametrize("start", [5.0, np.int64(5)])
def test_stores_that_change_the_type_of_numbers(start: Any) -> None:
    document = Document("x" * 10, metadata={"doc_id": "a", "start_index": start})
    assert figures([document], asking((5, 15)), 10)["iou"] == 1


SOURCES = {
    "a": "One two three.\n\nFour five six.",
    "b": "Nothing here.  Four five six. And\tmore\n of it",
}


@pytest.mark.parametrize("start", [None, -1, "5", True])
def test_without_a_place_the_text_is_looked_for(start: Any) -> None:
    document = Document("Four five six.", metadata={"doc_id": "b", "start_index": start})
    found = figures([document], asking((15, 29), doc_id="b"), 100, sources=SOURCES)
    assert found["iou"] == 1


def test_without_an_id_the_text_is_looked_for_everywhere() -> None:
    # As it is in "b" wins over "a", where only white space differs.
    for text, where in [("two three", ("a", 4, 13)), ("six. And", ("b", 25, 33))]:
        question = Question("Why?", [Evidence(*where)])
        assert figures([Document(text)], question, 100, sources=SOURCES)["iou"] == 1
    sources = {"a": "to  be", "b": "to be"}
    found = figures([Document("to be")], asking((0, 5), doc_id="b"), 100, sources=sources)
    assert found["iou"] == 1


def test_runs_of_white_space_count_alike() -> None:
    document = Document(" And more of\n\n\nit ", metadata={"doc_id": "b"})
    found = figures([document], asking((30, 45), doc_id="b"), 100, sources=SOURCES)
    assert found["recall"] == found["iou"] == 1
    assert found["characters"] == len(document.page_content)


@given(data=st.data())
def test_a_text_with_other_white_space_is_cut_at_the_same_word(data: st.DataObject) -> None:
    words = data.draw(st.lists(st.text("xyz", min_size=1, max_size=4), min_size=1, max_size=6))
    blank = st.text(" \n\t", min_size=1, max_size=3)

    def spaced() -> str:
        return "".join(word + data.draw(blank) for word in words)

    source, text = "START " + spaced() + "END", data.draw(blank) + "START " + spaced()
    budget = data.draw(st.integers(1, len(text)))
    solid = len("".join(text[:budget].split()))
    # The source as far as it has as many letters as the text that fits.
    end = next(n for n in range(len(source)) if len("".join(source[:n].split())) == solid)
    everything = asking((0, len(source)))
    document = Document(text, metadata={"doc_id": "a"})
    found = figures([document], everything, budget, sources={"a": source})
    assert found["recall"] == end / len(source)
    assert found["characters"] == budget


def test_a_place_that_counts_from_a_page_gives_way_to_the_text() -> None:
    # Loaders of pages number the characters of each page from 0.
    document = Document("Four five six.", metadata={"doc_id": "a", "start_index": 0})
    assert figures([document], asking((16, 30)), 100, sources=SOURCES)["iou"] == 1


def test_documents_outside_the_sources_are_placed_by_their_metadata() -> None:
    found = figures([piece(0, 10, "c")], asking((0, 10)), 100, sources=SOURCES)
    assert (found["recall"], found["characters"]) == (0, 10)


@pytest.mark.parametrize(
    ("metadata", "sources", "tried"),
    [
        ({}, None, r"doc_id=None, start_index=None in .*no sources were given"),
        ({"doc_id": "a"}, None, r"doc_id='a', start_index=None in .*no sources were given"),
        ({"doc_id": 7, "start_index": 0}, None, r"doc_id=7, start_index=0 in .*no sources"),
        ({}, SOURCES, "its text is in none of the 2 sources"),
        ({"doc_id": "a", "start_index": 2}, SOURCES, r"its text is not in sources\['a'\]"),
        ({"doc_id": "c"}, SOURCES, "sources has no 'c'"),
    ],
)
def test_a_document_that_cannot_be_placed_is_an_error(
    way: Way, metadata: dict[str, Any], sources: dict[str, str] | None, tried: str
) -> None:
    retriever = canned(Document("unknown " * 50, metadata=metadata))
    with pytest.raises(ValueError, match=tried) as caught:
        ask(way, retriever, [asking((0, 5))], sources=sources)
    message = str(caught.value)
    assert repr(("unknown " * 50)[:80]) in message
    for remedy in ("doc_id_key", "start_index_key", "sources"):
        assert remedy in message


def test_white_space_alone_cannot_be_found() -> None:
    with pytest.raises(ValueError, match="not in sources"):
        figures(
            [Document("\n\n\n", metadata={"doc_id": "a"})], asking((0, 5)), 100, sources=SOURCES
        )


# Questions


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("", 0, 1), "doc_id must be .* got ''"),
        ((None, 0, 1), "doc_id must be .* got None"),
        (("a", -1, 1), "start must be a whole number of at least 0; got -1"),
        (("a", 1.5, 2), "start must be .* got 1.5"),
        (("a", True, 2), "start must be .* got True"),
        (("a", 3, 3), "end must be a whole number of at least 4; got 3"),
        (("a", 3, "9"), "end must be .* got '9'"),
    ],
)
def test_evidence_must_be_a_place(fields: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Evidence(*fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("  ", [Evidence("a", 0, 1)]), "question must be"),
        (("Why?", []), r"at least one Evidence; got \[\]"),
        (("Why?", [("a", 0, 1)]), "at least one Evidence"),
        (("Why?", Evidence("a", 0, 1)), "at least one Evidence"),
    ],
)
def test_a_question_needs_words_and_evidence(fields: tuple[Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Question(*fields)


def test_evidence_is_kept_as_a_tuple_of_plain_numbers() -> None:
    question = Question("Why?", [Evidence("a", np.int64(1), np.int64(2))])
    assert question.evidence == (Evidence("a", 1, 2),)
    assert type(question.evidence[0].start) is int


def test_questions_are_read_from_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    parts = '{"start": 1, "end": 2}, {"doc_id": "c", "start": 3, "end": 4, "y": 2}'
    lines = [
        '\ufeff{"question": "Où?", "evidence": [{"doc_id": "a", "start": 0, "end": 9}], "x": 1}',
        "",
        f'{{"doc_id": "b", "question": "A\u2028B", "evidence": [{parts}]}}\r',
    ]
    path.write_bytes("\n".join(lines).encode())
    expected = [
        Question("Où?", [Evidence("a", 0, 9)]),
        Question("A\u2028B", [Evidence("b", 1, 2), Evidence("c", 3, 4)]),
    ]
    assert load_questions(path) == expected
    assert load_questions(str(path)) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "Expecting property name"),
        (b"\xff", "utf-8"),
        (b"[1]", r"must be an object; got \[1\]"),
        (b'{"question": "Why?"}', "'evidence' must be a list of objects; got None"),
        (b'{"question": "Why?", "evidence": [3]}', "'evidence' must be a list of objects"),
        (b'{"question": "Why?", "evidence": []}', "at least one Evidence"),
        (
            b'{"question": "?", "doc_id": "a", "evidence": [{"start": 1, "end": 2}, {"start": 3}]}',
            "evidence 2: end must be a whole number of at least 4; got None",
        ),
        (
            b'{"question": "Why?", "evidence": [{"start": 1, "end": 2}]}',
            "evidence 1: doc_id must be",
        ),
        (
            b'{"doc_id": "a", "evidence": [{"start": 1, "end": 2}]}',
            "question must be .* got None",
        ),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(
        b'{"question": "Why?", "evidence": [{"doc_id": "a", "start": 0, "end": 9}]}\n\n' + line
    )
    with pytest.raises(ValueError, match=rf"questions\.jsonl, line 3: .*{message}"):
        load_questions(path)


# Asking


def test_budgets_are_taken_in_order_and_a_retriever_is_asked_once(way: Way) -> None:
    retriever = canned(piece(0, 10), piece(10, 20))
    report = ask(way, retriever, [asking((0, 20))], [20, 5, 10], k=3)
    assert report.budgets == (5, 10, 20)
    assert report.figures["recall"].tolist() == [[0.25, 0.5, 1.0]]
    assert report.figures["segments"].tolist() == [[1, 1, 2]]
    assert retriever.asked == [("Why?", {"k": 3})]


def test_any_runnable_will_do(way: Way) -> None:
    runnable: Any = RunnableLambda(lambda _: [piece(0, 10)])
    assert ask(way, runnable, [asking((0, 10))], [10]).mean("recall").tolist() == [1.0]


def test_what_returns_no_documents_is_an_error(way: Way) -> None:
    runnable: Any = RunnableLambda(lambda _: "an answer")
    with pytest.raises(TypeError, match="must return Documents; got one str"):
        ask(way, runnable, [asking((0, 10))])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budgets": []}, "budgets"),
        ({"budgets": [0]}, "budget must be a whole number of at least 1; got 0"),
        ({"budgets": [10, 2.5]}, "budget must be .* got 2.5"),
        ({"budgets": [True]}, "budget must be .* got True"),
        ({"budgets": [10, 20, 10]}, r"all different; got \[10, 20, 10\]"),
        ({"budgets": None}, "budget must be .* got None"),
        ({"questions": []}, "no questions"),
        ({"max_concurrency": 0}, "max_concurrency must be .* got 0"),
        ({"resamples": 0}, "resamples must be .* got 0"),
        ({"seed": -1}, "seed must be .* got -1"),
    ],
)
def test_arguments_out_of_range(way: Way, arguments: dict[str, Any], message: str) -> None:
    retriever = canned()
    with pytest.raises(ValueError, match=message):
        ask(way, retriever, **{"questions": [asking((0, 1))], **arguments})
    assert retriever.asked == []


def test_questions_must_be_questions(way: Way) -> None:
    with pytest.raises(TypeError, match=r"load_questions"):
        ask(way, canned(), "questions.jsonl")


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        (Evidence("c", 0, 9), "question 2 has .* 0 to 9 of document 'c'.* is not in sources"),
        (Evidence("a", 3, 31), "question 2 has .* 3 to 31 of document 'a'.* only 30 characters"),
    ],
)
def test_evidence_must_be_in_the_sources(way: Way, evidence: Evidence, message: str) -> None:
    retriever = canned()
    questions = [asking((0, 30)), Question("Why?", [Evidence("b", 0, 1), evidence])]
    with pytest.raises(ValueError, match=message):
        ask(way, retriever, questions, sources=SOURCES)
    assert retriever.asked == []


def test_figures_do_not_depend_on_concurrency() -> None:
    queries = [f"question {number}" for number in range(12)]
    questions = [
        asking((0, 100), question=query, doc_id=str(number)) for number, query in enumerate(queries)
    ]
    running = most = 0

    async def answer(query: str) -> list[Document]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        number = queries.index(query)
        for _ in range(len(queries) - number):  # later questions are done sooner
            await asyncio.sleep(0)
        running -= 1
        return [piece(0, number + 1, str(number))]

    def sync(query: str) -> list[Document]:
        number = queries.index(query)
        return [piece(0, number + 1, str(number))]

    retriever = RunnableLambda(sync, answer, name="answer")
    expected = evaluate(retriever, questions)
    assert expected.figures["characters"][:, 0].tolist() == list(range(1, 13))
    for at_once in (1, 3, 50):
        most = 0
        report = asyncio.run(aevaluate(retriever, questions, max_concurrency=at_once))
        assert most == min(at_once, len(queries))
        for metric in report.metrics:
            assert (report.figures[metric] == expected.figures[metric]).all()


def test_an_error_passes_through_with_the_question(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(query: str) -> list[Document]:
        if query == "bad":
            raise LookupError(query)
        return []

    questions = [asking((0, 1)), asking((0, 1), question="bad"), asking((0, 1))]
    with pytest.raises(LookupError, match="bad") as caught:
        ask(way, RunnableLambda(fail), questions)
    said = "".join([*getattr(caught.value, "__notes__", []), caplog.text])
    assert "evaluating question 2" in said


def test_an_error_ends_the_other_questions() -> None:
    begun, ended = [], []

    async def answer(query: str) -> list[Document]:
        if query == "1":
            await asyncio.sleep(0)
            raise LookupError(query)
        begun.append(query)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(query)
        return []

    def sync(_: str) -> list[Document]:
        raise NotImplementedError

    questions = [asking((0, 1), question=str(number)) for number in range(20)]

    async def main() -> None:
        with pytest.raises(LookupError):
            await aevaluate(RunnableLambda(sync, answer), questions, max_concurrency=3)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert begun[:2] == ["0", "2"]
    assert ended == begun
    assert len(begun) < 5


def test_progress_is_shown(way: Way, capsys: pytest.CaptureFixture[str]) -> None:
    questions = [asking((0, 1))] * 3
    ask(way, canned(), questions, show_progress=True)
    captured = capsys.readouterr()
    assert "3/3" in captured.err
    assert captured.out == ""
    ask(way, canned(), questions)
    assert capsys.readouterr().err == ""


def test_progress_without_tqdm_says_what_to_install(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    retriever = canned()
    with pytest.raises(ImportError, match=r"pip install 'langchain-rse\[progress\]'"):
        ask(way, retriever, [asking((0, 1))], show_progress=True)
    assert retriever.asked == []


# An RSERetriever


class Watched(RSERetriever):
    """Notes what it is asked, and answers with the first characters of document "a"."""

    _asked: list[tuple[str, list[dict[str, Any]]]] = PrivateAttr(default_factory=list)

    def answers(
        self, query: str, calls: Sequence[Mapping[str, Any]], callbacks: Callbacks = None
    ) -> Steps[list[list[Document]]]:
        del callbacks
        self._asked.append((query, [dict(call) for call in calls]))
        yield from ()
        return [[piece(0, call["max_context_length"])] for call in calls]


@pytest.fixture
def watched() -> Watched:
    retriever = Watched(
        vectorstore=InMemoryVectorStore(BagOfWords()),
        docstore=InMemoryStore(),
    )
    retriever.add_documents([Document("word " * 20)], ids=["a"])
    return retriever


def test_an_rse_retriever_is_asked_for_each_budget(way: Way, watched: Watched) -> None:
    # Its own keys are known, whatever those of other retrievers are called.
    report = ask(way, watched, [asking((0, 100))], [10, 50], doc_id_key="source", fetch_k=7)
    assert report.figures["recall"].tolist() == [[0.1, 0.5]]
    same = {"length_function": len, "order": "relevance", "fetch_k": 7}
    assert watched._asked == [
        ("Why?", [{**same, "max_context_length": 10}, {**same, "max_context_length": 50}])
    ]


def test_an_rse_retriever_is_measured_by_what_it_returns(way: Way) -> None:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(BagOfWords()),
        docstore=InMemoryStore(),
        text_splitter=CharacterTextSplitter(chunk_size=30, chunk_overlap=0),
        config=EVERYTHING,
    )
    text = text_of("first", 20)
    retriever.add_documents([Document(text), Document(text_of("second", 20))], ids=["a", "b"])
    question = asking((0, len(text)), question="first paragraph")
    budgets = (100, 400)
    report = ask(way, retriever, [question], budgets)
    for place, budget in enumerate(budgets):
        found = retriever.invoke(
            question.question, max_context_length=budget, length_function=len, order="relevance"
        )
        assert found
        sizes = [len(d.page_content) for d in found if d.metadata["doc_id"] == "a"]
        assert report.figures["recall"][0, place] == sum(sizes) / len(text)
        assert report.figures["segments"][0, place] == len(found)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        (Evidence("c", 0, 9), "question 1 has .* document 'c'.* is not in the index"),
        (Evidence("a", 0, 101), "question 1 has .* in the index has only 100 characters"),
    ],
)
def test_evidence_must_be_in_the_index(
    way: Way, watched: Watched, evidence: Evidence, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ask(way, watched, [Question("Why?", [evidence])])
    assert watched._asked == []


@pytest.mark.parametrize("name", ["max_context_length", "length_function", "order"])
def test_what_follows_from_the_budget_cannot_be_set(way: Way, watched: Watched, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} follows from budgets"):
        ask(way, watched, [asking((0, 9))], **{name: "document"})


# The report


def many(*recalls: int, seed: int = 0, name: str | None = None) -> Report:
    """A report with so many of 10 characters found for each question, budget 10."""
    questions = [asking((0, 10), question=f"{n}?") for n in range(len(recalls))]
    documents = {f"{n}?": [piece(0, recall)] for n, recall in enumerate(recalls)}
    return evaluate(Canned(documents=documents), questions, [5, 10], seed=seed, name=name)


def test_means_are_over_questions() -> None:
    report = many(0, 5, 10)
    assert report.mean("recall") == pytest.approx([1 / 3, 0.5])
    assert report.mean("characters") == pytest.approx([10 / 3, 5])
    assert report.figures["recall"].shape == (3, 2)


def test_figures_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        many(1).figures["recall"][0, 0] = 1.0


def test_intervals_depend_on_the_seed_alone() -> None:
    recalls = [number % 11 for number in range(40)]
    first, again, other = many(*recalls), many(*recalls), many(*recalls, seed=1)
    assert str(first) == str(again)
    assert (first.interval("recall") == again.interval("recall")).all()
    assert (first.interval("recall") != other.interval("recall")).any()


def test_intervals_are_those_of_resampled_means() -> None:
    report = many(*[0, 10] * 50)
    low, high = report.interval("recall")[1]
    # A mean of 100 draws of 0 or 1: 1.96 standard errors are 0.098.
    assert low == pytest.approx(0.402, abs=0.02)
    assert high == pytest.approx(0.598, abs=0.02)
    narrow = report.interval("recall", level=0.5)[1]
    assert low < narrow[0] < 0.5 < narrow[1] < high


def test_questions_that_are_all_alike_leave_no_doubt() -> None:
    assert many(4, 4, 4).interval("recall") == pytest.approx(np.array([[0.4] * 2] * 2))


@pytest.mark.parametrize("level", [0, 1, 95, float("nan")])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(ValueError, match="level must be above 0 and below 1"):
        many(1).interval("recall", level)


def test_an_unknown_metric_names_the_known_ones() -> None:
    report = many(1)
    for method in (report.mean, report.interval, lambda name: report.compare(report, name)):
        with pytest.raises(ValueError, match=r"recall, precision, iou, .* got 'f1'"):
            method("f1")


def test_a_comparison_is_by_question() -> None:
    better, worse = many(10, 8, 2, 6), many(0, 5, 5, 6)
    comparison = better.compare(worse)
    assert comparison.difference == pytest.approx([(5 - 3) / 40, (10 + 3 - 3) / 40])
    assert comparison.better.tolist() == [1, 2]
    assert comparison.worse.tolist() == [1, 1]
    assert comparison.same.tolist() == [2, 1]
    back = worse.compare(better)
    assert back.difference == pytest.approx(-comparison.difference)
    assert back.better.tolist() == comparison.worse.tolist()


def test_a_difference_all_questions_share_is_sure_though_each_report_is_not() -> None:
    one, other = many(1, 3, 5, 7), many(2, 4, 6, 8)
    low, high = one.interval("recall")[1]
    assert high - low > 0.2
    assert other.compare(one).interval[1] == pytest.approx([0.1, 0.1])


def test_only_what_was_asked_the_same_is_compared() -> None:
    report = many(1, 2)
    with pytest.raises(ValueError, match="not asked the same questions"):
        report.compare(many(1, 2, 3))
    budgets = evaluate(canned(piece(0, 1)), [asking((0, 10))], [5])
    with pytest.raises(ValueError, match=r"budgets differ: \(5, 10\) and \(5,\)"):
        report.compare(budgets)


def test_the_name_is_the_given_one_or_the_retrievers() -> None:
    questions = [asking((0, 1))]
    named = Canned(documents={"Why?": []}, name="mine")
    assert evaluate(canned(), questions).name == "Canned"
    assert evaluate(named, questions).name == "mine"
    assert evaluate(named, questions, name="given").name == "given"


def sure(name: str) -> Report:
    """A report without doubt: one question, 1,000 of 2,000 characters found."""
    question = asking((0, 2_000))
    return evaluate(canned(piece(0, 1_000)), [question], [500, 4_000], name=name)


def test_a_report_is_printed_as_a_table() -> None:
    expected = """
plain: means of 1 questions [95% interval]
budget                recall             precision                   iou  segments  characters
   500  0.250 [0.250, 0.250]  1.000 [1.000, 1.000]  0.250 [0.250, 0.250]       1.0         500
 4,000  0.500 [0.500, 0.500]  1.000 [1.000, 1.000]  0.500 [0.500, 0.500]       1.0       1,000
"""
    assert str(sure("plain")) == expected.strip()


def test_a_comparison_is_printed_as_a_table() -> None:
    expected = """
recall: one less two, 1 questions [90% interval]
budget               difference  better  worse  same
     5  +0.000 [+0.000, +0.000]       0      0     1
    10  +0.500 [+0.500, +0.500]       1      0     0
"""
    comparison = many(10, name="one").compare(many(5, name="two"), level=0.9)
    assert str(comparison) == expected.strip()


def test_markdown_has_the_cells_of_the_printed_table() -> None:
    tables: list[Report | Comparison] = [sure("a"), sure("a").compare(sure("b"), "characters")]
    for table in tables:
        title, *rows = str(table).splitlines()
        marked_title, blank, head, rule, *marked = table.to_markdown().splitlines()
        assert (marked_title, blank) == (title, "")
        assert set(rule) == set("| -:")
        cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in [head, *marked]]
        assert [" ".join(row).split() for row in cells] == [row.split() for row in rows]
        assert rule.count("|") == head.count("|") == len(cells[0]) + 1


def test_the_summary_is_json() -> None:
    report = sure("plain")
    summary = json.loads(json.dumps(report.to_dict()))
    assert summary["name"] == "plain"
    assert (summary["questions"], summary["budgets"]) == (1, [500, 4_000])
    assert list(summary["metrics"]) == list(report.metrics)
    assert summary["metrics"]["recall"] == {
        "mean": [0.25, 0.5],
        "interval": [[0.25, 0.25], [0.5, 0.5]],
    }


def test_the_summary_of_a_comparison_is_json() -> None:
    summary = json.loads(json.dumps(many(10, name="one").compare(many(5, name="two")).to_dict()))
    assert summary == {
        "name": "one",
        "other": "two",
        "metric": "recall",
        "budgets": [5, 10],
        "questions": 1,
        "level": 0.95,
        "difference": [0.0, 0.5],
        "interval": [[0.0, 0.0], [0.5, 0.5]],
        "better": [0, 1],
        "worse": [0, 0],
        "same": [1, 0],
    }


def test_pandas_gets_a_row_for_each_question_and_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    # A stand-in: pandas is no dependency, of the tests neither.
    pandas: Any = ModuleType("pandas")
    pandas.DataFrame = lambda columns: SimpleNamespace(columns=columns)
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    columns = many(2, 10, name="r").to_pandas().columns
    assert {name: list(column) for name, column in columns.items()} == {
        "name": ["r"] * 4,
        "number": [1, 1, 2, 2],
        "question": ["0?", "0?", "1?", "1?"],
        "budget": [5, 10, 5, 10],
        "recall": [0.2, 0.2, 0.5, 1.0],
        "precision": [1, 1, 1, 1],
        "iou": [0.2, 0.2, 0.5, 1.0],
        "segments": [1, 1, 1, 1],
        "characters": [2, 2, 5, 10],
    }


def test_without_pandas_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        many(1).to_pandas()
