"""Adopts an existing index: builds the docstore for a vector store that other code has filled.

The vector store is only read, and no text is embedded again. Its chunks are ordered and stripped of
overlap. The docstore receives the documents, and for each vector a record that names its chunk.
"""

from langchain_rse.adopting.adoption import adopt
from langchain_rse.adopting.existing_index import Adoption, ExistingIndex, Gap

__all__ = ["Adoption", "ExistingIndex", "Gap", "adopt"]
