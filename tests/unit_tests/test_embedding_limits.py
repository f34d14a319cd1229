from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import tiktoken
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import OpenAIEmbeddings
from tokenizers import Tokenizer, models, pre_tokenizers

from langchain_rse import RSEIndexer, RSERetriever, SQLDocStore
from tests.unit_tests import fakes
from tests.unit_tests.fakes import BagOfWords, Lines, Way, words

way = fakes.way


def word_tokenizer(*, truncate: int | None = None) -> Tokenizer:
    """A token a word."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if truncate:
        tokenizer.enable_truncation(truncate)
    return tokenizer


class Model(BagOfWords):
    """Has what models say of themselves."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        vars(self).update(attributes)


class Indexed(SimpleNamespace):
    """What came of indexing."""

    indexer: RSEIndexer
    messages: list[str]


def add(
    way: Way, texts: dict[str, str], model: BagOfWords | None = None, **settings: Any
) -> Indexed:
    """Index texts, a chunk a line; the warnings there were."""
    store = InMemoryVectorStore(model or BagOfWords())
    indexer = RSEIndexer(store, SQLDocStore("sqlite://"), text_splitter=Lines(), **settings)
    documents = [Document(text, id=name) for name, text in texts.items()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        way.call(indexer.add_documents, indexer.aadd_documents, documents)
    return Indexed(indexer=indexer, messages=[str(warning.message) for warning in caught])


TEXTS = {"a": "one two\none two three four\none\n", "b": "one two three\none two three four five\n"}


def test_one_warning_counts_all_texts_that_are_too_long(way: Way) -> None:
    indexed = add(way, TEXTS, max_embedded_length=3, embedded_length_function=words, batch_size=2)
    assert len(indexed.messages) == 1
    message = indexed.messages[0]
    assert message.startswith("2 of 5 embedded texts are longer than the 3 ")
    assert "the longest has 5" in message
    assert "TokenSplitter" in message


def test_the_warning_points_at_the_call() -> None:
    indexer = RSEIndexer(
        InMemoryVectorStore(BagOfWords()), SQLDocStore("sqlite://"), max_embedded_length=3
    )
    with pytest.warns(UserWarning, match="1 of 1 embedded texts") as caught:
        indexer.add_documents([Document("four", id="a")])
    assert caught[0].filename == __file__


def test_what_fits_is_not_warned_of(way: Way) -> None:
    indexed = add(way, TEXTS, max_embedded_length=5, embedded_length_function=words)
    assert indexed.messages == []


def test_each_call_counts_anew(way: Way) -> None:
    indexer = add(way, TEXTS, max_embedded_length=3, embedded_length_function=words).indexer
    more = [Document("one two three four five six", id="c")]
    with pytest.warns(UserWarning, match=r"^1 of 1 embedded texts"):
        way.call(indexer.add_documents, indexer.aadd_documents, more)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is there already is not embedded again
        way.call(indexer.add_documents, indexer.aadd_documents, more)


def test_without_a_length_function_and_a_tokenizer_characters_count(way: Way) -> None:
    (message,) = add(way, TEXTS, max_embedded_length=20).messages
    assert message.startswith("1 of 5 embedded texts are longer than the 20 characters")


KNOWN: dict[str, Callable[[], BagOfWords]] = {
    "sentence-transformers, client": lambda: Model(
        client=SimpleNamespace(max_seq_length=3, tokenizer=word_tokenizer())
    ),
    "sentence-transformers, _client": lambda: Model(
        _client=SimpleNamespace(
            max_seq_length=3,
            tokenizer=SimpleNamespace(backend_tokenizer=word_tokenizer(), model_max_length=512),
        )
    ),
    "transformers": lambda: Model(
        tokenizer=SimpleNamespace(backend_tokenizer=word_tokenizer(), model_max_length=3)
    ),
    "a tokenizer that truncates": lambda: Model(tokenizer=word_tokenizer(truncate=3)),
}


@pytest.mark.parametrize("model", KNOWN.values(), ids=KNOWN)
def test_limits_are_known_of_models_that_tell(way: Way, model: Callable[[], BagOfWords]) -> None:
    (message,) = add(way, TEXTS, model()).messages
    assert message.startswith("2 of 5 embedded texts are longer than the 3 tokens")
    assert "the longest has 5" in message


@pytest.mark.parametrize("model", KNOWN.values(), ids=KNOWN)
def test_a_limit_that_is_given_counts_more(way: Way, model: Callable[[], BagOfWords]) -> None:
    (message,) = add(way, TEXTS, model(), max_embedded_length=4).messages
    assert message.startswith("1 of 5 embedded texts are longer than the 4 tokens")


NOT_KNOWN: dict[str, Callable[[], BagOfWords]] = {
    "nothing": BagOfWords,
    "no limit": lambda: Model(
        tokenizer=SimpleNamespace(backend_tokenizer=word_tokenizer(), model_max_length=10**30)
    ),
    "a tokenizer of another kind": lambda: Model(tokenizer=str.split, max_seq_length=3),
    "a limit without a tokenizer": lambda: Model(client=SimpleNamespace(max_seq_length=3)),
    "no number": lambda: Model(
        client=SimpleNamespace(max_seq_length="3", tokenizer=word_tokenizer())
    ),
}


@pytest.mark.parametrize("model", NOT_KNOWN.values(), ids=NOT_KNOWN)
def test_nothing_is_said_of_models_that_do_not_tell(
    way: Way, model: Callable[[], BagOfWords]
) -> None:
    assert add(way, TEXTS, model()).messages == []


def test_without_the_package_tokenizers_no_limit_is_known(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = KNOWN["a tokenizer that truncates"]()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert add(way, TEXTS, model).messages == []


def test_lone_surrogates_are_counted(way: Way) -> None:
    texts = {"a": "one \ud800 two three"}
    (message,) = add(way, texts, KNOWN["transformers"]()).messages
    assert "the longest has 4" in message


class TestOpenAI:
    def limit_of(self, texts: list[str]) -> str:
        store = InMemoryVectorStore(
            OpenAIEmbeddings(api_key="none", model="text-embedding-3-small")  # type: ignore[arg-type]
        )
        limit = RSEIndexer(store, SQLDocStore("sqlite://"))._limit
        assert limit is not None
        limit.look_at(texts)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            limit.warn(stacklevel=1)
        return "".join(str(warning.message) for warning in caught)

    def test_short_texts_need_no_vocabulary(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(name: str) -> None:
            pytest.fail(f"downloads {name}")

        monkeypatch.setattr(tiktoken, "encoding_for_model", fail)
        assert self.limit_of(["word " * 1600]) == ""

    def test_long_ones_are_counted_by_tiktoken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoding = tiktoken.Encoding(
            "by hand",
            pat_str=r"\S+|\s+",
            mergeable_ranks={bytes([byte]): byte for byte in range(256)} | {b"ab": 256},
            special_tokens={},
        )
        monkeypatch.setattr(
            tiktoken, "encoding_for_model", {"text-embedding-3-small": encoding}.get
        )
        message = self.limit_of(["ab" * 8191, "ab" * 8192])
        assert message.startswith("1 of 2 embedded texts are longer than the 8191 tokens")
        assert "the longest has 8192" in message

    def test_offline_they_are_estimated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def offline(name: str) -> None:
            raise OSError(name)

        monkeypatch.setattr(tiktoken, "encoding_for_model", offline)
        message = self.limit_of(["word" * 8191, "word" * 9000])
        assert message.startswith("1 of 2 embedded texts are longer")
        assert "the longest has 9000" in message


@pytest.mark.parametrize("most", [0, -1, True])
def test_a_limit_below_one_is_refused(most: Any) -> None:
    with pytest.raises(ValueError, match=r"max_embedded_length must be at least 1; got"):
        RSEIndexer(
            InMemoryVectorStore(BagOfWords()), SQLDocStore("sqlite://"), max_embedded_length=most
        )


def test_a_length_function_needs_a_limit() -> None:
    with pytest.raises(ValueError, match=r"needs a limit in its units; add max_embedded_length"):
        RSEIndexer(
            InMemoryVectorStore(BagOfWords()),
            SQLDocStore("sqlite://"),
            embedded_length_function=words,
        )


def test_a_length_function_that_gives_no_number_is_an_error(way: Way) -> None:
    with pytest.raises(ValueError, match=r"length_function must return a finite number"):
        add(way, TEXTS, max_embedded_length=3, embedded_length_function=lambda _: None)


def test_a_retriever_takes_the_limit_as_well(way: Way) -> None:
    stores: dict[str, Any] = {
        "vectorstore": InMemoryVectorStore(BagOfWords()),
        "docstore": SQLDocStore("sqlite://"),
    }
    retriever = RSERetriever(**stores, max_embedded_length=2, embedded_length_function=words)
    with pytest.warns(UserWarning, match="2"):
        way.add(retriever, [Document("one two three", id="a")])
    with pytest.raises(ValueError, match="max_embedded_length must be at least 1; got 0"):
        RSERetriever(**stores, max_embedded_length=0)
