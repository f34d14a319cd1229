"""The score floor: tells queries that the documents answer from others, by their best candidate."""

from __future__ import annotations

import logging
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from langchain_rse._messages import counted, warn
from langchain_rse._progress import progress_bar
from langchain_rse._sync import Steps, concurrently, during, pause
from langchain_rse.config import QuerySettings
from langchain_rse.engine import word_shares
from langchain_rse.errors import CalibrationError
from langchain_rse.ingest.alignment import quotation_pattern
from langchain_rse.query.candidates import FULL_TEXT, Candidate, Candidates, Sources
from langchain_rse.query.filters import filters_of
from langchain_rse.query.reranking import find_candidates, is_reranker
from langchain_rse.query.searching import AT_ONCE, queries_of
from langchain_rse.stores.changing import DocStore, Record, change, read_records
from langchain_rse.stores.pairing import Model
from langchain_rse.stores.reading import readable
from langchain_rse.stores.records import (
    DOC_ID,
    END_INDEX,
    FLOORS,
    START_INDEX,
    Manifest,
    chunk_key,
)
from langchain_rse.stores.whole_documents import read_text
from langchain_rse.text.general_questions import GENERAL_QUESTIONS
from langchain_rse.text.sentences import split_sentences
from langchain_rse.text.words import beginning_of, find_words, without_function_words

logger = logging.getLogger(__name__)

# The number of best candidates in which words of the query are looked for.
_BEST = 20
_ALL_WORDS = 1 - 1e-9  # as a sum of shares
# Where rerankers of LangChain's packages name their model.
_MODEL_FIELDS = ("model", "model_name", "model_id")

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
_SENTENCES = 200  # to ask
_DRAWN_CHUNKS = 20  # at most, for each sentence that is wanted
_FEWEST_SENTENCES = 20
_FEWEST_CHUNKS = 10
_SENTENCE_WORDS = 6  # at least
_SENTENCE_LENGTH = 300  # characters, at most
# Behind a reranker, which takes long: questions of each kind, and candidates of each question.
_RERANKED_QUESTIONS = 40
_RERANKED_CANDIDATES = 20


@dataclass(frozen=True)
class ScoreFloor:
    """The score below which the best candidate of a query is no answer; printed, a table.

    `RSERetriever.fit_score_floor` makes it and keeps it in the docstore. The *reach* of a query is
    the score of its best candidate, brought nearer by ``word_bonus`` times the share of its words
    that one candidate has. A query is refused if its reach is below the floor, or above it if the
    scores are distances.

    Attributes:
        searcher: The class that finds the candidates.
        reranker: The reranker whose scores these are; empty for those of the search.
        floor: The floor, in the units of the scores.
        word_bonus: What the words of a query count at most, in the same units; at least 0.
        higher_is_better: False if the scores are distances.
        lost: The share of answered questions that may be refused.
        with_questions: True if the answered questions were given; else they are sentences of the
            documents, asked of all other chunks.
        answered: Percentiles 0 to 100 of the reach of answered questions, ascending.
        unrelated: The same of general questions, which have nothing to do with most documents.
        answered_count: The number of answered questions.
        unrelated_count: The number of general questions.
        chunks: The number of chunks that the documents had.
        store: The vector store, and ``model`` its embedding model; empty if unknown.
    """

    searcher: str
    reranker: str
    floor: float
    word_bonus: float
    higher_is_better: bool
    lost: float
    with_questions: bool
    answered: tuple[float, ...]
    unrelated: tuple[float, ...]
    answered_count: int
    unrelated_count: int
    chunks: int
    store: str = ""
    model: str = ""

    def reach(self, score: float, word_share: float) -> float:
        """The score, brought nearer by the share of the query's words in one candidate."""
        bonus = self.word_bonus * word_share
        return score + bonus if self.higher_is_better else score - bonus

    def refuses(self, reach: float) -> bool:
        """True if a query with this reach has no answer."""
        return reach < self.floor if self.higher_is_better else reach > self.floor

    def closer_than(self, reach: float) -> float:
        """The share of the answered questions whose reach is worse than this one."""
        if self.higher_is_better:
            worse = bisect_left(self.answered, reach)
        else:
            worse = bisect_left([-value for value in reversed(self.answered)], -reach)
        return worse / len(self.answered)

    def refused(self, percentiles: Sequence[float]) -> float:
        """The share of questions, given by percentiles of their reach, that the floor refuses."""
        return sum(map(self.refuses, percentiles)) / len(percentiles)

    @property
    def answered_name(self) -> str:
        """What the answered questions are called in messages."""
        return "answered questions" if self.with_questions else "sentences from the documents"

    @property
    def distributions(self) -> dict[str, tuple[float, ...]]:
        """The percentiles of both kinds of questions, by what they are called."""
        from langchain_rse.explaining import distributions_of

        return distributions_of(self)

    @property
    def summary(self) -> str:
        """What is refused, in three sentences."""
        from langchain_rse.explaining import summarize_floor

        return summarize_floor(self)

    def __str__(self) -> str:
        from langchain_rse.explaining import floor_as_text

        return floor_as_text(self)

    def _repr_html_(self) -> str:
        from langchain_rse.explaining import floor_as_html

        return floor_as_html(self)

    def plot(self, *, dark: bool = False) -> Any:  # noqa: ANN401 - matplotlib need not be there
        """Plot the reach of both kinds of questions, and the floor; needs the extra ``plot``."""
        from langchain_rse.explaining import load_plots

        return load_plots().plot_floor(self, dark=dark)


