"""A recall that is promised: by which penalty, how often it is kept, and when it is refused."""

# ruff: noqa: E501 - tables

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from langchain_rse import RSEConfig
from langchain_rse.config import read_settings, settings_of_call
from langchain_rse.engine import Floats
from langchain_rse.evaluation import (
    Question,
    RecallGuarantee,
    Rung,
    Tuning,
    atune,
    evaluate,
    tune,
)
from langchain_rse.evaluation.guaranteeing import (
    PENALTIES,
    choose_rung,
    fewest_questions,
    promised_recalls,
)
from langchain_rse.evaluation.measuring import Figures
from langchain_rse.evaluation.trying import try_settings
from tests.unit_tests import fakes
from tests.unit_tests.evaluation.corpus import SyntheticCorpus
from tests.unit_tests.fakes import Way

way = fakes.way

PENALTY = "irrelevant_chunk_penalty"
DRAWS = 500
SYNC = Way(None)


def corpus_of(questions: int = 30, **settings: Any) -> SyntheticCorpus:
    """A corpus whose questions are answered well, but not all of them with little text."""
    return SyntheticCorpus(
        questions=questions, documents=6, **{"max_context_length": 2_000, **settings}
    )


def guarantee(
    corpus: SyntheticCorpus, target: float = 0.7, way: Way = SYNC, **arguments: Any
) -> RecallGuarantee:
    search: Any = tune  # mypy does not match overloads with one type
    asearch: Any = atune
    result: RecallGuarantee = way.call(
        search, asearch, corpus.retriever, corpus.questions, target_recall=target, **arguments
    )
    return result


# Which penalty


LOSSES = np.array(
    [
        [0.0, 0.0, 0.0, 0.0],
        [0.0, 0.5, 0.0, 0.0],
        [1.0, 0.0, 0.5, 0.0],  # the second question counts as 0.5, as with more text
        [0.5, 0.5, 0.0, 0.0],
    ]
)


def test_the_recall_that_is_promised_on_average() -> None:
    # One more question is supposed, which loses all: (0 + 1) / 5, (0.5 + 1) / 5, (2 + 1) / 5.
    promised = promised_recalls(LOSSES, 4, None)
    assert promised == pytest.approx([0.8, 0.7, 0.4, 0.4])


def test_the_recall_that_is_promised_with_confidence() -> None:
    # Without a loss, the bound is that of a coin that fell on one side each time.
    (promised,) = promised_recalls(np.zeros((1, 22)), 22, 0.9)
    assert promised == pytest.approx(0.1 ** (1 / 22))
    # With losses, the divergence of the promise from what was seen is log(10) / count.
    (promised,) = promised_recalls(np.full((1, 50), 0.04), 50, 0.9)
    divergence = 0.04 * np.log(0.04 / (1 - promised)) + 0.96 * np.log(0.96 / promised)
    assert divergence == pytest.approx(np.log(10) / 50)
    assert promised < 0.96
    assert promised_recalls(np.ones((1, 50)), 50, 0.9) == pytest.approx([0])


@pytest.mark.parametrize("count", [1, 9, 100])
@pytest.mark.parametrize("loss", [0.0, 0.03, 0.5, 1.0])
def test_what_is_promised_with_any_confidence_is_also_promised_on_average(
    count: int, loss: float
) -> None:
    losses = np.full((1, count), loss)
    on_average = promised_recalls(losses, count, None)
    before = on_average
    for confidence in (0.01, 0.5, 0.9, 0.99):
        promised = promised_recalls(losses, count, confidence)
        assert promised <= before
        before = promised


@pytest.mark.parametrize(
    ("target", "expected"),
    [(0.81, None), (0.8, 0), (0.71, 0), (0.7, 1), (0.5, 1), (0.4, 3), (0.1, 3)],
)
def test_the_last_rung_that_keeps_the_promise_is_chosen(target: float, expected: int) -> None:
    assert choose_rung(promised_recalls(LOSSES, 4, None), target) == expected


