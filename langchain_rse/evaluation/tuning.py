"""Finding a config for your own documents, and what it really gains."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from langchain_rse._progress import Advance, progress_bar
from langchain_rse._steps import Steps, arun, compute, during, run
from langchain_rse.candidates import (
    Found,
    Hit,
    considered,
    grouped,
    is_current,
    recognize,
    with_relevance,
)
from langchain_rse.config import RSEConfig
from langchain_rse.evaluation.evaluating import Evaluation
from langchain_rse.evaluation.places import METRICS, Piece, measure
from langchain_rse.evaluation.questions import Question, whole_number
from langchain_rse.evaluation.reports import Table, bootstrap
from langchain_rse.passages import Plan, check_known
from langchain_rse.reading import Layout, read_layouts
from langchain_rse.restricting import restricted
from langchain_rse.retrievers import RSERetriever
from langchain_rse.schema import SPANS_PER_PAGE
from langchain_rse.scoring import lexical_scores
from langchain_rse.selection import Window, find_windows
from langchain_rse.settings import QuerySettings

__all__ = ["SPACE", "Trial", "Tuning", "atune", "tune"]

Floats = NDArray[np.float64]

SPACE: Mapping[str, Sequence[Any]] = MappingProxyType(
    {
        "irrelevant_chunk_penalty": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
        "neighbor_credit": (0.0, 0.25, 0.4, 0.5, 0.65),
        "neighbor_radius": (1, 2, 3, 4),
        "segment_cost": (0.0, 0.05, 0.1, 0.25, 0.5, 0.7),
        "decay_rate": (10.0, 20.0, 30.0, 60.0, 120.0),
        "contrast": (1.0, 1.5, 2.0, 3.0, 4.0),
        "lexical_credit": (0.0, 0.3, 0.5, 0.7, 0.9),
        "calibration": ("auto", "identity", "rank"),
        "fetch_k": (50, 100, 200, 400),
    }
)
"""What `tune` searches unless told otherwise: values of fields, and of ``fetch_k``."""

# A trial changes this many parameters at most: what one of them does stays visible.
_MOST_CHANGES = 4


class Trial(NamedTuple):
    """Parameters that were tried.

    Attributes:
        changes: What differs from the retriever's own.
        score: The mean of the metric over questions and budgets.
    """

    changes: Mapping[str, Any]
    score: float


@dataclass(frozen=True, eq=False)
class Tuning(Table):
    """What `tune` found. Printed, it is a table of the best trials.

    The config goes into the constructor, or into a copy of the retriever:
    ``retriever.model_copy(update={"config": tuning.config, "fetch_k": tuning.fetch_k})``.

    Attributes:
        config: The best config: the retriever's own if the search gained nothing on
            questions that it had not seen.
        fetch_k: The number of candidates that goes with it.
        metric: What was maximized.
        start: The score of the retriever's own parameters: the mean of the metric over
            questions and budgets.
        held_out: The score of the search on questions that it had not seen, by
            cross-validation: what to expect on other questions of the kind.
        gain: ``held_out`` less ``start``.
        interval: Lower and upper end of the gain's 95 % interval, by bootstrap.
        trials: All trials, the best first; their scores are of questions that the choice
            has seen, and flatter it.
        questions: The number of questions.
    """

    config: RSEConfig
    fetch_k: int
    metric: str
    start: float
    held_out: float
    gain: float
    interval: tuple[float, float]
    trials: tuple[Trial, ...]
    questions: int

    def to_dict(self) -> dict[str, Any]:
        """All fields but the trials, ready for JSON; a calibration function by its name."""
        config = {
            name: value if not callable(value) else getattr(value, "__name__", repr(value))
            for name, value in vars(self.config).items()
        }
        rest = {name: value for name, value in vars(self).items() if name != "trials"}
        return {**rest, "config": config, "interval": list(self.interval)}

    def _title(self) -> str:
        low, high = self.interval
        return (
            f"{self.metric} of {self.questions} questions: {self.start:.3f}; tuned, on questions "
            f"not seen: {self.held_out:.3f}, gain {self.gain:+.3f} [{low:+.3f}, {high:+.3f}]. "
            + ("Use the first" if self.gain > 0 else "Keep the retriever's own")
        )

    def _columns(self) -> dict[str, list[str]]:
        best = self.trials[:10]
        changes = [
            ", ".join(f"{name}={value}" for name, value in trial.changes.items()) or "(none)"
            for trial in best
        ]
        return {"score": [f"{trial.score:.3f}" for trial in best], "changes": changes}


def tune(
    retriever: RSERetriever,
    questions: Iterable[Question],
    budgets: Iterable[int] = (4_000, 8_000, 16_000),
    *,
    metric: str = "recall",
    space: Mapping[str, Sequence[Any]] = SPACE,
    trials: int = 100,
    folds: int = 5,
    resamples: int = 1_000,
    seed: int = 0,
    show_progress: bool = False,
    **settings: Any,  # noqa: ANN401 - the retriever's own
) -> Tuning:
    """Search parameters that return more of the evidence within budgets of text.

    A random search around the retriever's own parameters: a trial changes one to four of
    them. The vector store (and the reranker) is asked once a question, for the largest
    ``fetch_k``; all trials select from those candidates. What the search gains is measured
    by cross-validation: for each fold of the questions, the best trial on all the others is
    applied to it.

    Chunks are whole here: ``allow_trim`` plays no part.

    With ``metric="recall"`` a smaller penalty never hurts, since room costs nothing then;
    ``"iou"`` and ``"precision"`` ask for answers that fit the question.

    Args:
        retriever: The retriever to tune. It is not changed.
        questions: The questions with their evidence, at least two.
        budgets: Characters that may be returned, each at least 1, all different.
        metric: What to maximize: ``"recall"``, ``"precision"`` or ``"iou"``; see `Report`.
        space: Values to try, by the name of a field of `RSEConfig` or ``"fetch_k"``, which
            is left alone where a reranker is in between.
        trials: How many sets of parameters to try, at least 2.
        folds: Into how many parts the questions are split, at least 2; at most one a
            question.
        resamples: Resamples of the questions for the interval, at least 1.
        seed: Seed of trials, folds and resamples: the same seed finds the same.
        show_progress: Show a progress bar; needs tqdm.
        **settings: What else is given per call, such as ``filter`` or ``k``.

    Returns:
        The best config, and what it gains.

    Raises:
        ValueError: If an argument is out of its range or evidence is not in its document.
        TypeError: If ``retriever`` is no `RSERetriever`.
        MissingRecordError: If the docstore lacks a document, unless ``on_missing`` is
            ``"split"``.
        ImportError: If ``show_progress`` is set without tqdm.

    Example:
        .. code-block:: python

            tuning = tune(retriever, load_questions("questions.jsonl"))
            print(tuning)
            tuned = retriever.model_copy(
                update={"config": tuning.config, "fetch_k": tuning.fetch_k}
            )
    """
    return run(_tune(_Search(**locals())))  # all arguments, by their names


async def atune(
    retriever: RSERetriever,
    questions: Iterable[Question],
    budgets: Iterable[int] = (4_000, 8_000, 16_000),
    *,
    metric: str = "recall",
    space: Mapping[str, Sequence[Any]] = SPACE,
    trials: int = 100,
    folds: int = 5,
    resamples: int = 1_000,
    seed: int = 0,
    show_progress: bool = False,
    **settings: Any,  # noqa: ANN401 - the retriever's own
) -> Tuning:
    """Like `tune`, async; the search itself runs off the event loop."""
    return await arun(_tune(_Search(**locals())))  # all arguments, by their names


@dataclass
class _Search:
    """The arguments of `tune`."""

    retriever: RSERetriever
    questions: Iterable[Question]
    budgets: Iterable[int]
    metric: str
    space: Mapping[str, Sequence[Any]]
    trials: int
    folds: int
    resamples: int
    seed: int
    show_progress: bool
    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.retriever, RSERetriever):
            raise TypeError(f"retriever must be an RSERetriever; got {self.retriever!r}")
        for name, least in (("trials", 2), ("folds", 2), ("resamples", 1), ("seed", 0)):
            whole_number(name, getattr(self, name), least)
        if self.metric not in METRICS[:3]:
            raise ValueError(f"metric must be one of {', '.join(METRICS[:3])}; got {self.metric!r}")
        self.evaluation = Evaluation(
            retriever=self.retriever,
            questions=tuple(self.questions),
            budgets=cast("tuple[int, ...]", self.budgets),  # checked and made so there
            sources=None,
            name=None,
            doc_id_key="",
            start_index_key="",
            max_concurrency=1,
            resamples=self.resamples,
            seed=self.seed,
            show_progress=self.show_progress,
            settings=self.settings,
        )
        with self.progress(0):
            pass  # tqdm is missing now, not when all questions have been asked
        if len(self.evaluation.questions) < 2:  # noqa: PLR2004 - one to learn from, one to test
            raise ValueError("questions must be at least 2 to be tuned to; got 1")
        self.start = self.retriever.settings_of(self.settings)
        self.changes = self._draw()

    def _draw(self) -> list[dict[str, Any]]:
        """What each trial changes; the first nothing. Checked before anything is asked."""
        own = {**vars(self.start.config), "fetch_k": self.start.fetch_k}
        space: dict[str, list[Any]] = {}
        for name, values in self.space.items():
            if name not in own:
                raise ValueError(
                    f"space has {name!r}, which is neither fetch_k nor a field of RSEConfig"
                )
            for value in values:
                self.changed({name: value})
            others = [value for value in values if value != own[name]]
            if others and not (name == "fetch_k" and self.retriever.reranker is not None):
                space[name] = others
        if not space:
            raise ValueError("space has no value that differs from the retriever's own")
        rng = np.random.default_rng(self.seed)
        names = sorted(space)
        drawn: dict[str, dict[str, Any]] = {"": {}}
        # Small spaces run out of new trials.
        for _ in range(20 * self.trials):
            if len(drawn) >= self.trials:
                break
            count = int(rng.integers(1, min(_MOST_CHANGES, len(names)) + 1))
            some = sorted(rng.choice(len(names), count, replace=False).tolist())
            trial = {
                names[i]: space[names[i]][int(rng.integers(len(space[names[i]])))] for i in some
            }
            with contextlib.suppress(ValueError):  # values that do not go together
                self.changed(trial)
                drawn.setdefault(repr(trial), trial)
        return list(drawn.values())

    def progress(self, total: int) -> AbstractContextManager[Advance]:
        """A progress bar over the trials, if wanted."""
        return progress_bar(total, unit="trials", title="Tuning", show=self.show_progress)

    def changed(self, changes: Mapping[str, Any]) -> QuerySettings:
        """The retriever's settings with the changes of a trial."""
        return self.retriever.settings_of({**self.settings, **changes})

    def config_of(self, changes: Mapping[str, Any]) -> RSEConfig:
        """The retriever's config with the changes of a trial; what it leaves open stays so."""
        given = {**self.settings, **changes}
        fields = {name: given[name] for name in vars(self.start.config) if name in given}
        return self.retriever.config.replace(**fields)

    @property
    def most(self) -> int:
        """The largest fetch_k of all trials."""
        return max(self.changed(changes).fetch_k for changes in self.changes)


