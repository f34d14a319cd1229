"""RSEConfig, the presets, and the settings of a query. Pydantic checks them all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from langchain_core.documents import BaseDocumentCompressor
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from typing_extensions import Self

from langchain_rse._messages import warn
from langchain_rse.engine import Calibration, check_calibration

__all__ = [
    "INHERIT",
    "PRESETS",
    "BestSegment",
    "Greedy",
    "Hybrid",
    "LengthFunction",
    "QuerySettings",
    "RSEConfig",
    "as_value_error",
    "check_run_config",
    "read_settings",
    "resolve_settings",
]

LengthFunction = Callable[[str], float]
"""From a text to its length: ``len`` counts characters."""


Hybrid = Literal["auto"] | Annotated[float, Field(strict=True, ge=0, le=1)]
"""The weight of the full-text index; ``"auto"``: that of words, where there is an index."""


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
_RankFusion = Literal["decay", "mean"]
_LengthWeighting = Literal["none", "published"]


class Greedy(BaseModel):
    """The solver of dsRAG: takes the most valuable segment again and again.

    Segments begin and end on chunks that are worth the penalty. For the exact solver, which
    replaces it, see `langchain_rse.engine.solve_exact`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["greedy"] = "greedy"
    """What the solver is called in files and traces."""
    max_length: _Count = 15
    """The most chunks that a segment may have."""
    overall_max_length: _Count = 30
    """The most chunks that all segments of a query may have together."""
    overall_max_length_extension: _CountOrZero = 0
    """Chunks to add to ``overall_max_length`` for each query beyond the first."""
    length_weighting: _LengthWeighting = "published"
    """``"published"``: candidates longer than ``reference_length`` weigh their length over it, as
    in dsRAG; ``"none"``: all weigh alike."""
    reference_length: _Positive = 700.0
    """The length, in characters, up to which a candidate weighs 1."""


