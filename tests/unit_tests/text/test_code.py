"""Which texts look like code or tables."""

from __future__ import annotations

import time

import pytest

from langchain_rse.text.code import looks_like_code

PYTHON = """def rent(contract):
    total = contract.rent
    if contract.is_late:
        total += fee(contract)
    return total"""
JAVASCRIPT = """const rentOf = (contract) => {
  return contract.rent;
};"""
MARKDOWN_TABLE = """| month | rent |
| --- | --- |
| May | 900 |"""
COLUMNS = """Month     Rent     Fee
May       900      0
June      900      25"""
TABS = "month\trent\nMay\t900"
PROSE = """Rent is due each month, as the contract says:
if it is late, a fee is due. The fee (25 dollars) is
for each week; with a notice, it is waived."""
LIST = """- Rent, fees and taxes
- The notice (by letter)
  and its terms: see below
- Pets"""
VERSE = """Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date;
Sometime too hot the eye of heaven shines,"""


@pytest.mark.parametrize("text", [PYTHON, JAVASCRIPT, MARKDOWN_TABLE, COLUMNS, TABS])
def test_code_and_tables(text: str) -> None:
    assert looks_like_code(text)


@pytest.mark.parametrize("text", [PROSE, LIST, VERSE, "", "rent = 900", "شقق\nبيت"])
def test_ordinary_text(text: str) -> None:
    assert not looks_like_code(text)


@pytest.mark.parametrize("piece", [" ", "(", "a ", "a   ", "if ", "a.", "|", "\n", "a = "])
def test_time_grows_with_the_text_only(piece: str) -> None:
    begun = time.perf_counter()
    looks_like_code(piece * 200_000)
    assert time.perf_counter() - begun < 2
