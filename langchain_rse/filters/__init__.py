"""Relevance filters: document compressors that drop documents that do not help with the query.

They work as the reranker of RSE, or anywhere LangChain takes a document compressor.
"""

from langchain_rse.filters.model_filter import LMBasedRelevanceFilter
from langchain_rse.filters.similarity import SimilarityBasedRelevanceFilter, has_text

__all__ = ["LMBasedRelevanceFilter", "SimilarityBasedRelevanceFilter", "has_text"]
