"""`tune`: searches for better parameters of an RSERetriever, and measures what they gain."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from langchain_core.documents import Document
from langchain_core.stores import InMemoryBaseStore
from pydantic import Field, InstanceOf, NonNegativeInt

from langchain_rse._progress import progress_bar
from langchain_rse._sync import Steps, arun, call, compute, during, run
from langchain_rse.config import QuerySettings, RSEConfig, resolve_settings
from langchain_rse.engine import Floats
from langchain_rse.evaluation.evaluating import METRICS, Task
from langchain_rse.evaluation.questions import Question
from langchain_rse.evaluation.reports import Table, bootstrap
from langchain_rse.query.pipeline import Sources, find_candidates, retrieve
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.changing import DocStore

SPACE: Mapping[str, Sequence[Any]] = {
    "irrelevant_chunk_penalty": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    "neighbor_credit": (0.0, 0.25, 0.4, 0.5, 0.65),
    "neighbor_radius": (1, 2, 3, 4),
    "segment_cost": (0.0, 0.05, 0.1, 0.25, 0.5, 0.7),
    "decay_rate": (10.0, 15.0, 20.0, 30.0, 60.0),
    "lexical_credit": (0.0, 0.3, 0.5, 0.7, 0.9),
    "document_weight": (0.0, 0.5, 1.0),
    "name_weight": (0.0, 0.2, 0.5),
    "calibration": ("auto", "identity", "rank"),
}
"""The values of fields of `RSEConfig` that `tune` tries by default."""

_MOST_CHANGES = 4  # in a trial, so that the effect of each stays visible
_TRIALS_PRINTED = 10
_FOLDS = 5


class Trial(NamedTuple):
    """Parameters that were tried, and the mean of the metric over questions and budgets."""

    changes: Mapping[str, Any]  # the parameters that differ from the retriever's own
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

    changes: Mapping[str, Any]
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
        advice = "Keep the retriever's parameters"
        if self.gain > 0:
            doubt = "The interval includes 0: decide with more questions"
            advice = doubt if low < 0 else "Use the first trial"
        return (
            f"{self.metric} of {self.questions} questions: {self.start:.3f}; tuned, on held-out "
            f"questions: {self.held_out:.3f}, gain {self.gain:+.3f} [{low:+.3f}, {high:+.3f}]. "
            f"{advice}"
        )

    def _columns(self) -> dict[str, list[str]]:
        best = self.trials[:_TRIALS_PRINTED]
        changes = [
            ", ".join(f"{name}={value}" for name, value in trial.changes.items()) or "(none)"
            for trial in best
        ]
        return {"score": [f"{trial.score:.3f}" for trial in best], "changes": changes}


class _Cache(InMemoryBaseStore[Any]):
    """Caches a docstore's records, since all trials read the same few documents."""

    def __init__(self, docstore: DocStore) -> None:
        super().__init__()
        self._docstore = docstore

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        return run(self._read(keys))

    async def amget(self, keys: Sequence[str]) -> list[Document | None]:
        return await arun(self._read(keys))

    def _read(self, keys: Sequence[str]) -> Steps[list[Document | None]]:
        if missing := [key for key in dict.fromkeys(keys) if key not in self.store]:
            records = yield from call(self._docstore.mget, self._docstore.amget, missing)
            self.store.update(zip(missing, records, strict=True))
        return [self.store[key] for key in keys]


