"""RSEConfig, the presets, and the settings of a query. Pydantic checks them all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from langchain_core.runnables import Runnable
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import Self

from langchain_rse._messages import warn
from langchain_rse.engine import Calibration, check_calibration

__all__ = [
    "PRESETS",
    "LengthFunction",
    "QuerySettings",
    "RSEConfig",
    "read_settings",
    "resolve_settings",
]

LengthFunction = Callable[[str], float]
"""From a text to its length: ``len`` counts characters."""


def _check_calibration(calibration: Any) -> Calibration:  # noqa: ANN401 - anything may be given
    return calibration if calibration == "auto" else check_calibration(calibration)


def _check_search_kwargs(search_kwargs: dict[str, Any]) -> dict[str, Any]:
    if "k" in search_kwargs:
        raise ValueError(
            "search_kwargs must not contain 'k': fetch_k is the number of candidates, k the "
            "number of segments"
        )
    return search_kwargs


_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Share = Annotated[_Number, Field(ge=0, le=1)]
_Positive = Annotated[_Number, Field(gt=0)]
_NotNegative = Annotated[_Number, Field(ge=0)]
_Count = Annotated[int, Field(strict=True, ge=1)]
_CountOrZero = Annotated[int, Field(strict=True, ge=0)]
_Calibration = Annotated[Any, AfterValidator(_check_calibration)]
_Solver = Literal["exact", "greedy", "best"]
_RankFusion = Literal["decay", "mean"]
_LengthWeighting = Literal["none", "published"]

# Defaults that depend on whether a reranker scored. It reads the texts, so more of its candidates
# are worth considering. But it misjudges single chunks, and others than the search does, so the
# search counts as well and segments should be longer.
FOR_SIMILARITIES: Mapping[str, float] = MappingProxyType(
    {"decay_rate": 15.0, "rerank_weight": 1.0, "segment_cost": 0.15}
)
_FOR_RERANKERS: Mapping[str, float] = MappingProxyType(
    {"decay_rate": 30.0, "rerank_weight": 0.5, "segment_cost": 0.4}
)


class RSEConfig(BaseModel):
    """How candidates become segments. The defaults are those of the preset ``balanced``.

    ``decay_rate``, ``rerank_weight`` and ``segment_cost`` are None by default: their value then
    depends on whether a reranker scored.

    Raises:
        ValueError: If a field is out of its range. The message names the field, the value and
            what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    solver: _Solver = "exact"
    """``"exact"`` chooses the segments that have the highest total value within the budget;
    ``"greedy"`` takes the most valuable segment again and again (dsRAG); ``"best"`` takes the one
    best segment of each document."""
    irrelevant_chunk_penalty: _Share = 0.4
    """The relevance, from 0 to 1, above which a chunk is worth its room. Smaller values return more
    text; 0 fills the budget as long as anything is relevant. If the best candidate that fits has at
    least this relevance, at least one segment is returned."""
    calibration: _Calibration = "auto"
    """How scores become relevances in [0, 1]: ``"auto"`` (a reranker known by name gets its own
    calibration, other scores ``"minmax"``), or another one of `langchain_rse.engine.calibrate`."""
    rank_fusion: _RankFusion = "decay"
    """``"decay"``: relevance falls exponentially with the rank; ``"mean"``: relevance and relative
    rank are averaged."""
    decay_rate: _Positive | None = None
    """The rank at which 1/e of the relevance is left, with ``rank_fusion="decay"``. None: 15, or
    30 with a reranker."""
    lexical_credit: _Share = 0.7
    """The relevance, from 0 to 1, of the candidate that matches the words of the query best (BM25
    among the candidates). It is combined with the relevance r from scores as
    ``1 - (1 - r)(1 - words)``; with a reranker, in the search's share of the relevance."""
    name_weight: _NotNegative = 0.2
    """How much a document loses if the query names others, by their ``title`` or the file name in
    ``source``: its relevance is multiplied by ``exp(-name_weight * s)``, where s is how much less
    it is named than they are; see `langchain_rse.query.naming`. 0 ignores names."""
    document_weight: _NotNegative = 0.5
    """How much the whole document counts: relevance is multiplied by ``(d / best) **
    document_weight``, with the mean relevance d of the document's five best chunks. 0 rates each
    chunk by itself."""
    rerank_weight: _Share | None = None
    """Share of a reranker's relevance, from 0 to 1. The rest is the candidate's relevance from the
    search, times the reranker's relevance of its best candidate. With 1, only the reranker counts.
    None: 0.5, or 1 with a reranker whose scores are similarities."""
    min_relevance: _Share = 0.0
    """Candidates with a calibrated relevance below this count as not found. Useful with absolute
    scores; with ``"minmax"`` the best candidate's relevance is always 1."""
    neighbor_credit: _Share = 0.5
    """Share of a chunk's relevance that counts for the chunks beside it; the square of the share
    for the next ones, and so on; see `langchain_rse.engine.neighbor_credit`. A document of one
    chunk is credited as if chunks like it stood beside it."""
    neighbor_radius: _CountOrZero = 2
    """The number of chunks on each side of a relevant one that get credit from it."""
    segment_cost: _NotNegative | None = None
    """What a segment costs in addition to its text, in chunks of average length: larger makes fewer
    and longer segments. Used by ``"exact"`` only. None: 0.15, or 0.4 with a reranker."""
    length_weighting: _LengthWeighting = "published"
    """For the solvers ``"greedy"`` and ``"best"``: ``"published"`` weighs candidates longer than
    ``reference_length`` by their length over it, as dsRAG does; ``"none"`` weighs all alike."""
    reference_length: _Positive = 700.0
    """The length, in characters, up to which ``length_weighting`` weighs a candidate 1."""
    max_length: _Count | None = None
    """The most chunks a segment may have. The solvers ``"greedy"`` and ``"best"`` need it; with
    ``"exact"`` it must be None."""
    overall_max_length: _Count = 30
    """The most chunks that all segments of a query may have together. Used by ``"greedy"`` only."""
    overall_max_length_extension: _CountOrZero = 0
    """Chunks to add to ``overall_max_length`` for each query beyond the first."""
    minimum_value: _Number = 0.0
    """The least value a segment must have."""
    top_k_for_document_selection: _Count | None = 20
    """The number of best candidates whose documents are considered; None: all candidates."""

    @model_validator(mode="after")
    def _check_max_length(self) -> Self:
        if (self.max_length is None) != (self.solver == "exact"):
            wanted = "None" if self.solver == "exact" else "a number of chunks"
            raise ValueError(
                f"max_length must be {wanted} with solver={self.solver!r}; got {self.max_length!r}"
            )
        return self

    @classmethod
    def of(cls, config: Any) -> RSEConfig:  # noqa: ANN401 - checked here
        """Return the config, or the preset of that name; a ValueError if it is neither."""
        if isinstance(config, cls):
            return config
        if isinstance(config, str) and config in PRESETS:
            return PRESETS[config]
        raise ValueError(
            f"config must be an RSEConfig or the name of a preset ({', '.join(PRESETS)}); "
            f"got {config!r}"
        )

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> RSEConfig:
        """Read a config that `to_file` wrote; a ValueError names the file if it holds none."""
        fields = read_settings(path)
        if hybrid := fields["hybrid"]:
            warn(f"{path} has {hybrid=} as well: give that to RSERetriever(..., {hybrid=})")
        return cls.of(fields["config"])

    def to_file(self, path: str | os.PathLike[str], *, hybrid: float = 0.0) -> None:
        """Write the config as JSON, for `from_file` and ``--config`` of the command line.

        ``hybrid`` is a field of the retriever: the command line restores it, `from_file` warns of
        it. A ValueError if ``calibration`` is a function.
        """
        if callable(self.calibration):
            raise ValueError(f"no file can hold calibration={self.calibration!r}")  # noqa: TRY004
        fields = {**self.model_dump(), **({"hybrid": hybrid} if hybrid else {})}
        Path(path).write_text(f"{json.dumps(fields, indent=2)}\n", encoding="utf-8")

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401 - any field
        """Return a copy with some fields changed, checked like a new config."""
        return type(self)(**{**dict(self), **changes})

    def for_scores(self, *, reranked: bool) -> Self:
        """Return a copy that has values in the fields whose default depends on a reranker."""
        defaults = _FOR_RERANKERS if reranked else FOR_SIMILARITIES
        return self.model_copy(
            update={name: value for name, value in defaults.items() if getattr(self, name) is None}
        )


