from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from tokenizers import Tokenizer, models, pre_tokenizers

from langchain_rse import RSEIndexer, SQLDocStore
from tests.unit_tests import fakes
from tests.unit_tests.fakes import BagOfWords, Lines, Way, words

way = fakes.way


class Model(BagOfWords):
    """Has what models say of themselves."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        vars(self).update(attributes)


class Indexed(SimpleNamespace):
    """What came of indexing."""

    indexer: RSEIndexer
    messages: list[str]


def add(texts: dict[str, str], model: BagOfWords | None = None, **settings: Any) -> Indexed:
    """Index texts, a chunk a line; the warnings there were."""
    store = InMemoryVectorStore(model or BagOfWords())
    indexer = RSEIndexer(store, SQLDocStore("sqlite://"), text_splitter=Lines(), **settings)
    documents = [Document(text, id=name) for name, text in texts.items()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        indexer.add_documents(documents)
    return Indexed(indexer=indexer, messages=[str(warning.message) for warning in caught])


TEXTS = {"a": "one two\none two three four\none\n", "b": "one two three\none two three four five\n"}


def test_one_warning_counts_all_texts_that_are_too_long() -> None:
    indexed = add(TEXTS, max_embedded_length=3, embedded_length_function=words, batch_size=2)
    assert len(indexed.messages) == 1
    message = indexed.messages[0]
    assert message.startswith("2 of 5 embedded texts exceed the embedding model's limit of 3 ")
    assert "the longest has 5" in message
    assert "Use a smaller chunk_size, counted in tokens" in message


def test_each_call_counts_anew(way: Way) -> None:
    indexer = add(TEXTS, max_embedded_length=3, embedded_length_function=words).indexer
    more = [Document("one two three four five six", id="c")]
    with pytest.warns(UserWarning, match=r"^1 of 1 embedded texts"):
        way.call(indexer.add_documents, indexer.aadd_documents, more)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is there already is not embedded again
        way.call(indexer.add_documents, indexer.aadd_documents, more)


def test_without_a_length_function_and_a_tokenizer_characters_count() -> None:
    (message,) = add(TEXTS, max_embedded_length=20).messages
    assert message.startswith(
        "1 of 5 embedded texts exceed the embedding model's limit of 20 characters"
    )


def sentence_model(folder: Path, limit: object = 3) -> Model:
    """As HuggingFaceEmbeddings, whose model nobody else can read: a token a word."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_truncation(2)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = json.dumps({"max_seq_length": limit})
    (folder / "sentence_bert_config.json").write_text(config)
    return Model(model_name=str(folder), cache_folder=None)


def test_the_limit_of_a_model_of_sentence_transformers_is_known(tmp_path: Path) -> None:
    model = sentence_model(tmp_path)
    (message,) = add(TEXTS, model).messages
    assert message.startswith(
        "2 of 5 embedded texts exceed the embedding model's limit of 3 tokens"
    )
    assert "the longest has 5" in message
    (message,) = add(TEXTS, model, max_embedded_length=4).messages
    assert message.startswith(
        "1 of 5 embedded texts exceed the embedding model's limit of 4 tokens"
    )
    (message,) = add({"a": "one \ud800 two three"}, model).messages
    assert "the longest has 4" in message


def test_nothing_is_said_of_models_that_do_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert add(TEXTS, BagOfWords()).messages == []
    assert add(TEXTS, Model(model_name="no/such-model")).messages == []
    assert add(TEXTS, sentence_model(tmp_path, None)).messages == []
    model = sentence_model(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert add(TEXTS, model).messages == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_embedded_length": 0}, "max_embedded_length must be at least 1; got"),
        ({"embedded_length_function": words}, "needs a limit.*: max_embedded_length"),
    ],
)
def test_wrong_limits_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RSEIndexer(InMemoryVectorStore(BagOfWords()), SQLDocStore("sqlite://"), **settings)
