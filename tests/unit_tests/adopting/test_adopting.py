"""Indexes that other means have built: what is made of them, and what is refused."""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_text_splitters import CharacterTextSplitter, RecursiveCharacterTextSplitter

from langchain_rse import ExistingIndex, RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.adopting import Adoption
from langchain_rse.errors import AdoptionError, CandidateError
from tests.unit_tests import fakes

way = fakes.way
Way = fakes.Way

BY_START = ExistingIndex(doc_id_key="source", start_index_key="start_index")
BY_INDEX = ExistingIndex(doc_id_key="source", chunk_index_key="number", chunk_overlap=0)
IN_ORDER = ExistingIndex(doc_id_key="source", in_store_order=True, chunk_overlap=0)


class Index:
    """A vector store that plain LangChain code has filled, and a docstore for it."""

    def __init__(self, chunks: Iterable[Document] = ()) -> None:
        self.vectorstore = InMemoryVectorStore(fakes.BagOfWords())
        self.docstore: Any = InMemoryStore()
        self.add(chunks)

    def add(self, chunks: Iterable[Document]) -> list[str]:
        return self.vectorstore.add_documents(list(chunks))

    @property
    def indexer(self) -> RSEIndexer:
        return RSEIndexer(self.vectorstore, self.docstore)

    def adopt(self, way: Way, index: ExistingIndex | None = None, **kwargs: Any) -> Adoption:
        indexer = self.indexer
        return way.call(indexer.adopt, indexer.aadopt, index, **kwargs)

    def retriever(self, **fields: Any) -> RSERetriever:
        return RSERetriever(
            vectorstore=self.vectorstore,
            docstore=self.docstore,
            **{"config": fakes.EVERYTHING, "max_context_length": None, **fields},
        )

    def passages(self, way: Way, query: str = "text", **fields: Any) -> list[Document]:
        found: list[Document] = way.invoke(self.retriever(**fields), query)
        return found

    def texts(self, way: Way, **fields: Any) -> list[str]:
        return [passage.page_content for passage in self.passages(way, **fields)]


class Unknown(VectorStore):
    """A vector store that nobody has heard of."""

    def __init__(self, store: InMemoryVectorStore) -> None:
        self.store = store

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return self.store.similarity_search(query, k, **kwargs)

    @classmethod
    def from_texts(cls, texts: Any, embedding: Any, *args: Any, **kwargs: Any) -> "Unknown":
        return cls(InMemoryVectorStore.from_texts(texts, embedding, *args, **kwargs))


def chunk(text: str, source: object = "a", /, **metadata: Any) -> Document:
    return Document(text, metadata={"source": source, **metadata})


def numbered(*texts: str, source: str = "a") -> list[Document]:
    return [chunk(text, source, number=number) for number, text in enumerate(texts)]


def at(start: int, text: str, /, **metadata: Any) -> Document:
    return chunk(text, start_index=start, **metadata)


TEXT = "\n\n".join(
    f"Paragraph {number} of the text, {number * 7919} words." for number in range(40)
)


def split(**kwargs: Any) -> list[Document]:
    splitter = RecursiveCharacterTextSplitter(chunk_size=120, **kwargs)
    return splitter.split_documents([Document(TEXT, metadata={"source": "a"})])


# What comes back


@pytest.mark.parametrize("overlap", [0, 60])
@fakes.both_ways
def test_the_text_comes_back_by_start_index(way: Way, overlap: int) -> None:
    index = Index(split(chunk_overlap=overlap, add_start_index=True))
    report = index.adopt(way, BY_START)
    (passage,) = index.passages(way)
    assert passage.page_content == TEXT
    assert (passage.metadata["start_index"], passage.metadata["end_index"]) == (0, len(TEXT))
    assert not report.gaps


