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
from langchain_rse.stores.document_names import find_document
from langchain_rse.text.quoting import first_few


def find_evidence(
    questions: Iterable[Question], retriever: object, sources: Mapping[str, str] | None = None
) -> tuple[Question, ...]:
    """Return the questions with the positions of quotations; check that all evidence exists.

    Evidence must be in ``sources``, or, without ``sources``, in the index of an `RSERetriever`,
    whose documents are found by id, path or file name. For other retrievers without ``sources``,
    evidence is not checked, and cannot be quoted.

    Raises:
        TypeError: If one is no `Question`.
        ValueError: If evidence is not in its document, or a quotation does not occur there exactly
            once.
    """
    checked = _check(questions)
    access = access_of(retriever)
    find_id: Callable[[str], str]
    read_text: Callable[[str], str]
    if sources is not None:
        check_type("sources", sources, Mapping, "a dict of texts by document id")
        for text in sources.values():
            check_type("each of sources", text, str, "a text, such as document.page_content")
        lengths = {doc_id: len(text) for doc_id, text in sources.items()}
        find_id = partial(_check_source, sources)
        read_text = sources.__getitem__
    elif access is not None:
        manifests = access.manifests()
        lengths = {manifest.doc_id: manifest.length for manifest in manifests}
        find_id = cache(partial(find_document, manifests=manifests))
        read_text = cache(access.text)
    elif any(evidence.is_quoted for question in checked for evidence in question.evidence):
        raise ValueError(
            "quoted evidence needs sources, the texts of the documents by id. Or pass questions "
            "with located quotations: report.questions of an RSERetriever's report"
        )
    else:
        return checked
    found = []
    problems = []
    for number, question in enumerate(checked, 1):
        located = []
        for evidence in question.evidence:
            try:
                doc_id = find_id(evidence.doc_id)
                start, end = _locate(evidence, lengths[doc_id], partial(read_text, doc_id))
                located.append(replace(evidence, doc_id=doc_id, start=start, end=end))
            except (ValueError, MissingRecordError) as error:
                problems.append(f"question {number}: {error}")
        found.append(replace(question, evidence=located))
    if problems:
        raise ValueError(first_few(problems, 10, separator="\n"))
    return tuple(found)


def _check(questions: Iterable[Question]) -> tuple[Question, ...]:
    check_type("questions", questions, Iterable, "a list, such as load_questions(path)")
    checked = tuple(questions)
    for number, question in enumerate(checked, 1):
        check_type(f"question {number}", question, Question, "a Question")
    return checked


def _check_source(sources: Mapping[str, str], doc_id: str) -> str:
    if doc_id not in sources:
        raise ValueError(f"there is no document {doc_id!r} in sources; it has {first_few(sources)}")
    return doc_id


def _locate(evidence: Evidence, length: int, read: Callable[[], str]) -> tuple[int, int]:
    """Return the position of evidence; raise a ValueError if it cannot be located."""
    name = evidence.doc_id
    if not evidence.is_quoted:
        if evidence.end > length:
            raise ValueError(
                f"{evidence.start} to {evidence.end} is not in document {name!r}, which has "
                f"{length or 'no'} characters"
            )
        return evidence.start, evidence.end
    characters = "".join(evidence.text.split())
    pattern = r"\s*".join(map(re.escape, characters))
    matches = list(re.finditer(f"(?=({pattern}))", read()))  # also those that overlap
    quotation = shown(evidence.text)
    if not matches:
        raise ValueError(f"{quotation} is nowhere in document {name!r}: copy it from there")
    if len(matches) > 1:
        positions = first_few(f"{match.start():,}" for match in matches)
        raise ValueError(
            f"{quotation} is {len(matches):,} times in document {name!r} (at characters "
            f"{positions}): quote more, or give start and end"
        )
    return matches[0].span(1)


def access_of(retriever: object) -> DocumentAccess | None:
    """Return access to all documents of an `RSERetriever`, without its filters; None for others."""
    if isinstance(retriever, RSERetriever):
        return DocumentAccess(retriever.docstore)
    return None
