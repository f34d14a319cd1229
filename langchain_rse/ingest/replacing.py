"""Checks what a document may replace, before the writer announces its version."""

from collections.abc import Mapping

from langchain_rse.errors import AdoptionError
from langchain_rse.stores.records import DocumentVersion, Manifest, Version

ExpectedVersions = Mapping[str, Version | None]
"""The version that each document must have before it is written, by id; None for no version."""


class UnexpectedVersionError(Exception):
    """A document does not have the version that the caller expects."""

    def __init__(self, doc_id: str) -> None:
        super().__init__(f"another call changed document {doc_id!r} at the same time")
        self.doc_id = doc_id


def is_expected(document: DocumentVersion, manifest: Manifest, expected: ExpectedVersions) -> bool:
    """True if no other call changed a document since the caller read it."""
    if manifest.current == expected[document.doc_id]:
        return True
    return document.version.has_content_of(manifest.current)  # rewriting equal content is fine


def check_adopted(document: DocumentVersion, manifest: Manifest) -> None:
    """Refuse to adopt a document that was added with ``add_documents``."""
    if manifest.current is not None and not manifest.current.adopted:
        raise AdoptionError(
            f"document {document.doc_id!r} was already added with add_documents, so the chunks of "
            "this index would be a second version. Delete one of the two"
        )
