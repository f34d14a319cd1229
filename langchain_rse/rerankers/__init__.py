"""Rerankers that keep all scores: document compressors for RSERetriever or any other pipeline."""

from langchain_rse.rerankers.cohere import CohereReranker
from langchain_rse.rerankers.cross_encoder import CrossEncoderReranker

__all__ = ["CohereReranker", "CrossEncoderReranker"]
