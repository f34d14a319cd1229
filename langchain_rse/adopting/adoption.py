"""Adopts an index: reads its vector store and writes its documents to the docstore."""

import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from langchain_rse._messages import check_type, progress_bar, warn
from langchain_rse._sync import batches, call, during, run
from langchain_rse.adopting.chunks import (
    EXCERPT,
    AdoptedChunk,
    UnstatedOverlapError,
    cut_text,
    doc_id_of,
    document_name,
    find_in_text,
    join_chunks,
    merge_copies,
    merge_equal,
    read_chunks,
    whole_number,
)
from langchain_rse.adopting.existing_index import Adoption, ExistingIndex, Gap
from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.source_documents import (
    dropped,
    sort_metadata,
    sure_overlap,
    with_name,
    without,
)
from langchain_rse.ingest.writing import WAS_ADDED, Writer
from langchain_rse.stores.compare_and_set import DocStore, namespace_of, readable
from langchain_rse.stores.pairing import PROBE, check_pair
from langchain_rse.stores.records import (
    CHUNK_INDEX,
    DOC_ID,
    END_INDEX,
    NAMESPACE,
    START_INDEX,
    VERSION,
    AdoptedVector,
    Chunk,
    DocumentVersion,
    Manifest,
    Rule,
    Version,
    adopted_key,
    adopted_record,
    digest,
    document_key,
    namespace_in,
)
from langchain_rse.stores.vectorstores import IN_ORDER, LISTED, vector_id_of
from langchain_rse.stores.vectorstores.base import VectorStoreAdapter
from langchain_rse.text.quoting import counted, first_few

logger = logging.getLogger(__name__)

_Chunks = dict[str, Document]
"""The chunks of a document by vector id, in store order."""

# In each list, the first field wins that all chunks have with a value of the right type.
DOCUMENT_FIELDS = (
    "source",
    "doc_id",
    "document_id",
    "ref_doc_id",
    "parent_id",
    "file_path",
    "file_name",
    "filename",
    "url",
    "title",
)
PAGE_FIELDS = ("page", "page_number")
NUMBER_FIELDS = ("chunk_index", "chunk_number", "chunk", "seq", "sequence")

_HOW = (
    "Name the metadata fields that locate each chunk: ExistingIndex(doc_id_key=..., "
    "start_index_key=...); docs/adopting.md lists all options"
)

# Fields that are set on passages and not taken from chunks.
_PASSAGE_FIELDS = frozenset({CHUNK_INDEX, START_INDEX, END_INDEX, NAMESPACE})

# Documents per write.
_DOCUMENTS = 100


def adopt(
    writer: Writer,
    index: ExistingIndex | None,
    documents: Iterable[Document] | None,
    *,
    rules: Mapping[str, Rule],
    show_progress: bool,
) -> Adoption:
    """Write the documents of an existing index to the docstore; see `RSEIndexer.adopt`."""
    allowed = "an ExistingIndex(...), such as ExistingIndex(texts=documents)"
    check_type("index", index, (ExistingIndex, NoneType), allowed)
    adapter = writer.vectors.adapter
    run(check_pair(writer.docstore, writer.vectors.adapter.store))
    are_in_order = documents is None and adapter.lists_in_insertion_order
    if documents is None:
        _check_listing(adapter, in_order=index is not None and index.in_store_order)
        with during("listing the chunks of the vector store"):
            documents = list(adapter.list_chunks())
    chunks = _chunks_to_adopt(documents, namespace_of(writer.docstore))
    is_recognized = index is None
    if index is None:
        index = _recognize(chunks, are_in_order=are_in_order)
    elif index.doc_id_key is None and index.doc_id is None:
        index = index.model_copy(update={"doc_id_key": _recognize_documents(chunks)})
    texts = index.texts
    if isinstance(texts, Sequence):
        texts = _texts_by_document(texts, index)
    _check_search(writer.vectors.adapter.store)
    adopter = _Adopter(writer, index, texts, rules, Adoption(index))
    by_document = adopter.group(chunks)
    total = len(by_document)
    with progress_bar(total, unit="documents", title="Adopting", show=show_progress) as advance:
        for doc_ids in batches(by_document, _DOCUMENTS):
            adopter.write({doc_id: by_document[doc_id] for doc_id in doc_ids})
            advance(len(doc_ids))
    # So that queries ignore them. Vectors adopted by an earlier call keep their records.
    recorded = adopter.recorded_documents(adopter.excluded)
    excluded = [vector for vector in adopter.excluded if vector not in recorded]
    writer.records.write(map(adopted_record, excluded))
    copied = adopter.report.copied
    if copied:
        warn(
            f"{counted(len(copied), 'document')} ({first_few(map(repr, copied))}) came several "
            "times in the vector store. Each is adopted once, with all its vectors"
        )
    if is_recognized:
        logger.info("adopted an index, recognized from chunk metadata: %s", adopter.report)
    return adopter.report


