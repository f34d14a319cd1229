"""Indexes that plain LangChain code built in real stores, adopted without embedding again."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import ExistingIndex, RSERetriever, SQLDocStore
from tests.integration_tests.vectorstores import CASES, Case, Place, params
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

NAMES = ["formatstrings", "strings", "import", "numeric-types"]
TEXTS = {name: topics[name] for name in NAMES if name in topics}
KNOWN = [
    case
    for case in CASES
    if case.name
    in {
        "InMemoryVectorStore",
        "Chroma disk cosine",
        "Chroma server l2",
        "FAISS l2",
        "PGVectorStore cosine",
        "Qdrant in process dot",
    }
]
IN_ORDER = [case for case in KNOWN if not case.name.startswith(("PGVector", "Qdrant"))]


@pytest.fixture
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, way: Way
) -> Iterator[Callable[[Case], VectorStore]]:
    with ExitStack() as stack:

        def opener(case: Case) -> VectorStore:
            place = Place(
                folder=tmp_path,
                embeddings=fakes.BagOfWords(),
                is_async=way.is_async,
                server=lambda name: str(request.getfixturevalue(f"{name}_url")),
            )
            return stack.enter_context(case.open(place))

        yield opener


def documents() -> list[Document]:
    return [Document(text, metadata={"source": name}) for name, text in TEXTS.items()]


def letters(text: str) -> str:
    return "".join(text.split())


def add(way: Way, store: VectorStore, chunks: list[Document]) -> None:
    way.call(store.add_documents, store.aadd_documents, chunks)


def adopted(way: Way, store: VectorStore, folder: Path, **index: Any) -> RSERetriever:
    retriever: RSERetriever = way.call(
        RSERetriever.from_existing_index,
        RSERetriever.afrom_existing_index,
        store,
        SQLDocStore(f"sqlite:///{folder / 'adopted.db'}"),
        ExistingIndex(**index),
        config=fakes.EVERYTHING,
        max_context_length=None,
        fetch_k=2000,
    )
    return retriever


def whole_texts(way: Way, retriever: RSERetriever) -> dict[str, str]:
    """The text of each document, if one passage is all of it."""
    passages = way.invoke(retriever, "what is a string")
    assert len({passage.metadata["doc_id"] for passage in passages}) == len(passages)
    return {passage.metadata["doc_id"]: passage.page_content for passage in passages}


@pytest.mark.parametrize("case", params(KNOWN))
@pytest.mark.parametrize(("way", "overlap"), [("sync", 0), ("async", 150)], indirect=["way"])
def test_chunks_of_a_plain_index_become_passages(
    way: Way,
    opened: Callable[[Case], VectorStore],
    case: Case,
    overlap: int,
    tmp_path: Path,
) -> None:
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=700, chunk_overlap=overlap, add_start_index=True
    )
    store = opened(case)
    add(way, store, splitter.split_documents(documents()))
    retriever = adopted(way, store, tmp_path, doc_id_key="source", start_index_key="start_index")
    found = whole_texts(way, retriever)
    assert {name: letters(text) for name, text in found.items()} == {
        name: letters(text) for name, text in TEXTS.items()
    }
    # A few passages for a question, and each is where it says it is.
    for passage in way.invoke(retriever, "format specification", k=3, max_context_length=3000):
        source = topics[passage.metadata["source"]]
        place = slice(passage.metadata["start_index"], passage.metadata["end_index"])
        assert letters(source[place]) == letters(passage.page_content)
    # From here on it is an index like any other.
    way.add(retriever, [Document("A new text on strings.", metadata={"source": "strings"})])
    way.delete(retriever, ["import"])
    found = whole_texts(way, retriever)
    assert found["strings"] == "A new text on strings."
    assert "import" not in found
    way.delete(retriever, list(TEXTS))
    with pytest.warns(UserWarning, match="no documents with text"):
        assert way.invoke(retriever, "what is a string") == []
    assert way.call(store.similarity_search, store.asimilarity_search, "what is a string") == []


@pytest.mark.parametrize("case", params(IN_ORDER))
def test_chunks_without_places_are_taken_in_the_order_of_the_store(
    way: Way, opened: Callable[[Case], VectorStore], case: Case, tmp_path: Path
) -> None:
    splitter = RecursiveCharacterTextSplitter(chunk_size=500, chunk_overlap=0)
    pages = [
        Document(text[start : start + 3000], metadata={"source": name, "page": start // 3000})
        for name, text in TEXTS.items()
        for start in range(0, len(text), 3000)
    ]
    store = opened(case)
    for page in pages:
        add(way, store, splitter.split_documents([page]))
    retriever = adopted(
        way,
        store,
        tmp_path,
        doc_id_key="source",
        page_key="page",
        in_store_order=True,
        chunk_overlap=0,
    )
    found = whole_texts(way, retriever)
    for name, text in TEXTS.items():
        assert letters(found[name]) == letters(text)
    (passage,) = way.invoke(retriever, "what is a string", k=1)
    assert passage.metadata["page_end"] > passage.metadata["page_start"] == 0


@pytest.mark.parametrize("case", params(KNOWN))
@fakes.both_ways
def test_text_that_other_code_deletes_or_changes_is_not_shown(
    way: Way, opened: Callable[[Case], VectorStore], case: Case, tmp_path: Path
) -> None:
    store = opened(case)
    ids = [f"00000000-0000-0000-0000-{number:012}" for number in range(12)]
    chunks = [
        Document(f"alpha {number} " if number % 2 else f"filler{number} ", metadata={"source": "a"})
        for number in range(12)
    ]
    for number, document in enumerate(chunks):
        document.metadata["number"] = number
    way.call(store.add_documents, store.aadd_documents, chunks, ids=ids)
    retriever = adopted(
        way, store, tmp_path, doc_id_key="source", chunk_index_key="number", chunk_overlap=0
    )
    found = way.invoke(retriever, "alpha", fetch_k=6, k=1)
    assert "alpha 3 filler4 alpha 5 filler6 alpha 7 filler8 alpha 9" in found[0].page_content

    way.call(store.delete, store.adelete, [ids[4]])
    way.call(store.delete, store.adelete, [ids[8]])  # FAISS refuses an id that it has
    changed = Document("filler changed", metadata={"source": "a", "number": 8})
    way.call(store.add_documents, store.aadd_documents, [changed], ids=[ids[8]])
    with pytest.warns(UserWarning, match=r"text of 'a' was changed or deleted"):
        found = way.invoke(retriever, "alpha", fetch_k=6)
    texts = [passage.page_content for passage in found]
    assert not any("filler4" in text or "filler8" in text for text in texts)

    with pytest.warns(UserWarning, match="1 gap"):
        retriever = adopted(
            way, store, tmp_path, doc_id_key="source", chunk_index_key="number", chunk_overlap=0
        )
    found = way.invoke(retriever, "alpha", fetch_k=6)
    assert any("alpha 7 filler changed\nalpha 9" in passage.page_content for passage in found)
    assert not any("filler4" in passage.page_content for passage in found)
