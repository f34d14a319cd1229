"""Prints the answer to a question, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from langchain_rse.cli.output import print_strip, print_text, visible_lines, width_of_lines
from langchain_rse.text.bars import strip_of
from langchain_rse.text.highlighting import query_words
from langchain_rse.text.quoting import counted
from langchain_rse.text.titles import name_of

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from langchain_rse import RSETrace
    from langchain_rse.explaining import DocumentTrace
    from langchain_rse.query.floor import FloorCheck

_FOUND = "  found    "
_RETURNED = "  returned "
_LEGEND = (
    "found = chunks matched by the search (taller = more relevant). "
    "value = amount of relevant text in the passage (see --help)."
)


def print_answer(trace: RSETrace, segments: Sequence[Document]) -> None:
    """Print passages in their order, and above those of a document strips of what is where."""
    from langchain_rse.tools import place_of

    limit = trace.settings.max_context_length
    passages = counted(len(segments), "passage")
    print_text(f"{passages}, {trace.spent:,.0f} of at most {limit:,.0f} characters")
    words = query_words(trace.queries)
    documents = {document.doc_id: document for document in trace.documents}
    printed: list[str] = []
    for segment in segments:
        doc_id = segment.metadata["doc_id"]
        print_text("")
        if not printed or doc_id != printed[-1]:
            print_text(documents[doc_id].name, "bold", wrap=False)
            if doc_id not in printed:
                _print_strips(documents[doc_id])
            printed.append(doc_id)
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


def _print_strips(document: DocumentTrace) -> None:
    """Print where in a document the search found chunks, and where the returned passages are."""
    found = []
    for chunk in document.chunks:
        if chunk.candidate is not None and chunk.span is not None:
            found.append((*chunk.span, chunk.relevance))
    returned = [(*segment.span, 1.0) for _, segment in document.returned]
    length = document.length or 1
    cells = width_of_lines() - len(_FOUND)
    print_strip(_FOUND, strip_of(found, length, cells), "cyan")
    print_strip(_RETURNED, strip_of(returned, length, cells), "green")


def explain_nothing(trace: RSETrace, conditions: Iterable[str]) -> str:
    """Say why nothing is returned, in words for a reader of the command line.

    ``conditions`` are those of --filter. What comes from the trace names arguments in Python.
    """
    filters = " ".join(f"--filter {condition}" for condition in conditions)
    for check in trace.floor_checks:
        if check.is_refused:
            return _explain_refused(check, filters)
    if trace.left_out:
        return f"Nothing is returned: {trace.reason}."
    if filters:
        return f"No text in the knowledge base has {filters}."
    return "There is no text in the knowledge base."


def _explain_refused(check: FloorCheck, filters: str) -> str:
    within = f" with {filters}" if filters else ""
    numbers = ""
    if check.reach is not None and check.floor is not None:
        numbers = f": its distance is {check.reach:.3g}, and the floor {check.floor:.3g}"
    nearest = check.best
    place = "" if nearest is None else f", in {name_of(nearest.doc_id, nearest.document.metadata)},"
    return (
        f"Nothing in the documents{within} is about this. The nearest passage{place} "
        f"is too far{numbers}. --score-floor none returns it."
    )
