"""The score floor: refuses queries whose best candidate is too far away to be an answer."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from langchain_rse._messages import warn
from langchain_rse.config import QuerySettings
from langchain_rse.engine import word_shares
from langchain_rse.query.candidates import FULL_TEXT, Candidate, Candidates, Sources
from langchain_rse.stores.compare_and_set import DocStore, Record, change, read_records
from langchain_rse.stores.pairing import Model
from langchain_rse.stores.records import FLOORS
from langchain_rse.text.words import beginning_of, content_words

BEST_WITH_WORDS = 20
"""Number of best candidates that are searched for words of the query."""

_ALL_WORDS = 1 - 1e-9  # a sum of shares, with rounding errors
# Fields in which LangChain's rerankers name their model.
_MODEL_FIELDS = ("model", "model_name", "model_id")


@dataclass(frozen=True)
class ScoreFloor:
    """A fitted threshold: a query whose best candidate scores below it returns nothing.

    `RSERetriever.fit_score_floor` fits it and stores it in the docstore. The *reach* of a query is
    the score of its best candidate plus ``word_bonus`` times the share of the query's words found
    in one candidate (minus, if the scores are distances). A query is refused if its reach is below
    the floor, or above it if the scores are distances.

    Attributes:
        searcher: Name of the class that finds the candidates.
        reranker: Name of the reranker that gives the scores; empty for scores of the search.
        floor: The threshold, in the units of the scores.
        word_bonus: Bonus for a query whose words are all found, in the same units; at least 0.
        higher_is_better: False if the scores are distances.
        lost: Share of answered questions that may be refused.
        with_questions: True if answered questions were given. If False, they are sentences from the
            documents, each searched in every chunk except its own.
        answered: Percentiles 0 to 100 of the reach of answered questions, ascending.
        unrelated: Percentiles 0 to 100 of the reach of general questions, which are unrelated to
            most documents, ascending.
        answered_count: Number of answered questions.
        unrelated_count: Number of general questions.
        chunks: Number of chunks in the documents.
        store: Name of the vector store; empty if unknown.
        model: Id of the embedding model; empty if unknown.
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
        """Add the bonus for a share of words to a score (subtract it from a distance)."""
        bonus = self.word_bonus * word_share
        return score + bonus if self.higher_is_better else score - bonus

    def refuses(self, reach: float) -> bool:
        """True if a query with this reach is refused."""
        return reach < self.floor if self.higher_is_better else reach > self.floor

    def closer_than(self, reach: float) -> float:
        """Return the share of answered questions that have a worse reach."""
        if self.higher_is_better:
            worse = bisect_left(self.answered, reach)
        else:
            worse = bisect_left([-value for value in reversed(self.answered)], -reach)
        return worse / len(self.answered)

    def refused(self, percentiles: Sequence[float]) -> float:
        """Return the share of refused questions, given percentiles of their reach."""
        return sum(map(self.refuses, percentiles)) / len(percentiles)

    @property
    def answered_name(self) -> str:
        """Name of the answered questions in messages."""
        return "answered questions" if self.with_questions else "sentences from the documents"


_FLOOR = TypeAdapter(ScoreFloor)


