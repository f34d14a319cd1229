"""Contextual chunk headers: what stands in front of a chunk's text when it is embedded.

A chunk seldom says what document it is from, and what about. A header does: the document's
title, the section, with a language model also what they are about. It is embedded and reranked
with the chunk, and is no part of the text that comes back.
"""

from langchain_rse.headers.documents import DocumentHeaders
from langchain_rse.headers.language_model import LMBasedHeaders

__all__ = ["DocumentHeaders", "LMBasedHeaders"]
