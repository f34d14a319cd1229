"""The score floor: rejects queries whose best candidate is too far away to be an answer.

`RSERetriever.fit_score_floor` documents the questions that fit it, and the source of the rule.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from langchain_rse._messages import Advance, model_name, progress_bar, warn
from langchain_rse._sync import Steps, concurrently, run
from langchain_rse.config import QuerySettings
from langchain_rse.engine import word_shares
from langchain_rse.errors import ScoreFloorError
from langchain_rse.query.candidates import (
    FULL_TEXT,
    RERANKER,
    VECTORS,
    Candidate,
    Candidates,
    Sources,
    numbers_by_rank,
)
from langchain_rse.query.filters import filters_of
from langchain_rse.query.searching import AT_ONCE, check_search, find_candidates, is_reranker
from langchain_rse.stores.compare_and_set import DocStore, Record, change, read_records, readable
from langchain_rse.stores.layouts import chunk_keys
from langchain_rse.stores.pairing import Model
from langchain_rse.stores.records import FLOORS, Manifest, chunk_key, digest
from langchain_rse.text.general_questions import GENERAL_QUESTIONS
from langchain_rse.text.quoting import counted, encodable
from langchain_rse.text.sentences import split_sentences
from langchain_rse.text.words import content_words, find_words

logger = logging.getLogger(__name__)

# Number of best candidates of each search that are searched for words of the query.
_BEST_WITH_WORDS = 20


@dataclass(frozen=True, repr=False)
class FittedFloor:
    """A fitted threshold: a query whose best candidate scores below it returns nothing.

    `RSERetriever.fit_score_floor` fits it and stores it in the docstore. The *reach* of a query is
    the score of its best candidate plus ``word_bonus`` times the share of the query's words found
    in one candidate (minus, if the scores are distances). A query is rejected if its reach is below
    the floor, or above it if the scores are distances.

    Attributes:
        scorer: Name of what gives the scores: the search, or the reranker and its model.
        floor: The threshold, in the units of the scores.
        word_bonus: Bonus for a query whose words are all found, in the same units; at least 0.
        higher_is_better: False if the scores are distances.
        questions: Number of off-topic questions that were asked.
        sentences: Number of sentences from the documents that were asked.
        chunks: Number of chunks in the documents.
        store: Name of the vector store; empty if unknown.
        model: Id of the embedding model; empty if unknown.
        rejected_questions: Share of the off-topic questions that the floor rejects.
        rejected_sentences: Share of the sentences that the floor rejects.
    """

    scorer: str
    floor: float
    word_bonus: float
    higher_is_better: bool
    questions: int
    sentences: int
    chunks: int = 0
    store: str = ""
    model: str = ""
    rejected_questions: float = 0.0
    rejected_sentences: float = 0.0

    def reach(self, score: float, word_share: float) -> float:
        """Add the bonus for a share of words to a score (subtract it from a distance)."""
        bonus = self.word_bonus * word_share
        return score + bonus if self.higher_is_better else score - bonus

    @property
    def _rejected(self) -> str:
        """What the floor rejects, in words."""
        return (
            f"rejects {self.rejected_questions:.0%} of {self.questions} off-topic questions, "
            f"{self.rejected_sentences:.0%} of {self.sentences} sentences"
        )

    def __repr__(self) -> str:
        return f"<FittedFloor {self.floor:.3g}: {self._rejected}>"

    def __str__(self) -> str:
        bound, sign = ("scores below", "+") if self.higher_is_better else ("is farther than", "-")
        return (
            f"Questions whose best match {bound} {self.floor:.3g} return nothing. That "
            f"{self._rejected} from the documents. "
            f"(Score = best {self.scorer} score {sign} {self.word_bonus:.3g} x share of the "
            "question's words found in one chunk.)"
        )


_FLOOR = TypeAdapter(FittedFloor)


class FloorCheck(NamedTuple):
    """The result of comparing a query with the score floor."""

    query: str
    best: Candidate | None  # the candidate with the best score
    word_share: float = 0.0  # share of the query's words found in one candidate
    reach: float | None = None  # best score with the bonus for words; None if not compared
    floor: float | None = None
    is_rejected: bool = False
    note: str = ""  # about the scores, for the sentence of `Reason.BELOW_THE_FLOOR`


# Checking


def check_floor(
    candidates: Candidates,
    sources: Sources,
    settings: QuerySettings,
    model: Model,
    record: Record,
) -> list[FloorCheck]:
    """Compare each query with the score floor; return an empty list if there is no floor.

    Args:
        candidates: The candidates of each query.
        sources: The stores and retriever of the query.
        settings: The settings of the query.
        model: The embedding model and the name of the vector store.
        record: The docstore's record of score floors.
    """
    fitted = None
    number = settings.score_floor
    if number == "fitted":
        fitted = stored_floor(record, floor_name(sources.name, settings.reranker))
        number = None if fitted is None else fitted.floor
    if number is None:
        return []
    if fitted and (_differ(fitted.store, model.store) or _differ(fitted.model, model.id)):
        warn(
            "the score floor is ignored because it was fitted for another vector store or "
            "embedding model. Call fit_score_floor() again, or set score_floor=None"
        )
        return []
    checks = []
    for query, found in candidates.items():
        checks.append(_check_query(query, found, number, fitted))
    return checks


def _differ(name: str, other: str) -> bool:
    """True if both names are known, and different."""
    return bool(name and other) and name != other


def _check_query(
    query: str,
    candidates: Sequence[Candidate],
    floor: float,
    fitted: FittedFloor | None,
) -> FloorCheck:
    """Compare a query with the floor; accept it with a warning if its scores are unusable."""
    by_rank, score, direction = rank_by_search(candidates)
    if not by_rank:
        return FloorCheck(query, None)
    best = by_rank[0]
    fitted_direction = direction
    if fitted:
        fitted_direction = 1 if fitted.higher_is_better else -1
        direction = direction or fitted_direction
    if score is None or not direction or direction != fitted_direction:
        warn(
            f"score_floor={floor:g} has no effect: the candidates have no scores, or it is "
            "unknown whether higher or lower scores are better. If the floor was fitted, call "
            "fit_score_floor() again"
        )
        return FloorCheck(query, best)
    word_share = 0.0
    reach = score
    if fitted:
        word_share = share_of_words(query, candidates)
        reach = fitted.reach(score, word_share)
    is_rejected = direction * reach < direction * floor
    note = "" if direction > 0 else " (distances: lower is better)"
    return FloorCheck(query, best, word_share, reach, floor, is_rejected, note)


def rank_by_search(
    candidates: Iterable[Candidate],
) -> tuple[Sequence[Candidate], float | None, int]:
    """Sort candidates by their rank in the search, or by the reranker's if there is one.

    Returns:
        The candidates, best first, without those that only the full-text index found; the best
        score, None without scores; and 1 if higher scores are better, -1 for distances, 0 if
        unknown.
    """
    ranked = [(candidate.hit, candidate) for candidate in candidates if candidate.hit is not None]
    ranked.sort(key=lambda pair: pair[0].rank)
    by_rank = [candidate for _, candidate in ranked]
    scores = [hit.score for hit, _ in ranked if hit.score is not None]
    if not scores:
        return by_rank, None, 0
    direction = 1 if RERANKER in by_rank[0].hits else int(np.sign(scores[0] - scores[-1]))
    return by_rank, scores[0], direction


def share_of_words(query: str, candidates: Sequence[Candidate]) -> float:
    """Return the largest share of the query's content words found in one of the best candidates.

    The full-text index is heard as well, because vectors represent rare terms such as error codes
    poorly.
    """
    words = content_words(query)
    texts: set[int] = set()  # numbers
    for search in (VECTORS, FULL_TEXT):
        numbers = numbers_by_rank(candidates, search)[:_BEST_WITH_WORDS]
        texts.update(candidates[number].text for number in numbers)
    is_in = candidates[0].texts.counts(words)[list(texts)] > 0
    return float(word_shares(is_in).max(initial=0.0))


# Storing


def floor_name(searcher: str, reranker: BaseDocumentCompressor | None) -> str:
    """Return the key of a floor in the docstore: the names of searcher and reranker."""
    return f"{searcher} {reranker_name(reranker)}".strip()


def reranker_name(reranker: BaseDocumentCompressor | None) -> str:
    """Return the class name of a reranker and its model, if known; empty without a reranker."""
    return "" if reranker is None else f"{type(reranker).__name__} {model_name(reranker)}".strip()


def stored_floor(record: Record, name: str) -> FittedFloor | None:
    """Return the floor in the docstore's record of floors; None if missing or corrupt."""
    if not isinstance(record, Document):
        return None
    try:
        return _FLOOR.validate_python(record.metadata.get(name))
    except ValidationError:
        return None


