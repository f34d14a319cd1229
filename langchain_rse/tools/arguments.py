"""The arguments that models and clients give to tools: what any of them may hold, and how much."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from langchain_rse.text.quoting import as_unicode
from langchain_rse.text.words import MAX_QUERY_LENGTH

_MOST_OF_NAME = 4_096
_MOST_OF_VALUE = 1_000


def _as_unicode(value: object) -> object:
    return as_unicode(value) if isinstance(value, str) else value


# Before the length is checked, since pydantic refuses half an emoji.
_AS_UNICODE = BeforeValidator(_as_unicode)

QueryText = Annotated[str, Field(max_length=MAX_QUERY_LENGTH), _AS_UNICODE]
"""What to search for."""

NameText = Annotated[str, Field(max_length=_MOST_OF_NAME), _AS_UNICODE]
"""The name or id of a document or passage."""

ValueText = Annotated[str, Field(max_length=_MOST_OF_VALUE), _AS_UNICODE]
"""A value of a metadata field."""


def default_for_null(default: Any) -> BeforeValidator:  # noqa: ANN401 - of the argument's type
    """Take ``null`` as the default: some models give it for each argument that they leave out."""
    return BeforeValidator(lambda value: default if value is None else value)