def _texts_by_document(pages: Iterable[Document], index: ExistingIndex) -> dict[str, str]:
    """Join the pages of each document; refuse chunks of documents."""
    texts: dict[str, list[str]] = {}
    seen: set[tuple[str, str]] = set()
    for page in pages:
        doc_id = doc_id_of(page, index, "Document of texts")
        content = doc_id, repr(without({START_INDEX}, page.metadata))
        if content in seen:
            raise AdoptionError(
                f"texts has several Documents of {doc_id!r} with the same metadata, which may be "
                "chunks. Pass the documents before they were split, such as loader.load(). Pages "
                "of a document need different metadata, such as their page"
            )
        seen.add(content)
        texts.setdefault(doc_id, []).append(page.page_content)
    return {doc_id: "\n\n".join(pages) for doc_id, pages in texts.items()}


def _check_listing(adapter: VectorStoreAdapter, *, in_order: bool) -> None:
    """Refuse a store that cannot list its chunks, in insertion order if ``in_order``."""
    if not adapter.can_list:
        raise TypeError(
            f"{type(adapter.store).__name__} cannot list its chunks (supported: {LISTED}). Read "
            "the chunks yourself and pass them: documents=[Document(id=..., page_content=..., "
            "metadata=...), ...], each with the id, text and metadata from the store"
        )
    if in_order and not adapter.lists_in_insertion_order:
        raise ValueError(
            f"in_store_order=True is not supported with {type(adapter.store).__name__}, which does "
            f"not list chunks in insertion order (supported: {IN_ORDER}). Set chunk_index_key, "
            "start_index_key, page_key or texts instead"
        )


def _check_search(vectorstore: VectorStore) -> None:
    """Search once, because a store opened with another embedding model fails only then."""
    if vectorstore.embeddings is None:
        return
    try:
        run(call(vectorstore.similarity_search, vectorstore.asimilarity_search, PROBE, k=1))
    except Exception as error:
        raise AdoptionError(
            f"a search of {type(vectorstore).__name__} with "
            f"{type(vectorstore.embeddings).__name__} fails ({type(error).__name__}: {error}). "
            "Open the vector store with the embedding model that its chunks were embedded with"
        ) from error


def _chunks_to_adopt(chunks: Iterable[Document], namespace: str) -> list[Document]:
    """Return the chunks of this namespace that other code wrote."""
    chunks_to_adopt: list[Document] = []
    for chunk in chunks:
        check_type("each of documents", chunk, Document, "a Document")
        if VERSION not in chunk.metadata and namespace_in(chunk.metadata) == namespace:
            chunks_to_adopt.append(chunk)
    if chunks_to_adopt:
        return chunks_to_adopt
    problem = (
        "the vector store has no chunks to adopt: it is empty, or contains only chunks that "
        "this package wrote. Check its collection and folder. To start a new index, use "
        "add_documents"
    )
    if namespace:
        problem += f". Chunks of this namespace have {NAMESPACE}={namespace!r} in their metadata"
    raise AdoptionError(problem)