def read_floors(docstore: DocStore) -> Record:
    """Read the docstore's record of score floors."""
    return read_records(docstore, [FLOORS])[FLOORS]


def write_floor(docstore: DocStore, name: str, floor: FittedFloor | None) -> None:
    """Write or remove the floor with this name; keep all other floors."""
    while True:
        record = read_floors(docstore)
        stored = record if isinstance(record, Document) else None  # replaces a corrupt record
        floors = {} if stored is None else dict(stored.metadata)
        floors.pop(name, None)
        if floor is not None:
            floors[name] = _FLOOR.dump_python(floor, mode="json")
        if not (stored or floors):
            return
        [is_written] = change(docstore, [(FLOORS, stored, Document("", metadata=floors))])
        if is_written:
            return
        time.sleep(0.01)  # another call changed the record: try again


# Fitting


class _Rule(NamedTuple):
    """Where the floor lies; the numbers were chosen on eight datasets, see benchmarks/README.md."""

    # Between the median score of off-topic questions (0) and a low quantile of the scores of
    # sentences from the documents (1).
    position: float
    low_quantile: float
    word_bonus: float  # in standard deviations of the scores of off-topic questions


_RULE = _Rule(position=0.5, low_quantile=0.02, word_bonus=6.0)
# A reranker reads the words itself; a similarity filter does not.
_RERANKER_RULE = _Rule(position=0.3, low_quantile=0.3, word_bonus=0.0)
# The share of words at which the bonus has no effect: without and with the full-text index, which
# finds more words of any question.
_USUAL_WORD_SHARE = 0.17
_USUAL_WORD_SHARE_IN_INDEX = 0.25
_UPPER_SIXTH = 84  # the percentile one standard deviation above the median
_ALIKE = 0.9  # limit for the share of sentences that match other chunks as well as their own
_FEWEST_REJECTED = 0.5  # of off-topic questions, without a warning
_SENTENCES = 200  # number of sentences to ask
_DRAWN_CHUNKS = 5  # maximum number of chunks to draw per sentence
_FEWEST_SENTENCES = 20
_FEWEST_CHUNKS = 10
_SENTENCE_WORDS = 6  # minimum
_SENTENCE_LENGTH = 300  # maximum, in characters
# Limits with a reranker, which is slow: questions of each kind, and candidates per question.
_RERANKED_QUESTIONS = 40
_RERANKED_CANDIDATES = 20


