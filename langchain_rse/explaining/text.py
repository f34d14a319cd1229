"""A traced query in words: the lines that ``print(trace)`` shows."""

import html
import itertools
from collections.abc import Iterator

from langchain_rse._messages import counted, visible
from langchain_rse.explaining.records import (
    OUTCOMES,
    TracedChunk,
    TracedDocument,
    TracedQuery,
    TracedSegment,
)

# The most segments or queries that are printed, and the most candidates for each reason.
_MOST_SHOWN = 8
_MOST_LEFT_OUT = 3
_MOST_CHARACTERS = 100


def as_text(trace: TracedQuery) -> str:
    """The explanation of a query as lines for a terminal, with the first segments shortened."""
    return "\n".join(visible(line) for line in _lines(trace, full=False))


def as_html(trace: TracedQuery) -> str:
    """The explanation of a query for a notebook, with whole segments."""
    text = "\n".join(visible(line, "\t\n") for line in _lines(trace, full=True))
    return f'<pre dir="auto" style="white-space: pre-wrap">{html.escape(text)}</pre>'


def summarize(trace: TracedQuery) -> str:
    """Say in one line how much was found, returned and spent."""
    limit = trace.settings["max_context_length"]
    unit = trace.settings["length_function"]
    segments = counted(len(trace.answer), "segment")
    candidates = counted(len(trace.candidates), "candidate")
    documents = counted(len(trace.documents), "document")
    spent = f"{trace.spent:,.10g}"
    if limit is not None:
        spent += f" of {limit:,.10g}"
    unit = "characters" if unit == "len" else f"({unit})"
    return f"{segments} of {candidates} in {documents}, {spent} {unit}"


def explain_outcome(trace: TracedQuery, document: TracedDocument, chunk: TracedChunk) -> str:
    """Say in a few words why a chunk was returned or not."""
    if chunk.outcome == "not considered" and document.reason:
        return document.reason
    settings = trace.settings
    room = "max_context_length"
    if settings["max_context_length"] is not None:
        room += f"={settings['max_context_length']:.10g}"
    solver = settings["solver"]
    if solver != "exact" and "overall_max_length" in solver:
        room += f" or overall_max_length={solver['overall_max_length']}"
    return OUTCOMES[chunk.outcome].format(**settings, chunk=chunk, room=room)


def _lines(trace: TracedQuery, *, full: bool) -> Iterator[str]:
    yield f"Query: {_shorten(trace.query)}"
    if trace.queries not in ([trace.query], []):
        shown = [_shorten(query) for query in trace.queries[:_MOST_SHOWN]]
        yield f"Searched for: {'; '.join(shown)}"
    yield summarize(trace)
    if trace.reason:
        yield f"Nothing was returned: {trace.reason}"
    yield from _reach_lines(trace)
    yield from _answer_lines(trace, full=full)
    yield from _left_out_lines(trace)
    if trace.penalty is not None and trace.penalty > trace.settings["irrelevant_chunk_penalty"]:
        yield (
            f"The budget was short: only text of relevance {trace.penalty:.3g} or more was returned"
        )
    times = [f"{name} {1e3 * seconds:.1f}" for name, seconds in trace.steps.items()]
    yield f"Time: {1e3 * sum(trace.steps.values()):.1f} ms ({', '.join(times)})"


def _reach_lines(trace: TracedQuery) -> Iterator[str]:
    """How near the documents come to the queries, if that is known."""
    closeness = closeness_of(trace)
    if closeness:
        yield closeness
    if not trace.segments:
        return  # the reason has said it
    refused = [reached for reached in trace.reached if reached.refused]
    for reached in refused[:_MOST_SHOWN]:
        numbers = f"{reached.reach:.3g} does not reach the floor {reached.floor:.3g}"
        yield f"Refused, {_shorten(reached.query)!r}: {numbers}"


def closeness_of(trace: TracedQuery) -> str:
    """Say how near the best candidate is, by the answered questions; empty if that is not known."""
    known = [
        reached
        for reached in trace.reached
        if reached.closer_than is not None and not reached.refused
    ]
    if not known:
        return ""
    nearest = max(known, key=lambda reached: reached.closer_than or 0.0)
    return f"The best passage is closer than {nearest.closer_than:.0%} of {nearest.compared_with}"


def _answer_lines(trace: TracedQuery, *, full: bool) -> Iterator[str]:
    answer = trace.answer
    shown = answer if full else answer[:_MOST_SHOWN]
    for document, segment in shown:
        yield (
            f"  {segment.number}. {_shorten(document.name)}, {_describe_chunks(document, segment)},"
            f" characters {segment.start_index:,} to {segment.end_index:,}, "
            f"value {segment.value:.3g}"
        )
        yield segment.text if full else f"     {_shorten(segment.text)}"
    if len(shown) < len(answer):
        yield f"  and {len(answer) - len(shown)} more"


def _describe_chunks(document: TracedDocument, segment: TracedSegment) -> str:
    first = segment.chunk_start
    last = segment.chunk_end - 1
    if first == last:
        return f"chunk {first}"
    chunks = [chunk for chunk in document.chunks if first <= chunk.index <= last]
    best = max(chunks, key=lambda chunk: chunk.relevance)
    filled = [chunk for chunk in chunks if not chunk.is_candidate]
    return f"chunks {first} to {last} (the best is {best.index}, {len(filled)} filled in)"


def _left_out_lines(trace: TracedQuery) -> Iterator[str]:
    for outcome, group in itertools.groupby(trace.left_out, lambda pair: pair[1].outcome):
        pairs = list(group)
        yield f"Left out, {outcome}: {len(pairs):,}"
        for document, chunk in pairs[:_MOST_LEFT_OUT]:
            rank = "by words" if chunk.rank is None else f"rank {chunk.rank + 1}"
            yield (
                f"  {_shorten(document.name)}, chunk {chunk.index} ({rank}, "
                f"relevance {chunk.relevance:.2f}): {explain_outcome(trace, document, chunk)}"
            )


def _shorten(text: str) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text[: 4 * _MOST_CHARACTERS].split())
    if len(line) <= _MOST_CHARACTERS:
        return line
    return f"{line[:_MOST_CHARACTERS]}..."
