"""A Chroma collection as LlamaIndex 0.14's ChromaVectorStore writes it, which is not installed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings


def write_nodes(
    client: Any, name: str, doc_id: str, texts: Sequence[str], embeddings: Embeddings
) -> None:
    """Write the nodes of a document, with the windows of a SentenceWindowNodeParser."""
    metadatas = [
        {
            "file_name": f"{doc_id}.txt",
            "window": " ".join(texts[max(number - 3, 0) : number + 4]),
            "original_text": text,
            "_node_content": json.dumps({"id_": str(number), "text": "", "start_char_idx": 0}),
            "_node_type": "TextNode",
            "document_id": doc_id,
            "doc_id": doc_id,
            "ref_doc_id": doc_id,
        }
        for number, text in enumerate(texts)
    ]
    embedded = [f"file_name: {doc_id}.txt\n\n{text}" for text in texts]
    client.get_or_create_collection(name).add(
        ids=[str(uuid.uuid4()) for _ in texts],
        embeddings=embeddings.embed_documents(embedded),
        documents=list(texts),
        metadatas=metadatas,
    )
