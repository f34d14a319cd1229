"""A trace in words: the lines of ``print(trace)``, and parts of them for other views."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

from langchain_rse.config import QuerySettings
from langchain_rse.explaining.by_document import TraceByDocument
from langchain_rse.query.candidates import Reason
from langchain_rse.query.reading import Passage, measure
from langchain_rse.query.scoring import Chunk
from langchain_rse.text.quoting import counted, format_range, one_line, visible

_MOST_SHOWN = 8  # passages or queries
_MOST_LEFT_OUT = 3  # candidates for each reason
_MOST_CHARACTERS = 100
_MOST_WORDS = 3  # of the query, for a chunk
_LEAST_SHOWN = 0.005  # of relevance
_NOT_SHOWN = frozenset({"config", "queries", "query_generator", "reranker", "search_kwargs"})
"""Settings that are neither numbers nor names."""


def as_text(trace: TraceByDocument) -> str:
    """Explain an answer in lines for a terminal: the first passages are shortened."""
    lines = [f"Query: {_shorten(trace.query)}"]
    if list(trace.queries) not in ([trace.query], []):
        shown = [_shorten(query) for query in trace.queries[:_MOST_SHOWN]]
        lines.append(f"Searched for: {'; '.join(shown)}")
    lines += _answer_lines(trace)
    if trace.full_text:
        lines.append(f"Full-text index not searched: {trace.full_text}")
    for number, passage in enumerate(trace.returned[:_MOST_SHOWN], start=1):
        place, relevance = _describe(trace, passage)
        lines += [f"  {number}. {place}", f"     {relevance}", f"     {_shorten(passage.text)}"]
    if len(trace.returned) > _MOST_SHOWN:
        lines.append(f"  and {len(trace.returned) - _MOST_SHOWN} more")
    lines += _left_out_lines(trace)
    times = [f"{name} {1e3 * seconds:.1f}" for name, seconds in trace.seconds.items()]
    lines.append(f"Time: {1e3 * sum(trace.seconds.values()):.1f} ms ({', '.join(times)})")
    return "\n".join(visible(line) for line in lines)


def _answer_lines(trace: TraceByDocument) -> Iterator[str]:
    """Describe the answer, or the reason why it is empty."""
    yield summarize(trace)
    if trace.reason:
        yield f"Nothing returned: {trace.reason}"
    if not trace.returned:
        return  # the reason is already there
    yield headline(trace)
    rejected = [check for check in trace.floor_checks if check.is_rejected]
    for check in rejected[:_MOST_SHOWN]:
        reason = trace.sentence(Reason.BELOW_THE_FLOOR, check._asdict())
        yield f"No answer to {_shorten(check.query)!r}: {reason}"


def summarize(trace: TraceByDocument) -> str:
    """One line: how much was found and returned, and how much of the budget is used."""
    limit = trace.settings.max_context_length
    passages = counted(len(trace.returned), "passage")
    found = sum(chunk.candidate is not None for chunk in trace.chunks)
    documents = counted(len(trace.documents), "document")
    spent = f"{trace.spent:,.10g}"
    if limit is not None:
        spent += f" of {limit:,.10g}"
    function = trace.settings.length_function
    unit = name_of_function(function)
    unit = "characters" if unit == "len" else f"({unit})"
    text = f"{passages} from {counted(found, 'candidate')} in {documents}, {spent} {unit}"
    if not trace.settings.include_header:
        return text  # without measuring it again, which may be slow
    in_headers = trace.spent - sum(measure(passage.text, function) for passage in trace.returned)
    return f"{text}, {in_headers:,.10g} of them in headers" if in_headers >= 1 else text


def headline(trace: TraceByDocument) -> str:
    """Describe the best passage in a sentence without a full stop; empty for an empty answer."""
    if not trace.returned:
        return ""
    passage = max(trace.returned, key=lambda passage: passage.value)
    best = _best_of(passage.chunks)
    is_best = best.relevance >= _best_of(trace.chunks).relevance
    line = f"Best passage: {_name_in(trace, passage)}, {_chunks_of(passage)}"
    if len(passage.chunks) == 1:
        return f"{line}, the best match" if is_best else line
    center = "the best match" if is_best else f"chunk {best.index}"
    line += f" ({len(passage.chunks)} chunks around {center}"
    weak = sum(chunk.relevance < trace.settings.penalty for chunk in passage.chunks)
    if weak:
        line += f", {weak} of them too weak to be returned alone"
    return f"{line})"


def _describe(trace: TraceByDocument, passage: Passage) -> tuple[str, str]:
    """A passage's place and value in a line; the relevance of its best chunk in another."""
    best = _best_of(passage.chunks)
    place = f"{_name_in(trace, passage)}, {_chunks_of(passage)}"
    filled = sum(chunk.candidate is None for chunk in passage.chunks)
    if filled:
        place += f" ({filled} filled in)"
    place += f", characters {format_range(*passage.span)}, value {passage.value:.2f}"
    whole = passage._replace(dropped=0).text
    limit = trace.settings.max_context_length or math.inf
    if passage.dropped and measure(whole, trace.settings.length_function) > limit:
        place += f", cut to max_context_length={limit:,.10g}"
    cost = sum(chunk.value for chunk in passage.chunks) - passage.value
    if cost >= _LEAST_SHOWN:
        chunks = _shown(passage.value) + _shown(cost)
        place += f" (chunks {chunks:.2f}, passage cost -{cost:.2f})"
    parts = ", ".join(f"{name} {number}" for name, number in relevance_parts(best))
    relevance = f"best chunk {best.index}: {relevance_of(best, f' ({parts})')}"
    words = words_in(best)
    return place, f"{relevance}; query words: {words}" if words else relevance


