"""Fits the score floor: finds the score that separates answered questions from off-topic ones.

`RSERetriever.fit_score_floor` documents the questions, and the source of the rule.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from langchain_rse._messages import warn
from langchain_rse._progress import Advance, progress_bar
from langchain_rse._sync import Steps, concurrently, during, run
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
from langchain_rse.query.searching import AT_ONCE
from langchain_rse.query.witnesses import rank
from langchain_rse.stores.compare_and_set import DocStore, read_records
from langchain_rse.stores.layouts import readable
from langchain_rse.stores.pairing import Model
from langchain_rse.stores.records import Manifest, chunk_key
from langchain_rse.text.general_questions import GENERAL_QUESTIONS
from langchain_rse.text.quoting import as_unicode, counted
from langchain_rse.text.sentences import split_sentences
from langchain_rse.text.words import find_words

logger = logging.getLogger(__name__)

# These numbers were chosen on eight datasets with three embedding models; see benchmarks/README.md.
# The floor lies at this position between the median score of off-topic questions (0) and a low
# quantile of the scores of sentences from the documents (1).
_POSITION = 0.5
_QUANTILE = 0.02
_WORD_BONUS = 6.0  # in standard deviations of the scores of off-topic questions
_USUAL_WORD_SHARE = 0.17  # the share of words at which the bonus has no effect
_RERANKED_POSITION = 0.3
_RERANKED_QUANTILE = 0.3
_UPPER_SIXTH = 84  # the percentile one standard deviation above the median
_ALIKE = 0.9  # limit for the share of sentences that match other chunks as well as their own
_FEWEST_REJECTED = 0.5  # of off-topic questions, without a warning
_SENTENCES = 200  # number of sentences to ask
_DRAWN_CHUNKS = 5  # maximum number of chunks to draw per sentence
_FEWEST_SENTENCES = 20
FEWEST_CHUNKS = 10
_SENTENCE_WORDS = 6  # minimum
_SENTENCE_LENGTH = 300  # maximum, in characters
# Limits with a reranker, which is slow: questions of each kind, and candidates per question.
_RERANKED_QUESTIONS = 40
_RERANKED_CANDIDATES = 20


_Chunk = tuple[str, int]
"""A document's key, and the number of its chunk."""


class Probe(NamedTuple):
    """The best candidate of a question that was asked."""

    score: float
    word_share: float  # see `share_of_words`
    higher_is_better: bool | None
    own_score: float | None  # score of the chunk that contains the sentence, if it was found


def fit_floor(
    sources: Sources,
    settings: QuerySettings,
    manifests: Sequence[Manifest],
    model: Model,
    *,
    seed: int,
    show_progress: bool,
) -> FittedFloor:
    """Ask all questions, fit the floor, and write it to the docstore.

    If that fails, the floor that was stored before is deleted.

    Args:
        sources: The stores and retriever of queries.
        settings: The settings of queries, with ``score_floor=None``.
        manifests: The documents that a search may find.
        model: The embedding model and the name of the vector store.
        seed: Seed for drawing questions and sentences.
        show_progress: Show a progress bar.
    """
    name = floor_name(sources.name, settings.reranker)
    try:
        off_topic, sentences = _ask_all(sources, settings, manifests, seed, show_progress)
        direction = _direction([*off_topic, *sentences], sources.name)
        _check_sentences(off_topic, sentences, direction)
    except ScoreFloorError:
        write_floor(sources.docstore, name, None)
        raise
    threshold, word_bonus = _place_floor(
        [direction * probe.score for probe in off_topic],
        [direction * probe.score for probe in sentences],
        is_reranked=is_reranker(settings.reranker),
    )
    floor = FittedFloor(
        scorer=reranker_name(settings.reranker) or sources.name,
        floor=direction * threshold,
        word_bonus=word_bonus,
        higher_is_better=direction > 0,
        questions=len(off_topic),
        sentences=len(sentences),
        chunks=sum(map(_chunk_count, manifests)),
        store=model.store,
        model=model.id,
    )
    rejected_questions = _share_rejected(floor, off_topic)
    rejected_sentences = _share_rejected(floor, sentences)
    floor = replace(
        floor, rejected_questions=rejected_questions, rejected_sentences=rejected_sentences
    )
    write_floor(sources.docstore, name, floor)
    if rejected_questions < _FEWEST_REJECTED:
        warn(
            f"the score floor rejects only {rejected_questions:.0%} of off-topic questions: the "
            "scores barely separate answerable from unanswerable questions. A reranker may "
            "separate them better"
        )
    return floor


