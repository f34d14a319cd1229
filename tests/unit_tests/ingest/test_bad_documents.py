"""Documents with metadata or ids that some store cannot keep, among others that are fine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import orjson
import pytest
from langchain_core.documents import Document

from langchain_rse.errors import MetadataError
from tests.unit_tests import fakes
from tests.unit_tests.ingest import test_indexer
from tests.unit_tests.ingest.test_indexer import Stores

stores = test_indexer.stores
way = fakes.way
text_of = fakes.text_of


def nested(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "bad",
    [object(), {1, 2}, np.zeros(3), {"deep": [{3: "x"}]}, nested(5_000)],
    ids=["object", "set", "array", "key", "nested"],
)
def test_metadata_that_cannot_be_kept_is_named_and_the_other_documents_are_added(
    stores: Stores, bad: object
) -> None:
    names = [f"d{number}" for number in range(60)]
    documents = [
        Document(text_of(name, 1), id=name, metadata={"field": bad if name == "d7" else name})
        for name in names
    ]
    with pytest.raises(
        MetadataError,
        match=r"(?s)1 document not.*document 'd7': .*(?:docstore cannot keep|nested)",
    ):
        stores.add(*documents)
    names.remove("d7")
    assert sorted(stores.passages()) == sorted(names)
    assert stores.add(*(one for one in documents if one.id != "d7")) == names
    stores.delete(*names)
    assert stores.keys() == []  # nothing was written of the bad one


NAMES = ["n", "", "\0", "a\0b", "\ud800", "$and", "#x", "chroma:document", "a.b", " ", "\x1b]8"]
BAD = [math.nan, math.inf, -math.inf, np.float64("nan"), 2**64 - 1, -(2**63), "\0", "\udfff"]


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_what_some_vector_store_cannot_take_stays_in_the_docstore(
    stores: Stores, value: Any
) -> None:
    metadata = dict.fromkeys(NAMES, value)
    stores.add(Document("the text", id="a", metadata=metadata), Document("other", id="b"))
    (passage,) = stores.passages()["a"]
    same = value.item() if isinstance(value, np.generic) else value
    for name in NAMES:
        assert repr(passage.metadata[name]) == repr(same)
    for vector in stores.vectors():
        orjson.dumps(vector["metadata"])  # which takes neither surrogates nor more than 64 bits
        for name, kept in vector["metadata"].items():
            assert name
            assert "\0" not in f"{name}{kept}"
            assert not name.startswith(("$", "#", "chroma:"))
            assert not isinstance(kept, float) or math.isfinite(kept)


IDS = [
    *(chr(number) for number in range(1, 128)),
    # Equal after normalization, or but for case.
    *(
        "e\u0301",
        "\u00e9",
        "E\u0301",
        "\u00c9",
        "\u212b",
        "\u00c5",
        "A\u030a",
        "\ufb01",
        "fi",
        "FI",
    ),
    *("..", "../../etc/passwd", "/", "a/b", "a\\b", "CON", "manifest/x"),
    *("%00", "%s", "{0}", "{doc_id}", "'; DROP TABLE langchain_rse; --", '"'),
    *("\x1b[31m", "\x1b]8;;http://x\x07", "\u202eabc", "\x85", "\U0001f600", "\ufeff", "\uffff"),
    *(" a", "a ", "a\n", "x" * 10_000, "x" * 9_999 + "y"),
]


def test_ids_of_every_kind_are_different_documents(stores: Stores) -> None:
    ids = list(dict.fromkeys(IDS))
    texts = [f"text of the document number {number}" for number, _ in enumerate(ids)]
    assert stores.add(*map(Document, texts), ids=ids) == ids
    found = stores.passages()
    assert {name: passage[0].page_content for name, passage in found.items()} == dict(
        zip(ids, texts, strict=True)
    )
    assert stores.delete(*ids[::2]) == ids[::2]
    assert sorted(stores.passages()) == sorted(ids[1::2])
    assert stores.delete(*ids) == ids[1::2]
    assert stores.keys() == []
