"""`tune`: searches for better parameters of an RSERetriever, and measures what they gain."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from langchain_rse._progress import progress_bar
from langchain_rse._sync import as_async, during, run
from langchain_rse.config import Hybrid, QuerySettings, RSEConfig, settings_of_call
from langchain_rse.engine import Floats
from langchain_rse.evaluation.evidence import access_of, find_evidence
from langchain_rse.evaluation.measuring import Figures, Locator, Meter, check_budgets
from langchain_rse.evaluation.reports import as_values, bootstrap
from langchain_rse.query.trying import try_settings
from langchain_rse.questions import Question
from langchain_rse.retriever import RSERetriever
from langchain_rse.text.quoting import counted

SPACE: Mapping[str, Sequence[Any]] = {
    "irrelevant_chunk_penalty": (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.5),
    "neighbor_weight": (0.0, 0.25, 0.4, 0.5, 0.65),
    "neighbor_radius": (1, 2, 3, 4),
    "segment_cost": (0.0, 0.05, 0.1, 0.25, 0.5, 0.7),
    "decay_rate": (10.0, 15.0, 20.0, 30.0, 60.0),
    "vector_weight": (0.5, 0.65, 0.8, 1.0),
    "lexical_weight": (0.0, 0.3, 0.5, 0.7, 0.9),
    "document_weight": (0.0, 0.5, 1.0),
    "name_weight": (0.0, 0.2, 0.5),
    "calibration": ("auto", "identity", "rank"),
}
"""The values of fields of `RSEConfig` that `tune` tries by default."""

METRICS = ("recall", "precision", "iou")
"""The metrics that `tune` may maximize."""

Changes = Mapping[str, Any]
"""Fields of `RSEConfig` that differ from the retriever's own, by their names."""

_MAX_CHANGES = 4  # in a trial, so that the effect of each stays visible
_DRAWS_PER_TRIAL = 20  # at the most: a small space has fewer trials than are asked for
_MAX_PRINTED_TRIALS = 10
_FOLDS = 5


