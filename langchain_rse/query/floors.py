"""Floors: tells queries that the documents answer from others, by their best candidate."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langchain_core.documents import BaseDocumentCompressor

from langchain_rse._messages import warn
from langchain_rse.config import QuerySettings
from langchain_rse.engine import word_shares
from langchain_rse.explaining.floors import ScoreFloor
from langchain_rse.query.candidates import Candidate, Sources
from langchain_rse.query.lookup import LookedUp
from langchain_rse.stores.changing import Record
from langchain_rse.stores.floors import added_chunks, floor_in
from langchain_rse.stores.pairing import Model
from langchain_rse.text.words import beginning_of, without_function_words

# The number of best candidates in which words of the query are looked for.
_BEST = 20
_ALL_WORDS = 1 - 1e-9  # as a sum of shares
_LAST_QUERIES = 10  # that `Refusals` looks at
# Where rerankers of LangChain's packages name their model.
_MODEL_FIELDS = ("model", "model_name", "model_id")


class Reached(NamedTuple):
    """How near the documents come to a query, and whether that is near enough."""

    query: str
    best: Candidate | None  # the candidate with the best score
    word_share: float = 0.0  # of the query's words, in one candidate
    reach: float | None = None  # the best score with the bonus for words; None without scores
    floor: float | None = None
    closer_than: float | None = None  # see `ScoreFloor.closer_than`; None if not calibrated
    compared_with: str = ""  # the questions of `closer_than`
    is_refused: bool = False


@dataclass(frozen=True)
class _Floor:
    """The floor of a query: a number, or a calibrated one."""

    number: float | None
    calibrated: ScoreFloor | None


def floor_name(searcher: str, reranker: BaseDocumentCompressor | None) -> str:
    """The name of a floor in the docstore: by what finds the candidates, and what ranks them."""
    return f"{searcher} {reranker_name(reranker)}".strip()


def reranker_name(reranker: BaseDocumentCompressor | None) -> str:
    """The class of a reranker and its model, if it has one by a usual name; empty for none."""
    if reranker is None:
        return ""
    names = [type(reranker).__name__]
    for field in _MODEL_FIELDS:
        model = getattr(reranker, field, None)
        if isinstance(model, str):
            names.append(model)
    return " ".join(names)


def stored_floor(record: Record, name: str) -> ScoreFloor | None:
    """The floor with a name in the docstore's record of floors; None if it has none."""
    fields = floor_in(record, name)
    return None if fields is None else ScoreFloor.from_fields(fields)


def refuse(
    looked_up: LookedUp, sources: Sources, settings: QuerySettings, pair: Model
) -> tuple[LookedUp, list[Reached]]:
    """Leave out the queries whose best candidate does not reach the score floor.

    Returns what was looked up without them, and how near the documents come to each query; nothing
    about that if there is no floor.
    """
    calibrated = None
    if settings.score_floor == "calibrated":
        calibrated = _calibrated_floor(looked_up.floors, sources, settings, pair)
    reached = _measure_reach(looked_up, settings, calibrated)
    return _without_refused(looked_up, reached), reached


def _calibrated_floor(
    record: Record, sources: Sources, settings: QuerySettings, pair: Model
) -> ScoreFloor | None:
    """The floor that `calibrate` found for these stores and reranker; None if there is none.

    Warns:
        UserWarning: If there is one for another vector store or embedding model.
    """
    floor = stored_floor(record, floor_name(sources.name, settings.reranker))
    if floor is None:
        return None
    for ours, theirs in ((floor.store, pair.store), (floor.model, pair.id)):
        if ours and theirs and ours != theirs:
            warn(
                "the score floor was calibrated for another vector store or embedding model, so "
                "no question is refused: call calibrate() again, or set score_floor=None"
            )
            return None
    if floor.has_doubled(added_chunks(record)):
        warn(
            "the index has doubled since its score floor was calibrated: calibrate() or "
            "langchain-rse index makes a new one"
        )
    return floor


def _measure_reach(
    looked_up: LookedUp, settings: QuerySettings, calibrated: ScoreFloor | None
) -> list[Reached]:
    """Measure how near the documents come to each query; empty if there is no floor."""
    number = settings.score_floor if isinstance(settings.score_floor, float) else None
    if number is None and calibrated is None:
        return []
    floor = _Floor(number, calibrated)
    reached = []
    for query, ranked in zip(looked_up.queries, looked_up.ranked, strict=True):
        candidates = [candidate for candidate, _ in ranked]
        reached.append(_measure_query(query, candidates, settings, floor))
    return reached


def _measure_query(
    query: str, candidates: Sequence[Candidate], settings: QuerySettings, floor: _Floor
) -> Reached:
    by_rank = best_first(candidates)
    best = by_rank[0] if by_rank else None
    share = share_of_words(query, by_rank)
    reached = Reached(query, best, share)
    if best is None or best.score is None:
        if floor.number is not None and best is not None:
            warn(f"score_floor={floor.number:g} has no effect: the candidates have no scores")
        return reached
    reached = _compare(reached, by_rank, settings, floor)
    if reached.is_refused and floor.number is None and settings.reranker is None:
        # Vectors say little of an error code; the index finds it. A number holds as it is.
        return reached._replace(is_refused=not _has_all_words(query, candidates))
    return reached


