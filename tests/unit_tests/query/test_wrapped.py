"""Wrapped retrievers: what is no chunk is named, and which scores count."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.errors import CandidateError
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, ask, lines, make_retriever, wrap


@pytest.fixture
def long() -> RSERetriever:
    return make_retriever({"a": lines(*range(0, 60, 3))})


# Candidates that do not say which chunk they are


def test_a_retriever_over_chunks_of_ones_own(long: RSERetriever) -> None:
    """The documents are added already: the retriever has to be made from their chunks."""
    own_chunks = [Document("c0 0", metadata={"source": "a"})]
    said = r"^base_retriever must .*RSEIndexer\(vectorstore, docstore\).chunks\(\).*'doc_id': None"
    with pytest.raises(CandidateError, match=said):
        ask(wrap(long, own_chunks))
    assert ask(wrap(long, list(long.indexer.chunks())))


def test_a_passage_is_no_candidate(long: RSERetriever) -> None:
    with pytest.raises(CandidateError, match="with their metadata, not passages"):
        ask(wrap(long, long))
    stored = InMemoryVectorStore(fakes.Angles())
    stored.add_documents(
        [Document(f"{s.page_content} 0", metadata=s.metadata) for s in long.invoke(QUERY)]
    )
    with pytest.raises(CandidateError, match="filled by other code"):
        ask(RSERetriever(vectorstore=stored, docstore=long.docstore))


def test_chunks_of_others_are_an_error_that_leads_with_the_remedy() -> None:
    source = make_retriever({"a": lines(0, 10)})
    assert source.vectorstore is not None
    source.vectorstore.add_documents([Document("theirs 0", metadata={"source": "theirs"})])
    with pytest.raises(CandidateError, match=r"^this .*\. Use RSERetriever.from_existing_index\("):
        ask(source)
