"""Reads all chunks of a vector store, page by page."""

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_rse._sync import Steps
from langchain_rse.stores.vectorstores import IN_ORDER, LISTED, adapter_for


def read_all_chunks(vectorstore: VectorStore, *, in_order: bool) -> Steps[list[Document]]:
    """Read all chunks of a vector store; with ``in_order``, in the order they were added in.

    Raises:
        TypeError: If the store cannot list its chunks.
        ValueError: If ``in_order`` is set, and the store lists its chunks in another order.
    """
    adapter = adapter_for(vectorstore)
    if not adapter.can_list:
        raise TypeError(
            f"the chunks of a {type(vectorstore).__name__} cannot be listed, only those of "
            f"{LISTED}. Read them yourself and pass them: documents=[Document(id=..., "
            "page_content=..., metadata=...), ...], with the store's id, text and metadata of each"
        )
    if in_order and not adapter.lists_in_insertion_order:
        raise ValueError(
            "in_store_order=True: this store does not list its chunks in the order in which they "
            f"were added, as {IN_ORDER} do; give chunk_index_key, start_index_key, page_key or "
            "texts"
        )
    read_page = adapter.list_chunks()
    chunks: list[Document] = []
    page = yield from read_page()
    while page:
        chunks += page
        page = yield from read_page()
    return chunks
