"""The report: a trace as an HTML page with sliders. Needs jinja2: the extra ``report``.

The sliders show answers for other penalties and budgets. The solver of the query gets the
candidates and scores of the query, so each answer is what the retriever returns with these
settings and without headers.
"""

import hashlib
import io
import json
import math
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import files
from operator import attrgetter
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from langchain_rse.config import QuerySettings
from langchain_rse.explaining.by_document import TraceByDocument
from langchain_rse.explaining.text import (
    rank_of,
    relevance_parts,
    settings_as_values,
    words_in,
)
from langchain_rse.query.candidates import Reason
from langchain_rse.query.reading import (
    CHARACTERS,
    Passage,
    beginning_within,
    choose,
    passage_of,
)
from langchain_rse.query.scoring import Chunk, ScoredChunks, select
from langchain_rse.query.trace import with_exclusion
from langchain_rse.text.quoting import encodable, format_range
from langchain_rse.text.spellings import SpelledExpression, query_words

# Characters that could end a script element or a line of JavaScript.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
_EDGES = re.compile(r"\A(?:[^\S\n]*\n)+|\s+\Z")  # empty lines around a text
_SCRIPTS = ("data.js", "strips.js", "passages.js", "chunk.js", "page.js")
# The style sheet shows controls only where scripts run.
_START = 'document.documentElement.className = "scripted";'

_place_of = attrgetter("layout.manifest.key", "start", "end")  # of a passage
_PENALTIES = 50  # steps of the slider from 0 to 1
_LEAST_BUDGET = 250  # characters

Columns = Mapping[tuple[str, int], int]
"""The positions of chunks on the page, by document key and chunk number."""

PassagesData = tuple[tuple[int, int, float, int], ...]
"""The passages of an answer."""


def render_report(trace: TraceByDocument, pictures: Iterable[Mapping[int, Any]]) -> str:
    """See `RSETrace.to_html`."""
    obstacle = _find_obstacle(trace)
    page_data = _page_data(trace, has_sliders=not obstacle)
    page_data["pictures"] = [_as_addresses(each) for each in pictures]
    data = json.dumps(page_data, ensure_ascii=False, separators=(",", ":"))
    inline = {
        "style": _read("report.css"),
        "start": _START,
        "script": "".join(map(_read, _SCRIPTS)),
    }
    # For the content security policy of the page.
    digests = {}
    for name, code in inline.items():
        digests[name] = b64encode(hashlib.sha256(code.encode()).digest()).decode()
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    text = environment.from_string(_read("report.html.jinja")).render(
        trace=trace,
        obstacle=obstacle,
        settings=settings_as_values(trace.settings),
        format_range=format_range,
        data=Markup(data.translate(_ESCAPES)),  # noqa: S704 - escaped for a script
        # Files of this package.
        inline={name: Markup(code) for name, code in inline.items()},  # noqa: S704
        digests=digests,
    )
    return encodable(text)  # a file cannot contain lone surrogates


def _read(name: str) -> str:
    return (files(__package__) / "report" / name).read_text(encoding="utf-8")


def _as_addresses(pictures: Mapping[int, Any]) -> dict[int, str]:
    """The pictures of a passage's pages as addresses that contain them, by page number, from 1."""
    addresses = {}
    for page, picture in pictures.items():
        file = io.BytesIO()
        picture.save(file, "JPEG")
        addresses[page + 1] = f"data:image/jpeg;base64,{b64encode(file.getvalue()).decode()}"
    return addresses


def _page_data(trace: TraceByDocument, *, has_sliders: bool) -> dict[str, Any]:
    """The data that the scripts of the page read."""
    settings = trace.settings
    highlighted = query_words([trace.query, *trace.queries])
    columns: dict[tuple[str, int], int] = {}
    documents = []
    for document in trace.documents:
        chunks = []
        for chunk in document.chunks:
            if chunk.layout is not None and chunk.weight:
                columns[chunk.layout.manifest.key, chunk.index] = len(columns)
            chunks.append(_chunk_data(trace, chunk, highlighted))
        name = trace.short_names[document.doc_id]
        fields = {
            "name": name,
            "path": None if name == document.name else document.name,
            "reason": document.reason,
            "chunk_count": document.chunk_count,
            "chunks": chunks,
        }
        documents.append(fields)
    data: dict[str, Any] = {
        "penalty": settings.penalty,
        "budget": settings.max_context_length,
        "has_headers": settings.include_header,
        "returned": _passages_data(trace.returned, columns),
        "documents": documents,
    }
    if has_sliders:
        data["alternatives"] = _alternatives_data(trace, columns)
    return data


def _passages_data(passages: Iterable[Passage], columns: Columns) -> PassagesData:
    """For each passage its first position, the one after its last, its value and its length."""
    numbers = []
    for passage in passages:
        start = columns[passage.layout.manifest.key, passage.start]
        value = float(f"{passage.value:.4g}")
        numbers.append((start, start + len(passage.chunks), value, _length_of(passage)))
    return tuple(numbers)


