"""Finds the evidence of questions in the texts of its documents."""

from collections.abc import Callable, Iterable, Mapping

from langchain_rse.access import DocumentAccess
from langchain_rse.questions import Evidence, Question, locate_evidence
from langchain_rse.retriever import RSERetriever


def find_evidence(
    questions: Iterable[Question], retriever: object, sources: Mapping[str, str] | None = None
) -> tuple[Question, ...]:
    """Return the questions with the positions of quotations; check that all evidence exists.

    Evidence must be in ``sources`` or, without these, in the index of an `RSERetriever`. The
    documents of other retrievers are unknown: evidence is not checked, and cannot be quoted.

    Raises:
        ValueError: If there are no questions, one has an answer but no evidence, evidence is not in
            its document, or a quotation is not there exactly once.
    """
    checked = _checked(questions)
    all_evidence: list[Evidence] = []
    for question in checked:
        all_evidence.extend(question.evidence)
    access = access_of(retriever)
    read_text: Callable[[str], str]
    if sources is not None:
        name = "sources"
        lengths = {doc_id: len(text) for doc_id, text in sources.items()}
        read_text = sources.__getitem__
    elif access is not None:
        name = "the index"
        manifests = access.manifests_of(evidence.doc_id for evidence in all_evidence)
        lengths = {doc_id: manifest.length for doc_id, manifest in manifests.items()}
        read_text = access.text
    elif any(evidence.is_quoted for evidence in all_evidence):
        raise ValueError(
            "evidence is quoted: give sources, the documents' texts by id, to look it up, or the "
            "questions of an RSERetriever's report, report.questions"
        )
    else:
        return checked
    return locate_evidence(checked, lengths, read_text, name)


def access_of(retriever: object) -> DocumentAccess | None:
    """Access to all documents of an `RSERetriever`, whatever its filters; None for others."""
    if isinstance(retriever, RSERetriever):
        return DocumentAccess(retriever.docstore)
    return None


def _checked(questions: Iterable[Question]) -> tuple[Question, ...]:
    """Return the questions, all of which must have evidence or no answer."""
    checked = tuple(questions)
    if not checked:
        raise ValueError("questions must have at least one Question; got none")
    for number, question in enumerate(checked, 1):
        if not isinstance(question, Question):
            raise TypeError(
                f"questions must be of type Question; got {question!r:.80}. load_questions reads "
                "them from a file"
            )
        if not question.evidence and not question.is_unanswerable:
            raise ValueError(
                f"question {number} has no evidence to measure by, only an answer. If the "
                "documents do not answer it, give evidence=[] and no answer"
            )
    return checked