class _Probe(NamedTuple):
    """The best candidate of a question that was asked."""

    score: float
    word_share: float  # see `share_of_words`
    direction: int  # 1 if higher scores are better, -1 for distances, 0 if unknown
    own_score: float  # score of the chunk that contains the sentence; NaN if it was not found


def fit_floor(
    sources: Sources,
    settings: QuerySettings,
    manifests: Sequence[Manifest],
    model: Model,
    *,
    show_progress: bool,
) -> FittedFloor:
    """Ask all questions, fit the floor, and write it to the docstore.

    If that fails, the floor that was stored before is deleted.

    Args:
        sources: The stores and retriever of queries.
        settings: The settings of queries, with ``score_floor=None``.
        manifests: The documents that a search may find.
        model: The embedding model and the name of the vector store.
        show_progress: Show a progress bar.
    """
    name = floor_name(sources.name, settings.reranker)
    try:
        off_topic, sentences = _ask_all(sources, settings, manifests, show_progress)
        fitted = _fit(off_topic, sentences, sources, settings)
    except ScoreFloorError:
        write_floor(sources.docstore, name, None)
        raise
    chunks = sum(manifest.chunk_count for manifest in manifests)
    floor = replace(fitted, chunks=chunks, store=model.store, model=model.id)
    write_floor(sources.docstore, name, floor)
    if floor.rejected_questions < _FEWEST_REJECTED:
        warn(
            f"the score floor rejects only {floor.rejected_questions:.0%} of off-topic questions: "
            "the scores barely separate answerable from unanswerable questions. A reranker may "
            "separate them better"
        )
    return floor


