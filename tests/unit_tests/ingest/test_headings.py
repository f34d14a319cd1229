"""What a user relies on where documents have headings and fenced code: where chunks end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter

from langchain_rse import RSERetriever
from langchain_rse.indexer import default_text_splitter
from langchain_rse.ingest.splitting import find_spans
from langchain_rse.ingest.tables import find_tables
from langchain_rse.text.headings import find_fences, find_headings
from tests.unit_tests import fakes
from tests.unit_tests.fakes import Way

way = fakes.way

SENTENCE = "The heron waits in the reeds until a fish comes near. "
PIPELINES = (
    "cat herons.txt | sort | uniq -c\ngrep -v carp f | sort | head -5\nls | wc -l | tail -1\n" * 12
)


def chunks_of(text: str, size: int = 800) -> list[str]:
    spans = find_spans(text, default_text_splitter(size))
    assert "".join(text[span.start : span.end] for span in spans) == text
    return [text[span.start : span.end].strip() for span in spans]


HEADINGS = {
    "Markdown": "## The heron",
    "Markdown, indented": "   # The heron",
    "Markdown, with code": "### `heron.wait(time)`",
    "AsciiDoc": "== The heron",
    "underlined by =": "The heron\n=========",
    "underlined by *": 'The "heron"\n***********',
    "overlined": "===========\n The heron\n===========",
    "underlined, of two lines": "Where the heron waits, and\nhow\n--------------------------",
    "numbered": "4.2 The heron",
    "chapter by number": "4. THE HERON",
    "section": "Section 4.1 The Heron",
    "article": "Article IV",
    "chapter": "CHAPTER 3",
    "item": "Item 7A. Herons",
    "appendix": "Appendix B",
}

PROSE = {
    "items apart from one another": "1. Wait for the heron\n\n2. Count it\n\n3. Go home",
    "an item above code": "1. Count the herons\n\n    count herons",
    "items without lines between them": "1. Wait for the heron\n2. Count it\n3. Go home\n4. Eat",
    "numbers in broken lines": "The lakes had\n1 Heron and\n2 Carps, and\n3 Pikes ate\n4 More",
    "rows of numbers": "1 Heron\nfish\n2 Carp\nplants\n3 Pike\ncarps",
    "lines that are wider than the line under them": "The heron\nis a bird of lakes\n---------",
    "a row of contents": "4.2 The heron ........ 17",
    "a number in prose": "The herons of the lake ate\n4.2 Million carps and\n3.1 Million pikes.",
    "a sentence about a section": "Part I of the book is about herons",
    "a table of Markdown": "| heron | carp |\n|---|---|\n| 1 | 2 |",
    "a horizontal rule": "The heron is a bird.\n\n---\n\nThe carp is a fish.",
    "a signature": "Best regards\nA. Heron\n-----",
    "a comment in code": "```sh\n# count the herons\ncount herons\n```",
    "a comment in a list's fence": "- ```\n  # count the herons\n  ```",
    "an indented comment": "def count():\n    # count the herons\n    return 3",
    "code of AsciiDoc": "[source,bash]\n----\ncd lake\ncount herons\n----",
    "a tag": "#herons",
    "a very long line": "# " + "heron " * 20_000,
}


@pytest.mark.parametrize("kind", HEADINGS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=repr)
@pytest.mark.parametrize("before", ["", f"{SENTENCE}\n\n"], ids=["first", "later"])
def test_a_heading_is_in_the_chunk_of_the_text_below_it(
    kind: str, line_end: str, before: str
) -> None:
    heading = HEADINGS[kind]
    text = f"{before}{heading}\n\n{SENTENCE * 12}".replace("\n", line_end)
    shown_heading = heading.replace("\n", line_end)
    (found,) = find_headings(text)
    assert text[found.start : found.end].strip() == shown_heading.strip()
    # Whatever room is left for it, also if it is as long as the heading.
    for size in range(250, 330, 4):
        chunks = chunks_of(text, size)
        assert not any(chunk.endswith(shown_heading.strip()) for chunk in chunks)
    chunks = chunks_of(text, 300)
    assert sum(shown_heading.strip() in chunk for chunk in chunks) == 1


@pytest.mark.parametrize("kind", PROSE)
def test_what_may_be_prose_is_no_heading(kind: str) -> None:
    assert find_headings(f"{SENTENCE}\n\n{PROSE[kind]}\n\n{SENTENCE}") == []


PROGRAMS = {
    "Python": "import os\n\n# Count the herons\ncount = 0\n\n# And the carps\nfor carp in lake:\n"
    "    count += 1\n",
    "Dockerfile": "# The base image\nFROM python:3.12\n\n# Install\nRUN pip install herons\n",
    "shell": "#!/bin/sh\n# Stop at errors\nset -e\n\n# Count\nfor each in lakes; do\n",
    "YAML": "# The lakes\nlakes:\n  - name: big\n\n# The birds\nbirds: 3\n",
    "TOML": "# The project\n[project]\nname = 'herons'\n\n# Tools\n[tool.heron]\n",
    "a comment of HTML": "<!--\n# Herons\n-->\n<p>They fish.</p>\n",
    "preformatted text": "<PRE class='x'>\n# Herons\n\nThey fish.\n</PRE>\n",
    "a script of HTML": "<script>\n# Herons\n\nfish()\n</script>\n",
}


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=repr)
def test_comments_of_programs_are_no_headings(kind: str, line_end: str) -> None:
    assert find_headings(PROGRAMS[kind].replace("\n", line_end)) == []


@pytest.mark.parametrize(
    "titles",
    [
        ["1 Herons", "1.1 Food", "1.2 Nests", "2 Carps", "2.1 Food", "4 Pikes of the North"],
        ["1. HERONS", "2. CARPS", "3. PIKES"],
        ["1. Herons", "1.1. wait(time)", "1.1.1. Carps as Food", "1.2. Nests"],
        ["1 Herons", "2 Where the heron\nwaits", "3 Carps"],
    ],
)
def test_numbered_headings_that_follow_one_another_need_no_empty_lines(titles: list[str]) -> None:
    contents = "1 Fish\n1.1 Carps\n2 Newts\n\n"
    text = contents + "\n".join(f"{title}\n{SENTENCE * 9}" for title in titles)
    found = [text[each.start : each.end] for each in find_headings(text)]
    assert found[-len(titles) :] == titles
    assert not any(chunk.endswith(tuple(titles)) for chunk in chunks_of(text, 300))


def test_headings_around_code_are_found() -> None:
    text = (
        "# Herons\nThey fish:\n\n```\n# count\ncount()\n```\n\n# Carps\n\n<!-- # no -->\n"
        "<pre># unclosed\n\n## Pikes\nimport them.\n\n# Perches\n"
    )
    titles = [text[each.start : each.end] for each in find_headings(text)]
    assert titles == ["# Herons", "# Carps", "## Pikes", "# Perches"]


def test_small_sections_share_a_chunk_up_to_the_next_of_a_higher_level() -> None:
    small = [f"## Bird {number}\n\n{SENTENCE}" for number in range(9)]
    text = "\n\n".join(["# Birds", *small[:5], "# More birds", *small[5:]])
    chunks = chunks_of(text, 500)
    assert [chunk.splitlines()[0] for chunk in chunks] == ["# Birds", "# More birds"]


def test_a_long_section_is_cut_at_paragraphs_and_the_next_one_follows_its_end() -> None:
    paragraphs = [f"{SENTENCE * 4}".strip() for _ in range(4)]
    long_section = "\n\n".join(["# Long", *paragraphs])
    text = f"{long_section}\n\n# Short\n\n{SENTENCE}\n\n# Long again\n\n{SENTENCE * 14}"
    chunks = chunks_of(text, 500)
    assert chunks[0] == f"# Long\n\n{paragraphs[0]}\n\n{paragraphs[1]}"
    assert chunks[1] == f"{paragraphs[2]}\n\n{paragraphs[3]}\n\n# Short\n\n{SENTENCE.strip()}"
    assert chunks[2].startswith("# Long again")


def test_a_heading_stands_with_the_first_rows_of_a_table() -> None:
    rows = "".join(f"| Delta-{number} | {number} |\n" for number in range(60))
    text = f"{SENTENCE * 3}\n\n## Plants\n\n| plant | staff |\n| --- | --- |\n{rows}"
    spans = find_spans(text, default_text_splitter(400))
    (chunk,) = [text[span.start : span.end] for span in spans if "## Plants" in span.embedded_text]
    assert chunk.startswith("## Plants\n\n| plant | staff |\n| --- | --- |\n| Delta-0 |")
    assert spans[2].embedded_text.startswith("| plant | staff |\n| --- | --- |\n| Delta-")


@pytest.mark.parametrize("text", [PIPELINES, f"```\na,b\n1,2\n3,4\n```\n{PIPELINES}"])
def test_pipelines_and_code_are_no_tables(text: str) -> None:
    assert find_tables(text, find_fences(text)) == []
    spans = find_spans(text, default_text_splitter(200))
    assert len(spans) > 3
    assert not any(span.table_header for span in spans)


TEXT = st.integers(1, 12).map(lambda count: SENTENCE * count)
LONG_WORD = st.integers(1, 300).map(lambda count: "x" * count)
TITLE = st.integers(0, 9999).map(lambda number: f"Bird {number}")
HEADING = st.one_of(
    st.builds("{} {}".format, st.sampled_from(["#", "##", "####"]), TITLE),
    TITLE.map(lambda title: f"{title}\n{'=' * len(title)}"),
)
CODE = st.builds(
    lambda fence, lines: f"{fence}\n" + "heron = 1\n\n# wait\n" * lines + fence,
    st.sampled_from(["```", "~~~", "````"]),
    st.integers(1, 12),
)
BLOCKS = st.lists(
    st.one_of(
        st.tuples(st.just("heading"), HEADING),
        st.tuples(st.just("text"), st.one_of(TEXT, LONG_WORD)),
        st.tuples(st.just("code"), CODE),
    ),
    max_size=25,
)


@given(BLOCKS, st.sampled_from(["\n", "\r\n"]), st.integers(150, 500))
def test_chunks_of_any_document_end_before_headings_and_outside_of_code(
    blocks: list[tuple[str, str]], line_end: str, size: int
) -> None:
    text = ""
    headings_start: int | None = None  # of headings in a row
    endings: set[int] = set()  # where no chunk may end
    uncut: list[tuple[int, int]] = []
    for kind, block in blocks:
        start = len(text)
        text += block.replace("\n", line_end)
        if kind == "heading":
            headings_start = start if headings_start is None else headings_start
            fits = len(text) + len(2 * line_end) + 1 - headings_start <= size / 2
            if fits:
                endings.add(len(text))
            else:  # too many in a row are cut between two
                endings.discard(len(text[:start].rstrip()))
                headings_start = start
        else:
            first = start if headings_start is None else headings_start
            if kind == "code" and len(text) + len(line_end) - first <= size:
                uncut.append((start, len(text)))
            headings_start = None
        text += 2 * line_end
    spans = find_spans(text, default_text_splitter(size))
    assert "".join(text[span.start : span.end] for span in spans) == text
    last = len(text.rstrip())
    for span in spans:
        chunk = text[span.start : span.end]
        assert len(chunk.strip()) <= size
        end = span.start + len(chunk.rstrip())
        assert end == last or end not in endings
        for start, stop in uncut:
            assert not start < span.start < stop


@fakes.both_ways
def test_passages_of_other_splitters_do_not_end_with_a_heading(way: Way) -> None:
    parts = [
        "# Herons\n\nherons wait in reeds for dawn\n\n## Carps\n",
        "carps swim in ponds at noon\n\n## Oaks\n",
        "oaks grow on hills near towns\n\n## Ends\n",
    ]
    text = "<cut>".join(parts)
    splitter = CharacterTextSplitter(
        "<cut>", chunk_size=60, chunk_overlap=0, keep_separator="start", strip_whitespace=False
    )
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(fakes.BagOfWords()),
        docstore=InMemoryStore(),
        text_splitter=splitter,
        k=1,
        max_context_length=60,
    )
    way.add(retriever, [Document(text, metadata={"source": "birds.md"})])
    (herons,) = way.invoke(retriever, "herons wait in reeds")
    assert herons.page_content == "# Herons\n\nherons wait in reeds for dawn\n\n"
    start, end = herons.metadata["start_index"], herons.metadata["end_index"]
    assert herons.page_content == text[start:end]
    (oaks,) = way.invoke(retriever, "oaks grow on hills")
    assert oaks.page_content.endswith("## Ends\n")  # as the document does
