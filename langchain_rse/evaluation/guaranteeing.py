"""`tune` with a target: the least text with which a recall of evidence can be promised.

The penalties of a ladder are tried, from the most text to the least. The loss of a question is the
share of its evidence that is missing, and counts as at least the loss with more text. Conformal
risk control (Angelopoulos et al., arXiv 2208.02814; for retrieval, arXiv 2511.17908) then bounds
the loss that is expected of a new question, and the bound of Chernoff and Hoeffding the one that
holds with a probability (Bates et al., arXiv 2101.02703). Both assume that the questions and new
ones are drawn alike.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from langchain_rse.config import Hybrid, QuerySettings, RSEConfig, settings_of_call
from langchain_rse.engine import Floats
from langchain_rse.evaluation.measuring import EVERYTHING, Figures
from langchain_rse.evaluation.questions import Question
from langchain_rse.evaluation.reports import bootstrap
from langchain_rse.evaluation.trying import (
    Changes,
    SettingsTable,
    draw_folds,
    try_settings,
    with_changes,
)
from langchain_rse.retriever import RSERetriever

PENALTIES = tuple(step / 20 for step in range(19))
"""The ladder: values of ``irrelevant_chunk_penalty`` from 0 to 0.9, the most text first."""

CONFIDENCE = 0.9
"""The probability of a promise by default."""

_BISECTIONS = 60
_ROUNDING = 1e-9  # errors of floating point up to which numbers are equal


class Rung(NamedTuple):
    """A penalty that was tried, with means over the questions."""

    penalty: float
    recall: float
    promised: float  # the recall that can be promised with this penalty
    characters: float  # returned for a question


@dataclass(frozen=True, eq=False)
class RecallGuarantee(SettingsTable):
    """Result of `tune` with ``target_recall``; printed, the promise and a table of the penalties.

    The promise is about new questions that are drawn as these were, with the same documents and
    settings:

    - The mean recall of new questions, over draws of them and of the questions that the penalty was
      chosen by, is at least ``target_recall``.
    - With a ``confidence``, in addition: for at most ``1 - confidence`` of the draws of questions
      to choose by, a penalty is returned whose mean recall of new questions is lower.

    Where no penalty keeps the promise, `tune` raises an error.

    Attributes:
        changes: The penalty, as for ``retriever.model_copy(update=guarantee.changes)``.
        target_recall: The recall that is promised.
        confidence: The probability of the promise; None if it holds on average only.
        held_out: The recall of held-out questions, by cross-validation; expect it for new ones.
        interval: Ends of its 95 % bootstrap interval.
        ladder: The penalties that were tried, from the most text to the least.
        questions: The number of questions with evidence.
        config: The retriever's config with ``changes``.
        hybrid: The weight of the full-text index that the retriever had.
    """

    changes: Changes
    target_recall: float
    confidence: float | None
    held_out: float
    interval: tuple[float, float]
    ladder: tuple[Rung, ...]
    questions: int
    config: RSEConfig
    hybrid: Hybrid

    @property
    def chosen(self) -> Rung:
        """The rung of the ladder that was chosen."""
        penalty = self.changes["irrelevant_chunk_penalty"]
        (chosen,) = (rung for rung in self.ladder if rung.penalty == penalty)
        return chosen

    def _title(self) -> str:
        chosen = self.chosen
        low, high = self.interval
        certainty = "on average"
        if self.confidence is not None:
            certainty = f"with confidence {self.confidence:g}"
        return (
            f"A recall of at least {self.target_recall:g} is promised {certainty} by "
            f"irrelevant_chunk_penalty={chosen.penalty:g}: {self.held_out:.2f} "
            f"[{low:.2f}, {high:.2f}] on held-out questions of {self.questions}, with "
            f"{chosen.characters:,.0f} characters a question instead of "
            f"{self.ladder[0].characters:,.0f}"
        )

    def _columns(self) -> dict[str, list[str]]:
        return {
            "chosen": ["yes" if rung == self.chosen else "" for rung in self.ladder],
            "penalty": [f"{rung.penalty:.2f}" for rung in self.ladder],
            "recall": [f"{rung.recall:.3f}" for rung in self.ladder],
            "promised": [f"{rung.promised:.3f}" for rung in self.ladder],
            "characters": [f"{rung.characters:,.0f}" for rung in self.ladder],
        }


def guarantee_recall(
    retriever: RSERetriever,
    questions: tuple[Question, ...],
    *,
    target_recall: float,
    confidence: float | None,
    seed: int,
    show_progress: bool,
    query_arguments: Mapping[str, Any],
) -> RecallGuarantee:
    """Choose the greatest penalty with which the target can be promised; `tune` says the rest."""
    settings_of_rungs = []
    for penalty in PENALTIES:
        # A TypeError if the caller has given the penalty as well.
        arguments = dict(**query_arguments, irrelevant_chunk_penalty=penalty)
        settings_of_rungs.append(with_changes(settings_of_call(retriever, arguments), {}))
    _check_count(questions, target_recall, confidence)
    figures = try_settings(
        retriever,
        questions,
        [[settings] for settings in settings_of_rungs],
        (EVERYTHING,),  # all that is returned counts
        show_progress=show_progress,
    )
    recalls = figures[:, :, 0, Figures._fields.index("recall")]
    characters = figures[:, :, 0, Figures._fields.index("characters")]
    promised = promised_recalls(1 - recalls, recalls.shape[1], confidence)
    means = (recalls.mean(axis=1), promised, characters.mean(axis=1))
    rows = zip(PENALTIES, *(column.tolist() for column in means), strict=True)
    ladder = tuple(Rung(*row) for row in rows)
    chosen = choose_rung(promised, target_recall)
    if chosen is None:
        raise ValueError(_say_what_is_reached(ladder[0], recalls.shape[1], target_recall))
    held_out = _cross_validate(recalls, target_recall, confidence, seed)
    low, high = bootstrap(held_out[:, None])[0].tolist()
    settings: QuerySettings = settings_of_rungs[chosen]
    return RecallGuarantee(
        changes={"irrelevant_chunk_penalty": ladder[chosen].penalty},
        target_recall=target_recall,
        confidence=confidence,
        held_out=float(held_out.mean()),
        interval=(low, high),
        ladder=ladder,
        questions=len(held_out),
        config=settings.config,
        hybrid=settings.hybrid,
    )


def promised_recalls(losses: Floats, count: int, confidence: float | None) -> Floats:
    """Compute the recall that can be promised for each rung of a ladder.

    Args:
        losses: One minus the recall of each question; shape ``(rungs, questions)``, the rung with
            the most text first.
        count: The number of questions that the promise is made by.
        confidence: The probability of the promise, or None for a promise on average.

    Returns:
        Shape ``(rungs,)``; no value is above an earlier one.
    """
    ascending = np.maximum.accumulate(losses, axis=0)
    mean_losses = ascending.mean(axis=1)
    expected_losses = (count * mean_losses + 1) / (count + 1)  # a new question may lose all
    if confidence is None:
        return np.asarray(1 - expected_losses)
    likely_losses = [
        _bound_mean(mean_loss, count, confidence) for mean_loss in mean_losses.tolist()
    ]
    return np.asarray(1 - np.maximum(expected_losses, likely_losses))


def choose_rung(promised: Floats, target_recall: float) -> int | None:
    """Choose the last rung before which, and on which, the target is promised; None without one."""
    is_kept = promised >= target_recall - _ROUNDING
    if is_kept.all():
        return len(is_kept) - 1
    first_broken = int(is_kept.argmin())
    return first_broken - 1 if first_broken else None


def fewest_questions(target_recall: float, confidence: float | None) -> int:
    """The number of questions from which a recall can be promised if all evidence is returned."""
    on_average = target_recall / (1 - target_recall)
    if confidence is None:
        return math.ceil(on_average - _ROUNDING)
    likely = math.log(1 - confidence) / math.log(target_recall)
    return math.ceil(max(on_average, likely) - _ROUNDING)


def _bound_mean(mean: float, count: int, confidence: float) -> float:
    """The upper confidence bound of the mean of values in [0, 1], by their mean in a sample.

    If the true mean were above the bound, a sample's mean would be this small with a probability of
    at most ``1 - confidence``, by the inequality of Chernoff and Hoeffding.
    """
    most_divergence = -math.log(1 - confidence) / count
    low, high = mean, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _divergence(mean, middle) <= most_divergence:
            low = middle
        else:
            high = middle
    return high


def _divergence(first: float, second: float) -> float:
    """The Kullback-Leibler divergence of two probabilities, of which the second is the greater."""
    divergence = 0.0
    if first > 0:
        divergence += first * math.log(first / second)
    if first < 1:
        if second == 1:
            return math.inf
        divergence += (1 - first) * math.log((1 - first) / (1 - second))
    return divergence


def _check_count(
    questions: Sequence[Question], target_recall: float, confidence: float | None
) -> None:
    """Raise a ValueError if there are too few questions for any promise."""
    count = sum(not question.is_unanswerable for question in questions)
    needed = fewest_questions(target_recall, confidence)
    if count >= needed:
        return
    certainty = "on average" if confidence is None else f"with confidence {confidence:g}"
    message = (
        f"to promise a recall of {target_recall:g} {certainty}, at least {needed} questions with "
        f"evidence are needed; got {count}"
    )
    if confidence is not None:
        on_average = fewest_questions(target_recall, None)
        message += f". On average, with confidence=None, it can be promised from {on_average}"
    raise ValueError(message)


def _say_what_is_reached(first: Rung, count: int, target_recall: float) -> str:
    return (
        f"a recall of {target_recall:g} cannot be promised: with irrelevant_chunk_penalty=0, all "
        f"the text that max_context_length has room for, the recall of these {count} questions is "
        f"{first.recall:.3f}, by which {first.promised:.3f} can be promised. Lower the "
        "target or the confidence, raise max_context_length, or give more questions"
    )


def _cross_validate(
    recalls: Floats, target_recall: float, confidence: float | None, seed: int
) -> Floats:
    """Measure each question with the rung that is chosen by the other folds; ``(questions,)``.

    The other folds are judged as if they were as many questions as all, and the first rung is taken
    where they do not allow the promise.
    """
    count = recalls.shape[1]
    held_out = np.empty(count)
    for is_held_out in draw_folds(count, seed):
        promised = promised_recalls(1 - recalls[:, ~is_held_out], count, confidence)
        chosen = choose_rung(promised, target_recall) or 0
        held_out[is_held_out] = recalls[chosen, is_held_out]
    return held_out
