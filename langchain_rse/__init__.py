"""Relevant Segment Extraction for LangChain: passages instead of fragments.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_rse.adopting import Adoption, ExistingIndex
    from langchain_rse.config import PRESETS, RSEConfig
    from langchain_rse.errors import (
        AdoptionError,
        CandidateError,
        CorruptRecordError,
        MetadataError,
        MissingRecordError,
        SplittingError,
        StoreMismatchError,
    )
    from langchain_rse.evaluation import aevaluate, evaluate
    from langchain_rse.filters import LMBasedRelevanceFilter, SimilarityBasedRelevanceFilter
    from langchain_rse.headers import DocumentHeaders, LMBasedHeaders
    from langchain_rse.indexer import RSEIndexer
    from langchain_rse.ingest.tokens import TokenSplitter
    from langchain_rse.rerankers import CohereReranker, CrossEncoderReranker
    from langchain_rse.retriever import RSERetriever
    from langchain_rse.stores.files import FileDocStore
    from langchain_rse.stores.json import JSONDocStore
    from langchain_rse.stores.redis import RedisDocStore
    from langchain_rse.stores.sql import SQLDocStore

_MODULES = {
    "adopting": ("Adoption", "ExistingIndex"),
    "config": ("PRESETS", "RSEConfig"),
    "errors": (
        "AdoptionError",
        "CandidateError",
        "CorruptRecordError",
        "MetadataError",
        "MissingRecordError",
        "SplittingError",
        "StoreMismatchError",
    ),
    "evaluation": ("aevaluate", "evaluate"),
    "filters": ("LMBasedRelevanceFilter", "SimilarityBasedRelevanceFilter"),
    "headers": ("DocumentHeaders", "LMBasedHeaders"),
    "indexer": ("RSEIndexer",),
    "ingest.tokens": ("TokenSplitter",),
    "rerankers": ("CohereReranker", "CrossEncoderReranker"),
    "retriever": ("RSERetriever",),
    "stores.files": ("FileDocStore",),
    "stores.json": ("JSONDocStore",),
    "stores.redis": ("RedisDocStore",),
    "stores.sql": ("SQLDocStore",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "PRESETS",
    "Adoption",
    "AdoptionError",
    "CandidateError",
    "CohereReranker",
    "CorruptRecordError",
    "CrossEncoderReranker",
    "DocumentHeaders",
    "ExistingIndex",
    "FileDocStore",
    "JSONDocStore",
    "LMBasedHeaders",
    "LMBasedRelevanceFilter",
    "MetadataError",
    "MissingRecordError",
    "RSEConfig",
    "RSEIndexer",
    "RSERetriever",
    "RedisDocStore",
    "SQLDocStore",
    "SimilarityBasedRelevanceFilter",
    "SplittingError",
    "StoreMismatchError",
    "TokenSplitter",
    "aevaluate",
    "evaluate",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'langchain_rse' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"langchain_rse.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
