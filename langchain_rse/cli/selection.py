"""Options of several commands: how segments are chosen, saved settings, and filters.

Commands name the parameters of these options as the settings that they stand for, by which
messages find the option; see `langchain_rse.cli.options`.
"""

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

_PRESETS = (
    "How passages are chosen: balanced (the default), precision (less text), find_all (more); or "
    "as published: dsrag-balanced, dsrag-precision, dsrag-find_all, walkthrough, kadane."
)
Preset = Annotated[str | None, typer.Option(help=_PRESETS)]
_PENALTY = "Minimum relevance, 0 to 1. Lower values return more text. Default: the preset's."
Penalty = Annotated[float | None, typer.Option("--penalty", min=0, max=1, help=_PENALTY)]
_WORDS = "Weight of keyword search, 0 to 1. The keyword index is built on first use."
Hybrid = Annotated[float | None, typer.Option(min=0, max=1, help=_WORDS)]
_SAVED = (
    "Settings file written by `evaluate --save-config`. Options on the command line override it."
)
Config = Annotated[Path | None, typer.Option(help=_SAVED, exists=True, dir_okay=False)]
_FLOOR = (
    "Return nothing if the best match is farther than this distance; `none` disables it. "
    "Default: set by `index`."
)
ScoreFloor = Annotated[str | None, typer.Option(metavar="NUMBER", help=_FLOOR)]


def settings(
    config: Path | None,
    preset: str | None,
    penalty: float | None,
    hybrid: float | None,
    score_floor: str | None = None,
) -> dict[str, Any]:
    """Make the fields of a retriever: those of a file, replaced by options that are given."""
    from langchain_rse.config import RSEConfig, read_settings

    if config and preset:
        raise ValueError("--config and --preset both say how segments are chosen: give one of them")
    fields: dict[str, Any] = {"config": RSEConfig.of(_checked(preset))}
    if config:
        fields = read_settings(config)
    if penalty is not None:
        fields["irrelevant_chunk_penalty"] = penalty
    if hybrid is not None:
        fields["hybrid"] = hybrid
    if score_floor is not None:
        fields["score_floor"] = _floor_of(score_floor)
    return fields


def _checked(preset: str | None) -> str:
    """The name of a preset, by default that of the default one."""
    from langchain_rse.config import PRESETS

    if preset is None:
        return "balanced"
    if preset not in PRESETS:
        allowed = ", ".join(PRESETS)
        raise typer.BadParameter(f"{preset!r} is none of {allowed}", param_hint="--preset")
    return preset


def _floor_of(text: str) -> float | None:
    """Read a floor: a number, or none."""
    if text.lower() == "none":
        return None
    try:
        floor = float(text)
    except ValueError:
        floor = math.nan
    if not math.isfinite(floor):
        raise typer.BadParameter(
            f"{text!r} is neither a number nor none", param_hint="--score-floor"
        )
    return floor


def filter_of(
    conditions: Iterable[str], find_source: Callable[[str], str]
) -> dict[str, Any] | None:
    """Make Chroma's filter from conditions NAME=VALUE, all of which must hold.

    ``find_source`` returns the whole source that a value of ``source`` names.
    """
    filters = []
    for condition in conditions:
        name, separator, text = condition.partition("=")
        if not name or not separator:
            raise typer.BadParameter(f"{condition!r} is not NAME=VALUE", param_hint="--filter")
        value = _value_of(text)
        if name == "source":
            value = find_source(value if isinstance(value, str) else text)
        filters.append({name: value})
    if not filters:
        return None
    if len(filters) == 1:
        return filters[0]
    return {"$and": filters}


def _value_of(text: str) -> str | float | bool:
    """Read a string, number or boolean in JSON; anything else is the text itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if isinstance(value, (str, int, float)):
        return value
    return text
