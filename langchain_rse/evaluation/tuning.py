"""`tune`: searches for better parameters of an RSERetriever, and measures what they gain."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from langchain_core.documents import Document
from langchain_core.stores import InMemoryBaseStore
from pydantic import BaseModel, ConfigDict, Field, InstanceOf, NonNegativeInt

from langchain_rse._progress import progress_bar
from langchain_rse._sync import Steps, arun, call, compute, during, run
from langchain_rse.config import QuerySettings, RSEConfig, resolve_settings
from langchain_rse.engine import Floats
from langchain_rse.evaluation.evidence import find_evidence
from langchain_rse.evaluation.measuring import Budgets, Figures, Locator, Meter
from langchain_rse.evaluation.questions import Question
from langchain_rse.evaluation.reports import Table, bootstrap
from langchain_rse.query.pipeline import (
    Candidates,
    Sources,
    find_candidates,
    queries_of,
    retrieve,
)
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.changing import DocStore

SPACE: Mapping[str, Sequence[Any]] = {
    "irrelevant_chunk_penalty": (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.5),
    "neighbor_credit": (0.0, 0.25, 0.4, 0.5, 0.65),
    "neighbor_radius": (1, 2, 3, 4),
    "segment_cost": (0.0, 0.05, 0.1, 0.25, 0.5, 0.7),
    "decay_rate": (10.0, 15.0, 20.0, 30.0, 60.0),
    "score_credit": (0.5, 0.65, 0.8, 1.0),
    "lexical_credit": (0.0, 0.3, 0.5, 0.7, 0.9),
    "document_weight": (0.0, 0.5, 1.0),
    "name_weight": (0.0, 0.2, 0.5),
    "calibration": ("auto", "identity", "rank"),
}
"""The values of fields of `RSEConfig` that `tune` tries by default."""

_MAX_CHANGES = 4  # in a trial, so that the effect of each stays visible
_DRAWS_PER_TRIAL = 20  # at the most: a small space has fewer trials than are asked for
_MAX_PRINTED_TRIALS = 10
_FOLDS = 5

Changes = Mapping[str, Any]
"""Parameters that differ from the retriever's own, by the name of the field."""


class Trial(NamedTuple):
    """Parameters that were tried, and the mean of the metric over questions and budgets."""

    changes: Changes  # the parameters that differ from the retriever's own
    score: float


@dataclass(frozen=True, eq=False)
class Tuning(Table):
    """Result of `tune`; printed, a table of the best trials.

    Attributes:
        changes: The best parameters that differ from the retriever's own, as for
            ``retriever.model_copy(update=tuning.changes)``; empty if the search gained nothing on
            held-out questions.
        metric: The metric that was maximized.
        start: The score of the retriever's own parameters.
        held_out: The score on held-out questions, by cross-validation; expect it for new questions.
        gain: ``held_out`` minus ``start``.
        interval: Ends of the gain's 95 % bootstrap interval.
        trials: All trials, the best first, with scores from the questions they were chosen by.
        questions: The number of questions.
        config: The retriever's config with ``changes``.
        hybrid: The share of lexical relevance that all trials had.
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
    hybrid: float

    def to_file(self, path: str | os.PathLike[str]) -> None:
        """Write ``config`` and ``hybrid`` to a file, see `RSEConfig.to_file`."""
        self.config.to_file(path, hybrid=self.hybrid)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as values that JSON has."""
        return {**super().to_dict(), "config": self.config.model_dump()}

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


class _Arguments(BaseModel):
    """The arguments of `tune`, checked."""

    model_config = ConfigDict(title="arguments")

    retriever: InstanceOf[RSERetriever]
    questions: Annotated[tuple[InstanceOf[Question], ...], Field(min_length=2)]
    budgets: Budgets
    metric: Literal["recall", "precision", "iou"]
    space: Mapping[str, Sequence[Any]]
    trials: Annotated[int, Field(ge=2)]
    seed: NonNegativeInt
    show_progress: bool
    query_arguments: dict[str, Any]

    def settings_of(self, changes: Changes) -> list[QuerySettings]:
        """Return the settings of a query for each budget, with the changes of a trial."""
        values = {**self.query_arguments, **changes}
        settings = []
        for budget in self.budgets:
            # A TypeError if the caller has given the budget as well.
            own = dict(**values, max_context_length=budget, length_function=len)
            settings.append(resolve_settings(self.retriever, own))
        return settings


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
        questions: The questions with their evidence, at least two.
        budgets: The numbers of characters that may be returned, each at least 1.
        metric: The metric to maximize: ``"recall"``, ``"precision"`` or ``"iou"``; see `Report`.
        space: Values to try, by the name of a field of `RSEConfig`.
        trials: How many sets of parameters to try, at least 2.
        seed: Seed of trials and folds: the same seed gives the same result.
        show_progress: Show a progress bar; needs tqdm.
        **arguments: Passed to each query, such as ``filter`` or ``k``.

    Raises:
        ValueError: If an argument is out of its range or evidence is not in its document.
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
            "seed": seed,
            "show_progress": show_progress,
            "query_arguments": arguments,
        }
    )
    return run(_tune(checked))


