"""Builds the docstore for a vector store that other code has filled; nothing is embedded again.

The vector store is only read. Its chunks are put in order and stripped of overlap, and the docstore
gets the documents, with a record for each vector that names its chunk.
"""

from langchain_rse.adopting.adoption import adopt
from langchain_rse.adopting.existing_index import Adoption, ExistingIndex, Gap

__all__ = ["Adoption", "ExistingIndex", "Gap", "adopt"]
