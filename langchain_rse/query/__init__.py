"""The steps of a query, see `pipeline.answer`: search, rerank, rank, look up, score, select, read, render."""
