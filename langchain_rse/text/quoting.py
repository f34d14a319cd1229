"""Makes untrusted text safe and short for a terminal, a page, a message or a prompt."""

import html
import re
from collections.abc import Iterable

UNENCODABLE = re.compile("[\x00\ud800-\udfff]")
"""Characters that some databases or models reject: NUL and lone surrogates."""

# Control characters, line separators, bidirectional controls, and lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, allowed: str = "") -> str:
    """Escape characters that control a terminal or cannot be printed, like ``repr``.

    Characters in ``allowed``, such as line breaks, are kept.
    """

    def escape(match: re.Match[str]) -> str:
        return match[0] if match[0] in allowed else ascii(match[0])[1:-1]

    return _UNSAFE.sub(escape, text)


def as_html(text: str, allowed: str = "") -> str:
    """Escape a text for HTML; ``allowed`` is the same as in `visible`."""
    return html.escape(visible(text, allowed))


def encodable(text: str) -> str:
    """Make a text that databases and models accept.

    Surrogate pairs are joined to characters; lone surrogates and NUL become U+FFFD.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\x00", "\ufffd")


def shortened(text: str, length: int) -> str:
    """Cut a text to ``length`` characters; a cut text ends with "..."."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def one_line(value: object, length: int = 500) -> str:
    """Format a value as one line of at most ``length`` characters; None becomes ""."""
    text = "" if value is None else str(value)
    return shortened(" ".join(text.split()), length)


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: "1 chunk", "2,000 chunks"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def first_few(items: Iterable[str], limit: int = 5, separator: str = ", ") -> str:
    """Join the first ``limit`` items, followed by the number of further items."""
    listed = list(items)
    text = separator.join(listed[:limit])
    if len(listed) > limit:
        text += f" and {len(listed) - limit} more"
    return text


def format_range(start: int, end: int) -> str:
    """Format a range with thousands separators and an en dash; one number if both are equal."""
    if start == end:
        return f"{start:,}"
    return f"{start:,}\u2013{end:,}"
