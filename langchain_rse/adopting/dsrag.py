"""Reads the chunks of a knowledge base of dsRAG, which need not be installed."""

import itertools
from collections.abc import Iterator
from typing import Any

from langchain_core.documents import Document


def dsrag_chunks(knowledge_base: Any) -> Iterator[Document]:  # noqa: ANN401 - dsRAG's own class
    """Read the chunks of a knowledge base of dsRAG, in the order of their texts.

    Give them to a LangChain vector store, with the vectors that dsRAG made or new ones, then to
    `RSERetriever.from_existing_index`; ``docs/migrating.md`` shows it. Only methods of the
    knowledge base's ``chunk_db`` are called; to open one, dsRAG may unpickle its files.

    Args:
        knowledge_base: A ``dsrag.knowledge_base.KnowledgeBase``, or anything with such a
            ``chunk_db``.

    Yields:
        Documents with the ``id`` that dsRAG's vector databases use, ``"{doc_id}_{chunk_index}"``,
        the text of the chunk without its header, and in the metadata ``doc_id``, ``chunk_index``
        (from 0) and, if dsRAG has them, ``document_title``, ``section_title`` and ``page``, the
        page on which the chunk begins.
    """
    database = knowledge_base.chunk_db
    for doc_id in database.get_all_doc_ids():
        for number in itertools.count():
            text = database.get_chunk_text(doc_id, number)
            if text is None:
                break
            page, _ = database.get_chunk_page_numbers(doc_id, number) or (None, None)
            told = {
                "document_title": database.get_document_title(doc_id, number),
                "section_title": database.get_section_title(doc_id, number),
                "page": page,
            }
            metadata = {name: value for name, value in told.items() if value not in {None, ""}}
            metadata |= {"doc_id": doc_id, "chunk_index": number}
            yield Document(text, id=f"{doc_id}_{number}", metadata=metadata)
