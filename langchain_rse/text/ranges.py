"""Formats ranges of numbers, such as the characters of a passage, for people."""

_EN_DASH = "\u2013"


def format_range(start: int, end: int, encoding: str | None = "utf-8") -> str:
    """Format a range with thousands separators and an en dash; one number if both are equal.

    Args:
        start: The first number.
        end: The last number, unchanged.
        encoding: The encoding of the terminal. If it is unknown (None) or has no en dash, a
            hyphen is used.
    """
    if start == end:
        return f"{start:,}"
    dash = _EN_DASH
    try:
        dash.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        dash = "-"
    return f"{start:,}{dash}{end:,}"
