"""Fits the score floor: finds the score that separates answered questions from off-topic ones.

`RSERetriever.fit_score_floor` documents the questions, and the source of the rule.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from langchain_rse._messages import Advance, progress_bar, warn
from langchain_rse._sync import Steps, concurrently, run
from langchain_rse.config import QuerySettings
from langchain_rse.errors import ScoreFloorError
from langchain_rse.query.candidates import Sources
from langchain_rse.query.filters import filters_of
from langchain_rse.query.floor import (
    FittedFloor,
    floor_name,
    rank_by_search,
    reranker_name,
    share_of_words,
    write_floor,
)
from langchain_rse.query.reranking import find_candidates, is_reranker
from langchain_rse.query.searching import AT_ONCE, check_search
from langchain_rse.stores.compare_and_set import DocStore, read_records, readable
from langchain_rse.stores.layouts import chunk_keys
from langchain_rse.stores.pairing import Model
from langchain_rse.stores.records import Manifest, chunk_key
from langchain_rse.text.general_questions import GENERAL_QUESTIONS
from langchain_rse.text.quoting import counted, encodable
from langchain_rse.text.sentences import split_sentences
from langchain_rse.text.words import find_words

logger = logging.getLogger(__name__)


# Where the floor lies; chosen on eight datasets, see benchmarks/README.md: a position between the
# median score of off-topic questions (0) and a low quantile of the scores of sentences from the
# documents (1), this quantile, and the bonus of words in standard deviations of the former.
_RULE = (0.5, 0.02, 6.0)
# A reranker reads the words itself; a similarity filter does not.
_RERANKER_RULE = (0.3, 0.3, 0.0)
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
    position, quantile, bonus = _RERANKER_RULE if is_reranker(settings.reranker) else _RULE
    low = np.quantile(sentence_scores, quantile)
    word_bonus = float(bonus * (upper_sixth - median))
    is_index_searched = check_search(sources, settings) is None
    usual_share = _USUAL_WORD_SHARE_IN_INDEX if is_index_searched else _USUAL_WORD_SHARE
    threshold = median + position * (low - median) + usual_share * word_bonus
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
    rng = np.random.default_rng(0)
    questions = list(GENERAL_QUESTIONS)
    most_sentences = _SENTENCES
    if settings.reranker is not None:
        questions = rng.permutation(questions)[:_RERANKED_QUESTIONS].tolist()
        most_sentences = _RERANKED_QUESTIONS
        fetch_k = min(settings.fetch_k, _RERANKED_CANDIDATES)
        settings = settings.model_copy(update={"fetch_k": fetch_k})
    sentences = _draw_sentences(sources.docstore, manifests, most_sentences, rng)
    logger.info(
        "Fitting the score floor asks %s and %s",
        counted(len(questions), "off-topic question"),
        counted(len(sentences), "sentence"),
    )
    queries = [*((question, "") for question in questions), *sentences]
    with progress_bar(len(queries), unit="questions", title="Fitting", show=show_progress) as bar:
        tasks = [_ask(query, own_key, sources, settings, bar) for query, own_key in queries]
        probes = run(concurrently(tasks, AT_ONCE))
    off_topic = [probe for probe in probes[: len(questions)] if probe is not None]
    answered = [probe for probe in probes[len(questions) :] if probe is not None]
    if not off_topic or not answered:
        raise ScoreFloorError(
            f"{sources.name} found candidates for only {len(off_topic)} off-topic questions and "
            f"{len(answered)} sentences. Check that documents were added and that no filter "
            "excludes them"
        )
    return off_topic, answered


def _draw_sentences(
    docstore: DocStore, manifests: Sequence[Manifest], most: int, rng: np.random.Generator
) -> list[tuple[str, str]]:
    """Draw random sentences, at most one per chunk, each with the key of its chunk's record."""
    keys = [key for key, _ in chunk_keys(manifests)]
    drawn_numbers = rng.permutation(len(keys))[: _DRAWN_CHUNKS * most]
    drawn_keys = [keys[number] for number in drawn_numbers]
    sentences: list[tuple[str, str]] = []
    for key, record in read_records(docstore, drawn_keys).items():
        chunk = readable(record)
        long_enough = []
        for sentence in split_sentences("" if chunk is None else chunk.page_content):
            if len(find_words(sentence)) >= _SENTENCE_WORDS:
                long_enough.append(encodable(sentence[:_SENTENCE_LENGTH]))
        if long_enough:
            drawn = long_enough[int(rng.integers(len(long_enough)))]
            sentences.append((drawn, key))
        if len(sentences) == most:
            break
    if len(keys) < _FEWEST_CHUNKS or len(sentences) < _FEWEST_SENTENCES:
        raise ScoreFloorError(
            f"too little text to fit a score floor: {counted(len(keys), 'chunk')} with "
            f"{counted(len(sentences), 'sentence')} of at least {_SENTENCE_WORDS} words. At least "
            f"{_FEWEST_CHUNKS} chunks and {_FEWEST_SENTENCES} sentences are needed. Add documents, "
            "or pass a number as score_floor"
        )
    return sentences


def _ask(
    query: str, own_key: str, sources: Sources, settings: QuerySettings, advance: Advance
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