class _Asked(NamedTuple):
    """A question and what was found for it."""

    question: Question
    found: Found


def _tune(search: _Search) -> Steps[Tuning]:
    """Ask each question, try all trials, and see what they gain."""
    retriever = search.retriever
    yield from search.evaluation.check_evidence()
    asked: list[_Asked] = []
    layouts: dict[str, Layout] = {}
    settings = search.changed({"fetch_k": search.most})
    for number, question in enumerate(search.evaluation.questions, 1):
        with during(f"asking question {number}"):
            found = yield from retriever.fetch(question.question, settings, None)
            hits = [hit for hit in recognize(found) if hit.key not in layouts]
            layouts |= yield from _read_whole(retriever, {hit.key: hit.version for hit in hits})
            if settings.on_missing == "raise":
                check_known(hits, layouts)
            asked.append(_Asked(question, found))
    return (yield from compute(_search, search, asked, layouts))


def _read_whole(retriever: RSERetriever, versions: Mapping[str, str]) -> Steps[dict[str, Layout]]:
    """The layouts of whole documents: trials differ in the windows that they need."""
    if not versions:
        return {}
    found = yield from read_layouts(retriever.docstore, dict.fromkeys(versions.items(), ()))
    layouts = {key: layout for key, layout in found.items() if layout is not None}
    whole = {
        (key, layout.manifest.current.name): [Window(0, layout.manifest.current.chunks)]
        for key, layout in layouts.items()
        if layout.manifest.current
    }
    if whole:
        read = yield from read_layouts(retriever.docstore, whole)
        layouts |= {key: layout for key, layout in read.items() if layout is not None}
    return layouts


