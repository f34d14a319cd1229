"""Filters by metadata fields, with values from a model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, create_model

from langchain_rse.retriever import RSERetriever
from langchain_rse.tools.catalog import Arguments

FilterFields = Sequence[str] | Mapping[str, str]
"""Metadata fields that a model may filter by; a mapping describes them."""

MakeFilter = Callable[[dict[str, Any], Any], Any]
"""Makes the vector store's filter from the model's values by field, and the retriever's filter."""

_LONGEST_VALUE = 1_000
_HIGHEST_VALUE = 2**63  # of the integers that databases store


def _check_value(value: object) -> object:
    is_number = isinstance(value, int | float) and abs(value) < _HIGHEST_VALUE  # False for NaN
    is_text = isinstance(value, str) and len(value) <= _LONGEST_VALUE
    if not is_number and not is_text:
        raise ValueError(
            f"one text of at most {_LONGEST_VALUE:,} characters, one finite number below 2^63, or "
            "true or false is allowed"
        )
    return value


_Value = Annotated[str | int | float | bool, BeforeValidator(_check_value)]


def check_fields(
    retriever: RSERetriever, fields: FilterFields, make_filter: MakeFilter | None
) -> None:
    """Raise an error if the retriever cannot filter by these fields."""
    if not fields:
        return
    if isinstance(fields, str):
        raise TypeError(f"filter_fields must be a list of names or a dict; got {fields!r}")
    if retriever.vectorstore is None:
        raise ValueError("filter_fields require vectorstore: a base_retriever takes no filter")
    if make_filter is not None:
        return
    own_filter = retriever.search_kwargs.get("filter")
    if not isinstance(own_filter, Mapping | None):
        raise ValueError(  # noqa: TRY004 - of another type of store
            f"filter_fields={list(fields)!r:.200} require make_filter, because the retriever's "
            f"filter is not a dict: {own_filter!r:.200}. Pass a function that takes a dict of "
            "fields and values and the retriever's filter, and returns a filter"
        )


def filter_argument(fields: FilterFields) -> tuple[Any, Any]:
    """Make the ``filter`` argument. Metadata fields are aliases, because they may have any name."""
    descriptions = fields if isinstance(fields, Mapping) else {}
    conditions: dict[str, Any] = {}
    for number, name in enumerate(fields):
        field = Field(None, alias=name, description=descriptions.get(name) or None)
        conditions[f"field_{number}"] = (_Value | None, field)
    model: type[BaseModel] = create_model("Filter", __base__=Arguments, **conditions)
    description = "Search only documents with these metadata values."
    return model | None, Field(None, description=description)


def conditions_of(filter_: BaseModel | None) -> dict[str, Any]:
    """Return the fields and values that a model has given."""
    return {} if filter_ is None else filter_.model_dump(by_alias=True, exclude_none=True)


def join_filters(conditions: dict[str, Any], own_filter: Any) -> dict[str, Any]:  # noqa: ANN401
    """Join conditions and the retriever's filter by "$and"."""
    filters = [dict(own_filter)] if own_filter else []
    filters += [{name: value} for name, value in conditions.items()]
    return filters[0] if len(filters) == 1 else {"$and": filters}