class Trial(NamedTuple):
    """Parameters that were tried, and the mean of the metric over questions and budgets."""

    changes: Changes  # the parameters that differ from the retriever's own
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """Result of `tune`; printed, a table of the best trials.

    Attributes:
        changes: The best parameters that differ from the retriever's own; empty if the search
            gained nothing on held-out questions.
        metric: The metric that was maximized.
        start: The score of the retriever's own parameters.
        held_out: The score on held-out questions, by cross-validation; expect it for new questions.
        gain: ``held_out`` minus ``start``.
        interval: Ends of the gain's 95 % bootstrap interval.
        trials: All trials, the best first, with scores from the questions they were chosen by;
            ``pandas.DataFrame(tuning.trials)`` is a table of them.
        questions: The number of questions.
        config: The retriever's config and penalty with ``changes``, as for
            ``RSERetriever(..., config=tuning.config)``.
        hybrid: The weight of the full-text index that all trials had.
    """

    changes: Changes
    metric: str
    start: float
    held_out: float
    gain: float
    interval: tuple[float, float]
    trials: tuple[Trial, ...]
    questions: int
    config: RSEConfig
    hybrid: Hybrid

    def to_file(self, path: str | os.PathLike[str]) -> None:
        """Write ``config`` and ``hybrid`` to a file, see `RSEConfig.to_file`."""
        self.config.to_file(path, hybrid=self.hybrid)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as values that JSON has."""
        return {**as_values(self), "config": self.config.model_dump()}

    def __repr__(self) -> str:
        low, high = self.interval
        if self.gain <= 0:
            advice = "Keep the retriever's parameters"
        elif low < 0:
            advice = "The interval includes 0: decide with more questions"
        else:
            advice = "Use the first trial"
        questions = counted(self.questions, "question")
        title = (
            f"{self.metric} of {questions}: {self.start:.3f}; tuned, on held-out questions: "
            f"{self.held_out:.3f}, gain {self.gain:+.3f} [{low:+.3f}, {high:+.3f}]. {advice}"
        )
        lines = [title, "score  changes"]
        for changes, score in self.trials[:_MAX_PRINTED_TRIALS]:
            changed = ", ".join(f"{name}={value}" for name, value in changes.items())
            lines.append(f"{score:.3f}  {changed or '(none)'}")
        return "\n".join(lines)


def tune(
    retriever: RSERetriever,
    questions: Iterable[Question],
    budgets: Iterable[int] = (4_000, 8_000, 16_000),
    *,
    metric: str = "recall",
    space: Mapping[str, Sequence[Any]] = SPACE,
    trials: int = 100,
    seed: int = 0,
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - the retriever's own
) -> Tuning:
    """Search for parameters that return more of the evidence within budgets of text.

    The search is random: each trial changes one to four of the retriever's own parameters. The
    vector store, the reranker and ``query_generator`` are called once per question. The gain is
    measured by cross-validation: the best trial on four fifths of the questions is scored on the
    others. With ``metric="recall"`` a smaller penalty never hurts, because text that is not
    evidence costs nothing; ``"iou"`` and ``"precision"`` reward segments that fit the evidence.

    Args:
        retriever: The retriever to tune. It is not changed.
        questions: The questions, at least two with evidence; those without an answer do not count.
        budgets: The numbers of characters that may be returned, each at least 1.
        metric: The metric to maximize: ``"recall"``, ``"precision"`` or ``"iou"``; see `Report`.
        space: Values to try, by the name of a field of `RSEConfig`.
        trials: How many sets of parameters to try, at least 2.
        seed: Seed of trials and folds: the same seed gives the same result.
        show_progress: Show a progress bar; needs tqdm.
        **arguments: Passed to each query, such as ``filter`` or ``k``.

    Raises:
        ValueError: If an argument is out of its range, or evidence is not in its document.
        MissingRecordError: If the docstore lacks a document, unless ``on_missing="split"``.
    """
    if not isinstance(retriever, RSERetriever):
        raise TypeError(f"retriever must be an RSERetriever; got {retriever!r:.80}")
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)}; got {metric!r}")
    for name, value, least in (("trials", trials, 2), ("seed", seed, 0)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}; got {value!r}")
    ascending = check_budgets(budgets)
    located = find_evidence(questions, retriever)
    numbered = [each for each in enumerate(located, 1) if not each[1].is_unanswerable]
    if len(numbered) <= 1:
        raise ValueError(f"at least two questions must have evidence, not {len(numbered)}")
    own_settings = _settings_within(ascending, retriever, arguments)
    changing = _without_own_values(space, own_settings[0].config)
    changes_of_trials = _draw_trials(changing, trials, seed)
    settings = [_with_changes(own_settings, changes) for changes in changes_of_trials]
    scores = np.empty((len(settings), len(numbered)))
    meter = Meter(Locator({}), access_of(retriever))
    with progress_bar(
        len(numbered), unit="questions", title="Tuning", show=show_progress
    ) as advance:
        for column, (number, question) in enumerate(numbered):
            with during(f"asking question {number}"):
                figures = _measure(retriever, question, settings, ascending, meter)
            by_budget = figures[..., Figures._fields.index(metric)]
            scores[:, column] = by_budget.mean(axis=1)
            advance(1)
    return _choose(changes_of_trials, settings, scores, metric, seed)


atune = as_async(tune)
"""Like `tune`, async."""


def _choose(
    changes: Sequence[Changes],
    settings: Sequence[Sequence[QuerySettings]],
    scores: Floats,
    metric: str,
    seed: int,
) -> Tuning:
    """Choose the best trial by scores of shape ``(trials, questions)``; estimate its gain."""
    held_out = _cross_validate(scores, seed)
    gains = held_out - scores[0]
    low, high = bootstrap(gains[:, None])[0].tolist()
    means = scores.mean(axis=1)
    best_first = np.argsort(-means, kind="stable").tolist()
    chosen = best_first[0] if gains.mean() > 0 else 0
    return Tuning(
        changes=changes[chosen],
        metric=metric,
        start=float(means[0]),
        held_out=float(held_out.mean()),
        gain=float(gains.mean()),
        interval=(low, high),
        trials=tuple(Trial(changes[row], float(means[row])) for row in best_first),
        questions=len(gains),
        config=settings[chosen][0].config,
        hybrid=settings[chosen][0].hybrid,
    )


def _settings_within(
    budgets: Sequence[int], retriever: RSERetriever, arguments: Mapping[str, Any]
) -> list[QuerySettings]:
    """Return the settings of a query for each budget."""
    settings = []
    for budget in budgets:
        # A TypeError if the caller has given the budget as well.
        settings_of_budget = dict(**arguments, max_context_length=budget, length_function=len)
        settings.append(settings_of_call(retriever, settings_of_budget))
    return settings


def _with_changes(settings: Sequence[QuerySettings], changes: Changes) -> list[QuerySettings]:
    """Return settings with the changes of a trial; their config has the penalty that holds."""
    changed = []
    for each in settings:
        penalty = {"irrelevant_chunk_penalty": each.penalty}
        config = each.config.replace(**{**penalty, **changes})
        changed.append(settings_of_call(each, {"rse_config": config}))
    return changed


def _without_own_values(
    space: Mapping[str, Sequence[Any]], own_config: RSEConfig
) -> dict[str, list[Any]]:
    """Return the values of the space that change something, in the order of their names."""
    own_values = dict(own_config)
    changing = {}
    for name in sorted(space):
        if name not in own_values:
            raise ValueError(f"space has {name!r}, which is not a field of RSEConfig")
        values = [value for value in space[name] if value != own_values[name]]
        if values:
            changing[name] = values
    if not changing:
        raise ValueError("space has no value that differs from the retriever's own")
    return changing


def _draw_trials(space: Mapping[str, list[Any]], count: int, seed: int) -> list[Changes]:
    """Draw the changes of each trial at random; the first trial changes nothing."""
    rng = np.random.default_rng(seed)
    names = list(space)
    most_changes = min(_MAX_CHANGES, len(names))
    trials: list[Changes] = [{}]
    for _ in range(_DRAWS_PER_TRIAL * count):
        if len(trials) == count:
            break
        changed_names = rng.choice(names, rng.integers(1, most_changes + 1), replace=False)
        changes = {}
        for name in sorted(changed_names.tolist()):
            values = space[name]
            changes[name] = values[rng.integers(len(values))]
        if changes not in trials:
            trials.append(changes)
    return trials


def _measure(
    retriever: RSERetriever,
    question: Question,
    settings: Sequence[Sequence[QuerySettings]],
    budgets: Sequence[int],
    meter: Meter,
) -> Floats:
    """Measure the answers to a question; shape ``(trials, budgets, metrics)``."""
    flat = [each for settings_of_trial in settings for each in settings_of_trial]
    answers = run(try_settings(question.question, retriever.sources, flat))
    figures = np.array(meter.measure(question, answers, [*budgets] * len(settings)))
    return figures.reshape(len(settings), len(budgets), -1)


def _cross_validate(scores: Floats, seed: int) -> Floats:
    """Score each question by the trial that is best on the other folds; shape ``(questions,)``."""
    count = scores.shape[1]
    held_out = np.empty(count)
    fold_of = np.random.default_rng(seed).permutation(count) % min(_FOLDS, count)
    for fold in range(min(_FOLDS, count)):
        is_held_out = fold_of == fold
        best = int(scores[:, ~is_held_out].mean(axis=1).argmax())  # the first of equals
        held_out[is_held_out] = scores[best, is_held_out]
    return held_out
