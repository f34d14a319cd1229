"""What lexical search of a docstore does, on any database: a suite to be subclassed."""

# ruff: noqa: RUF001 - other scripts

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from langchain_rse.headers import DocumentHeaders
from langchain_rse.stores.databases import make_engine
from langchain_rse.stores.fulltext_sqlite import add_words_function
from tests.unit_tests import fakes

Way = fakes.Way
MakeStore = Callable[..., SQLDocStore]
Scored = list[tuple[Document, float]]


def indexer(store: SQLDocStore, writes: fakes.Writes | None = None) -> RSEIndexer:
    vectors = fakes.WatchedVectorStore(fakes.BagOfWords(), writes or fakes.Writes())
    docstore = fakes.WatchedDocStore(store, writes) if writes else store
    return RSEIndexer(vectors, docstore, text_splitter=fakes.Lines())


def document(doc_id: str, *lines: str, **metadata: Any) -> Document:
    return Document("\n".join(lines), metadata={"doc_id": doc_id, **metadata})


def search(
    store: SQLDocStore, query: str, k: int = 10, condition: Mapping[str, Any] | None = None
) -> Scored:
    return store.lexical_search(query, k, filter=condition)


def execute(url: str, statement: str, *parameters: Any) -> list[Any]:
    """What another program does with the database."""
    # On SQLite, the triggers of the index need a function.
    engine = make_engine(sa.make_url(url), {})
    if engine.name == "sqlite":
        sa.event.listen(engine, "connect", add_words_function)
    with engine.begin() as connection:
        result = connection.execute(sa.text(statement), *parameters)
        rows = list(result) if result.returns_rows else []
    engine.dispose()
    return rows


def key_of_chunk(store: SQLDocStore) -> str:
    """The key of the only chunk."""
    [key] = [key for key in store.yield_keys() if key.endswith("/0") and "spans" not in key]
    return key


def places(found: Scored) -> list[tuple[str, int]]:
    return [(chunk.metadata["doc_id"], chunk.metadata["chunk_index"]) for chunk, _ in found]


PIECES = [
    *("AND", "OR", "NOT", "NEAR(", "zulu", "text", "--", "/*", "{text}", "text:", "<->", "''"),
    *('""', "%s", ":query", "?", "$1", "\ufffd", "é", "漢", "\x00", "\ud800", "\\u0000", "\\"),
    *"\"'()*:^+-|&!<>%_;,.~@$",
]
ANY_TEXT = st.text(st.characters(blacklist_categories=[])) | st.lists(st.sampled_from(PIECES)).map(
    " ".join
)


