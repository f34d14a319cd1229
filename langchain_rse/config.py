"""Settings: RSEConfig, the presets, and the settings of a query, validated by pydantic."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from langchain_core.documents import BaseDocumentCompressor
from langchain_core.runnables import Runnable
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from langchain_rse._messages import Checked, did_you_mean, explain_unknown, shown
from langchain_rse.engine import Calibration

LengthFunction = Callable[[str], float]
"""Returns the length of a text: ``len`` counts characters."""


def _check_share(value: float) -> float:
    if not 0 <= value <= 1:
        raise PydanticCustomError("share", "Input should be from 0 to 1")
    return value


Share = Annotated[float, AfterValidator(_check_share)]

Hybrid = Share | Literal["auto"]
"""Weight of the full-text index; ``"auto"`` uses ``lexical_weight`` if there is an index."""


_OTHER_SEARCH = (
    "for a search other than by similarity, pass base_retriever=vectorstore.as_retriever("
    "search_type=..., search_kwargs={'k': 200})"
)
_COUNTS = "use k for the number of passages, fetch_k for the number of candidates"
# Arguments of LangChain's retrievers, with what to write here instead; also in `search_kwargs`.
_LANGCHAIN_NAMES = {
    "k": _COUNTS,
    "penalty": "use irrelevant_chunk_penalty",
    "search_type": _OTHER_SEARCH,
    "lambda_mult": _OTHER_SEARCH,
    "score_threshold": "use score_floor, the score that the best candidate must reach; "
    "fit_score_floor() finds one",
    "top_k": _COUNTS,
    "base_compressor": "pass it as reranker",
    "max_tokens": "use max_context_length, with a token counter as length_function",
    "chunk_size": "use text_splitter=default_text_splitter(500)",
    "persist_dir": "use persist_directory",
    "n_results": _COUNTS,
}


def _check_search_kwargs(search_kwargs: dict[str, Any]) -> dict[str, Any]:
    given = {}
    for name, value in search_kwargs.items():
        if name in _LANGCHAIN_NAMES:
            advice = _LANGCHAIN_NAMES[name]
            raise ValueError(f"search_kwargs must not contain {name!r}: {advice}")
        if value is not None and value != {}:  # an empty filter excludes nothing
            given[name] = value
    return given


class _Frozen(Checked):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class _PublishedSolver(_Frozen):
    max_length: int = Field(default=15, ge=1)
    """Maximum number of chunks in a passage, at least 1."""
    minimum_value: float = 0.0
    """Minimum value of a passage."""
    length_weighting: Literal["none", "published"] = "published"
    """How the length of a candidate counts. ``"published"``, as in dsRAG: a candidate longer than
    ``reference_length`` has the weight ``length / reference_length``, shorter ones have 1.
    ``"none"``: every candidate has the weight 1."""
    reference_length: float = Field(default=700.0, gt=0)
    """Length in characters up to which a candidate has the weight 1, above 0."""


class Greedy(_PublishedSolver):
    """The solver of dsRAG: repeatedly takes the most valuable passage.

    Passages begin and end with chunks whose relevance is at least the penalty. Several queries take
    turns. The default is the exact solver, `langchain_rse.engine.rank_chunks`.
    """

    name: Literal["greedy"] = "greedy"
    """Name of the solver in files and traces."""
    minimum_value: float = 0.5
    """Minimum value of a passage."""
    overall_max_length: int = Field(default=30, ge=1)
    """Maximum number of chunks in all passages of a query together, at least 1."""
    overall_max_length_extension: int = Field(default=0, ge=0)
    """Chunks added to ``overall_max_length`` for each query beyond the first, at least 0."""


class BestSegment(_PublishedSolver):
    """The solver that takes the best passage of each document (maximum subarray, Kadane)."""

    name: Literal["best_segment"] = "best_segment"
    """Name of the solver in files and traces."""


_Published = Annotated[Greedy | BestSegment, Field(discriminator="name")]


class RSEConfig(_Frozen):
    """Expert settings of scoring and selection. The defaults are the preset ``balanced``.

    Args:
        solver: Chooses the passages: ``"exact"``, or `Greedy` or `BestSegment` for comparison.
        irrelevant_chunk_penalty: Minimum relevance of returned text, from 0 to 1; lower values
            return more.
        calibration: Maps scores to relevances: ``"auto"``, or one of those that
            `langchain_rse.engine.calibrate` explains.
        rank_fusion: Combines relevance with rank: ``"decay"``, exponentially, or ``"mean"``.
        decay_rate: Rank at which relevance has fallen to 1/e; higher values return text of lower
            ranks.
        vector_weight: Relevance of the best vector match, from 0 to 1, before words count.
        lexical_weight: Weight of the best word match, from 0 to 1: of the full-text index, or
            among the candidates if it cannot be searched.
        name_weight: Preference for documents that the query names; 0 ignores names.
        document_weight: Influence of the whole document on its chunks; 0 rates each by itself.
        rerank_weight: The reranker's share of the relevance, from 0 to 1.
        neighbor_weight: Share of a chunk's relevance, from 0 to 1, credited to its neighbors.
        passage_cost: Cost of a passage, as a multiple of the threshold; higher values return fewer,
            longer passages.
        top_k_for_document_selection: Number of best candidates that select the documents. None:
            all.

    Raises:
        TypeError: If a value has a wrong type.
        ValueError: If a field is out of range. The message names the field, the value and the
            allowed values.
    """

    solver: Literal["exact"] | _Published = "exact"
    """Chooses the passages. ``"exact"`` maximizes the total value within the budget. The published
    solvers `Greedy` (dsRAG) and `BestSegment` are there for comparison."""
    irrelevant_chunk_penalty: Share = 0.35
    """Minimum relevance of returned text, from 0 to 1. Lower values return more text; 0 fills the
    budget as long as anything is relevant. If the best candidate that fits the budget reaches the
    penalty, at least one passage is returned."""
    calibration: Literal["auto", Calibration] = "auto"
    """Maps scores to relevances in [0, 1]. ``"auto"`` uses a fixed calibration for rerankers that
    it recognizes by class name, and ``"minmax"`` for all other scores.
    `langchain_rse.engine.calibrate` explains the others."""
    rank_fusion: Literal["decay", "mean"] = "decay"
    """Combines relevance with rank. ``"decay"``: relevance falls exponentially with the rank.
    ``"mean"``: the average of relevance and relative rank."""
    decay_rate: float = Field(default=15.0, gt=0)
    """Rank at which relevance has fallen to 1/e, above 0, for ``rank_fusion="decay"``. Ranks begin
    at 0; higher values return text of lower ranks."""
    vector_weight: Share = 0.55
    """Relevance of the candidate that the vector search scores best, from 0 to 1, before the words
    of the query count. If the query names a document (`name_weight`), vectors count more (0.78 by
    default), because then all candidates contain the query's words. Has no effect on the scores of
    a reranker."""
    lexical_weight: Share = 0.7
    """How much the best word match among the candidates counts, from 0 to 1; half of that if the
    full-text index was searched (``hybrid``). With a reranker, words count only in the search's
    share of the relevance. Function words such as "how" and "the" never count."""
    name_weight: float = Field(default=0.2, ge=0)
    """Preference, at least 0, for documents that the query names by their ``title`` or by the file
    name in ``source``. The relevance of other documents is multiplied by
    ``exp(-name_weight * gap)``: the fewer of these words their names contain, the greater the gap.
    A reranker gets the query without these words. 0 ignores names."""
    document_weight: float = Field(default=0.5, ge=0)
    """Influence of the whole document on each of its chunks, at least 0. Relevance is multiplied by
    ``(mean / highest) ** document_weight``: ``mean`` is the mean relevance of the document's five
    best chunks, ``highest`` the highest mean of any document. 0 rates each chunk by itself."""
    rerank_weight: Share = 0.6
    """The reranker's share of the relevance, from 0 to 1. The rest is the candidate's relevance
    from the search, multiplied by the reranker's highest relevance of any candidate. With 1, only
    the reranker counts."""
    neighbor_weight: Share = 0.5
    """Share of a chunk's relevance, from 0 to 1, that is credited to the chunks next to it, and the
    square of it to the chunks beyond, see `langchain_rse.engine.neighbor_credit`. A one-chunk
    document is scored as if it had equal neighbors, so that it can compete with long ones."""
    passage_cost: float = Field(default=0.15, ge=0)
    """Cost of a passage, at least 0, as a multiple of ``irrelevant_chunk_penalty``; less in a
    document shorter than an average chunk. Higher values return fewer, longer passages. Only the
    exact solver uses it."""
    top_k_for_document_selection: int | None = Field(default=20, ge=1)
    """Number of best candidates, at least 1, that select the documents: only documents with one of
    them are considered. None considers the documents of all candidates."""

    _advice: ClassVar[Mapping[str, str]] = {
        "()": "RSEConfig(decay_rate=...); for a preset: PRESETS['precision']"
    }

    @classmethod
    def of(cls, config: Any) -> RSEConfig:  # noqa: ANN401 - checked here
        """Return the config, or the preset with that name.

        Raises:
            TypeError: If ``config`` is neither a config nor a string.
            ValueError: If no preset has this name.
        """
        if isinstance(config, cls):
            return config
        if isinstance(config, str) and config in PRESETS:
            return PRESETS[config]
        error_class = ValueError if isinstance(config, str) else TypeError
        raise error_class(
            "config (in a call: rse_config) must be an RSEConfig, such as "
            f"RSEConfig(decay_rate=20), or one of {', '.join(PRESETS)}; got {shown(config)}"
            f"{did_you_mean(str(config), PRESETS)}"
        )

    def to_file(self, path: str | os.PathLike[str], *, hybrid: Hybrid = "auto") -> None:
        """Write the config as JSON, for `read_settings` and ``--config`` of the command line.

        The file can also hold ``hybrid``, a field of the retriever.
        """
        fields = self.model_dump()
        if hybrid != "auto":
            fields["hybrid"] = hybrid
        Path(path).write_text(f"{json.dumps(fields, indent=2)}\n", encoding="utf-8")

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401 - any field
        """Return a copy with some fields changed, validated like a new config."""
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
    passage_cost=0.0,
    top_k_for_document_selection=10,
)


class _Presets(dict[str, RSEConfig]):
    def __missing__(self, name: str) -> RSEConfig:
        raise KeyError(
            f"there is no preset {name!r}: use {', '.join(self)}{did_you_mean(name, self)}"
        )

    def __setitem__(self, name: str, config: RSEConfig) -> None:
        raise TypeError("presets cannot be changed: pass an RSEConfig")

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {config}" for name, config in self.items())


PRESETS: Mapping[str, RSEConfig] = _Presets(
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
        # The published walk-through: one document, all chunks have the same weight.
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
        # The one best passage of each document, by the maximum subarray.
        "kadane": _PUBLISHED.replace(
            solver=BestSegment(length_weighting="none"),
            irrelevant_chunk_penalty=0.3,
            rank_fusion="mean",
            top_k_for_document_selection=None,
        ),
    }
)
"""The presets by name; ``balanced`` is the default."""

ADVICE = {
    name: f"pass RSEConfig({name}=...) as config, or as rse_config in a call"
    for name in RSEConfig.model_fields
} | _LANGCHAIN_NAMES


class QuerySettings(Checked):
    """The settings of a query: fields of the retriever that each call can override.

    In a call, ``config`` is LangChain's, so pass ``rse_config`` instead. ``filter=x`` is short for
    ``search_kwargs={"filter": x}``.

    Args:
        k: Maximum number of passages. Default: no limit.
        max_context_length: Maximum length of all passages together. Default: 16,000 characters.
        irrelevant_chunk_penalty: Minimum relevance of returned text, from 0 to 1; lower values
            return more. Default: the preset's, 0.35 for ``balanced``.
        reranker: Scores the best candidates again. Default: none.
        search_kwargs: Extra arguments of the vector store's search. Default: none.
        fetch_k: Number of candidate chunks to fetch. Default: 200.
        length_function: Measures text for ``max_context_length``. Default: ``len``, characters.
        include_header: True to put headers above passages. Default: False.
        hybrid: Weight of full-text search, from 0 to 1. Default: ``"auto"``, 0.7 with an index.
        score_floor: Score that the best candidate must reach. Default: ``"fitted"``, the floor that
            `RSERetriever.fit_score_floor` has stored, if any.
        queries: Queries to search for in place of the question. Default: the question.
        query_generator: Generates ``queries`` from the question. Default: none.
        order: ``"document"``, the default, for reading order; ``"relevance"`` for the best first.
        duplicates: ``"drop"``, the default, returns text of several documents once; ``"keep"``.
        candidates_only: True to return only chunks that the search found. Default: False, except
            where chunks between them might not pass a filter.
        config: An `RSEConfig` or the name of a preset. Default: ``"balanced"``.
    """

    k: int | None = Field(default=None, ge=1)
    """Maximum number of passages. The passage with the best candidate and the most valuable others
    are kept. ``k`` favors long passages, because value grows with length; with short documents,
    limit ``max_context_length`` instead. None for no limit."""
    max_context_length: float | None = Field(default=16_000, ge=1, allow_inf_nan=False)
    """Budget: maximum total length of the returned passages, in units of ``length_function``. None
    for no limit."""
    irrelevant_chunk_penalty: Share | None = None
    """Minimum relevance of returned text, from 0 to 1. Lower values return more text. None uses the
    value of ``config``: 0.35 by default."""
    reranker: BaseDocumentCompressor | None = None
    """Scores the ``fetch_k`` best candidates again. Candidates that it drops get relevance 0, but
    may still fill gaps between relevant chunks. `RSEConfig.rerank_weight` weighs its scores against
    the search."""
    search_kwargs: Annotated[dict[str, Any], AfterValidator(_check_search_kwargs)] = {}  # noqa: RUF012
    """Extra arguments of the vector store's search, such as ``{"filter": ...}``; a wrapped
    retriever takes none. If a filter is a dict of fields and values, the results are checked
    against it."""
    fetch_k: int = Field(default=200, ge=1)
    """Number of candidate chunks to fetch."""
    length_function: LengthFunction = len
    """Measures text for ``max_context_length``. The default counts characters; pass a token counter
    to limit tokens."""
    include_header: bool = False
    """True to put the document's header and an empty line above each passage. A passage that begins
    inside a table also gets the header row that the default splitter found.
    ``max_context_length`` counts both; ``start_index`` and ``end_index`` do not."""
    hybrid: Hybrid = "auto"
    """Weight of full-text search, from 0 to 1: the relevance of the chunk that the docstore's
    full-text index ranks first. The index adds up to ``fetch_k`` candidates. ``"auto"`` uses
    `RSEConfig.lexical_weight` if the docstore has an index (`SQLDocStore`) that can apply
    ``search_kwargs``: a ``filter`` must be a dict of fields and values. Otherwise only the words of
    the candidates count. 0 disables the index."""
    score_floor: Annotated[float, Field(allow_inf_nan=False)] | Literal["fitted"] | None = "fitted"
    """Score that the best candidate of a query must reach. If it does not, the query returns
    nothing, and a log line gives both numbers. ``"fitted"`` uses the floor that
    `RSERetriever.fit_score_floor` found for this vector store, model and reranker; before that,
    there is no floor. A number is in the units of the scores, or of the reranker's scores if there
    is a reranker; for distances, it is the greatest distance allowed. None disables the floor."""
    queries: Sequence[str] | None = Field(default=None, min_length=1)
    """Queries to search for in place of the question, sharing one answer and one budget. The
    relevance of a chunk is its highest relevance for any query. The best chunk of each query is
    chosen first, if it reaches the penalty and fits the budget. To search for the question too,
    include it. Blank and repeated queries are dropped."""
    query_generator: Runnable[Any, Any] | None = None
    """Generates ``queries`` from the question if none are given: a Runnable from a string to a list
    of strings, such as ``prompt | model | parser``. If it generates none, the question itself is
    the query."""
    order: Literal["document", "relevance"] = "document"
    """Order of the passages. ``"document"``: passages of one document come in reading order, the
    document with the best passage first. ``"relevance"`` puts the best passage first."""
    duplicates: Literal["drop", "keep"] = "drop"
    """What to do with text that occurs in several documents. ``"drop"`` returns it only once, from
    the document whose top candidate ranks higher: a candidate is excluded if its whole text (at
    least 150 characters, not counting white space) occurs word for word in candidates of that
    document. Both stay if the query names the lower-ranked document. ``"keep"`` keeps all."""
    candidates_only: bool | None = None
    """True to return only chunks that the search found, False to fill the gaps between them with
    other chunks. None fills gaps, except if chunks in a gap might not pass a filter: with a filter
    that is not a dict of fields and values, or a ``base_retriever`` of an unknown class, it acts
    like True and warns. A filter always holds for whole passages."""
    config: Annotated[RSEConfig, BeforeValidator(RSEConfig.of)] = PRESETS["balanced"]
    """Expert settings of scoring and selection: an `RSEConfig` or the name of a preset."""

    _advice: ClassVar[Mapping[str, str]] = ADVICE

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Expand ``rse_config`` and ``filter``."""
        expanded = dict(fields)
        if "rse_config" in expanded:
            if "config" in expanded:
                raise ValueError("pass only one of config and rse_config: both set the same field")
            expanded["config"] = expanded.pop("rse_config")
        if "filter" in expanded:
            condition = expanded.pop("filter")
            search_kwargs = expanded.get("search_kwargs", {})
            if isinstance(search_kwargs, Mapping):  # anything else is refused by its type
                expanded["search_kwargs"] = {**search_kwargs, "filter": condition}
        return expanded

    @property
    def penalty(self) -> float:
        """The penalty of the retriever or call if it is set, else of the config."""
        if self.irrelevant_chunk_penalty is None:
            return self.config.irrelevant_chunk_penalty
        return self.irrelevant_chunk_penalty


