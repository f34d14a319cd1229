"""Format strings with names only, such as ``{title}``, filled with metadata and other values."""

from collections.abc import Mapping, Sequence
from string import Formatter


def check_template(
    field: str, template: str, known: Sequence[str], metadata: Sequence[str] | None
) -> None:
    """Raise ValueError if a template has no names, or one that is in neither list."""
    names = names_in(template)
    if not names:
        example = f"must contain names, such as {{{known[0]}}}"
        raise ValueError(f"{field} {example}; got {template!r}, the same for every document")
    allowed = [*known, *(names if metadata is None else metadata)]
    if unknown := [name for name in names if name not in allowed]:
        may = f"{field} may name {', '.join(map(repr, allowed))}; got {template!r}"
        raise ValueError(f"{may}. Add fields of metadata, as in metadata={unknown!r}")


def names_in(template: str) -> list[str]:
    """The names in a format string; ValueError if it is malformed or its braces hold more."""
    names = []
    for _, name, spec, conversion in Formatter().parse(template):
        if name is None:
            continue
        if not name or name.isdigit() or spec or conversion:
            raise ValueError(f"only names may stand in braces, such as {{title}}; got {template!r}")
        names.append(name)
    return names


def fill(template: str, values: Mapping[str, object]) -> str:
    """Replace the names in a format string by their values, names without a value by nothing."""
    parts = Formatter().parse(template)
    return "".join(f"{text}{values.get(name or '', '')}" for text, name, _, _ in parts)
