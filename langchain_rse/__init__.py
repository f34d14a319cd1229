"""Relevant Segment Extraction for LangChain: passages instead of fragments.

This module exports the names that most users need. Rerankers are in `langchain_rse.rerankers`,
relevance filters in `langchain_rse.filters`, errors in `langchain_rse.errors`. Names load on first
use, so importing the package is cheap.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_rse.adopting import ExistingIndex
    from langchain_rse.config import PRESETS, RSEConfig
    from langchain_rse.errors import RSEError
    from langchain_rse.evaluation import Evidence, Question, evaluate, load_questions, tune
    from langchain_rse.explaining import RSETrace, TraceCollector
    from langchain_rse.headers import DocumentHeaders, LMBasedHeaders
    from langchain_rse.indexer import RSEIndexer
    from langchain_rse.retriever import RSERetriever
    from langchain_rse.stores.sql import SQLDocStore
    from langchain_rse.tools import create_rse_tool, create_rse_tools, verify_quotes

__all__ = [
    "PRESETS",
    "DocumentHeaders",
    "Evidence",
    "ExistingIndex",
    "LMBasedHeaders",
    "Question",
    "RSEConfig",
    "RSEError",
    "RSEIndexer",
    "RSERetriever",
    "RSETrace",
    "SQLDocStore",
    "TraceCollector",
    "create_rse_tool",
    "create_rse_tools",
    "evaluate",
    "load_questions",
    "tune",
    "verify_quotes",
]

_MODULE_OF = {
    "PRESETS": "config",
    "DocumentHeaders": "headers",
    "Evidence": "evaluation",
    "ExistingIndex": "adopting",
    "LMBasedHeaders": "headers",
    "Question": "evaluation",
    "RSEConfig": "config",
    "RSEError": "errors",
    "RSEIndexer": "indexer",
    "RSERetriever": "retriever",
    "RSETrace": "explaining",
    "SQLDocStore": "stores.sql",
    "TraceCollector": "explaining",
    "create_rse_tool": "tools",
    "create_rse_tools": "tools",
    "evaluate": "evaluation",
    "load_questions": "evaluation",
    "tune": "evaluation",
    "verify_quotes": "tools",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'langchain_rse' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"langchain_rse.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
