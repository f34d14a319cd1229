"""Returned Documents print their place and text first, and are plain Documents for other code."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumpd
from langchain_core.prompts import PromptTemplate, format_document
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import TypeAdapter

from langchain_rse import DocumentHeaders, RSEConfig, RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.ingest.default_splitter import default_text_splitter
from langchain_rse.query.printing import PrintedDocument, place_of
from tests.unit_tests.fakes import QUERY, BagOfWords, lines, make_retriever


@pytest.fixture(scope="module")
def printed() -> Document:
    retriever = make_retriever({"a.txt": lines(0, 80, 10)})
    [document, *_] = retriever.invoke(QUERY)
    return document


@pytest.fixture(scope="module")
def plain(printed: Document) -> Document:
    fields: dict[str, Any] = {"id": printed.id, "metadata": printed.metadata}
    return Document(printed.page_content, **fields)


def test_place_and_text_come_first(printed: Document) -> None:
    place = "<a.txt, characters 0–5>"
    text = "page_content='c0 0"
    assert repr(printed).startswith(f"Document({place}, {text}")
    assert str(printed).startswith(f"{place} {text}")
    for form in (repr(printed), str(printed)):
        assert "'source': 'a.txt'" in form
        assert "'rse': {'chunk_start': 0, 'chunk_end': 1, 'chunks': [...]}" in form
        assert "credited" not in form
        assert form.count(str(printed.id)) <= 1


@pytest.mark.parametrize(
    ("metadata", "place"),
    [
        ({"page": 2}, "a.pdf, page 3"),
        ({"page_start": 2, "page_end": 4}, "a.pdf, pages 3–5"),
        ({"page": 2, "page_label": "iv"}, "a.pdf, page iv"),
        ({"start_index": 5, "end_index": 1_900}, "a.pdf, characters 5–1,900"),
        ({}, "a.pdf"),
    ],
)
def test_a_place_is_pages_or_else_characters(metadata: dict[str, Any], place: str) -> None:
    assert place_of({"source": "a.pdf", "doc_id": "a", **metadata}) == place


def test_a_place_names_the_file_of_a_path() -> None:
    assert place_of({"source": "/home/docs/a.pdf", "doc_id": "/home/docs/a.pdf"}) == "a.pdf"


def test_a_retriever_prints_its_stores_and_the_settings_that_differ() -> None:
    vectorstore = InMemoryVectorStore(BagOfWords())
    docstore = SQLDocStore("sqlite://")
    retriever = RSERetriever(vectorstore=vectorstore, docstore=docstore)
    stores = "vectorstore=InMemoryVectorStore, docstore=SQLDocStore"
    assert repr(retriever) == f"RSERetriever({stores})"
    retriever = RSERetriever(
        vectorstore=vectorstore,
        docstore=docstore,
        k=3,
        max_context_length=None,
        config=RSEConfig(decay_rate=7.5),
        length_function=str.__len__,
        headers=DocumentHeaders(),
    )
    assert repr(retriever) == (
        "RSERetriever(k=3, max_context_length=None, length_function=__len__, "
        f"config=RSEConfig(decay_rate=7.5), {stores}, headers=DocumentHeaders)"
    )
    assert repr(retriever.indexer) == "RSEIndexer(InMemoryVectorStore, SQLDocStore('sqlite://'))"


def test_objects_print_no_addresses() -> None:
    assert repr(WordLlamaEmbeddings()) == "WordLlamaEmbeddings()"
    assert repr(default_text_splitter(400)) == "DefaultTextSplitter(chunk_size=400)"


def test_it_equals_a_plain_document(printed: Document, plain: Document) -> None:
    assert type(printed) is PrintedDocument
    assert type(plain) is Document
    assert printed == plain
    assert plain == printed
    assert printed != plain.model_copy(update={"id": "other"})
    assert isinstance(printed, Document)


def test_it_is_pickled_as_a_plain_document(printed: Document, plain: Document) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(printed, protocol))  # noqa: S301 - made here
        assert type(again) is Document
        assert again == plain
    assert pickle._loads(pickle._dumps(printed)) == plain  # type: ignore[attr-defined]


def test_copies_print_alike(printed: Document) -> None:
    for copied in (copy.copy(printed), copy.deepcopy(printed), printed.model_copy(deep=True)):
        assert copied == printed
        assert repr(copied) == repr(printed)


def test_it_is_serialized_as_a_plain_document(printed: Document, plain: Document) -> None:
    assert dumpd(printed) == dumpd(plain)
    assert printed.model_dump() == plain.model_dump()
    assert printed.model_dump_json() == plain.model_dump_json()
    adapter = TypeAdapter(list[Document])
    assert adapter.dump_json([printed]) == adapter.dump_json([plain])
    prompt = PromptTemplate.from_template("{source}: {page_content}")
    assert format_document(printed, prompt) == format_document(plain, prompt)


def test_a_checkpoint_has_a_plain_document(printed: Document, plain: Document) -> None:
    jsonplus = pytest.importorskip("langgraph.checkpoint.serde.jsonplus")
    serializer = jsonplus.JsonPlusSerializer(allowed_msgpack_modules=None)  # only known classes
    written = serializer.dumps_typed(printed)
    assert written == serializer.dumps_typed(plain)
    again = serializer.loads_typed(written)
    assert type(again) is Document
    assert again == plain
