"""RSEConfig, the presets, and the settings of a query. Pydantic checks them all."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.runnables import Runnable
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import Self

from langchain_rse._messages import warn
from langchain_rse.engine import Calibration, check_calibration

__all__ = [
    "PRESETS",
    "BestSegment",
    "Greedy",
    "Hybrid",
    "LengthFunction",
    "QuerySettings",
    "RSEConfig",
    "read_settings",
    "settings_of_call",
]

LengthFunction = Callable[[str], float]
"""From a text to its length: ``len`` counts characters."""

Hybrid = Literal["auto"] | Annotated[float, Field(strict=True, ge=0, le=1)]
"""The weight of the full-text index; ``"auto"``: that of words, where there is an index."""

# Arguments of other retrievers, and what is written here instead.
_FOREIGN = {
    "search_type": "for another search than by similarity, give base_retriever="
    "vectorstore.as_retriever(search_type=..., search_kwargs={'k': 200})",
    "score_threshold": "score_floor is the score that the best candidate must reach; "
    "fit_score_floor() finds one",
    "top_k": "k is the number of segments, fetch_k the number of candidates",
    "top_n": "k is the number of segments, fetch_k the number of candidates",
    "compressor": "give it as reranker",
    "base_compressor": "give it as reranker",
}


def _check_calibration(calibration: Any) -> Calibration:  # noqa: ANN401 - anything may be given
    return calibration if calibration == "auto" else check_calibration(calibration)


def _check_search_kwargs(search_kwargs: dict[str, Any]) -> dict[str, Any]:
    for name in ("k", "search_type", "score_threshold"):
        if name in search_kwargs:
            instead = _FOREIGN.get(name, _FOREIGN["top_k"])
            raise ValueError(f"search_kwargs must not contain {name!r}: {instead}")
    return search_kwargs


def _check_reranker(reranker: Any) -> Any:  # noqa: ANN401 - anything may be given
    if isinstance(reranker, BaseCrossEncoder):
        raise ValueError(  # noqa: TRY004 - pydantic reports no TypeError
            f"reranker must be a document compressor; got the model {type(reranker).__name__}. "
            "Use langchain_rse.rerankers.CrossEncoderReranker(model=...)"
        )
    return reranker


_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Share = Annotated[_Number, Field(ge=0, le=1)]
_Positive = Annotated[_Number, Field(gt=0)]
_NotNegative = Annotated[_Number, Field(ge=0)]
_Count = Annotated[int, Field(strict=True, ge=1)]
_CountOrZero = Annotated[int, Field(strict=True, ge=0)]
_Calibration = Annotated[Any, AfterValidator(_check_calibration)]
_LengthWeighting = Literal["none", "published"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Greedy(_Frozen):
    """The solver of dsRAG: takes the most valuable segment again and again.

    Segments begin and end on chunks that are worth the penalty. With several queries, they take
    turns. For the exact solver, which replaces it, see `langchain_rse.engine.solve_exact`.
    """

    name: Literal["greedy"] = "greedy"
    """What the solver is called in files and traces."""
    max_length: _Count = 15
    """The most chunks that a segment may have."""
    overall_max_length: _Count = 30
    """The most chunks that all segments of a query may have together."""
    overall_max_length_extension: _CountOrZero = 0
    """Chunks to add to ``overall_max_length`` for each query beyond the first."""
    minimum_value: _Number = 0.5
    """The least value that a segment must have."""
    length_weighting: _LengthWeighting = "published"
    """``"published"``: candidates longer than ``reference_length`` weigh their length over it, as
    in dsRAG; ``"none"``: all weigh alike."""
    reference_length: _Positive = 700.0
    """The length, in characters, up to which a candidate weighs 1."""


class BestSegment(_Frozen):
    """The solver that takes the one best segment of each document (maximum subarray, Kadane)."""

    name: Literal["best_segment"] = "best_segment"
    """What the solver is called in files and traces."""
    max_length: _Count = 15
    """The most chunks that a segment may have."""
    minimum_value: _Number = 0.0
    """The least value that a segment must have."""
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


class RSEConfig(_Frozen):
    """How candidates become segments: what experts turn. The defaults are the preset ``balanced``.

    Raises:
        ValueError: If a field is out of its range. The message names the field, the value and
            what is allowed.
    """

    solver: Annotated[Literal["exact"] | Greedy | BestSegment, BeforeValidator(_solver_of)] = (
        "exact"
    )
    """``"exact"`` chooses the segments that have the highest total value within the budget. The
    published solvers are `Greedy` (dsRAG) and `BestSegment`, for comparison."""
    irrelevant_chunk_penalty: _Share = 0.35
    """The relevance, from 0 to 1, that text must have to be included. Lower values return more
    text; 0 fills the budget as long as anything is relevant. If the best candidate that fits has at
    least this relevance, at least one segment is returned."""
    calibration: _Calibration = "auto"
    """How scores become relevances in [0, 1]: ``"auto"`` (a reranker known by name gets its own
    calibration, other scores ``"minmax"``), or another one of `langchain_rse.engine.calibrate`."""
    rank_fusion: Literal["decay", "mean"] = "decay"
    """``"decay"``: relevance falls exponentially with the rank; ``"mean"``: relevance and relative
    rank are averaged."""
    decay_rate: _Positive = 15.0
    """The rank at which 1/e of the relevance is left, with ``rank_fusion="decay"``."""
    vector_weight: _Share = 0.55
    """The relevance, from 0 to 1, of the candidate that the search scores best, before the words of
    the query count. If the query names documents (`name_weight`), the mean of this and 1, since
    other documents then use the same words. It does not change the scores of a reranker."""
    lexical_weight: _Share = 0.7
    """The relevance, from 0 to 1, of the candidate that matches the words of the query best (BM25
    among the candidates; half as much if the full-text index was searched, see ``hybrid``). It is
    fused with the relevance r from scores as ``1 - (1 - r)(1 - words)``; with a reranker, in the
    search's share of the relevance. Function words, such as "how" and "the", do not count."""
    name_weight: _NotNegative = 0.2
    """How much a query that names documents, by their ``title`` or the file name in ``source``,
    prefers them: the relevance of other documents is multiplied by ``exp(-name_weight * gap)``; see
    `langchain_rse.text.names`. A reranker gets the query without these words. 0 ignores names."""
    document_weight: _NotNegative = 0.5
    """How much the rest of its document counts for a chunk: relevance is multiplied by
    ``(mean / highest) ** document_weight``, where ``mean`` is the mean relevance of the document's
    five best chunks, and ``highest`` the highest mean of any document. 0 rates each chunk by
    itself."""
    rerank_weight: _Share = 0.6
    """The reranker's share of the relevance, from 0 to 1. The rest is the candidate's relevance
    from the search, times the reranker's relevance of its best candidate. With 1, only the reranker
    counts."""
    neighbor_weight: _Share = 0.5
    """The share of a chunk's relevance that counts for the chunks beside it; the square of the
    share for the next ones, and so on; see `langchain_rse.engine.neighbor_credit`. A document of
    one chunk is credited as if chunks like it stood beside it."""
    neighbor_radius: _CountOrZero = 2
    """The number of chunks on each side of a relevant one that get credit from it."""
    segment_cost: _NotNegative = 0.15
    """What a segment costs in addition to its text, in chunks of average length: larger makes fewer
    and longer segments. Used by the exact solver only."""
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
            f"got {config!r:.200}"
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
    vector_weight=1.0,
    lexical_weight=0.0,
    name_weight=0.0,
    document_weight=0.0,
    rerank_weight=1.0,
    neighbor_weight=0.0,
    neighbor_radius=0,
    segment_cost=0.0,
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
        "dsrag-precision": _PUBLISHED.replace(
            solver=Greedy(overall_max_length_extension=5, minimum_value=0.7),
            irrelevant_chunk_penalty=0.2,
        ),
        "dsrag-find_all": _PUBLISHED.replace(
            solver=Greedy(max_length=40, overall_max_length=200, minimum_value=0.4),
            decay_rate=200.0,
            top_k_for_document_selection=200,
        ),
        # The published walk-through: one document, all chunks weigh the same.
        "walkthrough": _PUBLISHED.replace(
            solver=Greedy(
                max_length=20,
                overall_max_length_extension=5,
                minimum_value=0.7,
                length_weighting="none",
            ),
            irrelevant_chunk_penalty=0.2,
            top_k_for_document_selection=1,
        ),
        # The one best segment of each document, by the maximum subarray.
        "kadane": _PUBLISHED.replace(
            solver=BestSegment(length_weighting="none"),
            irrelevant_chunk_penalty=0.3,
            rank_fusion="mean",
            top_k_for_document_selection=None,
        ),
    }
)
"""The presets by name; ``balanced`` is the default."""

