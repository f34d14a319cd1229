"""Real stores, opened as the tests need them."""

from __future__ import annotations

from pathlib import Path

from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings


def open_chroma(folder: Path, embeddings: Embeddings) -> Chroma:
    """Chroma on disk, which tells nobody."""
    path = str(folder / "chroma")
    return Chroma(
        collection_name="chunks",
        embedding_function=embeddings,
        client_settings=Settings(
            anonymized_telemetry=False, is_persistent=True, persist_directory=path
        ),
    )
