"""RSEIndexer: splits documents and writes them to a vector store and a docstore."""

import itertools
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from langchain_rse._sync import Steps, arun, in_thread, run
from langchain_rse.adopting import Adoption, ExistingIndex, adopt
from langchain_rse.ingest.adding import AddOperation
from langchain_rse.ingest.checking import CheckReport, check_stores
from langchain_rse.ingest.default_splitter import default_text_splitter
from langchain_rse.ingest.docstore import DocStoreWriter
from langchain_rse.ingest.source_documents import HeaderMaker, check_rules
from langchain_rse.ingest.splitting import Splitter, check_splitter
from langchain_rse.ingest.syncing import SyncResult, sync_documents
from langchain_rse.ingest.vectors import Vectors, find_limit
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.json import as_docstore
from langchain_rse.stores.layouts import every_chunk
from langchain_rse.stores.namespaces import in_namespace
from langchain_rse.stores.records import Manifest, Rule

__all__ = ["RSEIndexer", "default_text_splitter"]


class RSEIndexer:
    """Adds, replaces and deletes documents in a vector store and a docstore.

    Adding a document again replaces it, or does nothing if text, chunks and metadata are the same.
    Queries see either the old version or the new one; calling again completes an interrupted
    call. If vectors can be read from the vector store (``docs/indexing.md``), only
    chunks whose embedded text is new are embedded. The vector store gets only metadata values that
    every store takes (strings, numbers, booleans); the docstore gets all.

    Args:
        vectorstore: Where the chunks are embedded. It has to keep given ids and to delete by id.
        docstore: Where the chunks' texts are stored: a store of Documents or of bytes.
        text_splitter: Any LangChain splitter that keeps the words of the text
            (``docs/splitters.md`` has a table); `default_text_splitter` if None.
        batch_size: Chunks in one call of a store or of the embedding model, at least 1.
        headers: Makes the header that is embedded in front of each chunk, None for no headers; see
            `langchain_rse.headers`. Choose chunks that leave room for it (``docs/splitters.md``).
        document_separator: The text between the parts of one document, such as pages.
        metadata_rules: How a segment shows a metadata field that changes along a document, such as
            ``page``: ``"range"``, the values at its first and last character as ``{name}_start``
            and ``{name}_end``; ``"first"`` or ``"last"``, one of these under the field's own name;
            ``"all"``, a list of its values, each once; ``"same"``, the one value, with a
            ``ValueError`` if there are two; ``"drop"``, nothing: the field is not stored. Default:
            ``"range"`` for ``page``, ``page_label`` and fields that differ between parts, with a
            warning where its whole numbers do not rise by one. Rules are stored with documents.
        max_embedded_length: The longest text that the embedding model reads; a warning counts
            longer ones. None: the limit in the files of a sentence-transformers model.
        embedded_length_function: From a text to its length, in the units of
            ``max_embedded_length``. None: tokens of such a model, characters for others.
        namespace: Separates these documents from those of other namespaces in the same stores, see
            ``docs/tenants.md``: any string of at most 200 characters; empty for none.

    Raises:
        ValueError: If a number is below 1, a rule is unknown, ``embedded_length_function`` has no
            limit, or this package does not know how to filter the vector store by ``namespace``.
        TypeError: If a store, the splitter or the headers are of a wrong type.
    """

    def __init__(
        self,
        vectorstore: VectorStore,
        docstore: DocStore | BaseStore[str, bytes],
        *,
        text_splitter: Splitter | None = None,
        headers: HeaderMaker | None = None,
        batch_size: int = 500,
        document_separator: str = "\n\n",
        metadata_rules: Mapping[str, Rule] | None = None,
        max_embedded_length: int | None = None,
        embedded_length_function: Callable[[str], float] | None = None,
        namespace: str = "",
    ) -> None:
        if not isinstance(vectorstore, VectorStore):
            raise TypeError(
                f"vectorstore must be a LangChain VectorStore; got {type(vectorstore).__name__}"
            )
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {batch_size!r}")
        if headers is not None and (isinstance(headers, type) or not hasattr(headers, "make")):
            raise TypeError(f"headers must be an object like DocumentHeaders(); got {headers!r}")
        self.vectorstore = vectorstore
        self.docstore = in_namespace(as_docstore(docstore), namespace, vectorstore)
        self.namespace = namespace
        self.text_splitter = check_splitter(text_splitter or default_text_splitter())
        self.headers = headers
        self.batch_size = batch_size
        self.document_separator = document_separator
        self.metadata_rules = check_rules(metadata_rules)
        self._limit = find_limit(
            vectorstore.embeddings, max_embedded_length, embedded_length_function
        )

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        separate: bool | None = None,
        append: bool = False,
        force: bool = False,
        show_progress: bool = False,
    ) -> list[str]:
        """Add documents; those whose id is known are replaced if they differ.

        A document's id is the one in ``ids``, else the metadata ``doc_id``, else ``Document.id``,
        else the metadata ``source``, else a digest of the text. LangChain Documents with the same
        id are parts of one document and are joined in their order; something in their metadata,
        such as ``page``, must tell them apart. Parts that are chunks already are joined by their
        ``start_index``, with a warning; without it, they are an error. Rows of tables and records
        of JSON files (metadata ``row``, ``seq_num``) are documents of their own, with ids like
        ``"people.csv, row 17"``.

        Args:
            documents: Whole documents, with all their parts. In a list, the parts of a document may
                stand anywhere; an iterator, which is read in batches, must yield them in sequence.
            ids: One id for each of ``documents``.
            separate: True if each of ``documents`` is a document of its own, such as an entry, post
                or message; its id is then, after ``doc_id`` and ``Document.id``, the ``source``
                with the row or a digest of the text. False to join rows and records, too. None:
                as described above.
            append: Add to the end of the stored document, as if all parts came in one call.
            force: Write and embed unchanged documents as well.
            show_progress: Show how many chunks are written, and of which document; needs tqdm.

        Returns:
            The ids of the documents, each once, in order of appearance.

        Raises:
            ValueError: If the number of ``ids`` is not that of documents or one is empty; if parts
                of a document are scattered over an iterator, come from two files, or contradict a
                rule ``"same"``; if two have one id and ``separate`` is True; if a document would
                be replaced by a later piece of itself or by a retrieved fragment; with ``append``,
                if parts are stored already or leave a gap.
            SplittingError: If the splitter changes or drops text, or chunks cannot be joined.
            MetadataError: If an id or metadata cannot be stored. The error names these documents
                and is raised at the end: all other documents are added.
            CorruptRecordError: If the docstore's record of a document cannot be read.
        """
        adding = self._adding(separate=separate, append=append, force=force)
        return run(adding.add(documents, ids, show_progress=show_progress))

    async def aadd_documents(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        *,
        ids: Iterable[str] | None = None,
        separate: bool | None = None,
        append: bool = False,
        force: bool = False,
        show_progress: bool = False,
    ) -> list[str]:
        """Like `add_documents`, async; takes async iterators too, and runs others in a thread."""
        adding = self._adding(separate=separate, append=append, force=force)
        return await arun(adding.add(documents, ids, show_progress=show_progress))

    def _writer(self) -> Writer:
        limit = None
        if self._limit is not None:
            limit = replace(self._limit)  # each call has its own counts
        return Writer(
            Vectors(self.vectorstore, self.batch_size, limit),
            DocStoreWriter(self.docstore, self.batch_size),
        )

    def _adding(self, *, separate: bool | None, append: bool, force: bool) -> AddOperation:
        return AddOperation(
            writer=self._writer(),
            splitter=self.text_splitter,
            headers=self.headers,
            separator=self.document_separator,
            rules=self.metadata_rules,
            separate=separate,
            append=append,
            force=force,
        )

    def sync(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str] | None = None,
        separate: bool | None = None,
        force: bool = False,
        show_progress: bool = False,
    ) -> SyncResult:
        """Add documents as `add_documents` does, and delete all others.

        Then the stores have the given documents and nothing else. Documents that other calls add
        meanwhile stay, and so do those of other namespaces.

        Args:
            documents: All documents, with all their parts, as for `add_documents`.
            ids: One id for each of ``documents``.
            separate: As in `add_documents`.
            force: Write and embed unchanged documents as well.
            show_progress: Show how many chunks are written, and of which document; needs tqdm.

        Returns:
            The ids of the given documents, and those of the deleted ones.

        Raises:
            ValueError: If there are no ``documents`` and stored ones would be deleted: a loader
                that finds nothing may look in the wrong place.
            Exception: All errors of `add_documents`. After an error, nothing is deleted.
        """
        steps = self.sync_steps(
            documents, ids=ids, separate=separate, force=force, show_progress=show_progress
        )
        return run(steps)

    async def async_sync(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        *,
        ids: Iterable[str] | None = None,
        separate: bool | None = None,
        force: bool = False,
        show_progress: bool = False,
    ) -> SyncResult:
        """Like `sync`, async; named so because "async" is a keyword of Python.

        Takes async iterators too, and runs others in a thread.
        """
        steps = self.sync_steps(
            documents, ids=ids, separate=separate, force=force, show_progress=show_progress
        )
        return await arun(steps)

    def sync_steps(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        *,
        ids: Iterable[str] | None,
        separate: bool | None,
        force: bool,
        show_progress: bool,
        may_delete: Callable[[Manifest], bool] = lambda _: True,
    ) -> Steps[SyncResult]:
        """The steps of `sync`; ``may_delete`` says which documents may be deleted."""
        adding = self._adding(separate=separate, append=False, force=force)
        return sync_documents(
            adding, documents, ids, may_delete=may_delete, show_progress=show_progress
        )

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Delete documents from both stores, the vectors first.

        Args:
            ids: Ids of documents. Ids that are not stored are ignored.

        Returns:
            The ids of the documents that were deleted.

        Raises:
            TypeError: If ``ids`` is a single string.
            CorruptRecordError: If the docstore's record of a document cannot be read.
        """
        return run(self._writer().delete(ids))

    async def adelete(self, ids: Sequence[str]) -> list[str]:
        """Like `delete`, async."""
        return await arun(self._writer().delete(ids))

    def check(self, *, repair: bool = False, show_progress: bool = False) -> CheckReport:
        """Compare the contents of the two stores. See ``docs/scaling.md#checks-and-repairs``.

        Args:
            repair: Correct what is wrong, and compare again; if False, nothing is changed. Vectors
                that are lost or of another model are written again from the docstore's texts,
                without overlap. Documents with lost text stay as they are; ``add_again`` of the
                report names them. Documents that other calls are writing are left alone.
            show_progress: Show how many records are checked; needs tqdm.

        Raises:
            FormatError: If the docstore was written by another version of this package.
            StoreMismatchError: With ``repair``, if the docstore is empty, and the vector store has
                vectors.
            CorruptRecordError: With ``repair``, if most documents cannot be read, or more of a
                SQLite file is damaged than records and indexes.
        """
        return check_stores(self._writer(), should_repair=repair, show_progress=show_progress)

    async def acheck(self, *, repair: bool = False, show_progress: bool = False) -> CheckReport:
        """Like `check`, async."""
        return await in_thread(self.check, repair=repair, show_progress=show_progress)

    def chunks(self) -> Iterator[Document]:
        """Read all chunks from the docstore, a batch at a time, to build another retriever on.

        The chunks are those of the vector store, but without overlap and surrounding white space.
        If a document is replaced meanwhile, some of its chunks may be missing.

        Example:
            >>> bm25 = BM25Retriever.from_documents(list(indexer.chunks()), k=200)
            >>> retriever = RSERetriever(base_retriever=bm25, docstore=indexer.docstore)
        """
        return itertools.chain.from_iterable(every_chunk(self.docstore))

    async def achunks(self) -> AsyncIterator[Document]:
        """Like `chunks`, async."""
        batches = every_chunk(self.docstore)
        while batch := await in_thread(next, batches, None):
            for chunk in batch:
                yield chunk

    def adopt(
        self,
        index: ExistingIndex | None = None,
        *,
        documents: Iterable[Document] | None = None,
        show_progress: bool = False,
    ) -> Adoption:
        """Bring in an index that the vector store holds already, without embedding anything.

        The vector store is only read; calling again brings in what has changed since. When an
        adopted document is deleted, or replaced by adding it, its vectors are deleted.

        Args:
            index: Which metadata fields of the store's chunks say where each one belongs. None:
                recognized by usual names, such as ``source``, ``page`` and ``start_index``; the
                report's ``index`` has what was recognized.
            documents: The store's chunks with their ids, as it lists them; needed unless this
                package can list them (``docs/stores.md``).
            show_progress: Show a progress bar; needs tqdm.

        Returns:
            A report of what was adopted, and of the places where text is missing.

        Raises:
            AdoptionError: If the store is empty; if chunks cannot be joined, unless
                ``index.on_error="skip"``; or without ``index``, if no usual field names the
                documents or gives the order.
            TypeError: If the store is not known and ``documents`` is not given.
            ValueError: If ``index.in_store_order`` is set and the store has no order.
            CorruptRecordError: If the docstore's record of a document cannot be read.
        """
        return adopt(
            self._writer(),
            index,
            documents,
            rules=self.metadata_rules,
            show_progress=show_progress,
        )

    async def aadopt(
        self,
        index: ExistingIndex | None = None,
        *,
        documents: Iterable[Document] | None = None,
        show_progress: bool = False,
    ) -> Adoption:
        """Like `adopt`, in a thread; the stores are awaited by the event loop."""
        return await in_thread(self.adopt, index, documents=documents, show_progress=show_progress)
