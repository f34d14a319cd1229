"""Relevance filters: document compressors that drop irrelevant documents.

Use them as ``reranker`` of `RSERetriever`, or wherever LangChain accepts a document compressor.
"""

from langchain_rse.filters.relevance_filters import (
    LMBasedRelevanceFilter,
    SimilarityBasedRelevanceFilter,
)

__all__ = ["LMBasedRelevanceFilter", "SimilarityBasedRelevanceFilter"]
