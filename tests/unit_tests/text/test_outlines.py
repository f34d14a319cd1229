"""Outlines of random documents, compared with parsers that know their formats."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from markdown_it import MarkdownIt

from langchain_rse.text.headings import Section, outline

WORDS = ["alpha", "Beta", "gamma", "delta's"]
MORE_WORDS = [*WORDS, "C#", "naïve", "3D", "x=1", "_under_", "**bold**", "`code`", "Größe"]


class Expected(NamedTuple):
    title: str
    level: int
    start: int


def with_ends(expected: list[Expected], length: int) -> list[Section]:
    """The sections of headings; each ends at the next one that is not below it."""
    sections = []
    for number, (title, level, start) in enumerate(expected):
        ends = [later.start for later in expected[number + 1 :] if later.level <= level]
        sections.append(Section(title, level, start, min(ends, default=length)))
    return sections


def random_title(chance: random.Random) -> str:
    return " ".join([chance.choice(["Some", "Other", "Words"]), *chance.choices(MORE_WORDS, k=3)])


def paragraph(chance: random.Random) -> str:
    lines = [" ".join(chance.choices(WORDS, k=6)) + "." for _ in range(chance.randint(1, 3))]
    return "\n".join(lines)


def markdown(chance: random.Random) -> str:
    """Headings of both kinds, the higher underlined first, as find_headings reads levels."""
    blocks = ["First\n=====", paragraph(chance), "Second\n------"]
    for _ in range(chance.randint(2, 12)):
        marks = "#" * chance.randint(1, 6)
        blocks += [
            paragraph(chance),
            chance.choice(
                [
                    f"{marks} {random_title(chance)}",
                    f"  {marks}  {random_title(chance)} {marks}  ",
                    f"{random_title(chance)}\n{chance.choice('=-') * 60}",
                    f"```\n# no heading\n\n{paragraph(chance)}\n```",
                    f"- item\n- {random_title(chance)}",
                    f"> {random_title(chance)}",
                ]
            ),
        ]
    return "\n\n".join([*blocks, paragraph(chance)]) + "\n"


def markdown_headings(text: str) -> list[Expected]:
    lines = text.splitlines(keepends=True)
    tokens = MarkdownIt().parse(text)
    expected = []
    for number, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            start = sum(map(len, lines[: token.map[0]]))
            expected.append(Expected(tokens[number + 1].content, int(token.tag[1]), start))
    return expected


def restructured(chance: random.Random) -> str:
    """Titles of up to four levels, each with a mark of its own, the highest perhaps overlined."""
    is_overlined = chance.random() < 0.5
    # Above a title, a line of tildes is taken for the fence of a Markdown block.
    marks = chance.sample('=-^"*+' if is_overlined else '=-~^"*+', 4)
    blocks = []
    level = 0
    for number in range(chance.randint(2, 12)):
        level = chance.randint(0, min(level + 1, 3)) if number else 0
        name = f"Topic {number} {' '.join(chance.choices(WORDS, k=2))}"
        line = marks[level] * (len(name) + chance.randint(0, 3))
        over = f"{line}\n" if is_overlined and level == 0 else ""
        blocks += [f"{over}{name}\n{line}", paragraph(chance)]
    return "\n\n".join(blocks) + "\n"


def restructured_headings(text: str) -> list[Expected]:
    expected: list[Expected] = []
    tree = publish_doctree(text, settings_overrides={"doctitle_xform": False, "report_level": 5})

    def visit(node: nodes.Element, level: int) -> None:
        for child in node.children:
            if isinstance(child, nodes.section):
                name = child[0].astext()
                found = text.index(f"{name}\n", expected[-1].start + 1 if expected else 0)
                above = text[:found].rpartition("\n\n")[2]
                expected.append(Expected(name, level, found - len(above)))
                visit(child, level + 1)

    visit(tree, 1)
    return expected


@pytest.mark.parametrize(
    ("write", "parse"), [(markdown, markdown_headings), (restructured, restructured_headings)]
)
def test_outlines_of_random_documents(
    write: Callable[[random.Random], str], parse: Callable[[str], list[Expected]]
) -> None:
    for seed in range(200):
        text = write(random.Random(seed))  # noqa: S311
        expected = parse(text)
        assert len(expected) >= 2
        assert outline(text) == with_ends(expected, len(text)), text


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("# C#", "C#"),
        ("## Title ##", "Title"),
        ("\ufeff# Title", "Title"),
        ("# Using List<String>", "Using List<String>"),
        ('# <a name="x"></a>Title &amp; more', "Title & more"),
        ("# What == means =", "What == means ="),
        ("## H<sub>2</sub>O<br/>and <em>more</em>", "H2O and more"),
        ("Title #\n-------", "Title #"),
        ("=======\n Title\n=======", "Title"),
        ("Title of\nlines\n--------", "Title of lines"),
        ("4.2 Scope", "4.2 Scope"),
        ("Article IV - Scope", "Article IV - Scope"),
    ],
)
def test_titles_have_no_marks(heading: str, title: str) -> None:
    text = f"{heading}\n\nText."
    assert outline(text) == [Section(title, outline(text)[0].level, 0, len(text))]
    assert outline(text.replace("\n", "\r\n"))[0].title == title
