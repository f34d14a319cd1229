"""Finds chunks of adopted documents that the vector store no longer has as they were adopted.

Other code owns an adopted index, and may delete or change its chunks without the docstore knowing.
The search finds only what is there, but the chunks between candidates come from the docstore.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from langchain_core.vectorstores import VectorStore

from langchain_rse._messages import warn
from langchain_rse._sync import Steps, batches, during
from langchain_rse.query.copies import StaleChunks
from langchain_rse.query.reading import DocumentSegment, split_segment
from langchain_rse.stores.adopted import adopted_vectors
from langchain_rse.stores.reading import VersionKey
from langchain_rse.stores.records import chunk_key, digest
from langchain_rse.stores.vectorstores import adapter_for, vector_id_of
from langchain_rse.stores.vectorstores.base import PAGE_SIZE
from langchain_rse.text.quoting import counted, first_few


def find_stale(
    store: VectorStore | None, segments: Iterable[DocumentSegment]
) -> Steps[StaleChunks]:
    """Find the chunks of segments that were deleted or changed after their index was adopted.

    Chunks that the search has found are known from there; all others are looked up in one call, or
    more if they are many. Chunks that this package wrote are not looked up.

    Args:
        store: The vector store; None if it is unknown, and nothing can be looked up.
        segments: The segments, with the records of their chunks.
    """
    if store is None:
        return {}
    unconfirmed: list[tuple[VersionKey, int, Mapping[str, str]]] = []
    found_texts: dict[str, str] = {}  # of candidates, by the ids of their vectors
    for segment in segments:
        key, version = segment.document.manifest.key, segment.document.version
        for chunk in segment.chunks:
            if chunk.record is None:
                continue
            vectors = adopted_vectors(chunk.record, chunk_key(key, version, chunk.index))
            if chunk.candidate is not None:
                document = chunk.candidate.document
                found_texts[vector_id_of(document) or ""] = document.page_content
            if vectors and not _is_there(vectors, found_texts):
                unconfirmed.append(((key, version), chunk.index, vectors))
    ids = itertools.chain.from_iterable(vectors for _, _, vectors in unconfirmed)
    stored_texts = yield from _existing_texts(store, ids)
    stale: dict[VersionKey, set[int]] = {}
    for version_key, index, vectors in unconfirmed:
        if stored_texts is None:
            is_stale = not found_texts.keys().isdisjoint(vectors)  # found with another text
        else:
            is_stale = not _is_there(vectors, stored_texts)
        if is_stale:
            stale.setdefault(version_key, set()).add(index)
    return stale


def without_stale(segments: Sequence[DocumentSegment], stale: StaleChunks) -> list[DocumentSegment]:
    """Split segments at chunks that are stale; the best come first."""
    parts: list[DocumentSegment] = []
    for segment in segments:
        version_key = (segment.document.manifest.key, segment.document.version)
        stale_chunks = stale.get(version_key)
        if not stale_chunks:
            parts.append(segment)
            continue
        parts += split_segment(segment, stale_chunks)
    return sorted(parts, key=lambda segment: -segment.value)


def warn_of_stale(stale: StaleChunks, doc_ids: Mapping[str, str]) -> None:
    """Warn of adopted chunks that are not shown; ``doc_ids`` are by the keys of documents."""
    if not stale:
        return
    names = dict.fromkeys(repr(doc_ids[key]) for key, _ in stale if key in doc_ids)
    count = sum(map(len, stale.values()))
    warn(
        f"{counted(count, 'chunk')} of adopted document(s) {first_few(names)} are not shown: since "
        "the index was adopted, they were deleted from the vector store, or their texts were "
        "changed. Adopt the index again, with from_existing_index or RSEIndexer.adopt"
    )


def _is_there(vectors: Mapping[str, str], texts: Mapping[str, str]) -> bool:
    """True if one of a chunk's vectors has the text that was adopted; ``vectors`` has digests."""
    for vector, text_digest in vectors.items():
        if vector in texts and digest(texts[vector]) == text_digest:
            return True
    return False


def _existing_texts(store: VectorStore, ids: Iterable[str]) -> Steps[dict[str, str] | None]:
    """The texts of those ids that the store has; None if it cannot tell."""
    adapter = adapter_for(store)
    texts: dict[str, str] = {}
    for batch in batches(dict.fromkeys(ids), PAGE_SIZE):
        with during(f"looking up chunks of an adopted index in {type(store).__name__}"):
            found = yield from adapter.existing_texts(batch)
        if found is None:
            return None
        texts.update(found)
    return texts
