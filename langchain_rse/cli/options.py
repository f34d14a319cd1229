"""Options that several commands share.

Importing `langchain_rse.config` takes a second, so the values from it that help shows are repeated
here; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

PRESET_NAMES = (
    *("balanced", "precision", "find_all"),
    *("dsrag-balanced", "dsrag-precision", "dsrag-find_all", "walkthrough", "kadane"),
)
ORDERS = ("document", "relevance")
BUDGET = 16_000
PENALTY = 0.35
LEXICAL_WEIGHT = 0.7


def _completion(values: Sequence[str]) -> Callable[[str], list[str]]:
    """Make the function with which a shell completes the value of an option."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


# How help names values.
NUMBER, NAME, FILE, FOLDER = "NUMBER", "NAME", "FILE", "FOLDER"

Folder = Annotated[
    Path,
    typer.Option("--kb", metavar=FOLDER, help="Folder of the knowledge base.", file_okay=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Question = Annotated[str, typer.Argument(metavar="QUESTION", help="The question.")]

K = Annotated[
    int,
    typer.Option(
        "--k", metavar=NUMBER, help="Maximum number of passages. The most valuable are kept."
    ),
]
Budget = Annotated[
    int,
    typer.Option(
        "--max-context-length",
        metavar=NUMBER,
        help="Maximum length of all passages together, in characters.",
    ),
]
Order = Annotated[
    str,
    typer.Option(
        "--order",
        metavar="|".join(ORDERS),
        help="Order of the passages: document (as in their documents) or relevance (best first).",
        autocompletion=_completion(ORDERS),
    ),
]
Penalty = Annotated[
    float | None,
    typer.Option(
        "--irrelevant-chunk-penalty",
        "--penalty",
        metavar=NUMBER,
        help="Minimum relevance, 0 to 1. Lower values return more text. Default: the preset's "
        f"({PENALTY} for {PRESET_NAMES[0]}).",
    ),
]
Hybrid = Annotated[
    float | None,
    typer.Option(
        "--hybrid",
        metavar=NUMBER,
        help="Weight of keyword search, 0 to 1. The keyword index is built on first use. Default: "
        f"the preset's ({LEXICAL_WEIGHT} for {PRESET_NAMES[0]}).",
    ),
]
ScoreFloor = Annotated[
    str | None,
    typer.Option(
        "--score-floor",
        metavar=NUMBER,
        help="Return nothing if the best match is farther than this distance; none disables it. "
        "Default: set by `index`.",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar=NAME,
        help=f"Named settings: {', '.join(PRESET_NAMES)}. Default: {PRESET_NAMES[0]}.",
        autocompletion=_completion(PRESET_NAMES),
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar=FILE,
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
    """Make the retriever's settings from a settings file and from options, which override it."""
    from langchain_rse.config import RSEConfig, read_settings

    if config and preset:
        raise ValueError("give either --config or --preset: both set how passages are chosen")
    if preset and preset not in PRESET_NAMES:
        raise ValueError(f"unknown preset {preset!r}; choose from {', '.join(PRESET_NAMES)}")
    fields = read_settings(config) if config else {}
    if preset:
        fields["config"] = RSEConfig.of(preset)
    for name, value in (("irrelevant_chunk_penalty", penalty), ("hybrid", hybrid)):
        if value is not None:
            fields[name] = value
    if score_floor is not None:
        fields["score_floor"] = _parse_floor(score_floor)
    return fields


def _parse_floor(text: str) -> float | str | None:
    """Parse a score floor: a number or "none"; the retriever rejects any other text."""
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        return text


def filter_of(
    conditions: Iterable[str], find_document: Callable[[str], str]
) -> dict[str, Any] | None:
    """Make a filter that requires all conditions, each written NAME=VALUE.

    ``find_document`` returns the id of the document that the value of ``source`` names.
    """
    filters = []
    for condition in conditions:
        name, separator, text = condition.partition("=")
        if not name or not separator:
            raise typer.BadParameter(
                f"expected NAME=VALUE, got {condition!r}", param_hint="--filter"
            )
        value = _parse_value(text)
        if name == "source":
            value = find_document(value if isinstance(value, str) else text)
        filters.append({name: value})
    if not filters:
        return None
    return filters[0] if len(filters) == 1 else {"$and": filters}


def _parse_value(text: str) -> str | float | bool:
    """Parse a string, number or boolean in JSON; return any other text unchanged."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (str, int, float)) else text