# What some arguments are called in a call, where ``config`` is LangChain's.
_CONFIG, _FILTER, _PENALTY = "rse_config", "filter", "irrelevant_chunk_penalty"


class QuerySettings(BaseModel):
    """The settings of a query: fields of the retriever that a call can set as well.

    A call has ``rse_config`` for ``config``, since its ``config`` is LangChain's; ``filter=x`` is
    short for ``search_kwargs={"filter": x}``.
    """

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", use_attribute_docstrings=True
    )

    k: _Count | None = None
    """Maximum number of segments. The most valuable are kept, and the one with the best candidate;
    value grows with length, so for short documents limit ``max_context_length`` instead."""
    max_context_length: _NotNegative | None = 16_000
    """The budget: the most text that all segments together may have, in the units of
    ``length_function``. None for no limit."""
    irrelevant_chunk_penalty: _Share | None = None
    """How relevant text must be to be included, from 0 to 1; None: as `RSEConfig` says, 0.35 by
    default. Lower values return more text."""
    reranker: Annotated[BaseDocumentCompressor | None, BeforeValidator(_check_reranker)] = None
    """Scores the ``fetch_k`` best candidates. What it drops is less relevant, and may fill a gap
    between relevant chunks. `RSEConfig.rerank_weight` weighs its scores against the search's."""
    search_kwargs: Annotated[dict[str, Any], AfterValidator(_check_search_kwargs)] = Field(
        default_factory=dict
    )
    """Passed to the vector store or the wrapped retriever, which has to take them, such as
    ``{"filter": ...}``. If a filter is a dict of fields and values, the results are checked."""
    fetch_k: _Count = 200
    """The number of candidates, which are chunks, to fetch."""
    length_function: LengthFunction = len
    """Measures ``max_context_length``; for tokens, a function that counts tokens."""
    include_header: Annotated[bool, Field(strict=True)] = False
    """True to put the document's header, if it has one, above each segment and an empty line; and
    above a segment that begins inside a table, the header row that the default splitter found.
    ``max_context_length`` counts both; ``start_index`` and ``end_index`` do not."""
    hybrid: Hybrid = "auto"
    """Weight of the docstore's full-text index, from 0 to 1: the relevance of the chunk that it
    ranks first. ``fetch_k`` more candidates come from it, and relevance r from vectors becomes
    ``1 - (1 - r)(1 - hybrid * full_text)``. ``"auto"``: `RSEConfig.lexical_weight`, if the docstore
    has an index (`SQLDocStore`) that can apply ``search_kwargs``: a ``filter`` must be a dict of
    fields and values. Else only the words of the candidates count. 0: not searched."""
    score_floor: Literal["fitted"] | _Number | None = "fitted"
    """The score that the best candidate of a query must reach; if it does not, nothing is returned
    for the query, with a log line that has both numbers. ``"fitted"``: what
    `RSERetriever.fit_score_floor` found for this vector store, model and reranker; no floor before.
    A number: in the units of the scores, the reranker's if there is one; if these are distances,
    the greatest that is close enough. None: no floor."""
    queries: Annotated[Sequence[str], Field(min_length=1)] | None = None
    """Queries to search for in place of the question. They share one answer under one budget: a
    chunk is as relevant as it is for the query that it fits best, and the best chunk of each query
    is chosen first, if it is worth the penalty and fits. To search for the question too, include
    it. Blank and repeated queries are dropped."""
    query_generator: Runnable[Any, Any] | None = None
    """Makes ``queries`` from the question if none are given: a Runnable from a string to a list of
    strings, such as ``prompt | model | parser``. If it makes none, the question is searched for."""
    order: Literal["document", "relevance"] = "document"
    """``"document"``: segments of a document stand together in the order of its text, the
    documents by their best segment; ``"relevance"``: the best segment first."""
    on_missing: Literal["raise", "split"] = "raise"
    """What to do if the docstore lacks a chunk: raise an error, or split the segment there. With
    ``"split"``, candidates that name no document are excluded, with a warning that counts them."""
    duplicates: Literal["drop", "drop_near", "keep"] = "drop"
    """``"drop"``: text that stands word for word in several documents comes back once, whole, from
    the document with the better best candidate. A candidate is excluded if all of it, at least 150
    characters without white space, stands in candidates of a better document. It stays if the query
    names its document by words that do not name the other one. ``"drop_near"`` excludes a candidate
    if candidates of better documents have at least 80 % of its sequences of five words; not for
    texts that are nearly alike on purpose, such as contracts. ``"keep"`` keeps all of them."""
    candidates_only: bool | None = None
    """True for segments that contain candidates only; False to fill in the chunks between them.
    None: filled in, unless a filter is not a dict of fields and values, or a ``base_retriever`` is
    of a class of your own, which may filter: then candidates only, with a warning. A filter holds
    for whole segments in any case."""
    config: Annotated[RSEConfig, BeforeValidator(RSEConfig.of)] = PRESETS["balanced"]
    """How segments are chosen: an `RSEConfig` or the name of a preset."""

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, fields: Any) -> Any:  # noqa: ANN401 - anything may be given
        """Expand ``rse_config`` and ``filter``; explain names that are not known."""
        if not isinstance(fields, dict):
            return fields
        expanded = dict(fields)
        if _CONFIG in expanded:
            if "config" in expanded:
                raise ValueError("rse_config is another name of config: give one of them")
            expanded["config"] = expanded.pop(_CONFIG)
        if _FILTER in expanded:
            search_kwargs = expanded.get("search_kwargs", {})
            if not isinstance(search_kwargs, Mapping):
                raise ValueError(f"search_kwargs must be a dict; got {search_kwargs!r:.200}")
            expanded["search_kwargs"] = {**search_kwargs, _FILTER: expanded.pop(_FILTER)}
        unknown = [name for name in expanded if name not in cls.model_fields]
        if unknown:
            raise ValueError(_explain_unknown(unknown, cls.model_fields))
        return expanded

    @property
    def penalty(self) -> float:
        """The penalty that holds: that of the retriever or call, else that of the config."""
        if self.irrelevant_chunk_penalty is None:
            return self.config.irrelevant_chunk_penalty
        return self.irrelevant_chunk_penalty


