"""`tune`: searches for better parameters of an RSERetriever, and measures what they gain.

With a target of recall, `guaranteeing` chooses the parameters.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, overload

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, InstanceOf, NonNegativeInt, model_validator
from typing_extensions import Self

from langchain_rse._sync import in_thread
from langchain_rse.config import Hybrid, QuerySettings, RSEConfig, settings_of_call
from langchain_rse.engine import Floats
from langchain_rse.evaluation.guaranteeing import CONFIDENCE, RecallGuarantee, guarantee_recall
from langchain_rse.evaluation.measuring import Budgets, Figures
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

BUDGETS = (4_000, 8_000, 16_000)
"""The numbers of characters within which `tune` measures by default."""

_TRIALS = 100
_MAX_CHANGES = 4  # in a trial, so that the effect of each stays visible
_DRAWS_PER_TRIAL = 20  # at the most: a small space has fewer trials than are asked for
_MAX_PRINTED_TRIALS = 10


class Trial(NamedTuple):
    """Parameters that were tried, and the mean of the metric over questions and budgets."""

    changes: Changes  # the parameters that differ from the retriever's own
    score: float


@dataclass(frozen=True, eq=False)
class Tuning(SettingsTable):
    """Result of `tune`; printed, a table of the best trials.

    Attributes:
        changes: The best parameters that differ from the retriever's own; empty if the search
            gained nothing on held-out questions.
        metric: The metric that was maximized.
        start: The score of the retriever's own parameters.
        held_out: The score on held-out questions, by cross-validation; expect it for new questions.
        gain: ``held_out`` minus ``start``.
        interval: Ends of the gain's 95 % bootstrap interval.
        trials: All trials, the best first, with scores from the questions they were chosen by.
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

    def _title(self) -> str:
        low, high = self.interval
        if self.gain <= 0:
            advice = "Keep the retriever's parameters"
        elif low < 0:
            advice = "The interval includes 0: decide with more questions"
        else:
            advice = "Use the first trial"
        return (
            f"{self.metric} of {self.questions} questions: {self.start:.3f}; tuned, on held-out "
            f"questions: {self.held_out:.3f}, gain {self.gain:+.3f} [{low:+.3f}, {high:+.3f}]. "
            f"{advice}"
        )

    def _columns(self) -> dict[str, list[str]]:
        best_trials = self.trials[:_MAX_PRINTED_TRIALS]
        return {
            "score": [f"{trial.score:.3f}" for trial in best_trials],
            "changes": [_format_changes(trial.changes) for trial in best_trials],
        }


def _format_changes(changes: Changes) -> str:
    if not changes:
        return "(none)"
    return ", ".join(f"{name}={value}" for name, value in changes.items())


_Probability = Annotated[float, Field(gt=0, lt=1)]


class _Arguments(BaseModel):
    """The arguments of `tune`, checked."""

    model_config = ConfigDict(title="arguments")

    retriever: InstanceOf[RSERetriever]
    questions: Annotated[tuple[InstanceOf[Question], ...], Field(min_length=2)]
    budgets: Budgets
    metric: Literal["recall", "precision", "iou"]
    space: Mapping[str, Sequence[Any]]
    trials: Annotated[int, Field(ge=2)]
    target_recall: _Probability | None
    confidence: _Probability | None
    seed: NonNegativeInt
    show_progress: bool
    query_arguments: dict[str, Any]

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if self.target_recall is None:
            if self.confidence != CONFIDENCE:
                raise ValueError("confidence is that of target_recall: give both")
            return self
        if self.budgets != BUDGETS:
            raise ValueError(
                "budgets cannot be given with target_recall, which measures within the retriever's "
                "max_context_length: give that instead"
            )
        if (self.metric, self.space, self.trials) != ("recall", SPACE, _TRIALS):
            raise ValueError(
                "metric, space and trials cannot be given with target_recall, which changes "
                "irrelevant_chunk_penalty only"
            )
        return self

    def settings_of(self, changes: Changes) -> list[QuerySettings]:
        """Return the settings of a query for each budget, with the changes of a trial."""
        settings_of_budgets = []
        for budget in self.budgets:
            # A TypeError if the caller has given the budget as well.
            arguments = dict(**self.query_arguments, max_context_length=budget, length_function=len)
            settings = settings_of_call(self.retriever, arguments)
            settings_of_budgets.append(with_changes(settings, changes))
        return settings_of_budgets