class FloorCheck(NamedTuple):
    """The result of comparing a query with the score floor."""

    query: str
    best: Candidate | None  # the candidate with the best score
    word_share: float = 0.0  # share of the query's words found in one candidate
    reach: float | None = None  # best score with the bonus for words; None without scores
    floor: float | None = None
    closer_than: float | None = None  # see `ScoreFloor.closer_than`; None if not fitted
    compared_with: str = ""  # name of the questions in `closer_than`
    is_refused: bool = False

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of `Reason.BELOW_THE_FLOOR`."""
        is_above = self.reach is not None and self.floor is not None and self.reach > self.floor
        distances = " (distances: lower is better)" if is_above else ""
        return {"best": self.reach, "floor": self.floor, "distances": distances}


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
    """Return the floor fitted for these stores and reranker, or None."""
    floor = None if record is None else stored_floor(record, sources.name, reranker)
    if floor is None:
        return None
    for ours, theirs in ((floor.store, model.store), (floor.model, model.id)):
        if ours and theirs and ours != theirs:
            warn(
                "the score floor is ignored because it was fitted for another vector store or "
                "embedding model. Call fit_score_floor() again, or set score_floor=None"
            )
            return None
    return floor


def _check_fitted(
    query: str, candidates: Sequence[Candidate], settings: QuerySettings, floor: ScoreFloor
) -> FloorCheck:
    by_rank = best_first(candidates)
    score = best_score(by_rank)
    if score is None:
        return FloorCheck(query, by_rank[0] if by_rank else None)
    share = share_of_words(query, by_rank[:BEST_WITH_WORDS])
    check = FloorCheck(query, by_rank[0], share)
    if direction_of(by_rank) not in {None, floor.higher_is_better}:
        warn(
            "the score floor is ignored because scores now sort the other way (similarities "
            "instead of distances, or vice versa). Call fit_score_floor() again"
        )
        return check
    reach = floor.reach(score, share)
    is_refused = floor.refuses(reach)
    if is_refused and settings.reranker is None:
        # Vectors represent rare terms such as error codes poorly; the full-text index finds them.
        hits = [(each.hits[FULL_TEXT].rank, each) for each in candidates if FULL_TEXT in each.hits]
        best_hits = [candidate for rank, candidate in hits if rank < BEST_WITH_WORDS]
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
    score = best_score(by_rank)
    if score is None:
        warn(f"score_floor={number:g} has no effect: the candidates have no scores")
        return check
    higher_is_better = True if settings.reranker is not None else direction_of(by_rank)
    if higher_is_better is None:
        warn(
            f"score_floor={number:g} has no effect: all candidates have the same score, so it is "
            "unknown whether higher or lower scores are better"
        )
        return check
    is_refused = score < number if higher_is_better else score > number
    return check._replace(reach=score, floor=number, is_refused=is_refused)


def best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that the search or reranker ranked, best first."""
    with_hits = [candidate for candidate in candidates if candidate.hit is not None]
    return sorted(with_hits, key=lambda each: 0 if each.hit is None else each.hit.rank)


def best_score(by_rank: Sequence[Candidate]) -> float | None:
    """Return the score of the best candidate, or None."""
    best = by_rank[0].hit if by_rank else None
    return None if best is None else best.score


def share_of_words(query: str, candidates: Sequence[Candidate]) -> float:
    """Return the largest share of the query's content words found in one ranked candidate."""
    words = content_words(beginning_of(query))
    by_text = {candidate.document.page_content: candidate.found_words for candidate in candidates}
    rows = [[word in found_words for word in words] for found_words in by_text.values()]
    return float(word_shares(np.array(rows)).max(initial=0.0))


def direction_of(by_rank: Sequence[Candidate]) -> bool | None:
    """Return True if higher scores are better, False for distances, None if unknown."""
    hits = [candidate.hit for candidate in by_rank if candidate.hit is not None]
    scores = [hit.score for hit in hits if hit.score is not None]
    if len(scores) < 2 or scores[0] == scores[-1]:  # noqa: PLR2004 - two make a direction
        return None
    return scores[0] > scores[-1]


# Storing


def floor_name(searcher: str, reranker: BaseDocumentCompressor | None) -> str:
    """Return the key of a floor in the docstore: the names of searcher and reranker."""
    return f"{searcher} {reranker_name(reranker)}".strip()


def reranker_name(reranker: BaseDocumentCompressor | None) -> str:
    """Return the class name of a reranker and its model, if known; empty without a reranker."""
    if reranker is None:
        return ""
    models = [getattr(reranker, field, None) for field in _MODEL_FIELDS]
    names = [type(reranker).__name__, *(model for model in models if isinstance(model, str))]
    return " ".join(names)


def stored_floor(
    record: Record, searcher: str, reranker: BaseDocumentCompressor | None
) -> ScoreFloor | None:
    """Return the floor in the docstore's record of floors; None if missing or corrupt."""
    if not isinstance(record, Document):
        return None
    try:
        return _FLOOR.validate_python(record.metadata.get(floor_name(searcher, reranker)))
    except ValidationError:
        return None


def read_floors(docstore: DocStore) -> Record:
    """Read the docstore's record of score floors."""
    records = read_records(docstore, [FLOORS])
    return records[FLOORS]


def write_floor(docstore: DocStore, name: str, floor: ScoreFloor | None) -> None:
    """Write or remove the floor with this name; keep all other floors."""
    is_written = False
    while not is_written:
        record = read_floors(docstore)
        stored = record if isinstance(record, Document) else None  # replaces a corrupt record
        floors = {} if stored is None else dict(stored.metadata)
        floors.pop(name, None)
        if floor is not None:
            floors[name] = _FLOOR.dump_python(floor, mode="json")
        elif stored is None:
            return
        [is_written] = change(docstore, [(FLOORS, stored, Document("", metadata=floors))])
        if not is_written:
            time.sleep(0.01)  # another call changed the record: try again