@dataclass
class _Adopter:
    """Makes and writes documents; collects the report and the excluded vectors."""

    writer: Writer
    index: ExistingIndex
    texts: DocStore | Mapping[str, Document | str] | None  # of the index, by document id
    rules: Mapping[str, Rule]
    report: Adoption
    excluded: list[str] = field(default_factory=list)

    def group(self, chunks: Iterable[Document]) -> dict[str, _Chunks]:
        """Group chunks by document id."""
        by_document: dict[str, _Chunks] = {}
        for chunk in chunks:
            vector = vector_id_of(chunk)
            if vector is None:
                raise AdoptionError(
                    f"the chunk that begins {chunk.page_content[:EXCERPT]!r} has no id, so search "
                    "results could not be matched to it. Rebuild this index with ids"
                )
            try:
                doc_id = doc_id_of(chunk, self.index)
            except AdoptionError as error:
                self._exclude(str(error), [vector])
            else:
                by_document.setdefault(doc_id, {})[vector] = chunk
        return by_document

    def write(self, documents: Mapping[str, _Chunks]) -> None:
        """Make documents from their chunks and write them."""
        texts = self._read_texts(list(documents))
        manifests = self.writer.records.manifests(map(document_key, documents))
        recorded = self.recorded_documents(itertools.chain.from_iterable(documents.values()))
        versions: list[DocumentVersion] = []
        for doc_id, text, manifest in zip(documents, texts, manifests, strict=True):
            chunks = documents[doc_id]
            try:
                _check_document(doc_id, manifest, [recorded.get(vector) for vector in chunks])
                version, gaps = self._make_version(doc_id, chunks, text)
            except UnstatedOverlapError as error:  # concerns the whole index
                raise AdoptionError(str(error)) from None
            except (AdoptionError, TypeError, ValueError) as error:
                name = f"document {doc_id!r}: "
                # Some errors already contain the name.
                self._exclude(name + str(error).removeprefix(name), chunks)
                continue
            versions.append(version)
            if self.index.chunk_overlap == 0:
                for before, after in itertools.pairwise(version.chunks):
                    if overlap := sure_overlap(before.text, after.text):
                        self.report.overlaps.append(len(overlap))
            self.report.documents += 1
            self.report.chunks += len(version.chunks) - len(gaps)
            self.report.vectors += len(chunks)
            self.report.gaps += gaps
        self.writer.write(versions)

    def _make_version(
        self, doc_id: str, documents: Mapping[str, Document], whole: object
    ) -> tuple[DocumentVersion, list[Gap]]:
        """Make a document from its chunks, given by vector id; return it with its gaps.

        ``whole`` is the document's text, if the index has ``texts``.

        Raises:
            AdoptionError: If the chunks cannot be joined.
        """
        index = self.index
        gaps: list[Gap] = []
        is_copied = False
        chunks = read_chunks(documents, index)
        if index.texts is not None:
            if whole is None:
                problem = f"texts has no key {doc_id!r}"
                if isinstance(self.texts, Mapping):
                    problem += f"; its first keys are {list(itertools.islice(self.texts, 3))}"
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
        version = _version(doc_id, chunks, joined, self.rules)
        # Without start positions, the white space between chunks is a guess.
        counts_in_source = index.start_index_key is not None
        if index.texts is not None:
            source = version.manifest.metadata.get("source")
            counts_in_source = source is None or str(source) == doc_id
        manifest = replace(version.manifest, counts_in_source=counts_in_source)
        version = replace(version, manifest=manifest)
        version = with_name(version, namespace_of(self.writer.docstore))
        if is_copied:
            self.report.copied.append(doc_id)
        return version, gaps

    def _read_texts(self, doc_ids: list[str]) -> list[Document | str | None]:
        """Read the whole texts of documents; None for each without ``texts``."""
        store = self.texts
        if isinstance(store, Mapping):
            return [store.get(doc_id) for doc_id in doc_ids]
        if isinstance(store, BaseStore):
            with during("reading whole texts"):
                return [*store.mget(doc_ids)]
        return [None] * len(doc_ids)

    def recorded_documents(self, vectors: Iterable[str]) -> dict[str, object]:
        """Return the recorded document of each known vector; None for excluded vectors."""
        vectors_by_key = {adopted_key(vector): vector for vector in vectors}
        recorded: dict[str, object] = {}
        for key, found in self.writer.records.read(vectors_by_key).items():
            record = readable(found)
            if record is not None:
                recorded[vectors_by_key[key]] = record.metadata.get(DOC_ID)
        return recorded

    def _exclude(self, problem: str, vectors: Iterable[str]) -> None:
        """Exclude chunks that cannot be adopted, or raise an error, depending on ``on_error``."""
        if self.index.on_error == "raise":
            raise AdoptionError(
                f"{problem} (the index was read as {self.index!r}). To leave such documents out: "
                "ExistingIndex(..., on_error='skip')"
            )
        self.report.problems.append(problem)
        self.excluded += vectors


def _check_document(doc_id: str, manifest: Manifest | None, recorded: Iterable[object]) -> None:
    """Refuse a document that was also added, or whose vectors belong to another document."""
    current = manifest.current if manifest is not None else None
    if current is not None and not current.adopted:
        raise AdoptionError(f"it {WAS_ADDED}")
    # As repr, because a damaged record may hold an unhashable value.
    other_documents = {repr(each) for each in recorded if each not in (None, doc_id)}
    if other_documents:
        raise AdoptionError(
            f"its vectors are already recorded as chunks of {first_few(other_documents)}: this "
            "docstore was made with another doc_id_key or for another vector store. Use an empty "
            "docstore"
        )


