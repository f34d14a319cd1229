"""Guards against the accidental replacement of a stored document.

Pure functions, which the writer calls with stored data before it announces a version.
"""

import re
from collections.abc import Mapping

from langchain_rse.errors import AdoptionError
from langchain_rse.ingest.overlap import SURE_OVERLAP, overlap
from langchain_rse.ingest.source_documents import part_numbers
from langchain_rse.stores.records import DocumentVersion, Manifest, Version
from langchain_rse.stores.whole_documents import StoredText
from langchain_rse.text.sentences import SPACED_ENDS, UNSPACED_ENDS

ExpectedVersions = Mapping[str, Version | None]
"""The version that each document must have before it is written, by id; None for no version."""

_EXCERPT = 40

# Any mark ends a sentence, even before a lowercase letter: sentences are only compared here.
_END_OF_LINE = re.compile(r"[\r\n]+")
_END_OF_SENTENCE = re.compile(rf"(?<![{SPACED_ENDS}])[{SPACED_ENDS}]+(?=\s|\Z)|[{UNSPACED_ENDS}]")


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


def may_be_continuation(document: DocumentVersion, manifest: Manifest) -> bool:
    """True if only the stored text can tell whether a document is a continuation of it."""
    current = manifest.current
    if current is None or current.adopted:
        return False
    return manifest.text_digest != document.text_digest


def reject_continuation(document: DocumentVersion, stored: StoredText) -> None:
    """Refuse to replace a document with a continuation of it, judged by pages or text."""
    problem = _sign_of_continuation(document, stored)
    if problem:
        raise ValueError(
            f"document {document.doc_id!r} is stored, and the new text looks like a continuation "
            f"of it: {problem}. To append, add_documents(docs, append=True), or pass all parts in "
            f"one call. To replace the document, delete([{document.doc_id!r}]) first"
        )


def is_unrelated(document: DocumentVersion, stored: StoredText) -> bool:
    """True if a document shares no sentence or line with the text it replaces.

    False if both begin alike, as after an edit in a long sentence, or if one of them is empty.
    """
    if _begins_alike(document.text, stored.text):
        return False
    sentences = _sentences(document.text)
    stored_sentences = _sentences(stored.text)
    if not sentences or not stored_sentences:
        return False
    return sentences.isdisjoint(stored_sentences)


def _sentences(text: str) -> set[str]:
    """Return the sentences of a text and of its lines, as a sentence may span lines."""
    found: set[str] = set()
    lines = _END_OF_LINE.split(text)
    for line_or_text in [*lines, text]:
        for sentence in _END_OF_SENTENCE.split(line_or_text):
            words = sentence.casefold().split()
            if words:
                found.add(" ".join(words))
    return found


def _sign_of_continuation(document: DocumentVersion, stored: StoredText) -> str:
    """Describe why a document looks like a continuation; empty if it does not."""
    first_metadata = dict(document.metadata)
    if document.parts:
        _, _, metadata_of_part = document.parts[0]
        first_metadata.update(metadata_of_part)
    numbers = part_numbers([stored.parts[0].metadata, first_metadata], document.rules)
    if numbers is not None:
        stored_number, new_number = numbers.values
        if new_number > stored_number:
            name = numbers.field
            return f"it begins with {name} {new_number}, but {name} {stored_number} is stored"
        return ""
    text = document.text
    if not _begins_alike(text, stored.text) and overlap(stored.text, text):
        return f"it begins with the end of the stored text, {text[:_EXCERPT]!r}"
    return ""


def _begins_alike(text: str, other: str) -> bool:
    return text[:SURE_OVERLAP] == other[:SURE_OVERLAP]
