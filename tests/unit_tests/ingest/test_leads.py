"""What a user relies on where lines introduce what follows: no chunk ends with such a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.ingest.default_splitter import start_of_lead
from tests.unit_tests.ingest.test_headings import chunks_of

SENTENCE = "The heron waits in the reeds until a fish comes near. "

LEADS = {
    "a term": ("heron.wait(time)", "\n\n    Waits for a fish."),
    "several terms": ("heron.wait(time)\nheron.wait()", "\n\n    Wait for a fish."),
    "a directive": (".. code-block:: python", "\n\n    heron.wait()"),
    "above a list": ("Herons wait:", "\n\n- in reeds"),
    "above indented text": ("Herons wait like this:", "\n\n   heron.wait()"),
    "above a table": ("Herons by lake:", "\n\n| lake | herons |\n|---|---|\n| A | 1 |"),
    "above a list behind no-break spaces": ("Herons wait:", "\n\n\xa0\xa0- in reeds"),
    "a term above no-break spaces": ("heron.wait(time)", "\n\xa0 \xa0 Waits for a fish."),
    "of two lines": ("Where herons wait, and how\nlong they do:", "\n\n* in reeds"),
    "above a definition": ("These wait:\n\nheron.wait(time)", "\n\n    Waits for a fish."),
    "a long line": (f"{SENTENCE * 4}It waits:", "\n\n- in reeds"),
}

NO_LEADS = {
    "a sentence above a quotation": "The heron waits.\n\n    It does.",
    "a line of a paragraph": "The heron waits,\n    as it does.",
    "a long line above indented text": "The heron waits " * 8 + "\n\n    It does.",
    "a colon above text": "He said:\n\nWait.",
    "a line at the end": "Herons wait:",
}


@pytest.mark.parametrize("kind", LEADS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=repr)
def test_a_line_that_introduces_is_in_the_chunk_of_what_follows(kind: str, line_end: str) -> None:
    lead, below = (part.replace("\n", line_end) for part in LEADS[kind])
    before = f"{SENTENCE}{line_end}{line_end}"
    first = len(before) + len(lead)
    last_lead_line = before + lead.rpartition("\n")[0]
    start = start_of_lead(f"{before}{lead}{below}", first + len(line_end))
    assert len(last_lead_line) <= start < first
    # Whatever room is left for it, also if it is as long as the line.
    for size in range(max(2 * len(lead) + 9, 140), 800, 4):
        filled = f"{SENTENCE * (size // len(SENTENCE))}{line_end}{line_end}{lead}{below}"
        last_line = lead.rsplit(line_end, 1)[-1]
        assert not any(chunk.endswith(last_line) for chunk in chunks_of(filled, size))


@pytest.mark.parametrize("kind", NO_LEADS)
def test_other_lines_may_end_a_chunk(kind: str) -> None:
    lead, line_end, below = NO_LEADS[kind].partition("\n")
    text = f"{SENTENCE}\n\n{lead}{line_end}{below}"
    position = len(text) - len(below)
    assert start_of_lead(text, position) == position


TEXT = st.integers(1, 12).map(lambda count: ("text", "", SENTENCE * count))
NUMBER = st.integers(0, 9999)
TERM = st.builds(
    lambda number, count: ("lead", f"heron{number}(time)", f"    {SENTENCE * count}"),
    NUMBER,
    st.integers(1, 9),
)
INTRODUCTION = st.builds(
    lambda number, count, mark: (
        "lead",
        f"Heron {number} waits:",
        "\n".join([f"{mark} {SENTENCE.strip()}"] * count),
    ),
    NUMBER,
    st.integers(1, 9),
    st.sampled_from(["-", "1.", "(a)"]),
)
RULE = st.sampled_from(["---", "* * *", "====="]).map(lambda rule: ("text", "", rule))


@given(
    st.lists(st.one_of(TEXT, TERM, INTRODUCTION, RULE), min_size=1, max_size=20),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(150, 500),
)
def test_no_chunk_of_any_document_ends_with_what_introduces_the_next(
    blocks: list[tuple[str, str, str]], line_end: str, size: int
) -> None:
    text = ""
    endings: set[int] = set()  # where no chunk may end
    for kind, lead, below in blocks:
        if kind == "lead":
            text += lead
            endings.add(len(text))
            text += 2 * line_end
        text += below.replace("\n", line_end) + 2 * line_end
    start = 0
    for chunk in chunks_of(text, size):
        assert len(chunk) <= size
        start = text.index(chunk, start)
        assert start + len(chunk) not in endings
        start += len(chunk)
