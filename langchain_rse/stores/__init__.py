"""The records of documents, and the stores that keep them."""
