"""Leaves out candidates that do not count: those of older versions, and copies of better ones."""

from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

from langchain_rse.config import QuerySettings
from langchain_rse.engine.relevance import lower_words
from langchain_rse.query.searching import Candidate, Place
from langchain_rse.stores.reading import Layout, Layouts

# Near copies: the number of words in each sequence compared, and the share of equal sequences.
_ROW, _NEARLY_ALL = 5, 0.8

Ranked = Sequence[tuple[Candidate, float]]
"""Candidates with their relevance, best first."""


class LeftOut(NamedTuple):
    """A candidate that does not count, and the reason."""

    candidate: Candidate
    relevance: float  # if it counted
    outcome: str  # such as "older version" or "duplicate"
    of: str | None = None  # the document that has the same text, if it is a duplicate


def is_current(layout: object, version: str) -> TypeGuard[Layout]:
    """True for the layout of a document whose current version, which queries see, is this one."""
    return isinstance(layout, Layout) and layout.version == version


def left_out_of(ranked: Ranked, layouts: Layouts, settings: QuerySettings) -> dict[Place, LeftOut]:
    """Find the candidates in known documents that are old, or copies of better candidates."""
    left_out: dict[Place, LeftOut] = {}
    first: dict[str, Layout] = {}  # the best document with a text, by the text's digest
    known = [(candidate, r) for candidate, r in ranked if candidate.key in layouts]
    for candidate, relevance in known:
        layout = layouts[candidate.key]
        if not is_current(layout, candidate.version):
            left_out[candidate.place] = LeftOut(candidate, relevance, "older version")
            continue
        text = layout.manifest.text_digest if settings.duplicates != "keep" else ""
        if text and (same := first.setdefault(text, layout)) is not layout:
            of = same.manifest.doc_id
            left_out[candidate.place] = LeftOut(candidate, relevance, "duplicate", of)
    if settings.duplicates == "drop_near":
        others = [pair for pair in known if pair[0].place not in left_out]
        left_out |= _near_copies(others, layouts)
    return left_out


def _near_copies(ranked: Ranked, layouts: Layouts) -> dict[Place, LeftOut]:
    """Find candidates whose word sequences are nearly all in better ones of other documents."""
    copies: dict[Place, LeftOut] = {}
    first: dict[tuple[bytes, ...], Candidate] = {}  # the best candidate with a sequence of words
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
