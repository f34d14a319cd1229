"""`calibrate`: finds the score below which the best candidate of a query is no answer."""

import logging
import math
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, InstanceOf, NonNegativeInt

from langchain_rse._messages import counted
from langchain_rse._progress import Advance, progress_bar
from langchain_rse._sync import Steps, arun, concurrently, during, run
from langchain_rse.config import QuerySettings, resolve_settings
from langchain_rse.engine.words import find_words
from langchain_rse.errors import CalibrationError
from langchain_rse.evaluation.evidence import find_evidence
from langchain_rse.evaluation.general_questions import GENERAL_QUESTIONS
from langchain_rse.evaluation.measuring import Locator, Meter
from langchain_rse.evaluation.questions import Question
from langchain_rse.explaining.floors import ScoreFloor, percentiles_of
from langchain_rse.ingest.sentences import split_sentences
from langchain_rse.query.candidates import Candidate, Sources
from langchain_rse.query.floors import (
    best_first,
    direction_of,
    floor_name,
    reranker_name,
    share_of_words,
)
from langchain_rse.query.pipeline import find_candidates, queries_of, retrieve
from langchain_rse.query.searching import AT_ONCE
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.changing import read_records
from langchain_rse.stores.floors import added_chunks, read_floors, write_floor
from langchain_rse.stores.pairing import Model, check_pair
from langchain_rse.stores.reading import read_manifests, readable
from langchain_rse.stores.records import Manifest, chunk_key

logger = logging.getLogger(__name__)

# The numbers below were chosen on eight sets of documents with three embedding models; see
# benchmarks/README.md.
_SENTENCES = 200  # to ask
_FEWEST_SENTENCES = 20
_FEWEST_CHUNKS = 10
_SENTENCE_WORDS = 6  # at least
_SENTENCE_LENGTH = 300  # characters, at most
# Behind a reranker, which takes long: questions of each kind, and candidates of each question.
_RERANKED_QUESTIONS = 40
_RERANKED_CANDIDATES = 20
# How far the floor is from the median of general questions to a quantile of sentences of the
# documents: that of the share ``lost``; behind a reranker, of a multiple of it.
_WAY_TO_OWN = 0.5
_WORD_BONUS = 6.0  # in standard deviations of what general questions reach
_RERANKED_WAY_TO_OWN = 0.3
_RERANKED_QUANTILE = 12.5  # times ``lost``: the lower quartile by default
_USUAL_WORD_SHARE = 0.2  # the share of words at which the bonus changes nothing
_UPPER_SIXTH = 84  # the percentile one standard deviation above the median
_ALIKE = 0.9  # share of sentences that other chunks fit as well as their own
_EVERYTHING = 10**12  # a budget in characters


class _Arguments(BaseModel):
    """The arguments of `calibrate`, checked."""

    model_config = ConfigDict(title="arguments")

    retriever: InstanceOf[RSERetriever]
    questions: tuple[InstanceOf[Question], ...] | None
    lost: Annotated[float, Field(gt=0, lt=1)]
    seed: NonNegativeInt
    show_progress: bool


class _Asked(NamedTuple):
    """The best candidate of a question."""

    score: float
    word_share: float  # see `share_of_words`
    higher_is_better: bool | None
    own_score: float | None = None  # of the chunk that a sentence is from, if it was found
    is_quotation: bool = False  # True if a candidate contains the question word for word


