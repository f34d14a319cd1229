"""A trace in a notebook: a strip of each document, and the segments to unfold."""

from __future__ import annotations

from collections.abc import Iterator
from string import Template

from langchain_rse.explaining.bars import bar_as_html
from langchain_rse.explaining.colors import LIGHT
from langchain_rse.explaining.text import (
    closeness_of,
    describe_relevance,
    describe_segment,
    headline,
    left_out_lines,
    summarize,
)
from langchain_rse.explaining.views import DocumentTrace, answered_documents, words_of
from langchain_rse.query.trace import RSETrace
from langchain_rse.text.quoting import as_html as text_as_html

_MOST_STRIPS = 6
_BEST = 20  # chunks of the search that strips show
_STYLE = Template("""
.rse-trace { font: 14px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
.rse-trace p { margin: .3rem 0; }
.rse-trace .strip { position: relative; height: .8rem; margin: .1rem 0 .5rem;
  background: rgba(127, 127, 127, .25); }
.rse-trace .strip i, .rse-trace .strip b { position: absolute; min-width: 2px;
  print-color-adjust: exact; }
.rse-trace .strip b { top: 0; bottom: 0; background: $segment; }
.rse-trace .strip i { top: 25%; bottom: 25%; background: $chunk; }
.rse-trace pre { white-space: pre-wrap; font: inherit; margin: .3rem 0 .3rem 1.2rem; }
""").substitute(segment=LIGHT.segment, chunk=LIGHT.chunk)


def as_html(trace: RSETrace) -> str:
    """The explanation of a query for a notebook."""
    return f'<style>{_STYLE}</style><div class="rse-trace">{"".join(_parts(trace))}</div>'


def _parts(trace: RSETrace) -> Iterator[str]:
    yield f'<p dir="auto"><strong>{text_as_html(trace.query)}</strong></p>'
    if trace.reason:
        yield f"<p>Nothing was returned: {text_as_html(trace.reason)}</p>"
    for line in (headline(trace), summarize(trace), closeness_of(trace)):
        if line:
            yield f"<p>{text_as_html(line)}</p>"
    for document in answered_documents(trace)[:_MOST_STRIPS]:
        yield from _strip(document)
    words = words_of(trace)
    for number, segment in enumerate(trace.returned, start=1):
        title = text_as_html(f"{number}. {describe_segment(segment)}")
        relevance = text_as_html(describe_relevance(segment, words))
        text = text_as_html(segment.text, "\t\n")
        yield f"<details><summary>{title}</summary><p>{relevance}</p>"
        yield f'<pre dir="auto">{text}</pre></details>'
    left_out = "\n".join(text_as_html(line) for line in left_out_lines(trace))
    if left_out:
        yield "<details><summary>What was left out</summary>"
        yield f'<pre dir="auto">{left_out}</pre></details>'


def _strip(document: DocumentTrace) -> Iterator[str]:
    """A document as a strip: its returned segments, and the best chunks of the search."""
    length = document.length or 1
    bars = []
    for _, segment in document.returned:
        bars.append(bar_as_html("b", *segment.span, length))
    for chunk in document.chunks:
        hit = None if chunk.candidate is None else chunk.candidate.hit
        if hit is not None and hit.rank < _BEST and chunk.span is not None:
            bars.append(bar_as_html("i", *chunk.span, length))
    name = text_as_html(document.name)
    yield f"<div>{name}: returned (blue), the {_BEST} best chunks (orange)</div>"
    yield f'<div class="strip">{"".join(bars)}</div>'
