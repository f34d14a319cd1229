"""Finds the evidence of questions in the texts of the documents."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial

from langchain_rse._messages import check_type, shown
from langchain_rse.access import DocumentAccess
from langchain_rse.errors import MissingRecordError
from langchain_rse.evaluation.questions import Evidence, Question
from langchain_rse.retriever import RSERetriever
from langchain_rse.text.quoting import first_few


def find_evidence(
    questions: Iterable[Question], retriever: object, sources: Mapping[str, str] | None = None
) -> tuple[Question, ...]:
    """Return the questions with the positions of quotations; check that all evidence exists.

    Evidence must be in ``sources``, or, without ``sources``, in the index of an `RSERetriever`. For
    other retrievers without ``sources``, evidence is not checked, and cannot be quoted.

    Raises:
        TypeError: If one is no `Question`.
        ValueError: If evidence is not in its document, or a quotation does not occur there exactly
            once.
    """
    checked = _check(questions)
    all_evidence = [evidence for question in checked for evidence in question.evidence]
    access = access_of(retriever)
    read_text: Callable[[str], str]
    if sources is not None:
        check_type("sources", sources, Mapping, "a dict of texts by document id")
        for text in sources.values():
            check_type("each of sources", text, str, "a text, such as document.page_content")
        lengths = {doc_id: len(text) for doc_id, text in sources.items()}
        read_text = partial(_read_source, sources)
    elif access is not None:
        manifests = access.manifests_of(evidence.doc_id for evidence in all_evidence)
        lengths = {doc_id: manifest.length for doc_id, manifest in manifests.items()}
        read_text = access.text
    elif any(evidence.is_quoted for evidence in all_evidence):
        raise ValueError(
            "quoted evidence needs sources, the texts of the documents by id. Or pass questions "
            "with located quotations: report.questions of an RSERetriever's report"
        )
    else:
        return checked
    read_once = cache(read_text)
    found = []
    problems = []
    for number, question in enumerate(checked, 1):
        located = []
        for evidence in question.evidence:
            try:
                if evidence.doc_id not in lengths:
                    read_once(evidence.doc_id)  # raises an error with the names of documents
                located.append(_locate(evidence, lengths[evidence.doc_id], read_once))
            except (ValueError, MissingRecordError) as error:
                problems.append(f"question {number}: {error}")
        found.append(replace(question, evidence=located))
    if problems:
        raise ValueError(first_few(problems))
    return tuple(found)


def _check(questions: Iterable[Question]) -> tuple[Question, ...]:
    check_type("questions", questions, Iterable, "a list, such as load_questions(path)")
    checked = tuple(questions)
    for number, question in enumerate(checked, 1):
        check_type(f"question {number}", question, Question, "a Question")
    return checked


def _read_source(sources: Mapping[str, str], doc_id: str) -> str:
    if doc_id not in sources:
        raise ValueError(f"there is no document {doc_id!r} in sources; it has {first_few(sources)}")
    return sources[doc_id]


def _locate(evidence: Evidence, length: int, read_text: Callable[[str], str]) -> Evidence:
    """Return evidence with its position; raise a ValueError if it cannot be located."""
    doc_id = evidence.doc_id
    if not evidence.is_quoted:
        if evidence.end > length:
            raise ValueError(
                f"{evidence.start} to {evidence.end} is not in document {doc_id!r}, which has "
                f"{length or 'no'} characters"
            )
        return evidence
    text = read_text(doc_id)
    characters = "".join(evidence.text.split())
    pattern = re.compile(r"\s*".join(map(re.escape, characters)))
    match = pattern.search(text)
    quotation = shown(evidence.text)
    if match is None:
        raise ValueError(f"{quotation} is nowhere in document {doc_id!r}: copy it from there")
    if pattern.search(text, match.start() + 1):
        raise ValueError(
            f"{quotation} is more than once in document {doc_id!r}: quote more, or give start and "
            "end"
        )
    return replace(evidence, start=match.start(), end=match.end())


def access_of(retriever: object) -> DocumentAccess | None:
    """Return access to all documents of an `RSERetriever`, without its filters; None for others."""
    if isinstance(retriever, RSERetriever):
        return DocumentAccess(retriever.docstore)
    return None