class _Sentence(NamedTuple):
    """A sentence of a chunk."""

    text: str
    key: str  # the document's
    chunk_index: int


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
    reranker, 0.3 of the way to their lower quartile. That rule is measured, not proven.

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
    chunks = sum(map(_chunk_count, manifests))
    rng = np.random.default_rng(arguments.seed)
    calibrating = _Calibrating(sources, settings, arguments.lost)

    if arguments.questions is None:
        sentences = yield from calibrating.draw_sentences(manifests, rng)
        answered_count = len(sentences)
        ask_answered = [calibrating.ask_sentence(sentence) for sentence in sentences]
    else:
        with_evidence = tuple(question for question in arguments.questions if question.evidence)
        check_enough(len(with_evidence), arguments.lost)
        questions = yield from find_evidence(with_evidence, retriever, sources=None)
        answered_count = len(questions)
        ask_answered = [calibrating.ask_question(question) for question in questions]
    general = calibrating.draw_general_questions(rng)
    title = calibrating.announce(len(general), answered_count, is_given=bool(arguments.questions))
    with progress_bar(
        len(general) + answered_count, unit="questions", title=title, show=arguments.show_progress
    ) as advance:
        tasks = [_advancing(calibrating.ask_general(query), advance) for query in general]
        tasks += [_advancing(task, advance) for task in ask_answered]
        results = yield from concurrently(tasks, AT_ONCE)
    unrelated = [asked for asked in results[: len(general)] if asked is not None]
    answered = [asked for asked in results[len(general) :] if asked is not None]

    direction = _direction(unrelated + answered, sources.name)
    is_reranked = settings.reranker is not None
    bonus = _word_bonus(unrelated, direction, is_reranked=is_reranked)
    if arguments.questions is None:
        floor = _floor_by_sentences(
            unrelated, answered, arguments.lost, bonus, direction, is_reranked=is_reranked
        )
    else:
        floor = _floor_by_questions(answered, answered_count, arguments.lost, bonus, direction)
    store = sources.searched_store
    pair = Model()
    if store is not None:
        pair = yield from check_pair(sources.docstore, store, record=False)
    record = yield from read_floors(sources.docstore)
    found = ScoreFloor(
        searcher=sources.name,
        reranker=reranker_name(settings.reranker),
        floor=direction * floor,
        word_bonus=bonus,
        higher_is_better=direction > 0,
        lost=arguments.lost,
        with_questions=arguments.questions is not None,
        answered=_reach_percentiles(answered, bonus, direction),
        unrelated=_reach_percentiles(unrelated, bonus, direction),
        answered_count=len(answered),
        unrelated_count=len(unrelated),
        chunks=chunks,
        added_before=added_chunks(record),
        store=pair.store,
        model=pair.id,
    )
    name = floor_name(sources.name, settings.reranker)
    yield from write_floor(sources.docstore, name, found.to_fields())
    return found


def check_enough(count: int, lost: float) -> None:
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


def _chunk_count(manifest: Manifest) -> int:
    return manifest.current.chunks if manifest.current else 0


def _advancing(task: Steps[_Asked | None], advance: Advance) -> Steps[_Asked | None]:
    """Do a task, and advance the progress bar."""
    asked = yield from task
    advance(1)
    return asked


