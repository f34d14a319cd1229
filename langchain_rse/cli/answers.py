"""Prints the answer to a question, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from langchain_rse._messages import counted
from langchain_rse.cli.output import print_strip, print_text, visible_lines, width_of_lines
from langchain_rse.explaining.bars import strip_of

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from langchain_rse.explaining.records import TracedDocument, TracedReach
    from langchain_rse.explaining.trace import RSETrace

_FOUND = "  found    "
_RETURNED = "  returned "
_LEGEND = (
    "found = chunks matched by the search (taller = more relevant). "
    "value = amount of relevant text in the passage (see --help)."
)


def print_answer(trace: RSETrace, segments: Sequence[Document]) -> None:
    """Print passages in their order, and above those of a document strips of what is where."""
    from langchain_rse.explaining.words import query_words
    from langchain_rse.tools.passages import place_of

    limit = trace.settings["max_context_length"]
    passages = counted(len(segments), "passage")
    print_text(f"{passages}, {trace.spent:,.0f} of at most {limit:,.0f} characters")
    words = query_words(trace.queries)
    printed: list[TracedDocument] = []
    for (document, _), segment in zip(trace.answer, segments, strict=True):
        print_text("")
        if not printed or document is not printed[-1]:
            print_text(document.name, "bold", wrap=False)
            if document not in printed:
                _print_strips(trace, document)
            printed.append(document)
        value = segment.metadata["relevance_score"]
        place = [place_of(segment.metadata), f"value {value:.2f}"]
        print_text(f"--- {', '.join(filter(None, place))}", "bold")
        text = visible_lines(segment.page_content)
        if words:
            text.highlight_regex(words, "bold cyan")
        print_text(text)
    print_text("")
    print_text(_LEGEND, "dim")
    if trace.closeness:
        print_text(f"{trace.closeness}.")


def _print_strips(trace: RSETrace, document: TracedDocument) -> None:
    """Print where in a document the search found chunks, and where the returned passages are."""
    found = []
    for chunk in document.chunks:
        if not chunk.is_candidate or chunk.start_index is None or chunk.end_index is None:
            continue
        found.append((chunk.start_index, chunk.end_index, chunk.relevance))
    returned = []
    for segment in trace.returned_in(document):
        returned.append((segment.start_index, segment.end_index, 1.0))
    length = document.length or 1
    cells = width_of_lines() - len(_FOUND)
    print_strip(_FOUND, strip_of(found, length, cells), "cyan")
    print_strip(_RETURNED, strip_of(returned, length, cells), "green")


def explain_nothing(trace: RSETrace, conditions: Iterable[str]) -> str:
    """Say why nothing is returned, in words for a reader of the command line.

    ``conditions`` are those of --filter. What comes from the trace names arguments in Python.
    """
    filters = " ".join(f"--filter {condition}" for condition in conditions)
    for reached in trace.reached:
        if reached.refused:
            return _explain_refused(reached, filters)
    if trace.candidates:
        return f"Nothing is returned: {trace.reason}."
    if filters:
        return f"No text in the knowledge base has {filters}."
    return "There is no text in the knowledge base."


def _explain_refused(reached: TracedReach, filters: str) -> str:
    within = f" with {filters}" if filters else ""
    numbers = ""
    if reached.reach is not None and reached.floor is not None:
        numbers = f": its distance is {reached.reach:.3g}, and the floor {reached.floor:.3g}"
    return (
        f"Nothing in the documents{within} is about this. The nearest passage, in {reached.name}, "
        f"is too far{numbers}. --score-floor none returns it."
    )
