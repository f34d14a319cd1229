"""The colors of passages and chunks, the same in comparisons, traces and plots."""

from typing import NamedTuple


class Colors(NamedTuple):
    """The colors on a light or a dark background, as CSS and matplotlib read them."""

    background: str
    panel: str  # behind texts
    ink: str
    line: str  # of a limit, such as the penalty
    passage: str
    chunk: str  # a candidate, or what another retriever returned
    other: str  # of a third kind
    passage_mark: str  # behind text that only the passages have
    chunk_mark: str  # behind text that only the chunks have


# Passage and chunk are Okabe and Ito's colors, which color-blind people can tell apart.
LIGHT = Colors(
    background="#ffffff",
    panel="#f2f2f2",
    ink="#1b1f24",
    line="#b3261e",
    passage="#0072b2",
    chunk="#d55e00",
    other="#7f7f7f",
    passage_mark="#cfe8f7",
    chunk_mark="#fbdcc8",
)
DARK = Colors(
    background="#121212",
    panel="#1e1e1e",
    ink="#e6e9ec",
    line="#ff8a80",
    passage="#56b4e9",
    chunk="#e8853a",
    other="#a6a6a6",
    passage_mark="#124a6b",
    chunk_mark="#6b3312",
)