class _Calibrating:
    """Asks questions through a retriever's search and reranker."""

    def __init__(self, sources: Sources, settings: QuerySettings, lost: float) -> None:
        self.sources = sources
        self.settings = settings
        self.lost = lost
        self.few_candidates = settings
        if settings.reranker is not None:
            fewer = min(settings.fetch_k, _RERANKED_CANDIDATES)
            self.few_candidates = settings.model_copy(update={"fetch_k": fewer})

    def announce(self, general: int, answered: int, *, is_given: bool) -> str:
        """Log how many questions are asked, and return it."""
        kind = "question" if is_given else "sentence"
        message = f"Calibrating with {general} general questions and {counted(answered, kind)}"
        if self.settings.reranker is not None:
            candidates = self.settings.fetch_k if is_given else self.few_candidates.fetch_k
            reranked = general * self.few_candidates.fetch_k + answered * candidates
            message += f", {reranked:,} rerankings by {type(self.settings.reranker).__name__}"
        logger.info("%s", message)
        return message

    def draw_general_questions(self, rng: np.random.Generator) -> list[str]:
        """The general questions, fewer of them for a reranker."""
        if self.settings.reranker is None:
            return list(GENERAL_QUESTIONS)
        return [str(query) for query in rng.permutation(GENERAL_QUESTIONS)[:_RERANKED_QUESTIONS]]

    def draw_sentences(
        self, manifests: Sequence[Manifest], rng: np.random.Generator
    ) -> Steps[list[_Sentence]]:
        """Draw sentences of chunks at random, at most one of a chunk."""
        most = _SENTENCES if self.settings.reranker is None else _RERANKED_QUESTIONS
        chunk_counts = [
            manifest.current.chunks if manifest.current else 0 for manifest in manifests
        ]
        first_numbers = np.cumsum([0, *chunk_counts])
        total = int(first_numbers[-1])
        sentences: list[_Sentence] = []
        drawn = (
            rng.permutation(total) if total < 100 * most else rng.integers(total, size=20 * most)
        )
        for start in range(0, drawn.size, 2 * most):
            if len(sentences) >= most:
                break
            chosen = []
            for number in drawn[start : start + 2 * most].tolist():
                document = int(np.searchsorted(first_numbers, number, side="right")) - 1
                chosen.append((manifests[document], number - int(first_numbers[document])))
            sentences += yield from self._sentences_of(chosen, rng)
        if total < _FEWEST_CHUNKS or len(sentences) < _FEWEST_SENTENCES:
            raise CalibrationError(
                f"there is too little text to calibrate by: {counted(total, 'chunk')} with "
                f"{counted(len(sentences), 'sentence')} of {_SENTENCE_WORDS} words; at least "
                f"{_FEWEST_CHUNKS} and {_FEWEST_SENTENCES} are needed. Give questions with evidence"
            )
        return sentences[:most]

    def _sentences_of(
        self, chosen: Sequence[tuple[Manifest, int]], rng: np.random.Generator
    ) -> Steps[list[_Sentence]]:
        """Draw a sentence of each of some chunks that have one."""
        keys = []
        for manifest, index in chosen:
            version = manifest.current.name if manifest.current else ""
            keys.append(chunk_key(manifest.key, version, index))
        records = yield from read_records(self.sources.docstore, list(dict.fromkeys(keys)))
        sentences = []
        for (manifest, index), key in zip(chosen, keys, strict=True):
            record = readable(records[key])
            if record is None:
                continue
            long_enough = []
            for sentence in split_sentences(record.page_content):
                if len(find_words(sentence)) >= _SENTENCE_WORDS:
                    long_enough.append(sentence[:_SENTENCE_LENGTH])
            if long_enough:
                text = long_enough[int(rng.integers(len(long_enough)))]
                sentences.append(_Sentence(text, manifest.key, index))
        return sentences

    def ask_general(self, query: str) -> Steps[_Asked | None]:
        """Ask a general question."""
        candidates = yield from self._find(query, self.few_candidates)
        return self._measure(query, candidates)

    def ask_sentence(self, sentence: _Sentence) -> Steps[_Asked | None]:
        """Ask a sentence of all chunks but its own."""
        candidates = yield from self._find(sentence.text, self.few_candidates)
        others = []
        own_score = None
        for candidate in candidates:
            if (candidate.key, candidate.chunk_index) == (sentence.key, sentence.chunk_index):
                own_score = candidate.score
            else:
                others.append(candidate)
        asked = self._measure(sentence.text, others)
        return None if asked is None else asked._replace(own_score=own_score)

    def ask_question(self, question: Question) -> Steps[_Asked | None]:
        """Ask a question with evidence; None if none of the evidence is returned without a floor.

        Of several queries, the one that comes nearest counts.
        """
        queries = yield from queries_of(question.question, self.settings, None)
        by_query = yield from find_candidates(self.sources, queries, self.settings)
        answer = yield from retrieve(
            self.sources, question.question, self.settings, candidates=by_query
        )
        meter = Meter((_EVERYTHING,), Locator({}))
        yield from meter.read_digests(self.sources.docstore, question, [answer])
        [figures] = meter.measure(question, [answer])
        if not figures.recall:
            return None
        measured = [self._measure(query, found) for query, found in by_query.items()]
        known = [asked for asked in measured if asked is not None]
        if not known:
            return None
        direction = -1.0 if known[0].higher_is_better is False else 1.0
        return max(known, key=lambda asked: (direction * asked.score, asked.word_share))

    def _find(self, query: str, settings: QuerySettings) -> Steps[list[Candidate]]:
        with during("asking a question to calibrate"):
            by_query = yield from find_candidates(self.sources, [query], settings)
        return [candidate for candidates in by_query.values() for candidate in candidates]

    def _measure(self, query: str, candidates: Sequence[Candidate]) -> _Asked | None:
        """Measure the best candidate of a query; None if there is none."""
        by_rank = best_first(candidates)
        if not by_rank:
            return None
        score = by_rank[0].score
        if score is None:
            name = self.sources.name
            if self.settings.reranker is not None:
                name = type(self.settings.reranker).__name__
            raise CalibrationError(
                f"{name} gives no scores, so that it is not known when nothing is there, and no "
                "question is refused. Use a vector store or a reranker with scores"
            )
        words = " ".join(find_words(query))
        is_quotation = any(
            words in " ".join(find_words(candidate.document.page_content))
            for candidate in by_rank[:1]
        )
        share = share_of_words(query, by_rank, candidates)
        return _Asked(score, share, direction_of(by_rank), is_quotation=is_quotation)


