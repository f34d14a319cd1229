"""Short notes that answer a question come back, among long texts that share their words."""

from __future__ import annotations

from pydoc_data.topics import topics
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.embeddings import WordLlamaEmbeddings

# Each note uses words of the Python reference, and is the first hit of the search for its question.
NOTES = {
    "Which class of train tickets may employees book?": (
        "Employees may book second class train tickets only."
    ),
    "Who imports the package for the front office?": (
        "The front office imports its package by courier."
    ),
    "When does the function room open?": "The function room opens at nine.",
    "What is the return policy for library books?": "Return library books within three weeks.",
    "Who may call the exception committee?": "Only the chair may call the exception committee.",
    "Where is the parking loop?": "The parking loop is behind the north gate.",
    "Which lists must be signed by the manager?": "The manager signs the lists of visitors.",
    "How long is the lunch break?": "The lunch break takes forty minutes.",
    "Who passes the keys to the night guard?": "The porter passes the keys to the night guard.",
    "What is the string quartet playing on Friday?": "The string quartet plays Haydn on Friday.",
}


@pytest.fixture(scope="module")
def retriever() -> RSERetriever:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(WordLlamaEmbeddings()), docstore=InMemoryStore()
    )
    pages = [Document(text, id=name) for name, text in topics.items()]
    notes = [Document(note, id=note) for note in NOTES.values()]
    retriever.add_documents([*pages, *notes])
    return retriever


@pytest.mark.parametrize("question", NOTES)
@pytest.mark.parametrize("settings", [{"k": 1}, {"k": 3}, {"max_context_length": "its length"}, {}])
def test_the_best_hit_is_in_the_answer(
    retriever: RSERetriever, question: str, settings: dict[str, Any]
) -> None:
    note = NOTES[question]
    assert retriever.vectorstore is not None
    (first_hit,) = retriever.vectorstore.similarity_search(question, 1)
    assert first_hit.page_content == note
    if "max_context_length" in settings:
        settings = {"max_context_length": len(note)}
    found = retriever.invoke(question, **settings)
    assert note in [passage.page_content for passage in found]
