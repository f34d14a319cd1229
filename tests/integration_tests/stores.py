"""Real stores, opened as the tests need them."""

from __future__ import annotations

import time
from collections.abc import Callable
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


def soon(condition: Callable[[], bool]) -> bool:
    """Wait until a condition is true: servers notice in their own time that clients are gone."""
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.05)
    return condition()
