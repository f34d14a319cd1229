"""A trace in a notebook: a strip of each document, and passages that unfold."""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

from langchain_rse.explaining.colors import LIGHT
from langchain_rse.explaining.text import (
    answer_lines,
    describe_passage,
    describe_relevance,
    left_out_lines,
)
from langchain_rse.text.bars import bar_as_html
from langchain_rse.text.quoting import as_html as text_as_html

if TYPE_CHECKING:
    from langchain_rse.explaining.traces import DocumentTrace, RSETrace

_MOST_STRIPS = 6
_BEST = 20  # chunks of the search on a strip
_STYLE = Template("""
.rse-trace { font: 14px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
.rse-trace p { margin: .3rem 0; }
.rse-trace .strip { position: relative; height: .8rem; margin: .1rem 0 .5rem;
  background: rgba(127, 127, 127, .25); }
.rse-trace .strip i, .rse-trace .strip b { position: absolute; min-width: 2px;
  print-color-adjust: exact; }
.rse-trace .strip b { top: 0; bottom: 0; background: $passage; }
.rse-trace .strip i { top: 25%; bottom: 25%; background: $chunk; }
.rse-trace pre { white-space: pre-wrap; font: inherit; margin: .3rem 0 .3rem 1.2rem; }
""").substitute(passage=LIGHT.passage, chunk=LIGHT.chunk)


def as_html(trace: RSETrace) -> str:
    """Explain an answer as HTML for a notebook."""
    rows = [f'<p dir="auto"><strong>{text_as_html(trace.query)}</strong></p>']
    rows += [f"<p>{text_as_html(line)}</p>" for line in answer_lines(trace)]
    rows += [_strip(trace, document) for document in trace.answered[:_MOST_STRIPS]]
    for number, passage in enumerate(trace.returned, start=1):
        title = text_as_html(f"{number}. {describe_passage(trace, passage)}")
        relevance = text_as_html(describe_relevance(trace, passage))
        text = text_as_html(passage.text, "\t\n")
        rows.append(f"<details><summary>{title}</summary><p>{relevance}</p>")
        rows.append(f'<pre dir="auto">{text}</pre></details>')
    left_out = "\n".join(text_as_html(line) for line in left_out_lines(trace))
    if left_out:
        rows.append("<details><summary>Candidates that were not returned</summary>")
        rows.append(f'<pre dir="auto">{left_out}</pre></details>')
    return f'<style>{_STYLE}</style><div class="rse-trace">{"".join(rows)}</div>'


def _strip(trace: RSETrace, document: DocumentTrace) -> str:
    """A document as a strip, with its returned passages and the best chunks of the search."""
    length = document.length or 1
    bars = [bar_as_html("b", *passage.span, length) for _, passage in document.returned]
    for chunk in document.chunks:
        hit = None if chunk.candidate is None else chunk.candidate.hit
        if hit is not None and hit.rank < _BEST and chunk.span is not None:
            bars.append(bar_as_html("i", *chunk.span, length))
    name = text_as_html(trace.short_names[document.name])
    title = f"<div>{name}: returned (blue), among the {_BEST} best chunks (orange)</div>"
    return f'{title}<div class="strip">{"".join(bars)}</div>'
