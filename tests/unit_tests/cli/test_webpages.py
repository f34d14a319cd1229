"""Web pages are read as Markdown: their content, without what stands on every page of a site."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_rse.cli.webpages import read_html
from langchain_rse.ingest.tables import find_tables

MAIN_TEXT = "The main text of this page is about cats, which sleep most of the day."


def text_of(html: str) -> str:
    return read_html(html)[0]


def lines_of(html: str) -> list[str]:
    return [line for line in text_of(html).splitlines() if line]


# How the content is written


def test_headings_paragraphs_and_breaks() -> None:
    page = """<h1>Cats <a class="headerlink" href="#cats">¶</a></h1><p>Cats <b>sleep</b>
      most   of<br>the day.</p><div>A line.</div><div>Another.</div><h3>Their
      <br>food</h3>Fish."""
    assert text_of(page) == (
        "# Cats\n\nCats sleep most of  \nthe day.\n\nA line.\n\nAnother.\n\n### Their food\n\nFish."
    )


def test_only_signs_that_link_to_a_heading_are_left_out() -> None:
    page = '<h2>B<a href="#b">#</a></h2><p>C <a href="#1">1</a>, <a href="x.html">§</a></p>'
    assert text_of(page) == "## B\n\nC 1, §"


def test_lists_keep_marks_numbers_and_depth() -> None:
    page = """<ol><li>Open the box<li><p>Feed the cat:</p><ul><li>fish</li><li>milk</li></ul>
      <li>Close it</ol><dl><dt>cat</dt><dd>a small animal</dd><dt>dog</dt><dd>another</dd></dl>"""
    assert lines_of(page) == [
        "1. Open the box",
        "2. Feed the cat:",
        "  - fish",
        "  - milk",
        "3. Close it",
        *("cat", "a small animal", "dog", "another"),
    ]


def test_code_keeps_its_lines_and_indentation() -> None:
    page = f"""<p>{MAIN_TEXT}</p><pre>
<span>def</span> f():

    # not a heading
    return 1<br>f()