@overload
def tune(
    retriever: RSERetriever,
    questions: Iterable[Question],
    budgets: Iterable[int] = BUDGETS,
    *,
    metric: str = "recall",
    space: Mapping[str, Sequence[Any]] = SPACE,
    trials: int = _TRIALS,
    target_recall: None = None,
    seed: int = 0,
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - the retriever's own
) -> Tuning: ...


@overload
def tune(
    retriever: RSERetriever,
    questions: Iterable[Question],
    *,
    target_recall: float,
    confidence: float | None = CONFIDENCE,
    seed: int = 0,
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - the retriever's own
) -> RecallGuarantee: ...


def tune(
    retriever: RSERetriever,
    questions: Iterable[Question],
    budgets: Iterable[int] = BUDGETS,
    *,
    metric: str = "recall",
    space: Mapping[str, Sequence[Any]] = SPACE,
    trials: int = _TRIALS,
    target_recall: float | None = None,
    confidence: float | None = CONFIDENCE,
    seed: int = 0,
    show_progress: bool = False,
    **arguments: Any,
) -> Tuning | RecallGuarantee:
    """Search for parameters that return more of the evidence within budgets of text.

    The search is random: each trial changes one to four of the retriever's own parameters. The
    vector store, the reranker and ``query_generator`` are called once per question. The gain is
    measured by cross-validation: the best trial on four fifths of the questions is scored on the
    others. With ``metric="recall"`` a smaller penalty never hurts, because text that is not
    evidence costs nothing; ``"iou"`` and ``"precision"`` reward segments that fit the evidence.

    With ``target_recall``, only ``irrelevant_chunk_penalty`` is changed, to the greatest with which
    this recall can be promised within ``max_context_length``, see `RecallGuarantee`.

    Args:
        retriever: The retriever to tune. It is not changed.
        questions: The questions, at least two with evidence; those without an answer do not count.
        budgets: The numbers of characters that may be returned, each at least 1.
        metric: The metric to maximize: ``"recall"``, ``"precision"`` or ``"iou"``; see `Report`.
        space: Values to try, by the name of a field of `RSEConfig`.
        trials: How many sets of parameters to try, at least 2.
        target_recall: A recall to promise, between 0 and 1, instead of a search.
        confidence: The probability of the promise; None for one that holds on average, for which
            less text and fewer questions are enough.
        seed: Seed of trials and folds: the same seed gives the same result.
        show_progress: Show a progress bar; needs tqdm.
        **arguments: Passed to each query, such as ``filter`` or ``k``.

    Raises:
        ValueError: If an argument is out of its range, evidence is not in its document, or the
            recall cannot be promised.
        MissingRecordError: If the docstore lacks a document, unless ``on_missing="split"``.
    """
    checked = _Arguments.model_validate(
        {
            "retriever": retriever,
            "questions": questions,
            "budgets": budgets,
            "metric": metric,
            "space": space,
            "trials": trials,
            "target_recall": target_recall,
            "confidence": confidence,
            "seed": seed,
            "show_progress": show_progress,
            "query_arguments": arguments,
        }
    )
    return _choose_settings(checked)


@overload
async def atune(
    retriever: RSERetriever,
    questions: Iterable[Question],
    budgets: Iterable[int] = BUDGETS,
    *,
    metric: str = "recall",
    space: Mapping[str, Sequence[Any]] = SPACE,
    trials: int = _TRIALS,
    target_recall: None = None,
    seed: int = 0,
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - the retriever's own
) -> Tuning: ...


