"""Ranges of numbers, such as the characters of a passage, as people read them."""

_EN_DASH = "\u2013"


def format_range(start: int, end: int, encoding: str | None = "utf-8") -> str:
    """A range with thousands separators and an en dash; one number if both are the same.

    Args:
        start: The first number.
        end: The last number, written as it is.
        encoding: The encoding of the terminal that shows it; where it has no en dash, or is
            unknown (None), a hyphen stands in its place.
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
