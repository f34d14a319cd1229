"""Appends parts to stored documents."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from langchain_core.documents import Document

from langchain_rse.ingest.source_documents import SourceDocument, described, dropped
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.layouts import read_parts
from langchain_rse.stores.records import Manifest, Rule, Version, document_key

_EXCERPT = 40


def read_stored_parts(
    writer: Writer, sources: Sequence[SourceDocument], rules: Mapping[str, Rule]
) -> tuple[list[SourceDocument], dict[str, Version | None]]:
    """Put the stored parts of documents before the new ones.

    Returns the documents, and the stored version of each by document id.
    """
    manifests = writer.records.manifests(document_key(source.doc_id) for source in sources)
    extended: list[SourceDocument] = []
    versions: dict[str, Version | None] = {}
    for source, manifest in zip(sources, manifests, strict=True):
        if source.id_origin == "text":
            raise ValueError(
                "append=True: the document that begins "
                f"{source.parts[0].page_content[:_EXCERPT]!r} has no id, so the document to extend "
                "is unknown. Set ids= or metadata['doc_id']"
            )
        whole = source
        # A row has no parts: it replaces the stored row.
        if not source.is_separate and manifest is not None and manifest.current is not None:
            whole = _with_stored_parts(writer, source, manifest, rules)
        extended.append(whole)
        versions[source.doc_id] = manifest.current if manifest is not None else None
    return extended, versions


def _with_stored_parts(
    writer: Writer, source: SourceDocument, manifest: Manifest, rules: Mapping[str, Rule]
) -> SourceDocument:
    stored = read_parts(writer.docstore, manifest)
    if stored is None:
        raise ValueError(
            f"append=True: the docstore does not have the full text of document "
            f"{source.doc_id!r}, which is normal for adopted documents. Add the whole document "
            "without append=True"
        )
    fields = dropped(rules)

    def content(part: Document) -> tuple[str, str]:
        return part.page_content, described(part, source.doc_id, fields)

    last_stored = stored[-len(source.parts) :]
    if list(map(content, last_stored)) == list(map(content, source.parts)):
        end = source.parts[-1].page_content
        raise ValueError(
            f"append=True: document {source.doc_id!r} already ends with these parts "
            f"({end[:_EXCERPT]!r}). Pass only new parts, or drop append=True and pass the whole "
            "document"
        )
    return replace(source, parts=[*stored, *source.parts], stored=len(stored))