@pytest.mark.parametrize(
    ("target", "confidence", "expected"),
    [
        (0.9, None, 9),
        (0.8, None, 4),
        (0.95, None, 19),
        (0.5, None, 1),
        (0.9, 0.9, 22),
        (0.8, 0.9, 11),
        (0.9, 0.1, 9),  # a promise with little confidence holds on average as well
    ],
)
def test_from_so_many_questions_a_promise_is_possible(
    target: float, confidence: float | None, expected: int
) -> None:
    assert fewest_questions(target, confidence) == expected
    for count in (expected - 1, expected):
        promised = promised_recalls(np.zeros((1, max(count, 1))), count, confidence)
        assert (choose_rung(promised, target) == 0) == (count == expected)


# How often a promise is kept


def simulated_losses(count: int) -> Floats:
    """Losses of questions: all or nothing for half of them, step by step for the others."""
    rng = np.random.default_rng(0)
    enough = rng.beta(2, 2, count)  # the penalty with which evidence begins to be missing
    penalties = np.array(PENALTIES)[:, None]
    at_once = (penalties > enough).astype(float)
    in_steps = np.clip((penalties - enough) / 0.3, 0, 1)
    return np.where(rng.random(count) < 0.5, at_once, in_steps)


@cache
def measured_losses() -> Floats:
    """Losses of an actual retriever; shape ``(rungs, questions)``."""
    corpus = SyntheticCorpus(questions=40, documents=8, fetch_k=20, max_context_length=2_000)
    settings = [[settings_of_call(corpus.retriever, {PENALTY: penalty})] for penalty in PENALTIES]
    figures = try_settings(
        corpus.retriever, tuple(corpus.questions), settings, (sys.maxsize,), show_progress=False
    )
    return np.asarray(1 - figures[:, :, 0, Figures._fields.index("recall")])


def draw_promises(
    losses: Floats, count: int, target: float, confidence: float | None
) -> tuple[list[float], int]:
    """Draw questions again and again, and choose a penalty by them.

    Returns the mean recall of all questions with each penalty that was chosen, which is that of
    further draws; and how often none was.
    """
    rng = np.random.default_rng(1)
    recalls = 1 - losses.mean(axis=1)
    kept = []
    refused = 0
    for _ in range(DRAWS):
        drawn = losses[:, rng.integers(losses.shape[1], size=count)]
        chosen = choose_rung(promised_recalls(drawn, count, confidence), target)
        if chosen is None:
            refused += 1
        else:
            kept.append(float(recalls[chosen]))
    return kept, refused


@pytest.mark.parametrize("kind", ["simulated", "measured"])
@pytest.mark.parametrize("count", [25, 50, 200])
@pytest.mark.parametrize("target", [0.7, 0.8, 0.9])
def test_promises_are_kept(kind: str, count: int, target: float) -> None:
    losses = simulated_losses(5_000) if kind == "simulated" else measured_losses()
    on_average, refused = draw_promises(losses, count, target, None)
    assert sum(on_average) + refused >= target * DRAWS
    with_confidence, refused = draw_promises(losses, count, target, 0.9)
    broken = sum(recall < target for recall in with_confidence)
    assert broken <= 0.1 * DRAWS
    # It holds on average as well, with more text.
    assert sum(with_confidence) + refused >= target * DRAWS
    assert np.mean(with_confidence) > np.mean(on_average)


