"""Appends parts to stored documents: reads the stored parts and refuses repeated ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from langchain_rse.ingest.overlap import SURE_OVERLAP, overlap
from langchain_rse.ingest.parts import described
from langchain_rse.ingest.source_documents import PART_NUMBERS, SourceDocument, part_numbers
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.records import Manifest, Rule, Version, document_key
from langchain_rse.stores.whole_documents import StoredText, read_text

# Loaders number parts from 0 or from 1.
_HIGHEST_FIRST_NUMBER = 1
_EXCERPT = 40


class Extended(NamedTuple):
    """Documents whose stored parts precede the new ones."""

    sources: list[SourceDocument]
    versions: dict[str, Version | None]  # stored version by document id


def read_stored_parts(
    writer: Writer, sources: Sequence[SourceDocument], rules: Mapping[str, Rule]
) -> Extended:
    """Put the stored parts of documents before the new ones."""
    manifests = writer.records.manifests(document_key(source.doc_id) for source in sources)
    extended = Extended([], {})
    for source, manifest in zip(sources, manifests, strict=True):
        if source.id_origin == "text":
            raise ValueError(
                "append=True: the document that begins "
                f"{source.parts[0].page_content[:_EXCERPT]!r} has no id, so the document to extend "
                "is unknown. Set ids= or metadata['doc_id']"
            )
        if source.is_separate:
            # A row has no parts: it replaces the stored row.
            extended.sources.append(source)
            extended.versions[source.doc_id] = manifest.current if manifest else None
        elif manifest is None or manifest.current is None:
            _check_is_beginning(source, rules)
            extended.sources.append(source)
            extended.versions[source.doc_id] = None
        else:
            whole = _with_stored_parts(writer, source, manifest, rules)
            extended.sources.append(whole)
            extended.versions[source.doc_id] = manifest.current
    return extended


def _with_stored_parts(
    writer: Writer, source: SourceDocument, manifest: Manifest, rules: Mapping[str, Rule]
) -> SourceDocument:
    stored = read_text(writer.docstore, manifest)
    if stored is None:
        raise ValueError(
            f"append=True: the docstore does not have the full text of document "
            f"{source.doc_id!r}, which is normal for adopted documents. Add the whole document "
            "without append=True"
        )
    _check_is_new(source, stored, rules)
    parts = [*stored.parts, *source.parts]
    return replace(source, parts=parts, stored=len(stored.parts))


def _check_is_beginning(source: SourceDocument, rules: Mapping[str, Rule]) -> None:
    """Refuse a document whose first part number shows that earlier parts are missing."""
    numbers = part_numbers([source.parts[0].metadata], rules)
    if numbers is None or numbers.field not in PART_NUMBERS:
        return
    first = numbers.values[0]
    if first > _HIGHEST_FIRST_NUMBER:
        raise ValueError(
            f"append=True: document {source.doc_id!r} begins with {numbers.field} {first}, but no "
            "earlier part is stored. Add the earlier parts too, or drop append=True"
        )


def _check_is_new(source: SourceDocument, stored: StoredText, rules: Mapping[str, Rule]) -> None:
    """Refuse parts that are already stored."""
    problem = ""
    numbers = part_numbers([stored.parts[-1].metadata, source.parts[0].metadata], rules)
    if numbers is not None:
        name = numbers.field
        last, next_number = numbers.values
        is_repeated = next_number == last and not _continues_last_part(source, stored)
        if next_number < last or is_repeated:
            first = stored.parts[0].metadata.get(name)
            problem = (
                f"begins with {name} {next_number}, but {name} {first} to {last} are already stored"
            )
    else:
        end = source.parts[-1].page_content
        texts = [part.page_content for part in source.parts]
        last_stored = [part.page_content for part in stored.parts[-len(texts) :]]
        is_long_end = len(end) >= SURE_OVERLAP and stored.text.endswith(end)
        if is_long_end or texts == last_stored:
            problem = f"already ends with these parts ({end[:_EXCERPT]!r})"
    if problem:
        raise ValueError(
            f"append=True: document {source.doc_id!r} {problem}. Pass only new parts, or drop "
            "append=True and pass the whole document"
        )


def _continues_last_part(source: SourceDocument, stored: StoredText) -> bool:
    """True if parts numbered like the last stored part are new."""
    first_new, last_stored = source.parts[0], stored.parts[-1]
    if overlap(last_stored.page_content, first_new.page_content) > 0:
        return True
    known = {described(part, source.doc_id) for part in stored.parts}
    return described(first_new, source.doc_id) not in known
