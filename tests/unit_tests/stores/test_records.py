"""What a document is stored as, and what is read of it."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.stores import InMemoryStore

from langchain_rse.stores.layouts import Layout, read_chunks, read_layouts
from langchain_rse.stores.records import (
    Chunk,
    DocumentVersion,
    Manifest,
    Version,
    chunk_key,
    chunk_records,
    description_record,
    document_key,
    manifest_key,
    vector_id,
)


def document(**changes: Any) -> DocumentVersion:
    manifest = Manifest(
        "d",
        Version("v", 2),
        length=7,
        starts=[0, 4],
        metadata={"title": "T", "authors": ["a"]},
    )
    chunks = [
        Chunk(0, 4, "one\n", "one", [(0, {"page": 1}), (3, {"page": 2})], header="Title"),
        Chunk(4, 7, "two", "one two"),
    ]
    return DocumentVersion(
        manifest=replace(manifest, **changes),
        chunks=chunks,
        parts=[(0, 3, {"page": 1}), (3, 4, {"page": 2})],
    )


@pytest.mark.parametrize("index", [0, 7, 1_000_000])
def test_ids_of_vectors_are_the_same_in_every_release(index: int) -> None:
    namespace = uuid.UUID("4b1f2f1e-6d1c-5a44-9a31-2f6d9f7c5e10")
    name = chunk_key("document", "version", index)
    assert vector_id("document", "version", index) == str(uuid.uuid5(namespace, name))


# Reading


def stored(chunks: int, gaps: frozenset[int]) -> InMemoryStore:
    """A docstore with a document of chunks of 1, 2, ... characters."""
    spans, start = [], 0
    for index in range(chunks):
        spans.append(Chunk(start, start + index + 1, "x" * (index + 1), ""))
        start += index + 1
    version = Version("v", chunks)
    starts = [span.start for span in spans]
    manifest = Manifest("d", version, length=start, starts=starts, gaps=sorted(gaps))
    whole = DocumentVersion(manifest=manifest, chunks=spans)
    store = InMemoryStore()
    store.mset([*chunk_records(whole), description_record(whole)])
    store.mset([(manifest_key(whole.key), manifest.to_document())])
    return store


@settings(max_examples=15)
@given(
    st.sets(st.integers(0, 1_100), max_size=4),
    st.lists(st.integers(0, 1_300), min_size=2, max_size=6, unique=True),
)
def test_windows_are_cut_at_gaps_and_at_the_end_of_the_document(
    gaps: set[int], bounds: list[int]
) -> None:
    chunks = 1_074
    pairs = zip(*[iter(sorted(bounds))] * 2)  # noqa: B905
    windows = [range(start, stop) for start, stop in pairs]
    key = document_key("d")
    layouts, _ = read_layouts(stored(chunks, frozenset(gaps)), [key])
    layout = layouts[key]
    assert isinstance(layout, Layout)
    existing = layout.within(windows)
    inside = [i for window in windows for i in window if i < chunks and i not in gaps]
    assert [index for window in existing for index in window] == inside
    spans = [layout.span_of(index) for window in existing for index in window]
    assert [end - start for start, end in spans] == [index + 1 for index in inside]
    assert not any(gap in window for window in existing for gap in gaps)


def test_missing_chunks_are_told_from_replaced_documents() -> None:
    store, key = stored(3, frozenset()), document_key("d")
    layout = read_layouts(store, [key])[0][key]
    assert isinstance(layout, Layout)
    store.mdelete([chunk_key(key, "v", 1)])
    records, replaced_keys = read_chunks(store, {key: layout}, [(key, 0), (key, 1)])
    assert records[key, 0] is not None
    assert records[key, 1] is None
    assert replaced_keys == set()
    replaced = Manifest("d", current=Version("new", 1), length=1, starts=[0])
    store.mset([(manifest_key(key), replaced.to_document())])
    assert read_chunks(store, {key: layout}, [(key, 0), (key, 1)])[1] == {key}
