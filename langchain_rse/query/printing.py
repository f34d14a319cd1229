"""The printed forms of a returned Document, with its place first, and of a retriever."""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Mapping
from typing import Any, SupportsIndex

from langchain_core.documents import Document
from pydantic import BaseModel

from langchain_rse.config import RSEConfig
from langchain_rse.stores.records import CHUNK_ID, DOC_ID, END_INDEX, PASSAGE, START_INDEX
from langchain_rse.text.pages import pages_of
from langchain_rse.text.ranges import format_range
from langchain_rse.text.titles import name_of, short_names


class PrintedDocument(Document):
    """A Document that prints its place and text before its metadata, and no scores of chunks.

    For all other code it is a plain Document: it compares as one, and whatever serializes or
    pickles it writes one. LangGraph refuses to load classes that it does not know.
    """

    __class__ = property(lambda self: Document)  # noqa: ARG005

    @classmethod
    def lc_id(cls) -> list[str]:
        """The name under which LangChain serializes it."""
        return Document.lc_id()

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return copyreg.__newobj__, (Document,), self.__getstate__()  # type: ignore[attr-defined]

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        yield None, _Unquoted(f"<{place_of(self.metadata)}>")
        yield "page_content", self.page_content
        yield "metadata", _abbreviated(self.metadata)
        yield "id", self.id

    def __str__(self) -> str:
        """The form of LangChain's Document, with the place in front."""
        return (
            f"<{place_of(self.metadata)}> page_content='{self.page_content}' "
            f"metadata={_abbreviated(self.metadata)}"
        )


_STORES = ("vectorstore", "base_retriever", "docstore")


class _Unquoted(str):
    """A text that is printed without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def place_of(metadata: Mapping[str, Any]) -> str:
    """The document and pages of a passage, for people; its characters where it has no pages.

    Of a path, only the name of the file is printed: the metadata has the path.
    """
    name = name_of(str(metadata.get(DOC_ID, "")), metadata)
    name = short_names([name])[name]
    pages = pages_of(metadata)
    if pages is not None:
        return f"{name}, {pages}"
    start, end = metadata.get(START_INDEX), metadata.get(END_INDEX)
    if type(start) is int and type(end) is int:
        return f"{name}, characters {format_range(start, end)}"
    return name


def _abbreviated(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata without the ids of passage and version, and without the scores of chunks."""
    shown = {name: value for name, value in metadata.items() if name != CHUNK_ID}
    described = shown.get(PASSAGE)
    if isinstance(described, dict) and "chunks" in described:
        shown[PASSAGE] = {**described, "chunks": _Unquoted("[...]")}
        shown[PASSAGE].pop("version", None)
    return shown


def printed_fields(model: BaseModel) -> Iterator[tuple[str, object]]:
    """The fields of a retriever or config that differ from their defaults, as they are printed.

    Of stores and other objects, only the class is printed.
    """
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if name in _STORES:
            if value is not None:
                yield name, _Unquoted(type(value).__name__)
            continue
        default = field.get_default(call_default_factory=True)
        if value != default and repr(value) != repr(default):
            yield name, _as_printed(value)


def _as_printed(value: object) -> object:
    if value is None or isinstance(value, (str, int, float, list, tuple, set, dict)):
        return value
    name = getattr(value, "__name__", None) or type(value).__name__
    if isinstance(value, RSEConfig):
        fields = ", ".join(f"{field}={shown!r}" for field, shown in printed_fields(value))
        return _Unquoted(f"{name}({fields})")
    return _Unquoted(name)