def _search(search: _Search, asked: Sequence[_Asked], layouts: Mapping[str, Layout]) -> Tuning:
    # Trials share the words of a query in the texts of its candidates.
    lexical = functools.lru_cache(maxsize=None)(lexical_scores)
    place = METRICS.index(search.metric)
    scores = np.empty((len(search.changes), len(asked)))
    with search.progress(len(search.changes)) as advance:
        for row, changes in enumerate(search.changes):
            settings = search.changed(changes)
            for column, one in enumerate(asked):
                hits = with_relevance(
                    one.question.question,
                    [
                        hit
                        for hit in recognize(one.found.first(settings.fetch_k))
                        if hit.key in layouts and is_current(hit, layouts[hit.key])
                    ],
                    settings.config,
                    hybrid=settings.hybrid,
                    reranker=search.retriever.reranker_name,
                    lexical=lambda query, texts: lexical(query, tuple(texts)),
                )
                figures = [
                    measure(one.question.evidence, pieces, budget)[place]
                    for budget, pieces in _pieces(
                        considered(hits, settings.config),
                        layouts,
                        settings,
                        search.evaluation.budgets,
                    )
                ]
                scores[row, column] = np.mean(figures)
            advance(1)
    return _judge(search, scores)


def _pieces(
    hits: Sequence[Hit],
    layouts: Mapping[str, Layout],
    settings: QuerySettings,
    budgets: Sequence[int],
) -> Iterator[tuple[int, list[Piece]]]:
    """What would be returned within each budget, without reading a text."""
    needed = {}
    for key, some in grouped(hits, lambda hit: hit.key).items():
        whole = layouts[key]
        chunks = whole.manifest.current.chunks if whole.manifest.current else 0
        windows = find_windows(sorted(hit.chunk for hit in some), settings.config)
        cut = [Window(start, min(end, chunks)) for start, end in windows]
        layout = replace(whole, windows=cut)
        needed[key] = restricted(layout, (hit.chunk for hit in some), settings)
    for budget in budgets:
        fixed = {"max_context_length": budget, "length_function": len, "allow_trim": False}
        plan = Plan(hits, needed, settings.model_copy(update=fixed))
        yield (
            budget,
            [
                Piece(layouts[key].manifest.doc_id, range(start, end + 1))
                for key, segment in plan.likely()[: settings.k]
                for start, end in (_characters(layouts[key], segment.start, segment.end),)
            ],
        )


