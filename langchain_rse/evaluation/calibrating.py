"""`calibrate`: finds the score below which the best candidate of a query is no answer."""

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, InstanceOf, NonNegativeInt

from langchain_rse._progress import Advance, progress_bar
from langchain_rse._sync import Steps, arun, concurrently, run
from langchain_rse.config import resolve_settings
from langchain_rse.errors import CalibrationError
from langchain_rse.evaluation.asking import Asked, Asker, chunk_count
from langchain_rse.evaluation.evidence import find_evidence
from langchain_rse.evaluation.questions import Question
from langchain_rse.explaining.floors import ScoreFloor, percentiles_of
from langchain_rse.query.candidates import Sources
from langchain_rse.query.floors import floor_name, reranker_name
from langchain_rse.query.searching import AT_ONCE
from langchain_rse.query.wrapped import is_reranker
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.floors import added_chunks, read_floors, write_floor
from langchain_rse.stores.pairing import Model, check_pair
from langchain_rse.stores.reading import read_manifests
from langchain_rse.stores.records import Manifest

# The numbers below were chosen on eight sets of documents with three embedding models; see
# benchmarks/README.md.
# How far the floor is from the median of general questions to a quantile of sentences of the
# documents: that of the share ``lost``; behind a reranker, of a multiple of it.
_WAY_TO_OWN = 0.5
_WORD_BONUS = 6.0  # in standard deviations of what general questions reach
_RERANKED_WAY_TO_OWN = 0.3
_RERANKED_QUANTILE = 15.0  # times ``lost``: 0.3 by default
_USUAL_WORD_SHARE = 0.17  # the share of words at which the bonus changes nothing
_UPPER_SIXTH = 84  # the percentile one standard deviation above the median
_ALIKE = 0.9  # share of sentences that other chunks fit as well as their own


class _Arguments(BaseModel):
    """The arguments of `calibrate`, checked."""

    model_config = ConfigDict(title="arguments")

    retriever: InstanceOf[RSERetriever]
    questions: tuple[InstanceOf[Question], ...] | None
    lost: Annotated[float, Field(gt=0, lt=1)]
    seed: NonNegativeInt
    show_progress: bool


def calibrate(
    retriever: RSERetriever,
    questions: Iterable[Question] | None = None,
    *,
    lost: float = 0.02,
    seed: int = 0,
    show_progress: bool = False,
) -> ScoreFloor:
    """Find the score below which the best candidate of a query is no answer, and keep it.

    General questions, which have nothing to do with most documents, and answered questions are
    asked through the retriever's own search and reranker. The floor is kept in the docstore for
    this vector store, embedding model and reranker; retrievers with ``score_floor="calibrated"``,
    the default, return nothing for a query that does not reach it.

    With ``questions``, the floor is the value that at most a share ``lost`` of new questions of the
    same kind are refused by, among those whose evidence is found: the ``floor((n + 1) * lost)``-th
    lowest of ``n``, the finite-sample correction of split conformal prediction (Vovk, Gammerman and
    Shafer, "Algorithmic Learning in a Random World", 2005; arXiv 2107.07511). Without, answered
    questions are sentences of the documents, asked of all chunks but their own, and the floor is
    halfway from the median of general questions to the lowest share ``lost`` of sentences; behind a
    reranker, 0.3 of the way to their lowest ``15 * lost``. That rule is measured, not proven.

    Words count, except behind a reranker, which reads them itself: a score is brought nearer by the
    share of the question's words that one of the 20 best candidates has, times six standard
    deviations of general questions.

    Args:
        retriever: The retriever. Its ``search_kwargs`` and reranker are used.
        questions: Questions with their evidence. None to ask sentences of the documents.
        lost: The share of answered questions that may be refused, between 0 and 1.
        seed: Seed of the sentences: the same seed asks the same.
        show_progress: Show a progress bar; needs tqdm.

    Returns:
        The floor; printed, a sentence and a table. Before the first question, the logger
        ``langchain_rse`` says at level INFO how many there are.

    Raises:
        CalibrationError: If the candidates have no scores, or all the same; if there are too few
            questions for ``lost``, chunks or sentences, or they do not tell anything.
        ValueError: If an argument is out of its range, or evidence is not in its document.
    """
    checked = _Arguments(
        retriever=retriever,
        questions=None if questions is None else tuple(questions),
        lost=lost,
        seed=seed,
        show_progress=show_progress,
    )
    return run(_calibrate(checked))


