"""The score floor: rejects queries whose best candidate is too far away to be an answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
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

# Number of best candidates that are searched for words of the query.
_BEST_WITH_WORDS = 20

_ALL_WORDS = 1 - 1e-9  # a sum of shares, with rounding errors
# Fields in which LangChain's rerankers name their model.
_MODEL_FIELDS = ("model", "model_name", "model_id")


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
    chunks: int
    store: str = ""
    model: str = ""
    rejected_questions: float = 0.0
    rejected_sentences: float = 0.0

    def reach(self, score: float, word_share: float) -> float:
        """Add the bonus for a share of words to a score (subtract it from a distance)."""
        bonus = self.word_bonus * word_share
        return score + bonus if self.higher_is_better else score - bonus

    def rejects(self, reach: float) -> bool:
        """True if a query with this reach is rejected."""
        return reach < self.floor if self.higher_is_better else reach > self.floor

    def __repr__(self) -> str:
        return f"<FittedFloor {self.floor:.3g}: rejects {self._shares}>"

    def __str__(self) -> str:
        side, sign = ("below", "+") if self.higher_is_better else ("above", "-")
        return (
            f"Questions that score {side} {self.floor:.3g} return nothing. That rejects "
            f"{self._shares} from the documents. (Score = best {self.scorer} "
            f"score {sign} {self.word_bonus:.3g} x share of the question's words found in one "
            "chunk.)"
        )

    @property
    def _shares(self) -> str:
        return (
            f"{self.rejected_questions:.0%} of {self.questions} off-topic questions, "
            f"{self.rejected_sentences:.0%} of {self.sentences} sentences"
        )


_FLOOR = TypeAdapter(FittedFloor)


class FloorCheck(NamedTuple):
    """The result of comparing a query with the score floor."""

    query: str
    best: Candidate | None  # the candidate with the best score
    word_share: float = 0.0  # share of the query's words found in one candidate
    reach: float | None = None  # best score with the bonus for words; None without scores
    floor: float | None = None
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
    checks = []
    if settings.score_floor == "fitted":
        fitted = stored_floor(record, sources.name, settings.reranker)
        if fitted is not None and _is_for(fitted, model):
            for query, found in candidates.items():
                checks.append(_check_fitted(query, found, settings, fitted))
    elif settings.score_floor is not None:
        for query, found in candidates.items():
            checks.append(_check_number(query, found, settings, settings.score_floor))
    return checks


def _is_for(floor: FittedFloor, model: Model) -> bool:
    """True if a floor was not fitted for another vector store or embedding model."""
    for fitted_for, current in ((floor.store, model.store), (floor.model, model.id)):
        if fitted_for and current and fitted_for != current:
            warn(
                "the score floor is ignored because it was fitted for another vector store or "
                "embedding model. Call fit_score_floor() again, or set score_floor=None"
            )
            return False
    return True


def _check_fitted(
    query: str, candidates: Sequence[Candidate], settings: QuerySettings, floor: FittedFloor
) -> FloorCheck:
    by_rank, score, higher_is_better = rank_by_search(candidates)
    best = by_rank[0] if by_rank else None
    if score is None:
        return FloorCheck(query, best)
    word_share = share_of_words(query, by_rank)
    if higher_is_better not in {None, floor.higher_is_better}:
        warn(
            "the score floor is ignored because scores now sort the other way (similarities "
            "instead of distances, or vice versa). Call fit_score_floor() again"
        )
        return FloorCheck(query, best, word_share)
    reach = floor.reach(score, word_share)
    is_rejected = floor.rejects(reach)
    if is_rejected and settings.reranker is None:
        # Vectors represent rare terms such as error codes poorly; the full-text index finds them.
        best_hits = []
        for candidate in candidates:
            hit = candidate.hits.get(FULL_TEXT)
            if hit is not None and hit.rank < _BEST_WITH_WORDS:
                best_hits.append(candidate)
        is_rejected = share_of_words(query, best_hits) < _ALL_WORDS
    return FloorCheck(query, best, word_share, reach, floor.floor, is_rejected)


def _check_number(
    query: str, candidates: Sequence[Candidate], settings: QuerySettings, number: float
) -> FloorCheck:
    by_rank, score, higher_is_better = rank_by_search(candidates)
    if not by_rank:
        return FloorCheck(query, None)
    if score is None:
        warn(f"score_floor={number:g} has no effect: the candidates have no scores")
        return FloorCheck(query, by_rank[0])
    if settings.reranker is not None:
        higher_is_better = True
    if higher_is_better is None:
        warn(
            f"score_floor={number:g} has no effect: all candidates have the same score, so it is "
            "unknown whether higher or lower scores are better"
        )
        return FloorCheck(query, by_rank[0])
    is_rejected = score < number if higher_is_better else score > number
    return FloorCheck(query, by_rank[0], 0.0, score, number, is_rejected)


class Ranking(NamedTuple):
    """The candidates of a query, as the search or the reranker ranked them."""

    by_rank: Sequence[Candidate]  # best first, without those that only the full-text index found
    best_score: float | None
    higher_is_better: bool | None  # False for distances; None if unknown


def rank_by_search(candidates: Iterable[Candidate]) -> Ranking:
    """Sort candidates by their rank in the search, or by the reranker's if there is one."""
    hits = [(candidate.hit, candidate) for candidate in candidates if candidate.hit is not None]
    hits.sort(key=lambda pair: pair[0].rank)
    by_rank = [candidate for _, candidate in hits]
    if not hits or hits[0][0].score is None:
        return Ranking(by_rank, None, None)
    scores = [hit.score for hit, _ in hits if hit.score is not None]
    higher_is_better = None if scores[0] == scores[-1] else scores[0] > scores[-1]
    return Ranking(by_rank, scores[0], higher_is_better)


def share_of_words(query: str, ranked: Sequence[Candidate]) -> float:
    """Return the largest share of the query's content words found in one of the best candidates."""
    words = content_words(beginning_of(query))
    best = ranked[:_BEST_WITH_WORDS]
    by_text = {candidate.document.page_content: candidate.found_words for candidate in best}
    rows = [[word in found_words for word in words] for found_words in by_text.values()]
    return float(word_shares(np.array(rows)).max(initial=0.0))


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
) -> FittedFloor | None:
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


def write_floor(docstore: DocStore, name: str, floor: FittedFloor | None) -> None:
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
