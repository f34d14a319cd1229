import pytest

from langchain_rse.text.ranges import format_range


def test_ranges_have_one_format() -> None:
    assert format_range(4792, 5038) == "4,792\u20135,038"
    assert format_range(7, 7) == "7"


@pytest.mark.parametrize(
    ("encoding", "dash"),
    [("utf-8", "\u2013"), ("cp1252", "\u2013"), ("ascii", "-"), ("no-such", "-"), (None, "-")],
)
def test_terminals_without_an_en_dash_get_a_hyphen(encoding: str | None, dash: str) -> None:
    assert format_range(1, 2, encoding) == f"1{dash}2"