def _place_floor(
    off_topic: Sequence[float], sentences: Sequence[float], *, is_reranked: bool
) -> tuple[float, float]:
    """Return the floor and the bonus for words, given the scores of both kinds of questions."""
    median, upper_sixth = np.percentile(off_topic, [50, _UPPER_SIXTH])
    if is_reranked:  # a reranker reads the words itself; a similarity filter does not
        low = np.quantile(sentences, _RERANKED_QUANTILE)
        return float(median + _RERANKED_POSITION * (low - median)), 0.0
    word_bonus = _WORD_BONUS * float(upper_sixth - median)
    low = np.quantile(sentences, _QUANTILE)
    halfway = float(median + _POSITION * (low - median))
    return halfway + _USUAL_WORD_SHARE * word_bonus, word_bonus


def _share_rejected(floor: FittedFloor, probes: Sequence[Probe]) -> float:
    rejected = 0
    for probe in probes:
        rejected += floor.rejects(floor.reach(probe.score, probe.word_share))
    return rejected / len(probes)


def _direction(probes: Sequence[Probe], searcher: str) -> float:
    """Return 1 if higher scores are better, -1 for distances."""
    known = [each.higher_is_better for each in probes if each.higher_is_better is not None]
    if not known or len({each.score for each in probes}) == 1:
        raise ScoreFloorError(
            f"{searcher} gives all candidates of a question the same score, so no floor can be "
            "fitted: the chunks are all alike, or the scores are constant"
        )
    return 1.0 if 2 * sum(known) > len(known) else -1.0


def _check_sentences(
    off_topic: Sequence[Probe], sentences: Sequence[Probe], direction: float
) -> None:
    """Raise a ScoreFloorError if sentences from the documents are no model for questions."""
    alike = 0
    for probe in sentences:
        if probe.own_score is not None and direction * (probe.score - probe.own_score) >= 0:
            alike += 1
    if alike >= _ALIKE * len(sentences):
        raise ScoreFloorError(
            "the chunks are alike: sentences match other chunks as well as their own, so they are "
            "no model for questions"
        )
    off_topic_median = np.median([probe.score for probe in off_topic])
    if direction * (np.median([probe.score for probe in sentences]) - off_topic_median) <= 0:
        raise ScoreFloorError(
            "sentences from the documents score no better than off-topic questions, so scores do "
            "not show whether the documents have an answer. Check that the embedding model "
            "supports the language of the documents"
        )


def _chunk_count(manifest: Manifest) -> int:
    return manifest.current.chunks if manifest.current else 0


# Asking


def _ask_all(
    sources: Sources,
    settings: QuerySettings,
    manifests: Sequence[Manifest],
    seed: int,
    show_progress: bool,  # noqa: FBT001
) -> tuple[list[Probe], list[Probe]]:
    """Ask off-topic questions, and sentences from the documents; return the probes of both."""
    rng = np.random.default_rng(seed)
    questions = list(GENERAL_QUESTIONS)
    sentence_count = _SENTENCES
    reads = ""
    if settings.reranker is not None:
        questions = [str(question) for question in rng.permutation(questions)]
        questions = questions[:_RERANKED_QUESTIONS]
        sentence_count = _RERANKED_QUESTIONS
        fetch_k = min(settings.fetch_k, _RERANKED_CANDIDATES)
        settings = settings.model_copy(update={"fetch_k": fetch_k})
        reranker = type(settings.reranker).__name__
        reads = f"; {reranker} reads up to {fetch_k} candidates for each"
    sentences = _draw_sentences(sources.docstore, manifests, sentence_count, rng)
    logger.info(
        "Fitting the score floor asks %s and %s%s",
        counted(len(questions), "off-topic question"),
        counted(len(sentences), "sentence"),
        reads,
    )
    queries: list[tuple[str, _Chunk | None]] = [(question, None) for question in questions]
    queries += sentences
    with progress_bar(len(queries), unit="questions", title="Fitting", show=show_progress) as bar:
        tasks = [_ask(query, chunk, sources, settings, bar) for query, chunk in queries]
        probes = run(concurrently(tasks, AT_ONCE))
    off_topic = [probe for probe in probes[: len(questions)] if probe is not None]
    answered = [probe for probe in probes[len(questions) :] if probe is not None]
    if not off_topic or not answered:
        raise ScoreFloorError(
            f"{sources.name} found too little: candidates for {len(off_topic)} of "
            f"{counted(len(questions), 'off-topic question')} and {len(answered)} of "
            f"{counted(len(sentences), 'sentence')}. Check that documents were added and that no "
            "filter excludes them"
        )
    return off_topic, answered


