"""Chunks of 256 tokens with 32 of overlap, by LangChain's splitters: none is cut off, none lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import tiktoken
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter, TokenTextSplitter
from tokenizers import Tokenizer, models, pre_tokenizers

from langchain_rse import RSEIndexer
from langchain_rse.headers import DocumentHeaders
from langchain_rse.ingest.splitting import Splitter, find_spans
from tests.unit_tests import fakes

SIZE, OVERLAP = 256, 32

WORDS = ["heron", "harbor", "margin", "rose", "by", "two", "points", "in", "the", "water"]


def make_text(words: int) -> str:
    """Paragraphs of sentences of numbered words, so that no two places are alike."""
    chance = random.Random(7)  # noqa: S311 - reproducible
    parts: list[str] = []
    for number in range(words):
        parts.append(f"{chance.choice(WORDS)}{number}")
        parts.append(chance.choice([" ", " ", " ", ", ", ". ", ".\n\n"]))
    return "".join(parts)


TEXT = make_text(3_000)


def words_tokenizer() -> Any:
    """Each word and each sign is a token."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    from transformers import PreTrainedTokenizerFast

    make: Any = PreTrainedTokenizerFast
    return make(tokenizer_object=tokenizer, unk_token="[UNK]")  # noqa: S106


def words_encoding() -> tiktoken.Encoding:
    """Each letter is a token, and so are the words of the text."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    for word in WORDS:
        for length in range(2, len(word) + 1):
            ranks.setdefault(word[:length].encode(), len(ranks))
    return tiktoken.Encoding(
        "words", pat_str=r"[a-z]+|\d+|\s+|[^\w\s]+", mergeable_ranks=ranks, special_tokens={}
    )


class Kind(NamedTuple):
    """A splitter by tokens, and the function that counts them."""

    make: Callable[[int, int], Splitter]  # of chunk size and overlap
    count: Callable[[str], int]


@pytest.fixture(params=["hugging face", "tiktoken", "tokens"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    encoding = words_encoding()
    tokenizer = words_tokenizer()
    monkeypatch.setattr(tiktoken, "get_encoding", lambda _: encoding)

    def by_hugging_face(size: int, overlap: int) -> Splitter:
        return RecursiveCharacterTextSplitter.from_huggingface_tokenizer(
            tokenizer, chunk_size=size, chunk_overlap=overlap
        )

    def by_tiktoken(size: int, overlap: int) -> Splitter:
        return RecursiveCharacterTextSplitter.from_tiktoken_encoder(
            "words", chunk_size=size, chunk_overlap=overlap
        )

    def by_tokens(size: int, overlap: int) -> Splitter:
        return TokenTextSplitter("words", chunk_size=size, chunk_overlap=overlap)

    if request.param == "hugging face":
        return Kind(by_hugging_face, lambda text: len(tokenizer.tokenize(text)))
    make = by_tiktoken if request.param == "tiktoken" else by_tokens
    return Kind(make, lambda text: len(encoding.encode_ordinary(text)))


def test_chunks_lie_exactly_where_they_were_cut(kind: Kind) -> None:
    splitter = kind.make(SIZE, OVERLAP)
    spans = find_spans(TEXT, splitter)
    assert [span.embedded_text for span in spans] == list(splitter.split_text(TEXT))
    assert len(spans) > 10
    assert "".join(TEXT[span.start : span.end] for span in spans) == TEXT
    for span in spans:
        assert TEXT.startswith(span.embedded_text, span.start)
        assert kind.count(span.embedded_text) <= SIZE
    for span, next_span in pairwise(spans):
        # The overlap is embedded with both, and belongs to the span of the second.
        overlap = TEXT[next_span.start : span.start + len(span.embedded_text)]
        assert kind.count(overlap) <= OVERLAP
        assert next_span.embedded_text.startswith(overlap)


def test_chunks_with_headers_fit_if_room_is_left_for_them(kind: Kind) -> None:
    """As ``docs/splitters.md`` has it."""
    title = "the water of the harbor"
    header_tokens = kind.count(f"{title}\n\n")
    vectorstore = InMemoryVectorStore(fakes.BagOfWords())
    indexer = RSEIndexer(
        vectorstore,
        InMemoryStore(),
        text_splitter=kind.make(SIZE - header_tokens, OVERLAP),
        headers=DocumentHeaders(template="{title}"),
    )
    indexer.add_documents([Document(TEXT, metadata={"title": title})])
    embedded = [str(row["text"]) for row in vectorstore.store.values()]
    assert all(text.startswith(f"{title}\n\n") for text in embedded)
    assert max(kind.count(text) for text in embedded) <= SIZE
    assert max(kind.count(text) for text in embedded) > SIZE / 2
