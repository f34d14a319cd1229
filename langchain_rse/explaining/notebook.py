"""A traced query in a notebook: a strip of each document, and the segments to unfold."""

from __future__ import annotations

import html
from collections.abc import Iterator

from langchain_rse._messages import visible
from langchain_rse.explaining.records import TracedDocument, TracedQuery
from langchain_rse.explaining.text import (
    closeness_of,
    describe_segment,
    headline,
    left_out_lines,
    summarize,
)

_MOST_STRIPS = 6
_BEST = 20  # chunks of the search that strips show
_STYLE = """
.rse-trace { font: 14px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
.rse-trace p { margin: .3rem 0; }
.rse-trace .strip { position: relative; height: .8rem; margin: .1rem 0 .5rem;
  background: rgba(127, 127, 127, .25); }
.rse-trace .strip i, .rse-trace .strip b { position: absolute; min-width: 2px;
  print-color-adjust: exact; }
.rse-trace .strip b { top: 0; bottom: 0; background: #0072b2; }
.rse-trace .strip i { top: 25%; bottom: 25%; background: #d55e00; }
.rse-trace pre { white-space: pre-wrap; font: inherit; margin: .3rem 0 .3rem 1.2rem; }
"""


def as_html(trace: TracedQuery) -> str:
    """The explanation of a query for a notebook."""
    return f'<style>{_STYLE}</style><div class="rse-trace">{"".join(_parts(trace))}</div>'


def _parts(trace: TracedQuery) -> Iterator[str]:
    yield f'<p dir="auto"><strong>{_text(trace.query)}</strong></p>'
    if trace.reason:
        yield f"<p>Nothing was returned: {_text(trace.reason)}</p>"
    for line in (headline(trace), summarize(trace), closeness_of(trace)):
        if line:
            yield f"<p>{_text(line)}</p>"
    returned = {document.doc_id: document for document, _ in trace.answer}
    for document in list(returned.values())[:_MOST_STRIPS]:
        yield from _strip(trace, document)
    for document, segment in trace.answer:
        title = f"{segment.number}. {describe_segment(document, segment)}"
        text = _text(segment.text, "\t\n")
        yield f'<details><summary>{_text(title)}</summary><pre dir="auto">{text}</pre></details>'
    left_out = "\n".join(visible(line) for line in left_out_lines(trace))
    if left_out:
        yield '<details><summary>What was left out</summary><pre dir="auto">'
        yield f"{html.escape(left_out)}</pre></details>"


def _strip(trace: TracedQuery, document: TracedDocument) -> Iterator[str]:
    """A document as a strip: its returned segments, and the best chunks of the search."""
    length = document.length or 1
    bars = []
    for segment in trace.segments:
        if segment.returned and segment.doc_id == document.doc_id:
            bars.append(_bar("b", segment.start_index, segment.end_index, length))
    for chunk in document.chunks:
        is_best = chunk.rank is not None and chunk.rank < _BEST
        if is_best and chunk.start_index is not None and chunk.end_index is not None:
            bars.append(_bar("i", chunk.start_index, chunk.end_index, length))
    yield f"<div>{_text(document.name)}: returned (blue), the {_BEST} best chunks (orange)</div>"
    yield f'<div class="strip">{"".join(bars)}</div>'


def _bar(tag: str, start: int, end: int, length: int) -> str:
    left = 100 * start / length
    width = 100 * (end - start) / length
    return f'<{tag} style="left:{left:.2f}%;width:{width:.2f}%"></{tag}>'


def _text(text: str, allowed: str = "") -> str:
    return html.escape(visible(text, allowed))