def _direction(asked: Sequence[_Asked], searcher: str) -> float:
    """1 if higher scores are better, -1 if they are distances."""
    known = [each.higher_is_better for each in asked if each.higher_is_better is not None]
    scores = {each.score for each in asked}
    if not known or len(scores) == 1:
        raise CalibrationError(
            f"all scores of {searcher} are the same, so that they tell nothing. Use a vector store "
            "or a reranker whose scores differ"
        )
    return 1.0 if 2 * sum(known) > len(known) else -1.0


def _reach(asked: _Asked, bonus: float, direction: float) -> float:
    """The score with the bonus for words, the greater the better."""
    return direction * asked.score + bonus * asked.word_share


def _reach_percentiles(
    asked: Sequence[_Asked], bonus: float, direction: float
) -> tuple[float, ...]:
    """Percentiles of the reach of questions, in the units of the scores."""
    return percentiles_of([direction * _reach(each, bonus, direction) for each in asked])


def _word_bonus(unrelated: Sequence[_Asked], direction: float, *, is_reranked: bool) -> float:
    """What all words of a question count."""
    if is_reranked:
        return 0.0
    scores = [direction * asked.score for asked in unrelated]
    median, upper = np.percentile(scores, [50, _UPPER_SIXTH])
    return _WORD_BONUS * float(upper - median)


def _floor_by_sentences(
    unrelated: Sequence[_Asked],
    answered: Sequence[_Asked],
    lost: float,
    bonus: float,
    direction: float,
    *,
    is_reranked: bool,
) -> float:
    """The floor by sentences of the documents, the greater the better."""
    scores = [direction * asked.score for asked in answered]
    _check_sentences(unrelated, answered, direction)
    general = float(np.median([direction * asked.score for asked in unrelated]))
    if is_reranked:
        quantile = min(_RERANKED_QUANTILE * lost, 0.5)
        return general + _RERANKED_WAY_TO_OWN * (float(np.quantile(scores, quantile)) - general)
    own = float(np.quantile(scores, lost))
    return general + _WAY_TO_OWN * (own - general) + _USUAL_WORD_SHARE * bonus


def _check_sentences(
    unrelated: Sequence[_Asked], answered: Sequence[_Asked], direction: float
) -> None:
    """Raise a CalibrationError if sentences of the documents do not tell what answers reach."""
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
    if median_of_sentences <= np.median([direction * asked.score for asked in unrelated]):
        raise CalibrationError(
            "sentences of the documents reach no better scores than questions about anything else, "
            "so that scores do not tell whether there is an answer. Is the embedding model right "
            "for the language of the documents?"
        )


def _floor_by_questions(
    answered: Sequence[_Asked], count: int, lost: float, bonus: float, direction: float
) -> float:
    """The floor by ``count`` questions, the greater the better.

    ``answered`` are those whose evidence is found; others cannot be lost.
    """
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