async def acalibrate(
    retriever: RSERetriever,
    questions: Iterable[Question] | None = None,
    *,
    lost: float = 0.02,
    seed: int = 0,
    show_progress: bool = False,
) -> ScoreFloor:
    """Like `calibrate`, async."""
    checked = _Arguments(
        retriever=retriever,
        questions=None if questions is None else tuple(questions),
        lost=lost,
        seed=seed,
        show_progress=show_progress,
    )
    return await arun(_calibrate(checked))


def _calibrate(arguments: _Arguments) -> Steps[ScoreFloor]:
    """Ask all questions, find the floor, and write it to the docstore."""
    retriever = arguments.retriever
    settings = resolve_settings(retriever, {"score_floor": None})
    sources = Sources(retriever.vectorstore, retriever.base_retriever, retriever.docstore)
    manifests = yield from _read_manifests(retriever)
    asker = Asker(sources, settings)
    results = yield from _ask_all(arguments, asker, manifests)

    direction = _direction([*results.unrelated, *results.answered], sources.name)
    is_reranked = is_reranker(settings.reranker)  # a filter by similarities is like a search
    bonus = _word_bonus(results.unrelated, direction, is_reranked=is_reranked)
    if arguments.questions is None:
        floor = _floor_by_sentences(
            results, arguments.lost, bonus, direction, is_reranked=is_reranked
        )
    else:
        floor = _floor_by_questions(results, arguments.lost, bonus, direction)
    pair = Model()
    if sources.searched_store is not None:
        pair = yield from check_pair(sources.docstore, sources.searched_store, record=False)
    record = yield from read_floors(sources.docstore)
    found = ScoreFloor(
        searcher=sources.name,
        reranker=reranker_name(settings.reranker),
        floor=direction * floor,
        word_bonus=bonus,
        higher_is_better=direction > 0,
        lost=arguments.lost,
        with_questions=arguments.questions is not None,
        answered=_reach_percentiles(results.answered, bonus, direction),
        unrelated=_reach_percentiles(results.unrelated, bonus, direction),
        answered_count=len(results.answered),
        unrelated_count=len(results.unrelated),
        chunks=sum(map(chunk_count, manifests)),
        added_before=added_chunks(record),
        store=pair.store,
        model=pair.id,
    )
    name = floor_name(sources.name, settings.reranker)
    yield from write_floor(sources.docstore, name, found.to_fields())
    return found


class _Results(NamedTuple):
    """The best candidates of all questions that have any."""

    unrelated: Sequence[Asked]  # of general questions
    answered: Sequence[Asked]  # of answered questions, or of sentences
    asked: int  # the number of answered questions that were asked


def _ask_all(arguments: _Arguments, asker: Asker, manifests: Sequence[Manifest]) -> Steps[_Results]:
    """Ask general questions, and the given ones or sentences of the documents."""
    rng = np.random.default_rng(arguments.seed)
    if arguments.questions is None:
        sentences = yield from asker.draw_sentences(manifests, rng)
        answered_tasks = [asker.ask_sentence(sentence) for sentence in sentences]
    else:
        with_evidence = tuple(question for question in arguments.questions if question.evidence)
        _check_enough(len(with_evidence), arguments.lost)
        questions = yield from find_evidence(with_evidence, arguments.retriever, sources=None)
        answered_tasks = [asker.ask_question(question) for question in questions]
    general = asker.draw_general_questions(rng)
    asker.announce(len(general), len(answered_tasks), is_given=arguments.questions is not None)
    count = len(general) + len(answered_tasks)
    with progress_bar(
        count, unit="questions", title="Calibrating", show=arguments.show_progress
    ) as advance:
        tasks = [*(asker.ask_general(query) for query in general), *answered_tasks]
        results = yield from concurrently([_advancing(task, advance) for task in tasks], AT_ONCE)
    unrelated = [asked for asked in results[: len(general)] if asked is not None]
    answered = [asked for asked in results[len(general) :] if asked is not None]
    if not unrelated or not answered:
        raise CalibrationError(
            f"{asker.sources.name} found too little: candidates for {len(unrelated)} of "
            f"{len(general)} general questions and evidence for {len(answered)} of "
            f"{len(answered_tasks)} others. Are there documents, or does a filter exclude them?"
        )
    return _Results(unrelated, answered, len(answered_tasks))


def _check_enough(count: int, lost: float) -> None:
    """Raise a CalibrationError if there are too few questions to promise a share of lost ones."""
    needed = math.ceil(1 / lost - 1 - 1e-9)
    if count < needed:
        possible = ""
        if count:
            possible = f", or lost={math.ceil(1000 / (count + 1)) / 1000:g}"
        raise CalibrationError(
            f"lost={lost:g} needs at least {needed} questions with evidence; got {count}. Give "
            f"more{possible}, or no questions to ask sentences of the documents"
        )