def _length_of(passage: Passage) -> int:
    start, end = passage.span
    return end - start


def _find_obstacle(trace: TraceByDocument) -> str:
    """Say why the report cannot have sliders; empty if it can."""
    settings = trace.settings
    if trace.scored is None or not trace.scored.candidates:
        return "nothing was close enough to consider, so they would have no effect"
    if settings.config.solver != "exact":
        return f"the solver is {settings.config.solver.name}, not the exact one"
    if settings.length_function is not CHARACTERS:
        return "the budget is not in characters"
    chunks = [chunk for passage in trace.passages for chunk in passage.chunks]
    answer, _ = _answer(trace, trace.scored, settings, sum(chunk.length for chunk in chunks))
    if [*map(_place_of, answer)] != [*map(_place_of, trace.returned)]:
        return "the text of some documents is missing or has changed"
    return ""


def _alternatives_data(trace: TraceByDocument, columns: Columns) -> dict[str, Any]:
    """The answers for all positions of the sliders; equal answers are stored once.

    A larger budget or a lower penalty only adds chunks, so there are few different answers.
    """
    scored, settings = trace.scored, trace.settings
    if scored is None:
        return {}
    budgets = {math.inf, settings.max_context_length or math.inf}
    size = _LEAST_BUDGET
    while size < scored.lengths.sum():
        budgets |= {size, size * 3 / 2}
        size *= 2
    penalties = {number / _PENALTIES for number in range(_PENALTIES + 1)} | {settings.penalty}
    places: dict[PassagesData, int] = {}
    rows = []
    for penalty in sorted(penalties):
        update = {"irrelevant_chunk_penalty": penalty, "include_header": False}
        changed = settings.model_copy(update=update)
        row: list[int] = []
        taken = math.inf
        for budget in sorted(budgets, reverse=True):
            if taken >= budget:  # else the answer for the next larger budget fits
                answer, taken = _answer(trace, scored, changed, budget)
                numbers = _passages_data(answer, columns)
            row.insert(0, places.setdefault(numbers, len(places)))
        rows.append(row)
    return {
        "penalties": sorted(penalties),
        "budgets": [None if math.isinf(budget) else budget for budget in sorted(budgets)],
        "rows": rows,
        "answers": list(places),
    }


def _answer(
    trace: TraceByDocument, scored: ScoredChunks, settings: QuerySettings, budget: float
) -> tuple[list[Passage], int]:
    """The answer, and how much of the budget all passages take, also those beyond ``k``."""
    selection = select(scored, settings, budget)
    count = selection.steps_within(budget)
    passages = []
    for segment in selection.passages_after(max(count, 1)):
        passage = passage_of(segment, selection)
        if count:
            passages.append(passage)
        elif len(passage.chunks) == 1:  # its beginning may fit
            [chunk] = passage.chunks
            read = replace(chunk, record=trace.records.get(chunk.key))
            passages += beginning_within(budget, passage._replace(chunks=[read]), settings)
    return choose(passages, settings), sum(map(_length_of, passages))


def _chunk_data(
    trace: TraceByDocument, chunk: Chunk, highlighted: SpelledExpression | None
) -> dict[str, Any]:
    """The data of a chunk, without empty fields."""
    start, end = chunk.span or (0, 0)
    record = trace.records.get(chunk.key)
    text = None if record is None else record.page_content
    data: dict[str, Any] = {
        "start_index": start,
        "length": end - start,
        "relevance": _rounded(chunk.relevance),
        "credited": _rounded(chunk.credited),
        "value": _rounded(chunk.value),
        "outcome": None if chunk.outcome is Reason.NO_CANDIDATE else chunk.outcome.label,
        "unseen": not chunk.weight,  # by the solver
    }
    candidate = chunk.candidate
    if candidate is not None:
        exclusion = trace.exclusions.get(candidate.chunk_key)
        excluded = chunk
        if exclusion is not None:  # to the solver, an excluded chunk was not found
            excluded = with_exclusion(chunk, exclusion)
        data |= {
            "why": trace.why(excluded),
            "found": True,
            "excluded": None if exclusion is None else exclusion.reason.label,
            "rank": rank_of(trace, chunk),
            "hits": [
                [search, hit.rank + 1, _rounded(hit.score)]
                for search, hit in candidate.hits.items()
            ],
            "query": candidate.query if len(trace.queries) > 1 else None,
            "words": words_in(chunk),
            "parts": relevance_parts(chunk),
            "embedded": text is None,
        }
        if text is None:
            text = candidate.document.page_content
    shown = _EDGES.sub("", text or "")
    # Every second part is a query word.
    data["text"] = shown and (highlighted.split(shown) if highlighted else [shown])
    return {"index": chunk.index, **{name: value for name, value in data.items() if value}}


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")
