"""What ours is compared with, each as a LangChain retriever over the same vectors."""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from data import MatrixStore
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr
from typing_extensions import override

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.config import Greedy

CANDIDATES = 200
FUSION_CONSTANT = 60  # of reciprocal rank fusion, as published and in LangChain
# At no penalty at all every chunk of a document is as good as any other.
HALVINGS = 5
WITHOUT_LIMIT = 10_000

Search = Callable[[str], list[tuple[Document, float]]]
"""Finds the candidates of a query, best first, with their scores."""


class NeighborRetriever(BaseRetriever):
    """Each hit with the chunks around it, in order of rank.

    Chunks that came with a better hit are left out; each range of chunks that is left of a hit and
    its neighbors is one Document.
    """

    retriever: BaseRetriever
    """Finds the hits."""
    store: MatrixStore
    """Knows where the documents' chunks are."""
    sources: Mapping[str, str]
    """The documents' texts by id."""
    around: int
    """Chunks before *and* after each hit."""

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
    """The best hits of a retriever, which is asked only once for each query."""

    retriever: BaseRetriever
    count: int = CANDIDATES
    """The most hits."""
    _found: dict[str, list[Document]] = PrivateAttr(default_factory=dict)

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if query not in self._found:
            self._found[query] = self.retriever.invoke(query)[: self.count]
        return self._found[query]


class ContinuityRetriever(BaseRetriever):
    """Each hit with the neighbors that continue it, after SCAR (arXiv 2606.16661).

    A neighbor beside a hit is taken if its similarity to the query, less a penalty for how far it
    differs from the hit, is a share of the hit's similarity to the query. The paper's abstract has
    this rule without its two constants; these are ours.
    """

    store: MatrixStore
    sources: Mapping[str, str]
    penalty: float = 0.2
    share: float = 0.8

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        asked = np.asarray(self.store.embeddings.embed_query(query))
        hits = self.store.similarity_search(query, k=CANDIDATES)
        vectors, seen = self.store.vectors, set[tuple[str, int]]()
        found: list[Document] = []
        for hit in hits:
            doc_id, index = hit.metadata["doc_id"], hit.metadata["chunk_index"]
            vector = vectors[doc_id, index]
            least = self.share * float(vector @ asked)
            taken = []
            for place in (index - 1, index, index + 1):
                beside = vectors.get((doc_id, place))
                if beside is None or (doc_id, place) in seen:
                    continue
                score = float(beside @ asked) - self.penalty * (1 - float(beside @ vector))
                if place == index or score >= least:
                    taken.append(place)
            seen |= {(doc_id, place) for place in taken}
            found += [
                slice_of(self.sources, self.store, doc_id, chunks) for chunks in ranges(taken)
            ]
        return found


class LayeredRetriever(BaseRetriever):
    """The best documents, and of each its best chunks, after Vespa's layered ranking.

    Documents come by their best hits, the chunks of each in their order; hits beyond that number
    come at the end, by rank.
    """

    retriever: BaseRetriever
    chunks: int = 4
    """The most chunks of a document."""

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        by_document: dict[str, list[Document]] = {}
        for hit in self.retriever.invoke(query):
            by_document.setdefault(hit.metadata["doc_id"], []).append(hit)
        first: list[Document] = []
        others: list[Document] = []
        for hits in by_document.values():
            best = hits[: self.chunks]
            first += sorted(best, key=lambda hit: hit.metadata["start_index"])
            others += hits[self.chunks :]
        return [*first, *others]


class InOrderRetriever(BaseRetriever):
    """The best chunks that fill a budget, in the order of their documents (arXiv 2506.03989)."""

    retriever: BaseRetriever
    budget: int

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        hits = self.retriever.invoke(query)
        sizes = itertools.accumulate(len(hit.page_content) for hit in hits)
        taken = hits[: bisect.bisect_left(list(sizes), self.budget) + 1]
        return sorted(taken, key=lambda hit: (hit.metadata["doc_id"], hit.metadata["start_index"]))


class LargestGapRetriever(BaseRetriever):
    """The best chunks up to the largest drop of their scores: Adaptive-k (arXiv 2506.08479).

    As in the published experiments, a drop in the last tenth of the candidates does not count, and
    five more chunks follow the last one before the drop. How much comes back is up to the scores.
    """

    search: Search
    ignored_tail: float = 0.1
    more: int = 5

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        hits = self.search(query)
        drops = -np.diff([score for _, score in hits])
        counted = drops[: len(drops) - int(len(drops) * self.ignored_tail)]
        best = int(counted.argmax()) + 1 if counted.size else len(hits)
        return [hit for hit, _ in hits[: best + self.more]]


