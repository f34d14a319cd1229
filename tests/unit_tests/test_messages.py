"""Warnings cannot control the terminal that they are printed in, whatever they name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from langchain_rse import RSEConfig, RSEIndexer, pages, verify_quotes
from langchain_rse._messages import warn
from langchain_rse.adopting import ExistingIndex
from langchain_rse.evaluation import Evidence, Question, evaluate, tune
from langchain_rse.ingest.source_documents import check_rules
from langchain_rse.tools import create_rse_tool
from tests.unit_tests import fakes
from tests.unit_tests.fakes import lines, make_retriever

HOSTILE = (
    "[red]markup[/red] \x1b[31mred \x1b]52;c;aGk=\x07 \x9b2J \rover\b \x7f \u202eesrever {0} %s"
)
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_a_warning_shows_control_characters_as_escapes() -> None:
    with pytest.warns(UserWarning, match="the document") as caught:
        warn(f"the document {HOSTILE} has no text")
    (warning,) = caught
    text = str(warning.message)
    assert not UNSAFE.search(text)
    assert r"\x1b]52" in text
    assert warning.filename == __file__


ASKED = Question("query 0", [Evidence("heron.txt", 0, 4)])
HERE = str(Path(__file__).parent)
RETRIEVER = make_retriever({"heron.txt": lines(1), "owls.txt": lines(2)})
MISTAKES: dict[str, Callable[[Any], Any]] = {
    "by name: RSERetriever(vectorstore=..., docstore=...)": lambda it: type(it)(it.vectorstore, 1),
    "for a preset: PRESETS['precision']": lambda _: RSEConfig("precision"),
    'itemgetter("input") | ...': lambda it: it.invoke({"input": "a"}),
    "length must be a whole number": lambda it: it.around(it.invoke("query 0")[0], "9"),
    "size must be a whole": lambda it: RSEIndexer(it.vectorstore, it.docstore, batch_size="a"),
    "a retriever, such as vectorstore.as_": lambda it: evaluate(it.vectorstore, [ASKED]),
    "for example [1000]; got ('a',)": lambda it: evaluate(it, [ASKED], ["a"]),
    "space['decay_rate'] must be a list": lambda it: tune(it, [ASKED] * 2, space={"decay_rate": 3}),
    "for one text, give [text]": lambda it: it.from_texts(3, fakes.Angles()),
    "answer must be a text; got 3": lambda _: verify_quotes(3, []),  # type: ignore[arg-type]
    "must be a list of Documents; got RSERetriever": lambda it: verify_quotes("a", it),  # type: ignore[arg-type]
    "'heron'; did you mean 'heron.txt'?": lambda it: it.text("heron"),
    "the id of a document must be a string; got None": lambda it: it.text(None),
    "must be a string; got 3": lambda it: it.delete([3]),
    "or rse_config='precision'; got 'find_all'": lambda it: it.invoke("a", config="find_all"),
    "pass settings by name, such as k=5 or": lambda it: it.explain("a", {"k": 3}),
    "queries must be a list; got 'a'": lambda it: it.invoke("a", queries="a"),
    "the query must be a string (": lambda it: it.compare(3),
    "for example SQLDocStore('sqlite:///chunks.db'); got str": (
        lambda it: type(it)(vectorstore=it.vectorstore, docstore="postgresql://me:secret@host/db")
    ),
    "or another Runnable; got 'a'": lambda it: it.compare("a", "a"),
    "chunk must be one of trace.chunks; got 3": lambda it: it.explain("query 0").why(3),
    "(documents, embedding)); got None": lambda it: it.from_texts(["a"], embeddings=it),
    "; got a list of 9, with Document": lambda it: it.from_documents(it, [Document("a" * 99)] * 9),
    "base_retriever must be a retriever,": lambda it: setattr(it, "base_retriever", it.vectorstore),
    "a reranker, such as CohereReranker(model=": lambda it: it.invoke("a", reranker="cohere"),
    "a function of a text, such as len; got 'a'": lambda it: it.invoke("a", length_function="a"),
    "headers must be DocumentHeaders(), LMBased": lambda it: setattr(it, "headers", "title"),
    "decay_rate cannot be changed": lambda _: setattr(RSEConfig(), "decay_rate", 3),
    "such as loader.load() or [document]; got None": lambda it: it.sync(None),
    "got the id None for document 2": lambda it: it.add_documents([Document("a")] * 2, ids=["a"]),
    "sources must be a dict of texts": lambda it: evaluate(it, [ASKED], sources=[]),
    "each of sources must be a text": lambda it: evaluate(it, [ASKED], sources={"a": 3}),
    "one question must have evidence; none of 1 has": lambda it: evaluate(it, [Question("a", [])]),
    "other must be a Report of evaluate; got 'a'": lambda it: evaluate(it, [ASKED]).compare("a"),
    "unknown argument 'penalty': allowed": lambda it: tune(it, [ASKED] * 2, space={"penalty": [1]}),
    "persist_directory must be a folder; ": (
        lambda it: it.from_texts([], fakes.Angles(), persist_directory=__file__)
    ),
    "has other files (": lambda it: it.from_texts([], fakes.Angles(), persist_directory=HERE),
    "'on_error': pass it in ExistingIndex": lambda it: type(it)(on_error="skip"),
    "such as ExistingIndex(texts=documents); got {}": lambda it: it.indexer.adopt({}),
    "'n_trials': did you mean trials?": lambda it: tune(it, [ASKED] * 2, n_trials=3),
    "trials must be a whole number; got 'a'": lambda it: tune(it, [ASKED], trials="a"),
    "trials must be at least 1; got 0": lambda it: tune(it, [ASKED] * 2, trials=0),
    "such as Chroma(...) (or pass a": lambda it: setattr(it, "vectorstore", fakes.Angles()),
    "such as Chroma(...); got [1]": lambda it: it.from_existing_index([1], it.docstore),
    "each of documents must be a Document; got 'a'": lambda it: it.indexer.adopt(documents="a"),
    "append must be True or False; got 'x'": lambda it: it.add_documents([], append="x"),
    "or rse_config='precision'; got {'filter': 'a'}": lambda it: it.invoke("a", {"filter": "a"}),
    "there is no file nowhere.pdf": lambda _: pages.boxes(Document("a"), "nowhere.pdf"),
    "the id of a document must be a string; got Doc": lambda it: it.delete([Document("a")]),
    "texts: each item must be a Document; got 'a'": lambda _: ExistingIndex(texts=["a"]),  # type: ignore[list-item]
    "a dict by id, a docstore or None; for one": lambda _: ExistingIndex(texts=Document("a")),
    f"{__file__} is no PDF": lambda _: pages.boxes(Document("a"), __file__),
    "a Document of the retriever; got []": lambda _: pages.boxes([], "nowhere.pdf"),
    "unknown argument 'kk': did you mean k?": lambda it: setattr(it, "kk", 3),
    "a dict of fields and rules; got ['page']": lambda _: check_rules(["page"]),
    "to read a file: load_questions('a')": lambda it: evaluate(it, "a"),
    "such as load_questions(path); got 3": lambda it: evaluate(it, 3),
    "there are no questions": lambda it: evaluate(it, []),
    "a filled vector store: RSERetriever.from_": lambda it: create_rse_tool(it.vectorstore),
    "each at least 1, for example [1000]; got 1000": lambda it: evaluate(it, [], 1000),
    "budgets=[...] instead of max": lambda it: evaluate(it, [ASKED], max_context_length=9),
    'evidence.0 must be like {"doc_id": "a.txt", ': lambda _: Question("a", ["b"]),
    "number (pass a quotation as text=); got 'b'": lambda _: Evidence("a", "b"),
    "Question: evidence is missing; [] if the documents do": lambda _: Question("a"),  # type: ignore[call-arg]
    'such as [Evidence("a.txt", text="a quotation")]; got \'b\'': lambda _: Question("a", "b"),  # type: ignore[arg-type]
    "unexpected keyword argument 'quote'": lambda _: Evidence("a", 0, 4, quote="b"),  # type: ignore[call-arg]
    "metadata (for texts: metadatas) must be": lambda it: setattr(it, "metadata", [{}]),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_told_in_a_sentence(message: str) -> None:
    with pytest.raises((TypeError, ValueError, LookupError, OSError)) as caught:
        MISTAKES[message](RETRIEVER)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500
    assert "pydantic" not in str(caught.value)
