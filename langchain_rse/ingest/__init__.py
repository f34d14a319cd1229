"""Writes documents to both stores: read, split, give headers, embed, record."""
