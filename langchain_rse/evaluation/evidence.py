"""Finds the evidence of questions in the texts of the documents."""

from collections.abc import Callable, Iterable, Mapping

from pydantic import TypeAdapter

from langchain_rse._messages import in_a_sentence
from langchain_rse.access import DocumentAccess
from langchain_rse.evaluation.questions import Evidence, Question, locate_evidence
from langchain_rse.retriever import RSERetriever

_QUESTIONS = TypeAdapter(tuple[Question, ...])


def find_evidence(
    questions: Iterable[Question], retriever: object, sources: Mapping[str, str] | None = None
) -> tuple[Question, ...]:
    """Return the questions with the positions of quotations; check that all evidence exists.

    Evidence must be in ``sources``, or, without ``sources``, in the index of an `RSERetriever`. For
    other retrievers without ``sources``, evidence is not checked, and cannot be quoted.

    Raises:
        ValueError: If one is no `Question`, evidence is not in its document, or a quotation does
            not occur there exactly once.
    """
    with in_a_sentence("questions must be a list of Question, as load_questions returns"):
        checked = _QUESTIONS.validate_python(questions)
    all_evidence: list[Evidence] = []
    for question in checked:
        all_evidence.extend(question.evidence)
    access = access_of(retriever)
    read_text: Callable[[str], str]
    if sources is not None:
        lengths = {doc_id: len(text) for doc_id, text in sources.items()}
        read_text = sources.__getitem__
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
    return locate_evidence(checked, lengths, read_text)


def access_of(retriever: object) -> DocumentAccess | None:
    """Return access to all documents of an `RSERetriever`, without its filters; None for others."""
    if isinstance(retriever, RSERetriever):
        return DocumentAccess(retriever.docstore)
    return None
