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
from langchain_rse.explaining.text import relevance_parts
from langchain_rse.explaining.trace import RSETrace, TracedChunk, TracedDocument
from langchain_rse.explaining.words import query_words

# Characters that would end a script tag, or a line of JavaScript.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
# Fields of a chunk that the page shows as `relevance_parts`.
_SUMMARIZED = {
    *("by_vectors", "by_words", "by_full_text", "by_reranker"),
    *("matched_words", "name_factor"),
}
_WITH_SLIDER = ("irrelevant_chunk_penalty", "neighbor_credit", "segment_cost", "max_context_length")
# Settings by which the page's solver chooses segments.
_OF_SOLVER = (*_WITH_SLIDER, "neighbor_radius", "minimum_value", "k", "max_per_document")


def render_report(trace: RSETrace) -> str:
    """Make an HTML page of a trace: one file that loads nothing else."""
    style = _read("report.css")
    script = _read("solver.js") + _read("page.js")
    data = json.dumps(_page_data(trace), ensure_ascii=False, separators=(",", ":"))
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    text = environment.from_string(_read("report.html.jinja")).render(
        trace=trace,
        data=Markup(data.translate(_ESCAPES)),  # noqa: S704 - escaped
        inline={"style": Markup(style), "script": Markup(script)},  # noqa: S704 - our own
        digests={"style": _digest(style), "script": _digest(script)},
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
    doc_ids = [document.doc_id for document in trace.documents]
    returned = []
    characters = 0
    for segment in trace.segments:
        if segment.returned:
            document = doc_ids.index(segment.doc_id)
            returned.append([document, segment.chunk_start, segment.chunk_end, segment.value])
            characters += segment.end_index - segment.start_index
    return {
        "enabled": settings["solver"] == "exact",
        "settings": {name: settings[name] for name in _OF_SOLVER},
        "order": settings["order"],
        "rate": characters / trace.spent if trace.spent else 1,
        "unit": "characters" if unit == "len" else f"units of {unit}",
        "others": _other_settings(settings),
        "returned": returned,
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
        if name not in _SUMMARIZED and value not in {None, ""}:
            data[name] = value
    data["parts"] = relevance_parts(chunk)
    text = _text_in_segment(trace, document, chunk)
    data["found"] = chunk.is_candidate
    data["embedded"] = text is None
    if text is None:
        text = chunk.text or ""
    text = text.strip("\r\n")
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