async def atune(
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
    """Like `tune`, async."""
    checked = _Arguments.model_validate(
        {
            "retriever": retriever,
            "questions": questions,
            "budgets": budgets,
            "metric": metric,
            "space": space,
            "trials": trials,
            "seed": seed,
            "show_progress": show_progress,
            "query_arguments": arguments,
        }
    )
    return await arun(_tune(checked))


def _tune(arguments: _Arguments) -> Steps[Tuning]:
    """Draw the trials, score them on all questions, and choose the best."""
    own_config = arguments.settings_of({})[0].config
    space = _without_own_values(arguments.space, own_config)
    trials = _draw_trials(space, arguments.trials, arguments.seed)
    scores = yield from _score_trials(trials, arguments)
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


def _score_trials(trials: Sequence[Changes], arguments: _Arguments) -> Steps[Floats]:
    """Compute the mean of the metric over the budgets; shape ``(trials, questions)``."""
    # An invalid value raises its error here, before any search.
    settings_of_trials = [arguments.settings_of(changes) for changes in trials]
    questions = yield from find_evidence(arguments.questions, arguments.retriever, sources=None)
    search = _Search(arguments.retriever)
    meter = Meter(arguments.budgets, Locator(sources={}))
    metric = Figures._fields.index(arguments.metric)
    scores = np.empty((len(trials), len(questions)))
    with progress_bar(
        len(trials), unit="trials", title="Tuning", show=arguments.show_progress
    ) as advance:
        candidates = yield from _find_candidates(search, questions, settings_of_trials[0][0])
        for row, settings in enumerate(settings_of_trials):
            for column, question in enumerate(questions):
                query = question.question
                answers = yield from search.select(query, candidates[column], settings)
                yield from meter.read_digests(search.docstore, question, answers)
                # In a thread, so that async code yields to the event loop here.
                figures = yield from compute(meter.measure, question, answers)
                scores[row, column] = np.mean(figures, axis=0)[metric]
            advance(1)
    return scores


def _find_candidates(
    search: "_Search", questions: Sequence[Question], settings: QuerySettings
) -> Steps[list[Candidates]]:
    """Find the candidates of each question."""
    candidates = []
    for number, question in enumerate(questions, 1):
        with during(f"asking question {number}"):
            candidates_of_question = yield from search.find(question.question, settings)
        candidates.append(candidates_of_question)
    return candidates


class _Search:
    """Finds the candidates of a query once, and selects segments from them for each trial.

    `tune` calls the query pipeline here only.
    """

    def __init__(self, retriever: RSERetriever) -> None:
        self.docstore = _CachedDocStore(retriever.docstore)
        self._sources = Sources(retriever.vectorstore, retriever.base_retriever, retriever.docstore)

    def find(self, question: str, settings: QuerySettings) -> Steps[Candidates]:
        """Search and rerank."""
        queries = yield from queries_of(question, settings, None)
        return (yield from find_candidates(self._sources, queries, settings))

    def select(
        self, query: str, candidates: Candidates, settings: Sequence[QuerySettings]
    ) -> Steps[list[list[Document]]]:
        """Make an answer of the candidates for each of the settings."""
        sources = self._sources._replace(docstore=self.docstore)
        answers = []
        for each in settings:
            answer = yield from retrieve(sources, query, each, candidates=candidates)
            answers.append(answer)
        return answers


class _CachedDocStore(InMemoryBaseStore[Any]):
    """Keeps the records of a docstore, since all trials read the same few documents."""

    def __init__(self, docstore: DocStore) -> None:
        super().__init__()
        self._docstore = docstore

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        return run(self._read(keys))

    async def amget(self, keys: Sequence[str]) -> list[Document | None]:
        return await arun(self._read(keys))

    def _read(self, keys: Sequence[str]) -> Steps[list[Document | None]]:
        missing_keys = [key for key in dict.fromkeys(keys) if key not in self.store]
        if missing_keys:
            records = yield from call(self._docstore.mget, self._docstore.amget, missing_keys)
            self.store.update(zip(missing_keys, records, strict=True))
        return [self.store[key] for key in keys]


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
    folds = np.random.default_rng(seed).permutation(count) % min(_FOLDS, count)
    held_out = np.empty(count)
    for fold in range(folds.max() + 1):
        is_held_out = folds == fold
        best = int(scores[:, ~is_held_out].mean(axis=1).argmax())  # the first of equals
        held_out[is_held_out] = scores[best, is_held_out]
    return held_out
