"""Relevance filters: document compressors that drop what does not help to answer the query.

They stand before RSE, as its reranker, or anywhere LangChain takes a document compressor.
"""

from langchain_rse.filters.judgments import Judgment, Judgments
from langchain_rse.filters.language_model import LMBasedRelevanceFilter
from langchain_rse.filters.similarity import SimilarityBasedRelevanceFilter, has_text

__all__ = [
    "Judgment",
    "Judgments",
    "LMBasedRelevanceFilter",
    "SimilarityBasedRelevanceFilter",
    "has_text",
]