def _fit(
    off_topic: Sequence[_Probe],
    sentences: Sequence[_Probe],
    sources: Sources,
    settings: QuerySettings,
) -> FittedFloor:
    """Fit the floor to the scores of both kinds of questions."""
    scorer = reranker_name(settings.reranker) or sources.name
    general_scores, general_shares, general_directions, _ = np.transpose(off_topic)
    sentence_scores, sentence_shares, sentence_directions, own_scores = np.transpose(sentences)
    direction = float(np.sign(general_directions.sum() + sentence_directions.sum()))
    if not direction or len({*general_scores, *sentence_scores}) == 1:
        raise ScoreFloorError(
            f"{scorer} gives no scores, or all candidates of a question the same score, so no "
            "floor can be fitted: the chunks are all alike, or the scores say nothing"
        )
    alike = direction * (sentence_scores - own_scores) >= 0
    if alike.sum() >= _ALIKE * len(sentences):
        raise ScoreFloorError(
            "the chunks are alike: sentences match other chunks as well as their own, so they are "
            "no model for questions"
        )
    general_scores *= direction  # from here on, higher scores are better
    sentence_scores *= direction
    median, upper_sixth = np.percentile(general_scores, [50, _UPPER_SIXTH])
    if np.median(sentence_scores) <= median:
        raise ScoreFloorError(
            "sentences from the documents score no better than off-topic questions, so scores do "
            "not show whether the documents have an answer. Check that the embedding model "
            "supports the language of the documents"
        )
    rule = _RERANKER_RULE if is_reranker(settings.reranker) else _RULE
    low = np.quantile(sentence_scores, rule.low_quantile)
    word_bonus = float(rule.word_bonus * (upper_sixth - median))
    is_index_searched = check_search(sources, settings) is None
    usual_share = _USUAL_WORD_SHARE_IN_INDEX if is_index_searched else _USUAL_WORD_SHARE
    threshold = median + rule.position * (low - median) + usual_share * word_bonus
    are_rejected = general_scores + word_bonus * general_shares < threshold
    are_lost = sentence_scores + word_bonus * sentence_shares < threshold
    return FittedFloor(
        scorer=scorer,
        floor=float(direction * threshold),
        word_bonus=word_bonus,
        higher_is_better=direction > 0,
        questions=len(off_topic),
        sentences=len(sentences),
        rejected_questions=float(are_rejected.mean()),
        rejected_sentences=float(are_lost.mean()),
    )


# Asking


