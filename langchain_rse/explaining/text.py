"""A traced query in words: the lines that ``print(trace)`` shows, and what others are made of."""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

from langchain_rse.explaining.records import (
    OUTCOMES,
    TracedChunk,
    TracedDocument,
    TracedQuery,
    TracedSegment,
)
from langchain_rse.text.quoting import counted, one_line, visible

# The most segments or queries that are printed, and the most candidates for each reason.
_MOST_SHOWN = 8
_MOST_LEFT_OUT = 3
_MOST_WORDS = 3  # of the query, for a chunk
_LEAST_SHOWN = 0.005  # of relevance

_shorten = partial(one_line, length=100)


def as_text(trace: TracedQuery) -> str:
    """The explanation of a query as lines for a terminal, with the first segments shortened."""
    return "\n".join(visible(line) for line in _lines(trace))


def headline(trace: TracedQuery) -> str:
    """Say in one sentence what the best segment is; empty if nothing was returned."""
    if not trace.answer:
        return ""
    document, segment = max(trace.answer, key=lambda pair: pair[1].value)
    chunks = chunks_of(document, segment)
    best = _best_of(chunks)
    highest = max(chunk.relevance for _, chunk in trace.candidates)
    is_best = best.relevance >= highest
    place = f"Mainly {_shorten(document.name)}, chunk"
    if len(chunks) == 1:
        return f"{place} {best.index}: the best candidate" if is_best else f"{place} {best.index}"
    role = "the best one" if is_best else f"chunk {best.index}"
    penalty = trace.settings["irrelevant_chunk_penalty"]
    weak = sum(chunk.relevance < penalty for chunk in chunks)
    last = segment.chunk_end - 1
    sentence = f"{place}s {segment.chunk_start} to {last}: {len(chunks)} chunks around {role}"
    if weak:
        sentence += f"; {weak} of them would not qualify alone"
    return sentence


def chunks_of(document: TracedDocument, segment: TracedSegment) -> list[TracedChunk]:
    """The chunks of a segment that the solver saw."""
    chunks = range(segment.chunk_start, segment.chunk_end)
    return [chunk for chunk in document.chunks if chunk.index in chunks]


def _best_of(chunks: Sequence[TracedChunk]) -> TracedChunk:
    return max(chunks, key=lambda chunk: chunk.relevance)


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
    limit = settings["max_context_length"]
    if chunk.outcome == "no room" and settings["length_function"] == "len" and limit is not None:
        length = chunk.length or 0
        if length > limit:
            return f"{length:,} characters: longer than the budget of {limit:,.10g}"
    room = "max_context_length"
    if limit is not None:
        room += f"={limit:.10g}"
    solver = settings["solver"]
    if solver != "exact" and "overall_max_length" in solver:
        room += f" or overall_max_length={solver['overall_max_length']}"
    return OUTCOMES[chunk.outcome].format(**settings, chunk=chunk, room=room)


def _lines(trace: TracedQuery) -> Iterator[str]:
    yield f"Query: {_shorten(trace.query)}"
    if trace.queries not in ([trace.query], []):
        shown = [_shorten(query) for query in trace.queries[:_MOST_SHOWN]]
        yield f"Searched for: {'; '.join(shown)}"
    yield summarize(trace)
    if trace.answer:
        yield headline(trace)
    if trace.reason:
        yield f"Nothing was returned: {trace.reason}"
    if trace.full_text:
        yield f"Full-text index not searched: {trace.full_text}"
    yield from _reach_lines(trace)
    yield from _answer_lines(trace)
    yield from left_out_lines(trace)
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


def _answer_lines(trace: TracedQuery) -> Iterator[str]:
    answer = trace.answer
    for document, segment in answer[:_MOST_SHOWN]:
        yield f"  {segment.number}. {describe_segment(document, segment)}"
        yield f"     {describe_relevance(document, segment)}"
        yield f"     {_shorten(segment.text)}"
    if len(answer) > _MOST_SHOWN:
        yield f"  and {len(answer) - _MOST_SHOWN} more"


def describe_segment(document: TracedDocument, segment: TracedSegment) -> str:
    """Where a segment is, and its value."""
    return (
        f"{_shorten(document.name)}, {_describe_chunks(document, segment)}, characters "
        f"{segment.start_index:,} to {segment.end_index:,}, value {segment.value:.3g}"
    )


def _describe_chunks(document: TracedDocument, segment: TracedSegment) -> str:
    first = segment.chunk_start
    last = segment.chunk_end - 1
    if first == last:
        return f"chunk {first}"
    chunks = chunks_of(document, segment)
    best = _best_of(chunks)
    filled = [chunk for chunk in chunks if not chunk.is_candidate]
    filled_in = f", {len(filled)} filled in" if filled else ""
    return f"chunks {first} to {last} (the best is {best.index}{filled_in})"


def relevance_parts(chunk: TracedChunk) -> list[tuple[str, str]]:
    """What a chunk's relevance was made of, as names and numbers; empty for chunks not ranked."""
    words = ", ".join(chunk.matched_words[:_MOST_WORDS])
    added = {
        "vectors": (chunk.by_vectors, ""),
        "full-text index": (chunk.by_full_text, "" if chunk.by_words else f" ({words})"),
        "words": (chunk.by_words, f" ({words})"),
        "reranker": (chunk.by_reranker, ""),
    }
    parts = []
    total = 0.0
    for name, (relevance, note) in added.items():
        total += relevance
        if relevance >= _LEAST_SHOWN:
            parts.append((name, f"{relevance:.2f}{note}"))
    if chunk.name_factor < 1:
        parts.append(("names", f"x {chunk.name_factor:.2f} (another document is named)"))
    less_for_document = total - chunk.relevance
    if less_for_document >= _LEAST_SHOWN:
        parts.append(("document", f"-{less_for_document:.2f}"))
    return parts


def describe_relevance(document: TracedDocument, segment: TracedSegment) -> str:
    """What the relevance of a segment's best chunk was made of, in a line."""
    chunk = _best_of(chunks_of(document, segment))
    parts = [f"{name} {number}" for name, number in relevance_parts(chunk)]
    from_neighbors = chunk.credited - chunk.relevance
    if from_neighbors >= _LEAST_SHOWN:
        parts.append(f"neighbors {from_neighbors:.2f}")
    return f"relevance of chunk {chunk.index}: {chunk.credited:.2f} ({', '.join(parts)})"


def left_out_lines(trace: TracedQuery) -> Iterator[str]:
    """The candidates that came nearest to being returned, by the reason why they were not."""
    for outcome, group in itertools.groupby(trace.left_out, lambda pair: pair[1].outcome):
        pairs = list(group)
        yield f"Left out, {outcome}: {len(pairs):,}"
        for document, chunk in pairs[:_MOST_LEFT_OUT]:
            rank = "by words" if chunk.rank is None else f"rank {chunk.rank + 1}"
            yield (
                f"  {_shorten(document.name)}, chunk {chunk.index} ({rank}, "
                f"relevance {chunk.relevance:.2f}): {explain_outcome(trace, document, chunk)}"
            )
