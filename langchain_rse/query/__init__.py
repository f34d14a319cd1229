"""The steps of a query: search, rerank, score, select, read, render."""
