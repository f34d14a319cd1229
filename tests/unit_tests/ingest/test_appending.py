"""Documents given in pieces: added to the end, or refused where they are stored."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import (
    CharacterTextSplitter,
    MarkdownHeaderTextSplitter,
    RecursiveCharacterTextSplitter,
)

from langchain_rse import ExistingIndex, RSEIndexer, RSERetriever, SQLDocStore
from tests.unit_tests import fakes
from tests.unit_tests.writes import records_without_writes, vectors_without_writes

way = fakes.way
Way = fakes.Way

SPLITTERS: dict[str, Any] = {
    "lines": fakes.Lines(),
    "recursive": RecursiveCharacterTextSplitter(chunk_size=30, chunk_overlap=0),
    "overlap": RecursiveCharacterTextSplitter(chunk_size=30, chunk_overlap=10),
    "one": CharacterTextSplitter("|", chunk_size=10_000, chunk_overlap=0),
    "headings": MarkdownHeaderTextSplitter([("#", "part")]),
}


class Stores:
    """A vector store, a docstore, and both that write them."""

    def __init__(self, way: Way, splitter: Any = None, **settings: Any) -> None:
        self.way = way
        self.vectorstore = InMemoryVectorStore(fakes.BagOfWords())
        self.docstore = SQLDocStore("sqlite://")
        self.splitter = splitter or SPLITTERS["recursive"]
        self.indexer = RSEIndexer(
            self.vectorstore, self.docstore, text_splitter=self.splitter, **settings
        )
        self.retriever = RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            config=fakes.EVERYTHING,
            max_context_length=None,
            text_splitter=self.splitter,
        )

    def add(self, documents: Any, **kwargs: Any) -> list[str]:
        return self.way.add(self.indexer, documents, **kwargs)

    def everything(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All records, and all vectors."""
        keys = fakes.keys_of(self.docstore)
        records = dict(zip(keys, self.docstore.mget(keys), strict=True))
        return records_without_writes(records), vectors_without_writes(self.vectorstore.store)

    def text(self) -> str:
        (passage,) = self.way.invoke(self.retriever, "page text")
        return str(passage.page_content)


@pytest.fixture
def stores(way: Way) -> Stores:
    return Stores(way)


def pages(*numbers: int, source: str = "a.pdf", field: str = "page") -> list[Document]:
    return [
        Document(
            f"Page {number} has some text.\nAnd a line {number * 7}.",
            metadata={"source": source, field: number, "pages": 60},
        )
        for number in numbers
    ]


def whole(documents: Sequence[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


# With append


TEXTS = st.sampled_from(["", " ", "a b\n", "  ccc", "# d\ne\n\nf", "g. h\n# i\nj ", "# d\nk" * 9])


@given(
    texts=st.lists(TEXTS, min_size=1, max_size=7),
    cuts=st.lists(st.integers(0, 7), max_size=3),
    splitter=st.sampled_from(sorted(SPLITTERS)),
    separator=st.sampled_from(["", "\n", "\n\n"]),
    fields=st.lists(st.sampled_from([{}, {"title": "T"}, {"title": None}, {"tags": ["x"]}])),
    rules=st.sampled_from([{}, {"title": "all"}, {"title": "drop", "page": "first"}]),
)
def test_pieces_give_what_one_call_gives(  # noqa: PLR0917
    texts: list[str],
    cuts: list[int],
    splitter: str,
    separator: str,
    fields: list[dict[str, Any]],
    rules: dict[str, Any],
) -> None:
    documents = [
        Document(
            text, metadata={"page": number, "source": "a", **dict(*fields[number : number + 1])}
        )
        for number, text in enumerate(texts)
    ]
    settings: dict[str, Any] = {"document_separator": separator, "metadata_rules": rules}
    at_once = Stores(Way(None), SPLITTERS[splitter], **settings)
    in_pieces = Stores(Way(None), SPLITTERS[splitter], **settings)
    ends = [0, *sorted(cuts), len(documents)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chunks inside others
        at_once.add(documents)
        for start, end in itertools.pairwise(ends):
            in_pieces.add(documents[start:end], append=True)
    assert in_pieces.everything() == at_once.everything()


@pytest.mark.parametrize("again", [(19,), (18, 19), tuple(range(20))])
def test_the_same_call_again_is_refused(stores: Stores, again: tuple[int, ...]) -> None:
    stores.add(pages(*range(20)))
    before = stores.everything()
    with pytest.raises(ValueError, match=r"append=True.*'a\.pdf' already ends with these parts"):
        stores.add(pages(*again), append=True)
    assert stores.everything() == before


def test_pages_with_the_same_text_are_added(stores: Stores) -> None:
    """Blank pages, for example."""
    blank = [Document("-", metadata={"source": "a.pdf", "page": page}) for page in range(3)]
    for page in blank:
        stores.add([page], append=True)
    assert stores.text() == whole(blank)


def test_what_was_adopted_cannot_be_added_to(way: Way) -> None:
    vectorstore = InMemoryVectorStore(fakes.BagOfWords())
    vectorstore.add_documents([Document("text", id="1", metadata={"doc": "a"})])
    indexer = RSEIndexer(vectorstore, InMemoryByteStore())
    index = ExistingIndex(doc_id_key="doc", in_store_order=True, chunk_overlap=0)
    way.call(indexer.adopt, indexer.aadopt, index)
    with pytest.raises(ValueError, match=r"append=True.*document 'a', .*adopted"):
        way.add(indexer, [Document("more", id="a")], append=True)