# Documents from chunks


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
    metadata = [without(excluded, joined_chunk.metadata) for joined_chunk in joined]
    shared, changing, stored_rules = sort_metadata(metadata, rules, doc_id)
    chunks: list[Chunk] = []
    numbers: dict[str, int] = {}  # by vector
    for number, chunk in enumerate(joined):
        numbers |= dict.fromkeys(chunk.vectors, number)
        changes_of_chunk = [(0, changing[number])] if changing else []
        chunks.append(Chunk(chunk.start, chunk.end, chunk.text, chunk.text, changes_of_chunk))
    adopted: list[AdoptedVector] = []
    for chunk in stored:
        text_digest = digest(chunk.text)
        for vector in chunk.vectors:
            # None if its text is part of another chunk.
            adopted.append(AdoptedVector(vector, text_digest, numbers.get(vector)))

    manifest = Manifest(
        doc_id,
        Version("", len(chunks), len(adopted)),
        length=chunks[-1].end if chunks else 0,
        starts=[chunk.start for chunk in chunks],
        gaps=tuple(number for number, chunk in enumerate(chunks) if not chunk.text),
        text_digest=digest("".join(chunk.text for chunk in chunks)) if chunks else "",
        metadata=shared,
        rules=stored_rules,
    )
    return DocumentVersion(manifest=manifest, chunks=chunks, adopted=adopted)


# Usual metadata fields


def _recognize(chunks: Sequence[Document], *, are_in_order: bool) -> ExistingIndex:
    """Describe an index by the metadata that all of its chunks have.

    Args:
        chunks: All chunks; at least one.
        are_in_order: True if they are given in insertion order.

    Raises:
        AdoptionError: If no field names a chunk's document, or the order is unknown.
    """
    doc_id_key = _recognize_documents(chunks)
    page_key = _common_field(chunks, PAGE_FIELDS, whole_number)
    start_index_key = _common_field(chunks, [START_INDEX], whole_number)
    chunk_index_key = None
    if start_index_key is None:
        chunk_index_key = _common_field(chunks, NUMBER_FIELDS, whole_number)
    has_order = start_index_key is not None or chunk_index_key is not None
    if not has_order and not are_in_order and page_key is None:
        names = ", ".join([START_INDEX, *NUMBER_FIELDS, *PAGE_FIELDS])
        raise AdoptionError(
            f"the order of the chunks is unknown: none of {names} is an integer of at least 0 in "
            "every chunk, and the chunks may not be in insertion order. "
            f"{_describe_fields(chunks)}. {_HOW}"
        )
    return ExistingIndex(
        doc_id_key=doc_id_key,
        page_key=page_key,
        start_index_key=start_index_key,
        chunk_index_key=chunk_index_key,
        in_store_order=not has_order and are_in_order,
    )


def _recognize_documents(chunks: Sequence[Document]) -> str:
    """Return the first usual field that names the document of each chunk.

    Raises:
        AdoptionError: If no field does.
    """
    doc_id_key = _common_field(chunks, DOCUMENT_FIELDS, document_name)
    if doc_id_key is None:
        raise AdoptionError(
            "no metadata field names the document of each chunk: none of "
            f"{', '.join(DOCUMENT_FIELDS)} is a string or an integer in every chunk. "
            f"{_describe_fields(chunks)}. {_HOW}. If all chunks belong to one document, name it: "
            "ExistingIndex(doc_id='handbook', in_store_order=True, chunk_overlap=...)"
        )
    return doc_id_key


def _common_field(
    chunks: Sequence[Document], names: Iterable[str], read: Callable[[object], object]
) -> str | None:
    """Return the first field that can be read from all chunks; None if none can."""
    for name in names:
        if all(read(chunk.metadata.get(name)) is not None for chunk in chunks):
            return name
    return None


def _describe_fields(chunks: Sequence[Document]) -> str:
    """Name the chunks' metadata fields."""
    names = dict.fromkeys(name for chunk in chunks for name in chunk.metadata)
    if not names:
        return "The chunks have no metadata"
    return f"Fields of the chunks: {first_few(map(repr, names), limit=20)}"
