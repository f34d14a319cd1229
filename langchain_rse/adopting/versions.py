"""Makes a document for the docstore from its chunks in an existing index."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from langchain_core.documents import Document

from langchain_rse.adopting.chunks import (
    AdoptedChunk,
    cut_text,
    find_in_text,
    merge_copies,
    merge_equal,
    read_chunks,
)
from langchain_rse.adopting.existing_index import ExistingIndex, Gap
from langchain_rse.adopting.joining import join_chunks
from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.source_documents import dropped, sort_metadata, with_name
from langchain_rse.stores.records import (
    CHUNK_INDEX,
    END_INDEX,
    NAMESPACE,
    START_INDEX,
    AdoptedVector,
    Chunk,
    DocumentVersion,
    Manifest,
    Rule,
    Version,
    digest,
)

# Fields that are set on passages and not taken from chunks.
_PASSAGE_FIELDS = frozenset({CHUNK_INDEX, START_INDEX, END_INDEX, NAMESPACE})


class MadeVersion(NamedTuple):
    """A document made from its chunks."""

    version: DocumentVersion
    gaps: list[Gap]
    is_copied: bool  # True if it was in the index several times, without positions


def make_version(
    doc_id: str,
    documents: Mapping[str, Document],
    whole: object,
    *,
    index: ExistingIndex,
    rules: Mapping[str, Rule],
    namespace: str,
) -> MadeVersion:
    """Make a document from its chunks, given by vector id.

    ``whole`` is the document's text, if the index has ``texts``.

    Raises:
        AdoptionError: If the chunks cannot be joined.
    """
    gaps: list[Gap] = []
    is_copied = False
    chunks = read_chunks(documents, index)
    if index.texts is not None:
        if whole is None:
            problem = f"texts has no key {doc_id!r}"
            if isinstance(index.texts, Mapping):
                problem += f"; its first keys are {list(itertools.islice(index.texts, 3))}"
            raise AdoptionError(problem)
        whole = _checked_text(whole)
        chunks = merge_equal(find_in_text(whole, chunks))
        joined = cut_text(whole.page_content, chunks)
    else:
        if index.start_index_key is not None or index.chunk_index_key is not None:
            chunks = merge_equal(chunks)
        else:
            chunks = merge_copies(chunks)
            is_copied = len(chunks) < len(documents)
        chunks.sort(key=lambda chunk: (chunk.page, chunk.start))
        joined, gaps = join_chunks(doc_id, chunks, index)
    version = _version(doc_id, chunks, joined, rules)
    # Without start positions, the white space between chunks is a guess.
    counts_in_source = index.start_index_key is not None
    if index.texts is not None:
        source = version.manifest.metadata.get("source")
        counts_in_source = source is None or str(source) == doc_id
    manifest = replace(version.manifest, counts_in_source=counts_in_source)
    version = with_name(replace(version, manifest=manifest), namespace)
    return MadeVersion(version, gaps, is_copied)


def _checked_text(whole: object) -> Document:
    """Return the document's text; raise an AdoptionError if it is not a Document."""
    if isinstance(whole, str):
        return Document(whole)
    if not isinstance(whole, Document):
        raise AdoptionError(
            f"texts contains {type(whole).__name__} instead of a Document or a string. To convert "
            "the byte store of a ParentDocumentRetriever to a store of Documents, see "
            "docs/migrating.md"
        )
    return whole


def _version(
    doc_id: str,
    stored: Sequence[AdoptedChunk],
    joined: Sequence[AdoptedChunk],
    rules: Mapping[str, Rule],
) -> DocumentVersion:
    excluded = _PASSAGE_FIELDS | dropped(rules)
    metadata: list[dict[str, Any]] = []
    for joined_chunk in joined:
        fields = joined_chunk.metadata.items()
        metadata.append({name: value for name, value in fields if name not in excluded})
    shared, changing, stored_rules = sort_metadata(metadata, rules, doc_id)
    adopted = _number_vectors(stored, joined)

    chunks: list[Chunk] = []
    for number, chunk in enumerate(joined):
        changes_of_chunk = [(0, changing[number])] if changing else []
        chunks.append(Chunk(chunk.start, chunk.end, chunk.text, chunk.text, changes_of_chunk))
    length = chunks[-1].end if chunks else 0

    manifest = Manifest(
        doc_id,
        Version("", len(chunks), len(adopted)),
        length=length,
        starts=[chunk.start for chunk in chunks],
        gaps=tuple(number for number, chunk in enumerate(chunks) if not chunk.text),
        text_digest=digest("".join(chunk.text for chunk in chunks)) if chunks else "",
        metadata=shared,
        rules=stored_rules,
    )
    return DocumentVersion(manifest=manifest, chunks=chunks, adopted=adopted)


def _number_vectors(
    stored: Sequence[AdoptedChunk], joined: Sequence[AdoptedChunk]
) -> list[AdoptedVector]:
    """Assign each vector the number of its chunk; None if its text is part of another chunk."""
    numbers: dict[str, int] = {}  # by vector
    for number, joined_chunk in enumerate(joined):
        numbers |= dict.fromkeys(joined_chunk.vectors, number)
    adopted: list[AdoptedVector] = []
    for chunk in stored:
        for vector in chunk.vectors:
            adopted.append(AdoptedVector(vector, digest(chunk.text), numbers.get(vector)))
    return adopted
