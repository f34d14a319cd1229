"""Makes foreign text safe and short to show: in a terminal, a page, a message or a prompt."""

import html
import re
from collections.abc import Iterable
from typing import Any

UNENCODABLE = re.compile("[\x00\ud800-\udfff]")
"""Characters that some database or model cannot take: NUL and lone surrogates."""

# Control characters, line separators, characters that change the direction of writing, and lone
# surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, allowed: str = "") -> str:
    """Escape characters that could control a terminal, or that it cannot print, as ``repr`` does.

    Characters in ``allowed``, such as line breaks, are kept.
    """

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character in allowed:
            return character
        return ascii(character)[1:-1]

    return _UNSAFE.sub(escape, text)


def as_html(text: str, allowed: str = "") -> str:
    """Write a text for HTML, in which it stays text; ``allowed`` is that of `visible`."""
    return html.escape(visible(text, allowed))


def encodable(text: str) -> str:
    """Replace characters that databases or models cannot take (`UNENCODABLE`) by U+FFFD."""
    try:
        text.encode()  # ten times faster than the expression
    except UnicodeEncodeError:
        return UNENCODABLE.sub("\ufffd", text)
    if "\x00" not in text:
        return text
    return UNENCODABLE.sub("\ufffd", text)


def join_surrogates(value: Any) -> Any:  # noqa: ANN401 - the same type as the value's
    """Join pairs of surrogates to the characters they stand for, in a text or all texts of a value.

    Half an emoji stays as it is.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return value
    if isinstance(value, list):
        return [join_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {join_surrogates(name): join_surrogates(item) for name, item in value.items()}
    return value


def as_unicode(text: str) -> str:
    """Make a text that databases and models can take: half an emoji and NUL become U+FFFD."""
    return encodable(join_surrogates(text))


def shortened(text: str, length: int) -> str:
    """Cut a text after ``length`` characters; "..." at its end says so."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def one_line(value: object, length: int = 500) -> str:
    """Show a value as one line of at most ``length`` characters; None as an empty one."""
    if value is None:
        return ""
    return shortened(" ".join(str(value).split()), length)


def counted(number: int, noun: str) -> str:
    """A number and what it counts: "1 chunk", "2,000 chunks"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def first_few(items: Iterable[str], limit: int = 5) -> str:
    """Join the first ``limit`` items with commas, and say how many others there are."""
    listed = list(items)
    text = ", ".join(listed[:limit])
    if len(listed) > limit:
        text += f" and {len(listed) - limit} more"
    return text
