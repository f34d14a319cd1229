"""LangChain's own splitters that change the text: each tiles it, or is refused with a reason."""

from __future__ import annotations

import re
import sys
import types
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import (
    HTMLHeaderTextSplitter,
    HTMLSectionSplitter,
    HTMLSemanticPreservingSplitter,
    MarkdownHeaderTextSplitter,
    SentenceTransformersTokenTextSplitter,
    TokenTextSplitter,
)

from langchain_rse import RSEIndexer, RSERetriever
from langchain_rse.errors import SplittingError
from langchain_rse.ingest.splitting import Span, Splitter, find_spans
from tests.unit_tests import fakes

way = fakes.way

SENTENCES = (
    "The whale swam past Ürümqi's “old” harbor. ",
    "It cost $1,234.50 in fiscal 2018, i.e. 3.5% more; costs rose 12%. ",
    "None. ",
    "Ein Café führt Œuvres, ﬁne ﬁgures and naïve co\u00adoperation.\r\n\r\n",
    "שלום עולם! مرحبا بالعالم. ",
    "漢字かな 😀👩\u200d👩\u200d👧 e\u0301a\u0308. ",
    "| 0.00 | 0.00 | 0.00 |\n",
    "U.S.A. -- don't; x_y_z? (see p. 12) [UNK] <unk>\ufffd\n",
)
TEXTS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=60).map("".join)


def _assert_tiled(text: str, spans: Sequence[Span]) -> None:
    assert all(before.end == after.start for before, after in pairwise(spans))
    assert all(span.start < span.end for span in spans)
    assert "".join(text[span.start : span.end] for span in spans) == text


@pytest.fixture(scope="module")
def bert() -> Any:
    """A tokenizer as BERT has it: lower case, no accents, pieces of words, [UNK]."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = BertWordPieceTokenizer(lowercase=True)
    known = [text for text in SENTENCES if "漢" not in text and "ש" not in text]
    known += [" ".join(map(str, range(1_000)))]
    tokenizer.train_from_iterator(known, vocab_size=300, show_progress=False)
    special = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    make: Any = PreTrainedTokenizerFast
    return make(tokenizer_object=tokenizer, **special)


@pytest.fixture(scope="module")
def sentence_transformers(bert: Any) -> Any:
    """Makes the splitter over that tokenizer; the model itself is not needed."""

    class SentenceTransformer:
        def __init__(self, _: str) -> None:
            self.tokenizer = bert
            self.max_seq_length = 256

    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sentence_transformers", module)
        yield lambda size, overlap: SentenceTransformersTokenTextSplitter(
            tokens_per_chunk=size, chunk_overlap=overlap
        )


_COSTS = "It cost $1,234.50 in fiscal 2018, i.e. 3.5% more; costs rose 12%. "


# Words that are not known, between sentences that are there several times.
@example(text=f"{_COSTS * 2}שלום עולם! مرحبا بالعالم. {_COSTS * 2}", size=47, share=0)
@given(text=TEXTS, size=st.integers(8, 64), share=st.sampled_from([0, 0.125, 0.5]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_splitter_by_the_tokens_of_an_embedding_model(
    sentence_transformers: Any, text: str, size: int, share: float
) -> None:
    splitter = sentence_transformers(size, int(size * share))

    spans = find_spans(text, splitter)

    _assert_tiled(text, spans)
    chunks = iter(splitter.split_text(text))
    nothing_known = spans == [Span(0, len(text), text)]
    assert nothing_known or all(span.embedded_text in chunks for span in spans)


@pytest.mark.parametrize("overlap", [0, 3])
@given(text=TEXTS, size=st.integers(4, 40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_splitter_that_cuts_characters_in_two(
    monkeypatch: pytest.MonkeyPatch, text: str, size: int, overlap: int
) -> None:
    import tiktoken

    by_bytes = tiktoken.Encoding(
        name="bytes",
        pat_str=r"\S+|\s+",
        mergeable_ranks={bytes([number]): number for number in range(256)},
        special_tokens={},
    )
    monkeypatch.setattr(tiktoken, "get_encoding", lambda _: by_bytes)
    splitter = TokenTextSplitter(chunk_size=size, chunk_overlap=overlap)

    spans = find_spans(text, splitter)

    _assert_tiled(text, spans)


MARKDOWN = """Intro.

# Guide

Words of the guide. None.

## Setup

None.

```python
# no heading
x = 1
```

## Use

None.

- one
- two

# Last

