"""Answers a question with several settings but only one search."""

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.stores import InMemoryBaseStore

from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings
from langchain_rse.query.candidates import Sources
from langchain_rse.query.filters import filters_of
from langchain_rse.query.pipeline import answer
from langchain_rse.query.reranking import find_candidates
from langchain_rse.query.searching import queries_of
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.text.quoting import encodable


def try_settings(
    question: str, sources: Sources, settings: Sequence[QuerySettings]
) -> Steps[list[Sequence[Document]]]:
    """Answer a question with each of the settings; return the passages of each answer.

    The search, ``query_generator`` and the reranker run only once, with the first settings. The
    other settings may differ only in later steps.
    """
    first = settings[0]
    filters = filters_of(first.search_kwargs, sources.base_retriever)
    queries = yield from queries_of(encodable(question), first, None)
    candidates = yield from find_candidates(sources, queries, first, filters)
    cached = sources._replace(docstore=_CachedDocStore(sources.docstore))
    answers: list[Sequence[Document]] = []
    for each in settings:
        trace = yield from answer(question, cached, each, candidates=candidates)
        answers.append(trace.documents_returned)
    return answers


class _CachedDocStore(InMemoryBaseStore[Any]):
    """Caches records of a docstore, because all settings read the same few documents."""

    def __init__(self, docstore: DocStore) -> None:
        super().__init__()
        self._docstore = docstore

    def mget(self, keys: Sequence[str]) -> list[Document | None]:
        missing_keys = [key for key in keys if key not in self.store]
        if missing_keys:
            records = self._docstore.mget(missing_keys)
            self.store.update(zip(missing_keys, records, strict=True))
        return super().mget(keys)
