from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import TextSplitter
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from langchain_rse import RSEIndexer, SQLDocStore
from langchain_rse.errors import SplittingError
from langchain_rse.ingest.splitting import Span
from langchain_rse.ingest.tokens import TokenSplitter
from tests.unit_tests.fakes import BagOfWords
from tests.unit_tests.ingest.test_splitting import TEXTS

WORDS = ["one", "two", "three", "here", "sentence", "another", "para", "graph"]


def word_pieces() -> Tokenizer:
    """As BERT's: words, pieces of words, and [CLS] and [SEP] around; it truncates and pads."""
    letters = [chr(code) for code in range(33, 127)]
    names = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", *WORDS, *letters, *(f"##{c}" for c in letters)]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=20)  # noqa: S106
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=7)
    return tokenizer


def byte_pairs(*, prefix_space: bool) -> Tokenizer:
    """As GPT-2's or RoBERTa's: bytes, a few of them joined; a word begins with its space."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [
        ("t", "h"),
        ("th", "e"),
        ("Ġ", "the"),
        ("Ġ", "a"),
        ("Ċ", "Ċ"),
        ("o", "n"),
        ("on", "e"),
    ]
    names = [*alphabet, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({name: n for n, name in enumerate(names)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def unigrams() -> Tokenizer:
    """As T5's or XLM-R's, after NFKC, which makes several characters of some."""
    pieces = ["<unk>", "▁", "▁the", "▁a", *WORDS, *map(chr, range(97, 123))]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=0))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


def tiktokens() -> tiktoken.Encoding:
    pairs = [b"th", b"the", b" the", b" a", b"\n\n", b"one", b"\x98\x80"]
    ranks = {bytes([byte]): byte for byte in range(256)}
    return tiktoken.Encoding(
        "by hand",
        pat_str=r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
        mergeable_ranks=ranks | {pair: 256 + number for number, pair in enumerate(pairs)},
        special_tokens={"<|endoftext|>": 300},
    )


class Kind(NamedTuple):
    """A tokenizer, how a splitter is made of it, and what a model would count."""

    make: Callable[..., TokenSplitter]
    count: Callable[[str], int]
    special: int


def huggingface(tokenizer: Tokenizer) -> Kind:
    plain = Tokenizer.from_str(tokenizer.to_str())
    plain.no_truncation()
    plain.no_padding()

    def make(**settings: Any) -> TokenSplitter:
        return TokenSplitter.from_huggingface_tokenizer(tokenizer, **settings)

    special = len(plain.encode("").ids)
    return Kind(make, lambda text: len(plain.encode(text).ids), special)


def of_tiktoken() -> Kind:
    encoding = tiktokens()

    def make(**settings: Any) -> TokenSplitter:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tiktoken, "get_encoding", {"by hand": encoding}.__getitem__)
            return TokenSplitter.from_tiktoken_encoder("by hand", **settings)

    return Kind(make, lambda text: len(encoding.encode_ordinary(text)), 0)


KINDS = {
    "word pieces": huggingface(word_pieces()),
    "byte pairs": huggingface(byte_pairs(prefix_space=False)),
    "byte pairs, prefix": huggingface(byte_pairs(prefix_space=True)),
    "unigrams": huggingface(unigrams()),
    "tiktoken": of_tiktoken(),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def encodable(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


def check(text: str, spans: list[Span], kind: Kind, most: int) -> None:
    """Spans tile, what is embedded ends with the chunk, and nothing is too long."""
    assert "".join(text[span.start : span.end] for span in spans) == text
    end = 0
    for span in spans:
        assert (span.start, span.end > span.start) == (end, True)
        end = span.end
        own = text[span.start : span.end]
        assert span.embedded_text.endswith(own)
        assert text.endswith(span.embedded_text, 0, span.end)
        assert kind.count(encodable(span.embedded_text)) <= most


@kinds
@given(
    text=TEXTS,
    room=st.integers(20, 60),
    overlap=st.integers(0, 15),
    reserve=st.integers(0, 5),
)
def test_spans_tile_any_text_and_keep_to_the_limit(
    kind: Kind, text: str, room: int, overlap: int, reserve: int
) -> None:
    most = room + kind.special + reserve
    splitter = kind.make(tokens_per_chunk=most, chunk_overlap=overlap, reserve=reserve)
    spans = splitter.split_spans(text)
    check(text, spans, kind, most - reserve)
    assert splitter.split_text(text) == [span.embedded_text for span in spans]


@kinds
def test_a_long_text_is_filled_up_to_the_limit(kind: Kind) -> None:
    text = "the one here. a sentence\n\n" * 2000
    most = 100
    spans = kind.make(tokens_per_chunk=most).split_spans(text)
    check(text, spans, kind, most)
    lengths = [kind.count(span.embedded_text) for span in spans[:-1]]
    assert min(lengths) > most / 2


@kinds
@pytest.mark.parametrize(
    "text",
    ["a" * 20_000, " " * 20_000, "\n" * 20_000, "漢字。" * 5000, "👩\u200d👩\u200d👧" * 2000],
    ids=["one word", "spaces", "lines", "no spaces", "emoji"],
)
def test_texts_without_a_place_to_cut_are_cut_all_the_same(kind: Kind, text: str) -> None:
    spans = kind.make(tokens_per_chunk=50, chunk_overlap=10).split_spans(text)
    check(text, spans, kind, 50)
    assert len(spans) > 10


class TestWhereItCuts:
    def split(self, text: str, most: int, **settings: Any) -> list[str]:
        splitter = KINDS["word pieces"].make(tokens_per_chunk=most + 2, **settings)
        return [text[span.start : span.end] for span in splitter.split_spans(text)]

    @pytest.mark.parametrize(
        ("text", "chunks"),
        [
            (
                "one two.\n\nthree here one. two three one two",
                ["one two.\n\nthree here one. ", "two three one two"],
            ),
            (
                "one two three.\n\nhere one. two one two three",
                ["one two three.\n\n", "here one. two one two three"],
            ),
            (
                "one two three here. two three\none two three here one",
                ["one two three here. ", "two three\none two three here one"],
            ),
            (
                "one two three here two\nthree one one two three here",
                ["one two three here two\n", "three one one two three here"],
            ),
            (
                "one two three one two three one two three here one two",
                ["one two three one two three one two ", "three here one two"],
            ),
            (
                "one two three one two\r\n \r\nhere one two three here",
                ["one two three one two\r\n \r\n", "here one two three here"],
            ),
        ],
        ids=["early paragraph", "paragraph", "sentence", "line", "word", "empty line"],
    )
    def test_at_the_best_place_of_the_second_half(self, text: str, chunks: list[str]) -> None:
        assert self.split(text, 8) == chunks

    def test_not_inside_of_a_word(self) -> None:
        assert self.split("one abcdefgh two", 8) == ["one ", "abcdefgh ", "two"]

    def test_inside_of_a_word_that_is_longer_than_a_chunk(self) -> None:
        assert self.split("abcdefghijkl", 8) == ["abcdefgh", "ijkl"]

    def test_after_white_space_even_if_tokens_begin_with_it(self) -> None:
        splitter = KINDS["byte pairs"].make(tokens_per_chunk=4)
        assert splitter.split_text("the the the the the the") == ["the the the ", "the the the"]

    def test_not_inside_of_a_character(self) -> None:
        text = "😀" * 9
        assert KINDS["tiktoken"].make(tokens_per_chunk=7).split_text(text) == ["😀😀"] * 4 + ["😀"]


class TestOverlap:
    def test_whole_words_before_the_chunk_are_embedded_with_it(self) -> None:
        text = "one two three here one two three here one two"
        splitter = KINDS["word pieces"].make(tokens_per_chunk=6, chunk_overlap=2)
        spans = splitter.split_spans(text)
        assert [span.embedded_text for span in spans[:3]] == [
            "one two three here ",
            "three here one two ",
            "one two three here ",
        ]
        assert [text[span.start : span.end] for span in spans[:3]] == [
            "one two three here ",
            "one two ",
            "three here ",
        ]

    def test_a_word_is_not_overlapped_in_part(self) -> None:
        splitter = KINDS["word pieces"].make(tokens_per_chunk=10, chunk_overlap=3)
        spans = splitter.split_spans("one two abcde one two three here one two")
        assert spans[1].embedded_text == "one two three here one two"


def test_room_is_left_for_what_else_is_embedded() -> None:
    text = "one two three here para"
    splitter = KINDS["word pieces"].make(tokens_per_chunk=10, reserve=4)
    assert splitter.split_text(text) == ["one two three here ", "para"]


@pytest.mark.parametrize("settings", [{"reserve": 8}, {"chunk_overlap": 8}])
def test_no_room_for_text_is_an_error(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"tokens_per_chunk=10 leaves no room for text"):
        KINDS["word pieces"].make(tokens_per_chunk=10, **settings)


def test_a_character_of_more_tokens_than_a_chunk_is_an_error_that_names_it() -> None:
    splitter = KINDS["byte pairs"].make(tokens_per_chunk=3)
    with pytest.raises(SplittingError, match=r"the character '😀' at 2 is 4 tokens"):
        splitter.split_spans("ab😀")


def test_special_tokens_in_a_text_are_text() -> None:
    text = "one <|endoftext|> two"
    assert KINDS["tiktoken"].make(tokens_per_chunk=50).split_text(text) == [text]
    assert KINDS["tiktoken"].make().count("<|endoftext|>") > 1


def test_the_tokenizer_is_left_as_it_was() -> None:
    tokenizer = word_pieces()
    before = tokenizer.to_str()
    TokenSplitter.from_huggingface_tokenizer(tokenizer).split_text("one two " * 50)
    assert tokenizer.to_str() == before


def test_a_fast_tokenizer_of_transformers_is_taken_by_its_backend() -> None:
    class Fast:
        backend_tokenizer = word_pieces()

    splitter = TokenSplitter.from_huggingface_tokenizer(Fast(), tokens_per_chunk=4)
    assert splitter.split_text("one two three") == ["one two ", "three"]


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match=r"tokenizers.Tokenizer or a fast tokenizer .* got str"):
        TokenSplitter.from_huggingface_tokenizer("bert-base-uncased")


def test_encodings_are_found_by_the_names_of_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken, "get_encoding", {"by hand": tiktokens()}.__getitem__)
    monkeypatch.setattr(tiktoken, "encoding_name_for_model", {"model": "by hand"}.__getitem__)
    for splitter in (
        TokenSplitter.from_tiktoken_encoder("by hand", tokens_per_chunk=7),
        TokenSplitter.from_tiktoken_encoder(model_name="model", tokens_per_chunk=7),
    ):
        assert splitter.split_text("one two three") == ["one two ", "three"]


def test_what_is_embedded_keeps_to_the_limit() -> None:
    kind = KINDS["word pieces"]
    text = "one two three. here\n\nanother sentence, abcdefgh graph. " * 40
    splitter = kind.make(tokens_per_chunk=24, chunk_overlap=6)
    assert isinstance(splitter, TextSplitter)
    store = InMemoryVectorStore(BagOfWords())
    RSEIndexer(store, SQLDocStore("sqlite://"), text_splitter=splitter).add_documents(
        [Document(text, id="a")]
    )
    embedded = [entry["text"] for entry in store.store.values()]
    assert sorted(embedded) == sorted(splitter.split_text(text))
    assert max(map(kind.count, embedded)) <= 24
