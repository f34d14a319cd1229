"""Options that several commands share.

Importing `langchain_rse.config` takes a second, so help names no values from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer


def parse(text: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """Parse JSON; return any other text, and typer's defaults, unchanged."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


Folder = Annotated[
    Path, typer.Option("--kb", help="Folder of the knowledge base.", file_okay=False)
]
Question = Annotated[str, typer.Argument(help="The question, in quotation marks.")]
# The retriever checks these numbers, with the messages of `--set`.
K = Annotated[
    int,
    typer.Option(
        parser=parse,
        help="Maximum number of passages. The most valuable are kept.",
    ),
]
Budget = Annotated[
    int,
    typer.Option(
        parser=parse,
        help="Maximum length of all passages together, in characters.",
    ),
]
Penalty = Annotated[
    float | None,
    typer.Option(
        "--irrelevant-chunk-penalty",
        "--penalty",
        parser=parse,
        help="Minimum relevance, 0 to 1. Lower values return more text. Default: the preset's.",
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        help="A preset, such as balanced (the default), precision or find_all, or a file written "
        "by `evaluate --save-config`. Other options override it.",
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


def check_folder(path: Path | None) -> Path | None:
    """Refuse a file in a folder that does not exist, before the work for it begins."""
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"the folder {path.parent} does not exist; create it first")
    return path


def settings(
    config: str | None, assignments: Iterable[str] | None, **options: float | None
) -> dict[str, Any]:
    """Make the retriever's settings from a preset or a file, and from options, which override it.

    Options that are None are not given.
    """
    from langchain_rse.config import read_settings

    fields: dict[str, Any] = {}
    if config is not None and Path(config).is_file():
        fields = read_settings(Path(config))
    elif config is not None:
        fields["config"] = config
    for name, option in options.items():
        if option is not None:
            fields[name] = option
    for name, text in _split(assignments or (), "--set"):
        fields[name] = None if text.lower() == "none" else parse(text)
    return fields


def filter_of(
    conditions: Iterable[str], find_document: Callable[[str], str]
) -> dict[str, Any] | None:
    """Make a filter that requires all conditions, each written NAME=VALUE.

    ``find_document`` returns the id of the document that the value of ``source`` names.
    """
    filters = []
    for name, text in _split(conditions, "--filter"):
        value = find_document(text) if name == "source" else parse(text)
        filters.append({name: value})
    if len(filters) > 1:
        return {"$and": filters}
    return filters[0] if filters else None


def _split(assignments: Iterable[str], option: str) -> Iterator[tuple[str, str]]:
    """Split texts such as NAME=VALUE."""
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not name or not separator:
            raise typer.BadParameter(f"expected NAME=VALUE, got {assignment!r}", param_hint=option)
        yield name, text
