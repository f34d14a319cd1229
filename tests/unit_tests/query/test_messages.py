"""What people read when something is wrong, in one file: messages.txt.

``WRITE_MESSAGES=1 pytest tests/unit_tests/query/test_messages.py`` writes it anew.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.config import PRESETS, BestSegment, Greedy
from langchain_rse.query.candidates import Reason
from langchain_rse.stores.records import document_key, manifest_key
from tests.unit_tests import fakes
from tests.unit_tests.fakes import QUERY, FixedRetriever, lines, make_retriever, wrap
from tests.unit_tests.query.test_filters import Deaf, Filtering, Own, Plain
from tests.unit_tests.test_retriever import lose

MESSAGES = Path(__file__).with_name("messages.txt")
TEXTS = {"a": lines(0, 60, 90), "b": lines(70, 100, name="b")}


def message_of(act: Callable[[], Any]) -> str:
    """The warnings and the error, or the reason of an empty answer."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = act()
        except Exception as error:  # noqa: BLE001 - any of them is shown
            said = [f"{type(error).__name__}: {error}"]
        else:
            reason = getattr(result, "reason", None)
            said = [f"Reason: {reason}"] if reason else []
    said = [f"Warning: {warning.message}" for warning in caught] + said
    text = "\n".join(said)
    text = re.sub(r" \[type=.*\]\n +For further information.*", "", text)  # of pydantic
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|\.[0-9a-f]{16,24}", "…", text)
    return re.sub(r"0x[0-9a-f]+", "0x…", text)


def explain(retriever: RSERetriever, query: str = QUERY, **arguments: Any) -> Callable[[], Any]:
    return lambda: retriever.explain(query, **fakes.in_config(retriever, arguments))


def lost(*doc_ids: str) -> RSERetriever:
    """A retriever whose docstore has lost documents."""
    retriever = make_retriever(TEXTS)
    retriever.docstore.mdelete([manifest_key(document_key(doc_id)) for doc_id in doc_ids])
    return retriever


def corrupt() -> RSERetriever:
    retriever = make_retriever(TEXTS)
    retriever.docstore.mset([(manifest_key(document_key("a")), Document("not this"))])
    return retriever


def without_chunk() -> RSERetriever:
    retriever = make_retriever(TEXTS)
    lose(retriever, "a", 0)
    return retriever


def cases() -> dict[str, Callable[[], Any]]:
    """What is done to get each message."""
    retriever = make_retriever(TEXTS)
    plain = RSERetriever(base_retriever=Plain(), docstore=InMemoryStore())
    deaf = make_retriever(TEXTS, vectorstore=Deaf(fakes.Angles()))
    foreign = wrap(retriever, [Document("text")])
    passages = wrap(retriever, retriever.invoke(QUERY))
    other_store = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.Angles()), docstore=retriever.docstore
    )
    filtering = make_retriever({}, vectorstore=Filtering(fakes.Angles()))
    for doc_id, chunk in (("a", 1), ("b", 3)):
        metadata = {"source": doc_id, "chunk": chunk}
        filtering.add_documents([Document(lines(0, name=doc_id), metadata=metadata)])
    greedy = Greedy(max_length=1, overall_max_length=1, minimum_value=3.0, length_weighting="none")
    best = BestSegment(max_length=1, length_weighting="none")
    published = PRESETS["walkthrough"].replace(calibration="identity", decay_rate=1e9)
    return {
        # Settings
        "a field out of its range": lambda: make_retriever({}, k=0),
        "a field of a call out of its range": explain(retriever, irrelevant_chunk_penalty=7),
        "a misspelt field": lambda: make_retriever({}, max_contextlength=3),
        "a misspelt argument": explain(retriever, penalty=3),
        "search_type": lambda: make_retriever({}, search_type="mmr"),
        "score_threshold": explain(retriever, search_kwargs={"score_threshold": 0.5}),
        "top_k": explain(retriever, top_k=3),
        "a field of RSEConfig": lambda: retriever.invoke(QUERY, neighbor_weight=3),
        "an unknown preset": explain(retriever, rse_config="balance"),
        "a config of LangChain": lambda: retriever.invoke(QUERY, config="balanced"),  # type: ignore[arg-type]
        "no store": lambda: RSERetriever(docstore=InMemoryStore()),
        "no docstore": lambda: make_retriever({}, docstore={}),
        "hybrid without an index": explain(retriever, hybrid=0.5),
        "a query that is a dict": lambda: retriever.invoke({"question": "what?"}),  # type: ignore[arg-type]
        "writing without a vector store": lambda: plain.add_documents([Document("text")]),
        # Filters
        "a filter that is dropped": explain(plain, filter={"source": "a"}),
        "a filter that did not hold": explain(deaf, filter={"source": "a"}),
        "a filter on what we write": explain(deaf, filter={"start_index": 0}),
        "a filter that is not understood": explain(deaf, filter="source = 'a'"),
        "a retriever that may filter": explain(
            RSERetriever(
                base_retriever=Own(documents=list(retriever.indexer.chunks())),
                docstore=retriever.docstore,
            )
        ),
        "reading with a filter that is not understood": make_retriever(
            TEXTS, search_kwargs={"filter": "a = 1"}
        ).documents,
        # Stores
        "a candidate that is no chunk": explain(foreign),
        "candidates that are no chunks": explain(foreign, on_missing="split"),
        "a candidate that is a passage": explain(passages),
        "a retriever that returns no Documents": explain(
            wrap(retriever, RunnableLambda(lambda _: "text"))
        ),
        "an empty vector store": explain(other_store),
        "a lost document": explain(lost("a")),
        "a docstore without documents": explain(lost("a", "b")),
        "a corrupt document": explain(corrupt()),
        "a lost chunk": explain(without_chunk()),
        "few candidates": explain(
            wrap(retriever, retriever.vectorstore.as_retriever())  # type: ignore[union-attr]
        ),
        # Empty answers
        "an empty query": explain(retriever, " "),
        "no chunk passes the filter": explain(filtering, filter={"source": "c"}),
        "no chunk has the field": explain(filtering, filter={"source": "a", "year": 2024}),
        "none passes all of a filter": explain(filtering, filter={"source": "a", "chunk": 3}),
        "nothing is relevant enough": explain(make_retriever({"a": lines(70, 80)})),
        "nothing fits": explain(retriever, max_context_length=3),
        "below a floor": explain(retriever, score_floor=1.5),
        "a floor without scores": explain(
            wrap(retriever, list(retriever.indexer.chunks())), score_floor=0.5
        ),
        "a retriever that found nothing": explain(wrap(retriever, FixedRetriever(documents=[]))),
        "greedy": explain(retriever, rse_config=published.replace(solver=greedy)),
        "best passage": explain(
            make_retriever({"a": lines(80)}), rse_config=published.replace(solver=best)
        ),
        "no generated queries": explain(retriever, query_generator=RunnableLambda(lambda _: [])),
        "queries that are a text": explain(retriever, query_generator=RunnableLambda(str)),
    }


def test_messages() -> None:
    lines_ = [f"{reason.label}: {reason.value}" for reason in Reason]
    for name, act in cases().items():
        lines_ += ["", f"## {name}", message_of(act)]
    text = "\n".join(lines_) + "\n"
    if os.environ.get("WRITE_MESSAGES"):
        MESSAGES.write_text(text, encoding="utf-8")
    assert text == MESSAGES.read_text(encoding="utf-8")
