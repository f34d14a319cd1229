"""What a user of contextual chunk headers relies on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from pydantic import Field

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.headers import DocumentHeaders
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way
from tests.unit_tests.headers.author import HERONS, Index, herons

way = fakes.way


@pytest.mark.parametrize(
    ("metadata", "text", "title"),
    [
        ({"title": "Herons", "source": "a.txt"}, "# Birds", "Herons"),
        ({"title": " \n", "source": "reports/3M_2018_10K.pdf"}, "# Birds", "3M 2018 10K"),
        ({"source": "C:\\files\\grey_heron.txt"}, "", "grey heron"),
        ({"source": "0123456789abcdef0123456789abcdef"}, "Birds\n\nText", "Birds"),
        ({"source": 7}, "\n\n  ## Birds and eggs ##\ntext", "Birds and eggs"),
        ({}, f"{'word ' * 40}\nshort", ""),
        ({"title": 2020}, "", "2020"),
        ({"title": "a " * 2000}, "", f"{('a ' * 2000)[:497]}..."),
    ],
)
def test_the_title_without_a_model(metadata: dict[str, Any], text: str, title: str) -> None:
    assert DocumentHeaders().title_of(text, metadata) == title


@fakes.both_ways
def test_the_embedded_text_has_a_header_and_the_passage_has_not(way: Way) -> None:
    index = Index(way=way)
    index.add(DocumentHeaders(), herons(source="grey_herons.txt"))
    expected = [f"grey herons\n\n{text}" for text in HERONS.split("\n\n")]
    assert index.embedded() == expected
    (passage,) = way.invoke(index.retriever(), "herons")
    assert passage.page_content == HERONS


def test_changed_headers_are_embedded_again_and_the_same_are_not() -> None:
    index = Index()
    index.add(DocumentHeaders(), herons(source="herons.txt"))
    first = index.ids()
    index.add(DocumentHeaders(), herons(source="herons.txt"))
    assert index.ids() == first
    index.add(DocumentHeaders(template="Of: {title}"), herons(source="herons.txt"))
    assert not index.ids() & first
    assert index.headers() == ["Of: herons"] * 4
    index.add(None, herons(source="herons.txt"))
    assert index.embedded() == HERONS.split("\n\n")
    (passage,) = index.retriever().invoke("herons", include_header=True)
    assert passage.page_content == HERONS


def test_sections_and_metadata_that_change_along_the_document() -> None:
    index = Index()
    texts: dict[str, dict[str, Any]] = {
        "Before all there is an introduction.": {"year": 2020},
        "Nests are high above the ground.": {
            "Header 1": "Herons",
            "Header 2": "Nests",
            "year": 2020,
        },
        "Fish is what they eat most of all.": {
            "Header 1": "Herons",
            "Header 2": " ",
            "year": 2021,
        },
        "The end of it is an appendix.": {"section": ["A", None, "B\nC"], "year": ""},
    }
    parts = [
        Document(text, metadata={"doc_id": "d", "source": "d.md", **metadata})
        for text, metadata in texts.items()
    ]
    headers = DocumentHeaders(template="{title} ({year})\n{section}\n-- {{}}")
    index.add(headers, *parts)
    assert index.headers() == [
        "d (2020)\n-- {}",
        "d (2020)\nHerons > Nests\n-- {}",
        "d (2021)\nHerons\n-- {}",
        "d ()\nA > B C\n-- {}",
    ]
    (passage,) = index.retriever().invoke("nests", include_header=True)
    assert passage.page_content.startswith(
        "d ()\n-- {}\n\nBefore all there is an introduction.\n\nNests"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"template": "{title"}, "template must be a format string.*got '{title'.*expected '}'"),
        ({"template": "{}"}, "template must be a format string"),
        ({"template": "{title.author}"}, "template must be a format string"),
        ({"template": 7}, "template must be a string; got 7"),
        ({"titel": "x"}, "unknown argument 'titel': allowed: section_fields, template"),
    ],
)
def test_templates_that_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError if fields == {"template": 7} else ValueError, match=message):
        DocumentHeaders(**fields)


TEXTS = st.text(alphabet="ab \n\u0301#", min_size=1, max_size=120)


@pytest.mark.filterwarnings("ignore:the retriever has no documents with text")
@settings(max_examples=25)
@given(TEXTS, st.text(max_size=10), st.integers(5, 40))
def test_passages_are_exact_slices_whatever_the_header(text: str, title: str, size: int) -> None:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        text_splitter=RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=size // 3),
        config=fakes.EVERYTHING,
        headers=DocumentHeaders(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chunks inside of others
        retriever.add_documents([Document(text, metadata={"doc_id": "d", "title": title})])
    header = DocumentHeaders().title_of(text, {"title": title})
    for include_header in (False, True):
        for passage in retriever.invoke("a b", include_header=include_header):
            start, end = passage.metadata["start_index"], passage.metadata["end_index"]
            above = f"{header}\n\n" if include_header and header else ""
            assert passage.page_content == above + text[start:end]


# Above the passages


@pytest.mark.parametrize("unit", ["characters", "words"])
def test_the_budget_counts_the_headers(unit: str) -> None:
    index = Index(InMemoryStore())
    fish = Document(HERONS.replace("Herons", "Fish"), metadata={"doc_id": "f", "title": "Of fish"})
    index.add(DocumentHeaders(), herons(title="Of herons"), fish)
    measure = fakes.LENGTHS[unit]
    for limit in (1, 20, 60, 100, 200, 1000):
        retriever = index.retriever(config=fakes.PLAIN.replace(calibration="minmax"))
        passages = retriever.invoke(
            "where do herons nest",
            include_header=True,
            max_context_length=limit,
            length_function=measure,
        )
        assert sum(measure(passage.page_content) for passage in passages) <= limit
        assert passages or limit < 60
        for passage in passages:
            title = {"herons": "Of herons", "f": "Of fish"}[passage.metadata["doc_id"]]
            length = passage.metadata["end_index"] - passage.metadata["start_index"]
            assert passage.page_content[:-length] == f"{title}\n\n"


class Watching(BaseDocumentCompressor):
    """Keeps all documents, and notes their texts."""

    texts: list[str] = Field(default_factory=list)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        del query, callbacks
        self.texts += [document.page_content.strip() for document in documents]
        return list(documents)


@pytest.mark.parametrize("hybrid", [0.0, 0.5])
def test_a_reranker_sees_the_headers(hybrid: float) -> None:
    index = Index(SQLDocStore("sqlite://", lexical=True))
    index.add(DocumentHeaders(), herons(title="Zebrafinch"))
    seen = Watching()
    # One candidate by vectors; the others, if at all, by words.
    retriever = index.retriever(reranker=seen, hybrid=hybrid)
    retriever.invoke("zebrafinch nest", fetch_k=1 if not hybrid else 4)
    assert seen.texts
    assert all(text.startswith("Zebrafinch\n\n") for text in seen.texts)
