"""What a document is stored as, and what is read of it."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore

from langchain_rse.errors import CorruptRecordError
from langchain_rse.stores.adopted import AdoptedVector, adopted_vectors
from langchain_rse.stores.layouts import Layout, read_chunks, read_layouts
from langchain_rse.stores.metadata import simple_metadata
from langchain_rse.stores.records import (
    Announcement,
    Chunk,
    Description,
    DocumentVersion,
    Manifest,
    Version,
    adopted_key,
    adopted_records,
    chunk_key,
    chunk_records,
    chunk_vectors,
    describe,
    document_key,
    manifest_key,
    metadata_changes,
    vector_id,
    vector_store_document,
)


def document(**changes: Any) -> DocumentVersion:
    chunks = [
        Chunk(0, 4, "one\n", "one", [(0, {"page": 1}), (3, {"page": 2})], header="Title"),
        Chunk(4, 7, "two", "one two"),
    ]
    return DocumentVersion(
        **{
            "doc_id": "d",
            "version": Version("v", len(chunks)),
            "length": 7,
            "metadata": {"title": "T", "authors": ["a"]},
            "chunks": chunks,
            "parts": [(0, 3, {"page": 1}), (3, 4, {"page": 2})],
            **changes,
        }
    )


@pytest.mark.parametrize("index", [0, 7, 1_000_000])
def test_ids_of_vectors_are_the_same_in_every_release(index: int) -> None:
    namespace = uuid.UUID("4b1f2f1e-6d1c-5a44-9a31-2f6d9f7c5e10")
    name = chunk_key("document", "version", index)
    assert vector_id("document", "version", index) == str(uuid.uuid5(namespace, name))


def test_records_of_a_document() -> None:
    key = document_key("d")
    place = {"doc_id": "d", "chunk_index": 0, "start_index": 0, "end_index": 4}
    records = dict(chunk_records(document()))
    description = describe(document(), "model")
    assert {*records, description.key} == set(Version("v", 2).docstore_keys(key))
    assert records == {
        f"{key}/v/0": Document(
            "one\n",
            metadata={
                **place,
                "metadata_changes": [[0, {"page": 1}], [3, {"page": 2}]],
                "header": "Title",
            },
        ),
        f"{key}/v/1": Document(
            "two", metadata={"doc_id": "d", "chunk_index": 1, "start_index": 4, "end_index": 7}
        ),
    }
    read = Description.from_document(description.to_document(), description.key)
    assert read.parts == [(0, 3, {"page": 1}), (3, 4, {"page": 2})]
    written = document().manifest("model")
    assert (
        read.manifest.to_document()
        == replace(written, revision=read.manifest.revision).to_document()
    )
    assert written.starts == [0, 4]


@pytest.mark.parametrize("parts", [[(0, 3, {})], [(0, 5, {}), (3, 4, {})], [(0, 8, {})]], ids=str)
def test_a_description_that_does_not_match_its_text_is_named(parts: Any) -> None:
    description = describe(document(parts=parts), "")
    with pytest.raises(CorruptRecordError, match=f"{description.key}.*do not match the text"):
        Description.from_document(description.to_document(), description.key)


def test_a_description_of_another_version_is_named() -> None:
    other = describe(document(version=Version("w", 2)), "")
    key = describe(document(), "").key
    with pytest.raises(CorruptRecordError, match=f"{key}.*belongs to another version"):
        Description.from_document(other.to_document(), key)


def test_vectors_of_a_document() -> None:
    first, second = chunk_vectors(document())
    key = document_key("d")
    assert (first.page_content, second.page_content) == ("Title\n\none", "one two")
    assert [first.id, second.id] == list(Version("v", 2).vector_ids(key))
    assert first.metadata == {
        "title": "T",
        "authors": ["a"],
        "page": 1,
        "doc_id": "d",
        "chunk_id": first.id,
        "chunk_index": 0,
        "start_index": 0,
        "end_index": 4,
        "rse_version": "v",
    }
    assert "page" not in second.metadata


def test_an_adopted_document_has_records_of_its_vectors_and_no_new_vectors() -> None:
    adopted = [
        AdoptedVector("empty", "digest 0", None),
        AdoptedVector("x", "digest 1", 1),
        AdoptedVector("y", "digest 1", 1),
    ]
    gap = document(version=Version("v", 2, adopted=3), gaps=frozenset({0}), adopted=adopted)
    key = document_key("d")
    assert list(chunk_vectors(gap)) == []
    records = {**dict(chunk_records(gap)), **dict(adopted_records(gap))}
    description = describe(gap, "")
    assert description.vectors == ["empty", "x", "y"]
    assert (description.manifest.starts, description.manifest.gaps) == ([0, 4], [0])
    assert f"{key}/v/0" not in records
    assert adopted_vectors(records[f"{key}/v/1"], "key") == {"x": "digest 1", "y": "digest 1"}
    assert records[adopted_key("empty")].metadata == {"doc_id": None, "rse_version": "v"}
    chunk = {"doc_id": "d", "rse_version": "v", "chunk_index": 1}
    assert records[adopted_key("x")].metadata == records[adopted_key("y")].metadata == chunk


def test_vector_stores_get_simple_metadata_that_can_be_encoded() -> None:
    metadata = {
        "text": "a\0\ud800b",
        "number": np.float32(0.5),
        "yes": np.bool_(True),
        "none": None,
        "numbers": [1, np.int64(2)],
        "texts": ["a\0", "b"],
        "empty": [],
        "mixed": [1, "a"],
        "two kinds of numbers": [1, 2.5],
        "nested": [["a"]],
        "with None": ["a", None],
        "endless": [float("inf")],
    }
    expected = {
        "text": "a\ufffd\ufffdb",
        "number": 0.5,
        "yes": True,
        "numbers": [1, 2],
        "texts": ["a\ufffd", "b"],
    }
    assert simple_metadata(metadata) == expected
    assert type(simple_metadata(metadata)["yes"]) is bool
    place = {"doc_id": "d", "chunk_index": 0}
    chunk = vector_store_document("", simple_metadata(metadata), place, "v")
    assert chunk.metadata.items() >= {**expected, **place}.items()


def test_a_manifest_is_read_as_it_was_written() -> None:
    manifest = Manifest(
        doc_id="d",
        current=Version("v", 2),
        announced=[Announcement(Version("w", 1), 1.5)],
        garbage=[Version("u", 3, adopted=4)],
        length=7,
        starts=[0, 4],
        gaps=[1],
        metadata={"authors": ["a"]},
        rules={"page": "all"},
        header="T",
    )
    key = manifest_key(document_key("d"))
    assert Manifest.from_document(manifest.to_document(), key) == manifest
    other = manifest_key(document_key("other"))
    with pytest.raises(CorruptRecordError, match=f"{other}.*belongs to document 'd'"):
        Manifest.from_document(manifest.to_document(), other)


@pytest.mark.parametrize(
    "places", ["text", 3, None, ["page"], [[0]], [[-1, {}]], [["x", {}]], [[0, "page"]]], ids=str
)
def test_a_chunk_with_wrong_places_is_named(places: Any) -> None:
    record = Document("text", metadata={"metadata_changes": places})
    with pytest.raises(CorruptRecordError, match="'some/key'"):
        metadata_changes(record, "some/key")


# Reading


def stored(chunks: int, gaps: frozenset[int]) -> InMemoryStore:
    """A docstore with a document of chunks of 1, 2, ... characters."""
    spans, start = [], 0
    for index in range(chunks):
        spans.append(Chunk(start, start + index + 1, "x" * (index + 1), ""))
        start += index + 1
    version = Version("v", chunks)
    whole = document(version=version, chunks=spans, gaps=gaps, parts=())
    whole = replace(whole, length=start)
    description = describe(whole, "")
    store = InMemoryStore()
    store.mset([*chunk_records(whole), (description.key, description.to_document())])
    store.mset([(manifest_key(whole.key), description.manifest.to_document())])
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
    assert read_chunks(store, {key: layout}, [(key, 0), (key, 1)]).replaced == {key}


@pytest.mark.parametrize(
    "starts",
    [[], [0], [0, 0, 1], [-1, 2, 3], [0, 2, 1], [0, 1, 9], [0, 1, "2"], [0, [1], []], None],
    ids=str,
)
def test_starts_that_do_not_match_the_text_cost_the_document(starts: Any) -> None:
    store, key = stored(3, frozenset()), document_key("d")
    record = Manifest("d", current=Version("v", 3), length=6).to_document()
    record.metadata["starts"] = starts
    store.mset([(manifest_key(key), record)])
    error = read_layouts(store, [key])[0][key]
    assert isinstance(error, CorruptRecordError)
    assert "3 ascending numbers from 0 to 6. Delete the document and add it again" in str(error)
