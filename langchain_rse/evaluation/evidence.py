"""Finds the evidence of questions in the texts of its documents."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from langchain_rse.evaluation.questions import Evidence, Question
from langchain_rse.ingest.alignment import quotation_pattern
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.layouts import Layout, VersionKey, read_layouts
from langchain_rse.stores.records import Manifest, document_key
from langchain_rse.stores.whole_documents import read_text
from langchain_rse.text.quoting import first_few


class _Documents(NamedTuple):
    """The documents in which evidence must be."""

    name: str  # what messages call them
    lengths: Mapping[str, int]  # in characters, by document id
    texts: Mapping[str, str]  # by document id; at least those with quoted evidence


def find_evidence(
    questions: tuple[Question, ...], retriever: object, sources: Mapping[str, str] | None
) -> tuple[Question, ...]:
    """Return the questions with the positions of quotations; check that all evidence exists.

    Evidence must be in ``sources`` or, without these, in the index of an `RSERetriever`. The
    documents of other retrievers are unknown: evidence is not checked, and cannot be quoted.

    Raises:
        ValueError: If a question has an answer but no evidence, evidence is not in its document, or
            a quotation is not there exactly once.
    """
    for number, question in enumerate(questions, 1):
        if not question.evidence and not question.is_unanswerable:
            raise ValueError(
                f"question {number} has no evidence to measure by, only an answer. If the "
                "documents do not answer it, give evidence=[] and no answer"
            )
    if sources is not None:
        lengths = {doc_id: len(text) for doc_id, text in sources.items()}
        documents = _Documents("sources", lengths, sources)
    elif isinstance(retriever, RSERetriever):
        documents = _read_index(retriever.docstore, _evidence_of(questions))
    elif any(evidence.is_quoted for evidence in _evidence_of(questions)):
        raise ValueError(
            "evidence is quoted: give sources, the documents' texts by id, to look it up, or the "
            "questions of an RSERetriever's report, report.questions"
        )
    else:
        return questions
    return _locate_all(questions, documents)


def read_manifests_of(docstore: DocStore, doc_ids: Iterable[str]) -> list[Manifest]:
    """Read the manifests of documents, without those that the index lacks."""
    windows: dict[VersionKey, Sequence[range]] = {
        (document_key(doc_id), ""): () for doc_id in doc_ids
    }
    layouts = read_layouts(docstore, windows)
    return [
        layout.manifest
        for layout in layouts.values()
        if isinstance(layout, Layout) and layout.version
    ]


def _evidence_of(questions: Iterable[Question]) -> list[Evidence]:
    evidence: list[Evidence] = []
    for question in questions:
        evidence.extend(question.evidence)
    return evidence


def _read_index(docstore: DocStore, evidence: Sequence[Evidence]) -> _Documents:
    """Read the lengths of the documents with evidence, and the texts of those that are quoted."""
    quoted_ids = {part.doc_id for part in evidence if part.is_quoted}
    lengths = {}
    texts = {}
    for manifest in read_manifests_of(docstore, [part.doc_id for part in evidence]):
        lengths[manifest.doc_id] = manifest.length
        if manifest.doc_id not in quoted_ids:
            continue
        stored = read_text(docstore, manifest)
        if stored is None:  # the document was adopted, or is damaged
            raise ValueError(
                f"{manifest.doc_id!r} is quoted, but its text is not kept: give sources"
            )
        texts[manifest.doc_id] = stored.text
    return _Documents("the index", lengths, texts)


def _locate_all(questions: Iterable[Question], documents: _Documents) -> tuple[Question, ...]:
    """Locate the evidence of all questions; one error lists all that is not in its document."""
    evidence_of: list[tuple[Question, list[Evidence]]] = []
    problems: list[str] = []
    for number, question in enumerate(questions, 1):
        located: list[Evidence] = []
        for evidence in question.evidence:
            try:
                located.append(_locate(evidence, documents))
            except ValueError as error:
                problems.append(f"question {number}: {error}")
        evidence_of.append((question, located))
    if problems:
        raise ValueError(
            "evidence must be in its document, and a quotation in it once, whatever the white "
            f"space; in {documents.name}, {first_few(problems)}. Copy it, quote more, or give "
            "start and end"
        )
    return tuple(replace(question, evidence=evidence) for question, evidence in evidence_of)


def _locate(evidence: Evidence, documents: _Documents) -> Evidence:
    """Return the evidence with its position; a ValueError says why it has none."""
    if evidence.is_quoted:
        return _locate_quotation(evidence, documents.texts.get(evidence.doc_id, ""))
    length = documents.lengths.get(evidence.doc_id, 0)
    if evidence.end > length:
        raise ValueError(
            f"{evidence.start} to {evidence.end} is not in document {evidence.doc_id!r}, which has "
            f"{length or 'no'} characters"
        )
    return evidence


def _locate_quotation(evidence: Evidence, text: str) -> Evidence:
    pattern = quotation_pattern(evidence.text)
    match = pattern.search(text)
    if match is None:
        raise ValueError(f"{evidence.text!r:.80} is nowhere in document {evidence.doc_id!r}")
    second = pattern.search(text, match.start() + 1)
    if second is not None:
        raise ValueError(
            f"{evidence.text!r:.80} is at {match.start()} and at {second.start()} in document "
            f"{evidence.doc_id!r}"
        )
    return replace(evidence, start=match.start(), end=match.end())