def _compare(
    reached: Reached, by_rank: Sequence[Candidate], settings: QuerySettings, floor: _Floor
) -> Reached:
    """Compare the best score with the floor."""
    best = reached.best
    if best is None or best.score is None:
        return reached
    falls_from_best = direction_of(by_rank)
    if floor.number is not None:
        return _compare_with_number(
            reached, settings, floor.number, higher_is_better=falls_from_best
        )
    calibrated = floor.calibrated
    if calibrated is None:
        return reached
    if falls_from_best not in {None, calibrated.higher_is_better}:
        warn(
            "the scores rise where they fell when the score floor was calibrated, or the other way "
            "round, so no question is refused: call calibrate() again"
        )
        return reached
    reach = calibrated.reach(best.score, reached.word_share)
    return reached._replace(
        reach=reach,
        floor=calibrated.floor,
        closer_than=calibrated.closer_than(reach),
        compared_with=calibrated.answered_name,
        is_refused=calibrated.refuses(reach),
    )


def _compare_with_number(
    reached: Reached, settings: QuerySettings, number: float, *, higher_is_better: bool | None
) -> Reached:
    """Compare the best score with a floor that is a number."""
    best = reached.best
    if best is None or best.score is None:
        return reached
    if settings.reranker is not None:
        higher_is_better = True
    if higher_is_better is None:
        warn(
            f"score_floor={number:g} has no effect: all candidates have the same score, so that it "
            "is not known whether higher or lower is better"
        )
        return reached
    is_worse = best.score < number if higher_is_better else best.score > number
    return reached._replace(
        reach=best.score,
        floor=number,
        is_refused=is_worse,
    )


def _has_all_words(query: str, candidates: Sequence[Candidate]) -> bool:
    """True if one of the best candidates of the full-text index has all words of the query."""
    texts = []
    for candidate in candidates:
        if candidate.lexical_rank is not None and candidate.lexical_rank < _BEST:
            texts.append(candidate.document.page_content)
    content = without_function_words(beginning_of(query))
    return bool(max(word_shares(content, texts), default=0.0) >= _ALL_WORDS)


def best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates of the search or reranker, best first, without those found by words alone."""
    ranked = [(candidate.rank, number) for number, candidate in enumerate(candidates)]
    order = sorted((rank, number) for rank, number in ranked if rank is not None)
    return [candidates[number] for _, number in order]


def share_of_words(query: str, by_rank: Sequence[Candidate]) -> float:
    """The greatest share of the query's content words that one of the best candidates has."""
    texts = list(dict.fromkeys(each.document.page_content for each in by_rank[:_BEST]))
    content = without_function_words(beginning_of(query))
    return float(max(word_shares(content, texts), default=0.0))


def direction_of(by_rank: Sequence[Candidate]) -> bool | None:
    """True if higher scores are better, False if they are distances, None if that is not known."""
    scores = [candidate.score for candidate in by_rank if candidate.score is not None]
    if len(scores) < 2 or scores[0] == scores[-1]:  # noqa: PLR2004 - two make a direction
        return None
    return scores[0] > scores[-1]


def _without_refused(looked_up: LookedUp, reached: Sequence[Reached]) -> LookedUp:
    """What was looked up, without the queries that are refused."""
    refused = {each.query for each in reached if each.is_refused}
    if not refused:
        return looked_up
    queries = []
    ranked = []
    for query, ranked_of_query in zip(looked_up.queries, looked_up.ranked, strict=True):
        if query not in refused:
            queries.append(query)
            ranked.append(ranked_of_query)
    return looked_up._replace(queries=queries, ranked=ranked)


def highest_closeness(reached: Sequence[Reached]) -> float | None:
    """The greatest `Reached.closer_than` of the queries that are not refused."""
    shares = [
        each.closer_than for each in reached if each.closer_than is not None and not each.is_refused
    ]
    return max(shares, default=None)


class Refusals:
    """Warns once if most of the last queries of a retriever were refused."""

    def __init__(self) -> None:
        self._last: deque[bool] = deque(maxlen=_LAST_QUERIES)
        self._has_warned = False

    def count(self, reached: Sequence[Reached]) -> None:
        """Count a query, if there is a floor."""
        if not reached or self._has_warned:
            return
        self._last.append(all(each.is_refused for each in reached))
        refused = sum(self._last)
        if len(self._last) == _LAST_QUERIES and 2 * refused > _LAST_QUERIES:
            self._has_warned = True
            warn(
                f"score_floor refused {refused} of the last {_LAST_QUERIES} queries. If the "
                "documents answer them, calibrate again with questions as people ask them, or set "
                "score_floor=None"
            )
