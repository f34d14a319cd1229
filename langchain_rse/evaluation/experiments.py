"""`evidence_evaluator`: measures evidence in LangSmith experiments."""

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.documents import Document

from langchain_rse.evaluation.evidence import access_of, find_evidence
from langchain_rse.evaluation.loading import parse_question
from langchain_rse.evaluation.measuring import NO_LIMIT, Locator, Meter, is_empty
from langchain_rse.questions import Question
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import DOC_ID, START_INDEX

Evaluator = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], dict[str, Any]]
"""A function of ``inputs``, ``outputs`` and ``reference_outputs`` that returns scores."""

_OUTPUT = "output"  # LangSmith's key for the output of a target that returns no dict


def evidence_evaluator(
    retriever: RSERetriever | None = None,
    *,
    sources: Mapping[str, str] | None = None,
    budget: int | None = None,
    documents_key: str = "documents",
    doc_id_key: str = DOC_ID,
    start_index_key: str = START_INDEX,
) -> Evaluator:
    """Make an evaluator of returned evidence for LangSmith's ``Client.evaluate``.

    The examples have their evidence in ``outputs``, in the form of `load_questions`. The target
    returns the retrieved Documents, as a list or under a key; dicts with ``page_content`` and
    ``metadata`` work too. The scores are ``evidence_recall`` and ``whole_evidence``, the metrics
    ``recall`` and ``whole`` of `evaluate`. Examples with ``evidence: []``, which the documents do
    not answer, get ``refused`` instead: 1 if nothing was returned. ``Client.aevaluate`` takes the
    evaluator as well.

    Args:
        retriever: The retriever whose index contains the evidence, to look up quotations. Equal
            text in another document then counts too.
        sources: The texts of documents by id, instead of an index. They must contain all evidence.
        budget: The number of characters that count, at least 1: Documents count in order, and the
            last one is cut. None for all.
        documents_key: The key of the target's output with the Documents.
        doc_id_key: The metadata key of a document's id.
        start_index_key: The metadata key of a text's first character in the document.

    Returns:
        The evaluator. It raises a ValueError, which LangSmith logs, if an example has no evidence,
        its evidence is not in its document, or a Document cannot be located. It raises a TypeError
        if the target returns anything but Documents.

    Raises:
        ValueError: If ``budget`` is below 1.
    """
    if budget is not None and budget < 1:
        raise ValueError(f"budget must be at least 1; got {budget!r}")
    locator = Locator(sources or {}, doc_id_key, start_index_key)
    access = access_of(retriever)

    # LangSmith passes arguments by these names, and reads the score keys from the source code.
    def evidence(
        inputs: dict[str, Any], outputs: dict[str, Any], reference_outputs: dict[str, Any]
    ) -> dict[str, Any]:
        question = _read_question(inputs, reference_outputs)
        documents = _documents_of(outputs, documents_key)
        if question.is_unanswerable:
            refused = int(is_empty(documents))
            return {"results": [{"key": "refused", "score": refused}]}
        (located,) = find_evidence([question], retriever, sources)
        meter = Meter(locator, access)  # new for each example, because documents may change
        (figures,) = meter.measure(located, [documents], [budget or NO_LIMIT])
        return {
            "results": [
                {"key": "evidence_recall", "score": figures.recall},
                {"key": "whole_evidence", "score": figures.whole},
            ]
        }

    return evidence


def _read_question(inputs: Mapping[str, Any], reference_outputs: Mapping[str, Any]) -> Question:
    """Read the evidence of an example. Only the target knows the question and its key."""
    fields = {
        "question": "of the example",
        "evidence": reference_outputs.get("evidence"),
        "answer": str(reference_outputs.get("answer") or ""),
    }
    return parse_question(fields, f"the example with the inputs {inputs!r:.200}")


def _documents_of(outputs: Any, key: str) -> list[Document]:  # noqa: ANN401 - of the target
    """Return the Documents in a target's output."""
    documents = outputs
    if isinstance(outputs, Mapping):
        documents = outputs.get(key, outputs.get(_OUTPUT))
    if not isinstance(documents, list | tuple):
        raise TypeError(
            "the target must return a list of Documents, or a dict with such a list under "
            f"documents_key={key!r}; got {outputs!r:.200}"
        )
    return [_read_document(document) for document in documents]


def _read_document(value: object) -> Document:
    """Return a Document, or make it from a dict written by LangSmith or LangChain."""
    if isinstance(value, Document):
        return value
    fields = value
    if isinstance(value, Mapping) and "lc" in value:  # by langchain_core.load.dumpd
        fields = value.get("kwargs")
    if not isinstance(fields, Mapping) or not isinstance(fields.get("page_content"), str):
        raise TypeError(
            "the target must return Documents, or dicts with page_content and metadata; got "
            f"{value!r:.200}"
        )
    return Document(fields["page_content"], metadata=dict(fields.get("metadata") or {}))
