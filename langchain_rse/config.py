"""RSEConfig, the parameters of the selection, and the presets."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from langchain_rse.scoring import Calibration, check_calibration, is_absolute

__all__ = ["PRESETS", "ByScores", "RSEConfig"]

Solver = Literal["exact", "greedy", "best"]
RankFusion = Literal["decay", "mean"]
LengthWeighting = Literal["none", "linear", "published"]


class ByScores(NamedTuple):
    """Fields of `RSEConfig` whose best values depend on what the scores are."""

    decay_rate: float
    contrast: float
    neighbor_radius: int
    segment_cost: float


# Similarities: the rank has to tell the few relevant chunks from the many similar ones.
_OF_SIMILARITIES = ByScores(decay_rate=20.0, contrast=1.0, neighbor_radius=2, segment_cost=0.15)
# A reranker's own scores: they tell by themselves, but err for single chunks, so that clusters
# have to win over those that stand alone.
_OF_RERANKERS = ByScores(decay_rate=100.0, contrast=3.0, neighbor_radius=3, segment_cost=0.7)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RSEConfig:
    """How candidates become segments. The defaults are the preset ``balanced``.

    Four fields are None by default, which means: by what the scores are. Scores of a reranker
    with an absolute calibration (one known by name, ``"sigmoid"``, ``"beta(a, b)"``,
    ``"identity"`` or a function) get one set of values, all others another; see `for_scores`.

    Attributes:
        solver: ``"exact"`` chooses the segments that are worth most together, within a
            budget of text where there is one; ``"greedy"`` takes the most valuable segment
            again and again (dsRAG); ``"best"`` takes the one best segment of each document.
        irrelevant_chunk_penalty: What a chunk without relevance costs, at least 0: the
            relevance from which text is worth its room. Smaller returns more; 0 fills the
            budget as long as anything is relevant. For the greedy solver, 0.1 makes segments
            of about 10 to 20 chunks, 0.2 about 4 to 10, 0.3 about 2 to 6 (dsRAG's figures).
        calibration: How scores become relevances; see `langchain_rse.scoring.calibrate`.
        rank_fusion: ``"decay"``: relevance fades exponentially with the rank;
            ``"mean"``: relevance and relative rank are averaged.
        decay_rate: The rank at which 1/e of the relevance is left, above 0. Used by
            ``"decay"`` only. None: 20; for a reranker's absolute scores 100.
        contrast: How far relevances, once fused with the rank, are driven apart around 0.4,
            above 0; 1 leaves them as they are; see `langchain_rse.scoring.sharpen`. None: 1;
            for a reranker's absolute scores 3.
        lexical_credit: How much, from 0 to 1, the words of the query in a candidate's text
            count beside its score. The best match by words counts as a relevance of this;
            both are combined as if either were enough, ``1 - (1 - r)(1 - words)``; see
            `langchain_rse.scoring.lexical_scores`. Not used where a reranker, which reads
            the texts itself, gave the order.
        min_relevance: Candidates whose calibrated relevance is below this, from 0 to 1,
            count as not found. Says something with absolute scores, such as a reranker's;
            with ``"minmax"``, the best candidate's relevance is always 1.
        neighbor_credit: Share, from 0 to 1, of a chunk's relevance that counts for the chunk
            next to it, its square for the one after, and so on; see
            `langchain_rse.scoring.neighbor_credit`.
        neighbor_radius: How many chunks away the credit ends, at least 0. None: 2; for a
            reranker's absolute scores 3.
        segment_cost: What a segment costs beyond its text, in chunks of average length, at
            least 0: larger makes fewer and longer segments. Used by ``"exact"`` only, which
            weighs every chunk by its length. None: 0.15; for a reranker's absolute scores 0.7.
        border_cost: What of ``segment_cost``, from 0 to 1, is left where a segment begins and
            ends at the border of a section: half of it is for the beginning, half for the end.
            Less than 1 makes segments prefer to begin and end there rather than to cross.
            Sections are known of documents that were added with headers, see
            `langchain_rse.headers`. Used by ``"exact"`` only.
        length_weighting: For the other solvers. ``"linear"`` weighs every chunk by its
            length over ``reference_length``; ``"published"`` does so for candidates longer
            than that only, as dsRAG does; ``"none"`` counts chunks alike.
        reference_length: The length, in characters, that weighs 1 there; above 0.
        max_length: The most chunks a segment may have, at least 1; None for no limit.
        overall_max_length: The most chunks all segments of a query may have together,
            at least 1. Used by the solver ``"greedy"`` only.
        overall_max_length_extension: Chunks added to ``overall_max_length`` for each
            query beyond the first where several queries are solved together, at least 0.
        minimum_value: The least a segment must be worth.
        top_k_for_document_selection: Only documents with a chunk among this many best
            candidates are considered, at least 1; None considers all.

    Raises:
        ValueError: If a field is out of its range; the message names the field, the
            value and what is allowed.
    """

    solver: Solver = "exact"
    irrelevant_chunk_penalty: float = 0.4
    calibration: Calibration = "auto"
    rank_fusion: RankFusion = "decay"
    decay_rate: float | None = None
    contrast: float | None = None
    lexical_credit: float = 0.7
    min_relevance: float = 0.0
    neighbor_credit: float = 0.5
    neighbor_radius: int | None = None
    segment_cost: float | None = None
    border_cost: float = 0.5
    length_weighting: LengthWeighting = "published"
    reference_length: float = 700.0
    max_length: int | None = None
    overall_max_length: int = 30
    overall_max_length_extension: int = 5
    minimum_value: float = 0.0
    top_k_for_document_selection: int | None = 20

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        if self.max_length is None and self.solver != "exact":
            raise ValueError(
                f"max_length must be a whole number of at least 1 with solver={self.solver!r}; "
                "got None, which only 'exact' takes"
            )

    @classmethod
    def of(cls, config: RSEConfig | str) -> RSEConfig:
        """Return the config, or the preset of that name.

        Raises:
            ValueError: If there is no preset of that name.
        """
        if isinstance(config, cls):
            return config
        if isinstance(config, str) and config in PRESETS:
            return PRESETS[config]
        raise ValueError(
            f"config must be an RSEConfig or the name of a preset ({', '.join(PRESETS)}); "
            f"got {config!r}"
        )

    def by_scores(self, reranker: str | None = None) -> ByScores:
        """The fields that may be None, as they are or by what the scores are.

        Args:
            reranker: Class name of the reranker that gives the scores, if one does.
        """
        absolute = is_absolute(self.calibration, reranker)
        default = _OF_RERANKERS if absolute else _OF_SIMILARITIES
        own = {name: getattr(self, name) for name in ByScores._fields}
        return default._replace(**{name: value for name, value in own.items() if value is not None})

    def for_scores(self, reranker: str | None = None) -> RSEConfig:
        """Return a copy in which no field says None for "by what the scores are".

        Args:
            reranker: Class name of the reranker that gives the scores, if one does.
        """
        return self.replace(**self.by_scores(reranker)._asdict())

    def replace(self, **changes: Any) -> RSEConfig:  # noqa: ANN401 - any field
        """Return a copy in which some fields are different, checked like a new config.

        Raises:
            ValueError: If a field is out of its range.
            TypeError: If there is no such field.
        """
        return dataclasses.replace(self, **changes)


def _one_of(choices: object) -> Callable[[str, Any], Any]:
    allowed = get_args(choices)

    def check(name: str, value: Any) -> Any:  # noqa: ANN401
        if value not in allowed:
            raise ValueError(
                f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}"
            )
        return value

    return check


def _number(
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    optional: bool = False,
) -> Callable[[str, Any], float | None]:
    bound = f" of at least {least:g}" if least is not None else ""
    bound = f" above {above:g}" if above is not None else bound
    bound = f" from {least:g} to {most:g}" if least is not None and most is not None else bound

    bound += " or None" if optional else ""

    def check(name: str, value: Any) -> float | None:  # noqa: ANN401
        if value is None and optional:
            return None
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if (
            not math.isfinite(number)
            or isinstance(value, (bool, str, bytes, bytearray))
            or (least is not None and number < least)
            or (above is not None and number <= above)
            or (most is not None and number > most)
        ):
            raise ValueError(f"{name} must be a finite number{bound}; got {value!r}")
        return number

    return check


def _whole(least: int, *, optional: bool = False) -> Callable[[str, Any], int | None]:
    def check(name: str, value: Any) -> int | None:  # noqa: ANN401
        if value is None and optional:
            return None
        try:
            number = operator.index(value)
        except TypeError:
            number = least - 1
        if number < least or isinstance(value, bool):
            also = " or None" if optional else ""
            raise ValueError(
                f"{name} must be a whole number of at least {least}{also}; got {value!r}"
            )
        return number

    return check


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "solver": _one_of(Solver),
    "irrelevant_chunk_penalty": _number(least=0),
    "calibration": lambda _, value: check_calibration(value),
    "rank_fusion": _one_of(RankFusion),
    "decay_rate": _number(above=0, optional=True),
    "contrast": _number(above=0, optional=True),
    "lexical_credit": _number(least=0, most=1),
    "min_relevance": _number(least=0, most=1),
    "neighbor_credit": _number(least=0, most=1),
    "neighbor_radius": _whole(0, optional=True),
    "segment_cost": _number(least=0, optional=True),
    "border_cost": _number(least=0, most=1),
    "length_weighting": _one_of(LengthWeighting),
    "reference_length": _number(above=0),
    "max_length": _whole(1, optional=True),
    "overall_max_length": _whole(1),
    "overall_max_length_extension": _whole(0),
    "minimum_value": _number(),
    "top_k_for_document_selection": _whole(1, optional=True),
}

# What the published forms have in common, and dsRAG's balanced preset.
_PUBLISHED = RSEConfig(
    solver="greedy",
    irrelevant_chunk_penalty=0.18,
    decay_rate=30.0,
    contrast=1.0,
    lexical_credit=0.0,
    neighbor_credit=0.0,
    neighbor_radius=0,
    segment_cost=0.0,
    max_length=15,
    minimum_value=0.5,
    top_k_for_document_selection=10,
)

PRESETS: Mapping[str, RSEConfig] = MappingProxyType(
    {
        # The solver is exact, and the budget limits all three; they differ in what text has
        # to be worth.
        "balanced": RSEConfig(),
        "precision": RSEConfig(irrelevant_chunk_penalty=0.55),
        "find_all": RSEConfig(
            irrelevant_chunk_penalty=0.2, decay_rate=40.0, top_k_for_document_selection=200
        ),
        # The three of dsrag.rse.RSE_PARAMS_PRESETS.
        "dsrag-balanced": _PUBLISHED,
        "dsrag-precision": _PUBLISHED.replace(minimum_value=0.7, irrelevant_chunk_penalty=0.2),
        "dsrag-find_all": _PUBLISHED.replace(
            max_length=40,
            overall_max_length=200,
            overall_max_length_extension=0,
            minimum_value=0.4,
            decay_rate=200,
            top_k_for_document_selection=200,
        ),
        # The published walk-through: one document, chunks counted alike.
        "walkthrough": _PUBLISHED.replace(
            max_length=20,
            minimum_value=0.7,
            irrelevant_chunk_penalty=0.2,
            length_weighting="none",
            top_k_for_document_selection=1,
        ),
        # One best segment a document, by the maximum subarray.
        "kadane": _PUBLISHED.replace(
            solver="best",
            irrelevant_chunk_penalty=0.3,
            rank_fusion="mean",
            length_weighting="none",
            minimum_value=0.0,
            top_k_for_document_selection=None,
        ),
    }
)
"""The presets by name; ``balanced`` is the default."""
