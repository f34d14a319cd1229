"""A knowledge base of dsRAG is read in, with its vectors."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import ExistingIndex, RSERetriever
from langchain_rse.adopting import dsrag_chunks
from tests.unit_tests import fakes
from tests.unit_tests.adopting.knowledge_base import KnowledgeBase

way = fakes.way
Way = fakes.Way

DOCUMENTS: dict[str, list[dict[str, Any]]] = {
    "birds.pdf": [
        {"chunk_text": "Herons fish.", "document_title": "Birds", "chunk_page_start": 1},
        {"chunk_text": "They stand still.", "document_title": "Birds", "section_title": "Ways"},
        {"chunk_text": "Owls hunt.", "document_title": "Birds", "chunk_page_start": 2},
    ],
    "fish": [{"chunk_text": "Pikes hunt.", "document_title": "", "section_title": ""}],
    "empty": [],
}


def test_chunks_have_the_ids_of_the_vectors_and_what_is_known_of_them() -> None:
    chunks = list(dsrag_chunks(KnowledgeBase(DOCUMENTS, fakes.BagOfWords())))
    assert [chunk.id for chunk in chunks] == ["birds.pdf_0", "birds.pdf_1", "birds.pdf_2", "fish_0"]
    assert [chunk.page_content for chunk in chunks][1] == "They stand still."
    assert [chunk.metadata for chunk in chunks[:2]] == [
        {"doc_id": "birds.pdf", "chunk_index": 0, "document_title": "Birds", "page": 1},
        {
            "doc_id": "birds.pdf",
            "chunk_index": 1,
            "document_title": "Birds",
            "section_title": "Ways",
        },
    ]
    assert chunks[3].metadata == {"doc_id": "fish", "chunk_index": 0}


@pytest.mark.parametrize("again", [False, True], ids=["its vectors", "embedded again"])
@fakes.both_ways
def test_segments_of_a_knowledge_base(way: Way, *, again: bool) -> None:
    embeddings = fakes.BagOfWords()
    kb = KnowledgeBase(DOCUMENTS, embeddings)
    store = InMemoryVectorStore(embeddings)
    chunks = list(dsrag_chunks(kb))
    if again:
        store.add_documents(chunks)
    else:
        rows = zip(chunks, kb.vector_db.vectors, strict=True)
        store.store = {
            str(chunk.id): {
                "id": chunk.id,
                "vector": vector,
                "text": chunk.page_content,
                "metadata": chunk.metadata,
            }
            for chunk, vector in rows
        }
    embeddings.batches.clear()
    retriever = way.call(
        RSERetriever.from_existing_index,
        RSERetriever.afrom_existing_index,
        store,
        InMemoryStore(),
        ExistingIndex(doc_id_key="doc_id", chunk_index_key="chunk_index", chunk_overlap=0),
        config=fakes.EVERYTHING,
    )
    found = {one.metadata["doc_id"]: one for one in way.invoke(retriever, "what do owls hunt")}
    assert embeddings.batches == []
    assert found.keys() == {"birds.pdf", "fish"}
    birds = found["birds.pdf"]
    assert birds.page_content == "Herons fish.\nThey stand still.\nOwls hunt."
    assert birds.metadata["document_title"] == "Birds"
    assert (birds.metadata["page_start"], birds.metadata["page_end"]) == (1, 2)
