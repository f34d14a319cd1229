"""Contextual headers: text that is embedded in front of a chunk.

A chunk alone rarely shows which document it comes from and what the document is about. A header
adds this context.
"""

from langchain_rse.headers.document_headers import DocumentHeaders
from langchain_rse.headers.model_headers import LMBasedHeaders

__all__ = ["DocumentHeaders", "LMBasedHeaders"]
