"""Docstores: where the text of chunks stands, keyed by strings.

`SQLDocStore` keeps Documents in a table of any SQL database. `JSONDocStore` makes a
docstore of any LangChain byte store. Both write the same JSON.
"""

from langchain_rse.docstores.byte_stores import JSONDocStore, as_docstore
from langchain_rse.docstores.encoding import decode_document, encode_document, encode_json
from langchain_rse.docstores.sql import SQLDocStore

__all__ = [
    "JSONDocStore",
    "SQLDocStore",
    "as_docstore",
    "decode_document",
    "encode_document",
    "encode_json",
]
