"""The vectors of chunks: added, told apart from those that are there, and deleted, by their ids."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_rse._progress import ChunkBar
from langchain_rse._sync import Steps, batches, call, call_to_the_end, compute, during
from langchain_rse.ingest.embedding_limits import EmbeddingLimit
from langchain_rse.ingest.ownership import Claims
from langchain_rse.stores.records import DOC_ID, digest, vector_of
from langchain_rse.stores.vectorstores import read_vectors, write_vectors


@dataclass(frozen=True)
class Vectors:
    """What `Writer` does to the vector store."""

    vectorstore: VectorStore
    batch_size: int  # items in one call of it
    limit: EmbeddingLimit | None = None
    progress: ChunkBar = field(default_factory=ChunkBar)  # counts chunks that are written

    def add(
        self, chunks: Iterable[Document], kept: set[str], known: Mapping[str, str], claims: Claims
    ) -> Steps[None]:
        """Write chunks, but ``kept`` ones; ``known`` are ids of vectors by digests of texts."""
        with during(f"adding vectors to {type(self.vectorstore).__name__}"):
            for some in batches(chunks, self.batch_size):
                yield from claims.renew()
                self.progress.advance(0, some[0].metadata[DOC_ID])
                missing = [chunk for chunk in some if chunk.id not in kept]
                if new := (yield from self._reuse(missing, known)):
                    yield from self._embed(new)
                self.progress.advance(len(some))

    def _reuse(self, chunks: list[Document], known: Mapping[str, str]) -> Steps[list[Document]]:
        """Write the chunks whose embedded text has a ``known`` vector; return the others."""
        sources = [known.get(digest(chunk.page_content), "") for chunk in chunks] if known else []
        if not any(sources):
            return chunks
        vectors = yield from read_vectors(self.vectorstore, filter(None, sources))
        rows = [
            (str(chunk.id), chunk.page_content, chunk.metadata, vectors[source])
            for chunk, source in zip(chunks, sources, strict=True)
            if source in vectors
        ]
        if rows:
            yield from write_vectors(self.vectorstore, rows)
        return [c for c, source in zip(chunks, sources, strict=True) if source not in vectors]

    def _embed(self, chunks: list[Document]) -> Steps[None]:
        store = self.vectorstore
        if self.limit is not None:
            yield from compute(self.limit.look_at, [chunk.page_content for chunk in chunks])
        ids = [str(chunk.id) for chunk in chunks]
        kept = yield from call_to_the_end(
            store.add_documents, store.aadd_documents, chunks, ids=ids
        )
        if kept and list(kept) != ids:  # some stores return nothing at all
            raise ValueError(
                f"{type(store).__name__} did not keep the ids it was given, so its vectors "
                "could never be replaced or deleted; use a store that does"
            )

    def delete(self, vectors: Iterable[str], *, required: bool = True) -> Steps[None]:
        """Delete those vectors that are there; unless required, pass over stores that fail."""
        with during(f"deleting vectors from {type(self.vectorstore).__name__}"):
            for some in batches(vectors, self.batch_size):
                try:
                    yield from self._delete_all(some)
                except (AttributeError, LookupError, RuntimeError, ValueError):
                    # FAISS deletes nothing if one vector is not there; LanceDB and Milvus fail
                    # before anything was added.
                    existing = yield from self.existing(some)
                    if existing is None and not required:
                        continue
                    if existing is None or len(existing) == len(some):
                        raise
                    if existing:
                        yield from self._delete_all(list(existing))

    def _delete_all(self, ids: list[str]) -> Steps[None]:
        store = self.vectorstore
        if (yield from call_to_the_end(store.delete, store.adelete, ids)) is False:
            raise RuntimeError(
                f"{type(store).__name__} could not delete vectors (its log may say why); call "
                "again to delete what is left"
            )

    def existing(self, ids: list[str]) -> Steps[dict[str, str] | None]:
        """The embedded texts of vectors that are in the store; None if the store cannot tell."""
        store = self.vectorstore
        try:
            with during(f"reading from {type(store).__name__}"):
                found = yield from call(store.get_by_ids, store.aget_by_ids, ids)
        except NotImplementedError:
            return None
        existing = {vector_of(document): document.page_content for document in found}
        if None in existing:
            return None
        return {vector: existing[vector] for vector in ids if vector in existing}
