"""A trace in words: the lines that ``print(trace)`` shows, and what others are made of."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from langchain_rse.explaining.values import name_of_function
from langchain_rse.explaining.views import candidates_of, name_of_segment, words_of
from langchain_rse.query.candidates import ChunkKey, Reason
from langchain_rse.query.reading import DocumentSegment
from langchain_rse.query.scoring import Chunk
from langchain_rse.query.trace import RSETrace, sentence
from langchain_rse.text.quoting import counted, visible

# The most segments or queries that are printed, and the most candidates for each reason.
_MOST_SHOWN = 8
_MOST_LEFT_OUT = 3
_MOST_CHARACTERS = 100
_MOST_WORDS = 3  # of the query, for a chunk
_LEAST_SHOWN = 0.005  # of relevance


Words = Mapping[ChunkKey, Sequence[str]]
"""The words of its query that each candidate has, see `words_of`."""


def as_text(trace: RSETrace) -> str:
    """The explanation of a query as lines for a terminal, with the first segments shortened."""
    return "\n".join(visible(line) for line in _lines(trace))


def headline(trace: RSETrace) -> str:
    """Say in one sentence what the best segment is; empty if nothing was returned."""
    if not trace.returned:
        return ""
    segment = max(trace.returned, key=lambda segment: segment.value)
    best = _best_of(segment.chunks)
    highest = max(chunk.relevance for chunk in candidates_of(trace))
    is_best = best.relevance >= highest
    place = f"Mainly {_shorten(name_of_segment(segment))}, chunk"
    count = len(segment.chunks)
    if count == 1:
        return f"{place} {best.index}: the best candidate" if is_best else f"{place} {best.index}"
    role = "the best one" if is_best else f"chunk {best.index}"
    weak = sum(chunk.relevance < trace.settings.penalty for chunk in segment.chunks)
    line = f"{place}s {segment.start} to {segment.end - 1}: {count} chunks around {role}"
    if weak:
        line += f"; {weak} of them would not qualify alone"
    return line


def _best_of(chunks: Iterable[Chunk]) -> Chunk:
    return max(chunks, key=lambda chunk: chunk.relevance)


def summarize(trace: RSETrace) -> str:
    """Say in one line how much was found, returned and spent."""
    limit = trace.settings.max_context_length
    segments = counted(len(trace.returned), "segment")
    candidates = counted(len(candidates_of(trace)), "candidate")
    documents = counted(len(trace.documents), "document")
    spent = f"{trace.spent:,.10g}"
    if limit is not None:
        spent += f" of {limit:,.10g}"
    unit = name_of_function(trace.settings.length_function)
    unit = "characters" if unit == "len" else f"({unit})"
    return f"{segments} of {candidates} in {documents}, {spent} {unit}"


def _lines(trace: RSETrace) -> Iterator[str]:
    yield f"Query: {_shorten(trace.query)}"
    if list(trace.queries) not in ([trace.query], []):
        shown = [_shorten(query) for query in trace.queries[:_MOST_SHOWN]]
        yield f"Searched for: {'; '.join(shown)}"
    yield summarize(trace)
    if trace.returned:
        yield headline(trace)
    if trace.reason:
        yield f"Nothing was returned: {trace.reason}"
    if trace.full_text:
        yield f"Full-text index not searched: {trace.full_text}"
    yield from _floor_lines(trace)
    yield from _answer_lines(trace)
    yield from left_out_lines(trace)
    if trace.penalty is not None and trace.penalty > trace.settings.penalty:
        yield (
            f"The budget was short: only text of relevance {trace.penalty:.3g} or more was returned"
        )
    times = [f"{name} {1e3 * seconds:.1f}" for name, seconds in trace.seconds.items()]
    yield f"Time: {1e3 * sum(trace.seconds.values()):.1f} ms ({', '.join(times)})"


def _floor_lines(trace: RSETrace) -> Iterator[str]:
    """How near the documents come to the queries, if that is known."""
    closeness = closeness_of(trace)
    if closeness:
        yield closeness
    if not trace.returned:
        return  # the reason has said it
    refused = [check for check in trace.floor_checks if check.is_refused]
    for check in refused[:_MOST_SHOWN]:
        facts = {"best": check.reach, "floor": check.floor}
        reason = sentence(Reason.BELOW_THE_FLOOR, trace.settings, facts)
        yield f"Refused, {_shorten(check.query)!r}: {reason}"


def closeness_of(trace: RSETrace) -> str:
    """Say how near the best candidate is, by the answered questions; empty if that is not known."""
    nearest = None
    highest = -1.0
    for check in trace.floor_checks:
        if check.closer_than is not None and not check.is_refused and check.closer_than > highest:
            nearest = check
            highest = check.closer_than
    if nearest is None:
        return ""
    return f"The best passage is closer than {highest:.0%} of {nearest.compared_with}"


def _answer_lines(trace: RSETrace) -> Iterator[str]:
    words = words_of(trace)
    for number, segment in enumerate(trace.returned[:_MOST_SHOWN], start=1):
        yield f"  {number}. {describe_segment(segment)}"
        yield f"     {describe_relevance(segment, words)}"
        yield f"     {_shorten(segment.text)}"
    if len(trace.returned) > _MOST_SHOWN:
        yield f"  and {len(trace.returned) - _MOST_SHOWN} more"


def describe_segment(segment: DocumentSegment) -> str:
    """Where a segment is, and its value."""
    start, end = segment.span
    return (
        f"{_shorten(name_of_segment(segment))}, {_describe_chunks(segment)}, characters "
        f"{start:,} to {end:,}, value {segment.value:.3g}"
    )


def _describe_chunks(segment: DocumentSegment) -> str:
    if len(segment.chunks) == 1:
        return f"chunk {segment.start}"
    best = _best_of(segment.chunks)
    filled = [chunk for chunk in segment.chunks if chunk.candidate is None]
    filled_in = f", {len(filled)} filled in" if filled else ""
    last = segment.end - 1
    return f"chunks {segment.start} to {last} (the best is {best.index}{filled_in})"


def relevance_parts(chunk: Chunk) -> list[tuple[str, str]]:
    """What a chunk's relevance is made of, as names and numbers: what each witness adds, first.

    Empty for chunks without relevance.
    """
    candidate = chunk.candidate
    if candidate is None or not chunk.relevance:
        return []
    parts = []
    for name, relevance in candidate.evidence.items():
        if relevance >= _LEAST_SHOWN:
            parts.append((name, f"{relevance:.2f}"))
    if candidate.name_factor < 1:
        parts.append(("names", f"x {candidate.name_factor:.2f} (another document is named)"))
    less_for_document = sum(candidate.evidence.values()) - chunk.relevance
    if less_for_document >= _LEAST_SHOWN:
        parts.append(("document", f"-{less_for_document:.2f}"))
    return parts


def describe_words(chunk: Chunk, words: Words) -> str:
    """The rarest words of the query that a chunk has; empty for none."""
    if chunk.candidate is None:
        return ""
    return ", ".join(words.get(chunk.candidate.chunk_key, ())[:_MOST_WORDS])


def describe_relevance(segment: DocumentSegment, words: Words) -> str:
    """What the relevance of a segment's best chunk is made of, in a line."""
    chunk = _best_of(segment.chunks)
    parts = [f"{name} {number}" for name, number in relevance_parts(chunk)]
    from_neighbors = chunk.credited - chunk.relevance
    if from_neighbors >= _LEAST_SHOWN:
        parts.append(f"neighbors {from_neighbors:.2f}")
    line = f"relevance of chunk {chunk.index}: {chunk.credited:.2f} ({', '.join(parts)})"
    words_of_query = describe_words(chunk, words)
    return f"{line}; words of the query: {words_of_query}" if words_of_query else line


def left_out_lines(trace: RSETrace) -> Iterator[str]:
    """The candidates that came nearest to being returned, by the reason why they were not."""
    for outcome, group in itertools.groupby(trace.left_out, lambda pair: pair[1].outcome):
        pairs = list(group)
        yield f"Left out, {outcome.label}: {len(pairs):,}"
        for document, chunk in pairs[:_MOST_LEFT_OUT]:
            hit = None if chunk.candidate is None else chunk.candidate.hit
            rank = "by words" if hit is None else f"rank {hit.rank + 1}"
            yield (
                f"  {_shorten(document.name)}, chunk {chunk.index} ({rank}, "
                f"relevance {chunk.relevance:.2f}): {trace.why(chunk)}"
            )


def _shorten(text: str) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text[: 4 * _MOST_CHARACTERS].split())
    if len(line) <= _MOST_CHARACTERS:
        return line
    return f"{line[:_MOST_CHARACTERS]}..."
