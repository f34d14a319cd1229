"""RSEIndexer: splits documents and writes them to a vector store and a docstore."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from langchain_core.documents import Document
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStore

from langchain_rse._messages import check_type
from langchain_rse._sync import as_async
from langchain_rse.adopting import Adoption, ExistingIndex, adopt
from langchain_rse.ingest.adding import AddOperation, SyncResult, sync_documents
from langchain_rse.ingest.checking import CheckReport, check_stores
from langchain_rse.ingest.default_splitter import default_text_splitter
from langchain_rse.ingest.docstore import DocStoreWriter
from langchain_rse.ingest.source_documents import HeaderMaker, check_headers, check_rules
from langchain_rse.ingest.splitting import Splitter, check_splitter
from langchain_rse.ingest.vectors import Vectors
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.json import as_docstore
from langchain_rse.stores.layouts import every_chunk
from langchain_rse.stores.namespaces import in_namespace
from langchain_rse.stores.records import Manifest, Rule
from langchain_rse.stores.vectorstores import adapter_for

__all__ = ["RSEIndexer", "default_text_splitter"]


class DocumentMethods:
    """The methods of `RSEIndexer` and `RSERetriever` that add and delete documents."""

    def _get_indexer(self) -> "RSEIndexer":
        raise NotImplementedError

    def _may_delete(self) -> Callable[[Manifest], bool]:
        """Return a function that tells which documents `sync` may delete."""
        return lambda _: True

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
        """Add documents, and replace stored documents that have changed.

        The id of a document is, in this order: its entry in ``ids``, the metadata ``doc_id``,
        ``Document.id``, the metadata ``source``, a digest of its text. LangChain Documents with the
        same id are parts of one document and are joined in their order; a metadata field such as
        ``page`` must distinguish them. Chunks are an error: pass whole documents. Rows of tables
        and records of JSON files (metadata ``row``, ``seq_num``) become separate documents, with
        ids like ``"people.csv, row 17"``.

        Args:
            documents: Whole documents, with all their parts. In a list, the parts of a document may
                be anywhere. An iterator is read in batches and must yield the parts of a document
                one after the other.
            ids: One id for each of ``documents``.
            separate: True to make each of ``documents`` a separate document, such as an entry, post
                or message. Its id is then ``doc_id``, or else ``Document.id``, or else ``source``
                with the row or a digest of the text. False to join rows and records as well. None:
                as described above.
            append: Add to the end of stored documents, as if all parts came in one call.
            force: Write and embed unchanged documents as well.
            show_progress: Show the number of written chunks; needs tqdm.

        Returns:
            The ids of the documents, each once, in order of appearance.

        Raises:
            ValueError: If the number of ``ids`` differs from the number of documents, or an id is
                empty; if a document is a chunk or a passage; if parts of a document are scattered
                over an iterator, have equal metadata, or violate a rule ``"same"``; if two
                documents have the same id and ``separate`` is True; with ``append``, if the
                document already ends with these parts.
            SplittingError: If the splitter changes or drops text.
            MetadataError: If an id or metadata cannot be stored. The error names these documents.
                It is raised at the end, after all other documents were added.
            CorruptRecordError: If the docstore's record of a document is corrupt.
        """
        adding = self._adding(separate=separate, append=append, force=force)
        return adding.add(documents, ids, show_progress=show_progress)

    aadd_documents = as_async(add_documents)

    def _adding(self, *, separate: bool | None, append: bool = False, force: bool) -> AddOperation:
        indexer = self._get_indexer()
        return AddOperation(
            writer=indexer._writer(),  # noqa: SLF001
            splitter=indexer.text_splitter,
            headers=indexer.headers,
            separator=indexer.document_separator,
            rules=indexer.metadata_rules,
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
        """Add documents like `add_documents`, and delete all other documents.

        Documents that other calls add meanwhile are kept, as are documents of other namespaces
        and those that a filter in ``search_kwargs`` of an `RSERetriever` excludes.

        Args:
            documents: All documents, with all their parts, as for `add_documents`.
            ids: One id for each of ``documents``.
            separate: As in `add_documents`.
            force: Write and embed unchanged documents as well.
            show_progress: Show the number of written chunks; needs tqdm.

        Returns:
            The ids of the added, changed, unchanged and deleted documents.

        Raises:
            ValueError: If ``documents`` is empty and stored documents would be deleted: a loader
                may have looked in the wrong place. If a filter of an `RSERetriever` cannot be
                applied to a whole document.
            Exception: All errors of `add_documents`. After an error, nothing is deleted.
        """
        adding = self._adding(separate=separate, force=force)
        return sync_documents(
            adding, documents, ids, may_delete=self._may_delete(), show_progress=show_progress
        )

    # The name ``async`` would be a Python keyword.
    async_sync = as_async(sync, "async_sync")

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Delete documents from both stores, the vectors first.

        Args:
            ids: Ids of documents. Unknown ids are ignored.

        Returns:
            The ids of the deleted documents.

        Raises:
            TypeError: If ``ids`` is a single string.
            CorruptRecordError: If the docstore's record of a document is corrupt.
        """
        return self._get_indexer()._writer().delete(ids)  # noqa: SLF001

    adelete = as_async(delete)


