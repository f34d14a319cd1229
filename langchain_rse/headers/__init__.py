"""Contextual chunk headers: text that is embedded in front of a chunk.

A chunk seldom says which document it is from and what the document is about. A header does.
"""

from langchain_rse.headers.document_headers import DocumentHeaders
from langchain_rse.headers.model_headers import LMBasedHeaders

__all__ = ["DocumentHeaders", "LMBasedHeaders"]