Épilogue.
"""
SECTIONS = [
    ("Intro.\n\n", {}),
    ("# Guide\n\nWords of the guide. None.\n\n", {"part": "Guide"}),
    (
        "## Setup\n\nNone.\n\n```python\n# no heading\nx = 1\n```\n\n",
        {"part": "Guide", "section": "Setup"},
    ),
    ("## Use\n\nNone.\n\n- one\n- two\n\n", {"part": "Guide", "section": "Use"}),
    ("# Last\n\nÉpilogue.\n", {"part": "Last"}),
]
HEADINGS = [("#", "part"), ("##", "section")]


@pytest.mark.parametrize("strip_headers", [True, False])
def test_headings_that_become_metadata_stay_with_their_section(strip_headers: bool) -> None:  # noqa: FBT001
    splitter = MarkdownHeaderTextSplitter(HEADINGS, strip_headers=strip_headers)

    spans = find_spans(MARKDOWN, splitter)

    assert [(MARKDOWN[span.start : span.end], span.metadata) for span in spans] == SECTIONS
    assert [span.embedded_text for span in spans] == [
        document.page_content for document in splitter.split_text(MARKDOWN)
    ]


def test_the_headings_of_a_passage_are_in_its_metadata(way: fakes.Way) -> None:
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=InMemoryByteStore(),
        text_splitter=MarkdownHeaderTextSplitter(HEADINGS),
        config=fakes.EVERYTHING,
    )
    way.add(retriever, [Document(MARKDOWN, metadata={"source": "guide.md"})])

    (passage,) = way.invoke(retriever, "one two")

    assert passage.page_content == MARKDOWN
    assert passage.metadata["part_end"] == "Last"
    plain = retriever.model_copy(update={"config": fakes.PLAIN})
    (hit,) = way.invoke(plain, "one two")
    assert hit.page_content == SECTIONS[3][0]
    assert (hit.metadata["part_start"], hit.metadata["section_end"]) == ("Guide", "Use")


PAGE = """<!DOCTYPE html>
<html><head><title>A page</title><style>p { color: red; margin: 0 }</style>
<script>var long = "<p>not text, and much more of it than any separator has, so much that it
would be refused if it were left out of a text and not of a script</p>";</script></head>
<body><h1>Guide</h1>
<p class="first">Words of the guide &mdash; caf&eacute; &amp; more.</p>
<h2>Setup</h2><p>None.</p><ul><li>one</li><li>two</li></ul>
<h2>Use</h2>
<p>None.</p>
<table><tr><td>1</td><td>2</td></tr></table></body></html>
"""
TAGS = [("h1", "part"), ("h2", "section")]


def _semantic(**kwargs: Any) -> HTMLSemanticPreservingSplitter:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is in beta")
        return HTMLSemanticPreservingSplitter(TAGS, **kwargs)


@pytest.mark.parametrize(
    "splitter", [HTMLHeaderTextSplitter(TAGS), HTMLSectionSplitter(TAGS), _semantic()]
)
def test_a_splitter_that_drops_tags_is_refused_with_advice(splitter: Splitter) -> None:
    name = type(splitter).__name__

    with pytest.raises(SplittingError, match=rf"from {name}, .*for HTML.*from_language"):
        find_spans(PAGE, splitter)


class Dropping:
    """Leaves out a part of the text."""

    def __init__(self, drop: str) -> None:
        self.drop = drop

    def split_text(self, text: str) -> list[str]:
        return [line for line in text.split("\n") if not re.search(self.drop, line)]


DROPPABLE = "\n".join(f"Line {number} says something of some length" for number in range(300))


@pytest.mark.parametrize(
    ("drop", "message"),
    [
        ("Line 2", r"omit \d+ letters and digits.*in 3 place\(s\), such as 'Line 200 says"),
        (
            r"Line \d*[357] ",
            r"omit \d+ letters and digits.*in 90 place\(s\), such as 'Line \d*[357]",
        ),
    ],
)
def test_dropped_text_is_refused(way: fakes.Way, drop: str, message: str) -> None:
    indexer = RSEIndexer(
        InMemoryVectorStore(fakes.BagOfWords()), InMemoryByteStore(), text_splitter=Dropping(drop)
    )

    with pytest.raises(
        SplittingError, match=rf"document 'lines\.txt': the chunks from Dropping {message}"
    ):
        way.add(indexer, [Document(DROPPABLE, metadata={"source": "lines.txt"})])


class OwnSpans(Dropping):
    """Says itself where its chunks lie."""

    def __init__(self, *spans: Any) -> None:
        super().__init__("")
        self.spans = list(spans)

    def split_spans(self, _: str) -> list[Span]:
        return self.spans


def test_a_splitter_may_know_where_its_chunks_lie() -> None:
    spans = [Span(0, 2, "ab"), Span(2, 4, "header: cd", {"page": 1})]

    assert find_spans("abcd", OwnSpans(*spans)) == spans


@pytest.mark.parametrize("places", [[(1, 4)], [(0, 2), (3, 4)], [(0, 4), (4, 4)], [(0, 2)], []])
def test_what_a_splitter_says_has_to_tile_the_text(places: list[tuple[int, int]]) -> None:
    got = ", ".join(f"{start} to {end}" for start, end in places)
    with pytest.raises(SplittingError, match=f"OwnSpans.split_spans do not tile.*got {got}$"):
        find_spans("abcd", OwnSpans(*(Span(*place, "") for place in places)))
