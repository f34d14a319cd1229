"""Spans of RecursiveCharacterTextSplitter: the same as from its own chunks, looked for."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pydoc_data.topics import topics
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_text_splitters import CharacterTextSplitter, Language, RecursiveCharacterTextSplitter

from langchain_rse import recursive
from langchain_rse.indexing import default_text_splitter
from langchain_rse.recursive import recursive_cuts
from langchain_rse.splitting import Span, SplittingError, _cut_spans, _find_spans, split_spans
from tests.unit_tests.test_splitting import ALPHABETS, TEXTS

Recursive = RecursiveCharacterTextSplitter
KEPT = [True, "start", "end"]
PARTS = [
    *ALPHABETS,
    ["a", "-", "--", "---"],
    ["a", "\n", "\n\n", "\n\n\n", " "],
    ["one", "two", "three", "four", "seven", " ", " ", "\n", ". "],
    [*"abcdefghijklmnopqrstuvwxyz    "],
    ["a" * 40, "b" * 17, " ", "\n"],
    [" ", "\n", "\t", "\u3000", "\x85"],
]
SEPARATORS = [
    *("\n\n", "\n", " ", "", "a", "ab", "aba", "aa", "--", ".", ". ", "\r\n", "\x00", "😀"),
    *("\ud800", "\n \n", "  ", "\u0301"),
]


class Outcome(NamedTuple):
    spans: list[Span] | str
    warnings: list[str]
    logged: list[str]


class Logged(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def _logged() -> Iterator[list[str]]:
    handler = Logged()
    logger = logging.getLogger("langchain_text_splitters")
    logger.addHandler(handler)
    yield handler.messages
    logger.removeHandler(handler)


def _outcome(spans: Callable[[], list[Span]]) -> Outcome:
    with warnings.catch_warnings(record=True) as caught, _logged() as messages:
        warnings.simplefilter("always")
        try:
            result: list[Span] | str = spans()
        except SplittingError as error:
            result = str(error)
    return Outcome(result, [str(warning.message) for warning in caught], messages)


def _looked_for(text: str, splitter: Any) -> Outcome:
    """What comes of the chunks that the splitter itself returns."""

    def spans() -> list[Span]:
        return _find_spans(text, splitter.split_text(text), type(splitter).__name__)

    return _outcome(spans)


def _assert_the_same(text: str, splitter: Any) -> None:
    cuts = recursive_cuts(text, splitter)

    assert cuts is not None
    assert cuts.chunks == splitter.split_text(text)
    for start, chunk in zip(cuts.starts, cuts.chunks, strict=True):
        assert text.startswith(chunk, start)
    assert _outcome(lambda: split_spans(text, splitter)) == _looked_for(text, splitter)


@st.composite
def splitters(draw: st.DrawFn) -> RecursiveCharacterTextSplitter:
    size = draw(st.sampled_from([3, 8, 30]).flatmap(lambda most: st.integers(1, most)))
    separators = st.one_of(
        st.none(),
        st.sampled_from([["\n\n", "\n", " "], ["\n\n", "\n", ". ", " ", ""], ["--", "a", " "]]),
        st.lists(st.sampled_from(SEPARATORS), min_size=1, max_size=4),
    )
    return RecursiveCharacterTextSplitter(
        draw(separators),
        chunk_size=size,
        chunk_overlap=draw(st.one_of(st.just(0), st.integers(0, size // 3), st.integers(0, size))),
        keep_separator=draw(st.sampled_from(KEPT)),
        strip_whitespace=draw(st.booleans()),
    )


@example("seven. three", Recursive(chunk_size=2, chunk_overlap=2))  # two chunks start at one place
@example("ab ab ab ab", Recursive(chunk_size=5, chunk_overlap=3))  # a chunk is there twice
@example("a\n\n\nb\n\n\n\nc", Recursive(["\n\n"], chunk_size=3, chunk_overlap=0))
@example("a-----b---c", Recursive(["--"], chunk_size=4, chunk_overlap=2, keep_separator="end"))
@example("a  bbbb", Recursive([" "], chunk_size=3, chunk_overlap=0))  # " bbbb" is not stripped
@example(" ", Recursive([" "], chunk_size=1, chunk_overlap=0))  # a chunk of white space
@given(
    st.one_of(
        TEXTS.filter(bool),
        st.sampled_from(PARTS)
        .flatmap(lambda parts: st.lists(st.sampled_from(parts), min_size=1, max_size=80))
        .map("".join),
    ),
    splitters(),
)
def test_spans_are_those_of_the_chunks_that_the_splitter_returns(
    text: str, splitter: RecursiveCharacterTextSplitter
) -> None:
    _assert_the_same(text, splitter)


@pytest.mark.parametrize("keep", ["start", "end"])
@pytest.mark.parametrize("strip", [True, False])
@pytest.mark.parametrize(("size", "overlap"), [(800, 0), (800, 100), (60, 0), (60, 59)])
def test_spans_of_a_book(size: int, overlap: int, keep: Any, strip: bool) -> None:  # noqa: FBT001
    text = "\n\n".join(topics.values())[:100_000]
    splitter = Recursive(
        chunk_size=size, chunk_overlap=overlap, keep_separator=keep, strip_whitespace=strip
    )

    _assert_the_same(text, splitter)


@pytest.mark.parametrize("overlap", [0, 100])
def test_spans_of_most_texts_need_no_looking_for(overlap: int) -> None:
    splitter = Recursive(chunk_size=800, chunk_overlap=overlap)
    cuts = {topic: recursive_cuts(text, splitter) for topic, text in topics.items()}

    looked_for = [
        topic for topic, some in cuts.items() if not some or not _cut_spans(topics[topic], some)
    ]

    assert len(looked_for) < len(topics) / 20


@pytest.mark.parametrize(
    ("settings", "text", "spans"),
    [
        ({}, "one two six", [Span(0, 4, "one"), Span(4, 8, "two"), Span(8, 11, "six")]),
        ({}, "\n one \n\n two  ", [Span(0, 9, "one"), Span(9, 14, "two")]),
        # The separator stays with what follows, or with what is before it.
        ({"separators": ["-"]}, "one-two", [Span(0, 3, "one"), Span(3, 7, "-two")]),
        (
            {"separators": ["-"], "keep_separator": "end"},
            "one-two",
            [Span(0, 4, "one-"), Span(4, 7, "two")],
        ),
        # Of three dashes, the first two are the separator.
        ({"separators": ["--"]}, "one---a", [Span(0, 3, "one"), Span(3, 7, "---a")]),
        # What no separator cuts stays as long as it is; else it is cut between characters.
        ({"separators": [" "]}, "a seventeen", [Span(0, 1, "a"), Span(1, 11, " seventeen")]),
        ({}, "seventeen", [Span(0, 4, "seve"), Span(4, 8, "ntee"), Span(8, 9, "n")]),
        (
            {"chunk_size": 8, "chunk_overlap": 4},
            "one two six ten",
            [Span(0, 4, "one two"), Span(4, 8, "two six"), Span(8, 15, "six ten")],
        ),
        (
            {"chunk_size": 4, "chunk_overlap": 1, "separators": [""]},
            "abcdefgh",
            [Span(0, 3, "abcd"), Span(3, 6, "defg"), Span(6, 8, "gh")],
        ),
        ({"strip_whitespace": False}, "one two", [Span(0, 3, "one"), Span(3, 7, " two")]),
        ({}, " \n ", [Span(0, 3, " \n ")]),
    ],
)
def test_where_a_text_is_cut(settings: dict[str, Any], text: str, spans: list[Span]) -> None:
    splitter = Recursive(**{"chunk_size": 4, "chunk_overlap": 0, **settings})

    assert recursive_cuts(text, splitter) is not None
    assert split_spans(text, splitter) == spans


def test_the_default_splitter_is_one_whose_cuts_are_known() -> None:
    assert recursive_cuts("a text", default_text_splitter()) is not None


class Counting(RecursiveCharacterTextSplitter):
    calls = 0

    def split_text(self, text: str) -> list[str]:
        self.calls += 1
        return super().split_text(text)


def test_a_subclass_splits_the_text_itself() -> None:
    splitter = Counting(chunk_size=4, chunk_overlap=0)

    spans = split_spans("one two six", splitter)

    assert splitter.calls == 1
    assert spans == [Span(0, 4, "one"), Span(4, 8, "two"), Span(8, 11, "six")]


@pytest.mark.parametrize("where", ["class", "instance"])
@pytest.mark.parametrize("name", ["split_text", "_split_text", "_merge_splits", "_join_docs"])
def test_methods_that_were_replaced_are_called(
    name: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    splitter = Recursive(chunk_size=4, chunk_overlap=0)
    calls = []
    own = getattr(Recursive if where == "class" else splitter, name)

    def spy(*args: Any) -> Any:
        calls.append(args)
        return own(*args)

    monkeypatch.setattr(Recursive if where == "class" else splitter, name, spy)
    spans = split_spans("one two six", splitter)

    assert calls
    assert spans == [Span(0, 4, "one"), Span(4, 8, "two"), Span(8, 11, "six")]


@pytest.mark.parametrize(
    "splitter",
    [
        Recursive(chunk_size=4, chunk_overlap=0, length_function=lambda text: len(text.encode())),
        Recursive(chunk_size=4, chunk_overlap=0, keep_separator=False),
        Recursive(["\\s"], chunk_size=4, chunk_overlap=0, is_separator_regex=True),
        Recursive([" "] * 101, chunk_size=4, chunk_overlap=0),
        Recursive.from_language(Language.PYTHON, chunk_size=4, chunk_overlap=0),
        CharacterTextSplitter(" ", chunk_size=4, chunk_overlap=0),
    ],
    ids=["length", "separators dropped", "regex", "separators", "language", "class"],
)
def test_other_settings_are_left_to_the_splitter(splitter: Any) -> None:
    text = "one two six"

    assert recursive_cuts(text, splitter) is None
    assert _outcome(lambda: split_spans(text, splitter)) == _looked_for(text, splitter)


def test_tokens_of_a_model_are_left_to_the_splitter(monkeypatch: pytest.MonkeyPatch) -> None:
    import tiktoken
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    single = {bytes([value]): value for value in range(256)}
    by_bytes = tiktoken.Encoding(
        "bytes", pat_str=r"\S+|\s+", mergeable_ranks=single, special_tokens={}
    )
    monkeypatch.setattr(tiktoken, "get_encoding", lambda _: by_bytes)
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))  # noqa: S106
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    make: Any = PreTrainedTokenizerFast
    settings: dict[str, Any] = {"chunk_size": 4, "chunk_overlap": 0}
    by_words: Any = Recursive.from_huggingface_tokenizer(make(tokenizer_object=words), **settings)
    text = "é é é é é é"

    spans = [
        split_spans(text, splitter)
        for splitter in (by_words, Recursive.from_tiktoken_encoder("bytes", **settings))
    ]

    assert [span.embedded_text for span in spans[0]] == ["é é é é", "é é"]
    assert [span.embedded_text for span in spans[1]] == ["é"] * 6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_chunk_size", 4.5),
        ("_chunk_size", 0),
        ("_chunk_overlap", -1),
        ("_chunk_overlap", 1.5),
        ("_separators", (" ", "")),
        ("_separators", []),
        ("_separators", [b" "]),
        ("_keep_separator", "middle"),
        ("_keep_separator", [1]),
        ("_of_a_later_version", 1),
    ],
)
def test_settings_that_langchain_does_not_take_do_what_they_do_there(name: str, value: Any) -> None:
    splitter = Recursive(chunk_size=4, chunk_overlap=0)
    setattr(splitter, name, value)
    text = "one two six"

    def outcome(spans: Callable[[], list[Span]]) -> list[Span] | type[Exception]:
        try:
            return spans()
        except (IndexError, TypeError) as error:
            return type(error)

    assert recursive_cuts(text, splitter) is None
    assert outcome(lambda: split_spans(text, splitter)) == outcome(
        lambda: _find_spans(text, splitter.split_text(text), "")
    )


def test_a_langchain_that_cuts_otherwise_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaced before this package was imported: as if another version were installed."""

    def merge(_: object, splits: list[str], __: str) -> list[str]:
        return splits

    monkeypatch.setattr(Recursive, "_merge_splits", merge)
    monkeypatch.setattr(recursive, "_METHODS", recursive._methods())
    recursive._is_known.cache_clear()
    try:
        spans = split_spans("one\ntwo six", Recursive(chunk_size=9, chunk_overlap=0))
    finally:
        recursive._is_known.cache_clear()

    assert [span.embedded_text for span in spans] == ["one", "\ntwo six"]