class SameLengthRetriever(BaseRetriever):
    """Ours with as many characters for each question as another retriever returned."""

    retriever: RSERetriever
    lengths: Mapping[str, int]
    """By question."""

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self.retriever.invoke(
            query, max_context_length=self.lengths[query], irrelevant_chunk_penalty=0.0
        )


def ranges(numbers: Sequence[int]) -> Iterator[range]:
    """Ascending numbers as ranges."""
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in group]
        yield range(members[0], members[-1] + 1)


def slice_of(
    sources: Mapping[str, str], store: MatrixStore, doc_id: str, chunks: range
) -> Document:
    """The text of a range of a document's chunks, as it stands in the source."""
    start, end = store.spans[doc_id, chunks[0]][0], store.spans[doc_id, chunks[-1]][1]
    return Document(
        page_content=sources[doc_id][start:end],
        metadata={"doc_id": doc_id, "start_index": start},
    )


class ParentRetriever(BaseRetriever):
    """Parents of consecutive chunks in the order of their first hit, as `ParentDocumentRetriever`.

    Its children are the chunks that all methods have, so they have the same vectors.
    """

    retriever: BaseRetriever
    """Finds the hits."""
    store: MatrixStore
    sources: Mapping[str, str]
    chunks: int
    """Chunks of a parent."""

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        parents: dict[tuple[str, int], None] = {}
        for hit in self.retriever.invoke(query):
            number = hit.metadata["chunk_index"] // self.chunks
            parents[hit.metadata["doc_id"], number] = None
        found = []
        for doc_id, number in parents:
            first = number * self.chunks
            after = first + 1
            while after < first + self.chunks and (doc_id, after) in self.store.spans:
                after += 1
            parent = slice_of(self.sources, self.store, doc_id, range(first, after))
            parent.page_content = parent.page_content.rstrip()
            found.append(parent)
        return found


class LexicalRetriever(BaseRetriever):
    """The chunks that match the words of a query best."""

    docstore: SQLDocStore

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [chunk for chunk, _ in self.docstore.lexical_search(query, CANDIDATES)]


class FusedRetriever(BaseRetriever):
    """Reciprocal rank fusion of two rankings with weights, as LangChain's `EnsembleRetriever`."""

    retrievers: tuple[BaseRetriever, BaseRetriever]
    weights: tuple[float, float]

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        hits: dict[str, Document] = {}
        scores: dict[str, float] = defaultdict(float)
        for retriever, weight in zip(self.retrievers, self.weights, strict=True):
            for rank, hit in enumerate(retriever.invoke(query), start=1):
                chunk_id = hit.metadata["chunk_id"]
                hits.setdefault(chunk_id, hit)
                scores[chunk_id] += weight / (rank + FUSION_CONSTANT)
        return sorted(hits.values(), key=lambda hit: -scores[hit.metadata["chunk_id"]])


class RerankedRetriever(BaseRetriever):
    """The best hits of a retriever in the order of a reranker."""

    retriever: BaseRetriever
    reranker: BaseDocumentCompressor
    count: int
    """The number of hits that are reranked."""

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        hits = self.retriever.invoke(query)[: self.count]
        return list(self.reranker.compress_documents(hits, query))


class FilledRetriever(BaseRetriever):
    """The published greedy search, made to return enough text for a budget.

    It limits the number of chunks, not of characters, and stops early. Here, for each query,

    1. ``minimum_value`` is lowered until nothing is below it;
    2. the limit of chunks (``overall_max_length``) starts at the chunks of full size that the
       budget has room for, and is raised until the segments have as many characters as the budget.
       Without that limit, the first long segment would spend small budgets, which does worse;
    3. where no limit is high enough, because no more chunks are worth their penalty, the
       penalty is halved, up to five times; if the budget still is not filled, the longest
       answer counts.

    Segments come best first. All else is as published, the number of documents included.
    """

    retriever: RSERetriever
    """Asked again and again; its config is the published one."""
    budget: int
    """Characters to fill."""
    chunk_size: int
    """Characters of a full chunk."""

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
            # At least this many more chunks are needed.
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
    """The characters of all texts."""
    return sum(len(document.page_content) for document in documents)
