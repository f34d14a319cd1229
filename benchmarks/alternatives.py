"""What ours is compared with, each as a LangChain retriever over the same vectors."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from langchain_classic.retrievers import EnsembleRetriever, ParentDocumentRetriever
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import VectorStore
from langchain_text_splitters import TextSplitter
from pydantic import PrivateAttr
from typing_extensions import override
from vectors import MatrixStore

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.config import BestSegment
from langchain_rse.ingest.splitting import find_spans

try:
    from dsrag import rse as dsrag
except ImportError:
    dsrag = None

CANDIDATES = 200
HAS_DSRAG = dsrag is not None
PARENT_ID = "parent_id"
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


class _Parents(TextSplitter):
    """Makes parents of consecutive chunks of another splitter."""

    def __init__(self, splitter: TextSplitter, times: int) -> None:
        super().__init__(add_start_index=True)
        self._splitter = splitter
        self._times = times
        self.chunks: dict[str, list[str]] = {}  # by the text of their parent

    @override
    def split_text(self, text: str) -> list[str]:
        spans = find_spans(text, self._splitter)[0]
        parents = []
        for first in range(0, len(spans), self._times):
            group = spans[first : first + self._times]
            parent = text[group[0].start : group[-1].end].strip()
            self.chunks[parent] = [span.embedded_text for span in group]
            parents.append(parent)
        return parents


class _Children(TextSplitter):
    """Splits parents into the chunks that they were made of."""

    def __init__(self, parents: _Parents) -> None:
        super().__init__()
        self._parents = parents

    @override
    def split_text(self, text: str) -> list[str]:
        return self._parents.chunks[text]


def make_parents(
    vectorstore: VectorStore, documents: Sequence[Document], splitter: TextSplitter, times: int
) -> ParentDocumentRetriever:
    """LangChain's retriever of parents, filled; parents come in the order of their first hit.

    Its children are the chunks that all methods have, so they have the same vectors.
    """
    parents = _Parents(splitter, times)
    retriever = ParentDocumentRetriever(
        vectorstore=vectorstore,
        docstore=InMemoryStore(),
        id_key=PARENT_ID,
        child_splitter=_Children(parents),
        parent_splitter=parents,
        search_kwargs={"k": CANDIDATES},
    )
    retriever.add_documents(list(documents))
    return retriever


class LexicalRetriever(BaseRetriever):
    """The chunks that match the words of a query best."""

    docstore: SQLDocStore

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [chunk for chunk, _ in self.docstore.lexical_search(query, CANDIDATES)]


def make_ensemble(
    by_vectors: BaseRetriever, by_words: BaseRetriever, share: float
) -> EnsembleRetriever:
    """LangChain's reciprocal rank fusion of both rankings; ``share`` is the weight of words."""
    return EnsembleRetriever(
        retrievers=[by_vectors, by_words], weights=[1 - share, share], id_key="chunk_id"
    )