def _read_manifests(retriever: RSERetriever) -> Steps[list[Manifest]]:
    """The manifests of the documents that the retriever may find."""
    may_read = retriever.document_access().may_read
    manifests = yield from read_manifests(retriever.docstore)
    return [manifest for manifest in manifests if manifest.current and may_read(manifest)]


def _advancing(task: Steps[Asked | None], advance: Advance) -> Steps[Asked | None]:
    """Do a task, and advance the progress bar."""
    asked = yield from task
    advance(1)
    return asked


def _direction(asked: Sequence[Asked], searcher: str) -> float:
    """1 if higher scores are better, -1 if they are distances."""
    known = [each.higher_is_better for each in asked if each.higher_is_better is not None]
    scores = {each.score for each in asked}
    if not known or len(scores) == 1:
        raise CalibrationError(
            f"{searcher} gives all candidates of a question the same score, so that scores tell "
            "nothing: the chunks are all alike, or its scores are constant"
        )
    return 1.0 if 2 * sum(known) > len(known) else -1.0


def _reach(asked: Asked, bonus: float, direction: float) -> float:
    """The score with the bonus for words, the greater the better."""
    return direction * asked.score + bonus * asked.word_share


def _reach_percentiles(asked: Sequence[Asked], bonus: float, direction: float) -> tuple[float, ...]:
    """Percentiles of the reach of questions, in the units of the scores."""
    return percentiles_of([direction * _reach(each, bonus, direction) for each in asked])


def _word_bonus(unrelated: Sequence[Asked], direction: float, *, is_reranked: bool) -> float:
    """What all words of a question count."""
    if is_reranked:
        return 0.0
    scores = [direction * asked.score for asked in unrelated]
    median, upper = np.percentile(scores, [50, _UPPER_SIXTH])
    return _WORD_BONUS * float(upper - median)


def _floor_by_sentences(
    results: _Results, lost: float, bonus: float, direction: float, *, is_reranked: bool
) -> float:
    """The floor by sentences of the documents, the greater the better."""
    _check_sentences(results, direction)
    scores = [direction * asked.score for asked in results.answered]
    general = float(np.median([direction * asked.score for asked in results.unrelated]))
    if is_reranked:
        quantile = min(_RERANKED_QUANTILE * lost, 0.5)
        return general + _RERANKED_WAY_TO_OWN * (float(np.quantile(scores, quantile)) - general)
    own = float(np.quantile(scores, lost))
    return general + _WAY_TO_OWN * (own - general) + _USUAL_WORD_SHARE * bonus


def _check_sentences(results: _Results, direction: float) -> None:
    """Raise a CalibrationError if sentences of the documents do not tell what answers reach."""
    answered = results.answered
    copied = []
    for asked in answered:
        if asked.own_score is not None and direction * (asked.score - asked.own_score) >= 0:
            copied.append(asked)
    if len(copied) >= _ALIKE * len(answered):
        raise CalibrationError(
            "the chunks are alike: other chunks fit sentences as well as their own, so that "
            "sentences do not tell what a question reaches. Give questions with evidence"
        )
    median_of_sentences = np.median([direction * asked.score for asked in answered])
    if median_of_sentences <= np.median([direction * asked.score for asked in results.unrelated]):
        raise CalibrationError(
            "sentences of the documents reach no better scores than questions about anything else, "
            "so that scores do not tell whether there is an answer. Is the embedding model right "
            "for the language of the documents?"
        )


def _floor_by_questions(results: _Results, lost: float, bonus: float, direction: float) -> float:
    """The floor by questions, the greater the better; only those with found evidence are lost."""
    answered = results.answered
    count = results.asked
    quotations = [asked for asked in answered if asked.is_quotation]
    if 2 * len(quotations) > len(answered):
        raise CalibrationError(
            f"{len(quotations)} of {len(answered)} questions stand word for word in the documents. "
            "Questions as people ask them score lower, and would be refused. Give such questions, "
            "or none"
        )
    reaches = sorted(_reach(asked, bonus, direction) for asked in answered)
    number = math.floor((count + 1) * lost + 1e-9)
    if number > len(reaches):
        raise CalibrationError(
            f"evidence was found for only {len(reaches)} of {count} questions, so that a floor "
            "tells nothing. See what evaluate(retriever, questions) reports"
        )
    return reaches[number - 1]
