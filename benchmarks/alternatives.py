"""The alternatives, each a LangChain retriever over the same vectors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from data import MatrixStore
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr
from typing_extensions import override

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.config import Greedy

CANDIDATES = 200
# With a penalty of 0, all chunks of a document would be equally good.
HALVINGS = 5
WITHOUT_LIMIT = 10_000


class NeighborRetriever(BaseRetriever):
    """Each hit with the chunks around it, in order of rank.

    Chunks that came with a better hit are excluded; each remaining range of chunks is one Document.
    """

    retriever: BaseRetriever
    store: MatrixStore  # with the spans of the chunks
    sources: Mapping[str, str]  # texts by document id
    around: int  # chunks before *and* after each hit

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        seen: set[tuple[str, int]] = set()
        found: list[Document] = []
        for hit in self.retriever.invoke(query):
            doc_id, index = hit.metadata["doc_id"], hit.metadata["chunk_index"]
            chunks = range(max(index - self.around, 0), index + self.around + 1)
            unseen = [
                chunk
                for chunk in chunks
                if (doc_id, chunk) in self.store.spans and (doc_id, chunk) not in seen
            ]
            seen |= {(doc_id, chunk) for chunk in unseen}
            found += [
                slice_of(self.sources, self.store, doc_id, chunks) for chunks in ranges(unseen)
            ]
        return found


class RememberingRetriever(BaseRetriever):
    """The best hits of a retriever, cached by query."""

    retriever: BaseRetriever
    count: int = CANDIDATES
    _found: dict[str, list[Document]] = PrivateAttr(default_factory=dict)

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if query not in self._found:
            self._found[query] = self.retriever.invoke(query)[: self.count]
        return self._found[query]


def ranges(numbers: Sequence[int]) -> Iterator[range]:
    """Ascending numbers as ranges."""
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in group]
        yield range(members[0], members[-1] + 1)


def slice_of(
    sources: Mapping[str, str], store: MatrixStore, doc_id: str, chunks: range
) -> Document:
    """The text of a range of a document's chunks, as a slice of the source."""
    start, end = store.spans[doc_id, chunks[0]][0], store.spans[doc_id, chunks[-1]][1]
    return Document(
        page_content=sources[doc_id][start:end],
        metadata={"doc_id": doc_id, "start_index": start},
    )


class LexicalRetriever(BaseRetriever):
    """The best chunks by keyword search."""

    docstore: SQLDocStore

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [chunk for chunk, _ in self.docstore.lexical_search(query, CANDIDATES)]


class RerankedRetriever(BaseRetriever):
    """The best hits of a retriever in the order of a reranker."""

    retriever: BaseRetriever
    reranker: BaseDocumentCompressor
    count: int

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        hits = self.retriever.invoke(query)[: self.count]
        return list(self.reranker.compress_documents(hits, query))


class FilledRetriever(BaseRetriever):
    """The published greedy search, made to return enough text for a budget.

    The search limits the number of chunks, not of characters. The limit rises from the chunks that
    fit the budget until the passages fill it: without one, the first long passage would spend small
    budgets. If no limit is high enough, the penalty is halved, up to five times, and then the
    longest answer counts. No passage is below ``minimum_value``; all else is as published.
    """

    retriever: RSERetriever  # with the published config
    budget: int  # characters to fill
    chunk_size: int

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        longest: list[Document] = []
        for halving in range(HALVINGS + 1):
            penalty = self.retriever.config.irrelevant_chunk_penalty / 2**halving
            found = self._ask(query, penalty, WITHOUT_LIMIT)
            if length_of(found) >= self.budget:
                return self._ask_with_lowest_limit(query, penalty)
            longest = max(longest, found, key=length_of)
        return longest

    def _ask_with_lowest_limit(self, query: str, penalty: float) -> list[Document]:
        """The answer with the lowest limit of chunks that fills the budget."""
        limit = max(self.budget // self.chunk_size, 1)
        found = self._ask(query, penalty, limit)
        while limit < WITHOUT_LIMIT and length_of(found) < self.budget:
            # At least this many additional chunks are needed.
            limit += -(-(self.budget - length_of(found)) // self.chunk_size)
            found = self._ask(query, penalty, limit)
        return found

    def _ask(self, query: str, penalty: float, limit: int) -> list[Document]:
        config = self.retriever.config
        if not isinstance(config.solver, Greedy):
            raise TypeError("the retriever's config must have the published greedy solver")
        changes = {"overall_max_length": limit, "minimum_value": -1e9}
        solver = config.solver.model_copy(update=changes)
        config = config.replace(solver=solver, irrelevant_chunk_penalty=penalty)
        return self.retriever.invoke(query, order="relevance", rse_config=config)


def length_of(documents: Sequence[Document]) -> int:
    """The total number of characters."""
    return sum(len(document.page_content) for document in documents)