_PUBLISHED = RSEConfig(
    solver="greedy",
    irrelevant_chunk_penalty=0.18,
    decay_rate=30.0,
    lexical_credit=0.0,
    name_weight=0.0,
    document_weight=0.0,
    rerank_weight=1.0,
    neighbor_credit=0.0,
    neighbor_radius=0,
    segment_cost=0.0,
    max_length=15,
    overall_max_length_extension=5,
    minimum_value=0.5,
    top_k_for_document_selection=10,
)

PRESETS: Mapping[str, RSEConfig] = MappingProxyType(
    {
        "balanced": RSEConfig(),
        "precision": RSEConfig(irrelevant_chunk_penalty=0.55),
        "find_all": RSEConfig(
            irrelevant_chunk_penalty=0.2, decay_rate=40.0, top_k_for_document_selection=200
        ),
        # dsrag.rse.RSE_PARAMS_PRESETS
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
        # The published walk-through: one document, all chunks weigh the same.
        "walkthrough": _PUBLISHED.replace(
            max_length=20,
            minimum_value=0.7,
            irrelevant_chunk_penalty=0.2,
            length_weighting="none",
            top_k_for_document_selection=1,
        ),
        # The one best segment of each document, by the maximum subarray.
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


class QuerySettings(BaseModel):
    """The settings of a query: fields of the retriever that a call can set as well.

    Each field of `RSEConfig` can be given beside ``config`` and then replaces the config's; None
    leaves the config's value.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    config: Annotated[RSEConfig, BeforeValidator(RSEConfig.of)] = PRESETS["balanced"]
    """How segments are chosen: an `RSEConfig` or the name of a preset."""
    k: _Count | None = None
    """Return at most this many segments, those of the highest value; None for no limit."""
    queries: Annotated[Sequence[str], Field(min_length=1)] | None = None
    """Queries to search for instead of the question, which is searched for only if it is one of
    them. They share one answer under one budget. Blank and repeated ones are left out."""
    query_generator: Runnable[Any, Any] | None = None
    """Makes ``queries`` from the question if none are given: a Runnable from a string to a list of
    strings, such as ``prompt | model | parser``. If it makes none, the question is searched for."""
    combine_queries: Literal["joint", "turns"] = "joint"
    """How several queries share the answer. ``"joint"``: a chunk is as relevant as it is for the
    query that it fits best, and the best chunk of each query is chosen first, if it is worth the
    penalty and fits. ``"turns"``: the queries take turns to add to the answer (dsRAG)."""
    max_per_document: _Count | None = None
    """The most segments of one document; None for no limit. The exact solver gives the room that
    this leaves to other documents; the published solvers do not, since they choose first."""
    max_context_length: _NotNegative | None = 16_000
    """The budget: the most text that all segments together may have, in the units of
    ``length_function``. ``irrelevant_chunk_penalty`` may return less. None for no limit."""
    length_function: LengthFunction = len
    """Measures ``max_context_length``; for tokens, a function that counts tokens."""
    allow_trim: bool = False
    """True to fill the room that is left with part of the next chunk, cut at the end of a sentence
    or line."""
    include_header: Annotated[bool, Field(strict=True)] = False
    """True to put the document's header, if it has one, above each segment and an empty line.
    ``max_context_length`` counts it; ``start_index`` and ``end_index`` do not."""
    fetch_k: _Count = 200
    """The number of candidates, which are chunks, to fetch."""
    hybrid: _Share = 0.0
    """Share of lexical relevance, from 0 to 1: ``(1 - hybrid) * r + hybrid * lexical``. Above 0,
    ``fetch_k`` more candidates come from the docstore's full-text index, ``SQLDocStore(...,
    lexical=True)``, with the same ``filter``, which must be a dict of fields and their values."""
    search_kwargs: Annotated[dict[str, Any], AfterValidator(_check_search_kwargs)] = Field(
        default_factory=dict
    )
    """Passed to the vector store or the wrapped retriever, which has to take them, such as
    ``{"filter": ...}``. If a filter is a dict of fields and values, the results are checked."""
    candidates_only: bool | None = None
    """True for segments that contain candidates only; False to fill in the chunks between them.
    None: True, with a warning, if a ``base_retriever`` or ``reranker`` may leave chunks out for
    other reasons than relevance, else False. Filters in ``search_kwargs``, also of a wrapped
    ``VectorStoreRetriever``, hold for whole segments in any case."""
    order: Literal["document", "relevance"] = "document"
    """``"document"``: segments of a document stand together in the order of its text, the
    documents by their best segment; ``"relevance"``: the best segment first."""
    on_missing: Literal["raise", "split"] = "raise"
    """What to do if the docstore lacks a chunk: raise an error, or split the segment there. With
    ``"split"``, candidates that name no document are left out, with a warning that counts them."""
    duplicates: Literal["drop", "drop_near", "keep"] = "drop"
    """``"drop"``: of documents with the same text, only the one with the best candidate counts.
    ``"drop_near"`` also leaves out a candidate if better ones of other documents have at least 80 %
    of its sequences of five words; not for texts that are nearly alike on purpose, such as
    contracts. ``"keep"`` keeps all of them."""

    solver: _Solver | None = None
    irrelevant_chunk_penalty: _Share | None = None
    calibration: _Calibration | None = None
    rank_fusion: _RankFusion | None = None
    decay_rate: _Positive | None = None
    lexical_credit: _Share | None = None
    name_weight: _NotNegative | None = None
    document_weight: _NotNegative | None = None
    rerank_weight: _Share | None = None
    min_relevance: _Share | None = None
    neighbor_credit: _Share | None = None
    neighbor_radius: _CountOrZero | None = None
    segment_cost: _NotNegative | None = None
    length_weighting: _LengthWeighting | None = None
    reference_length: _Positive | None = None
    max_length: _Count | None = None
    overall_max_length: _Count | None = None
    overall_max_length_extension: _CountOrZero | None = None
    minimum_value: _Number | None = None
    top_k_for_document_selection: _Count | None = None

    @model_validator(mode="after")
    def _check_config(self) -> Self:
        _merged_config(self)
        return self


# In a call of `invoke`, `config` is LangChain's RunnableConfig.
_CALL_ARGUMENTS = frozenset(QuerySettings.model_fields) - {"config"} | {"filter"}


def _merged_config(settings: QuerySettings) -> RSEConfig:
    """The config with the fields that are given beside it."""
    given = {name: getattr(settings, name) for name in RSEConfig.model_fields}
    changes = {name: value for name, value in given.items() if value is not None}
    return settings.config.replace(**changes) if changes else settings.config


def resolve_settings(settings: QuerySettings, overrides: Mapping[str, Any]) -> QuerySettings:
    """Return the retriever's settings with the arguments of a call; TypeError for unknown ones.

    Arguments may be fields of `QuerySettings` except ``config``, and ``filter``, which is put into
    ``search_kwargs``. The ``config`` of the result has the fields that were given beside it.
    """
    if unknown := sorted(overrides.keys() - _CALL_ARGUMENTS):
        allowed = ", ".join(sorted(_CALL_ARGUMENTS))
        raise TypeError(f"unknown argument(s) {', '.join(unknown)}; a call can set {allowed}")
    values = {name: getattr(settings, name) for name in QuerySettings.model_fields}
    values |= {name: value for name, value in overrides.items() if name != "filter"}
    if "filter" in overrides:
        values["search_kwargs"] = {**values["search_kwargs"], "filter": overrides["filter"]}
    checked = QuerySettings(**values)
    return checked.model_copy(update={"config": _merged_config(checked)})


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The ``config`` and ``hybrid`` of a retriever in a file that `RSEConfig.to_file` wrote."""
    content = Path(path).read_bytes()
    try:
        saved = dict(json.loads(content).items())
        hybrid = saved.pop("hybrid", 0.0)
        settings = QuerySettings(config=RSEConfig(**saved), hybrid=hybrid)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)} is not a JSON object of settings: {error}") from error
    return {"config": settings.config, "hybrid": settings.hybrid}