def test_the_text_comes_back_by_index_in_any_order(way: Way) -> None:
    chunks = split(chunk_overlap=60)
    for number, document in enumerate(chunks):
        document.metadata["number"] = number + 100
    index = Index(reversed(chunks))
    report = index.adopt(
        way,
        ExistingIndex(
            doc_id_key="source", chunk_index_key="number", chunk_overlap=60, separator="\n\n"
        ),
    )
    assert index.texts(way) == [TEXT]
    assert report.chunks == report.vectors == len(chunks)


def test_pages_come_in_their_order_and_passages_say_which(way: Way) -> None:
    pages = ["The first page.\n\nIts end", "The second page", "The third page.\n\nThe end."]
    splitter = CharacterTextSplitter("\n\n", chunk_size=16, chunk_overlap=0, add_start_index=True)
    documents = [
        Document(page, metadata={"source": "a", "page": number, "title": "Book"})
        for number, page in enumerate(pages)
    ]
    chunks = splitter.split_documents(documents)
    index = Index(reversed(chunks))
    index.adopt(
        way, ExistingIndex(doc_id_key="source", start_index_key="start_index", page_key="page")
    )
    (passage,) = index.passages(way)
    assert passage.page_content == "\n\n".join(pages)
    metadata = passage.metadata
    assert (metadata["page_start"], metadata["page_end"]) == (0, 2)
    assert metadata["doc_id"] == metadata["source"] == "a"
    assert metadata["title"] == "Book"


def test_nothing_is_embedded_and_the_vector_store_is_not_written_to(way: Way) -> None:
    index = Index(numbered("one", "two"))
    embeddings = index.vectorstore.embeddings
    assert isinstance(embeddings, fakes.BagOfWords)
    before = dict(index.vectorstore.store), list(embeddings.batches)
    index.adopt(way, BY_INDEX)
    assert (index.vectorstore.store, embeddings.batches) == before


@fakes.both_ways
def test_from_existing_gives_a_retriever(way: Way) -> None:
    index = Index([chunk("one\n", start_index=0), chunk("two", start_index=4)])
    retriever = way.call(
        RSERetriever.from_existing_index,
        RSERetriever.afrom_existing_index,
        index.vectorstore,
        InMemoryByteStore(),
        BY_START,
        config=fakes.EVERYTHING,
        k=1,
    )
    assert retriever.k == 1
    assert [s.page_content for s in way.invoke(retriever, "one")] == ["one\ntwo"]


# Overlap


@given(
    text=st.text("ab \n.", min_size=1, max_size=120),
    size=st.integers(2, 40),
    overlap=st.integers(0, 20),
    shuffled=st.randoms(use_true_random=False),
)
def test_any_text_comes_back_whole_by_start_index(
    text: str, size: int, overlap: int, shuffled: Any
) -> None:
    step = max(size - overlap, 1)
    chunks = [at(start, text[start : start + size]) for start in range(0, len(text), step)]
    shuffled.shuffle(chunks)
    index = Index(chunks)
    index.adopt(Way(None), BY_START)
    assert index.texts(Way(None)) == [text]


PIECES = ["Note: ", "heron ", "owl. ", "\n", "\n\n", "The same line of a log.\n", "a "]
REPETITIVE = st.lists(
    st.one_of(st.sampled_from(PIECES), st.integers(0, 99_999).map("w{} ".format)), max_size=80
).map(lambda pieces: "start " + "".join(pieces))


@given(text=REPETITIVE, size=st.integers(20, 120))
def test_without_overlap_nothing_is_removed(text: str, size: int) -> None:
    splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=0)
    index = Index(splitter.split_documents([Document(text, metadata={"source": "a"})]))
    index.adopt(Way(None), IN_ORDER)
    assert ["".join(found.split()) for found in index.texts(Way(None))] == ["".join(text.split())]