# What is asked and measured


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_the_penalty_is_the_last_of_the_ladder_that_keeps_the_promise(
    way: Way, confidence: float | None
) -> None:
    corpus = corpus_of()
    result = guarantee(corpus, way=way, confidence=confidence)
    assert corpus.store.searches == [question.question for question in corpus.questions]
    assert [rung.penalty for rung in result.ladder] == list(PENALTIES)
    assert result.chosen in result.ladder
    assert result.chosen.promised >= 0.7
    later = result.ladder[result.ladder.index(result.chosen) + 1]
    assert later.promised < 0.7
    assert result.chosen.recall > result.chosen.promised
    assert result.chosen.characters < 0.2 * result.ladder[0].characters
    assert result.interval[0] <= result.held_out <= result.interval[1]
    assert result.held_out == pytest.approx(result.chosen.recall, abs=0.1)
    assert result.confidence == confidence
    assert result.questions == 30


def test_less_confidence_needs_less_text() -> None:
    corpus = corpus_of()
    penalties = []
    for confidence in (0.99, 0.8, None):
        penalties.append(guarantee(corpus, confidence=confidence).chosen.penalty)
    assert penalties == sorted(penalties)
    assert penalties[0] < penalties[-1]


@pytest.mark.parametrize(
    "settings",
    [{}, {"max_context_length": 300}, {"max_context_length": 60, "length_function": fakes.words}],
    ids=["default", "less", "words"],
)
def test_a_rung_is_what_the_retriever_returns(settings: dict[str, Any]) -> None:
    corpus = corpus_of(12, **settings)
    result = guarantee(corpus, 0.3, confidence=None)
    for rung in result.ladder[::6]:
        retriever = corpus.retriever.model_copy(update={PENALTY: rung.penalty})
        answers = [retriever.invoke(question.question) for question in corpus.questions]
        lengths = [sum(len(document.page_content) for document in answer) for answer in answers]
        assert rung.characters == pytest.approx(np.mean(lengths))
    chosen = corpus.retriever.model_copy(update=result.changes)
    assert chosen.config.replace(**{PENALTY: chosen.penalty}) == result.config


def test_the_recall_of_a_rung_is_that_of_evaluate() -> None:
    corpus = corpus_of(12)
    result = guarantee(corpus, 0.5, confidence=None)
    for rung in result.ladder[::6]:
        report = evaluate(
            corpus.retriever, corpus.questions, [2_000], irrelevant_chunk_penalty=rung.penalty
        )
        assert rung.recall == pytest.approx(report.mean("recall")[0])
        assert rung.characters == pytest.approx(report.mean("characters")[0])


def test_arguments_of_queries_hold_for_all_rungs() -> None:
    corpus = corpus_of(12)
    config = RSEConfig(segment_cost=0.0)
    result = guarantee(corpus, 0.3, confidence=None, max_context_length=200, rse_config=config)
    assert max(rung.characters for rung in result.ladder) <= 200
    assert result.config.segment_cost == 0
    with pytest.raises(TypeError, match=f"multiple values for keyword argument '{PENALTY}'"):
        guarantee(corpus, irrelevant_chunk_penalty=0.3)


def test_the_retrievers_own_penalty_does_not_matter() -> None:
    result = guarantee(corpus_of())
    other = guarantee(corpus_of(config=RSEConfig(irrelevant_chunk_penalty=0.9)))
    assert other.to_dict() == result.to_dict()


def test_the_same_seed_measures_the_same() -> None:
    corpus = corpus_of(20)
    results = [guarantee(corpus, seed=seed) for seed in (0, 0, 1)]
    assert results[0].to_dict() == results[1].to_dict()
    assert results[0].held_out != results[2].held_out
    assert results[0].ladder == results[2].ladder


def test_questions_without_an_answer_are_left_out() -> None:
    expected = guarantee(corpus_of()).to_dict()
    corpus = corpus_of()
    corpus.questions.insert(0, Question("Who?", []))
    assert guarantee(corpus).to_dict() == expected


def test_without_a_target_parameters_are_searched_for() -> None:
    corpus = corpus_of(2)
    tuning = tune(corpus.retriever, corpus.questions, trials=2, target_recall=None)
    assert isinstance(tuning, Tuning)


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    guarantee(corpus_of(12), 0.3, confidence=None, show_progress=True)
    assert "19/19" in capsys.readouterr().err