_FLOOR = TypeAdapter(ScoreFloor)


class FloorCheck(NamedTuple):
    """How near the documents come to a query, and whether that is near enough."""

    query: str
    best: Candidate | None  # the candidate with the best score
    word_share: float = 0.0  # of the query's words, in one candidate
    reach: float | None = None  # the best score with the bonus for words; None without scores
    floor: float | None = None
    closer_than: float | None = None  # see `ScoreFloor.closer_than`; None if not fitted
    compared_with: str = ""  # the questions of `closer_than`
    is_refused: bool = False


# Checking


def check_floor(
    candidates: Candidates, sources: Sources, settings: QuerySettings, model: Model, record: Record
) -> list[FloorCheck]:
    """Measure how near the documents come to each query; nothing if there is no floor.

    Args:
        candidates: Those of each query.
        sources: Where they come from.
        settings: The settings of the query.
        model: The embedding model, and the vector store's name.
        record: The docstore's record of score floors.
    """
    number = settings.score_floor
    if number == "fitted":
        floor = _floor_for(record, sources, settings.reranker, model)
        if floor is None:
            return []
        return [_check_fitted(each, candidates[each], settings, floor) for each in candidates]
    if number is None:
        return []
    return [_check_number(each, candidates[each], settings, number) for each in candidates]


def _floor_for(
    record: Record, sources: Sources, reranker: BaseDocumentCompressor | None, model: Model
) -> ScoreFloor | None:
    """The floor that was fitted for these stores and reranker; None if there is none."""
    floor = None if record is None else stored_floor(record, sources.name, reranker)
    if floor is None:
        return None
    for ours, theirs in ((floor.store, model.store), (floor.model, model.id)):
        if ours and theirs and ours != theirs:
            warn(
                "the score floor was fitted for another vector store or embedding model, so no "
                "question is refused: call fit_score_floor() again, or set score_floor=None"
            )
            return None
    return floor


def _check_fitted(
    query: str, candidates: Sequence[Candidate], settings: QuerySettings, floor: ScoreFloor
) -> FloorCheck:
    by_rank = best_first(candidates)
    score = _best_score(by_rank)
    if score is None:
        return FloorCheck(query, by_rank[0] if by_rank else None)
    share = share_of_words(query, by_rank[:_BEST])
    check = FloorCheck(query, by_rank[0], share)
    if direction_of(by_rank) not in {None, floor.higher_is_better}:
        warn(
            "the scores rise where they fell when the score floor was fitted, or the other way "
            "round, so no question is refused: call fit_score_floor() again"
        )
        return check
    reach = floor.reach(score, share)
    is_refused = floor.refuses(reach)
    if is_refused and settings.reranker is None:
        # Vectors say little of an error code; the index finds it.
        hits = [(each.hits[FULL_TEXT].rank, each) for each in candidates if FULL_TEXT in each.hits]
        best_hits = [candidate for rank, candidate in hits if rank < _BEST]
        is_refused = share_of_words(query, best_hits) < _ALL_WORDS
    return check._replace(
        reach=reach,
        floor=floor.floor,
        closer_than=floor.closer_than(reach),
        compared_with=floor.answered_name,
        is_refused=is_refused,
    )