class RSEIndexer(DocumentMethods):
    """Adds, replaces and deletes documents in a vector store and a docstore.

    Adding a document again replaces it, or does nothing if text, chunks and metadata are unchanged.
    Queries see either the old or the new version. To complete an interrupted call, call again. If
    vectors can be read from the vector store (``docs/indexing.md``), only chunks with new embedded
    text are embedded. The vector store gets metadata values that every store accepts (strings,
    numbers, booleans); the docstore gets all.

    Args:
        vectorstore: Stores the vectors of the chunks. It must keep given ids and delete by id.
        docstore: Stores the texts of the chunks: a store of Documents or of bytes.
        text_splitter: Any LangChain splitter that keeps the words of the text; see the table in
            ``docs/splitters.md``. None for `default_text_splitter`.
        batch_size: Number of chunks in one call of a store or the embedding model, at least 1.
        headers: Makes the header that is embedded in front of each chunk; see
            `langchain_rse.headers`. None for no headers. Make chunks small enough that the model
            reads header and chunk (``docs/splitters.md``).
        document_separator: Text between the parts of a document, such as pages.
        metadata_rules: For metadata fields that change along a document, such as ``page``, what a
            passage shows: ``"range"``, the values at its first and last character, as
            ``{name}_start`` and ``{name}_end``; ``"first"`` or ``"last"``, one of these values,
            under the field's name; ``"all"``, a list of the distinct values; ``"same"``, the only
            value, with a ``ValueError`` if there are two; ``"drop"``: the field is not stored.
            Default: ``"range"`` for ``page``, ``page_label`` and fields that differ between parts,
            with a warning if whole numbers do not rise by one. Rules are stored with documents.
        namespace: Separates these documents from documents of other namespaces in the same stores;
            see ``docs/tenants.md``. At most 200 characters; empty for no namespace.

    Raises:
        ValueError: If ``batch_size`` is below 1, a rule is unknown, or the vector store cannot be
            filtered by ``namespace``.
        TypeError: If a store, the splitter or the headers have a wrong type.
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
        namespace: str = "",
    ) -> None:
        check_type("vectorstore", vectorstore, VectorStore, "a LangChain VectorStore")
        check_type("batch_size", batch_size, int, "a whole number")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {batch_size!r}")
        self._adapter = adapter_for(vectorstore)
        self.vectorstore: VectorStore = self._adapter.store
        self.docstore = in_namespace(as_docstore(docstore), namespace, vectorstore)
        self.namespace = namespace
        self.text_splitter = check_splitter(text_splitter or default_text_splitter())
        self.headers = check_headers(headers)
        self.batch_size = batch_size
        self.document_separator = document_separator
        self.metadata_rules = check_rules(metadata_rules)

    def __repr__(self) -> str:
        return f"RSEIndexer({type(self.vectorstore).__name__}, {self.docstore!r})"

    def _get_indexer(self) -> "RSEIndexer":
        return self

    def _writer(self) -> Writer:
        return Writer(
            Vectors(self._adapter, self.batch_size),
            DocStoreWriter(self.docstore, self.batch_size),
        )

    def check(self, *, repair: bool = False, show_progress: bool = False) -> CheckReport:
        """Compare the contents of the two stores; see ``docs/scaling.md#checks-and-repairs``.

        Args:
            repair: True to repair problems and compare again, False to change nothing. Vectors that
                are lost or from another model are written again from the texts in the docstore,
                without overlap. Documents with lost text are not changed; ``add_again`` of the
                report lists them. Documents that other calls are writing are skipped.
            show_progress: Show the number of checked records; needs tqdm.

        Returns:
            A report of the problems.

        Raises:
            FormatError: If the docstore was written by another version of this package.
            StoreMismatchError: With ``repair``, if the docstore is empty but the vector store is
                not.
            CorruptRecordError: With ``repair``, if most documents are corrupt, or a SQLite file has
                damage beyond its records and indexes.
        """
        return check_stores(self._writer(), should_repair=repair, show_progress=show_progress)

    acheck = as_async(check)

    def chunks(self) -> Iterator[Document]:
        """Read all chunks from the docstore, batch by batch, to build another retriever.

        They are the chunks of the vector store, without overlap and surrounding white space. If a
        document is replaced meanwhile, some of its chunks may be missing.

        Example:
            >>> bm25 = BM25Retriever.from_documents(list(indexer.chunks()), k=200)
            >>> retriever = RSERetriever(base_retriever=bm25, docstore=indexer.docstore)
        """
        return itertools.chain.from_iterable(every_chunk(self.docstore))

    def adopt(
        self,
        index: ExistingIndex | None = None,
        *,
        documents: Iterable[Document] | None = None,
        show_progress: bool = False,
    ) -> Adoption:
        """Adopt an index that other code built in the vector store, without embedding anything.

        This only reads the vector store. Call it again to adopt later changes. Deleting an adopted
        document, or replacing it by adding it, deletes its vectors.

        Args:
            index: The metadata fields that give each chunk's place in its document. None to
                recognize usual names such as ``source``, ``page`` and ``start_index``; the
                report's ``index`` contains the recognized fields.
            documents: The store's chunks with their ids, in the order of the store. Needed only if
                this package cannot list them (``docs/stores.md``).
            show_progress: Show a progress bar; needs tqdm.

        Returns:
            A report of the adopted documents, and of places where text is missing.

        Raises:
            AdoptionError: If the store is empty; if chunks cannot be joined, unless
                ``index.on_error="skip"``; or if ``index`` is None and no usual field identifies the
                documents or gives the order of their chunks.
            TypeError: If the store is unknown and ``documents`` is not given.
            ValueError: If ``index.in_store_order`` is set and the store has no order.
            CorruptRecordError: If the docstore's record of a document is corrupt.
        """
        return adopt(
            self._writer(),
            index,
            documents,
            rules=self.metadata_rules,
            show_progress=show_progress,
        )

    aadopt = as_async(adopt)
