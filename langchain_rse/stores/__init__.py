"""What is kept: the records of documents, and the stores that hold them."""
