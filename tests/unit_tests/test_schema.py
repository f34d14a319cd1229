from __future__ import annotations

import copy
import hashlib
import pickle
import uuid

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumps
from pydantic import ValidationError

from langchain_rse.schema import chunk_key, new_document, text_digest, vector_id


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
    assert text_digest(text).name == whole.hexdigest()


@pytest.mark.parametrize(
    ("text", "encodable"),
    [("", True), ("漢 \ud7ff\ue000", True), ("a\0", False), ("a\ud800", False), ("\udfff", False)],
)
def test_it_is_known_of_a_text_whether_stores_take_it(text: str, encodable: bool) -> None:  # noqa: FBT001
    for before in ("", "a" * 1_000_000):
        assert text_digest(before + text).encodable is encodable


@pytest.mark.parametrize("more", [{}, {"id": "7"}])
def test_new_documents_are_what_the_constructor_makes(more: dict[str, str]) -> None:
    metadata = {"page": 1, "authors": ["a", "b"]}
    made = new_document("text", metadata, **more)
    expected = Document(page_content="text", metadata=metadata, **more)
    assert made == expected
    assert type(made) is Document
    assert repr(made) == repr(expected)
    assert str(made) == str(expected)
    assert vars(made) == vars(expected)
    assert dumps(made) == dumps(expected)
    assert made.model_dump() == expected.model_dump()
    assert made.model_dump(exclude_unset=True) == expected.model_dump(exclude_unset=True)
    assert made.model_fields_set == expected.model_fields_set
    for name in ("__pydantic_extra__", "__pydantic_private__"):
        assert getattr(made, name) == getattr(expected, name)
    pickled = pickle.loads(pickle.dumps(made))  # noqa: S301 - its own
    for copied in (pickled, copy.deepcopy(made), made.model_copy()):
        assert copied == expected
        assert copied.model_fields_set == expected.model_fields_set
    made.metadata["page"] = 2
    assert metadata["page"] == expected.metadata["page"] == 1
    made.id = "8"
    assert made.model_fields_set == {*expected.model_fields_set, "id"}
    assert new_document("text", metadata).model_fields_set == {"page_content", "metadata"}


def test_new_documents_are_checked_as_the_constructor_checks_them() -> None:
    with pytest.raises(ValidationError, match="page_content"):
        new_document(7, {})  # type: ignore[arg-type]
