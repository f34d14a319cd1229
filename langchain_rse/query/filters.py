"""Filters: finds out which chunks a search may exclude for reasons other than relevance.

`langchain_rse.stores.conditions` defines the filters that are understood. Chunks of a document that
passes as a whole can then fill gaps between candidates. With any other filter, passages contain
only candidates. A number never counts as a filter: it is a limit or a depth.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from langchain_rse._messages import shown, warn
from langchain_rse.config import QuerySettings
from langchain_rse.stores.conditions import fields_of, matches
from langchain_rse.stores.layouts import Layout
from langchain_rse.stores.records import DOC_ID, VERSION, WRITTEN
from langchain_rse.text.quoting import first_few

FILTER = "filter"
"""The search argument that most stores use for a filter."""

# Fields of retrievers that hold inner retrievers, and fields that hold search arguments.
_INNER = ("retrievers", "base_retriever", "retriever", "bound", "runnable", "fallbacks")
_ARGUMENTS = ("search_kwargs", "kwargs")
_LANGCHAIN = "langchain"  # prefix of the names of LangChain's packages


class Filters(NamedTuple):
    """The filters of a query."""

    conditions: Sequence[Mapping[str, Any]]  # filters that are understood
    checked: Sequence[Mapping[str, Any]]  # those of arguments called "filter"
    others: Sequence[str]  # descriptions of arguments and classes that may filter in other ways

    def check_applied(self, document: Document, searcher: str) -> None:
        """Raise a ValueError if a filter excludes a Document that a search returned."""
        for condition in self.checked:
            fields = sorted(fields_of(condition) or ())
            # Fields that replace the document's own, unless other code wrote the vector.
            ours = [name for name in fields if name in WRITTEN and name != DOC_ID]
            if ours and VERSION in document.metadata:
                raise ValueError(
                    f"the filter uses {', '.join(ours)}, but this package overwrites that field in "
                    "the metadata of each chunk. Index your values under another name"
                )
            if not matches(condition, document.metadata, is_lenient=True):
                found = {name: document.metadata.get(name) for name in fields}
                raise ValueError(
                    f"{searcher} returned a document that the filter {condition!r:.200} excludes: "
                    f"{found!r:.200} in the metadata of {document.id!r} "
                    f"({document.page_content[:40]!r}). Write the filter in the syntax of "
                    f"{searcher}, with operators for lists where values are lists; or filter "
                    "inside a base_retriever and set candidates_only=True"
                )

    def only_candidates(self, settings: QuerySettings) -> bool:
        """True if passages may contain only candidates; warn if this is a guess."""
        if settings.candidates_only is not None:
            return settings.candidates_only
        if self.others:
            warn(
                f"{first_few(self.others)} may exclude chunks for reasons other than relevance, so "
                "passages contain only chunks that the search found. Pass the filter as a dict of "
                "fields and values; or set candidates_only=True if chunks are filtered, "
                "candidates_only=False if not"
            )
        return bool(self.others)

    def may_split(self, layout: Layout) -> bool:
        """True if the filters may include some chunks of a document and exclude others."""
        shared_fields = set(layout.manifest.metadata)
        if not layout.is_adopted:
            # In an adopted store, a field with this name may have another meaning.
            shared_fields.add(DOC_ID)
        fields = [fields_of(condition) or set() for condition in self.conditions]
        return not set().union(*fields) <= shared_fields


def filters_of(search_kwargs: Mapping[str, Any], base_retriever: object) -> Filters:
    """Collect the filters in search arguments, and in a retriever and its inner retrievers."""
    arguments = list(search_kwargs.items())
    others: list[str] = []
    for retriever in _with_inner(base_retriever):
        if not _is_known(retriever):
            others.append(type(retriever).__name__)
        for field in _ARGUMENTS:
            arguments += dict(getattr(retriever, field, None) or {}).items()
    conditions = []
    checked = []
    for name, value in arguments:
        if not may_exclude(value):
            continue
        if fields_of(value) is None:
            others.append(f"the search argument {name}={shown(value)}")
            continue
        conditions.append(value)
        if name == FILTER:
            checked.append(value)
    return Filters(conditions, checked, list(dict.fromkeys(others)))


def may_exclude(value: object) -> bool:
    """True if a search argument may exclude chunks: it is not empty and not a number."""
    is_number = isinstance(value, numbers.Number) and not isinstance(value, bool)
    return value is not None and value != {} and not is_number


def _with_inner(retriever: object) -> Iterator[object]:
    """Yield a retriever and its inner retrievers, the outer ones first."""
    if retriever is None:
        return
    yield retriever
    for field in _INNER:
        value = getattr(retriever, field, None)
        for inner in value if isinstance(value, (list, tuple)) else [value]:
            yield from _with_inner(inner)


def _is_known(retriever: object) -> bool:
    """True if a retriever excludes chunks only by its search arguments and by relevance.

    This holds for the retrievers and wrappers of LangChain's packages.
    """
    if not type(retriever).__module__.startswith(_LANGCHAIN):
        return False
    has_inner = any(getattr(retriever, field, None) is not None for field in _INNER)
    return has_inner or isinstance(retriever, BaseRetriever)
