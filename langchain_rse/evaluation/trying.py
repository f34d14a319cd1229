"""Tries settings on questions, searching once per question; what tunes a retriever uses it."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.stores import InMemoryBaseStore
from numpy.typing import NDArray

from langchain_rse._progress import progress_bar
from langchain_rse._sync import during, run
from langchain_rse.config import Hybrid, QuerySettings, RSEConfig, settings_of_call
from langchain_rse.engine import Floats
from langchain_rse.evaluation.evidence import find_evidence
from langchain_rse.evaluation.measuring import Locator, Meter
from langchain_rse.evaluation.questions import Question
from langchain_rse.evaluation.reports import Table
from langchain_rse.query.candidates import Candidates, Sources
from langchain_rse.query.filters import filters_of
from langchain_rse.query.pipeline import answer
from langchain_rse.query.reranking import find_candidates
from langchain_rse.query.searching import queries_of
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.compare_and_set import DocStore

_FOLDS = 5

Changes = Mapping[str, Any]
"""Fields of `RSEConfig` that differ from the retriever's own, by their names."""


class SettingsTable(Table):
    """A printed result with the settings that were chosen, which can be written to a file."""

    config: RSEConfig
    hybrid: Hybrid

    def to_file(self, path: str | os.PathLike[str]) -> None:
        """Write ``config`` and ``hybrid`` to a file, see `RSEConfig.to_file`."""
        self.config.to_file(path, hybrid=self.hybrid)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as values that JSON has."""
        return {**super().to_dict(), "config": self.config.model_dump()}


def try_settings(
    retriever: RSERetriever,
    questions: tuple[Question, ...],
    settings_of_trials: Sequence[Sequence[QuerySettings]],
    budgets: tuple[int, ...],
    *,
    show_progress: bool,
) -> Floats:
    """Measure the answers to all questions with evidence for each trial.

    Args:
        retriever: The retriever, whose search and reranker are called once per question.
        questions: The questions; those without an answer are left out.
        settings_of_trials: For each trial, the settings for each budget.
        budgets: The budgets in characters.
        show_progress: Show a progress bar.

    Returns:
        The `Figures`; shape ``(trials, questions, budgets, metrics)``.

    Raises:
        ValueError: If fewer than two questions have evidence, or evidence is not in its document.
    """
    located = find_evidence(questions, retriever, sources=None)
    numbered = [each for each in enumerate(located, 1) if not each[1].is_unanswerable]
    if len(numbered) <= 1:
        raise ValueError(f"at least two questions must have evidence, not {len(numbered)}")
    sources = retriever.sources
    cached = sources._replace(docstore=_CachedDocStore(sources.docstore))
    meter = Meter(budgets, Locator(sources={}))
    figures_of_trials = []
    with progress_bar(
        len(settings_of_trials), unit="trials", title="Tuning", show=show_progress
    ) as advance:
        candidates = _find_candidates(sources, numbered, settings_of_trials[0][0])
        for settings_of_budgets in settings_of_trials:
            figures_of_questions = []
            for (_, question), candidates_of_question in zip(numbered, candidates, strict=True):
                answers = _answer_all(
                    question.question, candidates_of_question, cached, settings_of_budgets
                )
                meter.read_digests(cached.docstore, question, answers)
                figures = meter.measure(question, answers)
                figures_of_questions.append(figures)
            figures_of_trials.append(figures_of_questions)
            advance(1)
    return np.array(figures_of_trials)


def with_changes(settings: QuerySettings, changes: Changes) -> QuerySettings:
    """Return settings with the changes of a trial; their config has the penalty that holds."""
    penalty = {"irrelevant_chunk_penalty": settings.penalty}
    config = settings.config.replace(**{**penalty, **changes})
    return settings_of_call(settings, {"rse_config": config})


def draw_folds(count: int, seed: int) -> list[NDArray[np.bool_]]:
    """Divide questions at random into five folds, or fewer; masks of shape ``(questions,)``."""
    numbers = np.random.default_rng(seed).permutation(count) % min(_FOLDS, count)
    return [numbers == fold for fold in range(numbers.max() + 1)]


def _find_candidates(
    sources: Sources, questions: Sequence[tuple[int, Question]], settings: QuerySettings
) -> list[Candidates]:
    """Search and rerank for each question, which is given with its number."""
    filters = filters_of(settings.search_kwargs, sources.base_retriever)
    candidates = []
    for number, question in questions:
        with during(f"asking question {number}"):
            queries = run(queries_of(question.question, settings, None))
            _, reranked = run(find_candidates(sources, queries, settings, filters))
        candidates.append(reranked)
    return candidates


def _answer_all(
    question: str,
    candidates: Candidates,
    sources: Sources,
    settings_of_budgets: Sequence[QuerySettings],
) -> list[list[Document]]:
    """Answer a question with the same candidates for each of the settings."""
    answers = []
    for settings in settings_of_budgets:
        trace = run(answer(question, sources, settings, candidates=candidates))
        answers.append(list(trace.documents_returned))
    return answers


class _CachedDocStore(InMemoryBaseStore[Any]):
    """Keeps the records of a docstore, since all trials read the same few documents."""

    def __init__(self, docstore: DocStore) -> None:
        super().__init__()
        self._docstore = docstore

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        missing_keys = [key for key in dict.fromkeys(keys) if key not in self.store]
        if missing_keys:
            records = self._docstore.mget(missing_keys)
            self.store.update(zip(missing_keys, records, strict=True))
        return [self.store[key] for key in keys]
