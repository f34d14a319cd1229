"""`evidence_evaluator`: measures evidence in the experiments of LangSmith."""

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.documents import Document

from langchain_rse.evaluation.evidence import access_of, find_evidence
from langchain_rse.evaluation.loading import parse_question
from langchain_rse.evaluation.measuring import EVERYTHING, Locator, Meter, is_empty
from langchain_rse.questions import Question
from langchain_rse.retriever import RSERetriever
from langchain_rse.stores.records import DOC_ID, START_INDEX

Evaluator = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], dict[str, Any]]
"""A function of ``inputs``, ``outputs`` and ``reference_outputs`` that returns scores."""

_OUTPUT = "output"  # under which LangSmith keeps the output of a target that is no dict


def evidence_evaluator(
    retriever: RSERetriever | None = None,
    *,
    sources: Mapping[str, str] | None = None,
    budget: int | None = None,
    documents_key: str = "documents",
    doc_id_key: str = DOC_ID,
    start_index_key: str = START_INDEX,
) -> Evaluator:
    """Make an evaluator for LangSmith's ``Client.evaluate``, which measures returned evidence.

    The examples have their evidence in ``outputs``, as `load_questions` reads it. The target
    returns the Documents that were retrieved, as a list or under a key; they may also be dicts with
    ``page_content`` and ``metadata``. The scores are those of `evaluate`: ``evidence_recall`` and
    ``whole_evidence``, or for examples with ``evidence: []``, which the documents do not answer,
    ``refused``: 1 if nothing was returned. ``Client.aevaluate`` takes the evaluator as well.

    Args:
        retriever: The retriever in whose index the evidence is, to look up quotations; with it, an
            equal text of another document counts too.
        sources: Texts of documents by id, which must contain all evidence, instead of an index.
        budget: The number of characters that count, at least 1: Documents count in their order, and
            the last one is cut. None for all.
        documents_key: The key of the target's output with the Documents.
        doc_id_key: The metadata key of a document's id.
        start_index_key: The metadata key of a text's first character in the document.

    Returns:
        The evaluator. It raises a ValueError, which LangSmith logs, if an example has no evidence,
        its evidence is not in its document, or a Document cannot be located; and a TypeError if the
        target returned anything but Documents.

    Raises:
        ValueError: If ``budget`` is below 1.
    """
    if budget is not None and budget < 1:
        raise ValueError(f"budget must be at least 1; got {budget!r}")
    locator = Locator(sources or {}, doc_id_key, start_index_key)
    access = access_of(retriever)

    # LangSmith passes these by name, and reads the keys of the scores in this code.
    def evidence(
        inputs: dict[str, Any], outputs: dict[str, Any], reference_outputs: dict[str, Any]
    ) -> dict[str, Any]:
        question = _read_question(inputs, reference_outputs)
        documents = _documents_of(outputs, documents_key)
        if question.is_unanswerable:
            refused = int(is_empty(documents))
            return {"results": [{"key": "refused", "score": refused}]}
        (located,) = find_evidence([question], retriever, sources)
        meter = Meter(locator, access)  # a new one: documents may be replaced meanwhile
        (figures,) = meter.measure(located, [documents], [budget or EVERYTHING])
        return {
            "results": [
                {"key": "evidence_recall", "score": figures.recall},
                {"key": "whole_evidence", "score": figures.whole},
            ]
        }

    return evidence


def _read_question(inputs: Mapping[str, Any], reference_outputs: Mapping[str, Any]) -> Question:
    """The evidence of an example; what it asks, and under which key, the target knows."""
    fields = {
        "question": "of the example",
        "evidence": reference_outputs.get("evidence"),
        "answer": str(reference_outputs.get("answer") or ""),
    }
    return parse_question(fields, f"the example with the inputs {inputs!r:.200}")


def _documents_of(outputs: Any, key: str) -> list[Document]:  # noqa: ANN401 - of the target
    """The Documents of a target's output."""
    documents = outputs
    if isinstance(outputs, Mapping):
        documents = outputs.get(key, outputs.get(_OUTPUT))
    if not isinstance(documents, list | tuple):
        raise TypeError(
            f"the target must return a list of Documents, or a dict with one under {key!r} "
            f"(documents_key); got {outputs!r:.200}"
        )
    return [_read_document(document) for document in documents]


def _read_document(value: object) -> Document:
    """A Document, also from the dicts that LangSmith and LangChain write it as."""
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