_CALL_ARGUMENTS = frozenset(QuerySettings.model_fields) - {"config"} | {_CONFIG, _FILTER}


def _explain_unknown(unknown: Sequence[str], allowed: Iterable[str]) -> str:
    """Say which names are not known, and what to write instead."""
    names = list(allowed)
    lines = []
    for name in unknown:
        instead = _FOREIGN.get(name, "")
        if name in RSEConfig.model_fields:
            instead = f"give it in an RSEConfig: rse_config=RSEConfig({name}=...)"
        near = difflib.get_close_matches(name, names, n=2)
        near = near or [known for known in names if name in known.split("_")]
        if not instead and near:
            instead = f"did you mean {' or '.join(near)}?"
        lines.append(f"{name!r} ({instead})" if instead else repr(name))
    return f"unknown argument {', '.join(lines)}; known are {', '.join(sorted(names))}"


def settings_of_call(settings: QuerySettings, arguments: Mapping[str, Any]) -> QuerySettings:
    """Return a retriever's settings with the arguments of a call; TypeError for unknown ones.

    A call that gives ``rse_config`` replaces the retriever's whole config, and its penalty.
    """
    if not arguments:
        return settings
    unknown = [name for name in arguments if name not in _CALL_ARGUMENTS]
    if unknown:
        raise TypeError(_explain_unknown(unknown, _CALL_ARGUMENTS))
    values = {name: getattr(settings, name) for name in QuerySettings.model_fields}
    if _CONFIG in arguments:
        del values["config"], values[_PENALTY]
    return QuerySettings(**{**values, **arguments})


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
