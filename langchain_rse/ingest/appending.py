"""Appends pieces to stored documents: reads what is stored, and refuses what is stored already."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from langchain_rse.ingest.overlap import SURE_OVERLAP, overlap
from langchain_rse.ingest.rejoining import begins_later, described
from langchain_rse.ingest.source_documents import PART_NUMBERS, SourceDocument, part_numbers
from langchain_rse.ingest.writing import Writer
from langchain_rse.stores.records import Manifest, Rule, Version, document_key
from langchain_rse.stores.whole_documents import StoredText, read_text

# Some loaders number from 0, some from 1.
_HIGHEST_FIRST_NUMBER = 1
_EXCERPT = 40


class Extended(NamedTuple):
    """Documents with their stored parts before the new ones."""

    sources: list[SourceDocument]
    versions: dict[str, Version | None]  # the stored version of each, by the document's id


def read_stored_parts(
    writer: Writer, sources: Sequence[SourceDocument], rules: Mapping[str, Rule]
) -> Extended:
    """Put the stored parts of documents before the new ones."""
    manifests = writer.records.manifests(document_key(source.doc_id) for source in sources)
    extended = Extended([], {})
    for source, manifest in zip(sources, manifests, strict=True):
        if source.id_origin == "text":
            raise ValueError(
                "append=True: a document has no id that says what to add it to (its text begins "
                f"{source.parts[0].page_content[:_EXCERPT]!r}); give ids= or metadata['doc_id']"
            )
        if source.is_separate:
            # It has no parts: a row that is stored already is replaced.
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
            f"append=True: the docstore lacks text of document {source.doc_id!r}, as it may "
            "for adopted ones; give the whole document without append"
        )
    _check_is_new(source, stored, rules)
    parts = [*stored.parts, *source.parts]
    return replace(source, parts=parts, stored=len(stored.parts))


def _check_is_beginning(source: SourceDocument, rules: Mapping[str, Rule]) -> None:
    """Refuse a document whose beginning is missing, by the number of its first part."""
    numbers = part_numbers([source.parts[0].metadata], rules)
    if numbers is None or numbers.field not in PART_NUMBERS:
        return
    first = numbers.values[0]
    if first > _HIGHEST_FIRST_NUMBER:
        raise ValueError(
            f"append=True: document {source.doc_id!r} begins with {numbers.field} {first}, and "
            "nothing of it is stored. Give the parts before it, or drop append=True"
        )


def _check_is_new(source: SourceDocument, stored: StoredText, rules: Mapping[str, Rule]) -> None:
    """Refuse parts that are stored already."""
    problem = ""
    numbers = part_numbers([stored.parts[-1].metadata, source.parts[0].metadata], rules)
    if numbers is not None:
        name = numbers.field
        last, next_number = numbers.values
        is_repeated = next_number == last and not _continues_last_part(source, stored)
        if next_number < last or is_repeated:
            first = stored.parts[0].metadata.get(name)
            problem = f"begins with {name} {next_number}, but {name} {first} to {last} are stored"
    else:
        end = source.parts[-1].page_content
        texts = [part.page_content for part in source.parts]
        last_stored = [part.page_content for part in stored.parts[-len(texts) :]]
        is_long_end = len(end) >= SURE_OVERLAP and stored.text.endswith(end)
        if is_long_end or texts == last_stored:
            problem = f"ends with these parts already ({end[:_EXCERPT]!r})"
    if problem:
        raise ValueError(
            f"append=True: document {source.doc_id!r} {problem}. Give only parts that are not "
            "stored yet; or, without append, the whole document"
        )


def _continues_last_part(source: SourceDocument, stored: StoredText) -> bool:
    """True if parts with the number of the last stored part are new."""
    first_new, last_stored = source.parts[0], stored.parts[-1]
    if begins_later(first_new):
        return True
    if overlap(last_stored.page_content, first_new.page_content) > 0:
        return True
    known = {described(part, source.doc_id) for part in stored.parts}
    return described(first_new, source.doc_id) not in known
