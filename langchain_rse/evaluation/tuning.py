"""`tune`: searches for better parameters of an RSERetriever, and measures their gain."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from langchain_rse._messages import Printed, check_type, progress_bar
from langchain_rse._sync import as_async, during, run
from langchain_rse.config import Hybrid, QuerySettings, RSEConfig, settings_of_call
from langchain_rse.engine import Floats
from langchain_rse.evaluation.evaluating import Meter, check_budgets
from langchain_rse.evaluation.questions import Question, access_of, find_evidence
from langchain_rse.evaluation.reports import FEWEST_QUESTIONS, bootstrap, check_metric
from langchain_rse.query.pipeline import try_settings
from langchain_rse.retriever import RSERetriever
from langchain_rse.text.quoting import counted

SPACE: Mapping[str, Sequence[Any]] = {
    "irrelevant_chunk_penalty": (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.5),
    "neighbor_weight": (0.0, 0.25, 0.4, 0.5, 0.65),
    "passage_cost": (0.0, 0.05, 0.1, 0.25, 0.5, 0.7),
    "decay_rate": (10.0, 15.0, 20.0, 30.0, 60.0),
    "vector_weight": (0.5, 0.65, 0.8, 1.0),
    "lexical_weight": (0.0, 0.3, 0.5, 0.7, 0.9),
    "document_weight": (0.0, 0.5, 1.0),
    "name_weight": (0.0, 0.2, 0.5),
    "calibration": ("auto", "identity", "rank"),
}
"""The values that `tune` tries by default, by field of `RSEConfig`."""

METRICS = ("recall", "precision", "iou")
"""The metrics that `tune` may maximize."""

Changes = Mapping[str, Any]
"""Changed fields of `RSEConfig`, by name."""

_MAX_CHANGES = 4  # per trial, to keep the effect of each change visible
_DRAWS_PER_TRIAL = 20  # a limit, because a small space may not have enough different trials
_MAX_PRINTED_TRIALS = 10
_FOLDS = 5


class Trial(NamedTuple):
    """A set of parameters and its score.

    Attributes:
        changes: The parameters that differ from the retriever's.
        score: The mean of the metric over questions and budgets.
    """

    changes: Changes
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class Tuning(Printed):
    """Result of `tune`. `print` shows a table of the best trials.

    Attributes:
        changes: The changed parameters of the best trial; empty if held-out questions show no gain.
        metric: The maximized metric.
        start: The score of the retriever's parameters.
        held_out: The cross-validated score on held-out questions; expect it for new questions.
        gain: ``held_out`` minus ``start``.
        interval: The ends of the gain's 95 % bootstrap interval.
        trials: All trials, best first, with their scores on all questions.
            ``pandas.DataFrame(tuning.trials)`` makes a table.
        questions: The number of questions.
        config: The retriever's config and penalty with ``changes``, for
            ``RSERetriever(..., config=tuning.config)``.
        hybrid: The weight of the full-text index in all trials.
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

    def __str__(self) -> str:
        low, high = self.interval
        gain = f"{self.gain:+z.3f} [{low:+z.3f}, {high:+z.3f}]"
        if self.questions < FEWEST_QUESTIONS:
            gain = f"{self.gain:+z.3f}"
            advice = "Too few questions for an interval: add some before you decide."
        elif self.gain <= 0:
            advice = "No gain on held-out questions: keep the current parameters."
        elif low < 0:
            advice = "The interval includes 0: add questions before you decide."
        else:
            advice = "Use the first trial."
        questions = counted(self.questions, "question")
        title = (
            f"{self.metric} on {questions}: {self.start:.3f} now, {self.held_out:.3f} tuned "
            f"(held-out questions), gain {gain}"
        )
        lines = [
            title,
            advice,
            "score  changes (scores on all questions, so the best look too good)",
        ]
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
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - arguments of the retriever
) -> Tuning:
    """Search for parameters that return more of the evidence within budgets of text.

    Example:
        ```python
        tuning = tune(retriever, load_questions("questions.jsonl"))
        print(tuning)
        retriever.config = tuning.config
        ```

    The search is random: each trial changes one to four parameters of the retriever. The vector
    store, the reranker and ``query_generator`` are called once per question. The gain is
    cross-validated: the best trial on four fifths of the questions is scored on the last fifth.
    With ``metric="recall"`` a lower penalty never hurts, because other text costs nothing;
    ``"iou"`` and ``"precision"`` reward passages that match the evidence.

    Args:
        retriever: The retriever to tune. It is not changed.
        questions: The questions, at least two with evidence. Unanswerable questions do not count.
        budgets: The budgets in characters, each at least 1.
        metric: The metric to maximize: ``"recall"``, ``"precision"`` or ``"iou"``; see `Report`.
        space: The values to try, by field of `RSEConfig`.
        trials: Number of parameter sets to try.
        show_progress: Show a progress bar; needs tqdm.
        **arguments: Passed to each query, such as ``filter`` or ``k``.

    Returns:
        The result: print it for a table and an advice; ``config`` has the best parameters.

    Raises:
        ValueError: If an argument is out of its range, or evidence is not in its document.
        MissingRecordError: If the docstore does not contain a document.
    """
    check_type("retriever", retriever, RSERetriever, "an RSERetriever")
    check_type("trials", trials, int, "a whole number")
    if trials < 1:
        raise ValueError(f"trials must be at least 1; got {trials}")
    check_metric(metric, METRICS)
    if "max_context_length" in arguments:
        raise ValueError("tune takes budgets=[...] instead of max_context_length")
    ascending = check_budgets(budgets)
    located = find_evidence(questions, retriever)
    numbered = [each for each in enumerate(located, 1) if not each[1].is_unanswerable]
    if len(numbered) <= 1:
        raise ValueError(f"at least two questions must have evidence; got {len(numbered)}")
    current_settings = []
    for budget in ascending:
        limits = {**arguments, "max_context_length": budget, "length_function": len}
        named = settings_of_call(retriever, limits, ("budgets", "metric", "space", "trials"))
        current_settings.append(named)
    current = current_settings[0]
    config = current.config.replace(irrelevant_chunk_penalty=current.penalty)
    changes_of_trials = _draw_trials(space, config, trials)
    settings = []  # by trial, then by budget
    for changes in changes_of_trials:
        changed = {"rse_config": config.replace(**changes)}
        settings += [settings_of_call(each, changed) for each in current_settings]
    scores = np.empty((len(changes_of_trials), len(numbered)))
    meter = Meter({}, access_of(retriever))
    sources = retriever._sources  # noqa: SLF001
    with progress_bar(
        len(numbered), unit="questions", title="Tuning", show=show_progress
    ) as advance:
        for column, (number, question) in enumerate(numbered):
            with during(f"asking question {number}"):
                answers = run(try_settings(question.question, sources, settings))
                pairs = zip(answers, ascending * len(scores), strict=True)
                values = [meter.measure(question, *pair)[metric] for pair in pairs]
            scores[:, column] = np.reshape(values, (len(scores), -1)).mean(axis=1)
            advance(1)
    return _choose(changes_of_trials, settings[:: len(ascending)], scores, metric)