@given(
    numbers=st.lists(st.integers(0, 9999), min_size=1, max_size=60),
    size=st.integers(30, 90),
    overlap=st.integers(0, 30),
)
def test_text_that_repeats_nothing_by_a_stated_overlap(
    numbers: list[int], size: int, overlap: int
) -> None:
    text = " ".join(f"w{number}x{word}" for number, word in enumerate(numbers))
    splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap)
    index = Index(splitter.split_documents([Document(text, metadata={"source": "a"})]))
    existing = IN_ORDER.model_copy(update={"chunk_overlap": overlap, "separator": " "})
    try:
        index.adopt(Way(None), existing)
    except AdoptionError:
        return
    assert index.texts(Way(None)) == [text]


@pytest.mark.parametrize(
    "texts",
    [
        ["Note: Note: Note:", "Note: Note: Note:"],
        ["An entry.\nThe same line.\nThe same line.", "The same line.\nThe same line.\nEnd."],
        ["The end of it", "it is more than one word"],
        ["First words shared by both, up to here", "words shared by both, up to here"],
    ],
    ids=["notes", "lines", "a word of a longer overlap", "all of it"],
)
def test_an_overlap_of_unknown_length_is_refused(way: Way, texts: list[str]) -> None:
    index = Index(numbered(*texts))
    existing = BY_INDEX.model_copy(update={"chunk_overlap": 50})
    message = r"'a': with chunk_overlap=50, .* ambiguous: .* begins '.* begins '.*\(texts="
    with pytest.raises(AdoptionError, match=f"(?s){message}"):
        index.adopt(way, existing)


def test_more_than_the_stated_overlap_is_refused(way: Way) -> None:
    shared = "a sentence that is long enough not to be repeated by chance."
    index = Index(numbered(f"One. {shared}", f"{shared} Two."))
    with pytest.raises(AdoptionError, match=r"with chunk_overlap=30, .* is ambiguous"):
        index.adopt(way, BY_INDEX.model_copy(update={"chunk_overlap": 30}))
    index.adopt(way, BY_INDEX.model_copy(update={"chunk_overlap": 80}))
    assert index.texts(way) == [f"One. {shared} Two."]
    warning = index.adopt(way, BY_INDEX).warning()
    assert "neighboring chunks share up to 60 characters" in str(warning)
    assert Index(split(chunk_overlap=0)).adopt(way, IN_ORDER).warning() is None


def test_without_a_stated_overlap_the_error_says_how_to_find_out(way: Way) -> None:
    shared = "a sentence that is long enough not to be repeated by chance."
    index = Index(numbered("Nothing here.", f"One. {shared}", f"{shared} Two."))
    arguments = r"\(texts=loader.load.*ExistingIndex\(doc_id_key='source', .*chunk_overlap=\.\.\.\)"
    with pytest.raises(AdoptionError, match=rf"{arguments}.*compare the end of a chunk with"):
        index.adopt(way)


@fakes.both_ways
def test_a_filter_on_chunks_holds_for_adopted_ones(way: Way) -> None:
    chunks = [
        at(0, "one ", access="all", tenant=1),
        at(4, "two ", access="few", tenant=1),
        at(8, "three", access="all", tenant=1),
    ]
    index = Index(chunks)
    index.adopt(way, BY_START)
    everyone = {"filter": lambda document: document.metadata["access"] == "all"}
    with pytest.warns(UserWarning, match="^the search argument filter=.* may exclude chunks"):
        texts = index.texts(way, search_kwargs=everyone)
    assert sorted(texts) == ["one ", "three"]


# Whole texts


def whole(**texts: str) -> InMemoryStore:
    store = InMemoryStore()
    store.mset([(name, Document(text)) for name, text in texts.items()])
    return store


@given(
    text=st.text("ab \n", min_size=1, max_size=100),
    cuts=st.lists(st.tuples(st.integers(0, 99), st.integers(1, 30)), min_size=1, max_size=12),
)
def test_any_chunks_are_found_in_the_text(text: str, cuts: list[tuple[int, int]]) -> None:
    chunks = [text[start : start + length] for start, length in cuts]
    index = Index(chunk(content) for content in chunks)
    if not any(chunks):
        return
    report = index.adopt(Way(None), ExistingIndex(doc_id_key="source", texts=whole(a=text)))
    assert index.texts(Way(None)) == [text]
    assert report.vectors == len(chunks)
    assert report.gaps == []


