"""Decodes HTML."""

import html
import re

# Python refuses to parse numbers with thousands of digits; character codes have fewer than 20.
_LONG_NUMBER = re.compile("&#[0-9]{20,};?")
_NO_CHARACTER = "\ufffd"


def unescape(text: str) -> str:
    """Decode HTML entities; numbers too long for any character become U+FFFD."""
    return html.unescape(_LONG_NUMBER.sub(_NO_CHARACTER, text))