def _check_number(
    query: str, candidates: Sequence[Candidate], settings: QuerySettings, number: float
) -> FloorCheck:
    by_rank = best_first(candidates)
    check = FloorCheck(query, by_rank[0] if by_rank else None)
    if check.best is None:
        return check
    score = _best_score(by_rank)
    if score is None:
        warn(f"score_floor={number:g} has no effect: the candidates have no scores")
        return check
    higher_is_better = True if settings.reranker is not None else direction_of(by_rank)
    if higher_is_better is None:
        warn(
            f"score_floor={number:g} has no effect: all candidates have the same score, so that it "
            "is not known whether higher or lower is better"
        )
        return check
    is_refused = score < number if higher_is_better else score > number
    return check._replace(reach=score, floor=number, is_refused=is_refused)


def best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates of the search or reranker, best first, without those found by words alone."""
    with_hits = [candidate for candidate in candidates if candidate.hit is not None]
    return sorted(with_hits, key=lambda each: 0 if each.hit is None else each.hit.rank)


def _best_score(by_rank: Sequence[Candidate]) -> float | None:
    best = by_rank[0].hit if by_rank else None
    return None if best is None else best.score


def share_of_words(query: str, candidates: Sequence[Candidate]) -> float:
    """The greatest share of the query's content words that one of the candidates has."""
    texts = list(dict.fromkeys(candidate.document.page_content for candidate in candidates))
    content = without_function_words(beginning_of(query))
    return float(max(word_shares(content, texts), default=0.0))


def direction_of(by_rank: Sequence[Candidate]) -> bool | None:
    """True if higher scores are better, False if they are distances, None if that is not known."""
    hits = [candidate.hit for candidate in by_rank if candidate.hit is not None]
    scores = [hit.score for hit in hits if hit.score is not None]
    if len(scores) < 2 or scores[0] == scores[-1]:  # noqa: PLR2004 - two make a direction
        return None
    return scores[0] > scores[-1]


# Storing


def _name_of(searcher: str, reranker: BaseDocumentCompressor | None) -> str:
    """The name of a floor in the docstore: by what finds the candidates, and what ranks them."""
    return f"{searcher} {_reranker_name(reranker)}".strip()


def _reranker_name(reranker: BaseDocumentCompressor | None) -> str:
    """The class of a reranker and its model, if it has one by a usual name; empty for none."""
    if reranker is None:
        return ""
    models = [getattr(reranker, field, None) for field in _MODEL_FIELDS]
    names = [type(reranker).__name__, *(model for model in models if isinstance(model, str))]
    return " ".join(names)


def stored_floor(
    record: Record, searcher: str, reranker: BaseDocumentCompressor | None
) -> ScoreFloor | None:
    """The floor in the docstore's record of floors; None if it has none, or it is damaged."""
    if not isinstance(record, Document):
        return None
    try:
        return _FLOOR.validate_python(record.metadata.get(_name_of(searcher, reranker)))
    except ValidationError:
        return None


def read_floors(docstore: DocStore) -> Steps[Record]:
    """Read the docstore's record of score floors."""
    records = yield from read_records(docstore, [FLOORS])
    return records[FLOORS]


def _write_floor(docstore: DocStore, name: str, floor: ScoreFloor | None) -> Steps[None]:
    """Write a floor, or remove it, and keep the floors with other names."""
    is_written = False
    while not is_written:
        record = yield from read_floors(docstore)
        stored = record if isinstance(record, Document) else None  # a damaged one is replaced
        floors = {} if stored is None else dict(stored.metadata)
        floors.pop(name, None)
        if floor is not None:
            floors[name] = _FLOOR.dump_python(floor, mode="json")
        elif stored is None:
            return
        [is_written] = yield from change(
            docstore, [(FLOORS, stored, Document("", metadata=floors))]
        )
        if not is_written:
            yield from pause(0.01)  # another call has changed it


