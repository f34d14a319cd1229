"""Adds, finds and deletes the vectors of chunks by their ids; counts texts that are too long."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from langchain_rse._messages import warn
from langchain_rse._progress import ChunkBar
from langchain_rse._sync import Steps, batches, call, call_to_the_end, compute, during
from langchain_rse.ingest.ownership import Claims
from langchain_rse.stores.records import DOC_ID, digest, encodable, vector_of
from langchain_rse.stores.vectorstores import read_vectors, write_vectors

Counter = Callable[[str], float]


@dataclass
class EmbeddingLimit:
    """Counts the texts that are longer than a model reads."""

    most: int
    length_function: Counter
    unit: str  # of the lengths, for the warning
    _embedded: int = field(default=0, init=False)
    _too_long: list[float] = field(default_factory=list, init=False)

    def look_at(self, texts: Iterable[str]) -> None:
        """Count texts that are about to be embedded."""
        lengths = [self.length_function(text) for text in texts]
        self._embedded += len(lengths)
        self._too_long += [length for length in lengths if length > self.most]

    def warn(self) -> None:
        """Warn of the texts that are too long, if there are any."""
        if self._too_long:
            warn(
                f"{len(self._too_long)} of {self._embedded} embedded texts are longer than the "
                f"{self.most} {self.unit} that the embedding model reads; the longest has "
                f"{max(self._too_long):g}. Use a smaller chunk_size or a TokenSplitter; if the "
                "model reads more, say so with RSEIndexer(..., max_embedded_length=...)"
            )


@dataclass(frozen=True)
class Vectors:
    """Writes and deletes vectors for a `Writer`."""

    vectorstore: VectorStore
    batch_size: int  # items in one call of the vector store, or of the docstore
    limit: EmbeddingLimit | None = None
    progress: ChunkBar = field(default_factory=ChunkBar)  # counts written chunks

    def add(
        self, chunks: Iterable[Document], kept: set[str], known: Mapping[str, str], claims: Claims
    ) -> Steps[None]:
        """Write chunks, except ``kept`` ones; ``known`` has ids of vectors by digests of texts."""
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
        pairs = [(chunk, known.get(digest(chunk.page_content), "")) for chunk in chunks if known]
        if not any(source for _, source in pairs):
            return chunks
        vectors = yield from read_vectors(self.vectorstore, (one for _, one in pairs if one))
        rows = [
            (str(chunk.id), chunk.page_content, chunk.metadata, vectors[source])
            for chunk, source in pairs
            if source in vectors
        ]
        if rows:
            yield from write_vectors(self.vectorstore, rows)
        return [chunk for chunk, source in pairs if source not in vectors]

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
        """Delete vectors that exist; unless ``required``, none if the store cannot tell which."""
        with during(f"deleting vectors from {type(self.vectorstore).__name__}"):
            for some in batches(vectors, self.batch_size):
                try:
                    yield from self._delete_all(some)
                except (AttributeError, LookupError, RuntimeError, ValueError):
                    # FAISS deletes nothing if one vector does not exist; LanceDB and Milvus fail
                    # if nothing was added before.
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
        """The embedded texts of those vectors that exist; None if the store cannot tell."""
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


# The limit of the model


def find_limit(
    embeddings: Embeddings | None, most: int | None, length_function: Counter | None
) -> EmbeddingLimit | None:
    """Return the given limit, else the one in the model's files; None if there is none."""
    if most is not None and most < 1:
        raise ValueError(f"max_embedded_length must be at least 1; got {most!r}")
    if length_function is not None:
        if most is None:
            raise ValueError(
                "embedded_length_function needs a limit in its units; add max_embedded_length=..."
            )
        return EmbeddingLimit(most, length_function, "(by embedded_length_function)")
    known, counter = _known_limit(embeddings)
    if (most := most or known) is None:
        return None
    return EmbeddingLimit(most, counter or len, "tokens" if counter else "characters")


def _known_limit(embeddings: Embeddings | None) -> tuple[int | None, Counter | None]:
    """Read a sentence-transformers model's limit and tokenizer from its files on this machine."""
    name: Any = getattr(embeddings, "model_name", None)
    if not isinstance(name, str):
        return None, None
    cache = getattr(embeddings, "cache_folder", None)
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415
        from tokenizers import Tokenizer  # noqa: PLC0415

        files = ("sentence_bert_config.json", "tokenizer.json")
        config, vocabulary = (
            Path(name, file) if Path(name).is_dir() else try_to_load_from_cache(name, file, cache)
            for file in files
        )
        most = json.loads(Path(str(config)).read_bytes())["max_seq_length"]
        tokenizer = Tokenizer.from_file(str(vocabulary))
        tokenizer.no_truncation()
        tokenizer.no_padding()
    except Exception:  # noqa: BLE001 - not installed, or a model with other files
        return None, None
    return most, lambda text: len(tokenizer.encode(encodable(text)).ids)
