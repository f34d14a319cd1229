"""Relevance filters: document compressors that drop irrelevant documents.

Use them as ``reranker`` of `RSERetriever`, or wherever LangChain accepts a document compressor.
"""

from langchain_rse.filters.model_filter import LMBasedRelevanceFilter
from langchain_rse.filters.similarity import SimilarityBasedRelevanceFilter

__all__ = ["LMBasedRelevanceFilter", "SimilarityBasedRelevanceFilter"]
