"""Asks questions through a retriever's search and reranker, to see how near its documents come."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from langchain_rse._sync import Steps, during
from langchain_rse.config import QuerySettings
from langchain_rse.errors import CalibrationError
from langchain_rse.evaluation.general_questions import GENERAL_QUESTIONS
from langchain_rse.evaluation.measuring import EVERYTHING, Locator, Meter
from langchain_rse.evaluation.questions import Question
from langchain_rse.query.candidates import Candidate, Sources
from langchain_rse.query.floors import best_first, direction_of, share_of_words
from langchain_rse.query.pipeline import find_candidates, queries_of, retrieve
from langchain_rse.stores.changing import read_records
from langchain_rse.stores.reading import readable
from langchain_rse.stores.records import Manifest, chunk_key
from langchain_rse.text.quoting import counted
from langchain_rse.text.sentences import split_sentences
from langchain_rse.text.words import find_words

logger = logging.getLogger(__name__)

_SENTENCES = 200  # to ask
_DRAWN_CHUNKS = 20  # at most, for each sentence that is wanted
_FEWEST_SENTENCES = 20
_FEWEST_CHUNKS = 10
_SENTENCE_WORDS = 6  # at least
_SENTENCE_LENGTH = 300  # characters, at most
# Behind a reranker, which takes long: questions of each kind, and candidates of each question.
_RERANKED_QUESTIONS = 40
_RERANKED_CANDIDATES = 20


class Asked(NamedTuple):
    """The best candidate of a question."""

    score: float
    word_share: float  # see `share_of_words`
    higher_is_better: bool | None
    own_score: float | None = None  # of the chunk that a sentence is from, if it was found
    is_quotation: bool = False  # True if the candidate contains the question word for word


class Sentence(NamedTuple):
    """A sentence of a chunk."""

    text: str
    key: str  # the document's
    chunk_index: int


def chunk_count(manifest: Manifest) -> int:
    """The number of chunks of a document's current version."""
    return manifest.current.chunks if manifest.current else 0


class Asker:
    """Asks questions through a retriever's search and reranker."""

    def __init__(self, sources: Sources, settings: QuerySettings) -> None:
        self.sources = sources
        self.settings = settings
        self.few_candidates = settings
        if settings.reranker is not None:
            fewer = min(settings.fetch_k, _RERANKED_CANDIDATES)
            self.few_candidates = settings.model_copy(update={"fetch_k": fewer})

    def announce(self, general: int, answered: int, *, is_given: bool) -> None:
        """Log how many questions are asked."""
        kind = "question" if is_given else "sentence"
        message = (
            f"Calibrating asks {general} general questions and {counted(answered, kind)}: "
            f"{general + answered} embeddings"
        )
        if self.settings.reranker is not None:
            candidates = self.settings.fetch_k if is_given else self.few_candidates.fetch_k
            reranked = general * self.few_candidates.fetch_k + answered * candidates
            message += f" and {reranked:,} rerankings by {type(self.settings.reranker).__name__}"
        logger.info("%s", message)

    def draw_general_questions(self, rng: np.random.Generator) -> list[str]:
        """The general questions, fewer of them for a reranker."""
        if self.settings.reranker is None:
            return list(GENERAL_QUESTIONS)
        return [str(query) for query in rng.permutation(GENERAL_QUESTIONS)[:_RERANKED_QUESTIONS]]

    def draw_sentences(
        self, manifests: Sequence[Manifest], rng: np.random.Generator
    ) -> Steps[list[Sentence]]:
        """Draw sentences of chunks at random, at most one of a chunk."""
        most = _SENTENCES if self.settings.reranker is None else _RERANKED_QUESTIONS
        first_numbers = np.cumsum([0, *map(chunk_count, manifests)])
        total = int(first_numbers[-1])
        sentences: list[Sentence] = []
        drawn = rng.permutation(total)[: _DRAWN_CHUNKS * most]
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
    ) -> Steps[list[Sentence]]:
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
                sentences.append(Sentence(text, manifest.key, index))
        return sentences

    def ask_general(self, query: str) -> Steps[Asked | None]:
        """Ask a general question."""
        candidates = yield from self._find(query, self.few_candidates)
        return self._measure(query, candidates)

    def ask_sentence(self, sentence: Sentence) -> Steps[Asked | None]:
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

    def ask_question(self, question: Question) -> Steps[Asked | None]:
        """Ask a question with evidence; None if none of the evidence is returned without a floor.

        Of several queries, the one that comes nearest counts.
        """
        queries = yield from queries_of(question.question, self.settings, None)
        by_query = yield from find_candidates(self.sources, queries, self.settings)
        answer = yield from retrieve(
            self.sources, question.question, self.settings, candidates=by_query
        )
        meter = Meter((EVERYTHING,), Locator({}))
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

    def _measure(self, query: str, candidates: Sequence[Candidate]) -> Asked | None:
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
        best_words = " ".join(find_words(by_rank[0].document.page_content))
        is_quotation = bool(words) and words in best_words
        share = share_of_words(query, by_rank)
        return Asked(score, share, direction_of(by_rank), is_quotation=is_quotation)
