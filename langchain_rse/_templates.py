"""Templates: format strings with plain names such as ``{title}``, filled from metadata."""

from collections.abc import Mapping, Sequence
from string import Formatter


def check_template(
    parameter: str, template: str, names: Sequence[str], metadata: Sequence[str] | None
) -> None:
    """Check that a template contains names, all of them allowed.

    Args:
        parameter: Name of the template's parameter, for messages.
        template: The format string.
        names: Allowed names that are not metadata fields.
        metadata: Allowed metadata fields; None allows all.

    Raises:
        ValueError: If the template contains no name, or a name that is not allowed.
    """
    named = names_in(template)
    if not named:
        raise ValueError(
            f"{parameter} must contain a name in braces, such as {{{names[0]}}}; got {template!r}, "
            "which is the same for every document"
        )
    if metadata is None:
        return
    allowed = [*names, *metadata]
    unknown = [name for name in named if name not in allowed]
    if unknown:
        raise ValueError(
            f"{parameter} may use only the names {', '.join(map(repr, allowed))}; got "
            f"{template!r}. To use other metadata fields, list them: metadata={unknown!r}"
        )


def names_in(template: str) -> list[str]:
    """List the names in a format string; raise a ValueError if braces contain anything else."""
    names = []
    for _, name, spec, conversion in Formatter().parse(template):
        if name is None:  # text after the last brace
            continue
        if not name or name.isdigit() or spec or conversion:
            raise ValueError(f"braces may contain only a name, as in {{title}}; got {template!r}")
        names.append(name)
    return names


def fill(template: str, values: Mapping[str, object]) -> str:
    """Replace the names in a format string with their values, or with "" if they have none."""
    parts = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            parts.append(f"{values.get(name, '')}")
    return "".join(parts)