def _draw_sentences(
    docstore: DocStore, manifests: Sequence[Manifest], most: int, rng: np.random.Generator
) -> list[tuple[str, _Chunk]]:
    """Draw random sentences, at most one per chunk, each with its chunk."""
    ends = list(accumulate(map(_chunk_count, manifests)))
    total = ends[-1] if ends else 0
    chunks: dict[str, _Chunk] = {}  # by record key
    for number in rng.permutation(total)[: _DRAWN_CHUNKS * most].tolist():
        position = bisect_right(ends, number)
        manifest = manifests[position]
        index = number - ends[position] + _chunk_count(manifest)
        version = manifest.current.name if manifest.current else ""
        chunks[chunk_key(manifest.key, version, index)] = manifest.key, index
    records = read_records(docstore, list(chunks))
    sentences: list[tuple[str, _Chunk]] = []
    for key, chunk in chunks.items():
        record = readable(records[key])
        long_enough = []
        for sentence in split_sentences("" if record is None else record.page_content):
            if len(find_words(sentence)) >= _SENTENCE_WORDS:
                long_enough.append(as_unicode(sentence[:_SENTENCE_LENGTH]))
        if long_enough:
            text = long_enough[int(rng.integers(len(long_enough)))]
            sentences.append((text, chunk))
        if len(sentences) == most:
            break
    if total < FEWEST_CHUNKS or len(sentences) < _FEWEST_SENTENCES:
        raise ScoreFloorError(
            f"too little text to fit a score floor: {counted(total, 'chunk')} with "
            f"{counted(len(sentences), 'sentence')} of at least {_SENTENCE_WORDS} words. At least "
            f"{FEWEST_CHUNKS} chunks and {_FEWEST_SENTENCES} sentences are needed. Add documents, "
            "or pass a number as score_floor"
        )
    return sentences


def _ask(
    query: str,
    own: _Chunk | None,
    sources: Sources,
    settings: QuerySettings,
    advance: Advance,
) -> Steps[Probe | None]:
    """Search and rerank as the retriever does; return None if there is no candidate.

    ``own`` is the chunk that contains the query, which is left out.
    """
    filters = filters_of(settings.search_kwargs, sources.base_retriever)
    with during("asking a question to fit the score floor"):
        _, found = yield from find_candidates(sources, [query], settings, filters)
    ranked = rank(found, settings)  # with the words that are found in each
    advance(1)
    others = []
    own_score = None
    for candidate in ranked[query]:
        if (candidate.key, candidate.chunk_index) == own:
            own_score = None if candidate.hit is None else candidate.hit.score
        else:
            others.append(candidate)
    by_rank, score, higher_is_better = rank_by_search(others)
    if not by_rank:
        return None
    if score is None:
        scorer = sources.name if settings.reranker is None else type(settings.reranker).__name__
        raise ScoreFloorError(
            f"{scorer} gives no scores, so no score floor can be fitted. Use a vector store or "
            "a reranker that returns scores"
        )
    return Probe(score, share_of_words(query, by_rank), higher_is_better, own_score)
