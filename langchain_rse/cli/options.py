"""Options that several commands share.

Importing `langchain_rse.config` takes a second, so the values from it that help shows are repeated
here; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

PRESET_NAMES = (
    *("balanced", "precision", "find_all"),
    *("dsrag-balanced", "dsrag-precision", "dsrag-find_all", "walkthrough", "kadane"),
)
BUDGET = 16_000
PENALTY = 0.35

# How help names values.
NUMBER, NAME, FILE, FOLDER = "NUMBER", "NAME", "FILE", "FOLDER"

Folder = Annotated[
    Path,
    typer.Option("--kb", metavar=FOLDER, help="Folder of the knowledge base.", file_okay=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Question = Annotated[
    str, typer.Argument(metavar="QUESTION", help="The question, in quotation marks.")
]

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
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar=f"{NAME}|{FILE}",
        help=f"A preset ({', '.join(PRESET_NAMES)}), or a file written by "
        f"`evaluate --save-config`. Other options override it. Default: {PRESET_NAMES[0]}.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting of a query, by its name in Python, such as hybrid=0.5, "
        "order=relevance or score_floor=none; repeatable.",
    ),
]


def settings(
    config: str | None, assignments: Iterable[str] | None, **options: float | None
) -> dict[str, Any]:
    """Make the retriever's settings from a preset or a file, and from options, which override it.

    Options that are None are not given.
    """
    from langchain_rse.config import PRESETS, QuerySettings, read_settings

    fields: dict[str, Any] = {}
    if config in PRESETS:
        fields["config"] = config
    elif config is not None:
        if not Path(config).is_file():
            presets = ", ".join(PRESETS)
            raise ValueError(f"--config {config}: no such file, and no preset ({presets})")
        fields = read_settings(Path(config))
    for name, value in options.items():
        if value is not None:
            fields[name] = value
    for name, text in _split(assignments or (), "--set"):
        if name not in QuerySettings.model_fields:
            known = ", ".join(QuerySettings.model_fields)
            raise ValueError(f"--set {name}: there is no such setting; choose from {known}")
        fields[name] = None if text.lower() == "none" else _parse(text)
    return fields


def filter_of(
    conditions: Iterable[str], find_document: Callable[[str], str]
) -> dict[str, Any] | None:
    """Make a filter that requires all conditions, each written NAME=VALUE.

    ``find_document`` returns the id of the document that the value of ``source`` names.
    """
    filters = []
    for name, text in _split(conditions, "--filter"):
        value = _parse(text)
        if not isinstance(value, (str, int, float)):
            value = text
        if name == "source":
            value = find_document(value if isinstance(value, str) else text)
        filters.append({name: value})
    if not filters:
        return None
    return filters[0] if len(filters) == 1 else {"$and": filters}


def _split(assignments: Iterable[str], option: str) -> list[tuple[str, str]]:
    """Split texts such as NAME=VALUE."""
    pairs = []
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not name or not separator:
            raise typer.BadParameter(f"expected NAME=VALUE, got {assignment!r}", param_hint=option)
        pairs.append((name, text))
    return pairs


def _parse(text: str) -> Any:  # noqa: ANN401 - any value of JSON
    """Parse JSON; return any other text unchanged."""
    try:
        return json.loads(text)
    except ValueError:
        return text
