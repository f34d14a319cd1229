"""Detects text that looks like code or a table, to show it in a monospaced font."""

import re

# A line matches if it has columns (a tab, three spaces or a bar between words) or looks like code:
# it ends with a bracket, a semicolon or a backslash, or begins with an assignment, a call, or a
# keyword of a block that ends with a colon.
_LINE = re.compile(
    r".*\S(?:\t| {3,})\S"
    r"|.*\S ?\| ?\S"
    r"|\s*\+[-=+]+\+\s*$"  # the rule of a table
    r"|.*[;{}()\[\]\\]\s*$"
    r"|\s*[\w.\[\]]+(?: [-+*/|]?= |=|\()\S"
    r"|\s*(?:if|elif|else|for|while|try|except|with|def|class|case|switch)\b.*:\s*$"
)
_LEAST_LINES = 2
_MOST_LINES = 200  # only the first lines of a text are checked


def looks_like_code(text: str) -> bool:
    """True if at least half of the lines of a text, and at least two, look like code or a table."""
    lines = [line for line in text.split("\n", _MOST_LINES)[:_MOST_LINES] if line.strip()]
    alike = sum(_LINE.match(line) is not None for line in lines)
    return alike >= _LEAST_LINES and 2 * alike >= len(lines)
