"""The score floor: tells queries that the documents answer from others, by their best candidate."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

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
from langchain_rse.text.words import beginning_of, without_function_words

BEST_WITH_WORDS = 20
"""The number of best candidates in which words of the query are looked for."""

_ALL_WORDS = 1 - 1e-9  # as a sum of shares
# Where rerankers of LangChain's packages name their model.
_MODEL_FIELDS = ("model", "model_name", "model_id")


@dataclass(frozen=True)
class ScoreFloor:
    """The score below which the best candidate of a query is no answer.

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
    score = best_score(by_rank)
    if score is None:
        return FloorCheck(query, by_rank[0] if by_rank else None)
    share = share_of_words(query, by_rank[:BEST_WITH_WORDS])
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


def best_score(by_rank: Sequence[Candidate]) -> float | None:
    """The score of the best candidate; None if it has none."""
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


def floor_name(searcher: str, reranker: BaseDocumentCompressor | None) -> str:
    """The name of a floor in the docstore: by what finds the candidates, and what ranks them."""
    return f"{searcher} {reranker_name(reranker)}".strip()


def reranker_name(reranker: BaseDocumentCompressor | None) -> str:
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
        return _FLOOR.validate_python(record.metadata.get(floor_name(searcher, reranker)))
    except ValidationError:
        return None


def read_floors(docstore: DocStore) -> Record:
    """Read the docstore's record of score floors."""
    records = read_records(docstore, [FLOORS])
    return records[FLOORS]


def write_floor(docstore: DocStore, name: str, floor: ScoreFloor | None) -> None:
    """Write a floor, or remove it, and keep the floors with other names."""
    is_written = False
    while not is_written:
        record = read_floors(docstore)
        stored = record if isinstance(record, Document) else None  # a damaged one is replaced
        floors = {} if stored is None else dict(stored.metadata)
        floors.pop(name, None)
        if floor is not None:
            floors[name] = _FLOOR.dump_python(floor, mode="json")
        elif stored is None:
            return
        [is_written] = change(docstore, [(FLOORS, stored, Document("", metadata=floors))])
        if not is_written:
            time.sleep(0.01)  # another call has changed it