class _Search(Task):
    """The arguments of `tune`, and its steps."""

    retriever: InstanceOf[RSERetriever]
    questions: Annotated[tuple[InstanceOf[Question], ...], Field(min_length=2)]
    metric: Literal["recall", "precision", "iou"]
    space: Mapping[str, Sequence[Any]]
    trials: Annotated[int, Field(ge=2)]
    seed: NonNegativeInt

    def steps(self) -> Steps[Tuning]:
        """Draw the trials, find the candidates of each question, and score all trials."""
        trials = self._draw()
        # For each trial and budget; an invalid value raises its error before any search.
        settings = [[self._settings(changes, most) for most in self.budgets] for changes in trials]
        own = self.retriever
        sources = Sources(own.vectorstore, own.base_retriever, own.docstore, own.reranker)
        scores = np.empty((len(trials), len(self.questions)))
        with progress_bar(
            len(trials), unit="trials", title="Tuning", show=self.show_progress
        ) as advance:
            yield from self.find_evidence()
            asked = []
            for number, question in enumerate(self.questions, 1):
                with during(f"asking question {number}"):
                    found = yield from find_candidates(sources, question.question, settings[0][0])
                asked.append((question, found))
            sources = sources._replace(docstore=_Cache(own.docstore))
            for row, limits in enumerate(settings):
                for column, (question, found) in enumerate(asked):
                    answers = []
                    for each in limits:
                        answer = retrieve(sources, question.question, each, None, found)
                        answers.append((yield from answer))
                    yield from self.find_copies(sources.docstore, question, answers)
                    # In a thread, so that async code yields to the event loop here.
                    figures = yield from compute(self.measure, question, answers)
                    scores[row, column] = np.mean(figures, axis=0)[METRICS.index(self.metric)]
                advance(1)
        return self._judge(trials, scores)

    def _settings(self, changes: Mapping[str, Any], budget: int) -> QuerySettings:
        """Make the retriever's settings with the changes of a trial."""
        limits = {"max_context_length": budget, "length_function": len}
        return resolve_settings(self.retriever, dict(**{**self.arguments, **changes}, **limits))

    def _draw(self) -> list[dict[str, Any]]:
        """Draw the changes of each trial at random; the first trial changes nothing."""
        own = dict(self._settings({}, self.budgets[0]).config)
        if unknown := [name for name in self.space if name not in own]:
            raise ValueError(f"space has {unknown[0]!r}, which is not a field of RSEConfig")
        others = {
            name: [value for value in self.space[name] if value != own[name]]
            for name in sorted(self.space)
        }
        space = {name: values for name, values in others.items() if values}
        if not space:
            raise ValueError("space has no value that differs from the retriever's own")
        rng = np.random.default_rng(self.seed)
        trials: list[dict[str, Any]] = [{}]
        for _ in range(20 * self.trials):  # a small space has fewer trials than wanted
            if len(trials) == self.trials:
                break
            count = rng.integers(1, min(_MOST_CHANGES, len(space)) + 1)
            names = sorted(rng.choice([*space], count, replace=False).tolist())
            changes = {name: space[name][rng.integers(len(space[name]))] for name in names}
            if changes not in trials:
                trials.append(changes)
        return trials

    def _judge(self, trials: Sequence[Mapping[str, Any]], scores: Floats) -> Tuning:
        """Choose the best trial by scores, ``(trials, questions)``; cross-validate its gain."""
        count = scores.shape[1]
        fold = np.random.default_rng(self.seed).permutation(count) % min(_FOLDS, count)
        held_out = np.empty(count)
        for number in range(fold.max() + 1):
            inside = fold == number
            best = int(scores[:, ~inside].mean(axis=1).argmax())  # the first of equals
            held_out[inside] = scores[best, inside]
        gains = held_out - scores[0]
        low, high = bootstrap(gains[:, None])[0].tolist()
        means = scores.mean(axis=1)
        order = np.argsort(-means, kind="stable").tolist()
        changes = trials[order[0]] if gains.mean() > 0 else {}
        settings = self._settings(changes, self.budgets[0])
        return Tuning(
            changes=changes,
            metric=self.metric,
            start=float(means[0]),
            held_out=float(held_out.mean()),
            gain=float(gains.mean()),
            interval=(low, high),
            trials=tuple(Trial(trials[row], float(means[row])) for row in order),
            questions=count,
            config=settings.config,
            hybrid=settings.hybrid,
        )


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
    return run(_Search(**locals()).steps())  # all arguments, by their names


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
    return await arun(_Search(**locals()).steps())  # all arguments, by their names
