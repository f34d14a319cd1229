"""Writes the tables of settings.md from the descriptions of fields: run it after changing one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from langchain_text_splitters import TextSplitter
from pydantic.fields import FieldInfo

from langchain_rse import RSERetriever
from langchain_rse.config import PRESETS, RSEConfig

PAGE = Path(__file__).parents[1] / "settings.md"
PATH = re.compile(r"`docs/([\w-]+\.md)(#[\w-]+)?`")
BEGIN, END = "<!-- settings:begin -->", "<!-- settings:end -->"

STORES = (
    *("vectorstore", "base_retriever", "docstore", "text_splitter", "headers"),
    *("metadata_rules", "namespace"),
)
EVERYDAY = (
    *("k", "max_context_length", "irrelevant_chunk_penalty", "score_floor", "reranker"),
    "search_kwargs",
)
OCCASIONAL = (
    *("fetch_k", "length_function", "include_header", "hybrid", "queries"),
    *("query_generator", "order", "duplicates", "candidates_only"),
)
EXPERT = ("config",)

# The pages that say more.
MORE = {
    "vectorstore": "stores.md#vector-stores",
    "base_retriever": "migrating.md#wrapped-retrievers",
    "docstore": "stores.md#docstores",
    "text_splitter": "splitters.md",
    "headers": "splitters.md#contextual-headers",
    "metadata_rules": "indexing.md#pages-slides-and-timestamps",
    "namespace": "tenants.md",
    "max_context_length": "#budget",
    "irrelevant_chunk_penalty": "#penalty",
    "reranker": "search.md#rerankers",
    "search_kwargs": "filters.md",
    "hybrid": "search.md#hybrid-search",
    "score_floor": "nothing.md",
    "queries": "search.md#multiple-queries",
    "query_generator": "search.md#multiple-queries",
    "duplicates": "#duplicates",
    "candidates_only": "filters.md",
    "config": "#presets",
}


def page_with_tables(page: str) -> str:
    """The text of the page, with the tables as the code has them."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def tables() -> str:
    """The tables of all settings, each below its heading."""
    fields = RSERetriever.model_fields
    parts = [
        "### Stores",
        "For the constructor only.",
        table(fields, STORES),
        "### Everyday",
        table(fields, EVERYDAY),
        "### Occasional",
        table(fields, OCCASIONAL),
        "### Expert",
        table(fields, EXPERT),
        "### Fields of `RSEConfig`",
        table(RSEConfig.model_fields, tuple(RSEConfig.model_fields)),
    ]
    return "\n\n".join(parts)


def table(fields: Mapping[str, FieldInfo], names: Sequence[str]) -> str:
    """A table of some fields."""
    lines = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for name in names:
        shown = f"`{name}`"
        if name in MORE and fields is not RSEConfig.model_fields:
            shown = f"[{shown}]({MORE[name]})"
        lines.append(f"| {shown} | {default_of(fields[name])} | {meaning_of(fields[name])} |")
    return "\n".join(lines)


def default_of(field: FieldInfo) -> str:
    """The default of a field, as it is written in code."""
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default == PRESETS["balanced"]:
        return '`"balanced"`'
    if callable(default):
        return f"`{default.__name__}`"
    if isinstance(default, str):
        return f'`"{default}"`'
    if isinstance(default, TextSplitter):
        return "splits at paragraphs"
    return f"`{default!r}`"


def meaning_of(field: FieldInfo) -> str:
    """The description of a field in Markdown, in one line."""
    description = " ".join((field.description or "").split())
    linked = PATH.sub(link_to_page, description.replace("``", "`"))
    return linked.replace("|", r"\|")


def link_to_page(path: re.Match[str]) -> str:
    """A link to a page, by the title of the page."""
    page = PAGE.with_name(path[1])
    title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return f"[{title}]({page.name}{path[2] or ''})"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