class BestSegment(BaseModel):
    """The solver that takes the one best segment of each document (maximum subarray, Kadane)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["best_segment"] = "best_segment"
    """What the solver is called in files and traces."""
    max_length: _Count = 15
    """The most chunks that a segment may have."""
    length_weighting: _LengthWeighting = "published"
    """As in `Greedy`."""
    reference_length: _Positive = 700.0
    """As in `Greedy`."""


_PUBLISHED_SOLVERS: Mapping[str, type[Greedy | BestSegment]] = MappingProxyType(
    {"greedy": Greedy, "best_segment": BestSegment}
)


def _solver_of(solver: Any) -> Any:  # noqa: ANN401 - anything may be given
    """Return the solver, or the one that a dict from a file describes."""
    if solver == "exact" or isinstance(solver, (Greedy, BestSegment)):
        return solver
    if isinstance(solver, Mapping) and solver.get("name") in _PUBLISHED_SOLVERS:
        return _PUBLISHED_SOLVERS[solver["name"]].model_validate(solver)
    raise ValueError(
        'solver must be "exact", or Greedy(...) or BestSegment(...) of langchain_rse.config; '
        f"got {solver!r:.200}"
    )


_Solver = Annotated[Literal["exact"] | Greedy | BestSegment, BeforeValidator(_solver_of)]


class RSEConfig(BaseModel):
    """How candidates become segments. The defaults are those of the preset ``balanced``.

    Raises:
        ValueError: If a field is out of its range. The message names the field, the value and
            what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    solver: _Solver = "exact"
    """``"exact"`` chooses the segments that have the highest total value within the budget. The
    published solvers are `Greedy` (dsRAG) and `BestSegment`, for comparison."""
    irrelevant_chunk_penalty: _Share = 0.35
    """The relevance, from 0 to 1, above which a chunk is worth its room. Smaller values return more
    text; 0 fills the budget as long as anything is relevant. If the best candidate that fits has at
    least this relevance, at least one segment is returned."""
    calibration: _Calibration = "auto"
    """How scores become relevances in [0, 1]: ``"auto"`` (a reranker known by name gets its own
    calibration, other scores ``"minmax"``), or another one of `langchain_rse.engine.calibrate`."""
    rank_fusion: _RankFusion = "decay"
    """``"decay"``: relevance falls exponentially with the rank; ``"mean"``: relevance and relative
    rank are averaged."""
    decay_rate: _Positive = 15.0
    """The rank at which 1/e of the relevance is left, with ``rank_fusion="decay"``."""
    score_credit: _Share = 0.55
    """The relevance, from 0 to 1, of the candidate that the search scores best, before the words of
    the query count. If the query names documents (`name_weight`), the mean of this and 1, since
    other documents then use the same words. The scores of a reranker are not changed by it."""
    lexical_credit: _Share = 0.7
    """The relevance, from 0 to 1, of the candidate that matches the words of the query best (BM25
    among the candidates; half as much if the full-text index was searched, see ``hybrid``). It is
    combined with the relevance r from scores as ``1 - (1 - r)(1 - words)``; with a reranker, in the
    search's share of the relevance. Function words, such as "how" and "the", do not count."""
    name_weight: _NotNegative = 0.2
    """How much a query that names documents, by their ``title`` or the file name in ``source``,
    prefers them: the relevance of other documents is multiplied by ``exp(-name_weight * gap)``;
    the gap is the distance to the best named document, see `langchain_rse.text.names`. A reranker
    gets the query without the words that name them. 0 ignores names."""
    document_weight: _NotNegative = 0.5
    """How much the rest of its document counts for a chunk: relevance is multiplied by
    ``(mean / highest) ** document_weight``, where ``mean`` is the mean relevance of the document's
    five best chunks, and ``highest`` the highest mean of any document. 0 rates each chunk by
    itself."""
    rerank_weight: _Share = 0.6
    """Share of a reranker's relevance, from 0 to 1. The rest is the candidate's relevance from the
    search, times the reranker's relevance of its best candidate. With 1, only the reranker
    counts."""
    min_relevance: _Share = 0.0
    """Candidates with a calibrated relevance below this count as not found. Useful with absolute
    scores; with ``"minmax"`` the best candidate's relevance is always 1."""
    neighbor_credit: _Share = 0.5
    """Share of a chunk's relevance that counts for the chunks beside it; the square of the share
    for the next ones, and so on; see `langchain_rse.engine.neighbor_credit`. A document of one
    chunk is credited as if chunks like it stood beside it."""
    neighbor_radius: _CountOrZero = 2
    """The number of chunks on each side of a relevant one that get credit from it."""
    segment_cost: _NotNegative = 0.15
    """What a segment costs in addition to its text, in chunks of average length: larger makes fewer
    and longer segments. Used by the exact solver only."""
    minimum_value: _Number = 0.0
    """The least value a segment must have."""
    top_k_for_document_selection: _Count | None = 20
    """The number of best candidates whose documents are considered; None: all candidates."""

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
        hybrid = fields["hybrid"]
        if hybrid != "auto":
            warn(f"{path} has {hybrid=} as well: give that to RSERetriever(..., {hybrid=})")
        return cls.of(fields["config"])

    def to_file(self, path: str | os.PathLike[str], *, hybrid: Hybrid = "auto") -> None:
        """Write the config as JSON, for `from_file` and ``--config`` of the command line.

        ``hybrid`` is a field of the retriever: the command line restores it, `from_file` warns of
        it. A ValueError if ``calibration`` is a function.
        """
        if callable(self.calibration):
            raise ValueError(f"no file can hold calibration={self.calibration!r}")  # noqa: TRY004
        fields = self.model_dump()
        if hybrid != "auto":
            fields["hybrid"] = hybrid
        Path(path).write_text(f"{json.dumps(fields, indent=2)}\n", encoding="utf-8")

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401 - any field
        """Return a copy with some fields changed, checked like a new config."""
        return type(self)(**{**dict(self), **changes})


_PUBLISHED = RSEConfig(
    solver=Greedy(overall_max_length_extension=5),
    irrelevant_chunk_penalty=0.18,
    decay_rate=30.0,
    score_credit=1.0,
    lexical_credit=0.0,
    name_weight=0.0,
    document_weight=0.0,
    rerank_weight=1.0,
    neighbor_credit=0.0,
    neighbor_radius=0,
    segment_cost=0.0,
    minimum_value=0.5,
    top_k_for_document_selection=10,
)

PRESETS: Mapping[str, RSEConfig] = MappingProxyType(
    {
        "balanced": RSEConfig(),
        "precision": RSEConfig(irrelevant_chunk_penalty=0.45),
        "find_all": RSEConfig(
            irrelevant_chunk_penalty=0.17, decay_rate=40.0, top_k_for_document_selection=200
        ),
        # dsrag.rse.RSE_PARAMS_PRESETS
        "dsrag-balanced": _PUBLISHED,
        "dsrag-precision": _PUBLISHED.replace(minimum_value=0.7, irrelevant_chunk_penalty=0.2),
        "dsrag-find_all": _PUBLISHED.replace(
            solver=Greedy(max_length=40, overall_max_length=200),
            minimum_value=0.4,
            decay_rate=200.0,
            top_k_for_document_selection=200,
        ),
        # The published walk-through: one document, all chunks weigh the same.
        "walkthrough": _PUBLISHED.replace(
            solver=Greedy(max_length=20, overall_max_length_extension=5, length_weighting="none"),
            minimum_value=0.7,
            irrelevant_chunk_penalty=0.2,
            top_k_for_document_selection=1,
        ),
        # The one best segment of each document, by the maximum subarray.
        "kadane": _PUBLISHED.replace(
            solver=BestSegment(length_weighting="none"),
            irrelevant_chunk_penalty=0.3,
            rank_fusion="mean",
            minimum_value=0.0,
            top_k_for_document_selection=None,
        ),
    }
)
"""The presets by name; ``balanced`` is the default."""


