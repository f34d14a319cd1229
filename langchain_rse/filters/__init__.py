"""Relevance filters: document compressors that drop what does not help to answer the query.

They work in front of RSE, as its reranker, or anywhere LangChain takes a document compressor.
"""

from langchain_rse.filters.language_model import LMBasedRelevanceFilter
from langchain_rse.filters.similarity import SimilarityBasedRelevanceFilter, has_text

__all__ = ["LMBasedRelevanceFilter", "SimilarityBasedRelevanceFilter", "has_text"]