# Fitting


class FitArguments(NamedTuple):
    """What a floor is fitted with."""

    sources: Sources
    settings: QuerySettings
    manifests: Sequence[Manifest]  # of the documents that may be found
    model: Model
    # Answers a question without a floor, given its candidates.
    answer: Callable[[str, Candidates], Steps[Sequence[Document]]]
    questions: Sequence[AnsweredQuestion] | None
    lost: float
    seed: int
    show_progress: bool


class AnsweredEvidence(Protocol):
    """A part of a document that answers a question, see `langchain_rse.evaluation.Evidence`."""

    @property
    def doc_id(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def text(self) -> str: ...


class AnsweredQuestion(Protocol):
    """A question with its evidence, see `langchain_rse.evaluation.Question`."""

    @property
    def question(self) -> str: ...
    @property
    def evidence(self) -> Sequence[AnsweredEvidence]: ...


class Asked(NamedTuple):
    """The best candidate of a question."""

    score: float
    word_share: float  # see `share_of_words`
    higher_is_better: bool | None
    own_score: float | None = None  # of the chunk that a sentence is from, if it was found
    is_quotation: bool = False  # True if the candidate contains the question word for word


class _Sentence(NamedTuple):
    """A sentence of a chunk."""

    text: str
    key: str  # the document's
    chunk_index: int


def fit_floor(arguments: FitArguments) -> Steps[ScoreFloor]:
    """Ask all questions, find the floor, and write it to the docstore.

    If questions cannot be asked any more, as their documents have moved, the old floor is void.
    """
    sources = arguments.sources
    reranker = arguments.settings.reranker
    name = _name_of(sources.name, reranker)
    try:
        floor = yield from _find_floor(arguments)
    except ValueError:
        yield from _write_floor(sources.docstore, name, None)
        raise
    yield from _write_floor(sources.docstore, name, floor)
    refused = floor.refused(floor.unrelated)
    if refused < 0.5:  # noqa: PLR2004 - half of them
        warn(
            f"the score floor refuses only {refused:.0%} of general questions, so scores hardly "
            "tell whether the documents have an answer; a reranker may"
        )
    return floor


def _find_floor(arguments: FitArguments) -> Steps[ScoreFloor]:
    sources, lost = arguments.sources, arguments.lost
    unrelated, answered, asked_count = yield from _ask_all(arguments)
    direction = _direction([*unrelated, *answered], sources.name)
    is_reranked = is_reranker(arguments.settings.reranker)
    bonus = 0.0  # a reranker reads the words itself; a filter by similarities is like a search
    if not is_reranked:
        scores = [direction * asked.score for asked in unrelated]
        median, upper = np.percentile(scores, [50, _UPPER_SIXTH])
        bonus = _WORD_BONUS * float(upper - median)

    def reach(asked: Asked) -> float:
        return direction * asked.score + bonus * asked.word_share

    if arguments.questions is None:
        floor = _floor_by_sentences(
            unrelated, answered, lost, bonus, direction, is_reranked=is_reranked
        )
    else:
        quotations = [asked for asked in answered if asked.is_quotation]
        if 2 * len(quotations) > len(answered):
            raise CalibrationError(
                f"{len(quotations)} of {len(answered)} questions stand word for word in the "
                "documents. Questions as people ask them score lower, and would be refused. Give "
                "such questions, or none"
            )
        # The finite-sample quantile of split conformal prediction, see `fit_score_floor`.
        number = math.floor((asked_count + 1) * lost + 1e-9)
        if number > len(answered):
            raise CalibrationError(
                f"evidence was found for only {len(answered)} of {asked_count} questions, so that "
                "a floor tells nothing. See what evaluate(retriever, questions) reports"
            )
        floor = sorted(map(reach, answered))[number - 1]
    return ScoreFloor(
        searcher=sources.name,
        reranker=_reranker_name(arguments.settings.reranker),
        floor=direction * floor,
        word_bonus=bonus,
        higher_is_better=direction > 0,
        lost=lost,
        with_questions=arguments.questions is not None,
        answered=_percentiles([direction * reach(asked) for asked in answered]),
        unrelated=_percentiles([direction * reach(asked) for asked in unrelated]),
        answered_count=len(answered),
        unrelated_count=len(unrelated),
        chunks=sum(map(_chunk_count, arguments.manifests)),
        store=arguments.model.store,
        model=arguments.model.id,
    )


def _percentiles(values: Sequence[float]) -> tuple[float, ...]:
    """Percentiles 0 to 100, to six digits."""
    return tuple(float(f"{each:.6g}") for each in np.percentile(values, np.arange(101)))


def _chunk_count(manifest: Manifest) -> int:
    return manifest.current.chunks if manifest.current else 0


def _direction(asked: Sequence[Asked], searcher: str) -> float:
    """1 if higher scores are better, -1 if they are distances."""
    known = [each.higher_is_better for each in asked if each.higher_is_better is not None]
    if not known or len({each.score for each in asked}) == 1:
        raise CalibrationError(
            f"{searcher} gives all candidates of a question the same score, so that scores tell "
            "nothing: the chunks are all alike, or its scores are constant"
        )
    return 1.0 if 2 * sum(known) > len(known) else -1.0


def _floor_by_sentences(
    unrelated: Sequence[Asked],
    answered: Sequence[Asked],
    lost: float,
    bonus: float,
    direction: float,
    *,
    is_reranked: bool,
) -> float:
    """The floor by sentences of the documents, the greater the better."""
    copied = []
    for asked in answered:
        if asked.own_score is not None and direction * (asked.score - asked.own_score) >= 0:
            copied.append(asked)
    if len(copied) >= _ALIKE * len(answered):
        raise CalibrationError(
            "the chunks are alike: other chunks fit sentences as well as their own, so that "
            "sentences do not tell what a question reaches. Give questions with evidence"
        )
    scores = [direction * asked.score for asked in answered]
    general = float(np.median([direction * asked.score for asked in unrelated]))
    if np.median(scores) <= general:
        raise CalibrationError(
            "sentences of the documents reach no better scores than questions about anything else, "
            "so that scores do not tell whether there is an answer. Is the embedding model right "
            "for the language of the documents?"
        )
    if is_reranked:
        quantile = min(_RERANKED_QUANTILE * lost, 0.5)
        return general + _RERANKED_WAY_TO_OWN * (float(np.quantile(scores, quantile)) - general)
    own = float(np.quantile(scores, lost))
    return general + _WAY_TO_OWN * (own - general) + _USUAL_WORD_SHARE * bonus


# Asking


def _ask_all(arguments: FitArguments) -> Steps[tuple[list[Asked], list[Asked], int]]:
    """Ask general questions, and the given ones or sentences of the documents.

    Returns what both found, and how many answered questions were asked.
    """
    settings = arguments.settings
    few_candidates = settings
    rng = np.random.default_rng(arguments.seed)
    general = list(GENERAL_QUESTIONS)
    if settings.reranker is not None:
        fewer = min(settings.fetch_k, _RERANKED_CANDIDATES)
        few_candidates = settings.model_copy(update={"fetch_k": fewer})
        general = [str(each) for each in rng.permutation(general)[:_RERANKED_QUESTIONS]]
    tasks: list[Steps[Asked | None]] = []
    if arguments.questions is None:
        kind = "sentence"
        for sentence in (yield from _draw_sentences(arguments, rng)):
            tasks.append(_ask_sentence(sentence, arguments.sources, few_candidates))
    else:
        kind = "question"
        with_evidence = [question for question in arguments.questions if question.evidence]
        _check_enough(len(with_evidence), arguments.lost)
        for question in with_evidence:
            evidence = yield from _locate(question, arguments)
            tasks.append(_ask_question(question.question, evidence, arguments))
    message = (
        f"Fitting the score floor asks {counted(len(general), 'general question')} and "
        f"{counted(len(tasks), kind)}: {counted(len(general) + len(tasks), 'embedding')}"
    )
    if settings.reranker is not None:
        depth = few_candidates.fetch_k if arguments.questions is None else settings.fetch_k
        rerankings = len(general) * few_candidates.fetch_k + len(tasks) * depth
        message += f" and {rerankings:,} rerankings by {type(settings.reranker).__name__}"
    logger.info("%s", message)
    all_tasks = [_ask(query, arguments.sources, few_candidates) for query in general] + tasks
    with progress_bar(
        len(all_tasks), unit="questions", title="Fitting", show=arguments.show_progress
    ) as advance:

        def advancing(task: Steps[Asked | None]) -> Steps[Asked | None]:
            asked = yield from task
            advance(1)
            return asked

        results = yield from concurrently([advancing(task) for task in all_tasks], AT_ONCE)
    unrelated = [asked for asked in results[: len(general)] if asked is not None]
    answered = [asked for asked in results[len(general) :] if asked is not None]
    if not unrelated or not answered:
        raise CalibrationError(
            f"{arguments.sources.name} found too little: candidates for {len(unrelated)} of "
            f"{len(general)} general questions and evidence for {len(answered)} of "
            f"{len(tasks)} others. Are there documents, or does a filter exclude them?"
        )
    return unrelated, answered, len(tasks)


def _check_enough(count: int, lost: float) -> None:
    """Raise a CalibrationError if there are too few questions to promise a share of lost ones."""
    needed = math.ceil(1 / lost - 1 - 1e-9)
    if count < needed:
        possible = f", or lost={math.ceil(1000 / (count + 1)) / 1000:g}" if count else ""
        raise CalibrationError(
            f"lost={lost:g} needs at least {needed} questions with evidence; got {count}. Give "
            f"more{possible}, or no questions to ask sentences of the documents"
        )


def _draw_sentences(arguments: FitArguments, rng: np.random.Generator) -> Steps[list[_Sentence]]:
    """Draw sentences of chunks at random, at most one of a chunk."""
    manifests = arguments.manifests
    most = _SENTENCES if arguments.settings.reranker is None else _RERANKED_QUESTIONS
    first_numbers = np.cumsum([0, *map(_chunk_count, manifests)])
    total = int(first_numbers[-1])
    sentences: list[_Sentence] = []
    drawn = rng.permutation(total)[: _DRAWN_CHUNKS * most]
    for start in range(0, drawn.size, 2 * most):
        if len(sentences) >= most:
            break
        chunks = []
        keys = []
        for number in drawn[start : start + 2 * most].tolist():
            document = int(np.searchsorted(first_numbers, number, side="right")) - 1
            manifest, index = manifests[document], number - int(first_numbers[document])
            version = manifest.current.name if manifest.current else ""
            chunks.append((manifest, index))
            keys.append(chunk_key(manifest.key, version, index))
        records = yield from read_records(arguments.sources.docstore, keys)
        for (manifest, index), key in zip(chunks, keys, strict=True):
            record = readable(records[key])
            long_enough = []
            for sentence in split_sentences("" if record is None else record.page_content):
                if len(find_words(sentence)) >= _SENTENCE_WORDS:
                    long_enough.append(sentence[:_SENTENCE_LENGTH])
            if long_enough:
                text = long_enough[int(rng.integers(len(long_enough)))]
                sentences.append(_Sentence(text, manifest.key, index))
    if total < _FEWEST_CHUNKS or len(sentences) < _FEWEST_SENTENCES:
        raise CalibrationError(
            f"there is too little text to fit a score floor: {counted(total, 'chunk')} with "
            f"{counted(len(sentences), 'sentence')} of {_SENTENCE_WORDS} words; at least "
            f"{_FEWEST_CHUNKS} and {_FEWEST_SENTENCES} are needed. Give questions with evidence"
        )
    return sentences[:most]


def _ask(query: str, sources: Sources, settings: QuerySettings) -> Steps[Asked | None]:
    """Ask a general question."""
    candidates = yield from _find(query, sources, settings)
    return _measure(query, candidates, sources, settings)


def _ask_sentence(
    sentence: _Sentence, sources: Sources, settings: QuerySettings
) -> Steps[Asked | None]:
    """Ask a sentence of all chunks but its own."""
    candidates = yield from _find(sentence.text, sources, settings)
    others = []
    own_score = None
    for candidate in candidates:
        if (candidate.key, candidate.chunk_index) == (sentence.key, sentence.chunk_index):
            own_score = None if candidate.hit is None else candidate.hit.score
        else:
            others.append(candidate)
    asked = _measure(sentence.text, others, sources, settings)
    return None if asked is None else asked._replace(own_score=own_score)


def _ask_question(
    question: str, evidence: Mapping[str, Sequence[range]], arguments: FitArguments
) -> Steps[Asked | None]:
    """Ask a question with evidence; None if none of the evidence is returned without a floor.

    Of several queries, the one that comes nearest counts.
    """
    sources, settings = arguments.sources, arguments.settings
    queries = yield from queries_of(question, settings, None)
    filters = filters_of(settings.search_kwargs, sources.base_retriever)
    with during("asking a question to fit the score floor"):
        _, by_query = yield from find_candidates(sources, queries, settings, filters)
    answer = yield from arguments.answer(question, by_query)
    if not _contains_evidence(answer, evidence):
        return None
    measured = [_measure(query, found, sources, settings) for query, found in by_query.items()]
    known = [asked for asked in measured if asked is not None]
    if not known:
        return None
    direction = -1.0 if known[0].higher_is_better is False else 1.0
    return max(known, key=lambda asked: (direction * asked.score, asked.word_share))


def _locate(question: AnsweredQuestion, arguments: FitArguments) -> Steps[dict[str, list[range]]]:
    """The characters of a question's evidence, by document; a ValueError if they are not there.

    Documents with the same text have it too, since only one of them is returned.
    """
    manifest_of = {manifest.doc_id: manifest for manifest in arguments.manifests}
    located: dict[str, list[range]] = {}
    for evidence in question.evidence:
        manifest = manifest_of.get(evidence.doc_id)
        characters = range(evidence.start, evidence.end)
        if manifest is not None and not characters and evidence.text:
            stored = yield from read_text(arguments.sources.docstore, manifest)
            match = quotation_pattern(evidence.text).search(stored.text if stored else "")
            characters = range(*match.span()) if match else characters
        if manifest is None or not characters or characters.stop > manifest.length:
            shown = evidence.text or f"characters {evidence.start:,}–{evidence.end:,}"
            raise ValueError(
                f"the evidence of {question.question!r:.80} is not in the documents: {shown!r:.80} "
                f"of {evidence.doc_id!r}. Have documents moved? Give their present ids"
            )
        for other in arguments.manifests:
            has_same_text = manifest.text_digest and other.text_digest == manifest.text_digest
            if other is manifest or has_same_text:
                located.setdefault(other.doc_id, []).append(characters)
    return located


def _contains_evidence(
    documents: Iterable[Document], evidence: Mapping[str, Sequence[range]]
) -> bool:
    """True if some character of the evidence is in one of the segments."""
    for document in documents:
        metadata = document.metadata
        for characters in evidence.get(metadata[DOC_ID], ()):
            overlaps_start = characters.start < metadata[END_INDEX]
            if overlaps_start and metadata[START_INDEX] < characters.stop:
                return True
    return False


def _find(query: str, sources: Sources, settings: QuerySettings) -> Steps[list[Candidate]]:
    """Search and rerank for one query."""
    filters = filters_of(settings.search_kwargs, sources.base_retriever)
    with during("asking a question to fit the score floor"):
        _, by_query = yield from find_candidates(sources, [query], settings, filters)
    return list(by_query[query])


def _measure(
    query: str, candidates: Sequence[Candidate], sources: Sources, settings: QuerySettings
) -> Asked | None:
    """Measure the best candidate of a query; None if there is none."""
    by_rank = best_first(candidates)
    if not by_rank:
        return None
    score = _best_score(by_rank)
    if score is None:
        scorer = sources.name if settings.reranker is None else type(settings.reranker).__name__
        raise CalibrationError(
            f"{scorer} gives no scores, so that it is not known when nothing is there, and no "
            "question is refused. Use a vector store or a reranker with scores"
        )
    words = " ".join(find_words(query))
    best_words = " ".join(find_words(by_rank[0].document.page_content))
    return Asked(
        score,
        share_of_words(query, by_rank[:_BEST]),
        direction_of(by_rank),
        is_quotation=bool(words) and words in best_words,
    )
