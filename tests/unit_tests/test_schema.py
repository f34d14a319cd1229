from __future__ import annotations

import hashlib
import uuid

import pytest

from langchain_rse.schema import chunk_key, text_digest, vector_id


@pytest.mark.parametrize("index", [0, 1, 2, 3, 4, 5, 6, 7, 511, 1_000_000])
def test_ids_of_vectors_are_uuids_of_the_names_of_chunks(index: int) -> None:
    # Whatever makes them: those in existing indexes have to be found again.
    namespace = uuid.UUID("4b1f2f1e-6d1c-5a44-9a31-2f6d9f7c5e10")
    name = chunk_key("document", "version", index)
    assert vector_id("document", "version", index) == str(uuid.uuid5(namespace, name))


@pytest.mark.parametrize("length", [0, 1, 999_999, 1_000_000, 1_000_001, 2_000_000])
def test_a_text_is_digested_as_a_whole(length: int) -> None:
    text = "\ud83d\ude00漢a"[: length % 4] + "a\ud800" * (length // 2)
    whole = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    assert text_digest(text) == whole.hexdigest()
