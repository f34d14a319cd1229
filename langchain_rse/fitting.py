"""Fits the score floor: finds the score that separates answered questions from unrelated ones.

`RSERetriever.fit_score_floor` documents the questions, and the source of the rule.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from langchain_core.documents import Document

from langchain_rse._messages import warn
from langchain_rse._progress import progress_bar
from langchain_rse._sync import Steps, batches, concurrently, during, run
from langchain_rse.access import DocumentAccess
from langchain_rse.config import QuerySettings
from langchain_rse.errors import ScoreFloorError
from langchain_rse.query.candidates import Candidate, Candidates, Sources
from langchain_rse.query.filters import filters_of
from langchain_rse.query.floor import (
    BEST_WITH_WORDS,
    ScoreFloor,
    best_first,
    best_score,
    direction_of,
    floor_name,
    reranker_name,
    share_of_words,
    write_floor,
)
from langchain_rse.query.pipeline import answer
from langchain_rse.query.reranking import find_candidates, is_reranker
from langchain_rse.query.searching import AT_ONCE, queries_of
from langchain_rse.query.witnesses import rank
from langchain_rse.questions import Evidence, Question, locate_evidence
from langchain_rse.stores.compare_and_set import read_records
from langchain_rse.stores.layouts import readable
from langchain_rse.stores.pairing import Model
from langchain_rse.stores.records import DOC_ID, END_INDEX, START_INDEX, Manifest, chunk_key
from langchain_rse.text.general_questions import GENERAL_QUESTIONS
from langchain_rse.text.quoting import as_unicode, counted
from langchain_rse.text.sentences import split_sentences
from langchain_rse.text.words import find_words

logger = logging.getLogger(__name__)

# These numbers were chosen on eight datasets with three embedding models; see benchmarks/README.md.
# Position of the floor between the median score of general questions (0) and the quantile ``lost``
# of the scores of sentences from the documents (1); rerankers use a multiple of ``lost``.
_FLOOR_POSITION = 0.5
_WORD_BONUS = 6.0  # in standard deviations of the scores of general questions
_RERANKED_FLOOR_POSITION = 0.3
_RERANKED_QUANTILE = 15.0  # times ``lost``: 0.3 by default
_USUAL_WORD_SHARE = 0.17  # the share of words at which the bonus has no effect
_UPPER_SIXTH = 84  # the percentile one standard deviation above the median
_ALIKE = 0.9  # limit for the share of sentences that match other chunks as well as their own
_SENTENCES = 200  # number of sentences to ask
_DRAWN_CHUNKS = 20  # maximum number of chunks to draw per sentence
_FEWEST_SENTENCES = 20
FEWEST_CHUNKS = 10
_SENTENCE_WORDS = 6  # minimum
_SENTENCE_LENGTH = 300  # maximum, in characters
# Limits with a reranker, which is slow: questions of each kind, and candidates per question.
_RERANKED_QUESTIONS = 40
_RERANKED_CANDIDATES = 20


class FitArguments(NamedTuple):
    """The arguments of `fit_floor`."""

    sources: Sources
    settings: QuerySettings  # with score_floor=None
    manifests: Sequence[Manifest]  # of the documents that a search may find
    model: Model
    questions: Sequence[Question] | None
    lost: float
    seed: int
    show_progress: bool


class Probe(NamedTuple):
    """The best candidate of a question that was asked."""

    score: float
    word_share: float  # see `share_of_words`
    higher_is_better: bool | None
    own_score: float | None = None  # score of the chunk that contains the sentence, if it was found
    is_quotation: bool = False  # True if the candidate contains the question word for word


def fit_floor(arguments: FitArguments) -> ScoreFloor:
    """Ask all questions, fit the floor, and write it to the docstore.

    If that fails, the floor that was stored before is deleted.
    """
    sources = arguments.sources
    reranker = arguments.settings.reranker
    name = floor_name(sources.name, reranker)
    try:
        floor = _find_floor(arguments)
    except ValueError:
        write_floor(sources.docstore, name, None)
        raise
    write_floor(sources.docstore, name, floor)
    refused = floor.refused(floor.unrelated)
    if refused < 0.5:  # noqa: PLR2004 - half of them
        warn(
            f"the score floor refuses only {refused:.0%} of general questions: these scores barely "
            "show whether the documents have an answer. A reranker may separate them better"
        )
    return floor


def _find_floor(arguments: FitArguments) -> ScoreFloor:
    sources, lost = arguments.sources, arguments.lost
    unrelated, answered, asked_count = _ask_all(arguments)
    direction = _direction([*unrelated, *answered], sources.name)
    is_reranked = is_reranker(arguments.settings.reranker)
    bonus = 0.0  # a reranker reads the words itself; a similarity filter scores like a search
    if not is_reranked:
        scores = [direction * probe.score for probe in unrelated]
        median, upper = np.percentile(scores, [50, _UPPER_SIXTH])
        bonus = _WORD_BONUS * float(upper - median)

    def reach(probe: Probe) -> float:
        return direction * probe.score + bonus * probe.word_share

    if arguments.questions is None:
        general, sentences = _scores_of_sentences(unrelated, answered, direction)
        if is_reranked:
            quantile = np.quantile(sentences, min(_RERANKED_QUANTILE * lost, 0.5))
            floor = general + _RERANKED_FLOOR_POSITION * float(quantile - general)
        else:
            quantile = np.quantile(sentences, lost)
            floor = general + _FLOOR_POSITION * float(quantile - general)
            floor += _USUAL_WORD_SHARE * bonus
    else:
        quotations = [probe for probe in answered if probe.is_quotation]
        if 2 * len(quotations) > len(answered):
            raise ScoreFloorError(
                f"{len(quotations)} of {len(answered)} questions occur word for word in the "
                "documents. Questions that people ask score lower and would be refused. Pass "
                "such questions, or none"
            )
        # The finite-sample quantile of split conformal prediction, see `fit_score_floor`.
        number = math.floor((asked_count + 1) * lost + 1e-9)
        if number > len(answered):
            raise ScoreFloorError(
                f"the search finds evidence for only {len(answered)} of {asked_count} questions, "
                "too few to fit a floor. evaluate(retriever, questions) shows the misses"
            )
        floor = sorted(map(reach, answered))[number - 1]
    return ScoreFloor(
        searcher=sources.name,
        reranker=reranker_name(arguments.settings.reranker),
        floor=direction * floor,
        word_bonus=bonus,
        higher_is_better=direction > 0,
        lost=lost,
        with_questions=arguments.questions is not None,
        answered=_percentiles([direction * reach(probe) for probe in answered]),
        unrelated=_percentiles([direction * reach(probe) for probe in unrelated]),
        answered_count=len(answered),
        unrelated_count=len(unrelated),
        chunks=sum(map(_chunk_count, arguments.manifests)),
        store=arguments.model.store,
        model=arguments.model.id,
    )


def _percentiles(values: Sequence[float]) -> tuple[float, ...]:
    """Return the percentiles 0 to 100, rounded to six digits."""
    return tuple(float(f"{each:.6g}") for each in np.percentile(values, np.arange(101)))


def _chunk_count(manifest: Manifest) -> int:
    return manifest.current.chunks if manifest.current else 0


def _direction(probes: Sequence[Probe], searcher: str) -> float:
    """Return 1 if higher scores are better, -1 for distances."""
    known = [each.higher_is_better for each in probes if each.higher_is_better is not None]
    if not known or len({each.score for each in probes}) == 1:
        raise ScoreFloorError(
            f"{searcher} gives all candidates of a question the same score, so no floor can be "
            "fitted: the chunks are all alike, or the scores are constant"
        )
    return 1.0 if 2 * sum(known) > len(known) else -1.0


def _scores_of_sentences(
    unrelated: Sequence[Probe], answered: Sequence[Probe], direction: float
) -> tuple[float, list[float]]:
    """Return the median score of general questions, and the score of each sentence.

    Higher is better for both, also for distances.
    """
    copied = []
    for probe in answered:
        if probe.own_score is not None and direction * (probe.score - probe.own_score) >= 0:
            copied.append(probe)
    if len(copied) >= _ALIKE * len(answered):
        raise ScoreFloorError(
            "the chunks are alike: sentences match other chunks as well as their own, so they are "
            "no model for questions. Pass questions with evidence"
        )
    scores = [direction * probe.score for probe in answered]
    general = float(np.median([direction * probe.score for probe in unrelated]))
    if np.median(scores) <= general:
        raise ScoreFloorError(
            "sentences from the documents score no better than unrelated questions, so scores do "
            "not show whether the documents have an answer. Check that the embedding model "
            "supports the language of the documents"
        )
    return general, scores


# Asking


def _ask_all(arguments: FitArguments) -> tuple[list[Probe], list[Probe], int]:
    """Ask general questions, and the given questions or sentences from the documents.

    Returns the results of general and of answered questions, and the number of answered questions
    that were asked.
    """
    sources, settings = arguments.sources, arguments.settings
    rng = np.random.default_rng(arguments.seed)
    general = list(GENERAL_QUESTIONS)
    full_prober = prober = _Prober(sources, settings)
    if settings.reranker is not None:
        fetch_k = min(settings.fetch_k, _RERANKED_CANDIDATES)
        prober = _Prober(sources, settings.model_copy(update={"fetch_k": fetch_k}))
        general = [str(each) for each in rng.permutation(general)[:_RERANKED_QUESTIONS]]
    tasks: list[Steps[Probe | None]] = []
    if arguments.questions is None:
        kind, depth = "sentence", prober.settings.fetch_k
        for sentence, chunk in _draw_sentences(arguments, rng):
            tasks.append(prober.ask(sentence, chunk))
    else:
        kind, depth = "question", settings.fetch_k
        lengths = {each.doc_id: each.length for each in arguments.manifests}
        # Of documents with the same text, only one is returned; evidence in any of them counts.
        text_of = {each.doc_id: each.text_digest or each.doc_id for each in arguments.manifests}
        with_evidence = [each for each in arguments.questions if each.evidence]
        _check_enough(len(with_evidence), arguments.lost)
        read_text = DocumentAccess(sources.docstore).text
        for question in locate_evidence(arguments.questions, lengths, read_text):
            if question.evidence:
                tasks.append(full_prober.ask_question(question, text_of))
    message = (
        f"Fitting the score floor asks {counted(len(general), 'general question')} and "
        f"{counted(len(tasks), kind)}"
    )
    if settings.reranker is not None:
        message += f"; {type(settings.reranker).__name__} reads up to {depth} candidates for each"
    logger.info("%s", message)
    all_tasks = [prober.ask(query) for query in general] + tasks
    with progress_bar(
        len(all_tasks), unit="questions", title="Fitting", show=arguments.show_progress
    ) as advance:

        def advancing(task: Steps[Probe | None]) -> Steps[Probe | None]:
            probe = yield from task
            advance(1)
            return probe

        results = run(concurrently([advancing(task) for task in all_tasks], AT_ONCE))
    unrelated = [probe for probe in results[: len(general)] if probe is not None]
    answered = [probe for probe in results[len(general) :] if probe is not None]
    if not unrelated or not answered:
        raise ScoreFloorError(
            f"{sources.name} found too little: candidates for {len(unrelated)} of "
            f"{len(general)} general questions, and evidence for {len(answered)} of "
            f"{len(tasks)} others. Check that documents were added and that no filter excludes them"
        )
    return unrelated, answered, len(tasks)


def _check_enough(count: int, lost: float) -> None:
    """Raise a ScoreFloorError if there are too few questions to guarantee a share ``lost``."""
    needed = math.ceil(1 / lost - 1 - 1e-9)
    if count < needed:
        possible = f", or lost={math.ceil(1000 / (count + 1)) / 1000:g}" if count else ""
        raise ScoreFloorError(
            f"lost={lost:g} needs at least {needed} questions with evidence; got {count}. Pass "
            f"more{possible}; or pass no questions, to use sentences from the documents"
        )


def _draw_sentences(
    arguments: FitArguments, rng: np.random.Generator
) -> list[tuple[str, tuple[str, int]]]:
    """Draw random sentences, at most one per chunk, each with its document key and chunk number."""
    most = _SENTENCES if arguments.settings.reranker is None else _RERANKED_QUESTIONS
    ends = np.cumsum([_chunk_count(manifest) for manifest in arguments.manifests])
    total = int(ends[-1]) if ends.size else 0
    drawn = rng.permutation(total)[: _DRAWN_CHUNKS * most]
    sentences: list[tuple[str, tuple[str, int]]] = []
    for numbers in batches(drawn.tolist(), 2 * most):
        if len(sentences) >= most:
            break
        chunks: dict[str, tuple[str, int]] = {}  # by record key
        for number in numbers:
            position = int(np.searchsorted(ends, number, side="right"))
            manifest = arguments.manifests[position]
            index = number - int(ends[position]) + _chunk_count(manifest)
            version = manifest.current.name if manifest.current else ""
            chunks[chunk_key(manifest.key, version, index)] = manifest.key, index
        records = read_records(arguments.sources.docstore, list(chunks))
        for key, chunk in chunks.items():
            record = readable(records[key])
            long_enough = []
            for sentence in split_sentences("" if record is None else record.page_content):
                if len(find_words(sentence)) >= _SENTENCE_WORDS:
                    long_enough.append(as_unicode(sentence[:_SENTENCE_LENGTH]))
            if long_enough:
                text = long_enough[int(rng.integers(len(long_enough)))]
                sentences.append((text, chunk))
    if total < FEWEST_CHUNKS or len(sentences) < _FEWEST_SENTENCES:
        raise ScoreFloorError(
            f"too little text to fit a score floor: {counted(total, 'chunk')} with "
            f"{counted(len(sentences), 'sentence')} of at least {_SENTENCE_WORDS} words. At least "
            f"{FEWEST_CHUNKS} chunks and {_FEWEST_SENTENCES} sentences are needed. Add documents, "
            "or pass questions with evidence"
        )
    return sentences[:most]


@dataclass(frozen=True)
class _Prober:
    """Asks questions with the retriever's search and reranker."""

    sources: Sources
    settings: QuerySettings

    def ask(self, query: str, own: tuple[str, int] | None = None) -> Steps[Probe | None]:
        """Ask a general question; or a sentence, ignoring the chunk ``own`` that contains it."""
        candidates = yield from self._find([query])
        others = []
        own_score = None
        for candidate in candidates[query]:
            if (candidate.key, candidate.chunk_index) == own:
                own_score = None if candidate.hit is None else candidate.hit.score
            else:
                others.append(candidate)
        probe = self._measure(query, others)
        return None if probe is None else probe._replace(own_score=own_score)

    def ask_question(self, question: Question, text_of: Mapping[str, str]) -> Steps[Probe | None]:
        """Ask a question with evidence; return None if no evidence is returned without a floor.

        Of several queries, the best one counts. ``text_of`` maps document ids to digests of texts.
        """
        queries = yield from queries_of(question.question, self.settings, None)
        candidates = yield from self._find(queries)
        trace = yield from answer(
            question.question, self.sources, self.settings, candidates=candidates
        )
        if not _contains_evidence(trace.documents_returned, question.evidence, text_of):
            return None
        measured = [self._measure(query, found) for query, found in candidates.items()]
        known = [probe for probe in measured if probe is not None]
        if not known:
            return None
        direction = -1.0 if known[0].higher_is_better is False else 1.0
        return max(known, key=lambda probe: (direction * probe.score, probe.word_share))

    def _find(self, queries: Sequence[str]) -> Steps[Candidates]:
        """Search and rerank."""
        filters = filters_of(self.settings.search_kwargs, self.sources.base_retriever)
        with during("asking a question to fit the score floor"):
            _, candidates = yield from find_candidates(
                self.sources, queries, self.settings, filters
            )
        return rank(candidates, self.settings)  # with the words that are found in each

    def _measure(self, query: str, candidates: Sequence[Candidate]) -> Probe | None:
        """Measure the best candidate of a query; return None if there is none."""
        by_rank = best_first(candidates)
        if not by_rank:
            return None
        score = best_score(by_rank)
        if score is None:
            reranker = self.settings.reranker
            scorer = self.sources.name if reranker is None else type(reranker).__name__
            raise ScoreFloorError(
                f"{scorer} gives no scores, so no score floor can be fitted. Use a vector store or "
                "a reranker that returns scores"
            )
        words = " ".join(find_words(query))
        best_words = " ".join(find_words(by_rank[0].document.page_content))
        return Probe(
            score,
            share_of_words(query, by_rank[:BEST_WITH_WORDS]),
            direction_of(by_rank),
            is_quotation=bool(words) and words in best_words,
        )


def _contains_evidence(
    documents: Iterable[Document], evidence: Sequence[Evidence], text_of: Mapping[str, str]
) -> bool:
    """True if at least one character of the evidence is in one of the passages."""
    for document in documents:
        metadata = document.metadata
        text = text_of.get(metadata[DOC_ID])
        for part in evidence:
            overlaps = part.start < metadata[END_INDEX] and metadata[START_INDEX] < part.end
            if overlaps and text == text_of[part.doc_id]:
                return True
    return False