# What is wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_recall": 0.0}, "target_recall"),
        ({"target_recall": 1.0}, "target_recall"),
        ({"target_recall": 1.5}, "target_recall"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.0}, "confidence"),
        ({"seed": -1}, "seed"),
        ({"metric": "iou"}, "metric, space and trials cannot be given with target_recall"),
        ({"space": {"segment_cost": (0.1,)}}, "metric, space and trials cannot be given"),
        ({"trials": 7}, "metric, space and trials cannot be given"),
        ({"budgets": [4_000]}, "max_context_length: give that instead"),
        ({"target_recall": None, "confidence": None}, "confidence is that of target_recall"),
        (
            {"target_recall": 0.95},
            "0.95 with confidence 0.9, at least 45 questions .* got 30. On average, .* from 19$",
        ),
        (
            {"target_recall": 0.97, "confidence": None},
            "recall of 0.97 on average, at least 33 questions with evidence are needed; got 30$",
        ),
    ],
)
def test_arguments_that_are_wrong(arguments: dict[str, Any], message: str) -> None:
    corpus = corpus_of()
    search: Any = tune
    with pytest.raises(ValueError, match=message):
        search(corpus.retriever, corpus.questions, **{"target_recall": 0.7, **arguments})
    assert corpus.store.searches == []


def test_a_recall_that_is_not_reached_is_an_error() -> None:
    corpus = corpus_of(max_context_length=50)
    message = (
        r"a recall of 0\.9 cannot be promised: with irrelevant_chunk_penalty=0, .* the recall of "
        r"these 30 questions is 0\.\d{3}, by which 0\.\d{3} can be promised\. Lower the target"
    )
    with pytest.raises(ValueError, match=message):
        guarantee(corpus, 0.9)


# The result


def result_of(confidence: float | None = 0.9) -> RecallGuarantee:
    ladder = (
        Rung(0.0, 0.97, 0.94, 15_800.0),
        Rung(0.35, 0.95, 0.905, 2_900.4),
        Rung(0.4, 0.9, 0.85, 2_000.0),
    )
    return RecallGuarantee(
        changes={PENALTY: 0.35},
        target_recall=0.9,
        confidence=confidence,
        held_out=0.932,
        interval=(0.89, 0.97),
        ladder=ladder,
        questions=120,
        config=RSEConfig(irrelevant_chunk_penalty=0.35),
        hybrid=0.25,
    )


def test_a_guarantee_is_printed_as_a_sentence_and_a_table() -> None:
    expected = """
A recall of at least 0.9 is promised with confidence 0.9 by irrelevant_chunk_penalty=0.35: 0.93 [0.89, 0.97] on held-out questions of 120, with 2,900 characters a question instead of 15,800
chosen  penalty  recall  promised  characters
           0.00   0.970     0.940      15,800
   yes     0.35   0.950     0.905       2,900
           0.40   0.900     0.850       2,000
"""
    assert str(result_of()) == expected.strip()
    on_average = expected.replace("with confidence 0.9 by", "on average by")
    assert str(result_of(None)) == on_average.strip()


def test_the_summary_is_json() -> None:
    result = result_of()
    summary = json.loads(json.dumps(result.to_dict()))
    assert summary == {
        "changes": {PENALTY: 0.35},
        "target_recall": 0.9,
        "confidence": 0.9,
        "held_out": 0.932,
        "interval": [0.89, 0.97],
        "ladder": [list(rung) for rung in result.ladder],
        "questions": 120,
        "config": result.config.model_dump(),
        "hybrid": 0.25,
    }


def test_the_settings_are_saved(tmp_path: Path) -> None:
    path = tmp_path / "promised.json"
    result_of().to_file(path)
    assert read_settings(path) == {"config": result_of().config, "hybrid": 0.25}
