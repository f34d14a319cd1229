"""The report: a trace as an HTML page in which settings can be tried. Needs jinja2."""

import base64
import hashlib
import json
import re
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.explaining.code import looks_like_code
from langchain_rse.explaining.highlighting import query_words
from langchain_rse.explaining.text import relevance_parts
from langchain_rse.explaining.trace import RSETrace, TracedChunk, TracedDocument, TracedSegment

# Characters that would end a script tag, or a line of JavaScript.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_WITH_SLIDER = ("irrelevant_chunk_penalty", "neighbor_credit", "segment_cost", "max_context_length")
# Settings by which the page's solver chooses segments, or that its reasons name.
_OF_SOLVER = (
    *_WITH_SLIDER,
    *("neighbor_radius", "minimum_value", "min_relevance", "k", "max_per_document"),
)
# Outcomes that the exact solver's settings decide: the page finds their reasons itself.
_OF_PAGE = {
    *("returned", "filled", "no candidate", "below the penalty", "segment cost", "no room"),
    *("minimum value", "beyond k", "beyond max_per_document"),
}
_SCRIPTS = (
    *("solver.js", "data.js", "reasons.js", "strips.js", "passages.js", "chunk.js"),
    *("controls.js", "page.js"),
)
# Tells the style sheet that scripts run: only then are controls shown.
_START = 'document.documentElement.className = "scripted";'
# Of a chunk, what the page does without, computes, or has as `relevance_parts`.
_NOT_ON_PAGE = {
    *("end_index", "weight", "duplicate_of", "by_vectors", "by_words", "by_full_text"),
    *("by_reranker", "matched_words", "name_factor"),
}
# Of a chunk, numbers that are shown only. The solver computes with relevance, which stays exact.
_ROUNDED = {"score", "search_score", "lexical_score", "credited", "value"}


def render_report(trace: RSETrace) -> str:
    """Make an HTML page of a trace: one file that loads nothing else."""
    style = _read("report.css")
    script = "".join(_read(name) for name in _SCRIPTS)
    page_data = _page_data(trace)
    data = json.dumps(page_data, ensure_ascii=False, separators=(",", ":"))
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    text = environment.from_string(_read("report.html.jinja")).render(
        trace=trace,
        enabled=page_data["enabled"],
        looks_like_code=looks_like_code,
        data=Markup(data.translate(_ESCAPES)),  # noqa: S704 - escaped
        inline={  # our own
            "style": Markup(style),  # noqa: S704
            "start": Markup(_START),  # noqa: S704
            "script": Markup(script),  # noqa: S704
        },
        digests={
            "style": _digest(style),
            "start": _digest(_START),
            "script": _digest(script),
        },
    )
    # Lone surrogates cannot be written to a file.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _read(name: str) -> str:
    return (files(__package__) / "report" / name).read_text(encoding="utf-8")


def _digest(code: str) -> str:
    """The digest by which the page's policy allows inline code."""
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def _page_data(trace: RSETrace) -> dict[str, Any]:
    """The data for the page's script."""
    settings = trace.settings
    unit = settings["length_function"]
    words = query_words([trace.query, *trace.queries])
    places = {document.doc_id: place for place, document in enumerate(trace.documents)}

    def placed(segment: TracedSegment) -> list[float]:
        place = places[segment.doc_id]
        return [place, segment.chunk_start, segment.chunk_end, segment.value]

    returned = [segment for _, segment in trace.answer]
    characters = sum(segment.end_index - segment.start_index for segment in returned)
    some_considered = any(document.reason is None for document in trace.documents)
    return {
        "enabled": settings["solver"] == "exact" and some_considered,
        "settings": {name: settings[name] for name in _OF_SOLVER},
        "order": settings["order"],
        "rate": characters / trace.spent if trace.spent else 1,
        "unit": "characters" if unit == "len" else f"units of {unit}",
        "others": _other_settings(settings),
        "returned": [placed(segment) for segment in returned],
        "unreturned": [placed(segment) for segment in trace.segments if not segment.returned],
        "documents": [_document_data(trace, document, words) for document in trace.documents],
    }


def _other_settings(settings: dict[str, Any]) -> list[str]:
    """The settings without a slider that are not the defaults, as arguments in Python."""
    defaults = {
        **_defaults_of(QuerySettings),
        **_defaults_of(RSEConfig),
        "calibration": "minmax",
        "length_function": "len",
    }
    arguments = []
    for name, value in settings.items():
        has_slider = settings["solver"] == "exact" and name in _WITH_SLIDER
        if has_slider or value == defaults.get(name, value):
            continue
        # The name of a function stands for the function.
        written = value if name == "length_function" else repr(value)
        arguments.append(f"{name}={written},")
    return arguments


def _defaults_of(model: type[QuerySettings] | type[RSEConfig]) -> dict[str, Any]:
    return {name: field.default for name, field in model.model_fields.items()}


def _document_data(
    trace: RSETrace, document: TracedDocument, words: re.Pattern[str] | None
) -> dict[str, Any]:
    return {
        "name": document.name,
        "reason": document.reason,
        "length": document.length,
        "chunk_count": document.chunk_count,
        "chunks": [_chunk_data(trace, document, chunk, words) for chunk in document.chunks],
    }


def _chunk_data(
    trace: RSETrace, document: TracedDocument, chunk: TracedChunk, words: re.Pattern[str] | None
) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, value in vars(chunk).items():
        if name in _NOT_ON_PAGE or value in {None, ""}:
            continue
        data[name] = float(f"{value:.6g}") if name in _ROUNDED else value
    if chunk.weight:
        data["seen"] = 1  # by the solver
    if chunk.is_candidate:
        data["found"] = 1
        is_published = trace.settings["solver"] != "exact" and chunk.outcome != "returned"
        if is_published or chunk.outcome not in _OF_PAGE:
            data["why"] = trace.why(document, chunk)
    data["parts"] = relevance_parts(chunk)
    text = _text_in_segment(trace, document, chunk)
    if text is None:
        data["embedded"] = 1
        text = chunk.text or ""
    text = text.strip("\r\n")
    if looks_like_code(text):
        data["code"] = 1
    if not text:
        data["text"] = []
    elif words is None:
        data["text"] = [text]
    else:
        data["text"] = words.split(text)  # every second part is a word of the query
    return data


def _text_in_segment(trace: RSETrace, document: TracedDocument, chunk: TracedChunk) -> str | None:
    """The text of a chunk as the source has it, if it is in a chosen segment."""
    if chunk.start_index is None or not chunk.length:
        return None
    for segment in trace.segments:
        is_in_chunks = segment.chunk_start <= chunk.index < segment.chunk_end
        if segment.doc_id == document.doc_id and is_in_chunks:
            # The ends of a segment can be trimmed.
            start = chunk.start_index - segment.start_index
            end = start + chunk.length
            return segment.text[max(start, 0) : max(end, 0)]
    return None