class LexicalSuite:
    """Subclasses give `url` and `make_store`, which opens the same database again and again."""

    @pytest.fixture
    def url(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def table(self) -> str:
        return "langchain_rse"

    @pytest.fixture
    def make_store(self) -> MakeStore:
        raise NotImplementedError

    @pytest.fixture
    def store(self, make_store: MakeStore) -> SQLDocStore:
        return make_store()

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("猫", "黒猫は寝る"),
            ("税", "会社の所得税"),
            ("كتاب", "هذا كِتَابٌ"),
            ("کتاب", "كتـاب جديد"),
            ("ёлка", "ЕЛКА"),
            ("2023", "سنة ٢٠٢٣"),
            ("άνθρωπος", "ΑΝΘΡΩΠΟΣ"),
            ("שלום", "שָׁלוֹם"),
            ("C++", "written in c++."),
            ("C#", "C# code"),
            (".NET", "the .net way"),
        ],
    )
    def test_letters_that_are_one(self, query: str, text: str, store: SQLDocStore) -> None:
        indexer(store).add_documents([document("a", text), document("b", "C, кот, f#, dot 犬")])
        assert places(search(store, query)) == [("a", 0)]

    @fakes.both_ways
    def test_best_match_first(self, way: Way, store: SQLDocStore) -> None:
        texts = ["the fox and the dog", "the dog", "a fox", "quick fox, quick dog", "nothing"]
        way.add(indexer(store), [document("a", *texts, title="animals", page=3, day=[1, 2])])

        def search(k: int, **arguments: Any) -> Scored:
            return store.lexical_search("Quick fox", k, **arguments)

        found = search(10)
        assert places(found)[0] == ("a", 3)
        assert sorted(places(found)) == [("a", 0), ("a", 2), ("a", 3)]
        scores = [score for _, score in found]
        assert scores == sorted(scores, reverse=True)
        assert scores[-1] > 0
        assert found[0][0].page_content == "quick fox, quick dog"
        assert search(1) == found[:1]
        assert search(10, filter={"page": 3}) == found
        assert search(10, filter={"page": 4}) == []

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("首都在哪里？", "北京是中国的首都。"),
            ("東京都の人口は？", "人口は東京都が最も多い"),
            ("เมืองหลวง", "กรุงเทพเป็นเมืองหลวง"),
            ("हिन्दी", "वह हिन्दी बोलता है"),
            ("STRASSE", "eine lange Straße"),
            ("ＡＢＣ", "abc"),
            ("ПРИВЕТ", "привет, мир"),
        ],
    )
    def test_words_of_any_script(self, store: SQLDocStore, query: str, text: str) -> None:
        indexer(store).add_documents([document("other", "nothing"), document("a", text)])
        assert places(search(store, query)) == [("a", 0)]
        indexer(store).delete(["a"])
        assert search(store, query) == []

    @pytest.mark.parametrize("part", ["", "_lexical"])
    def test_a_dropped_table_is_made_again(
        self, make_store: MakeStore, table: str, part: str
    ) -> None:
        store = make_store()
        indexer(store).add_documents([document("a", "zulu")])
        with store._engine.begin() as connection:
            cascade = "CASCADE" if connection.dialect.name == "postgresql" else ""
            connection.exec_driver_sql(f'DROP TABLE "{table}{part}" {cascade}')
        store.close()
        again = make_store()
        indexer(again).add_documents([document("b", "zulu")])
        assert ("b", 0) in places(search(again, "zulu"))
        assert again.index_problems() == []

    def test_words_of_a_header_find_its_chunks(self, store: SQLDocStore) -> None:
        retriever = RSERetriever(
            vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
            docstore=store,
            text_splitter=fakes.Lines(),
            headers=DocumentHeaders(),
            hybrid=1.0,  # by words alone
            config=fakes.PLAIN,
        )
        parts = [
            document("a", "one two", title="Herons", section="Nests"),
            document("a", "three four", title="Herons", section="Zebrafinch"),
        ]
        retriever.add_documents([*parts, document("b", "five", title="Owls")])
        ((chunk, _),) = search(store, "zebrafinch")
        assert chunk.page_content == "Herons\nZebrafinch\n\nthree four"  # as a reranker sees it
        (passage,) = retriever.invoke("zebrafinch")
        assert passage.page_content == "three four"
        assert passage.metadata["doc_id"] == "a"

    def test_a_document_replaced(self, store: SQLDocStore) -> None:
        index = indexer(store)
        index.add_documents([document("a", "old zulu", "same"), document("b", "zulu")])
        index.add_documents([document("a", "new", "same")])
        assert places(search(store, "zulu")) == [("b", 0)]
        assert places(search(store, "new same old")) in (
            [("a", 0), ("a", 1)],
            [("a", 1), ("a", 0)],
        )

    def test_no_call_that_crashes_brings_two_versions(self, store: SQLDocStore) -> None:
        for number in range(12):
            name = f"{number}"
            writes = fakes.Writes()
            index = indexer(store, writes)
            index.add_documents([document(name, *["zulu old"] * 4)])
            writes.fail_at(number, "halfway")
            with contextlib.suppress(fakes.CrashError):
                index.add_documents([document(name, *["zulu new"] * 3)])
            found = search(store, "zulu", 50, {"doc_id": name})
            texts = sorted(chunk.page_content.strip() for chunk, _ in found)
            assert texts in (["zulu old"] * 4, ["zulu new"] * 3)
            writes.fail_at(None)
            index.add_documents([document(name, *["zulu new"] * 3)])
            assert len(search(store, "zulu", 50, {"doc_id": name})) == 3

    @given(query=ANY_TEXT)
    @settings(
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
        ],
    )
    def test_any_query_is_harmless(self, store: SQLDocStore, query: str) -> None:
        if not list(store.yield_keys()):
            indexer(store).add_documents([document("a", "zulu", "text")])
        found = store.lexical_search(f"zulu {query}", 10)
        assert ("a", 0) in places(found)
        assert set(places(found)) <= {("a", 0), ("a", 1)}
        assert set(places(store.lexical_search(query, 10))) <= {("a", 0), ("a", 1)}

    @given(texts=st.lists(ANY_TEXT, min_size=1, max_size=4))
    @settings(
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
        ],
    )
    def test_any_text_is_indexed_and_forgotten(self, store: SQLDocStore, texts: list[str]) -> None:
        index = indexer(store)
        index.add_documents(
            [Document(" ".join([*texts, "\x00 zulu \\"]), metadata={"doc_id": "a"})]
        )
        assert [chunk.metadata["doc_id"] for chunk, _ in store.lexical_search("zulu", 1)] == ["a"]
        index.delete(["a"])
        assert store.lexical_search("zulu", 10) == []

    def test_a_long_query(self, store: SQLDocStore) -> None:
        indexer(store).add_documents([document("a", "zulu")])
        assert places(search(store, "zulu " + " ".join(f"w{n}" for n in range(50_000)))) == [
            ("a", 0)
        ]
        assert search(store, "z" * 100_000) == []

    def test_filters(self, store: SQLDocStore) -> None:
        indexer(store).add_documents(
            [
                document("a", "zulu", page=1, owner="x", groups=["staff"]),
                document("a", "zulu", page=2, owner="x", groups=["staff"]),
                document("b", "zulu", page=2, owner="y", public=True, groups=["staff", "board"]),
                document("c", "zulu", page=3, owner="x", public=1),
            ],
        )
        cases: list[tuple[Mapping[str, Any] | None, str]] = [
            (None, "a0 a1 b0 c0"),
            ({}, "a0 a1 b0 c0"),
            ({"doc_id": "a"}, "a0 a1"),
            ({"owner": "x"}, "a0 a1 c0"),
            ({"page": 2}, "a1 b0"),
            ({"page": 2.0}, "a1 b0"),
            ({"page": "2"}, ""),
            ({"page": 2, "owner": "x"}, "a1"),
            ({"public": True}, "b0"),
            ({"public": 1}, "c0"),
            ({"unknown": "x"}, ""),
            ({"owner": "' OR 1=1 --"}, ""),
            ({"page": {"$gte": 2}}, "a1 b0 c0"),
            ({"page": {"$gt": 1, "$lt": 3}, "owner": {"$ne": "y"}}, "a1"),
            ({"page": [1, 3]}, "a0 c0"),
            ({"doc_id": {"$nin": ["a", "c"]}}, "b0"),
            ({"public": {"$ne": 1}}, "b0"),  # a missing field passes nothing
            ({"groups": {"$contains": "board"}}, "b0"),
            ({"groups": {"$not_contains": "board"}}, "a0 a1"),
            ({"groups": "staff"}, "a0 a1 b0"),
            ({"$or": [{"doc_id": "c"}, {"$and": [{"owner": "x"}, {"page": 1}]}]}, "a0 c0"),
            ({"owner": None}, ""),
        ]
        for condition, expected in cases:
            found = places(search(store, "zulu", condition=condition))
            # Between parts stand two line ends: the second is a chunk of its own, without words.
            names = {"a1" if place == ("a", 2) else f"{place[0]}{place[1]}" for place in found}
            assert " ".join(sorted(names)) == expected, condition

    def test_a_filter_does_not_use_up_k(self, store: SQLDocStore) -> None:
        others = [document(f"other {n}", "zulu zulu", owner="x") for n in range(40)]
        indexer(store).add_documents([*others, document("mine", "some zulu more", owner="y")])
        assert places(search(store, "zulu", 3, {"owner": "y"})) == [("mine", 0)]
        assert len(search(store, "zulu", 3, {"owner": "x"})) == 3
        for condition in ({"owner": {"$gt": "x"}}, {"page": {"$gt": 7}}):
            indexer(store).add_documents([document("mine", "zulu", "zulu", owner="y", page=8)])
            assert places(search(store, "zulu", 1, condition))[0][0] == "mine"
            assert len(search(store, "zulu", 3, condition)) == 2

    def test_other_filters_are_refused(self, store: SQLDocStore) -> None:
        others: list[Any] = [
            lambda _: True,
            "page",
            ["page"],
            {"page": {"$like": 1}},
            {"page": {"$in": 1}},
            {"$and": {"page": 1}},
            {"$or": [{"page": 1}, {"$not": {"page": 2}}]},
            {"metadata.page": 1},
            {1: 1},
        ]
        for condition in others:
            with pytest.raises(ValueError, match=r"filter .*set hybrid=0"):
                search(store, "zulu", condition=condition)

    def test_what_is_there_is_indexed_once(self, make_store: MakeStore) -> None:
        plain = make_store(lexical=False)
        indexer(plain).add_documents([document("a", "zulu", "text"), document("b", "zulu")])
        with pytest.raises(ValueError, match="lexical=True"):
            search(plain, "zulu")
        for _ in range(2):
            assert sorted(places(search(make_store(), "zulu"))) == [("a", 0), ("b", 0)]

    def test_a_store_without_lexical_keeps_the_index_all_the_same(
        self, make_store: MakeStore
    ) -> None:
        store, plain = make_store(), make_store(lexical=False)
        indexer(store).add_documents([document("a", "zulu"), document("b", "zulu")])
        other = indexer(plain)
        other.add_documents([document("a", "changed"), document("c", "zulu")])
        other.delete(["b"])
        assert places(search(store, "zulu")) == [("c", 0)]
        assert places(search(store, "changed")) == [("a", 0)]

    def test_a_write_that_fails_leaves_the_index_as_it_was(self, store: SQLDocStore) -> None:
        indexer(store).add_documents([document("a", "zulu")])
        rows: list[Any] = [(key_of_chunk(store), Document("changed")), ("\ud800", Document("x"))]
        with pytest.raises(UnicodeEncodeError):
            store.mset(rows)
        assert places(search(store, "zulu")) == [("a", 0)]
        assert search(store, "changed") == []

    def test_other_words_need_an_index_built_anew(self, make_store: MakeStore) -> None:
        indexer(make_store()).add_documents([document("a", "changed margins")])
        english = make_store(tokenizer="porter unicode61", language="english")
        with pytest.raises(ValueError, match=r"built with .*drop_lexical_index\(\)"):
            search(english, "changing")
        english.drop_lexical_index()
        assert places(search(english, "changing")) == [("a", 0)]

    def test_a_dropped_index_leaves_nothing(
        self, make_store: MakeStore, url: str, table: str
    ) -> None:
        store = make_store()
        indexer(store).add_documents([document("a", "zulu")])
        store.drop_lexical_index()
        engine = sa.create_engine(url)
        inspector = sa.inspect(engine)
        names = [*inspector.get_table_names(), *inspector.get_view_names()]
        assert [name for name in names if name.startswith(f"{table}_lexical")] == []
        engine.dispose()
        plain = make_store(lexical=False)
        indexer(plain).add_documents([document("b", "zulu")])
        assert sorted(places(search(make_store(), "zulu"))) == [("a", 0), ("b", 0)]