@overload
async def atune(
    retriever: RSERetriever,
    questions: Iterable[Question],
    *,
    target_recall: float,
    confidence: float | None = CONFIDENCE,
    seed: int = 0,
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - the retriever's own
) -> RecallGuarantee: ...


async def atune(
    retriever: RSERetriever,
    questions: Iterable[Question],
    budgets: Iterable[int] = BUDGETS,
    *,
    metric: str = "recall",
    space: Mapping[str, Sequence[Any]] = SPACE,
    trials: int = _TRIALS,
    target_recall: float | None = None,
    confidence: float | None = CONFIDENCE,
    seed: int = 0,
    show_progress: bool = False,
    **arguments: Any,
) -> Tuning | RecallGuarantee:
    """Like `tune`, async."""
    checked = _Arguments.model_validate(
        {
            "retriever": retriever,
            "questions": questions,
            "budgets": budgets,
            "metric": metric,
            "space": space,
            "trials": trials,
            "target_recall": target_recall,
            "confidence": confidence,
            "seed": seed,
            "show_progress": show_progress,
            "query_arguments": arguments,
        }
    )
    return await in_thread(_choose_settings, checked)


def _choose_settings(arguments: _Arguments) -> Tuning | RecallGuarantee:
    """Search, or promise a recall."""
    if arguments.target_recall is None:
        return _tune(arguments)
    return guarantee_recall(
        arguments.retriever,
        arguments.questions,
        target_recall=arguments.target_recall,
        confidence=arguments.confidence,
        seed=arguments.seed,
        show_progress=arguments.show_progress,
        query_arguments=arguments.query_arguments,
    )


def _tune(arguments: _Arguments) -> Tuning:
    """Draw the trials, score them on all questions, and choose the best."""
    own_config = arguments.settings_of({})[0].config
    space = _without_own_values(arguments.space, own_config)
    trials = _draw_trials(space, arguments.trials, arguments.seed)
    scores = _score_trials(trials, arguments)
    return _choose(trials, scores, arguments)


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


def _score_trials(trials: Sequence[Changes], arguments: _Arguments) -> Floats:
    """Compute the mean of the metric over the budgets; shape ``(trials, questions)``."""
    # An invalid value raises its error here, before any search.
    settings_of_trials = [arguments.settings_of(changes) for changes in trials]
    figures = try_settings(
        arguments.retriever,
        arguments.questions,
        settings_of_trials,
        arguments.budgets,
        show_progress=arguments.show_progress,
    )
    by_budget = figures[..., Figures._fields.index(arguments.metric)]
    return np.asarray(by_budget.mean(axis=2))


def _choose(trials: Sequence[Changes], scores: Floats, arguments: _Arguments) -> Tuning:
    """Choose the best trial by scores of shape ``(trials, questions)``; estimate its gain."""
    held_out = _cross_validate(scores, arguments.seed)
    gains = held_out - scores[0]
    low, high = bootstrap(gains[:, None])[0].tolist()
    means = scores.mean(axis=1)
    best_first = np.argsort(-means, kind="stable").tolist()
    changes: Changes = {}
    if gains.mean() > 0:
        changes = trials[best_first[0]]
    settings = arguments.settings_of(changes)[0]
    return Tuning(
        changes=changes,
        metric=arguments.metric,
        start=float(means[0]),
        held_out=float(held_out.mean()),
        gain=float(gains.mean()),
        interval=(low, high),
        trials=tuple(Trial(trials[row], float(means[row])) for row in best_first),
        questions=len(held_out),
        config=settings.config,
        hybrid=settings.hybrid,
    )


def _cross_validate(scores: Floats, seed: int) -> Floats:
    """Score each question by the trial that is best on the other folds; shape ``(questions,)``."""
    count = scores.shape[1]
    held_out = np.empty(count)
    for is_held_out in draw_folds(count, seed):
        best = int(scores[:, ~is_held_out].mean(axis=1).argmax())  # the first of equals
        held_out[is_held_out] = scores[best, is_held_out]
    return held_out
