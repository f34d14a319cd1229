"""The score floor: rejects queries whose best candidate is too far away to be an answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from langchain_rse._messages import model_name, warn
from langchain_rse.config import QuerySettings
from langchain_rse.engine import word_shares
from langchain_rse.query.candidates import (
    FULL_TEXT,
    RERANKER,
    VECTORS,
    Candidate,
    Candidates,
    Sources,
    numbers_by_rank,
)
from langchain_rse.stores.compare_and_set import DocStore, Record, change, read_records
from langchain_rse.stores.pairing import Model
from langchain_rse.stores.records import FLOORS
from langchain_rse.text.words import content_words

# Number of best candidates of each search that are searched for words of the query.
_BEST_WITH_WORDS = 20


@dataclass(frozen=True)
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

    def __str__(self) -> str:
        bound, sign = ("scores below", "+") if self.higher_is_better else ("is farther than", "-")
        return (
            f"Questions whose best match {bound} {self.floor:.3g} return nothing. That rejects "
            f"{self.rejected_questions:.0%} of {self.questions} off-topic questions, "
            f"{self.rejected_sentences:.0%} of {self.sentences} sentences from the documents. "
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
    candidates: Candidates, sources: Sources, settings: QuerySettings, model: Model, record: Record
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
    query: str, candidates: Sequence[Candidate], floor: float, fitted: FittedFloor | None
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
