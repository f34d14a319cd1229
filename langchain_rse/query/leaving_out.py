"""Which candidates do not count: those of older versions, and copies of better ones."""

from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

from langchain_rse.config import QuerySettings
from langchain_rse.engine.relevance import lower_words
from langchain_rse.query.searching import Candidate, Place
from langchain_rse.stores.reading import Layout, Layouts

# Near copies: so many words in a row are compared, and such a share of them is the same.
_ROW, _NEARLY_ALL = 5, 0.8

Ranked = Sequence[tuple[Candidate, float]]
"""Candidates with their relevance, best first."""


class LeftOut(NamedTuple):
    """Why a candidate does not count."""

    candidate: Candidate
    relevance: float  # that it would have
    outcome: str  # such as "older version" or "duplicate"
    of: str | None = None  # the document that has the same text, if it is a duplicate


def is_current(layout: object, version: str) -> TypeGuard[Layout]:
    """True for the layout of a document of which queries see this version."""
    return isinstance(layout, Layout) and layout.version == version


def left_out_of(ranked: Ranked, layouts: Layouts, settings: QuerySettings) -> dict[Place, LeftOut]:
    """The candidates that do not count, as far as is known: old ones, and copies of better ones."""
    left_out: dict[tuple[str, str], tuple[str, str | None]] = {}
    first: dict[str, Layout] = {}
    for key, version in dict.fromkeys((c.key, c.version) for c, _ in ranked if c.key in layouts):
        layout = layouts[key]
        if not is_current(layout, version):
            left_out[key, version] = "older version", None
            continue
        text = layout.manifest.text_digest if settings.duplicates != "keep" else ""
        if text and (known := first.setdefault(text, layout)) is not layout:
            left_out[key, version] = "duplicate", known.manifest.doc_id
    places = {
        c.place: LeftOut(c, relevance, *left_out[c.key, c.version])
        for c, relevance in (ranked if left_out else ())
        if (c.key, c.version) in left_out
    }
    if settings.duplicates == "drop_near":
        others = [pair for pair in ranked if pair[0].key in layouts and pair[0].place not in places]
        places |= _near_copies(others, layouts)
    return places


def _near_copies(ranked: Ranked, layouts: Layouts) -> dict[Place, LeftOut]:
    """Candidates of which better ones of other documents have nearly all, word by word."""
    copies: dict[Place, LeftOut] = {}
    first: dict[tuple[bytes, ...], Candidate] = {}  # which document has some words in a row
    for candidate, relevance in ranked:
        layout, text = layouts[candidate.key], candidate.document.page_content
        header = layout.manifest.header if isinstance(layout, Layout) else ""
        words = lower_words(text.removeprefix(header)).split()
        starts = range(max(len(words) - _ROW + 1, 1))
        rows = dict.fromkeys(tuple(words[n : n + _ROW]) for n in starts)
        known = [first[row] for row in rows if row in first and first[row].key != candidate.key]
        if len(known) >= _NEARLY_ALL * len(rows):
            copies[candidate.place] = LeftOut(candidate, relevance, "duplicate", known[0].doc_id)
        else:
            first.update(dict.fromkeys(rows.keys() - first.keys(), candidate))
    return copies
