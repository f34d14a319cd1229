"""What is embedded again: only what changed, whatever the store keeps its vectors in."""

from __future__ import annotations

import contextlib
import itertools
import random
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import RSEIndexer, RSERetriever
from tests.unit_tests import fakes
from tests.unit_tests.writes import without_writes

Counting = fakes.CountingModel
CutOffError = fakes.CutOffError

SPLITTER = RecursiveCharacterTextSplitter(chunk_size=120, chunk_overlap=0)
NOUNS = "ship crane tide rope cargo pilot anchor dock gull salt rose spade seed hedge soil"


def faiss_store(model: Counting, **settings: Any) -> VectorStore:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the package is being sunset
        faiss = pytest.importorskip("faiss")
        pytest.importorskip("langchain_community")
        from langchain_community.docstore.in_memory import InMemoryDocstore
        from langchain_community.vectorstores import FAISS
    index = settings.pop("index", faiss.IndexFlatL2(model.size + 1))
    store: VectorStore = FAISS(
        embedding_function=model,
        index=index,
        docstore=InMemoryDocstore(),
        index_to_docstore_id={},
        **settings,
    )
    return store


KINDS: dict[str, Callable[[Counting], VectorStore]] = {
    "InMemoryVectorStore": InMemoryVectorStore,
    "FAISS": faiss_store,
    "FAISS normalized": lambda model: faiss_store(model, normalize_L2=True),
}


class Index:
    """A pair of stores and the model that counts."""

    def __init__(self, kind: Callable[[Counting], VectorStore]) -> None:
        self.model = Counting()
        self.vectorstore = kind(self.model)
        self.docstore = InMemoryByteStore()

    def indexer(self, **settings: Any) -> RSEIndexer:
        settings = {"text_splitter": SPLITTER, "batch_size": 50, **settings}
        return RSEIndexer(self.vectorstore, self.docstore, **settings)

    def add(self, documents: Sequence[Document], **settings: Any) -> list[str]:
        """Add documents; return the texts that were embedded."""
        self.model.taken()
        self.indexer(**settings).add_documents(documents)
        return self.model.taken()

    def answers(self, query: str) -> list[tuple[str, str, float]]:
        """Id, text and score of each passage."""
        retriever = RSERetriever(
            vectorstore=self.vectorstore, docstore=self.docstore, max_context_length=1_000
        )
        passages = retriever.invoke(query)
        return [(str(s.id), s.page_content, s.metadata["relevance_score"]) for s in passages]

    def assert_answers_like_a_fresh_index(
        self,
        kind: Callable[[Counting], VectorStore],
        documents: Sequence[Document],
        **settings: Any,
    ) -> None:
        fresh = Index(kind)
        fresh.add(documents, **settings)
        for query in ("the pilot and the anchor", "salt", "page 80 of a rose hedge"):
            expected = fresh.answers(query)
            assert expected
            for mine, theirs in itertools.zip_longest(self.answers(query), expected):
                assert mine[:2] == theirs[:2]
                assert mine[2] == pytest.approx(theirs[2], abs=1e-5)
            one, other = (
                index.vectorstore.similarity_search_with_score(query, k=20)
                for index in (self, fresh)
            )
            assert [_chunk(c) for c, _ in one] == [_chunk(c) for c, _ in other]
            assert [score for _, score in one] == pytest.approx([score for _, score in other])


def _chunk(chunk: Document) -> tuple[str, dict[str, Any]]:
    """The text and metadata of a chunk, without what differs from write to write."""
    metadata = without_writes(chunk.metadata)
    metadata.pop("chunk_id", None)
    return chunk.page_content, metadata


@pytest.fixture(params=fakes.faiss_at_night(KINDS))
def kind(request: pytest.FixtureRequest) -> Callable[[Counting], VectorStore]:
    return KINDS[request.param]


@pytest.fixture
def index(kind: Callable[[Counting], VectorStore]) -> Index:
    return Index(kind)