class FilledRetriever(BaseRetriever):
    """A published form of RSE, made to return enough text for a budget.

    The published forms limit the number of chunks, not of characters, and stop early.
    Here, for each query,

    1. ``minimum_value`` is lowered until nothing is below it;
    2. the limit of chunks (``overall_max_length`` of the greedy search, ``max_length`` of
       the best segment of each document) starts at the chunks of full size that the budget
       has room for, and is raised until the segments have as many characters as the budget.
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
        return self.fill(query)[0]

    def fill(self, query: str) -> tuple[list[Document], dict[str, Any]]:
        """The segments, and the settings that gave them."""
        config = self.retriever.config
        limit_name = "overall_max_length"
        if isinstance(config.solver, BestSegment):
            limit_name = "max_length"
        longest: tuple[list[Document], dict[str, Any]] = [], {}
        most = -1
        for halving in range(HALVINGS + 1):
            settings = {
                limit_name: WITHOUT_LIMIT,
                "irrelevant_chunk_penalty": config.irrelevant_chunk_penalty / 2**halving,
                "minimum_value": -1e9,
            }
            found, length = self._ask(query, settings)
            if length > most:
                most, longest = length, (found, settings)
            if length >= self.budget:
                return self._lower(query, settings, limit_name) or (found, settings)
        return longest

    def _lower(
        self, query: str, settings: dict[str, Any], limit_name: str
    ) -> tuple[list[Document], dict[str, Any]] | None:
        """The answer with the lowest limit that fills the budget, if one below the given does."""
        limit = max(self.budget // self.chunk_size, 1)
        while limit < settings[limit_name]:
            lowered = {**settings, limit_name: limit}
            found, length = self._ask(query, lowered)
            if length >= self.budget:
                return found, lowered
            # At least this many more chunks are needed.
            limit += -(-(self.budget - length) // self.chunk_size)
        return None

    def _ask(self, query: str, settings: dict[str, Any]) -> tuple[list[Document], int]:
        config = self.retriever.config
        if config.solver == "exact":
            raise ValueError("the retriever's config must have a published solver")
        limits = dict(settings)
        penalty = limits.pop("irrelevant_chunk_penalty")
        solver = config.solver.model_copy(update=limits)
        found = self.retriever.invoke(
            query,
            order="relevance",
            rse_config=config.replace(solver=solver),
            irrelevant_chunk_penalty=penalty,
        )
        return found, sum(len(segment.page_content) for segment in found)


class DsragRetriever(FilledRetriever):
    """The same with dsRAG's own functions, given the settings that `FilledRetriever` found."""

    preset: str
    """A name in ``dsrag.rse.RSE_PARAMS_PRESETS``."""
    store: MatrixStore
    sources: Mapping[str, str]

    @override
    def fill(self, query: str) -> tuple[list[Document], dict[str, Any]]:
        _, settings = super().fill(query)
        parameters = {**dsrag.RSE_PARAMS_PRESETS[self.preset], **settings}
        ranked = self._ranked(query)
        count = parameters["top_k_for_document_selection"]
        # dsRAG's get_meta_document orders documents by the hash of their names.
        chosen = list(dict.fromkeys(hit["metadata"]["doc_id"] for hit in ranked[:count]))
        last = dict.fromkeys(chosen, 0)
        for metadata in (hit["metadata"] for hit in ranked):
            if metadata["doc_id"] in last:
                last[metadata["doc_id"]] = max(last[metadata["doc_id"]], metadata["chunk_index"])
        ends = list(itertools.accumulate(place + 1 for place in last.values()))
        starts = dict(zip(chosen, [0, *ends], strict=False))
        values = dsrag.get_relevance_values(
            [ranked],
            ends[-1] if ends else 0,
            starts,
            chosen,
            parameters["irrelevant_chunk_penalty"],
            parameters["decay_rate"],
            chunk_length_adjustment=parameters["chunk_length_adjustment"],
        )
        segments, _ = dsrag.get_best_segments(
            [[float(value) for value in row] for row in values],
            ends,
            parameters["max_length"],
            parameters["overall_max_length"],
            parameters["minimum_value"],
        )
        documents = []
        for start, end in segments:
            name = chosen[bisect.bisect_right(ends, start)]
            chunks = range(start - starts[name], end - starts[name])
            documents.append(slice_of(self.sources, self.store, name, chunks))
        return documents, settings

    def _ranked(self, query: str) -> list[dict[str, Any]]:
        """The candidates as dsRAG wants them."""
        return [
            {
                "similarity": score,
                "metadata": {
                    "doc_id": hit.metadata["doc_id"],
                    "chunk_index": hit.metadata["chunk_index"],
                    # Of the text, only its length is used.
                    "chunk_text": " " * (hit.metadata["end_index"] - hit.metadata["start_index"]),
                },
            }
            for hit, score in self.store.similarity_search_with_score(query, k=CANDIDATES)
        ]