def test_text_that_is_in_no_vector_is_returned_beside_others_only(way: Way) -> None:
    text = "Before. One. Removed. Two. After."
    index = Index([chunk("One.", number=0), chunk("Two.", number=1)])
    index.adopt(way, ExistingIndex(doc_id_key="source", texts=whole(a=text)))
    (passage,) = index.passages(way)
    assert "One. Removed. Two. " in passage.page_content
    removed = passage.metadata["rse"]["chunks"][2]
    assert (removed["length"], removed["filled"]) == (len("Removed. "), True)
    assert index.texts(way, candidates_only=True) == ["One. ", "Two. "]
    everyone = {"filter": lambda document: document.metadata["number"] < 5}
    with pytest.warns(UserWarning, match="^the search argument filter=.* may exclude chunks"):
        assert index.texts(way, search_kwargs=everyone) == ["One. ", "Two. "]


def test_a_document_whose_whole_text_is_not_known_is_refused_or_left_out(way: Way) -> None:
    index = Index([*numbered("one", "two"), *numbered("three", "four", source="b")])
    with pytest.raises(AdoptionError, match=r"texts has no key 'b'; its first keys are \['a'\]"):
        index.adopt(way, ExistingIndex(doc_id_key="source", texts={"a": "one two"}))
    skipping = ExistingIndex(doc_id_key="source", texts=whole(a="one two"), on_error="skip")
    assert len(index.adopt(way, skipping).problems) == 1
    assert index.texts(way) == ["one two"]


def test_texts_may_be_the_pages_that_the_index_was_made_from(way: Way) -> None:
    pages = [chunk("one, two", page=0), chunk("B", "b"), chunk("three", page=1)]
    index = Index([chunk("one", page=0), chunk("two", page=0), chunk("B", "b"), pages[2]])
    index.adopt(way, ExistingIndex(texts=pages))
    long, short = index.passages(way)
    assert (long.page_content, short.page_content) == ("one, two\n\nthree", "B")
    assert (long.metadata["page_start"], long.metadata["page_end"]) == (0, 1)
    chunks = [*pages, chunk("two", page=0, start_index=5)]
    with pytest.raises(AdoptionError, match="several Documents of 'a' with the same metadata"):
        index.adopt(way, ExistingIndex(texts=chunks))
    message = "the Document of texts that begins 'one, two' has sorce=None.*; did you mean 'source'"
    with pytest.raises(AdoptionError, match=message):
        index.adopt(way, ExistingIndex(texts=pages, doc_id_key="sorce"))


def test_texts_may_be_a_dict(way: Way) -> None:
    index = Index(numbered("one", "two"))
    texts = {"a": Document("one - two", metadata={"title": "Book"})}
    index.adopt(way, ExistingIndex(doc_id_key="source", texts=texts))
    (passage,) = index.passages(way)
    assert (passage.page_content, passage.metadata["title"]) == ("one - two", "Book")
    other = ExistingIndex(doc_id_key="source", texts={"a": Document("one, too")})
    with pytest.raises(AdoptionError, match=r"begins 'two', was not found in .* text .*Summaries"):
        index.adopt(way, other)


