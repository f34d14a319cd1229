"""Decides whether a query is searched for in the docstore's full-text index as well."""

from typing import NamedTuple

from langchain_rse.config import QuerySettings
from langchain_rse.query.candidates import Sources
from langchain_rse.query.search_arguments import SCORE_THRESHOLD, may_exclude
from langchain_rse.stores.fulltext import check_filter, check_lexical


class FullText(NamedTuple):
    """Whether the full-text index is searched for a query."""

    is_searched: bool
    obstacle: str = ""  # why it is not, where it would be


def full_text_of(sources: Sources, settings: QuerySettings) -> FullText:
    """Whether the full-text index is searched: by ``hybrid``, and by what it can apply.

    Raises:
        ValueError: If ``hybrid`` is a number above 0 and the index cannot be searched.
    """
    if settings.hybrid == 0 or (settings.hybrid == "auto" and not settings.config.lexical_credit):
        return FullText(is_searched=False)
    obstacle = _find_obstacle(sources, settings)
    if settings.hybrid != "auto":
        if obstacle:
            raise ValueError(f"hybrid={settings.hybrid}: {obstacle}; or use hybrid=0")
        return FullText(is_searched=True)
    if SCORE_THRESHOLD in settings.search_kwargs:
        obstacle = (
            obstacle or f"chunks found by words have no score to compare with {SCORE_THRESHOLD}"
        )
    return FullText(not obstacle, obstacle)


def _find_obstacle(sources: Sources, settings: QuerySettings) -> str:
    """Why the full-text index cannot be searched for this query; empty if it can."""
    if sources.vectorstore is None:
        return "needs vectorstore, since filters inside a base_retriever are unknown"
    try:
        check_lexical(sources.docstore)
        check_filter(settings.search_kwargs.get("filter"))
    except ValueError as error:
        return str(error)
    unknown = sorted(may_exclude(settings.search_kwargs).keys() - {"filter"})
    if unknown:
        return (
            f"the full-text index cannot apply {', '.join(unknown)} in search_kwargs. Use filter, "
            "a dict of fields and the values they equal"
        )
    return ""
