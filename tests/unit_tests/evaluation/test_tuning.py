"""Tuning: trials have the scores of `evaluate`, and the gain is that of unseen questions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from langchain_rse import RSEConfig, RSERetriever
from langchain_rse.config import read_settings
from langchain_rse.evaluation import Evidence, Question, Trial, Tuning, atune, evaluate, tune
from tests.unit_tests import fakes
from tests.unit_tests.evaluation.corpus import SyntheticCorpus
from tests.unit_tests.fakes import Way, words

way = fakes.way

# Returns nothing.
NOTHING = RSEConfig(irrelevant_chunk_penalty=1.0)
BUDGETS = (150, 600)
SPACE: Mapping[str, Sequence[Any]] = {
    "irrelevant_chunk_penalty": (0.0, 0.1, 0.3, 0.5),
    "neighbor_weight": (0.0, 0.25, 0.5),
    "lexical_weight": (0.0, 0.2, 0.4),
    "decay_rate": (5.0, 30.0, 100.0),
    "calibration": ("auto", "identity", "rank"),
}


SYNC = Way(None)


class Corpus(SyntheticCorpus):
    """A corpus whose retriever is tuned."""

    def tune(self, way: Way = SYNC, **kwargs: Any) -> Tuning:
        arguments = {"budgets": BUDGETS, "space": SPACE, "trials": 6, **kwargs}
        return ask(way, self.retriever, self.questions, **arguments)

    def score(self, metric: str, **settings: Any) -> float:
        """The mean over questions and budgets, by `evaluate`."""
        arguments = fakes.in_config(self.retriever, settings)
        report = evaluate(self.retriever, self.questions, BUDGETS, **arguments)
        return float(report.figures[metric].mean())


def ask(way: Way, retriever: Any, questions: Any, **kwargs: Any) -> Tuning:
    tuning: Tuning = way.call(tune, atune, retriever, questions, **kwargs)
    return tuning


# What is asked


@pytest.mark.parametrize("trials", [2, 15])
def test_the_store_is_searched_once_per_question_for_any_number_of_trials(
    way: Way, trials: int, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = Corpus()
    tuning = corpus.tune(way, trials=trials, show_progress=True)
    assert len(tuning.trials) == trials
    assert corpus.store.searches == [question.question for question in corpus.questions]
    assert "/5 [" in capsys.readouterr().err


def test_a_reranker_and_a_wrapped_retriever_are_asked_once_per_question(way: Way) -> None:
    corpus, asked, reranker = Corpus(), [], fakes.Noting(choose=lambda found, _: found[::-1])

    def find(query: str) -> list[Document]:
        asked.append(query)
        return corpus.store.similarity_search(query, k=30)

    retriever = RSERetriever(
        base_retriever=RunnableLambda(find),
        candidates_only=False,
        docstore=corpus.retriever.docstore,
        reranker=reranker,
        fetch_k=20,
    )
    tuning = ask(way, retriever, corpus.questions, budgets=BUDGETS, space=SPACE, trials=5)
    assert asked == reranker.queries == [question.question for question in corpus.questions]
    for trial in tuning.trials:
        arguments = fakes.in_config(retriever, dict(trial.changes))
        report = evaluate(retriever, corpus.questions, BUDGETS, **arguments)
        assert trial.score == pytest.approx(report.figures["recall"].mean())


# What a trial is


@pytest.mark.parametrize(
    ("metric", "settings"),
    [
        ("recall", {}),
        ("precision", {"k": 2}),
        ("iou", {"config": "dsrag-balanced"}),
        ("recall", {"config": "kadane", "k": 3}),
        ("iou", {"length_function": words, "max_context_length": 10, "passage_cost": 1.0}),
    ],
    ids=["default", "two", "greedy", "best", "words"],
)
def test_scores_are_what_evaluate_measures(metric: str, settings: dict[str, Any]) -> None:
    corpus = Corpus(**settings)
    tuning = corpus.tune(metric=metric, trials=4)
    assert tuning.metric == metric
    assert tuning.start == pytest.approx(corpus.score(metric))
    for trial in tuning.trials:
        assert trial.score == pytest.approx(corpus.score(metric, **trial.changes)), trial.changes


# What it finds


def test_better_parameters_are_found_and_keep_what_they_claim() -> None:
    corpus = Corpus(config=NOTHING, passage_cost=0.3)
    tuning = corpus.tune(space={"irrelevant_chunk_penalty": (0.3, 0.99), "decay_rate": (30.0,)})
    assert tuning.start == 0
    assert tuning.changes["irrelevant_chunk_penalty"] == 0.3
    assert tuning.interval[0] > 0
    assert "Use the first trial" in str(tuning)

    tuned = corpus.retriever.model_copy(update={"config": tuning.config})
    assert corpus.retriever.config == NOTHING.replace(passage_cost=0.3)
    report = evaluate(tuned, corpus.questions, BUDGETS)
    assert report.figures["recall"].mean() == pytest.approx(tuning.trials[0].score)
    assert tuning.trials[0].score > tuning.start
    assert tuned.invoke(corpus.questions[0].question)


def test_the_result_is_the_best_trial_or_the_retrievers_own() -> None:
    kept = 0
    for seed in range(6):
        tuning = Corpus(seed=seed, noise=True).tune(metric="iou", trials=6)
        assert tuning.gain == pytest.approx(tuning.held_out - tuning.start)
        assert tuning.interval[0] <= tuning.gain <= tuning.interval[1]
        best = tuning.trials[0]
        if tuning.gain > 0:
            assert tuning.changes == best.changes
        else:
            assert tuning.changes == {}
            kept += best.score > tuning.start
    assert kept  # though some trial looks better on the questions that it was chosen by


def test_what_is_held_out_is_scored_by_the_best_on_the_others() -> None:
    # There are five folds: each of five questions is held out alone, in whatever order.
    corpus = Corpus(questions=5, seed=2)
    tuning = corpus.tune(metric="iou", trials=8)
    scores = []
    for trial in tuning.trials:
        arguments = fakes.in_config(corpus.retriever, dict(trial.changes))
        report = evaluate(corpus.retriever, corpus.questions, BUDGETS, **arguments)
        scores.append(report.figures["iou"].mean(axis=1))
    own = [not trial.changes for trial in tuning.trials].index(True)
    least = most = 0.0
    for number in range(5):
        others = np.delete(scores, number, axis=1).mean(axis=1)
        best = np.flatnonzero(np.isclose(others, others.max()))
        of_these = np.array(scores)[[own] if own in best else best, number]
        least, most = least + of_these.min() / 5, most + of_these.max() / 5
    assert least - 1e-9 <= tuning.held_out <= most + 1e-9
    assert most <= tuning.trials[0].score + 1e-9  # what was seen flatters


# What is wrong

ONE = [Question("Why?", [Evidence("d0", 0, 1)])]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"questions": [*ONE, Question("Who?", [])]}, "at least two questions"),
        ({"metric": "characters"}, "recall, precision, iou; got 'characters'"),
        ({"budgets": [0]}, "budgets"),
        ({"space": {"decay_rate": (10, 0)}}, "decay_rate"),
        ({"space": {}}, "space only contains values"),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, Any], message: str) -> None:
    corpus = Corpus()
    with pytest.raises(ValueError, match=message):
        tune(corpus.retriever, **{"questions": corpus.questions, **arguments})
    assert corpus.store.searches == []


# The result


def test_an_interval_takes_five_questions() -> None:
    changes: dict[str, Any] = {"irrelevant_chunk_penalty": 0.1}
    tuning = Tuning(
        changes=changes,
        metric="iou",
        start=0.5,
        held_out=0.7,
        gain=0.2,
        interval=(0.075, 0.45),
        trials=(Trial(changes, 0.75), Trial({}, 0.5)),
        questions=5,
        config=RSEConfig(**changes),
        hybrid=0.0,
    )
    assert "gain +0.200 [+0.075, +0.450]\nUse the first trial." in str(tuning)
    assert repr(tuning).startswith("<Tuning: iou on 5 questions: 0.500 now, 0.700 tuned")
    few = str(dataclasses.replace(tuning, questions=4))
    assert "gain +0.200\nToo few questions for an interval" in few


def test_the_best_settings_are_saved_with_all_that_trials_had(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    corpus = Corpus(config=NOTHING, name_weight=0.1)
    space = {"irrelevant_chunk_penalty": (0.3,)}
    tuning = corpus.tune(space=space, trials=2)
    assert tuning.changes == {"irrelevant_chunk_penalty": 0.3}
    dataclasses.replace(tuning, hybrid=0.25).to_file(path)
    assert read_settings(path) == {"config": tuning.config, "hybrid": 0.25}
    tuning.to_file(path)
    config = read_settings(path)["config"]
    assert config == tuning.config
    assert config == NOTHING.replace(name_weight=0.1, irrelevant_chunk_penalty=0.3)
    # Used from the file, the settings measure as the best trial did.
    again = RSERetriever(
        vectorstore=corpus.store, docstore=corpus.retriever.docstore, fetch_k=20, config=config
    )
    score = evaluate(again, corpus.questions, BUDGETS).figures["recall"].mean()
    assert score == pytest.approx(tuning.trials[0].score)
