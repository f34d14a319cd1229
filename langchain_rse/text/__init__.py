"""Text utilities for any script. This package imports no other module of langchain_rse."""
