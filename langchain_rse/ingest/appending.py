"""Documents given in pieces: appends pieces, and refuses those that would replace the rest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_rse._sync import Steps
from langchain_rse.ingest.documents import SourceDocument, numbered
from langchain_rse.ingest.overlap import SURE_OVERLAP, overlap
from langchain_rse.ingest.rejoining import begins_later, described
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.records import DocumentVersion, Manifest, Rule, Version, document_key
from langchain_rse.stores.whole_documents import StoredText, read_text

# Metadata in which loaders number the parts of a document.
_NUMBERS = ("page", "page_number", "slide", "row", "seq_num")
# Some loaders number from 0, some from 1.
_FIRST = 1
_EXCERPT = 40


def refuse_pieces(
    writer: Writer, documents: Iterable[tuple[DocumentVersion, Manifest]], rules: Mapping[str, Rule]
) -> Steps[None]:
    """Refuse to replace a document by one whose pages or text look like a later piece of it."""
    for document, manifest in documents:
        known = manifest.current
        if known is None or known.adopted or manifest.text_digest == document.text_digest:
            continue
        stored = yield from read_text(writer.docstore, manifest)
        if stored is None:  # damaged: replacing it repairs it
            continue
        problem, text = "", document.text
        own = document.parts[0][2] if document.parts else {}
        numbers = _numbers([stored.parts[0].metadata, {**document.metadata, **own}], rules)
        for name, (before, after) in numbers:
            if after > before:
                problem = f"it begins with {name} {after}, but {name} {before} is stored"
        begins_anew = numbers or text[:SURE_OVERLAP] == stored.text[:SURE_OVERLAP]
        if not begins_anew and overlap(stored.text, text):
            problem = f"it begins with the end of what is stored, {text[:_EXCERPT]!r}"
        if problem:
            raise ValueError(
                f"document {document.doc_id!r} would be replaced by what looks like a later piece "
                f"of it: {problem}. To add to the end of it, add_documents(docs, append=True); or "
                f"give all parts in one call. To replace it, delete([{document.doc_id!r}]) first"
            )


def with_stored(
    writer: Writer, sources: Sequence[SourceDocument], rules: Mapping[str, Rule]
) -> Steps[tuple[list[SourceDocument], dict[str, Version | None]]]:
    """Put the stored parts of documents in front of the new ones; return the stored versions."""
    keys = [document_key(source.doc_id) for source in sources]
    manifests = yield from writer.manifests(keys)
    found: list[SourceDocument] = []
    versions: dict[str, Version | None] = {}
    for source, manifest in zip(sources, manifests, strict=True):
        if source.id_origin == "text":
            raise ValueError(
                "append=True: a document has no id that says what to add it to (its text begins "
                f"{source.parts[0].page_content[:_EXCERPT]!r}); give ids= or metadata['doc_id']"
            )
        versions[source.doc_id] = manifest.current if manifest else None
        if manifest is None or manifest.current is None:
            for name, (first,) in _numbers([source.parts[0].metadata], rules):
                if first > _FIRST and name in _NUMBERS:
                    raise ValueError(
                        f"append=True: document {source.doc_id!r} begins with {name} {first}, and "
                        "nothing of it is stored. Give the parts before it, or drop append=True"
                    )
            found.append(source)
            continue
        stored = yield from read_text(writer.docstore, manifest)
        if stored is None:
            raise ValueError(
                f"append=True: the docstore lacks text of document {source.doc_id!r}, as it may "
                "for adopted ones; give the whole document without append"
            )
        _check_after(source, stored, rules)
        parts = [*stored.parts, *source.parts]
        found.append(replace(source, parts=parts, stored=len(stored.parts)))
    return found, versions


def _numbers(
    parts: Sequence[Mapping[str, Any]], rules: Mapping[str, Rule]
) -> list[tuple[str, list[int]]]:
    """The numbers of parts in the first field that numbers them; empty if none does."""
    return list(numbered(parts, rules, _NUMBERS))[:1]


def _check_after(source: SourceDocument, stored: StoredText, rules: Mapping[str, Rule]) -> None:
    """Refuse parts that are stored already."""
    numbers = _numbers([stored.parts[-1].metadata, source.parts[0].metadata], rules)
    end, problem = source.parts[-1].page_content, ""
    for name, (before, after) in numbers:
        if after < before or (after == before and not _goes_on(source, stored)):
            first = stored.parts[0].metadata.get(name)
            problem = f"begins with {name} {after}, but {name} {first} to {before} are stored"
    if not numbers and len(end) >= SURE_OVERLAP and stored.text.endswith(end):
        problem = f"ends with these parts already ({end[:_EXCERPT]!r})"
    if problem:
        raise ValueError(
            f"append=True: document {source.doc_id!r} {problem}. Give only parts that are not "
            "stored yet; or, without append, the whole document"
        )


def _goes_on(source: SourceDocument, stored: StoredText) -> bool:
    """True if parts that begin on the last stored page are new."""
    first, last = source.parts[0], stored.parts[-1]
    known = (described(part, source.doc_id) for part in stored.parts)
    return (
        begins_later(first)
        or overlap(last.page_content, first.page_content) > 0
        or described(first, source.doc_id) not in known
    )