def relevance_of(chunk: Chunk, parts: str = "") -> str:
    """The relevance of a chunk, with its parts, and then with its neighbors if that is more."""
    relevance = f"relevance {chunk.relevance:.2f}{parts}"
    if _shown(chunk.credited) > _shown(chunk.relevance):
        relevance += f", {chunk.credited:.2f} with neighbors"
    return relevance


def relevance_parts(chunk: Chunk) -> list[tuple[str, str]]:
    """The parts of a chunk's relevance as names and numbers: first the share of each witness.

    They are rounded so that they add up to the rounded relevance. Empty for chunks without
    relevance.
    """
    candidate = chunk.candidate
    if candidate is None or not chunk.relevance:
        return []
    parts = []
    total = 0.0
    for name, relevance in candidate.signals.items():
        share = _shown(total + relevance) - _shown(total)
        total += relevance
        if share >= _LEAST_SHOWN:
            parts.append((name, f"{share:.2f}"))
    if candidate.name_factor < 1:
        parts.append(("names", f"x {candidate.name_factor:.2f} (another document is named)"))
    less_for_document = _shown(total) - _shown(chunk.relevance)
    if less_for_document >= _LEAST_SHOWN:
        parts.append(("document", f"-{less_for_document:.2f}"))
    return parts


def _shown(number: float) -> float:
    """A number with the two digits that are printed."""
    return float(f"{number:.2f}")


def words_in(chunk: Chunk) -> str:
    """The first query words that a chunk contains; empty if it has none."""
    if chunk.candidate is None:
        return ""
    return ", ".join(chunk.candidate.found_words[:_MOST_WORDS])


def _left_out_lines(trace: TraceByDocument) -> Iterator[str]:
    """The candidates that were almost returned, grouped by the reason why they were not."""
    for outcome, group in itertools.groupby(trace.left_out, lambda pair: pair[1].outcome):
        pairs = list(group)
        yield f"Not returned ({outcome.label}): {counted(len(pairs), 'candidate')}"
        if outcome is Reason.BELOW_THE_FLOOR:
            continue  # the same sentence again
        for document, chunk in pairs[:_MOST_LEFT_OUT]:
            details = [rank_of(trace, chunk)]
            if chunk.outcome is not Reason.BELOW_THE_PENALTY:  # which names the relevance
                details.append(relevance_of(chunk))
            name = one_line(trace.short_names[document.doc_id], _MOST_CHARACTERS)
            shown = ", ".join(filter(None, details))
            yield f"  {name}, chunk {chunk.index} ({shown}): {trace.why(chunk)}"
        if len(pairs) > _MOST_LEFT_OUT:
            yield f"  and {len(pairs) - _MOST_LEFT_OUT:,} more"


def rank_of(trace: TraceByDocument, chunk: Chunk) -> str:
    """The rank of a candidate by relevance; empty if the reranker dropped it."""
    if chunk.candidate is None or chunk.candidate.chunk_key not in trace.ranks:
        return ""
    return f"overall rank {trace.ranks[chunk.candidate.chunk_key]}"


def _name_in(trace: TraceByDocument, passage: Passage) -> str:
    """The name of a passage's document, as printed."""
    name = trace.short_names[passage.layout.manifest.doc_id]
    return one_line(name, _MOST_CHARACTERS)


def name_of_function(function: object) -> str:
    """The name of a function; the class of an object without a name."""
    return str(getattr(function, "__name__", None) or type(function).__name__)


def settings_as_values(settings: QuerySettings) -> dict[str, Any]:
    """The settings of a query, with its config, as numbers and names."""
    values = settings.config.model_dump()
    for name in QuerySettings.model_fields:
        if name not in _NOT_SHOWN:
            values[name] = getattr(settings, name)
    values["irrelevant_chunk_penalty"] = settings.penalty
    for name, value in values.items():
        if callable(value):
            values[name] = name_of_function(value)
    return values


def _chunks_of(passage: Passage) -> str:
    noun = "chunk" if len(passage.chunks) == 1 else "chunks"
    return f"{noun} {format_range(passage.start, passage.end - 1)}"


def _best_of(chunks: Iterable[Chunk]) -> Chunk:
    return max(chunks, key=lambda chunk: chunk.relevance)


def _shorten(text: str) -> str:
    return one_line(text[: 4 * _MOST_CHARACTERS], _MOST_CHARACTERS)
