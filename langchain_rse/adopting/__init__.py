"""An index that exists already, brought in without embedding anything again.

The vector store is only read. What it holds is put in order, overlap is taken out, and the
docstore gets the chunks, with a record for each vector that says which chunk it stands for.
"""

from langchain_rse.adopting.listing import list_chunks
from langchain_rse.adopting.reports import Adoption, AdoptionError, ExistingIndex, Gap
from langchain_rse.adopting.running import adopt

__all__ = ["Adoption", "AdoptionError", "ExistingIndex", "Gap", "adopt", "list_chunks"]