# In the order of the store


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("paged", [False, True])
def test_an_index_that_was_filled_several_times_is_adopted_once(
    way: Way, copies: int, *, paged: bool
) -> None:
    chunks = [chunk("one", "b", page=0)]
    for number, text in enumerate(["one", "two", "three", "two"]):
        chunks.append(chunk(text, page=number // 2 if paged else 0))
    index = Index()
    for _ in range(copies):
        index.add(chunks)
    existing = IN_ORDER.model_copy(update={"page_key": "page"}) if paged else IN_ORDER
    with pytest.warns(UserWarning, match=r"2 documents \('b', 'a'\) came several times"):
        report = index.adopt(way, existing)
    assert report.copied == ["b", "a"]
    assert (report.chunks, report.vectors) == (5, 5 * copies)
    text = "one\ntwo\n\nthree\ntwo" if paged else "one\ntwo\nthree\ntwo"
    assert sorted(index.texts(way)) == ["one", text]


# Gaps


def test_no_passage_crosses_a_gap(way: Way) -> None:
    index = Index([at(0, "one "), at(4, "two"), at(40, "three "), at(46, "four")])
    report = index.adopt(way, BY_START)
    passages = index.passages(way)
    assert [s.page_content for s in passages] == ["one two", "three four"]
    assert [s.metadata["start_index"] for s in passages] == [0, 40]
    (gap,) = report.gaps
    assert (gap.doc_id, gap.length) == ("a", 33)
    texts = {vector: entry["text"] for vector, entry in index.vectorstore.store.items()}
    assert (texts[str(gap.after)], texts[gap.before]) == ("two", "three ")


def test_a_number_that_is_left_out_is_a_gap(way: Way) -> None:
    index = Index([*numbered("one", "two"), chunk("four", number=3)])
    (gap,) = index.adopt(way, BY_INDEX).gaps
    assert gap.length is None
    assert index.texts(way) == ["one\ntwo", "four"]
    # A vector that claims to be the chunk in the gap belongs to no passage.
    [chunk_of_a, *_] = index.indexer.chunks()
    claimed = {**chunk_of_a.metadata, "chunk_index": 2}
    index.add([Document("forged", metadata=claimed)])
    assert index.texts(way) == ["one\ntwo", "four"]


def test_from_existing_warns_of_gaps() -> None:
    index = Index([at(0, "one"), at(100, "two")])
    with pytest.warns(UserWarning, match=r"1 gap, .*'a': 97 characters missing before chunk"):
        RSERetriever.from_existing_index(index.vectorstore, index.docstore, BY_START)


# Other code changes the index


PAGES = ["alpha one", "beta", "alpha two", "gamma", "alpha three"]
STALE = r"text of 'a' was changed or deleted in the vector store: adopt the index again"


def with_pages(way: Way) -> tuple[Index, InMemoryVectorStore]:
    """An adopted index with the chunks of `PAGES`, of which `alpha` finds three."""
    index = Index()
    index.vectorstore.add_documents(numbered(*PAGES), ids=[*"abcde"])
    index.adopt(way, BY_INDEX)
    return index, index.vectorstore


def alpha(way: Way, index: Index, **fields: Any) -> list[str]:
    """The passages around the three chunks that have the word."""
    fields = {"fetch_k": 3, "max_context_length": None, **fields}
    return [passage.page_content for passage in index.passages(way, "alpha", **fields)]


@fakes.both_ways
def test_text_that_was_deleted_from_the_index_does_not_come_back_between_candidates(
    way: Way,
) -> None:
    index, store = with_pages(way)
    assert alpha(way, index) == ["\n".join(PAGES)]
    store.delete(["b"])
    with pytest.warns(UserWarning, match=STALE) as warned:
        passages = index.passages(way, "alpha", fetch_k=3)
    assert len(warned) == 1
    assert warned[0].filename == fakes.__file__  # the line that asked
    assert passages == []
    # Adopted again, the index is as it is, and nothing is to be warned of.
    index.adopt(way, BY_INDEX)
    assert alpha(way, index) == ["alpha one", "alpha two\ngamma\nalpha three"]


@fakes.both_ways
def test_text_that_was_changed_under_its_id_is_not_shown_as_it_was(way: Way) -> None:
    index, store = with_pages(way)
    store.add_documents([chunk("delta", number=1)], ids=["b"])
    with pytest.warns(UserWarning, match=STALE):
        assert alpha(way, index) == []
    index.adopt(way, BY_INDEX)
    assert alpha(way, index) == ["alpha one\ndelta\nalpha two\ngamma\nalpha three"]


@fakes.both_ways
def test_whole_documents_are_not_read_with_text_that_is_gone(way: Way) -> None:
    index, store = with_pages(way)
    retriever = index.retriever(fetch_k=1, config="precision")
    (passage,) = way.invoke(retriever, "gamma")
    wider = way.call(retriever.around, retriever.aaround, passage, 12)
    assert wider.page_content == "a\nalpha two\ngamma\nalpha three"
    assert way.call(retriever.text, retriever.atext, "a") == "\n".join(PAGES)
    store.delete(["b"])
    assert way.call(retriever.around, retriever.aaround, passage, 9).page_content
    with pytest.raises(LookupError, match="adopted index, adopt it again"):
        way.call(retriever.around, retriever.aaround, passage, 12)
    with pytest.raises(LookupError, match="adopted index, adopt it again"):
        way.call(retriever.text, retriever.atext, "a")


def test_words_find_no_text_that_was_deleted_from_the_index(way: Way) -> None:
    index = Index()
    index.docstore = SQLDocStore("sqlite:///:memory:", lexical=True)
    index.vectorstore.add_documents(numbered("alpha", "unrelated words", "beta"), ids=[*"abc"])
    index.adopt(way, BY_INDEX)
    index.vectorstore.delete(["b"])
    with pytest.warns(UserWarning, match=STALE):
        passages = index.passages(way, "unrelated", hybrid=0.5)
    assert passages == []


# Again, and after


@fakes.both_ways
def test_adopting_again_does_nothing_but_bring_in_what_is_new(way: Way) -> None:
    index = Index(numbered("one", "two"))
    writes = fakes.Writes()
    index.docstore = fakes.WatchedDocStore(InMemoryStore(), writes)
    index.adopt(way, BY_INDEX)
    writes.made.clear()
    index.adopt(way, BY_INDEX)
    assert writes.made == []
    index.add([chunk("three", number=2), chunk("other", "b", number=0)])
    assert index.adopt(way, BY_INDEX).documents == 2
    assert sorted(index.texts(way)) == ["one\ntwo\nthree", "other"]
    # Nothing of the former version is left.
    keys = fakes.keys_of(index.docstore)
    assert sum(key.startswith("adopted/") for key in keys) == 4
    assert sum(re.fullmatch(r"\w+/[\w.]+/\d+", key) is not None for key in keys) == 4


@fakes.both_ways
def test_deleting_an_adopted_document_deletes_its_vectors(way: Way) -> None:
    index = Index([*numbered("one", "two", ""), *numbered("three", source="b")])
    index.adopt(way, BY_INDEX)
    assert way.delete(index.retriever(), ["a"]) == ["a"]
    assert [entry["text"] for entry in index.vectorstore.store.values()] == ["three"]
    assert index.texts(way) == ["three"]
    way.delete(index.retriever(), ["b"])
    assert index.vectorstore.store == {}
    assert fakes.keys_of(index.docstore) == []


@fakes.both_ways
def test_adding_replaces_an_adopted_document(way: Way) -> None:
    index = Index([*numbered("one", "two"), *numbered("three", source="b")])
    index.adopt(way, BY_INDEX)
    way.add(index.retriever(), [Document("one and two", metadata={"source": "a"})])
    assert sorted(index.texts(way)) == ["one and two", "three"]
    assert len(index.vectorstore.store) == 2
    assert index.adopt(way, BY_INDEX).documents == 1  # finds nothing else of document a
    assert sorted(index.texts(way)) == ["one and two", "three"]


@pytest.mark.parametrize("how", ["before", "halfway", "after"])
def test_a_cut_off_adoption_is_completed_by_adopting_again(way: Way, how: fakes.How) -> None:
    for failing in itertools.count():
        writes = fakes.Writes()
        index = Index(numbered("one", "two", "three"))
        index.docstore = fakes.WatchedDocStore(InMemoryStore(), writes)
        index.adopt(way, BY_INDEX)
        index.add([chunk("four", number=3)])
        before = dict(index.vectorstore.store)
        writes.fail_at(failing, how)
        try:
            index.adopt(way, BY_INDEX)
        except fakes.CrashError:
            finished = False
        else:
            finished = True
        writes.fail_at(None)
        index.adopt(way, BY_INDEX)
        assert index.texts(way) == ["one\ntwo\nthree\nfour"]
        assert index.vectorstore.store == before
        way.delete(index.retriever(), ["a"])
        assert fakes.keys_of(index.docstore) == []
        if finished:
            break
    assert failing > 3


@pytest.mark.parametrize("how", ["before", "halfway", "after"])
def test_a_cut_off_replacement_of_an_adopted_document_is_completed(
    way: Way, how: fakes.How
) -> None:
    for failing in itertools.count():
        writes = fakes.Writes()
        index = Index()
        index.vectorstore = fakes.WatchedVectorStore(fakes.BagOfWords(), writes)
        index.docstore = fakes.WatchedDocStore(InMemoryStore(), writes)
        index.add(numbered("one", "two", "three"))
        index.adopt(way, BY_INDEX)
        new = [Document("all in one", metadata={"source": "a"})]
        writes.fail_at(failing, how)
        try:
            way.add(index.retriever(), new)
        except fakes.CrashError:
            # One version or the other, and nothing in between.
            writes.fail_at(None)
            assert index.texts(way) in (["one\ntwo\nthree"], ["all in one"])
            finished = False
        else:
            finished = True
        writes.fail_at(None)
        way.add(index.retriever(), new)
        assert index.texts(way) == ["all in one"]
        assert len(index.vectorstore.store) == 1
        way.delete(index.retriever(), ["a"])
        assert fakes.keys_of(index.docstore) == []
        if finished:
            break
    assert failing > 5


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "the order of the chunks is unknown"),
        ({"doc_id": "a", "in_store_order": True}, "only one of doc_id_key.*got .*'source'.*'a'"),
        ({"in_store_order": True, "chunk_overlap": -1}, "chunk_overlap"),
        ({"in_store_order": True, "on_error": "warn"}, "on_error"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExistingIndex(**{"doc_id_key": "source", **arguments})


GOOD = [Document("good text", metadata={"source": "good", "number": 0, "start_index": 0})]
BAD: list[tuple[Sequence[Document], ExistingIndex, str]] = [
    (
        [chunk("one", number=0), chunk("two", number=0)],
        BY_INDEX,
        r"the same position: \S+ \(.*position 0, begins 'one'\).*0, begins 'two'.*older version",
    ),
    (
        [at(3, "one"), at(3, "two")],
        BY_START,
        r"disagree about the text they share: \S+ \(.*position 3, .*page_key",
    ),
    ([at(0, "one", page=0), at(0, "two", page=1)], BY_START, "set page_key"),
    ([at(-1, "one")], BY_START, "start_index=-1.*this field must hold"),
    ([at(0, "one"), chunk("two")], BY_START, "start_index=None"),
    ([chunk("one", number="first")], BY_INDEX, "number='first'.*this field must hold"),
    ([chunk("one", None, number=0)], BY_INDEX, "source=None.*'number': 0"),
    ([chunk("one", number=0, odd=object())], BY_INDEX, r"'odd'.* has the type object"),
]


@pytest.mark.parametrize(("chunks", "existing", "message"), BAD)
def test_chunks_that_cannot_be_put_together_are_refused_or_left_out(
    way: Way, chunks: Sequence[Document], existing: ExistingIndex, message: str
) -> None:
    index = Index([*chunks, *GOOD])
    with pytest.raises(AdoptionError, match=f"(?s){message}.*on_error='skip'"):
        index.adopt(way, existing)
    report = index.adopt(way, existing.model_copy(update={"on_error": "skip"}))
    assert re.search(message, "".join(report.problems), re.DOTALL)
    assert index.texts(way) == ["good text"]


def test_numbers_may_be_floats_or_digits(way: Way) -> None:
    index = Index([chunk("two", 7, number="10"), chunk("one", 7, number=9.0)])
    index.adopt(way, BY_INDEX)
    (passage,) = index.passages(way)
    assert passage.page_content == "one\ntwo"
    assert passage.metadata["doc_id"] == "7"


def test_chunks_that_came_later_by_other_means_are_named_at_the_query(way: Way) -> None:
    index = Index(numbered("one", "two"))
    index.adopt(way, BY_INDEX)
    index.add([chunk("three", number=2)])
    with pytest.raises(CandidateError, match=r"from_existing_index\(.*, and again whenever"):
        index.passages(way)
    index.adopt(way, BY_INDEX)
    assert index.texts(way) == ["one\ntwo\nthree"]


def test_a_document_that_was_added_as_well_is_not_mixed_up(way: Way) -> None:
    index = Index()
    way.add(index.retriever(), [Document("one two", metadata={"source": "a"})])
    index.add(numbered("one", "two"))
    with pytest.raises(AdoptionError, match="'a': it was already added with add_documents"):
        index.adopt(way, BY_INDEX)
    report = index.adopt(way, BY_INDEX.model_copy(update={"on_error": "skip"}))
    assert (report.documents, len(report.problems)) == (0, 1)
    assert index.texts(way) == ["one two"]


def test_a_docstore_that_was_made_by_another_field_is_refused(way: Way) -> None:
    index = Index(numbered("one", "two"))
    index.adopt(way, BY_INDEX)
    other = ExistingIndex(doc_id_key="number", in_store_order=True, chunk_overlap=0)
    with pytest.raises(AdoptionError, match=r"recorded as chunks of 'a'.*empty docstore"):
        index.adopt(way, other)
    assert index.texts(way) == ["one\ntwo"]


@fakes.both_ways
def test_stores_that_cannot_be_read_out_are_told_by_their_documents(way: Way) -> None:
    index = Index(numbered("one", "two"))
    documents = index.vectorstore.similarity_search("one")
    indexer = RSEIndexer(Unknown(index.vectorstore), index.docstore)
    with pytest.raises(TypeError, match=r"Unknown cannot list its chunks.*documents="):
        way.call(indexer.adopt, indexer.aadopt, BY_INDEX)
    way.call(indexer.adopt, indexer.aadopt, BY_INDEX, documents=iter(documents))
    index.docstore.mdelete(["vectorstore"])  # it is read by another class than it was written by
    assert index.texts(way) == ["one\ntwo"]


def test_any_text_and_id_is_kept(way: Way) -> None:
    chunks = [
        Document("a\x00b \ud800 ", id="one/two:\x00é", metadata={"source": "\ud800", "number": 0}),
        Document("\u202eend", id="x" * 500, metadata={"source": "\ud800", "number": 1}),
    ]
    index = Index(chunks)
    index.docstore = InMemoryByteStore()
    index.adopt(way, BY_INDEX)
    assert index.texts(way) == ["a\x00b \ud800 \u202eend"]
    assert index.passages(way)[0].metadata["doc_id"] == "\ud800"


def test_an_empty_store_is_refused(way: Way) -> None:
    index = Index()
    for existing in (BY_INDEX, None):
        with pytest.raises(AdoptionError, match="no chunks to adopt: it is empty"):
            index.adopt(way, existing)
    way.add(index.retriever(), [Document("added", metadata={"source": "b"})])
    with pytest.raises(AdoptionError, match="only chunks that this package wrote"):
        index.adopt(way)
