"""The report: a trace as an HTML page in which settings can be tried. Needs jinja2."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.explaining.text import name_of_function, relevance_parts, words_in
from langchain_rse.explaining.traces import RSETrace
from langchain_rse.explaining.values import NOT_SHOWN, settings_as_values
from langchain_rse.query.candidates import Reason
from langchain_rse.query.reading import DocumentSegment
from langchain_rse.query.scoring import Chunk
from langchain_rse.query.trace import with_exclusion
from langchain_rse.text.code import looks_like_code
from langchain_rse.text.highlighting import query_words

# Characters that would end a script tag, or a line of JavaScript.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
# Settings that the page has in its controls, or in its lines of settings to copy.
_WITH_SLIDER = ("irrelevant_chunk_penalty", "neighbor_weight", "segment_cost", "max_context_length")
# Settings by which the page's solver chooses segments, or that its reasons name.
_OF_SOLVER = (*_WITH_SLIDER, "neighbor_radius", "k")
# Outcomes that the exact solver's settings decide: the page finds them itself.
_OF_PAGE = (
    *(Reason.RETURNED, Reason.FILLED, Reason.NO_CANDIDATE, Reason.BEYOND_K, Reason.NO_ROOM),
    *(Reason.TOO_LONG, Reason.SEGMENT_COST, Reason.BELOW_THE_PENALTY),
)
_SCRIPTS = (
    *("solver.js", "data.js", "reasons.js", "strips.js", "passages.js", "chunk.js"),
    *("controls.js", "page.js"),
)
# Tells the style sheet that scripts run: only then are controls shown.
_START = 'document.documentElement.className = "scripted";'


def render_report(trace: RSETrace) -> str:
    """Make an HTML page of a trace: one file that loads nothing else."""
    style = _read("report.css")
    script = "".join(_read(name) for name in _SCRIPTS)
    page_data = _page_data(trace)
    data = json.dumps(page_data, ensure_ascii=False, separators=(",", ":"))
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    text = environment.from_string(_read("report.html.jinja")).render(
        trace=trace,
        answered=trace.answered,
        settings=settings_as_values(trace.settings),
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
    values = settings_as_values(settings)
    unit = name_of_function(settings.length_function)
    places = {document.doc_id: place for place, document in enumerate(trace.documents)}
    returned = {id(segment) for segment in trace.returned}
    unreturned = [segment for segment in trace.segments if id(segment) not in returned]
    characters = sum(len(segment.text) for segment in trace.returned)
    is_considered = any(document.reason is None for document in trace.documents)
    is_enabled = settings.config.solver == "exact" and is_considered
    highlighted = query_words([trace.query, *trace.queries])
    documents = []
    for document in trace.documents:
        chunks = [_chunk_data(trace, chunk, highlighted) for chunk in document.chunks]
        fields = {
            "name": document.name,
            "reason": document.reason,
            "length": document.length,
            "chunk_count": document.chunk_count,
            "chunks": chunks,
        }
        documents.append(fields)
    return {
        "enabled": is_enabled,
        "settings": {name: values[name] for name in _OF_SOLVER},
        "order": settings.order,
        "rate": characters / trace.spent if trace.spent else 1,
        "unit": "characters" if unit == "len" else f"units of {unit}",
        "arguments": _arguments(settings, has_sliders=is_enabled),
        "config": _arguments(settings.config, has_sliders=is_enabled),
        "reasons": {reason.label: reason.value for reason in _OF_PAGE},
        "returned": [_segment_data(segment, places) for segment in trace.returned],
        "unreturned": [_segment_data(segment, places) for segment in unreturned],
        "documents": documents,
    }


def _segment_data(segment: DocumentSegment, places: Mapping[str, int]) -> list[float]:
    place = places[segment.layout.manifest.doc_id]
    return [place, segment.start, segment.end, segment.value]


def _arguments(settings: QuerySettings | RSEConfig, *, has_sliders: bool) -> list[str]:
    """The settings without a slider that are not the defaults, as arguments in Python."""
    model = QuerySettings if isinstance(settings, QuerySettings) else RSEConfig
    arguments = []
    for name, field in model.model_fields.items():
        value = getattr(settings, name)
        has_slider = has_sliders and name in _WITH_SLIDER
        if has_slider or name in NOT_SHOWN or value == field.default:
            continue
        # The name of a function stands for the function.
        written = name_of_function(value) if callable(value) else repr(value)
        arguments.append(f"{name}={written}")
    return arguments


def _chunk_data(
    trace: RSETrace, chunk: Chunk, highlighted: re.Pattern[str] | None
) -> dict[str, Any]:
    """What the page shows of a chunk; fields that are empty are left out."""
    candidate = chunk.candidate
    start, end = chunk.span or (0, 0)
    data: dict[str, Any] = {
        "index": chunk.index,
        "start_index": start if chunk.span else None,
        "length": end - start if chunk.span else None,
        "relevance": chunk.relevance,  # exact, as the solver computes with it
        "credited": _rounded(chunk.credited),
        "value": _rounded(chunk.value),
        "outcome": chunk.outcome.label,
        "seen": 1 if chunk.weight else None,  # by the solver
        "parts": relevance_parts(chunk),
    }
    if candidate is not None:
        hit = candidate.hit
        data["found"] = 1
        data["rank"] = None if hit is None else hit.rank
        data["hits"] = [
            [name, each.rank, None if each.score is None else _rounded(each.score)]
            for name, each in candidate.hits.items()
        ]
        data["query"] = candidate.query if len(trace.queries) > 1 else None
        data["words"] = words_in(trace, chunk) or None
        is_exact = trace.settings.config.solver == "exact"
        if chunk.outcome not in {Reason.RETURNED, Reason.FILLED} and not (
            is_exact and chunk.outcome in _OF_PAGE
        ):
            data["why"] = trace.why(chunk)
        data |= _exclusion_data(trace, chunk)
    text = _text_in_segment(trace, chunk)
    if text is None:
        data["embedded"] = 1
        text = "" if candidate is None else candidate.document.page_content
    text = text.strip("\r\n")
    if looks_like_code(text):
        data["code"] = 1
    if not text:
        data["text"] = []
    elif highlighted is None:
        data["text"] = [text]
    else:
        data["text"] = highlighted.split(text)  # every second part is a word of the query
    return {name: value for name, value in data.items() if value is not None}


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")


def _exclusion_data(trace: RSETrace, chunk: Chunk) -> dict[str, Any]:
    """Why a candidate does not count: the solver sees it, if at all, as one that was not found."""
    key = None if chunk.candidate is None else chunk.candidate.chunk_key
    exclusion = None if key is None else trace.exclusions.get(key)
    if exclusion is None:
        return {}
    is_uncredited = trace.looked_up is not None and key in trace.looked_up.exclusions
    return {
        "excluded": exclusion.reason.label,
        "uncredited": 1 if is_uncredited else None,  # it gets no credit from its neighbors
        "why": trace.why(with_exclusion(chunk, exclusion)),
    }


def _text_in_segment(trace: RSETrace, chunk: Chunk) -> str | None:
    """The text of a chunk as the source has it, if it is in a segment."""
    if chunk.layout is None or chunk.span is None:
        return None
    for segment in trace.segments:
        is_same_document = segment.layout.manifest.key == chunk.layout.manifest.key
        if is_same_document and segment.start <= chunk.index < segment.end:
            # The ends of a segment can be trimmed.
            segment_start, _ = segment.span
            start, end = chunk.span
            return segment.text[max(start - segment_start, 0) : end - segment_start]
    return None
