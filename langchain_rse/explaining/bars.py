"""Bars on a strip that stands for a document, in HTML."""


def bar_as_html(tag: str, start: int, end: int, length: int) -> str:
    """Draw the characters from ``start`` to before ``end`` of a document of that length."""
    left = 100 * start / length
    width = 100 * (end - start) / length
    return f'<{tag} style="left:{left:.2f}%;width:{width:.2f}%"></{tag}>'
