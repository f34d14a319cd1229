"""Wrapped retrievers: what is no chunk is named, and which scores count."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import ExistingIndex, RSERetriever
from langchain_rse.errors import CandidateError
from langchain_rse.query.candidates import Hit
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, ask, lines, make_retriever, ranges, wrap


def chunks_of(source: RSERetriever) -> list[Document]:
    return list(source.indexer.chunks())


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
    assert ask(wrap(long, chunks_of(long)))


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


def test_an_adopted_index_that_has_grown() -> None:
    store, docstore = InMemoryVectorStore(fakes.Angles()), InMemoryStore()
    index = ExistingIndex(doc_id_key="source", chunk_index_key="number", chunk_overlap=0)
    store.add_documents([Document("a 0", metadata={"source": "a", "number": 0})])
    RSERetriever.from_existing_index(store, docstore, index)
    store.add_documents([Document("b 1", metadata={"source": "b", "number": 0})])
    retriever = RSERetriever(vectorstore=store, docstore=docstore, config=fakes.EVERYTHING)
    with pytest.raises(CandidateError, match="again whenever that code changes it"):
        ask(retriever)
    RSERetriever.from_existing_index(store, docstore, index)
    assert sorted(ranges(ask(retriever))) == [("a", 0, 1), ("b", 0, 1)]


def test_only_a_relevance_score_is_a_score(long: RSERetriever) -> None:
    found = chunks_of(long)[:3]
    for number, chunk in enumerate(found):
        chunk.metadata["score"] = 0.9 - number / 10
    assert {hit.score for hit in hits_of(wrap(long, found))} == {None}
    for number, chunk in enumerate(found):
        chunk.metadata["relevance_score"] = 0.7 - number / 10
    assert [hit.score for hit in hits_of(wrap(long, found))] == pytest.approx([0.7, 0.6, 0.5])


def hits_of(retriever: RSERetriever) -> list[Hit]:
    [found] = retriever.explain(QUERY).searched.values()
    return [candidate.hits["vectors"] for candidate in found]
