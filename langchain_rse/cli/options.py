"""Options of several commands. Those that set a field of a query have its name and description."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from langchain_rse.config import PRESETS, QuerySettings, RSEConfig, read_settings

# Not between the values of a field.
_END_OF_STATEMENT = re.compile(r"\. |; (?!\")")
BUDGET = QuerySettings.model_fields["max_context_length"].default


def _option(field: str, *other_names: str, note: str = "", metavar: str | None = None) -> Any:  # noqa: ANN401 - as in typer
    """An option for a field of the settings of a query; its help is how the field's begins."""
    description = QuerySettings.model_fields[field].description or ""
    statement = _END_OF_STATEMENT.split(" ".join(description.replace("`", "").split()))[0]
    text = f"{statement.rstrip('.')}. {note}".strip()
    return typer.Option(f"--{field.replace('_', '-')}", *other_names, help=text, metavar=metavar)


Folder = Annotated[
    Path, typer.Option("--kb", help="Folder of the knowledge base.", file_okay=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Question = Annotated[str, typer.Argument(metavar="QUESTION", help="The question.")]

K = Annotated[int, _option("k")]
Budget = Annotated[int, _option("max_context_length")]
Order = Annotated[str, _option("order")]
Penalty = Annotated[float | None, _option("irrelevant_chunk_penalty", "--penalty")]
Hybrid = Annotated[float | None, _option("hybrid")]
ScoreFloor = Annotated[
    str | None,
    _option("score_floor", note="none: no floor. Default: set by `index`.", metavar="NUMBER"),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help=f"How segments are chosen: {', '.join(PRESETS)}. Default: {next(iter(PRESETS))}."
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        help="Settings file written by `evaluate --save-config`. Options on the command line "
        "override it.",
        exists=True,
        dir_okay=False,
    ),
]


def settings(
    config: Path | None,
    preset: str | None,
    penalty: float | None,
    hybrid: float | None,
    score_floor: str | None,
) -> dict[str, Any]:
    """Make the fields of a retriever: those of a file, replaced by options that are given."""
    if config and preset:
        raise ValueError("--config and --preset both say how segments are chosen: give one of them")
    fields = read_settings(config) if config else {}
    if preset:
        fields["config"] = RSEConfig.of(preset)
    for name, value in (("irrelevant_chunk_penalty", penalty), ("hybrid", hybrid)):
        if value is not None:
            fields[name] = value
    if score_floor is not None:
        fields["score_floor"] = _floor_of(score_floor)
    return fields


def _floor_of(text: str) -> float | str | None:
    """Read a floor: a number, or none; the retriever refuses other texts."""
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        return text


def filter_of(
    conditions: Iterable[str], find_document: Callable[[str], str]
) -> dict[str, Any] | None:
    """Make a filter from conditions NAME=VALUE, all of which must hold.

    ``find_document`` returns the source of the document that a value of ``source`` names.
    """
    filters = []
    for condition in conditions:
        name, separator, text = condition.partition("=")
        if not name or not separator:
            raise typer.BadParameter(f"{condition!r} is not NAME=VALUE", param_hint="--filter")
        value = _value_of(text)
        if name == "source":
            value = find_document(value if isinstance(value, str) else text)
        filters.append({name: value})
    if not filters:
        return None
    return filters[0] if len(filters) == 1 else {"$and": filters}


def _value_of(text: str) -> str | float | bool:
    """Read a string, number or boolean in JSON; anything else is the text itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (str, int, float)) else text