class _Inherit(Enum):
    """The type of `INHERIT`, which stays one object when it is copied or pickled."""

    INHERIT = "inherit"

    def __repr__(self) -> str:
        return self.name


INHERIT: Any = _Inherit.INHERIT
"""The value of a field that was not given beside ``config``: the config's own value holds.

None is a value of its own, as in ``top_k_for_document_selection=None``."""


def _keep_inherit(value: Any, check: ValidatorFunctionWrapHandler) -> Any:  # noqa: ANN401
    return value if value is INHERIT else check(value)


_Inherited = WrapValidator(_keep_inherit)

# What some arguments are called for short. ``config`` is LangChain's RunnableConfig in a call.
_CONFIG, _FILTER = "rse_config", "filter"


class QuerySettings(BaseModel):
    """The settings of a query: fields of the retriever that a call can set as well.

    Each field of `RSEConfig` can be given beside ``config`` and then replaces the config's; it is
    `INHERIT` otherwise. ``rse_config`` is another name of ``config``, which a call needs, since
    its ``config`` is LangChain's; ``filter=x`` is short for ``search_kwargs={"filter": x}``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    config: Annotated[RSEConfig, BeforeValidator(RSEConfig.of)] = PRESETS["balanced"]
    """How segments are chosen: an `RSEConfig` or the name of a preset."""
    reranker: BaseDocumentCompressor | None = None
    """Scores all candidates. `RSEConfig.rerank_weight` says how its scores and those of the search
    are weighed against each other. None: the search alone counts."""
    k: _Count | None = None
    """Return at most this many segments: the one with the best candidate, and those of the highest
    value; None for no limit."""
    queries: Annotated[Sequence[str], Field(min_length=1)] | None = None
    """Queries to search for in place of the question. They share one answer under one budget. To
    search for the question too, include it. Blank and repeated queries are left out."""
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
    """True to put the document's header, if it has one, above each segment and an empty line; and
    above a segment that begins inside a table, the header row that the default splitter found.
    ``max_context_length`` counts both; ``start_index`` and ``end_index`` do not."""
    fetch_k: _Count = 200
    """The number of candidates, which are chunks, to fetch."""
    hybrid: Hybrid = "auto"
    """Weight of the docstore's full-text index, from 0 to 1: the relevance of the chunk that it
    ranks first. ``fetch_k`` more candidates come from it, and relevance r from vectors becomes
    ``1 - (1 - r)(1 - hybrid * full_text)``. ``"auto"``: `RSEConfig.lexical_credit`, if the docstore
    has an index (`SQLDocStore`) that can apply ``search_kwargs``: a ``filter`` must be a dict of
    fields and values. Else only the words of the candidates count. 0: not searched."""
    score_floor: Literal["calibrated"] | _Number | None = "calibrated"
    """The score that the best candidate of a query must reach; if it does not, nothing is returned
    for the query, with a log line that has both numbers. ``"calibrated"``: what
    `RSERetriever.calibrate` found for this vector store, model and reranker; no floor before. A
    number: in the units of the scores, the reranker's if there is one; if these are distances, the
    greatest that is close enough. None: no floor."""
    search_kwargs: Annotated[dict[str, Any], AfterValidator(_check_search_kwargs)] = Field(
        default_factory=dict
    )
    """Passed to the vector store or the wrapped retriever, which has to take them, such as
    ``{"filter": ...}``. If a filter is a dict of fields and values, the results are checked."""
    candidates_only: bool | None = None
    """True for segments that contain candidates only; False to fill in the chunks between them.
    None: False, unless a ``base_retriever`` or ``reranker`` may leave chunks out for other reasons
    than relevance: then True, with a warning. Filters hold for whole segments in any case: with one
    that is not a dict of fields and values, segments contain candidates only, with a warning."""
    order: Literal["document", "relevance"] = "document"
    """``"document"``: segments of a document stand together in the order of its text, the
    documents by their best segment; ``"relevance"``: the best segment first."""
    on_missing: Literal["raise", "split"] = "raise"
    """What to do if the docstore lacks a chunk: raise an error, or split the segment there. With
    ``"split"``, candidates that name no document are left out, with a warning that counts them."""
    duplicates: Literal["drop", "drop_near", "keep"] = "drop"
    """``"drop"``: text that stands word for word in several documents comes back once, whole, from
    the document with the better best candidate. A candidate is left out if all of it, at least 150
    characters without white space, stands in candidates of a better document. It stays if the query
    names its document by words that do not name the other one. ``"drop_near"`` leaves out a
    candidate if candidates of better documents have at least 80 % of its sequences of five words;
    not for texts that are nearly alike on purpose, such as contracts. ``"keep"`` keeps all of
    them."""

    solver: Annotated[_Solver, _Inherited] = INHERIT
    irrelevant_chunk_penalty: Annotated[_Share, _Inherited] = INHERIT
    calibration: Annotated[_Calibration, _Inherited] = INHERIT
    rank_fusion: Annotated[_RankFusion, _Inherited] = INHERIT
    decay_rate: Annotated[_Positive, _Inherited] = INHERIT
    score_credit: Annotated[_Share, _Inherited] = INHERIT
    lexical_credit: Annotated[_Share, _Inherited] = INHERIT
    name_weight: Annotated[_NotNegative, _Inherited] = INHERIT
    document_weight: Annotated[_NotNegative, _Inherited] = INHERIT
    rerank_weight: Annotated[_Share, _Inherited] = INHERIT
    min_relevance: Annotated[_Share, _Inherited] = INHERIT
    neighbor_credit: Annotated[_Share, _Inherited] = INHERIT
    neighbor_radius: Annotated[_CountOrZero, _Inherited] = INHERIT
    segment_cost: Annotated[_NotNegative, _Inherited] = INHERIT
    minimum_value: Annotated[_Number, _Inherited] = INHERIT
    top_k_for_document_selection: Annotated[_Count | None, _Inherited] = INHERIT

    @model_validator(mode="before")
    @classmethod
    def _expand_short_names(cls, fields: Any) -> Any:  # noqa: ANN401 - anything may be given
        """Put ``rse_config`` and ``filter`` into the fields that they stand for."""
        if not isinstance(fields, dict):
            return fields
        expanded = dict(fields)
        if _CONFIG in expanded:
            if "config" in expanded:
                raise ValueError("rse_config is another name of config: give one of them")
            expanded["config"] = expanded.pop(_CONFIG)
        if _FILTER in expanded:
            given = expanded.get("search_kwargs", {})
            if not isinstance(given, Mapping):
                raise ValueError(f"search_kwargs must be a dict; got {given!r:.200}")
            expanded["search_kwargs"] = {**given, _FILTER: expanded.pop(_FILTER)}
        return expanded

    def merged_config(self) -> RSEConfig:
        """The config with the fields that are given beside it."""
        changes = {}
        for name in RSEConfig.model_fields:
            value = getattr(self, name)
            if value is not INHERIT:
                changes[name] = value
        return self.config.replace(**changes) if changes else self.config


_CALL_ARGUMENTS = frozenset(QuerySettings.model_fields) - {"config"} | {_CONFIG, _FILTER}


def resolve_settings(settings: QuerySettings, arguments: Mapping[str, Any]) -> QuerySettings:
    """Return a retriever's settings with the arguments of a call; TypeError for unknown ones.

    Arguments may be fields of `QuerySettings` under the names that a call has for them. The
    ``config`` of the result has the fields that were given beside it, here or to the retriever. A
    call that gives ``rse_config`` replaces the retriever's whole config.
    """
    unknown = sorted(arguments.keys() - _CALL_ARGUMENTS)
    if unknown:
        allowed = ", ".join(sorted(_CALL_ARGUMENTS))
        raise TypeError(f"unknown argument(s) {', '.join(unknown)}; a call can set {allowed}")
    values = {name: getattr(settings, name) for name in QuerySettings.model_fields}
    if _CONFIG in arguments:
        values.update(dict.fromkeys(RSEConfig.model_fields, INHERIT))
        del values["config"]
    checked = QuerySettings(**{**values, **arguments})
    return checked.model_copy(update={"config": checked.merged_config()})


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The ``config`` and ``hybrid`` of a retriever in a file that `RSEConfig.to_file` wrote."""
    content = Path(path).read_bytes()
    try:
        saved = dict(json.loads(content).items())
        hybrid = saved.pop("hybrid", "auto")
        settings = QuerySettings(config=RSEConfig(**saved), hybrid=hybrid)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)} is not a JSON object of settings: {error}") from error
    return {"config": settings.config, "hybrid": settings.hybrid}


def as_value_error(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the check with ValueErrors for TypeErrors, which pydantic would not report."""

    def validate(value: Any) -> Any:  # noqa: ANN401 - anything may be given
        try:
            return check(value)
        except TypeError as error:
            raise ValueError(str(error)) from error

    return validate


def check_run_config(config: RunnableConfig | None) -> RunnableConfig | None:
    """Return LangChain's config of a run; a TypeError for a config of this package."""
    if isinstance(config, (str, RSEConfig)):
        raise TypeError(
            f"config of a call is LangChain's RunnableConfig; got {config!r}. Give fields of "
            "RSEConfig by name, as in invoke(query, irrelevant_chunk_penalty=0.3), or all of them "
            "as rse_config"
        )
    return config
