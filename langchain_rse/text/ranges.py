"""Formats ranges of numbers, such as the characters of a passage, for people."""

_EN_DASH = "\u2013"


def format_range(start: int, end: int, encoding: str | None = "utf-8") -> str:
    """Format a range with thousands separators and an en dash; equal numbers are written once.

    Args:
        start: The first number.
        end: The last number.
        encoding: The encoding of the terminal. If it has no en dash, or is unknown (None), the
            range is written with a hyphen.
    """
    if start == end:
        return f"{start:,}"
    return f"{start:,}{_dash_of(encoding)}{end:,}"


def _dash_of(encoding: str | None) -> str:
    try:
        _EN_DASH.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return "-"
    return _EN_DASH
