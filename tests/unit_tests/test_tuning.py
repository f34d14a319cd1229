"""Tuning: trials are what evaluate would measure, and what they gain is honest."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter
from pydantic import PrivateAttr

from langchain_rse import RSEConfig, RSERetriever
from langchain_rse.evaluation import Evidence, Question, Trial, Tuning, atune, evaluate, tune
from langchain_rse.schema import SPANS_PER_PAGE, document_key, manifest_key
from tests.unit_tests import fakes
from tests.unit_tests.fakes import BagOfWords, Way, words

way = fakes.way

OWN = RSEConfig()
DECAY = OWN.by_scores().decay_rate
BUDGETS = (150, 600)
SPACE: Mapping[str, Sequence[Any]] = {
    "irrelevant_chunk_penalty": (0.0, 0.1, 0.3, 0.5),
    "neighbor_credit": (0.0, 0.25, 0.5),
    "lexical_credit": (0.0, 0.2, 0.4),
    "decay_rate": (5.0, 30.0, 100.0),
    "calibration": ("auto", "identity", "rank"),
    "fetch_k": (10, 25, 40),
}


class Searched(InMemoryVectorStore):
    """Notes each search: the query, and how many candidates were wanted."""

    def __init__(self) -> None:
        super().__init__(BagOfWords())
        self.searches: list[tuple[str, int]] = []

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        self.searches.append((query, k))
        return super().similarity_search_with_score(query, k, **kwargs)

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        self.searches.append((query, k))
        return await super().asimilarity_search_with_score(query, k, **kwargs)


class Backwards(BaseDocumentCompressor):
    """Turns the order around; ``sizes`` has how many documents each call was given."""

    _sizes: list[int] = PrivateAttr(default_factory=list)

    @property
    def sizes(self) -> list[int]:
        return self._sizes

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        del query, callbacks
        self._sizes.append(len(documents))
        return list(documents)[::-1]


class Corpus:
    """Documents "d0", "d1" ... of one paragraph a chunk, and questions on runs of them.

    Every second paragraph of a question's evidence has the question's words. In a corpus of
    noise the evidence is anywhere, and no paragraph has them.
    """

    def __init__(
        self,
        *,
        questions: int = 6,
        documents: int = 3,
        paragraphs: int = 30,
        seed: int = 0,
        noise: bool = False,
        **settings: Any,
    ) -> None:
        rng = np.random.default_rng(seed)
        texts = [
            [
                " ".join(f"word{number:03}" for number in rng.integers(0, 60, 4))
                for _ in range(paragraphs)
            ]
            for _ in range(documents)
        ]
        places = []
        for number in range(questions):
            document, start = int(rng.integers(documents)), int(rng.integers(paragraphs - 5))
            end = start + int(rng.integers(1, 6))
            places.append((document, start, end))
            for paragraph in range(start, end, 1 if noise else 2):
                if not noise:
                    texts[document][paragraph] += f" topic{number} asked{number}"
        self.questions = []
        for number, (document, start, end) in enumerate(places):
            before = len("".join(f"{text}\n\n" for text in texts[document][:start]))
            inside = len("\n\n".join(texts[document][start:end]))
            some = rng.integers(0, 60, 4)
            text = (
                " ".join(f"word{word:03}" for word in some)
                if noise
                else f"topic{number} asked{number} word{some[0]:03}?"
            )
            evidence = [Evidence(f"d{document}", before, before + inside)]
            self.questions.append(Question(text, evidence))
        self.store = Searched()
        self.retriever = RSERetriever(
            vectorstore=self.store,
            docstore=InMemoryStore(),
            text_splitter=CharacterTextSplitter(chunk_size=50, chunk_overlap=0),
            **{"fetch_k": 20, **settings},
        )
        self.retriever.add_documents(
            [Document("\n\n".join(text)) for text in texts],
            ids=[f"d{number}" for number in range(documents)],
        )

    def tune(self, way: Way, **kwargs: Any) -> Tuning:
        arguments = {"budgets": BUDGETS, "space": SPACE, "trials": 12, **kwargs}
        return ask(way, self.retriever, self.questions, **arguments)

    def score(self, metric: str, **settings: Any) -> float:
        """The mean over questions and budgets, by `evaluate`."""
        report = evaluate(self.retriever, self.questions, BUDGETS, **settings)
        return float(report.figures[metric].mean())


SYNC = Way(None)


def ask(way: Way, retriever: Any, questions: Any, **kwargs: Any) -> Tuning:
    return way.call(tune, atune, retriever, questions, **kwargs)


def everything(tuning: Tuning) -> tuple[dict[str, Any], tuple[Trial, ...]]:
    return tuning.to_dict(), tuning.trials


# What is asked


@pytest.mark.parametrize("trials", [2, 25])
def test_the_store_is_asked_once_a_question_whatever_the_number_of_trials(
    way: Way, trials: int
) -> None:
    corpus = Corpus()
    tuning = corpus.tune(way, trials=trials)
    assert len(tuning.trials) == trials
    most = max(trial.changes.get("fetch_k", 20) for trial in tuning.trials)
    assert corpus.store.searches == [(one.question, most) for one in corpus.questions]


def test_a_reranker_is_asked_once_a_question_for_the_retrievers_own_candidates(way: Way) -> None:
    reranker = Backwards()
    corpus = Corpus(reranker=reranker)
    tuning = corpus.tune(way)
    assert reranker.sizes == [20] * len(corpus.questions)
    assert tuning.fetch_k == 20
    assert all("fetch_k" not in trial.changes for trial in tuning.trials)
    assert any(trial.changes for trial in tuning.trials)


def test_a_wrapped_retriever_is_asked_once_a_question(way: Way) -> None:
    corpus, asked = Corpus(), []

    def find(query: str) -> list[Document]:
        asked.append(query)
        return corpus.store.similarity_search(query, k=30)

    retriever = RSERetriever(
        base_retriever=RunnableLambda(find), docstore=corpus.retriever.docstore, fetch_k=20
    )
    tuning = ask(way, retriever, corpus.questions, budgets=BUDGETS, space=SPACE, trials=12)
    assert asked == [one.question for one in corpus.questions]
    for trial in tuning.trials:
        report = evaluate(retriever, corpus.questions, BUDGETS, **trial.changes)
        assert trial.score == pytest.approx(report.figures["recall"].mean())


def test_an_error_of_the_store_says_at_which_question(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = Corpus()
    second = corpus.questions[1].question

    def fail(query: str) -> list[Document]:
        if query == second:
            raise LookupError(query)
        return []

    retriever = RSERetriever(
        base_retriever=RunnableLambda(fail), docstore=corpus.retriever.docstore
    )
    with pytest.raises(LookupError) as caught:
        ask(way, retriever, corpus.questions)
    said = "".join([*getattr(caught.value, "__notes__", []), caplog.text])
    assert "asking question 2" in said


# What a trial is


@pytest.mark.parametrize("metric", ["recall", "precision", "iou"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"k": 2},
        {"config": "dsrag-balanced"},
        {"config": "kadane", "k": 3},
        {"config": RSEConfig(minimum_value=0.8, max_length=3)},
        {"config": RSEConfig(top_k_for_document_selection=2, segment_cost=1.0)},
        {"length_function": words, "max_context_length": 10, "order": "document"},
    ],
    ids=["default", "k", "greedy", "best", "minimum", "top_k", "words"],
)
def test_scores_are_what_evaluate_measures(settings: dict[str, Any], metric: str) -> None:
    corpus = Corpus(**settings)
    tuning = corpus.tune(SYNC, metric=metric, trials=4)
    assert tuning.metric == metric
    assert tuning.start == pytest.approx(corpus.score(metric))
    for trial in tuning.trials:
        assert trial.score == pytest.approx(corpus.score(metric, **trial.changes)), trial.changes


def test_long_documents_have_the_same_scores() -> None:
    corpus = Corpus(documents=1, paragraphs=2 * SPANS_PER_PAGE + 50, questions=12)
    last = max(question.evidence[0].start for question in corpus.questions)
    assert last > SPANS_PER_PAGE * 40
    tuning = corpus.tune(SYNC, trials=4)
    assert tuning.start > 0
    for trial in tuning.trials:
        assert trial.score == pytest.approx(corpus.score("recall", **trial.changes))


def test_candidates_that_come_twice_have_the_same_scores() -> None:
    corpus = Corpus()

    def find(query: str) -> list[Document]:
        found = corpus.store.similarity_search(query, k=30)
        return [document for document in found for _ in range(2)]

    retriever = RSERetriever(
        base_retriever=RunnableLambda(find), docstore=corpus.retriever.docstore, fetch_k=10
    )
    tuning = tune(retriever, corpus.questions, BUDGETS, space={"fetch_k": (4, 30)}, metric="iou")
    for trial in tuning.trials:
        report = evaluate(retriever, corpus.questions, BUDGETS, **trial.changes)
        assert trial.score == pytest.approx(report.figures["iou"].mean()), trial.changes


def test_what_is_given_per_call_holds_for_all_trials(way: Way) -> None:
    corpus = Corpus()

    def keep(document: Document) -> bool:
        return bool(document.metadata["doc_id"] != "d0")

    settings = {"filter": keep, "k": 2, "segment_cost": 0.3}
    tuning = corpus.tune(way, metric="iou", **settings)
    assert tuning.start == pytest.approx(corpus.score("iou", **settings))
    for trial in tuning.trials:
        together = {**settings, **trial.changes}
        assert trial.score == pytest.approx(corpus.score("iou", **together))
    assert tuning.config.segment_cost == 0.3


def test_trials_are_different_sets_of_a_few_changes(way: Way) -> None:
    corpus = Corpus(config=OWN)
    tuning = corpus.tune(way, trials=40)
    scores = [trial.score for trial in tuning.trials]
    assert scores == sorted(scores, reverse=True)
    changes = [trial.changes for trial in tuning.trials]
    assert len(changes) == len({json.dumps(dict(one), sort_keys=True) for one in changes}) == 40
    assert {} in changes
    assert {len(one) for one in changes} == {0, 1, 2, 3, 4}
    own = {**vars(OWN.for_scores()), "fetch_k": 20}
    for one in changes:
        for name, value in one.items():
            assert value in SPACE[name]
            assert value != own[name]


def test_a_small_space_is_tried_as_a_whole(way: Way) -> None:
    space = {"decay_rate": (10.0, 2 * DECAY, DECAY)}
    tuning = Corpus().tune(way, space=space, trials=100)
    tried = [trial.changes.get("decay_rate") for trial in tuning.trials]
    assert sorted(tried, key=str) == [10.0, 2 * DECAY, None]


def test_the_order_of_budgets_does_not_matter() -> None:
    one, other = (Corpus().tune(SYNC, budgets=budgets) for budgets in [BUDGETS, BUDGETS[::-1]])
    assert everything(one) == everything(other)


def test_questions_and_budgets_may_be_iterators(way: Way) -> None:
    corpus = Corpus()
    expected = everything(corpus.tune(way))
    found = ask(
        way,
        corpus.retriever,
        iter(corpus.questions),
        budgets=iter(BUDGETS),
        space=SPACE,
        trials=12,
    )
    assert everything(found) == expected


# What it finds


def test_the_same_seed_finds_the_same_sync_and_async(way: Way) -> None:
    expected = Corpus().tune(SYNC, seed=3)
    assert everything(Corpus().tune(way, seed=3)) == everything(expected)
    other = Corpus().tune(way, seed=4)
    assert {str(trial.changes) for trial in other.trials} != {
        str(trial.changes) for trial in expected.trials
    }


def test_a_better_config_is_found_and_keeps_what_it_claims(way: Way) -> None:
    # Nothing is worth a penalty of 5, so nothing is returned.
    bad = RSEConfig(irrelevant_chunk_penalty=5, segment_cost=0.25)
    corpus = Corpus(config=bad)
    tuning = corpus.tune(way, space={"irrelevant_chunk_penalty": (0.0, 4.0), "fetch_k": (40,)})
    assert tuning.start == 0
    assert tuning.config == bad.replace(irrelevant_chunk_penalty=0.0)
    assert tuning.questions == len(corpus.questions)
    assert tuning.gain == pytest.approx(tuning.held_out)
    assert tuning.interval[0] > 0

    tuned = corpus.retriever.model_copy(update={"config": tuning.config, "fetch_k": tuning.fetch_k})
    assert corpus.retriever.config == bad
    assert corpus.retriever.fetch_k == 20
    report = evaluate(tuned, corpus.questions, BUDGETS)
    claimed = tuning.trials[0].score
    assert report.figures["recall"].mean() == pytest.approx(claimed)
    assert claimed > 0.3
    assert way.invoke(tuned, corpus.questions[0].question)


@pytest.mark.parametrize("metric", ["recall", "precision", "iou"])
def test_the_config_is_the_best_trials_or_the_retrievers_own(metric: str) -> None:
    kept = 0
    for seed in range(6):
        corpus = Corpus(seed=seed, noise=True)
        tuning = corpus.tune(SYNC, metric=metric)
        assert tuning.gain == pytest.approx(tuning.held_out - tuning.start)
        assert tuning.interval[0] <= tuning.gain <= tuning.interval[1]
        changes: dict[str, Any] = {}
        if tuning.gain > 0:
            changes = dict(tuning.trials[0].changes)
        else:
            kept += tuning.trials[0].score > tuning.start
        fetch_k = changes.pop("fetch_k", 20)
        assert (tuning.config, tuning.fetch_k) == (OWN.replace(**changes), fetch_k)
        score = corpus.score(metric, fetch_k=fetch_k, **changes)
        assert score >= tuning.start - 1e-9
    assert kept  # though some trial looks better in sample


def test_what_is_held_out_is_scored_by_the_best_on_the_others(way: Way) -> None:
    # With as many folds as questions, each is held out alone, in whatever order.
    corpus = Corpus(questions=5, seed=2)
    tuning = corpus.tune(way, metric="iou", folds=5, trials=15)
    scores = np.array(
        [
            evaluate(corpus.retriever, corpus.questions, BUDGETS, **trial.changes)
            .figures["iou"]
            .mean(axis=1)
            for trial in tuning.trials
        ]
    )
    own = [not trial.changes for trial in tuning.trials].index(True)
    least = most = 0.0
    for number in range(5):
        others = np.delete(scores, number, axis=1).mean(axis=1)
        best = np.flatnonzero(np.isclose(others, others.max()))
        of_these = scores[[own] if own in best else best, number]
        least, most = least + of_these.min() / 5, most + of_these.max() / 5
    assert least - 1e-9 <= tuning.held_out <= most + 1e-9
    assert most <= tuning.trials[0].score + 1e-9  # what was seen flatters


def test_more_folds_than_questions_hold_out_one_at_a_time(way: Way) -> None:
    corpus = Corpus(questions=4)
    assert everything(corpus.tune(way, folds=99)) == everything(corpus.tune(way, folds=4))


def test_two_questions_are_enough(way: Way) -> None:
    tuning = Corpus(questions=2).tune(way)
    assert tuning.questions == 2
    assert tuning.gain == pytest.approx(tuning.held_out - tuning.start)


def test_noise_is_no_gain() -> None:
    # With a penalty of 0 the budget is always filled, and these change only with what.
    space = {name: SPACE[name] for name in ("lexical_credit", "decay_rate", "neighbor_credit")}
    gains, looks = [], []
    for seed in range(12):
        corpus = Corpus(
            seed=seed,
            noise=True,
            questions=12,
            config=RSEConfig(irrelevant_chunk_penalty=0.0),
            fetch_k=40,
        )
        tuning = corpus.tune(SYNC, space=space, budgets=(600,))
        gains.append(tuning.gain)
        looks.append(tuning.trials[0].score - tuning.start)
    # Zero within three standard errors, which what was seen in sample is not.
    error = np.std(gains, ddof=1) / len(gains) ** 0.5
    assert abs(np.mean(gains)) < 3 * error < np.mean(looks)


def test_where_nothing_is_better_the_retrievers_own_is_kept(way: Way) -> None:
    corpus = Corpus()
    tuning = corpus.tune(way, space={"irrelevant_chunk_penalty": (5.0,)})
    assert tuning.config == corpus.retriever.config
    assert tuning.fetch_k == 20
    assert tuning.gain == 0
    assert list(tuning.interval) == [0, 0]
    assert tuning.held_out == tuning.start > 0
    assert [trial.changes for trial in tuning.trials] == [{}, {"irrelevant_chunk_penalty": 5.0}]
    assert "Keep the retriever's own" in str(tuning)


def test_questions_that_find_nothing_are_scored_zero(way: Way) -> None:
    tuning = Corpus().tune(way, filter=lambda _: False)
    assert (tuning.start, tuning.held_out, tuning.gain) == (0, 0, 0)
    assert {trial.score for trial in tuning.trials} == {0}
    assert tuning.config == OWN


def test_a_function_may_be_tried_and_the_search_leaves_the_event_loop_alone() -> None:
    threads: list[threading.Thread] = []

    def halved(scores: Any) -> Any:
        threads.append(threading.current_thread())
        return scores / 2

    corpus = Corpus(config=RSEConfig(irrelevant_chunk_penalty=5, lexical_credit=0))
    space = {"calibration": (halved,), "irrelevant_chunk_penalty": (0.0,)}
    tuning = asyncio.run(atune(corpus.retriever, corpus.questions, BUDGETS, space=space))
    assert threads
    assert threading.current_thread() not in threads
    assert tuning.to_dict()["config"]["calibration"] in {"auto", "halved"}
    named = Tuning(**{**vars(tuning), "config": OWN.replace(calibration=halved)})
    assert json.loads(json.dumps(named.to_dict()))["config"]["calibration"] == "halved"


def test_progress_is_shown(way: Way, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = Corpus()
    corpus.tune(way, trials=5, show_progress=True)
    captured = capsys.readouterr()
    assert "5/5" in captured.err
    assert captured.out == ""
    corpus.tune(way, trials=5)
    assert capsys.readouterr().err == ""


# What is wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"questions": []}, "no questions"),
        ({"questions": [Question("Why?", [Evidence("d0", 0, 1)])]}, "at least 2 .* got 1"),
        ({"trials": 0}, "trials must be a whole number of at least 2; got 0"),
        ({"trials": 1}, "trials must be .* got 1"),
        ({"trials": 2.5}, "trials must be .* got 2.5"),
        ({"folds": 1}, "folds must be a whole number of at least 2; got 1"),
        ({"resamples": 0}, "resamples must be .* got 0"),
        ({"seed": -1}, "seed must be .* got -1"),
        ({"metric": "f1"}, "metric must be one of recall, precision, iou; got 'f1'"),
        ({"metric": "characters"}, "metric must be one of .* got 'characters'"),
        ({"budgets": []}, "budgets must be at least one"),
        ({"budgets": [0]}, "budget must be a whole number of at least 1; got 0"),
        ({"budgets": [5, 5]}, r"all different; got \[5, 5\]"),
        ({"budgets": None}, "budget must be .* got None"),
        ({"space": {"penalty": (0.1,)}}, "space has 'penalty', which is neither fetch_k nor"),
        ({"space": {"k": (1, 2)}}, "space has 'k', which is neither fetch_k nor"),
        ({"space": {"decay_rate": (10, 0)}}, "decay_rate must be .* above 0 or None; got 0"),
        ({"space": {"solver": ("fast",)}}, "solver must be one of .* got 'fast'"),
        ({"space": {"fetch_k": (0,)}}, "fetch_k"),
        ({"space": {}}, "space has no value that differs"),
        ({"space": {"decay_rate": (DECAY,)}}, "space has no value that differs"),
        ({"space": {"decay_rate": ()}}, "space has no value that differs"),
        ({"max_context_length": 9}, "max_context_length follows from budgets; got 9"),
        ({"order": "document"}, "order follows from budgets"),
        (
            {"questions": [Question("Why?", [Evidence("d9", 0, 1)])] * 2},
            "question 1 has .* document 'd9'.* is not in the index",
        ),
        (
            {"questions": [Question("Why?", [Evidence("d0", 0, 99_999)])] * 2},
            "question 1 has .* in the index has only",
        ),
    ],
)
def test_arguments_out_of_range(way: Way, arguments: dict[str, Any], message: str) -> None:
    corpus = Corpus()
    with pytest.raises(ValueError, match=message):
        ask(way, corpus.retriever, **{"questions": corpus.questions, **arguments})
    assert corpus.store.searches == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"questions": "questions.jsonl"}, "load_questions"),
        ({"top": 3}, r"unknown argument\(s\) top"),
    ],
)
def test_arguments_of_the_wrong_type(way: Way, arguments: dict[str, Any], message: str) -> None:
    corpus = Corpus()
    with pytest.raises(TypeError, match=message):
        ask(way, corpus.retriever, **{"questions": corpus.questions, **arguments})
    assert corpus.store.searches == []


def test_only_an_rse_retriever_can_be_tuned(way: Way) -> None:
    corpus = Corpus()
    others: list[Any] = [corpus.store.as_retriever(), RunnableLambda(lambda _: "a"), None]
    for other in others:
        with pytest.raises(TypeError, match="retriever must be an RSERetriever; got"):
            ask(way, other, corpus.questions)


def test_a_space_of_which_only_a_reranker_could_use_fetch_k_is_an_error(way: Way) -> None:
    corpus = Corpus(reranker=Backwards())
    with pytest.raises(ValueError, match="space has no value that differs"):
        corpus.tune(way, space={"fetch_k": (10, 40)})


def test_progress_without_tqdm_says_what_to_install(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    corpus = Corpus()
    with pytest.raises(ImportError, match=r"pip install 'langchain-rse\[progress\]'"):
        corpus.tune(way, show_progress=True)
    assert corpus.store.searches == []


def test_a_document_that_the_docstore_lost_is_an_error_as_in_a_query(way: Way) -> None:
    corpus = Corpus()
    in_use = {question.evidence[0].doc_id for question in corpus.questions}
    corpus.retriever.add_documents([Document("topic0 asked0")], ids=["lost"])
    assert "lost" not in in_use
    corpus.retriever.docstore.mdelete([manifest_key(document_key("lost"))])
    with pytest.raises(LookupError, match="does not know the document"):
        way.invoke(corpus.retriever, corpus.questions[0].question)
    with pytest.raises(LookupError, match="does not know the document"):
        corpus.tune(way)


# The result


def result(gain: float, trials: int = 2) -> Tuning:
    best = Trial({"irrelevant_chunk_penalty": 0.1, "fetch_k": 400}, 0.75)
    return Tuning(
        config=RSEConfig(irrelevant_chunk_penalty=0.1),
        fetch_k=400,
        metric="iou",
        start=0.5,
        held_out=0.5 + gain,
        gain=gain,
        interval=(gain - 0.125, gain + 0.25),
        trials=(best, *[Trial({}, 0.5)] * (trials - 1)),
        questions=12,
    )


def test_a_tuning_is_printed_as_a_table() -> None:
    expected = """
