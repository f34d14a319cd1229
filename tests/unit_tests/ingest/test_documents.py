"""Metadata that changes along a document: what passages carry, by rule, whoever reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import BaseStore, InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

# Four slides; the third has two lines, so it is two chunks.
SLIDES = [
    Document("alpha one\n", metadata={"source": "s", "slide": 1, "by": "Ann", "from": 0.0}),
    Document("beta two\n", metadata={"source": "s", "slide": 2, "by": "Bob", "from": 1.5}),
    Document("gamma three\ngamma four\n", metadata={"source": "s", "slide": 3, "by": "Ann"}),
    Document("delta five\n", metadata={"source": "s", "slide": 4, "by": None, "from": 9.0}),
]
TEXT = "\n\n".join(slide.page_content for slide in SLIDES)


class Stores:
    """A vector store and a docstore, and a retriever that knows nothing of the indexer."""

    def __init__(self, way: Way, docstore: BaseStore[str, Any] | None = None) -> None:
        self.way = way
        self.vectorstore = InMemoryVectorStore(fakes.BagOfWords())
        self.docstore = docstore or SQLDocStore("sqlite://")
        self.retriever = RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            config=fakes.EVERYTHING,
            max_context_length=None,
        )

    def add(self, documents: Sequence[Document], **settings: Any) -> list[str]:
        settings.setdefault("text_splitter", fakes.Lines())
        indexer = RSEIndexer(self.vectorstore, self.docstore, **settings)
        return self.way.add(indexer, documents)

    def passage(self, **kwargs: Any) -> Document:
        (passage,) = self.way.invoke(self.retriever, "one", **kwargs)
        assert isinstance(passage, Document)
        return passage

    def whole(self, **settings: Any) -> dict[str, Any]:
        """What a passage of all slides carries."""
        self.add(SLIDES, **settings)
        passage = self.passage()
        assert passage.page_content == TEXT
        return {
            name: value
            for name, value in passage.metadata.items()
            if name.startswith(("slide", "by", "from"))
        }


@pytest.fixture
def stores(way: Way) -> Stores:
    return Stores(way)


RANGES = {"slide_start": 1, "slide_end": 4, "by_start": "Ann", "by_end": None}
TIMES = {"from_start": 0.0, "from_end": 9.0}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({}, RANGES | TIMES),
        ({"slide": "range"}, RANGES | TIMES),
        ({"from": "first"}, RANGES | {"from": 0.0}),
        ({"from": "last"}, RANGES | {"from": 9.0}),
        ({"from": "all"}, RANGES | {"from": [0.0, 1.5, 9.0]}),
        ({"from": "drop"}, RANGES),
        (
            {"slide": "all", "by": "all", "from": "last"},
            {"slide": [1, 2, 3, 4], "by": ["Ann", "Bob", None], "from": 9.0},
        ),
        ({"source": "all", "elsewhere": "same"}, RANGES | TIMES),
    ],
    ids=str,
)
def test_rules(stores: Stores, rules: dict[str, Any], expected: dict[str, Any]) -> None:
    assert stores.whole(metadata_rules=rules) == expected
    # The same chunks as one chunk: what changes within it counts as well.
    stores.way.delete(stores.retriever, ["s"])
    assert stores.whole(metadata_rules=rules, text_splitter=one_chunk()) == expected
    assert len(stores.vectorstore.store) == 1


def one_chunk() -> CharacterTextSplitter:
    return CharacterTextSplitter(separator="|", chunk_size=10_000, chunk_overlap=0)


# Contradictions


def titled(*titles: object) -> list[Document]:
    return [
        Document(f"page {number}\n", id="report", metadata={} if title == "" else {"title": title})
        for number, title in enumerate(titles)
    ]


def test_what_must_be_the_same_and_is_not(stores: Stores) -> None:
    good = Document("good", id="good")
    with pytest.raises(
        ValueError,
        match=r"document 'report': .* same 'title' in all parts, but one has 'A' and another 'B'",
    ):
        stores.add([good, *titled("A", "A", "B")], metadata_rules={"title": "same"})
    assert fakes.keys_of(stores.retriever.docstore) == []
    assert stores.vectorstore.store == {}


# Where a page begins


@pytest.mark.filterwarnings("ignore:.*(have no text|no documents with text)")
@given(
    st.lists(st.sampled_from(["", " ", "a b\n", "ccc", "d\ne\n\nf"]), min_size=1, max_size=8),
    st.sampled_from(["", "\n", "\n\n"]),
    st.integers(1, 9),
)
def test_passages_carry_the_pages_of_their_text(
    pages: list[str], separator: str, size: int
) -> None:
    """Compared with the plain way: which page each character of the passage is from."""
    stores = Stores(Way(None), InMemoryByteStore())
    documents = [Document(text, id="d", metadata={"page": n}) for n, text in enumerate(pages)]
    stores.add(
        documents,
        metadata_rules={"page": "all"},
        document_separator=separator,
        text_splitter=CharacterTextSplitter("", chunk_size=size, chunk_overlap=0),
    )
    owners = [n for n, text in enumerate(pages) for _ in text + separator]
    whole = separator.join(pages)
    for passage in stores.way.invoke(stores.retriever, "a b ccc d e f"):
        start, end = passage.metadata["start_index"], passage.metadata["end_index"]
        inside = [place for place in range(start, end) if whole[place].strip()]
        if inside and len(pages) > 1:
            among = owners[inside[0] : inside[-1] + 1]
            found = passage.metadata["page"]
            assert set(found) >= {owners[place] for place in inside}
            assert (found[0], found[-1]) == (among[0], among[-1])
            assert found == sorted(set(found))


# Without text


@fakes.both_ways
def test_blank_documents_are_listed_and_read_with_one_warning(way: Way) -> None:
    stores = Stores(way, InMemoryByteStore())
    blank = [Document(text, id=str(n)) for n, text in enumerate(["   ", "", " "])]
    with pytest.warns(UserWarning, match=r"3 document\(s\) have no text.*OCR") as caught:
        stores.add(blank)
    assert len(caught) == 1
    retriever = stores.retriever
    assert [document.doc_id for document in retriever.documents()] == ["0", "1", "2"]
    for number, document in enumerate(blank):
        text = way.call(retriever.text, retriever.atext, str(number))
        assert text == document.page_content
    access = retriever.document_access()
    with pytest.raises(LookupError, match="document '0' has no text, only 3 characters"):
        access.passage(access.manifest("0"), 0, 10)
