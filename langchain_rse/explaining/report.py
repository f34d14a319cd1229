"""The report: a trace as an HTML page in which settings can be tried, or as some lines of HTML."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from langchain_rse.config import FOR_SIMILARITIES, QuerySettings, RSEConfig

__all__ = ["query_words", "render_compact", "render_report"]

_Values = Mapping[str, Any]

_SHORT = 3  # letters of words such as "the"
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Chinese and Japanese.
_SPACELESS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff]")
# What would end a script tag, or a line of JavaScript.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_WITH_SLIDER = ("irrelevant_chunk_penalty", "neighbor_credit", "segment_cost", "max_context_length")
_NOT_AS_RETRIEVED = {
    "include_header": "The budget counts headers, which the page leaves out of its reckoning.",
    "allow_trim": "allow_trim: the page takes whole chunks only, no part of the next one.",
}


def render_report(trace: _Values) -> str:
    """Make an HTML page of what `RSETrace.to_dict` returns: one file that loads nothing else.

    Raises:
        ImportError: If jinja2 is not installed: ``pip install 'langchain-rse[report]'``.
    """
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - an extra
        from markupsafe import Markup  # noqa: PLC0415
    except ModuleNotFoundError as error:
        message = "a report needs jinja2: pip install 'langchain-rse[report]'"
        raise ImportError(message, name=error.name) from error
    folder = files(__package__) / "report"
    names = ("report.html.jinja", "report.css", "solver.js", "page.js")
    template, style, *scripts = ((folder / name).read_text(encoding="utf-8") for name in names)
    data = json.dumps(_data(trace), ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)
    inline = {"style": style, "script": "".join(scripts)}
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    text = environment.from_string(template).render(
        trace=trace,
        facts=_facts(trace),
        notes=_notes(trace),
        returned=_returned(trace),
        settings={name: repr(value) for name, value in trace["settings"].items()},
        data=Markup(data),  # noqa: S704 - escaped
        inline={name: Markup(code) for name, code in inline.items()},  # noqa: S704 - our own
        digests={name: _digest(code) for name, code in inline.items()},
    )
    # Half of a character cannot be written to a file.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def render_compact(trace: _Values) -> str:
    """The answer of a trace as a few lines of HTML, for notebooks; needs no package."""
    about = f"<b><bdi>{html.escape(trace['query'])}</bdi></b><br>{' · '.join(_facts(trace))}"
    items = (
        f"<details><summary>{one['number']}. <bdi>{html.escape(one['name'])}</bdi>, chunks "
        f"{one['chunk_start']} to {one['chunk_end'] - 1}, value {one['value']:.2f}</summary>"
        f'<div dir="auto" style="white-space: pre-wrap">{html.escape(one["text"])}</div></details>'
        for one in _returned(trace)
    )
    return f"<div>{about}{''.join(items) or '<br>Nothing was returned.'}</div>"


def query_words(queries: Iterable[str]) -> re.Pattern[str] | None:
    """Finds the words of queries in texts; short ones only if they are names or numbers."""
    parts: dict[str, None] = {}
    for word in re.findall(r"\w+", " ".join(queries)):
        if _SPACELESS.search(word):  # any two characters of it
            parts |= dict.fromkeys(word[n : n + 2] for n in range(max(len(word) - 1, 1)))
        elif len(word) > _SHORT:
            parts[rf"\b{word.removesuffix('s')}\w*"] = None
        elif word.isdigit() or (len(word) > 1 and not word.islower()):
            parts[rf"\b{word}\b"] = None
    return re.compile(f"({'|'.join(parts)})", re.IGNORECASE) if parts else None


def _name(one: _Values) -> str:
    """What people know the document of a document or segment by."""
    return str(one["source"] or one.get("title") or one["doc_id"])


def _returned(trace: _Values) -> list[dict[str, Any]]:
    """The segments of the answer, in its order, with the names of their documents."""
    names = {one["doc_id"]: _name(one) for one in trace["documents"]}
    returned = [{**one, "name": names[one["doc_id"]]} for one in trace["segments"]]
    return sorted((one for one in returned if one["returned"]), key=lambda one: one["number"])


def _digest(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def _unit(trace: _Values) -> str:
    unit = trace["budget"]["unit"]
    return "characters" if unit == "len" else f"units of {unit}"


def _is_candidate(chunk: _Values) -> bool:
    return chunk["rank"] is not None or chunk["lexical_rank"] is not None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _facts(trace: _Values) -> list[str]:
    budget = trace["budget"]
    found = sum(_is_candidate(chunk) for one in trace["documents"] for chunk in one["chunks"])
    limit = "" if budget["limit"] is None else f" of {budget['limit']:,.10g}"
    return [
        f"{_count(found, 'candidate')} in {_count(len(trace['documents']), 'document')}",
        f"{_count(len(_returned(trace)), 'segment')} returned",
        f"{budget['spent']:,.10g}{limit} {html.escape(_unit(trace))}",
        f"{1000 * sum(step['seconds'] for step in trace['steps']):,.0f} ms",
    ]


def _notes(trace: _Values) -> list[str]:
    """What the page's sliders do otherwise than the retriever, if anything."""
    settings = trace["settings"]
    if (solver := settings["solver"]) != "exact":
        note = "the page knows the exact solver only. So the sliders are off, and the answer is"
        return [f"solver={solver!r}: {note} shown as it was returned."]
    notes = [note for name, note in _NOT_AS_RETRIEVED.items() if settings[name]]
    if trace["budget"]["unit"] != "len":
        notes.append(
            f"The budget is measured in {_unit(trace)}, which the page cannot do: it converts it "
            "to characters, at the rate of this answer. What only just fits may differ."
        )
    if len(trace["queries"]) > 1:
        notes.append(
            "Several queries: the sliders work with the best relevance of all of them, and set no "
            "room aside for the best chunk of each."
        )
    return notes