iou of 12 questions: 0.500; tuned, on questions not seen: 0.625, gain +0.125 [+0.000, +0.375]. {}
score                                    changes
0.750  irrelevant_chunk_penalty=0.1, fetch_k=400
0.500                                     (none)
"""
    assert str(result(0.125)) == expected.strip().format("Use the first")


def test_a_loss_says_to_keep_the_retrievers_own() -> None:
    said = str(result(-0.125)).splitlines()[0]
    assert "gain -0.125 [-0.250, +0.125]" in said
    assert said.endswith("Keep the retriever's own")


def test_only_the_best_trials_are_printed() -> None:
    assert len(str(result(0.125, trials=50)).splitlines()) == 2 + 10


def test_markdown_has_the_cells_of_the_printed_table() -> None:
    title, _, *rows = result(0.125).to_markdown().splitlines()
    assert title == str(result(0.125)).splitlines()[0]
    assert [[cell.strip() for cell in row.split("|")[1:-1]] for row in (rows[0], *rows[2:])] == [
        ["score", "changes"],
        ["0.750", "irrelevant_chunk_penalty=0.1, fetch_k=400"],
        ["0.500", "(none)"],
    ]
    assert set(rows[1]) == set("| -:")


def test_the_summary_is_json_from_which_the_config_can_be_made(way: Way) -> None:
    tuning = Corpus().tune(way)
    summary = json.loads(json.dumps(tuning.to_dict()))
    assert RSEConfig(**summary.pop("config")) == tuning.config
    assert summary == {
        "fetch_k": tuning.fetch_k,
        "metric": "recall",
        "start": tuning.start,
        "held_out": tuning.held_out,
        "gain": tuning.gain,
        "interval": list(tuning.interval),
        "questions": 6,
    }
