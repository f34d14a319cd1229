"""QuerySettings: what can be set on the retriever and given anew with each call."""

from __future__ import annotations

import numbers
import sys
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from langchain_rse.config import PRESETS, RSEConfig
from langchain_rse.fitting import LengthFunction

__all__ = ["QuerySettings"]


def _without_k(search_kwargs: dict[str, Any]) -> dict[str, Any]:
    if "k" in search_kwargs:
        raise ValueError(
            "search_kwargs must not contain 'k': fetch_k is the number of candidates, k the "
            "number of segments"
        )
    return search_kwargs


def _length(length: Any) -> Any:  # noqa: ANN401
    is_number = isinstance(length, numbers.Real) and not isinstance(length, bool)
    if not (is_number and 0 <= length <= sys.float_info.max):
        raise ValueError(f"must be a finite number of at least 0, or None; got {length!r}")
    return length


class QuerySettings(BaseModel):
    """What can be set on the retriever and given anew with each call."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    config: Annotated[RSEConfig, BeforeValidator(RSEConfig.of)] = PRESETS["balanced"]
    """How segments are chosen: an `RSEConfig` or the name of a preset."""
    k: Annotated[int, Field(ge=1, strict=True)] | None = None
    """Return at most this many segments, the best; None for no limit."""
    max_context_length: Annotated[int | float, BeforeValidator(_length)] | None = 16_000
    """The most text that all segments together may have, in the units of ``length_function``;
    what ``irrelevant_chunk_penalty`` says is not worth its room is left out all the same.
    None for no limit."""
    length_function: LengthFunction = len
    """Measures ``max_context_length``; for tokens, a function that counts those."""
    allow_trim: bool = False
    """Whether to fill the room that is left with a part of the next chunk, cut at the end of a
    sentence or line."""
    include_header: Annotated[bool, Field(strict=True)] = False
    """Whether to put the document's header above each segment, with an empty line between, where
    it was indexed with one. ``max_context_length`` counts it; ``start_index`` and ``end_index``
    are those of the slice below it."""
    fetch_k: Annotated[int, Field(ge=1, strict=True)] = 200
    """Candidates, that is chunks, to fetch."""
    hybrid: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.0
    """How much, from 0 to 1, search by words counts: ``fetch_k`` more candidates come from the
    docstore's full-text index, ``SQLDocStore(..., lexical=True)``, and the relevance of a chunk
    is ``(1 - hybrid) * r + hybrid * words``, with r what it is without. A reranker sees the
    candidates of both sides, and its scores replace both. ``filter`` holds for both sides and has
    to be a dict of fields and the values they equal; a docstore that several vector stores
    share cannot tell their documents apart. 0 for none."""
    search_kwargs: Annotated[dict[str, Any], AfterValidator(_without_k)] = Field(
        default_factory=dict
    )
    """Passed to the vector store or the wrapped retriever, such as ``{"filter": ...}``."""
    candidates_only: bool = False
    """Whether segments may hold nothing but candidates. They do in any case where ``search_kwargs``
    might exclude other chunks of the document, so that a filter holds for whole segments: any
    argument may be one that `langchain_rse.search_arguments` does not know to be none. Set it where
    ``base_retriever`` filters by itself."""
    order: Literal["document", "relevance"] = "document"
    """``"document"``: segments of a document stand together in the order of its text, the
    documents by their best segment; ``"relevance"``: the best segment first."""
    on_missing: Literal["raise", "split"] = "raise"
    """What to do when the docstore lacks a chunk: raise an error, or split the segment
    there and return what is left."""
