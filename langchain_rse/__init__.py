"""Relevant Segment Extraction for LangChain: passages instead of fragments."""

from langchain_rse.adopting import Adoption, AdoptionError, ExistingIndex
from langchain_rse.config import PRESETS, RSEConfig
from langchain_rse.docstores import JSONDocStore, SQLDocStore
from langchain_rse.indexing import RSEIndexer
from langchain_rse.retrievers import RSERetriever
from langchain_rse.schema import CandidateError, CorruptRecordError, MissingRecordError
from langchain_rse.splitting import SplittingError

__all__ = [
    "PRESETS",
    "Adoption",
    "AdoptionError",
    "CandidateError",
    "CorruptRecordError",
    "ExistingIndex",
    "JSONDocStore",
    "MissingRecordError",
    "RSEConfig",
    "RSEIndexer",
    "RSERetriever",
    "SQLDocStore",
    "SplittingError",
]
