"""The report: a trace as an HTML page in which settings can be tried. Needs jinja2."""

import base64
import hashlib
import json
import re
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from langchain_rse.config import FOR_SIMILARITIES, QuerySettings, RSEConfig
from langchain_rse.explaining.trace import RSETrace, TracedChunk, query_words

# Characters that would end a script tag, or a line of JavaScript.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_WITH_SLIDER = ("irrelevant_chunk_penalty", "neighbor_credit", "segment_cost", "max_context_length")


def render_report(trace: RSETrace) -> str:
    """Make an HTML page of a trace: one file that loads nothing else."""
    folder = files(__package__) / "report"
    names = ("report.html.jinja", "report.css", "solver.js", "page.js")
    template, style, *scripts = ((folder / name).read_text(encoding="utf-8") for name in names)
    data = json.dumps(_data(trace), ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)
    inline = {"style": style, "script": "".join(scripts)}
    digests = {name: hashlib.sha256(code.encode()).digest() for name, code in inline.items()}
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    text = environment.from_string(template).render(
        trace=trace,
        data=Markup(data),  # noqa: S704 - escaped
        inline={name: Markup(code) for name, code in inline.items()},  # noqa: S704 - our own
        digests={name: base64.b64encode(one).decode() for name, one in digests.items()},
    )
    # Lone surrogates cannot be written to a file.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _data(trace: RSETrace) -> dict[str, Any]:
    """The data for the page's script."""
    settings, unit = trace.settings, trace.settings["length_function"]
    pattern, exact = query_words([trace.query, *trace.queries]), settings["solver"] == "exact"
    places = {one.doc_id: place for place, one in enumerate(trace.documents)}
    returned = [one for one in trace.segments if one.returned]
    defaults = {**FOR_SIMILARITIES, "calibration": "minmax", "length_function": "len"}
    for model in (RSEConfig, QuerySettings):
        defaults = {name: one.default for name, one in model.model_fields.items()} | defaults
    tried = (*_WITH_SLIDER, "neighbor_radius", "minimum_value", "k", "max_per_document")
    characters = sum(one.end_index - one.start_index for one in returned)
    return {
        "enabled": exact,
        "settings": {name: settings[name] for name in tried},
        "order": settings["order"],
        "rate": characters / trace.spent if trace.spent else 1,
        "unit": "characters" if unit == "len" else f"units of {unit}",
        "others": [
            f"{name}={value if name == 'length_function' else repr(value)},"
            for name, value in settings.items()
            if value != defaults.get(name, value) and not (exact and name in _WITH_SLIDER)
        ],
        "returned": [
            [places[one.doc_id], one.chunk_start, one.chunk_end, one.value] for one in returned
        ],
        "documents": [
            {
                **{name: getattr(one, name) for name in ("name", "reason", "length")},
                "chunk_count": one.chunk_count,
                "chunks": [_chunk(trace, one.doc_id, chunk, pattern) for chunk in one.chunks],
            }
            for one in trace.documents
        ],
    }


def _chunk(
    trace: RSETrace, doc_id: str, chunk: TracedChunk, pattern: re.Pattern[str] | None
) -> dict[str, Any]:
    text, embedded = chunk.text or "", True
    for one in trace.segments:
        if one.doc_id == doc_id and one.chunk_start <= chunk.index < one.chunk_end and chunk.length:
            # The text of the source; the ends of a segment can be trimmed.
            first = (chunk.start_index or 0) - one.start_index
            text, embedded = one.text[max(first, 0) : max(first + chunk.length, 0)], False
    text = text.strip("\r\n")
    # Every second part is a word of the query.
    parts = pattern.split(text) if pattern else [text]
    known = {name: value for name, value in vars(chunk).items() if value not in {None, ""}}
    known |= {"found": chunk.is_candidate, "embedded": embedded, "text": parts if text else []}
    return known
