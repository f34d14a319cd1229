"""Indexing: reads documents, splits them, adds headers, embeds chunks and writes both stores."""