def _characters(layout: Layout, start: int, end: int) -> tuple[int, int]:
    """From chunks of a document to its characters."""
    first, last = start // SPANS_PER_PAGE, (end - 1) // SPANS_PER_PAGE
    return (
        int(layout.pages[first][start - first * SPANS_PER_PAGE]),
        int(layout.pages[last][end - last * SPANS_PER_PAGE]),
    )


def _judge(search: _Search, scores: Floats) -> Tuning:
    """Choose the best trial, and see by cross-validation what choosing so gains.

    Args:
        search: The search.
        scores: Shape ``(trials, questions)``.
    """
    count = scores.shape[1]
    fold = np.arange(count) % min(search.folds, count)
    fold = fold[np.random.default_rng(search.seed).permutation(count)]
    held_out = np.empty(count)
    for number in range(fold.max() + 1):
        inside = fold == number
        # The first of equals: the retriever's own parameters, if they are among them.
        best = int(scores[:, ~inside].mean(axis=1).argmax())
        held_out[inside] = scores[best, inside]
    gains = held_out - scores[0]
    low, high = bootstrap(gains[:, None], 0.95, search.resamples, search.seed)[0].tolist()
    means = scores.mean(axis=1)
    best = int(means.argmax()) if gains.mean() > 0 else 0
    settings = search.changed(search.changes[best])
    order = np.argsort(-means, kind="stable").tolist()
    return Tuning(
        config=search.config_of(search.changes[best]),
        fetch_k=settings.fetch_k,
        metric=search.metric,
        start=float(means[0]),
        held_out=float(held_out.mean()),
        gain=float(gains.mean()),
        interval=(low, high),
        trials=tuple(Trial(search.changes[i], float(means[i])) for i in order),
        questions=count,
    )