def page(number: int, edition: int = 0) -> str:
    """The text of a page: some sentences, no two alike."""
    chance = random.Random(f"{number} {edition}")  # noqa: S311 - only has to be the same again
    sentences = [" ".join(chance.sample(NOUNS.split(), 8)) for _ in range(5)]
    return f"Page {number}, edition {edition}.\n\n" + ".\n".join(sentences)


def filing(changed: int | None = None, pages: int = 160, **metadata: Any) -> list[Document]:
    """A document in pages, of which one may have changed."""
    return [
        Document(
            page(number, edition=int(number == changed)),
            metadata={"source": "10k.pdf", "page": number, **metadata},
        )
        for number in range(pages)
    ]


def chunks_of(pages: Sequence[Document]) -> list[str]:
    return [chunk for one in pages for chunk in SPLITTER.split_text(one.page_content)]


@pytest.mark.parametrize("changed", [0, 80])
def test_one_changed_page_embeds_its_chunks(
    index: Index, kind: Callable[[Counting], VectorStore], changed: int
) -> None:
    """And at most one on either side."""
    index.add(filing())
    new = filing(changed)
    embedded = index.add(new)
    own = [chunk for chunk in embedded if chunk in new[changed].page_content]
    assert "edition 1" in "".join(own)
    assert len(embedded) <= len(chunks_of(new[changed : changed + 1])) + 2
    index.assert_answers_like_a_fresh_index(kind, new)


@pytest.mark.parametrize("embedded", [0, 100])
@pytest.mark.parametrize("is_new", [True, False])
def test_after_a_call_was_cut_off_only_what_is_missing_is_embedded(
    index: Index, kind: Callable[[Counting], VectorStore], embedded: int, *, is_new: bool
) -> None:
    if not is_new:
        index.add([Document("something else", metadata={"source": "10k.pdf"})])
    pages = filing(pages=40)
    index.model.left = embedded
    with pytest.raises(CutOffError):
        index.add(pages)
    assert len(index.model.taken()) == embedded
    index.model.left = None
    assert index.add(pages) == chunks_of(pages)[embedded:]
    index.assert_answers_like_a_fresh_index(kind, pages)


@given(
    st.lists(st.tuples(st.text("abcdef", max_size=8), st.integers(0, 9)), max_size=6),
    st.integers(1, 4),
)
def test_after_any_versions_and_cut_off_calls(
    versions: list[tuple[str, int]], batch_size: int
) -> None:
    """Nothing is embedded that the store has, and what it has in the end is right."""
    index = Index(InMemoryVectorStore)
    rows = cast(InMemoryVectorStore, index.vectorstore).store
    for lines, left in versions:
        texts = [f"line {line}\n" for line in lines]
        held = {row["text"] for row in rows.values()}
        index.model.taken()
        index.model.left = left
        document = Document("".join(texts), id="a")
        indexer = index.indexer(text_splitter=fakes.Lines(), batch_size=batch_size)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"1 document\(s\) have no text")
            with contextlib.suppress(CutOffError):
                indexer.add_documents([document])
            index.model.left = None
            indexer.add_documents([document])
        # A line that is there twice may be embedded once, if the call was cut off in between.
        embedded = Counter(index.model.taken())
        needed = Counter(text for text in texts if text not in held)
        assert embedded.keys() == needed.keys()
        assert embedded <= needed
        assert sorted(row["text"] for row in rows.values()) == sorted(texts)
        for row in rows.values():
            assert row["vector"] == index.model.embed_query(row["text"])


def test_many_documents(index: Index, kind: Callable[[Counting], VectorStore]) -> None:
    many = [Document(page(n), id=f"{n}") for n in range(100)]
    index.add(many)
    many[7] = Document(page(7, 1), id="7")
    assert len(index.add(many)) <= len(chunks_of(many[7:8]))
    index.assert_answers_like_a_fresh_index(kind, many)