def _ask_all(
    sources: Sources,
    settings: QuerySettings,
    manifests: Sequence[Manifest],
    show_progress: bool,  # noqa: FBT001
) -> tuple[Sequence[_Probe], Sequence[_Probe]]:
    """Ask off-topic questions, and sentences from the documents; return the probes of both."""
    questions = list(GENERAL_QUESTIONS)
    most_sentences = _SENTENCES
    if settings.reranker is not None:
        questions = np.random.default_rng(0).permutation(questions)[:_RERANKED_QUESTIONS].tolist()
        most_sentences = _RERANKED_QUESTIONS
        fetch_k = min(settings.fetch_k, _RERANKED_CANDIDATES)
        settings = settings.model_copy(update={"fetch_k": fetch_k})
    sentences = _draw_sentences(sources.docstore, manifests, most_sentences)
    logger.info(
        "Fitting the score floor asks %s and %s",
        counted(len(questions), "off-topic question"),
        counted(len(sentences), "sentence"),
    )
    queries = [*((question, "") for question in questions), *sentences]
    with progress_bar(len(queries), unit="questions", title="Fitting", show=show_progress) as bar:
        tasks = [_ask(query, own_key, sources, settings, bar) for query, own_key in queries]
        probes = run(concurrently(tasks, AT_ONCE))
    off_topic = list(filter(None, probes[: len(questions)]))
    answered = list(filter(None, probes[len(questions) :]))
    if not off_topic or not answered:
        raise ScoreFloorError(
            f"{sources.name} found candidates for only {len(off_topic)} off-topic questions and "
            f"{len(answered)} sentences. Check that documents were added and that no filter "
            "excludes them"
        )
    return off_topic, answered


def _draw_sentences(
    docstore: DocStore,
    manifests: Sequence[Manifest],
    most: int,
) -> list[tuple[str, str]]:
    """Draw sentences, at most one per chunk, each with the key of its chunk's record.

    Digests choose them, so that other documents hardly change the sample.
    """
    named_keys: list[tuple[str, str]] = []
    for key, manifest in chunk_keys(manifests):
        number = key.rpartition("/")[2]  # of the chunk; versions have new names each time
        named_keys.append((digest(manifest.doc_id, number), key))
    drawn = sorted(named_keys)[: _DRAWN_CHUNKS * most]
    records = read_records(docstore, [key for _, key in drawn])
    sentences: list[tuple[str, str]] = []
    for name, key in drawn:
        chunk = readable(records[key])
        long_enough = []
        for sentence in split_sentences("" if chunk is None else chunk.page_content):
            if len(find_words(sentence)) >= _SENTENCE_WORDS:
                long_enough.append(encodable(sentence[:_SENTENCE_LENGTH]))
        if long_enough:
            sentences.append((long_enough[int(name, 16) % len(long_enough)], key))
        if len(sentences) == most:
            break
    if len(named_keys) < _FEWEST_CHUNKS or len(sentences) < _FEWEST_SENTENCES:
        raise ScoreFloorError(
            f"too little text to fit a score floor: {counted(len(named_keys), 'chunk')} with "
            f"{counted(len(sentences), 'sentence')} of at least {_SENTENCE_WORDS} words. At least "
            f"{_FEWEST_CHUNKS} chunks and {_FEWEST_SENTENCES} sentences are needed. Add documents, "
            "or set score_floor=NUMBER"
        )
    return sentences


def _ask(
    query: str,
    own_key: str,
    sources: Sources,
    settings: QuerySettings,
    advance: Advance,
) -> Steps[_Probe | None]:
    """Search and rerank as the retriever does; return None if there is no candidate.

    ``own_key`` is the key of the chunk that contains the query, which is left out.
    """
    filters = filters_of(settings.search_kwargs, sources.base_retriever)
    found = yield from find_candidates(sources, [query], settings, filters)
    advance(1)
    others = []
    own_score = math.nan
    for candidate in found[query]:
        if chunk_key(candidate.key, candidate.version, candidate.chunk_index) != own_key:
            others.append(candidate)
        elif candidate.hit is not None and candidate.hit.score is not None:
            own_score = candidate.hit.score
    by_rank, score, direction = rank_by_search(others)
    if not by_rank:
        return None
    return _Probe(
        math.nan if score is None else score, share_of_words(query, others), direction, own_score
    )
