"""Format strings that are filled in as plain text: names stand for values and nothing else."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Piece", "fill", "parse"]

Piece = tuple[str, str | None]
"""Text, and the name of what follows it."""


def parse(template: str, wanted: str, reserved: Sequence[str] = ()) -> list[Piece]:
    """The pieces of a format string.

    Args:
        template: The format string; literal braces are doubled.
        wanted: Begins the error: what the template must be.
        reserved: Names with which no other may begin, as in ``metadata[source]``. Others may
            have dots and brackets in them: they are names of metadata fields.

    Raises:
        ValueError: If it is no format string, or has anything but names in braces.
    """
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{wanted}; got {template!r}: {error}") from error
    inside = re.compile(rf"({'|'.join(map(re.escape, reserved))})[.\[]") if reserved else None
    for _, name, spec, conversion in parsed:
        if name is None:
            continue
        is_name = bool(name) and name == name.strip() and not name.isdigit()
        if spec or conversion or not is_name or (inside and inside.match(name)):
            raise ValueError(
                f"{wanted}; got {template!r}, in which what stands for {name!r} is not just a name"
            )
    return [(text, name) for text, name, _, _ in parsed]


def fill(pieces: Iterable[Piece], values: Mapping[str, object]) -> str:
    """The text of a template; nothing stands for names without a value.

    Put together by hand: ``str.format`` would take a dot in a name for an attribute.
    """
    return "".join(
        text if name is None else f"{text}{values.get(name, '')}" for text, name in pieces
    )