def settings_of_call(
    settings: QuerySettings, arguments: Mapping[str, Any], others: Iterable[str] = ()
) -> QuerySettings:
    """Return a retriever's settings with the arguments of a call applied.

    ``rse_config`` replaces the retriever's whole config, and its penalty. An error names ``others``
    too, which the caller reads itself.

    Raises:
        ValueError: If an argument is unknown or out of range.
    """
    values = {name: getattr(settings, name) for name in QuerySettings.model_fields}
    allowed = [*(name for name in values if name != "config"), "rse_config", "filter", *others]
    for name in arguments:
        if name not in allowed and name != "config":
            fixed = dict.fromkeys(type(settings).model_fields, "a call cannot change it")
            raise ValueError(explain_unknown(name, allowed, {**fixed, **ADVICE}))
    if "rse_config" in arguments:
        del values["config"], values["irrelevant_chunk_penalty"]
    return QuerySettings(**{**values, **arguments})


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read ``config`` and ``hybrid``, fields of a retriever, from a file of `RSEConfig.to_file`.

    Raises:
        ValueError: If the file does not contain a config. The message names the file.
    """
    content = Path(path).read_bytes()
    try:
        saved = json.loads(content)
        hybrid = saved.pop("hybrid", "auto")
        settings = QuerySettings(config=RSEConfig(**saved), hybrid=hybrid)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)} is not a JSON object of settings: {error}") from error
    return {"config": settings.config, "hybrid": settings.hybrid}