</pre><p>After.</p>"""
    assert text_of(page) == (
        f"{MAIN_TEXT}\n\n```\ndef f():\n\n    # not a heading\n    return 1  \nf()\n```\n\nAfter."
    )


@pytest.mark.parametrize("cell", ["th", "td"])
def test_tables_are_found_with_their_header_rows(cell: str) -> None:
    header = f"<thead><tr><{cell}>Name<{cell}>Legs</thead>"
    rows = "".join(f"<tr><td>animal {n}<td><p>{n}\n legs</p>" for n in range(3))
    table_tag = f"<table><caption>Legs</caption>{header}{rows}</table>"
    text = text_of(f"<p>Animals:</p>{table_tag}<p>End.</p>")
    assert text == (
        "Animals:\n\nLegs\n\n| Name | Legs |\n|---|---|\n| animal 0 | 0 legs |\n"
        "| animal 1 | 1 legs |\n| animal 2 | 2 legs |\n\nEnd."
    )
    (table,) = find_tables(text)
    assert table.header == "| Name | Legs |\n|---|---|"
    assert len(table.rows) == 5  # the starts of four rows, and the end


def test_tables_that_arrange_a_page_are_read_as_text() -> None:
    code = "<table><tr><td>left<td><pre>a = 1\nb = 2</pre><tr><td>right<td>x</table>"
    assert lines_of(f"<p>{MAIN_TEXT}</p>{code}")[1:] == [
        *("left", "```", "a = 1", "b = 2", "```", "right", "x")
    ]
    inner = "<table><tr><th>a<th>b<tr><td>1<td>2</table>"
    outer = f"<table><tr><td>left<td>{inner}<tr><td>right<td>x</table>"
    assert lines_of(outer) == ["left", "| a | b |", "|---|---|", "| 1 | 2 |", "right", "x"]
    assert lines_of("<table><tr><td>one<tr><td>two</table>") == ["one", "two"]
    article = f"<tr><td>{MAIN_TEXT * 20}<p>{MAIN_TEXT}</p><td>side"
    assert lines_of(f"<table>{article}{article}</table>")[1:3] == [MAIN_TEXT, "side"]


def test_the_title_is_no_text() -> None:
    icon = "<svg><title>Copy</title></svg><title>Cats</title><p>Text."
    assert read_html(icon) == ("Copy\n\nText.", "Cats")
    page = read_html("<title> About\n cats</title><svg><title>Copy</title></svg><p>Text.")
    assert page == ("Copy\n\nText.", "About cats")


# What is left out


MDBOOK = f"""<title>Ownership - The Book</title><body><div id="mdbook-help-popup">
<h2>Keyboard shortcuts</h2><p>Press <kbd>S</kbd> to search</p></div>
<nav id="sidebar"><ol><li><a href="a.html">Chapter 1</a></ol></nav><div class="page">
<div id="menu-bar"><button>Themes</button><ul id="theme-list" role="menu"><li role="none">
<button>Light</button><li><button>Coal</button><li><button>Ayu</button></ul>
<h1 class="menu-title">The Book</h1></div>
<main><h1 id="o"><a class="header" href="#o">Ownership</a></h1><p>{MAIN_TEXT}</p></main>
<nav><a href="b.html">Next chapter</a></nav></div></body>"""

SPHINX = f"""<title>Cats — 1.0</title><div class="related" role="navigation"><h3>Navigation</h3>
<ul><li><a href="genindex.html">index</a></ul></div><div class="document"><div class="body"
role="main"><section id="cats"><h1>Cats<a class="headerlink" href="#cats">¶</a></h1>
<p>{MAIN_TEXT}</p></section></div></div><div class="sphinxsidebar"><h3>Quick search</h3></div>
<div class="footer">Copyright 2026.</div>"""

WITHOUT_MAIN = f"""<title>Cats</title><div role="menu"><ul><li><a href="x.html">Other page</a></ul>
<a href="y.html">Home</a> | <a href="z.html">About</a></div><header><a href="/">Logo</a></header>
<h1>Cats</h1><p>{MAIN_TEXT}</p>
<div role="dialog">We use cookies</div><footer>Copyright 2026</footer>"""

TEXINFO = f"""<title>Cats (Pets)</title><div class="header"><p>Next: <a href="dogs.html"
rel="next">Dogs</a>, Up: <a href="pets.html" rel="up">Pets</a></p></div><h1>Cats</h1>
<p>{MAIN_TEXT}</p><div class="header"><p>Next: <a href="dogs.html">Dogs</a> &nbsp; [<a
href="Index.html" rel="index">Index</a>]</p></div>"""


@pytest.mark.parametrize(
    ("page", "heading"),
    [(MDBOOK, "Ownership"), (SPHINX, "Cats"), (WITHOUT_MAIN, "Cats"), (TEXINFO, "Cats")],
    ids=["mdbook", "sphinx", "without main", "texinfo"],
)
def test_boilerplate_is_left_out(page: str, heading: str) -> None:
    assert text_of(page) == f"# {heading}\n\n{MAIN_TEXT}"


def test_a_table_of_contents_is_left_out() -> None:
    contents = """<div class="contents topic"><p>Contents</p><ul><li><a href="#f">7. Food</a>
      </ul></div>"""
    body = f"<h2 id=f>1 Food</h2><p>{MAIN_TEXT}</p>"
    assert text_of(f"<h1>Cats</h1>{contents}{body}") == f"# Cats\n\n## 1 Food\n\n{MAIN_TEXT}"


# What must not get lost


@pytest.mark.parametrize("depth", [140, 5_000])
def test_a_page_of_any_depth_is_read(depth: int) -> None:
    page = f"{'<div>' * depth}<p>Cats sleep.<p>Dogs bark.{'</div>' * depth}<p>End."
    assert lines_of(page) == ["Cats sleep.", "Dogs bark.", "End."]


# Any page

BLOCKS = ["article", "aside", "body", "dd", "div", "dl", "dt", "footer", "h1", "h2", "header"]
BLOCKS += ["html", "li", "main", "nav", "ol", "p", "pre", "section", "table", "tbody", "td"]
BLOCKS += ["textarea", "th", "thead", "title", "tr", "ul"]
INLINE = ["a", "b", "br", "button", "code", "ruby", "span", "svg"]
ATTRIBUTES = ["", "", "", ' role="main"', ' role="navigation"', ' id="nav"']


@st.composite
def pages(draw: st.DrawFn) -> str:
    """Tags in any order, with words that are different from each other between them."""
    parts: list[str] = []
    for number in range(draw(st.integers(1, 30))):
        tag = draw(st.sampled_from([*BLOCKS, *INLINE]))
        if draw(st.booleans()):
            tag += draw(st.sampled_from(ATTRIBUTES))
        elif draw(st.booleans()):
            tag = f"/{tag}"
        parts.append(f"<{tag}> word{number} ")
    return "".join(parts)


@given(pages())
def test_words_are_read_once_in_their_order(page: str) -> None:
    words = re.findall(r"word\d+", text_of(page.replace("title", "i").replace("button", "i")))
    in_order = [int(word.removeprefix("word")) for word in words]
    assert words
    assert len(set(words)) == len(words)
    assert in_order == sorted(in_order)
