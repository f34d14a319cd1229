"""Refuses parts of documents that are chunks, or that may be of different documents."""

from langchain_core.documents import Document

from langchain_rse.ingest.source_documents import SourceDocument, is_whole_number
from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import PASSAGE, START_INDEX, VERSION, WRITTEN

_EXCERPT = 40

_ADD_WHOLE = (
    "add whole documents: retriever.add_documents(docs). The retriever splits them itself, with "
    "RSERetriever(..., text_splitter=splitter)"
)


def check_whole(document: Document) -> None:
    """Refuse a document that is a chunk or a retrieved passage, as its metadata shows."""
    metadata = document.metadata
    start = metadata.get(START_INDEX)
    if is_whole_number(start) and start != 0:
        field, value = START_INDEX, repr(start)
    elif VERSION in metadata:
        field, value = VERSION, repr(metadata[VERSION])
    elif PASSAGE in metadata:
        field, value = PASSAGE, "{...}"
    else:
        return
    raise ValueError(
        f"the document that begins {document.page_content[:_EXCERPT]!r} has {field}={value} in its "
        f"metadata, so it is a chunk of another document. Instead, {_ADD_WHOLE}. To store it as a "
        f"document of its own, remove {field!r} from its metadata"
    )


def check_one_document(source: SourceDocument, *, append: bool) -> None:
    """Refuse parts that nothing distinguishes: chunks, or documents with the same name.

    With ``append``, parts with a given id are trusted to belong together.
    """
    new_parts = source.parts[source.stored :]
    is_trusted = append and source.id_origin != "source"
    if source.id_origin == "text" or is_trusted or len(new_parts) == 1:
        return
    descriptions = {described(part, source.doc_id) for part in new_parts}
    # With a given id, two sections may have the same heading.
    most = len(new_parts) - 1 if source.id_origin == "source" else 1
    if source.is_separate:
        problem = "this id stands for a single row or record"
    elif len(descriptions) <= most:
        problem = "two of them have the same metadata"
    else:
        return
    name = "source" if source.id_origin == "source" else "id"
    raise ValueError(
        f"several documents have the {name} {source.doc_id!r}, so they count as parts of one "
        f"document, but {problem}. If they are chunks, {_ADD_WHOLE}. If they are different files, "
        "give each its own id: ids= or metadata['doc_id']. If they are parts of one file, pass "
        "them in order, each with metadata['page']. If each is a document, such as a message or "
        "an entry: add_documents(docs, separate=True)"
    )


def described(part: Document, doc_id: str) -> str:
    """Encode a part's metadata without its position, to compare it with other parts."""
    names = sorted(set(part.metadata) - WRITTEN, key=str)
    fields = {name: part.metadata[name] for name in names}
    return encode_json(fields, f"metadata of document {doc_id!r}")
