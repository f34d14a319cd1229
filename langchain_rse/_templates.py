"""Format strings with names only, such as ``{title}``, filled with metadata and other values."""

from collections.abc import Mapping, Sequence
from string import Formatter


def check_template(
    parameter: str, template: str, names: Sequence[str], metadata: Sequence[str] | None
) -> None:
    """Check that a template has names, and only names that can have a value.

    Args:
        parameter: The parameter that holds the template, for messages.
        template: The format string.
        names: Names that stand for something else than a metadata field.
        metadata: Metadata fields that may be named; None for any.

    Raises:
        ValueError: If the template has no names, or a name that is not allowed.
    """
    named = names_in(template)
    if not named:
        raise ValueError(
            f"{parameter} must contain names, such as {{{names[0]}}}; got {template!r}, which is "
            "the same for every document"
        )
    if metadata is None:
        return
    allowed = [*names, *metadata]
    unknown = [name for name in named if name not in allowed]
    if unknown:
        raise ValueError(
            f"{parameter} may name {', '.join(map(repr, allowed))}; got {template!r}. To name "
            f"other metadata fields, list them, as in metadata={unknown!r}"
        )


def names_in(template: str) -> list[str]:
    """List the names in a format string; a ValueError if its braces hold anything but names."""
    names = []
    for _, name, spec, conversion in Formatter().parse(template):
        if name is None:  # text after the last brace
            continue
        if not name or name.isdigit() or spec or conversion:
            raise ValueError(f"only names may stand in braces, such as {{title}}; got {template!r}")
        names.append(name)
    return names


def fill(template: str, values: Mapping[str, object]) -> str:
    """Replace the names in a format string by their values; names without a value by nothing."""
    parts = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            parts.append(f"{values.get(name, '')}")
    return "".join(parts)