atune = as_async(tune)
"""Like `tune`, async."""


def _choose(
    changes: Sequence[Changes], settings: Sequence[QuerySettings], scores: Floats, metric: str
) -> Tuning:
    """Choose the best trial by scores of shape ``(trials, questions)``; estimate its gain."""
    held_out = _cross_validate(scores)
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
        config=settings[chosen].config,
        hybrid=settings[chosen].hybrid,
    )


def _draw_trials(
    space: Mapping[str, Sequence[Any]], current_config: RSEConfig, count: int
) -> list[Changes]:
    """Draw the changes of each trial at random; the first trial changes nothing."""
    changing: dict[str, list[Any]] = {}
    for name in sorted(space):
        check_type(f"space[{name!r}]", space[name], Iterable, "a list of values to try")
        for value in space[name]:
            if current_config.replace(**{name: value}) != current_config:
                changing.setdefault(name, []).append(value)
    if not changing:
        raise ValueError("space only contains values that the retriever already uses")
    rng = np.random.default_rng(0)
    names = list(changing)
    most_changes = min(_MAX_CHANGES, len(names))
    trials: list[Changes] = [{}]
    for _ in range(_DRAWS_PER_TRIAL * count):
        if len(trials) == count:
            break
        changed_names = rng.choice(names, rng.integers(1, most_changes + 1), replace=False)
        changes = {}
        for name in sorted(changed_names.tolist()):
            values = changing[name]
            changes[name] = values[rng.integers(len(values))]
        if changes not in trials:
            trials.append(changes)
    return trials


def _cross_validate(scores: Floats) -> Floats:
    """Score each question with the best trial on the other folds; shape ``(questions,)``."""
    count = scores.shape[1]
    held_out = np.empty(count)
    fold_of = np.random.default_rng(0).permutation(count) % min(_FOLDS, count)
    for fold in range(min(_FOLDS, count)):
        is_held_out = fold_of == fold
        best = int(scores[:, ~is_held_out].mean(axis=1).argmax())  # the first of equals
        held_out[is_held_out] = scores[best, is_held_out]
    return held_out
