"""Relevant Segment Extraction for LangChain: passages instead of fragments.

This module exports the names that most users need. Rerankers are in `langchain_rse.rerankers`,
relevance filters in `langchain_rse.filters`, errors in `langchain_rse.errors`. Names load on first
use, so importing the package is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_rse.adopting import ExistingIndex as ExistingIndex
    from langchain_rse.config import PRESETS as PRESETS
    from langchain_rse.config import RSEConfig as RSEConfig
    from langchain_rse.errors import RSEError as RSEError
    from langchain_rse.evaluation import evaluate as evaluate
    from langchain_rse.explaining import RSETrace as RSETrace
    from langchain_rse.explaining import TraceCollector as TraceCollector
    from langchain_rse.headers import DocumentHeaders as DocumentHeaders
    from langchain_rse.headers import LMBasedHeaders as LMBasedHeaders
    from langchain_rse.indexer import RSEIndexer as RSEIndexer
    from langchain_rse.questions import Question as Question
    from langchain_rse.retriever import RSERetriever as RSERetriever
    from langchain_rse.stores.redis import RedisDocStore as RedisDocStore
    from langchain_rse.stores.sql import SQLDocStore as SQLDocStore
    from langchain_rse.tools import create_rse_tool as create_rse_tool
    from langchain_rse.tools import verify_quotes as verify_quotes

_MODULES = {
    "adopting": ("ExistingIndex",),
    "config": ("PRESETS", "RSEConfig"),
    "errors": ("RSEError",),
    "evaluation": ("evaluate",),
    "explaining": ("RSETrace", "TraceCollector"),
    "headers": ("DocumentHeaders", "LMBasedHeaders"),
    "indexer": ("RSEIndexer",),
    "questions": ("Question",),
    "retriever": ("RSERetriever",),
    "stores.redis": ("RedisDocStore",),
    "stores.sql": ("SQLDocStore",),
    "tools": ("create_rse_tool", "verify_quotes"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'langchain_rse' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"langchain_rse.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