def _data(trace: _Values) -> dict[str, Any]:
    """What the page's script needs."""
    settings, budget = trace["settings"], trace["budget"]
    exact, returned = settings["solver"] == "exact", _returned(trace)
    pattern, texts = query_words([trace["query"], *trace["queries"]]), _texts(trace)
    places = {one["doc_id"]: place for place, one in enumerate(trace["documents"])}
    characters = sum(one["end_index"] - one["start_index"] for one in returned)
    defaults = {**FOR_SIMILARITIES, "calibration": "minmax", "length_function": "len"}
    for model in (RSEConfig, QuerySettings):
        defaults = {name: one.default for name, one in model.model_fields.items()} | defaults
    return {
        "enabled": exact,
        "settings": {name: settings[name] for name in _WITH_SLIDER}
        | {name: settings[name] for name in ("neighbor_radius", "minimum_value", "k")}
        | {"max_per_document": settings["max_per_document"]},
        "order": settings["order"],
        "rate": characters / budget["spent"] if budget["spent"] else 1,
        "unit": _unit(trace),
        "others": [
            f"{name}={value if name == 'length_function' else repr(value)},"
            for name, value in settings.items()
            if value != defaults.get(name, value) and not (exact and name in _WITH_SLIDER)
        ],
        "returned": [
            [places[one["doc_id"]], one["chunk_start"], one["chunk_end"], one["value"]]
            for one in sorted(returned, key=lambda one: -one["value"])
        ],
        "documents": [
            {
                **{name: one[name] for name in ("reason", "length", "chunk_count")},
                "name": _name(one),
                "chunks": [
                    _chunk(chunk, texts.get((one["doc_id"], chunk["index"])), pattern)
                    for chunk in one["chunks"]
                ],
            }
            for one in trace["documents"]
        ],
    }


def _texts(trace: _Values) -> dict[tuple[str, int], str]:
    """The texts of the chunks of segments, as they stand in the source."""
    segments: dict[tuple[str, int], _Values] = {
        (one["doc_id"], index): one
        for one in trace["segments"]
        for index in range(one["chunk_start"], one["chunk_end"])
    }
    texts = {}
    for document in trace["documents"]:
        for chunk in document["chunks"]:
            key = document["doc_id"], chunk["index"]
            if (one := segments.get(key)) and chunk["length"]:
                # A header may stand before the text.
                first = len(one["text"]) - (one["end_index"] - chunk["start_index"])
                texts[key] = one["text"][max(first, 0) : max(first + chunk["length"], 0)]
    return texts


def _chunk(chunk: _Values, text: str | None, pattern: re.Pattern[str] | None) -> dict[str, Any]:
    one = {name: value for name, value in chunk.items() if value not in {None, ""}}
    one |= {"found": _is_candidate(chunk), "embedded": text is None}
    text = (chunk["text"] or "" if text is None else text).strip("\r\n")
    # Every second part is a word of the query.
    parts = pattern.split(text) if pattern else [text]
    return {**one, "text": parts if text else []}
